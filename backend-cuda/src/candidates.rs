//! Which of several ways computes an op: kernels in CUDA C++ where they serve it, WGSL otherwise.
//!
//! Every way is a [`Candidate`]: native ones first, in the order of `polywarp_kernels::candidates`, then portable ones, in the
//! order of `polywarp_shaders::candidates`. [`CudaBackend::choose`] is the one place where one is picked. Tests and
//! benchmarks list all of them and run each on purpose.

use polywarp_core::{Buffer, Error, Op, Result};

use crate::device::CudaBackend;

/// One way to compute an op.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// What its planner thinks it takes; comparable within one kind of [`Work`].
    #[expect(dead_code, reason = "ranking is done by the planners")]
    pub(crate) estimate_ns: f64,
    pub(crate) work: Work,
}

/// What is run.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Kernels in CUDA C++.
    Native(polywarp_kernels::Plan),
    /// Kernels in WGSL, compiled to PTX.
    Portable(polywarp_shaders::Plan),
}

impl Work {
    /// Sizes of its scratch buffers.
    pub(crate) fn into_scratch_bytes(self) -> Vec<u64> {
        match self {
            Work::Native(plan) => plan.scratch_bytes,
            Work::Portable(plan) => plan.scratch_bytes,
        }
    }
}

impl CudaBackend {
    /// The way in which [`polywarp_core::Backend::execute`] computes `op`.
    pub(crate) fn choose(&self, op: &Op) -> Result<Work> {
        for candidate in self.native_candidates(op) {
            if self.is_loaded(&candidate.plan)? {
                return Ok(Work::Native(candidate.plan));
            }
        }
        Ok(Work::Portable(polywarp_shaders::plan(op, self.caps())?))
    }

    /// Names of all ways to compute `op` on this device: native ones, the most promising first, then portable ones.
    ///
    /// # Errors
    /// As [`polywarp_core::Backend::execute`]: there is no portable way.
    pub fn candidates(&self, op: &Op) -> Result<Vec<String>> {
        Ok(self.all(op)?.into_iter().map(|candidate| candidate.name).collect())
    }

    /// Computes `op` in the way of this name, whatever would be chosen otherwise. Buffers are as
    /// [`polywarp_core::Device::execute`] demands them, which checks them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that is none of [`CudaBackend::candidates`]; else as
    /// [`polywarp_core::Backend::execute`].
    pub fn run_candidate(&self, op: &Op, name: &str, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
        check_buffers(op, inputs, output)?;
        if op.output().layout.elements() == 0 {
            return Ok(());
        }
        let found = self.all(op)?.into_iter().find(|candidate| candidate.name == name);
        let reason = || format!("{name} is no way to compute this {} on {}", op.name(), self.id());
        let found = found.ok_or_else(|| Error::InvalidArgument { what: "candidate", reason: reason() })?;
        self.run_work(&found.work, inputs, output)
    }

    /// Runs what was chosen.
    pub(crate) fn run_work(&self, work: &Work, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
        match work {
            Work::Native(plan) => self.run_native(plan, inputs, output),
            Work::Portable(plan) => self.run_plan(plan, inputs, output),
        }
    }

    fn native_candidates(&self, op: &Op) -> Vec<polywarp_kernels::Candidate> {
        if self.machine.any() { polywarp_kernels::candidates(op, self.native_caps()) } else { Vec::new() }
    }

    /// Whether all kernels of `plan` are loaded, now at the latest.
    fn is_loaded(&self, plan: &polywarp_kernels::Plan) -> Result<bool> {
        for launch in &plan.launches {
            if self.machine.get(launch.kernel)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every way to compute `op` whose kernels this card and driver take.
    fn all(&self, op: &Op) -> Result<Vec<Candidate>> {
        let mut all = Vec::new();
        for native in self.native_candidates(op) {
            if self.is_loaded(&native.plan)? {
                let polywarp_kernels::Candidate { name, plan, estimate_ns } = native;
                all.push(Candidate { name, estimate_ns, work: Work::Native(plan) });
            }
        }
        let portable = polywarp_shaders::candidates(op, self.caps())?;
        all.extend(portable.into_iter().map(|portable| {
            let polywarp_shaders::Candidate { name, plan, estimate_ns } = portable;
            Candidate { name, estimate_ns, work: Work::Portable(plan) }
        }));
        Ok(all)
    }
}

/// The rules of [`polywarp_core::Device::execute`], for calls that do not come through it.
fn check_buffers(op: &Op, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
    let (specs, to) = (op.inputs(), op.output());
    let fits = specs.len() == inputs.len()
        && specs.iter().zip(inputs).all(|(spec, buffer)| spec.required_bytes() <= buffer.size_bytes())
        && to.required_bytes() <= output.size_bytes()
        && !inputs.iter().any(|input| input.same(output));
    let reason = || format!("{} takes {} of its own size, and an output that is none of them", op.name(), specs.len());
    if fits { Ok(()) } else { Err(Error::InvalidArgument { what: "buffers", reason: reason() }) }
}
