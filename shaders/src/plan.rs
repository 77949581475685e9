//! Plans: how a device computes one op, as data.
//!
//! [`plan`] is a pure function of an [`Op`] and a device's [`Caps`]; it needs no GPU and allocates nothing on one. A
//! [`Plan`] is a short list of [`Launch`]es over the op's buffers and scratch space. Kernels are named by a
//! [`KernelKey`]; their WGSL is generated only when a backend has not compiled that key before.
//!
//! Binding convention of every kernel: `@group(0) @binding(0)` is a uniform `Params` (the launch's words, bound with a
//! dynamic offset); storage buffers follow at bindings 1, 2, ... in the order of [`Launch::bindings`]. The entry point
//! is `main`. Buffers are bound whole; offsets within them are parameters.

use polywarp_core::{DType, Error, Op, Result};

use crate::plans;

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
            DType::I64 if !self.i64 => "64-bit integers in shaders (SHADER_INT64)",
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

/// One of the ways to compute an op.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Says which kernel with which tile: unique among the candidates of an op, the same for ops of one kind on every run
    /// and machine. What a tuner remembers.
    pub name: String,
    /// How.
    pub plan: Plan,
    /// Expected time. Made to rank the candidates of one op, not to be true; 0 where there is only one.
    pub estimate_ns: f64,
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
    /// The op's output.
    Output,
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

pub use plans::KernelKey;

/// How `op` is computed on a device with `caps`: the first of its [`candidates`], without the work of making the others.
///
/// # Errors
/// [`Error::UnsupportedDType`], [`Error::Unsupported`] when these kernels cannot; [`Error::IndexWidth`] when a tensor
/// has more elements than kernels can index, [`Error::DispatchTooLarge`].
pub fn plan(op: &Op, caps: &Caps) -> Result<Plan> {
    plans::plan(op, caps)
}

/// All the ways to compute `op` on a device with `caps`, what is expected to be fastest first; never none.
///
/// Each is right by its own: conformance tests run every one. On kernels that lean on what a driver may get wrong
/// ([`Source::cooperative`]) a backend should compare a first result before it trusts them.
///
/// # Errors
/// As [`plan`].
pub fn candidates(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    plans::candidates(op, caps)
}
