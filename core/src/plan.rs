//! Plans: how a GPU computes one operation by kernels in WGSL, as data.
//!
//! A planner is a pure function of an operation and a device's [`Caps`]; it needs no GPU and allocates nothing on one. A
//! [`Plan`] is a short list of [`Launch`]es over the operation's buffers and scratch space. Kernels are named by a
//! [`KernelKey`]; their WGSL is generated only when a backend has not compiled that key before.
//!
//! Binding convention of every kernel: `@group(0) @binding(0)` is a uniform `Params` (the launch's words, bound with a
//! dynamic offset); storage buffers follow at bindings 1, 2, ... in the order of [`Launch::bindings`]. The entry point
//! is `main`. Buffers are bound whole; offsets within them are parameters.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{DType, Error, Result};

/// What a planner needs to know of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// The device's name, for errors.
    pub device: String,
    /// Shaders may use `f16` (`enable f16`).
    pub f16: bool,
    /// Shaders may use `f64`.
    pub f64: bool,
    /// Shaders may use `i64` and `u64`.
    pub i64: bool,
    /// Integers that no f32 equals become the nearest one. WGSL lets a device take the other neighbour (WGSL, "Floating Point
    /// Conversion").
    pub nearest_conversions: bool,
    /// Smallest and largest subgroup, when subgroup operations may be used.
    pub subgroups: Option<(u32, u32)>,
    /// Most invocations in one workgroup.
    pub max_invocations: u32,
    /// Most bytes of workgroup memory.
    pub max_workgroup_bytes: u32,
    /// Most workgroups of a launch along x, y, z.
    pub max_workgroups: [u32; 3],
    /// Most storage buffers in one kernel.
    pub max_storage_buffers: u32,
    /// Products of cooperative matrices that shaders may use; none where there is no such feature.
    pub cooperative: Vec<Cooperative>,
    /// Rounds after which the driver ends the loops of an invocation, all of them and nested ones counted together, and goes on
    /// with what there is by then. `None` where it lets loops run. Plans stay below it ([`Plan::loop_rounds`]).
    pub max_loop_rounds: Option<u32>,
}

/// A product of cooperative matrices: SIZE x SIZE x SIZE, square, held by a subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cooperative {
    /// Rows and columns of every matrix: 8 or 16.
    pub size: u32,
    /// Of the factors: f16 or f32.
    pub factors: DType,
    /// Of sum and addend: f16 or f32.
    pub sum: DType,
}

impl Cooperative {
    /// What NVIDIA's tensor cores do, through Vulkan and through `wmma` alike.
    pub const TENSOR_CORES: [Cooperative; 2] = [
        Cooperative { size: 16, factors: DType::F16, sum: DType::F32 },
        Cooperative { size: 16, factors: DType::F16, sum: DType::F16 },
    ];
}

impl Caps {
    /// What WebGPU guarantees everywhere: no optional feature.
    pub fn webgpu_defaults(device: impl Into<String>) -> Caps {
        Caps {
            device: device.into(),
            f16: false,
            f64: false,
            i64: false,
            nearest_conversions: false,
            subgroups: None,
            max_invocations: 256,
            max_workgroup_bytes: 16 << 10,
            max_workgroups: [65_535; 3],
            max_storage_buffers: 8,
            cooperative: Vec::new(),
            max_loop_rounds: None,
        }
    }

    /// Whether kernels can compute in `dtype`; the 16- and 8-bit types work everywhere, as bits of 32-bit words.
    ///
    /// # Errors
    /// [`Error::UnsupportedDType`] naming the missing feature.
    pub fn require(&self, dtype: DType) -> Result<()> {
        let feature = match dtype {
            DType::F64 if !self.f64 => "64-bit floats in shaders (SHADER_F64)",
            DType::I64 | DType::U64 if !self.i64 => "64-bit integers in shaders (SHADER_INT64)",
            _ => return Ok(()),
        };
        Err(Error::UnsupportedDType { device: self.device.clone(), dtype, feature })
    }

    /// [`Error::Unsupported`] from this device.
    pub fn unsupported(&self, what: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Unsupported { device: self.device.clone(), what: what.into(), reason: reason.into() }
    }

