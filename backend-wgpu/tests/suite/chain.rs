//! Scans in one pass over memory: the same bits whether a workgroup finds what others publish, waits for it, or computes all of it itself.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::entries;
use polywarp_core::harness::{Wrap, Wrapped};
use polywarp_core::ops::{ScanFn, ScanOptions};
use polywarp_core::plan::{KernelKey, KernelText, Source};
use polywarp_core::{Backend, Buffer, Device, Element, Op, Result, Tensor};
use polywarp_wgpu::{Options, WgpuBackend};

const SPINS: &str = "const SPINS = ";

/// A kernel that looks for what others publish another number of times: none at all for 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hasty {
    kernel: KernelKey,
    spins: u32,
}

impl KernelText for Hasty {
    fn source(&self) -> Source {
        let source = self.kernel.source();
        let spins =
            |line: &str| if line.starts_with(SPINS) { format!("{SPINS}{}u;", self.spins) } else { line.to_owned() };
        let wgsl = source.wgsl.lines().map(spins).collect::<Vec<String>>().join("\n");
        assert_ne!(wgsl, source.wgsl, "the number of looks is in the text");
        Source { wgsl, ..source }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.kernel.loop_rounds(params)
    }
}

/// A device on which workgroups that depend on others look so often.
#[derive(Debug)]
struct Impatient {
    backend: WgpuBackend,
    spins: u32,
    chains: AtomicUsize,
}

impl Wrap for Impatient {
    fn inner(&self) -> &dyn Backend {
        &self.backend
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let mut plan = polywarp_core::ops::plan(op, self.backend.caps())?;
        for launch in &mut plan.launches {
            if launch.kernel.source().wgsl.contains(SPINS) {
                launch.kernel = KernelKey::new(Hasty { kernel: launch.kernel.clone(), spins: self.spins });
                self.chains.fetch_add(1, Relaxed);
            }
        }
        self.backend.run_plan(&plan, inputs, outputs)
    }
}

/// The words of a generator with long periods in all bits that are looked at (Marsaglia, "Xorshift RNGs", 2003).
fn words(count: u64) -> Vec<u32> {
    let mut state = 2_463_534_242u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..count).map(|_| next()).collect()
}

fn scanned<T: Element>(device: &Device, values: &[T], dims: &[u64], f: ScanFn, options: ScanOptions) -> Vec<T> {
    let x = Tensor::from_slice(device, values, dims).unwrap();
    x.scan(f, -1, options).unwrap().to_vec::<T>().unwrap()
}

#[test]
fn chains_of_tiles_have_the_same_bits_whoever_computes_a_total() {
    let plain = ScanOptions::default();
    // Tiles of one vector a thread, of one element and of four; 269 tiles of eight vectors, more than are looked at at once.
    let cases: [(&[u64], ScanOptions); 4] = [
        (&[70_001], plain),
        (&[3, 20_484], plain.exclusive().reversed()),
        (&[2, 33_001], plain.reversed()),
        (&[2_200_004], plain.exclusive()),
    ];
    for entry in entries() {
        let usual = Device::new(entry.open(Options::default()).unwrap());
        for spins in [0, 1] {
            let backend = entry.open(Options::default()).unwrap();
            // Each of those 269 would read all before it.
            let cases = if spins == 0 { &cases[..3] } else { &cases[..] };
            let hasty = Device::new(Wrapped(Impatient { backend, spins, chains: AtomicUsize::new(0) }));
            for &(dims, options) in cases {
                let integers = words(dims.iter().product());
                let found = scanned(&hasty, &integers, dims, ScanFn::Sum, options);
                let cpu = scanned(&Device::cpu(), &integers, dims, ScanFn::Sum, options);
                assert!(found == cpu, "u32 {dims:?} {options:?} of {spins} looks");
                for f in [ScanFn::Sum, ScanFn::Prod] {
                    // Of both signs for sums, near one for products.
                    let value = |word: &u32| match f {
                        ScanFn::Prod => 1.0 + (*word as f32 - 2e9) * 1e-13,
                        _ => *word as i32 as f32 * 1e-9,
                    };
                    let floats: Vec<f32> = integers.iter().map(value).collect();
                    let bits = |device: &Device| {
                        let found = scanned(device, &floats, dims, f, options);
                        found.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
                    };
                    assert!(bits(&hasty) == bits(&usual), "f32 {} {dims:?} {options:?} of {spins} looks", f.name());
                }
            }
            let Wrapped(impatient) = hasty.backend_as::<Wrapped<Impatient>>().unwrap();
            assert_eq!(impatient.chains.load(Relaxed), 3 * cases.len(), "{}: every scan is a chain", entry.name);
        }
    }
}
