//! Which of several ways computes an op: kernels in CUDA C++ where they serve it, WGSL otherwise.
//!
//! Every way is a [`Candidate`]: native ones first, in the order of `polywarp_kernels::candidates`, then those that are composed
//! of both (`composed.rs`), then portable ones, in the order of `polywarp_core::ops::candidates`. Three lists of them differ in how far they go:
//!
//! | list | native ways in it | who asks |
//! |---|---|---|
//! | [`Planned::candidates`] | those worth timing and not known to fail to load | the tuner, to choose |
//! | [`Planned::named`] | all not known to fail to load | the tuner, for the small op with which it checks a large one's candidate |
//! | [`CudaBackend::candidate_names`] | all that load | tests and benchmarks, which run each on purpose |

use std::time::Duration;

use polywarp_core::ops::{QuantizedConvolution, ReducedMatmul, RowProgram};
use polywarp_core::tuner::{Candidate, Chooser, Effort, Identity, Mode, Options, Planned, find};
use polywarp_core::{Backend, Buffer, DeviceInfo, Error, Op, Result};

use crate::composed;
use crate::kernels::COMPILER;
use crate::machine;
use crate::state::CudaBackend;
use crate::work::Work;

/// The state of the kernels in CUDA C++, as `build.rs` found it.
const NATIVE: &str = env!("POLYWARP_NATIVE");

/// Portable ways that are offered beside native ones: more are not worth the time of trying them.
const PORTABLE_BESIDE_NATIVE: usize = 2;

/// Ways of native and portable kernels together that are offered.
const COMPOSED: usize = 2;

/// The name of the way by [`polywarp_core::Operation::by_products`].
const BY_PRODUCTS: &str = "products";

/// That of the way by [`polywarp_core::Operation::decompose`], where there are kernels for the whole.
const BY_PARTS: &str = "parts";

/// What the driver's assembler takes for one kernel of a product, between 60 and 860 ms (H200's host, driver 580): more than
/// any first use may wait for.
const COMPILE_TIME: Duration = Duration::from_millis(300);

/// Multiprocessors up to which checks are small: embedded cards, and the interpreted driver of the tests.
const SMALL_CARD: u32 = 4;

/// Which kernels in CUDA C++ are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Natives {
    /// Those that may be the fastest for the op.
    WorthTiming,
    /// These, and those that serve the op but are only worth their time for a larger one.
    Every,
}

/// The chooser of a device.
pub(crate) fn chooser(
    info: &DeviceInfo,
    caps: &polywarp_core::plan::Caps,
    native: &polywarp_kernels::Caps,
) -> Chooser<Work> {
    // Two cards of one name may differ, as slices of a card do; its name on this machine says nothing.
    let portable = format!("{:?}", polywarp_core::plan::Caps { device: String::new(), ..caps.clone() });
    let usable = format!("{:?}", polywarp_kernels::Caps { device: String::new(), ..native.clone() });
    let archive = machine::chosen_archive();
    let parts = [polywarp_core::ops::KERNELS, COMPILER, NATIVE, &archive, &portable, &usable];
    let effort = if native.multiprocessors <= SMALL_CARD { Effort::Small } else { Effort::Normal };
    Chooser::new(Identity::new(info, &parts), Options::from_env(Mode::Full, effort))
}

impl Planned for CudaBackend {
    type Plan = Work;

    fn backend(&self) -> &dyn Backend {
        self
    }

    fn copying(&self, bytes: u64) -> Result<Op> {
        Ok(polywarp_core::ops::Copy::of_bytes(bytes)?.into())
    }

    fn candidates(&self, op: &Op) -> Result<Vec<Candidate<Work>>> {
        let natives = self.natives_to_load(op, Natives::WorthTiming);
        let mut ways: Vec<_> = natives.into_iter().map(|native| native.map(Work::Native)).collect();
        // Reduced alike, so that the best products are the best; beside kernels that reduce as well, what promises more.
        let best = ways.first().map_or(f64::INFINITY, |native| native.estimate_ns);
        ways.extend(self.composed(op, COMPOSED)?.into_iter().filter(|way| way.estimate_ns <= best));
        let most = if ways.is_empty() { usize::MAX } else { PORTABLE_BESIDE_NATIVE };
        ways.extend(self.portable(op)?.take(most));
        Ok(ways)
    }