    /// A grid of at least `workgroups`, folded to two dimensions where one does not reach. Kernels number their
    /// workgroup `id.x + id.y * num.x` and stop beyond the count in their parameters.
    ///
    /// # Errors
    /// [`Error::DispatchTooLarge`] when even two dimensions do not reach.
    pub fn fold_grid(&self, workgroups: u64) -> Result<[u32; 3]> {
        let [most_columns, most_rows, _] = self.max_workgroups.map(u64::from);
        if workgroups <= most_columns {
            return Ok([workgroups as u32, 1, 1]);
        }
        let rows = workgroups.div_ceil(most_columns);
        let columns = workgroups.div_ceil(rows);
        // Kernels number their workgroups in 32 bits.
        if rows > most_rows || columns.saturating_mul(rows) > u64::from(u32::MAX) {
            let grid = [u32::MAX, u32::MAX, 1];
            return Err(Error::DispatchTooLarge { device: self.device.clone(), grid, max: self.max_workgroups });
        }
        Ok([columns as u32, rows as u32, 1])
    }
}

/// How one op is computed: launches in order, and the scratch buffers they share.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// What runs, one after the other; each sees what the earlier ones wrote.
    pub launches: Vec<Launch>,
    /// Size in bytes of each scratch buffer.
    pub scratch_bytes: Vec<u64>,
}

/// Makes `scratch_bytes` do for what needs scratch buffers of `sizes` besides, before or after.
pub fn share_scratch(scratch_bytes: &mut Vec<u64>, sizes: impl IntoIterator<Item = u64>) {
    for (number, bytes) in sizes.into_iter().enumerate() {
        match scratch_bytes.get_mut(number) {
            Some(most) => *most = bytes.max(*most),
            None => scratch_bytes.push(bytes),
        }
    }
}

/// One of the ways to compute an op, by a plan of whatever kind a planner makes: portable kernels here, a backend's own elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<P = Plan> {
    /// Says which kernel with which tile: unique among the candidates of an op, the same for ops of one kind on every run
    /// and machine. What a tuner remembers.
    pub name: String,
    /// How.
    pub plan: P,
    /// Expected time. Made to rank the candidates of one op, not to be true; 0 where there is only one.
    pub estimate_ns: f64,
}

impl<P> Candidate<P> {
    /// The same candidate with its plan as `f` makes it: one kind of several that a backend runs.
    pub fn map<Q>(self, f: impl FnOnce(P) -> Q) -> Candidate<Q> {
        Candidate { name: self.name, plan: f(self.plan), estimate_ns: self.estimate_ns }
    }
}

impl Candidate {
    /// The one way of the operation called `name`.
    pub fn only(name: &str, plan: Plan) -> Vec<Candidate> {
        vec![Candidate { name: name.to_owned(), plan, estimate_ns: 0.0 }]
    }
}

/// One kernel over one grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Which kernel, specialised how.
    pub kernel: KernelKey,
    /// Workgroups along x, y, z; none of them 0.
    pub grid: [u32; 3],
    /// What stands at bindings 1, 2, ...
    pub bindings: Vec<Slot>,
    /// The words of the uniform `Params`.
    pub params: Vec<u32>,
}

/// A buffer of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Input number `.0` of the op.
    Input(usize),
    /// Output number `.0` of the op: written, or read and written where it updates it.
    Output(usize),
    /// Scratch buffer number `.0` of the plan.
    Scratch(usize),
}

/// How a kernel uses a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    ReadWrite,
}

/// The text of a kernel and what a pipeline for it must know.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Names the kernel in profiles and errors.
    pub name: String,
    /// Complete WGSL; entry point `main`.
    pub wgsl: String,
    /// Use of the storage buffers at bindings 1, 2, ...
    pub bindings: Vec<Access>,
}

impl Source {
    /// Whether the kernel multiplies cooperative matrices, which drivers have got wrong: check its first results.
    pub fn cooperative(&self) -> bool {
        self.wgsl.contains("enable wgpu_cooperative_matrix;")
    }
}

/// A kernel and its specialisation, as plain data: what its text is, and how long its loops are.
pub trait KernelText: TextIdentity + fmt::Debug + Send + Sync + 'static {
    /// The kernel's WGSL. Costs a text generation: call it once per key.
    fn source(&self) -> Source;

    /// The most rounds that all loops of one invocation make together, nested ones counted, for a launch with `params`.
    /// The round that finds a loop at its end counts.
    fn loop_rounds(&self, params: &[u32]) -> u64;
}

/// What a [`KernelText`] has by being plain data: equality and a hash.
pub trait TextIdentity {
    /// For [`KernelKey::get`].
    fn as_any(&self) -> &dyn Any;
    /// Whether `other` is an equal kernel of the same kind.
    fn is_same(&self, other: &dyn KernelText) -> bool;
    /// Adds it to `state`.
    fn hash_into(&self, state: &mut dyn Hasher);
}

impl<T: KernelText + Eq + Hash> TextIdentity for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_same(&self, other: &dyn KernelText) -> bool {
        other.as_any().downcast_ref::<T>().is_some_and(|other| other == self)
    }

    fn hash_into(&self, mut state: &mut dyn Hasher) {
        // Kernels of two kinds may hold the same words.
        std::any::TypeId::of::<T>().hash(&mut state);
        self.hash(&mut state);
    }
}

