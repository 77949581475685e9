//! What the tuner is told of this backend: whose answers it keeps, what there is to choose from, how a choice runs.

use std::time::Duration;

use polywarp_core::plan::{Caps, Plan};
use polywarp_core::tuner::{Candidate, Chooser, Effort, Identity, Mode, Options, Planned};
use polywarp_core::{Backend, Buffer, DeviceInfo, DeviceKind, Op, Result};

use crate::state::WgpuBackend;

/// What a driver takes for one kernel of a product that it has not compiled before, roughly (docs/tuner.md): more than any first
/// use may wait for. Whether a cache of the driver's own has it nobody tells.
const COMPILE_TIME: Duration = Duration::from_millis(300);

/// The chooser of a device.
pub(crate) fn chooser(info: &DeviceInfo, caps: &Caps) -> Chooser<Plan> {
    // A device opened with less is offered other kernels; its name on this machine says nothing.
    let usable = format!("{:?}", Caps { device: String::new(), ..caps.clone() });
    let identity = Identity::new(info, &[polywarp_core::ops::KERNELS, &usable]);
    // Nobody waits for a simulation to be tuned, and its times say little.
    let (mode, effort) = match info.kind {
        DeviceKind::Software => (Mode::Off, Effort::Small),
        _ => (Mode::Full, Effort::Normal),
    };
    Chooser::new(identity, Options::from_env(mode, effort))
}

impl Planned for WgpuBackend {
    type Plan = Plan;

    fn backend(&self) -> &dyn Backend {
        self
    }

    fn copying(&self, bytes: u64) -> Result<Op> {
        Ok(polywarp_core::ops::Copy::of_bytes(bytes)?.into())
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Plan>>> {
        polywarp_core::ops::candidates(op, self.caps())
    }

    fn plan(&self, op: &Op) -> Result<Plan> {
        polywarp_core::ops::plan(op, self.caps())
    }

    fn scratch<'a>(&self, plan: &'a Plan) -> &'a [u64] {
        &plan.scratch_bytes
    }

    fn compile_time(&self, plan: &Plan) -> Duration {
        let compiles = plan.launches.iter().filter(|launch| !self.pipelines.has(&launch.kernel)).count();
        COMPILE_TIME.saturating_mul(u32::try_from(compiles).unwrap_or(u32::MAX))
    }

    fn run(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.run_plan(plan, inputs, outputs)
    }

    fn records(&self) -> bool {
        self.recorders.recording()
    }
}