    fn named(&self, op: &Op, name: &str) -> Result<Option<Work>> {
        let mut natives = self.natives_to_load(op, Natives::Every);
        if let Some(at) = find(natives.iter().map(|found| found.name.as_str()), name) {
            return Ok(Some(Work::Native(natives.swap_remove(at).plan)));
        }
        let mut others: Vec<_> = self.composed(op, usize::MAX)?.into_iter().chain(self.portable(op)?).collect();
        let at = find(others.iter().map(|found| found.name.as_str()), name);
        Ok(at.map(|at| others.swap_remove(at).plan))
    }

    fn plan(&self, op: &Op) -> Result<Work> {
        for native in self.natives(op, Natives::WorthTiming) {
            if self.is_loaded(&native.plan)? {
                return Ok(Work::Native(native.plan));
            }
        }
        for composed in self.composed(op, COMPOSED)? {
            if self.all_loaded(&composed.plan)? {
                return Ok(composed.plan);
            }
        }
        // A row program is a portable kernel, or the graph of portable ones that it is made of.
        if op.get::<RowProgram>().is_none()
            && let Some(parts) = self.by_parts(op)?
        {
            return Ok(parts);
        }
        Ok(Work::Portable(polywarp_core::ops::plan(op, self.caps())?))
    }

    fn scratch<'a>(&self, plan: &'a Work) -> &'a [u64] {
        plan.scratch_bytes()
    }

    fn compile_time(&self, plan: &Work) -> Duration {
        let natives = plan.natives().flat_map(|plan| &plan.launches);
        let portables = plan.portables().flat_map(|plan| &plan.launches);
        let compiles = natives.filter(|launch| self.machine.assembles(launch.kernel)).count()
            + portables.filter(|launch| !self.kernels.is_compiled(&launch.kernel)).count();
        COMPILE_TIME.saturating_mul(u32::try_from(compiles).unwrap_or(u32::MAX))
    }

    fn run(&self, plan: &Work, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        match plan {
            Work::Native(plan) => self.run_planned(plan, inputs, outputs),
            Work::Portable(plan) => self.run_plan(plan, inputs, outputs),
            Work::Composed(plan) => self.run_composed(plan, inputs, outputs),
        }
    }

    fn records(&self) -> bool {
        self.recorders().recording()
    }
}

impl CudaBackend {
    /// Names of all ways to compute `op` on this device: native ones, the most promising first, those composed of both, then
    /// portable ones.
    ///
    /// # Errors
    /// As [`polywarp_core::Backend::execute`]: there is no portable way.
    pub fn candidate_names(&self, op: &Op) -> Result<Vec<String>> {
        Ok(self.loaded_candidates(op)?.into_iter().map(|candidate| candidate.name).collect())
    }

    /// Computes `op` in the way of this name, whatever would be chosen otherwise. Buffers are as
    /// [`polywarp_core::Device::execute`] demands them, which checks them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a name that is none of [`CudaBackend::candidate_names`]; else as
    /// [`polywarp_core::Backend::execute`].
    pub fn run_candidate(&self, op: &Op, name: &str, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        check_buffers(op, inputs, outputs)?;
        if op.output().layout.elements() == 0 {
            return Ok(());
        }
        let found = self.loaded_candidates(op)?.into_iter().find(|candidate| candidate.name == name);
        let reason = || format!("{name} is no way to compute this {} on {}", op.name(), self.id());
        let found = found.ok_or_else(|| Error::InvalidArgument { what: "candidate", reason: reason() })?;
        self.run(&found.plan, inputs, outputs)
    }

    /// The way that the tuner has decided on for `op`, else the planner's first.
    fn decided_or_first(&self, op: &Op) -> Result<Work> {
        let known = op.tuned().and_then(|tuned| self.tuner()?.decided(&tuned.key(), &tuned.class()));
        let known = known.map(|name| self.named(op, &name)).transpose()?.flatten();
        known.map_or_else(|| self.plan(op), Ok)
    }