/// A kernel and its specialisation: two launches with equal keys run the same pipeline.
#[derive(Clone)]
pub struct KernelKey {
    kernel: Arc<dyn KernelText>,
    is_own: bool,
}

impl KernelKey {
    /// The key of `kernel`.
    pub fn new(kernel: impl KernelText) -> KernelKey {
        KernelKey { kernel: Arc::new(kernel), is_own: false }
    }

    /// The key of a kernel of this crate.
    pub(crate) fn own(kernel: impl KernelText) -> KernelKey {
        KernelKey { kernel: Arc::new(kernel), is_own: true }
    }

    /// Whether it is a kernel of this crate, which stays inside its buffers by construction. What an operation of another crate brings
    /// may not: backends compile it with every check, as they do users' kernels.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// The kernel, if it is of kind `T`.
    pub fn get<T: KernelText>(&self) -> Option<&T> {
        self.kernel.as_any().downcast_ref()
    }

    /// [`KernelText::source`].
    pub fn source(&self) -> Source {
        self.kernel.source()
    }

    /// [`KernelText::loop_rounds`].
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.kernel.loop_rounds(params)
    }
}

impl PartialEq for KernelKey {
    fn eq(&self, other: &KernelKey) -> bool {
        Arc::ptr_eq(&self.kernel, &other.kernel) || self.kernel.is_same(&*other.kernel)
    }
}

impl Eq for KernelKey {}

impl Hash for KernelKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kernel.hash_into(state);
    }
}

impl fmt::Debug for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

/// The rounds of a loop of `rounds` whose body makes `inner` rounds in loops of its own.
pub fn looped(rounds: u64, inner: u64) -> u64 {
    rounds.saturating_mul(inner.saturating_add(1)).saturating_add(1)
}

impl Plan {
    /// Refuses what no device could run: for plans that were not made, and tested, with the library's own operations. `op` names the
    /// operation, which has `inputs` operands that are read and `outputs` that are written or updated.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the operation, the launch and what is wrong with it; [`Error::Unsupported`] for more buffers than a
    /// kernel of the device has.
    pub fn check(&self, op: &str, inputs: usize, outputs: usize, caps: &Caps) -> Result<()> {
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "plan", reason: format!("{op}: {reason}") });
        if self.launches.is_empty() {
            return refuse("a plan without launches".to_owned());
        }
        for (number, Launch { kernel, grid, bindings, params }) in self.launches.iter().enumerate() {
            let source = kernel.source();
            let who = format!("launch {number} ({})", source.name);
            if source.bindings.len() != bindings.len() {
                return refuse(format!("{who} binds {} buffers of {}", bindings.len(), source.bindings.len()));
            }
            if bindings.len() > caps.max_storage_buffers as usize {
                let reason = format!("{who} binds {} buffers, {} fit", bindings.len(), caps.max_storage_buffers);
                return Err(caps.unsupported(op, reason));
            }
            if grid.contains(&0) || grid.iter().zip(caps.max_workgroups).any(|(&size, most)| size > most) {
                return refuse(format!("{who} has a grid of {grid:?}, within 1 and {:?} each", caps.max_workgroups));
            }
            if params.is_empty() {
                return refuse(format!("{who} has no parameters; kernels have a uniform at binding 0"));
            }
            for (at, (slot, access)) in bindings.iter().zip(&source.bindings).enumerate() {
                let twice = *access == Access::ReadWrite && bindings.iter().filter(|other| *other == slot).count() > 1;
                let fault = match *slot {
                    Slot::Input(input) if input >= inputs => Some(format!("is input {input} of {inputs}")),
                    Slot::Input(_) if *access == Access::ReadWrite => {
                        Some("is an input that the kernel writes".to_owned())
                    }
                    Slot::Output(output) if output >= outputs => Some(format!("is output {output} of {outputs}")),
                    Slot::Scratch(scratch) if scratch >= self.scratch_bytes.len() => {
                        Some(format!("is scratch buffer {scratch} of {}", self.scratch_bytes.len()))
                    }
                    _ if twice => Some("is written, and bound twice".to_owned()),
                    _ => None,
                };
                if let Some(fault) = fault {
                    return refuse(format!("binding {} of {who} {fault}", at + 1));
                }
            }
        }
        Ok(())
    }

    /// The most rounds that all loops of an invocation of one of its launches make together.
    pub fn loop_rounds(&self) -> u64 {
        self.launches.iter().map(|launch| launch.kernel.loop_rounds(&launch.params)).max().unwrap_or(0)
    }
}

