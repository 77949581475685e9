//! Launching: a plan's kernels, or a user's, on a backend's buffers, into the stream or the calling thread's recording.

use std::sync::Arc;

use polywarp_core::plan::{Plan, Slot};
use polywarp_core::{Backend, Binding, Buffer, Error, Kernel, Part, Result};

use crate::fault::lock;
use crate::memory::Raw;
use crate::state::WgpuBackend;
use crate::user::{Compiler, UserKernel};

impl WgpuBackend {
    /// Runs `plan` on buffers of this backend: what [`Backend::execute`] does with the plan of its op.
    ///
    /// # Errors
    /// As [`Backend::execute`]; [`Error::InvalidArgument`] for a plan that names a buffer there is not.
    pub fn run_plan(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.fault.check()?;
        let inputs = inputs.iter().map(|input| self.own(input)).collect::<Result<Vec<_>>>()?;
        let outputs = outputs.iter().map(|output| self.own(output)).collect::<Result<Vec<_>>>()?;
        let scratch = plan.scratch_bytes.iter().map(|&bytes| self.alloc(bytes)).collect::<Result<Vec<_>>>()?;
        let scratch_raws = scratch.iter().map(|buffer| self.own(buffer)).collect::<Result<Vec<_>>>()?;
        let pipelines = plan.launches.iter().map(|launch| self.pipelines.get(&launch.kernel, launch.params.len()));
        // All kernels exist before the first is recorded: an op is recorded whole or not at all.
        let pipelines = pipelines.collect::<Result<Vec<_>>>()?;
        self.whole_or_not(|| {
            let mut stream = lock(&self.stream);
            let mut buffers: Vec<&Arc<Raw>> = Vec::with_capacity(8);
            for (launch, pipeline) in plan.launches.iter().zip(&pipelines) {
                buffers.clear();
                for slot in &launch.bindings {
                    let found = match *slot {
                        Slot::Input(index) => inputs.get(index).copied(),
                        Slot::Output(index) => outputs.get(index).copied(),
                        Slot::Scratch(index) => scratch_raws.get(index).copied(),
                    };
                    let Some(found) = found else {
                        let reason = format!("it names {slot:?}, which there is not");
                        return Err(Error::InvalidArgument { what: "plan", reason });
                    };
                    buffers.push(found);
                }
                stream.launch(pipeline, &buffers, &launch.params, launch.grid)?;
            }
            Ok(())
        })
    }

    pub(crate) fn run_user(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        let start = self.requests.begin();
        self.fault.check()?;
        let compiled = self.user_kernel(kernel)?;
        let limits = &self.launch_limits;
        let checked = compiled.interface().check_bindings(limits, bindings, |buffer| self.own(buffer))?;
        limits.check_grid(grid)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let (pipeline, name) = compiled.pipeline();
        lock(&self.stream).launch_user((pipeline, name), compiled.groups(&checked), grid)?;
        self.requests.end(start, Part::default(), name);
        Ok(())
    }

    fn user_kernel(&self, kernel: &Kernel) -> Result<Arc<UserKernel>> {
        if let Some(compiled) = self.user_kernels.get(kernel) {
            return Ok(compiled);
        }
        let compiler = Compiler {
            device: self.fault.device(),
            gpu: &self.gpu,
            limits: &self.launch_limits,
            max_loop_rounds: self.caps.max_loop_rounds,
            writes_glsl: self.pipelines.writes_glsl(),
        };
        Ok(self.user_kernels.insert(kernel, compiler.kernel(kernel)?))
    }
}