    /// The way by the graph of others that `op` is, where it is one that runs so.
    fn by_parts(&self, op: &Op) -> Result<Option<Work>> {
        let Some(graph) = op.decompose()? else { return Ok(None) };
        graph.check(op.name(), &op.inputs(), &op.outputs())?;
        let composed = composed::of_graph(&graph.by_rows("rows"), |step| self.decided_or_first(step))?;
        Ok(composed.map(Work::Composed))
    }

    /// Ways of kernels in CUDA C++ for what they can do of `op`, and portable ones for the rest.
    fn composed(&self, op: &Op, most: usize) -> Result<Vec<Candidate<Work>>> {
        if let Some(graph) = op.by_products()? {
            let composed = composed::of_graph(&graph, |step| self.decided_or_first(step))?;
            let way = |plan| Candidate { name: BY_PRODUCTS.to_owned(), plan: Work::Composed(plan), estimate_ns: 0.0 };
            return Ok(composed.map(way).into_iter().collect());
        }
        if op.is::<QuantizedConvolution>() {
            let way = |plan| Candidate { name: BY_PARTS.to_owned(), plan, estimate_ns: 0.0 };
            return Ok(self.by_parts(op)?.map(way).into_iter().collect());
        }
        let Some(op) = op.get::<ReducedMatmul>() else { return Ok(Vec::new()) };
        composed::reduced(op, |op| self.natives_to_load(op, Natives::Every), self.caps(), most)
    }

    /// Ways of kernels in CUDA C++ alone; none where the driver takes no machine code.
    fn natives(&self, op: &Op, which: Natives) -> Vec<polywarp_kernels::Candidate> {
        if !self.machine.any() {
            return Vec::new();
        }
        match which {
            Natives::WorthTiming => polywarp_kernels::candidates(op, self.native_caps()),
            Natives::Every => polywarp_kernels::every(op, self.native_caps()),
        }
    }

    /// Those that nothing is known to keep from being loaded; nothing is loaded.
    fn natives_to_load(&self, op: &Op, which: Natives) -> Vec<polywarp_kernels::Candidate> {
        let mut natives = self.natives(op, which);
        natives.retain(|native| native.plan.launches.iter().all(|launch| self.machine.may_have(launch.kernel)));
        natives
    }

    /// Whether all kernels in CUDA C++ of `work` are loaded, now or before.
    fn all_loaded(&self, work: &Work) -> Result<bool> {
        for plan in work.natives() {
            if !self.is_loaded(plan)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Every way to compute `op` whose kernels this card and driver take.
    fn loaded_candidates(&self, op: &Op) -> Result<Vec<Candidate<Work>>> {
        let natives = self.natives(op, Natives::Every).into_iter().map(|native| native.map(Work::Native));
        let mut loaded = Vec::new();
        for way in natives.chain(self.composed(op, usize::MAX)?) {
            if self.all_loaded(&way.plan)? {
                loaded.push(way);
            }
        }
        loaded.extend(self.portable(op)?);
        Ok(loaded)
    }

    /// Ways of portable kernels alone.
    fn portable(&self, op: &Op) -> Result<impl Iterator<Item = Candidate<Work>> + use<>> {
        let portable = polywarp_core::ops::candidates(op, self.caps())?;
        Ok(portable.into_iter().map(|portable| portable.map(Work::Portable)))
    }
}

/// The rules of [`polywarp_core::Device::execute`], for calls that do not come through it.
fn check_buffers(op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
    let (specs, written) = (op.inputs(), op.outputs());
    let fits = specs.len() == inputs.len()
        && specs.iter().zip(inputs).all(|(spec, buffer)| spec.required_bytes() <= buffer.size_bytes())
        && written.len() == outputs.len()
        && written.iter().zip(outputs).all(|(to, buffer)| to.spec.required_bytes() <= buffer.size_bytes())
        && outputs
            .iter()
            .enumerate()
            .all(|(at, output)| !inputs.iter().chain(&outputs[..at]).any(|other| other.same(output)));
    let reason = || {
        let (read, written) = (specs.len(), written.len());
        format!("{} takes {read} inputs and {written} outputs of its own size, no output twice or an input", op.name())
    };
    if fits { Ok(()) } else { Err(Error::InvalidArgument { what: "buffers", reason: reason() }) }
}