impl Caps {
    /// The rounds that loops may make; no end where the driver knows none.
    pub fn loop_limit(&self) -> u64 {
        self.max_loop_rounds.map_or(u64::MAX, u64::from)
    }

    fn runs_to_the_end(&self, plan: &Plan) -> bool {
        self.max_loop_rounds.is_none() || plan.loop_rounds() <= self.loop_limit()
    }

    /// Those of the `candidates` for the op called `name` whose loops the driver does not end.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there are none.
    pub fn that_run_to_the_end(&self, name: &str, mut candidates: Vec<Candidate>) -> Result<Vec<Candidate>> {
        let least = candidates.iter().map(|candidate| candidate.plan.loop_rounds()).min();
        candidates.retain(|candidate| self.runs_to_the_end(&candidate.plan));
        if candidates.is_empty() { Err(self.ends_loops(name, least.unwrap_or(0))) } else { Ok(candidates) }
    }

    /// `plan` where the driver does not end its loops, else the first such of all the ways.
    pub fn or_shorter(&self, name: &str, plan: Plan, all: impl FnOnce() -> Result<Vec<Candidate>>) -> Result<Plan> {
        if self.runs_to_the_end(&plan) {
            return Ok(plan);
        }
        let found = self.that_run_to_the_end(name, all()?)?.into_iter().next();
        found.map(|candidate| candidate.plan).ok_or_else(|| self.ends_loops(name, plan.loop_rounds()))
    }

    fn ends_loops(&self, name: &str, rounds: u64) -> Error {
        let limit = self.loop_limit();
        let reason = format!(
            "its loops make {rounds} rounds, and the driver ends loops after {limit}, returning what there is by then; \
             compute it in parts, or on another device"
        );
        self.unsupported(format!("{name} of this size"), reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that reads its first buffer and writes its second.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Kernel;

    impl KernelText for Kernel {
        fn source(&self) -> Source {
            let bindings = vec![Access::Read, Access::ReadWrite];
            Source { name: "kernel".to_owned(), wgsl: String::new(), bindings }
        }

        fn loop_rounds(&self, _params: &[u32]) -> u64 {
            0
        }
    }

    fn launch(bindings: [Slot; 2]) -> Launch {
        Launch { kernel: KernelKey::new(Kernel), grid: [1; 3], bindings: bindings.into(), params: vec![0] }
    }

    #[test]
    fn plans_that_no_device_could_run_are_refused_with_their_place() {
        let caps = Caps::webgpu_defaults("here");
        let check = |launch: Launch, scratch: usize| {
            let plan = Plan { launches: vec![launch], scratch_bytes: vec![16; scratch] };
            plan.check("mine", 1, 1, &caps).map_err(|error| error.to_string())
        };
        assert_eq!(check(launch([Slot::Input(0), Slot::Output(0)]), 0), Ok(()));
        assert_eq!(check(launch([Slot::Scratch(0), Slot::Output(0)]), 1), Ok(()));
        let right = || launch([Slot::Input(0), Slot::Output(0)]);
        for (launch, words) in [
            (launch([Slot::Input(1), Slot::Output(0)]), "binding 1 of launch 0 (kernel) is input 1 of 1"),
            (
                launch([Slot::Output(0), Slot::Input(0)]),
                "binding 2 of launch 0 (kernel) is an input that the kernel writes",
            ),
            (launch([Slot::Scratch(0), Slot::Output(0)]), "is scratch buffer 0 of 0"),
            (launch([Slot::Output(0), Slot::Output(0)]), "is written, and bound twice"),
            (launch([Slot::Input(0), Slot::Output(1)]), "binding 2 of launch 0 (kernel) is output 1 of 1"),
            (Launch { grid: [1, 0, 1], ..right() }, "a grid of [1, 0, 1]"),
            (Launch { grid: [70_000, 1, 1], ..right() }, "a grid of [70000, 1, 1]"),
            (Launch { params: Vec::new(), ..right() }, "has no parameters"),
            (Launch { bindings: vec![Slot::Output(0)], ..right() }, "binds 1 buffers of 2"),
        ] {
            let refused = check(launch, 0).unwrap_err();
            assert!(refused.contains("mine: ") && refused.contains(words), "{refused}");
        }
        let none = Plan::default().check("mine", 1, 1, &caps).unwrap_err();
        assert!(none.to_string().contains("a plan without launches"), "{none}");
    }

    #[test]
    fn keys_are_equal_by_kind_and_content() {
        let (one, other) = (KernelKey::new(Kernel), KernelKey::new(Kernel));
        assert!(one == other && one.get::<Kernel>().is_some() && one == one.clone());
    }
}
