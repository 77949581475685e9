//! Users' kernels: WGSL and SPIR-V that are trusted with nothing. CUDA's own forms are `launch/foreign.rs`'s.
//!
//! A kernel is read (`polywarp_shaders::wgsl`) and compiled once per (text, entry point, defines), with every index
//! clamped, workgroup memory zeroed and loops bounded: PTX itself checks nothing. Bindings are checked against the
//! kernel's own declarations at every launch. Only the bytes of a binding's range are visible to the kernel.

use std::sync::Arc;

use polywarp_core::{Binding, Code, Error, Kernel as Text, Part, Result};
use polywarp_shaders::wgsl::read_kernel;

use crate::options::CAPABILITIES;
use crate::params::Bound;
use crate::state::CudaBackend;
use crate::user::UserKernel;

mod foreign;

impl CudaBackend {
    pub(crate) fn run_user(&self, text: &Text, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.fault().check()?;
        if let Code::Cuda { code, signature } = &text.code {
            return self.run_foreign(text, code, signature, grid, bindings);
        }
        let start = self.requests.begin();
        let compiled = self.user_kernel(text)?;
        let limits = &self.launch_limits;
        let checked = compiled.interface.check_bindings(limits, bindings, |buffer| Ok(self.own(buffer)?.lease()))?;
        limits.check_grid(grid)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let kernel = &compiled.kernel;
        let bound: Vec<Bound> = checked
            .iter()
            .map(|binding| Bound {
                group: binding.declared.group,
                binding: binding.declared.binding,
                address: binding.memory.address() + binding.offset_bytes,
                bytes: binding.bytes,
            })
            .collect();
        let params = kernel.metadata.pack(&bound, &[]).map_err(|why| {
            let message = format!("its bindings do not fit, which is a bug of polywarp, please report it: {why}");
            Error::Shader { line: 0, column: 0, message }
        })?;
        let leases = checked.iter().map(|binding| binding.memory);
        // SAFETY: the parameters are the kernel's own, packed for it. Every address is of a live buffer and its size is
        // passed beside it; the kernel was compiled to stay inside. A buffer that is dropped before the kernel ran goes
        // to the pool, and its next owner's work comes later on the stream.
        unsafe { self.give(kernel, grid, params.bytes(), leases)? };
        self.requests.end(start, Part::default(), &kernel.name);
        Ok(())
    }

    fn user_kernel(&self, text: &Text) -> Result<Arc<UserKernel>> {
        if let Some(compiled) = self.user_kernels.get(text) {
            return Ok(compiled);
        }
        let read = read_kernel(self.id(), text, CAPABILITIES)?;
        self.launch_limits.check_resources(&read.interface)?;
        let entry = &read.interface.entry;
        let identity = match &text.code {
            Code::SpirV(module) => format!("user kernel {entry} {:?}\nSPIR-V {module:?}", read.interface.constants),
            _ => format!("user kernel {entry} {:?}\n{}", read.interface.constants, text.wgsl_text()),
        };
        let kernel = Arc::new(self.with_room(|| self.kernels.compiler.users(&read, text.wgsl_text(), &identity))?);
        Ok(self.user_kernels.insert(text, UserKernel { interface: read.interface, kernel }))
    }
}
