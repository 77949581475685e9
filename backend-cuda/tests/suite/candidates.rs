//! Every portable and composed way to compute an operation, of those that have several, against the oracle: the harness runs the planner's
//! first. Kernels in CUDA C++ are `native.rs`'s.
//!
//! On the interpreted driver a part of them, another one every day; `POLYWARP_TEST_PART=all` takes all.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::common::{self, assert_alive, ways};
use polywarp_core::harness::{Part, Wrap, Wrapped, run_case};
use polywarp_core::{Backend, Buffer, Device, Op, Result};
use polywarp_cuda::CudaBackend;

/// A device that computes every op in the way of this name.
#[derive(Debug)]
struct Forced {
    backend: Arc<CudaBackend>,
    name: Mutex<String>,
}

impl Wrap for Forced {
    fn inner(&self) -> &dyn Backend {
        &*self.backend
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let name = self.name.lock().unwrap().clone();
        self.backend.run_candidate(op, &name, inputs, outputs)
    }
}

#[test]
fn every_portable_way_conforms() {
    let Some(backend) = common::first() else { return };
    let backend = Arc::new(backend);
    let start = Instant::now();
    let part = if common::interpreted() { Part::today(80) } else { Part::ALL };
    let names = |op: &Op| {
        let native = polywarp_kernels::every(op, backend.native_caps());
        let is_native = |name: &str| native.iter().any(|native| native.name == name);
        let names = backend.candidate_names(op).unwrap_or_default().into_iter().enumerate();
        // The first, native or not, stays: it is what the harness runs, and `ways` leaves it out.
        names.filter(|(at, name)| *at == 0 || !is_native(name)).map(|(_, name)| (name, ())).collect()
    };
    let found = ways::ways(part, names);
    println!("found in {:.1} s", start.elapsed().as_secs_f64());
    let device = Device::new(Wrapped(Forced { backend: Arc::clone(&backend), name: Mutex::default() }));
    let Wrapped(forced) = device.backend_as::<Wrapped<Forced>>().unwrap();
    ways::hold("cuda:0", &found, |way| {
        forced.name.lock().unwrap().clone_from(&way.name);
        run_case(&device, &way.case, 0)
    });
    assert_alive(&*backend);
}
