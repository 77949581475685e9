//! What compiling gives: the text, and what a launcher must know of each entry point.

use crate::Target;

/// A compiled module.
#[derive(Clone, Debug, PartialEq)]
pub struct Ptx {
    /// PTX assembly, ready for `cuModuleLoadData` or `ptxas`.
    pub text: String,
    /// PTX ISA version the text declares; a driver must know it to load the text.
    pub version: PtxVersion,
    /// The least architecture the text runs on.
    pub target: Target,
    /// One per compiled entry point, in the module's order.
    pub entry_points: Vec<EntryPoint>,
}

/// A PTX ISA version, `7.8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// Before the point.
    pub major: u32,
    /// After the point.
    pub minor: u32,
}

impl std::fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// How to launch one entry point.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryPoint {
    /// Name in the shader.
    pub name: String,
    /// Name in the PTX (`cuModuleGetFunction`).
    pub symbol: String,
    /// Threads per block along x, y, z.
    pub workgroup_size: [u32; 3],
    /// Kernel parameters, in order.
    pub params: Vec<Param>,
    /// Workgroup memory the kernel declares by itself, bytes.
    pub static_shared_bytes: u32,
    /// Workgroup memory the launch must ask for, bytes: used instead of the static kind above 48 KiB, when the function
    /// needs the attribute for its largest dynamic shared size as well.
    pub dynamic_shared_bytes: u32,
    /// What the kernel uses that not every card or driver has, in alphabetical order.
    pub features: Vec<Feature>,
}

/// One kernel parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Bytes from the start of the parameter block, as the PTX ABI aligns them.
    pub offset_bytes: u32,
    /// What to pass.
    pub kind: ParamKind,
}

/// What a kernel parameter is.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamKind {
    /// The device address of a buffer (`u64`, a multiple of 16).
    Buffer {
        /// `@group`
        group: u32,
        /// `@binding`
        binding: u32,
        /// Whether the kernel may write.
        access: Access,
        /// Least size of the binding, bytes; with a run-time array, one element of it.
        min_bytes: u64,
    },
    /// The size in bytes (`u64`) of the buffer bound there, for `arrayLength` and bounds checks: at most 2^32 - 1
    /// elements, which WGSL counts in a `u32`.
    BufferBytes {
        /// `@group`
        group: u32,
        /// `@binding`
        binding: u32,
    },
    /// The content of a uniform buffer, by value.
    Uniform {
        /// `@group`
        group: u32,
        /// `@binding`
        binding: u32,
        /// Bytes to pass.
        size_bytes: u32,
    },
    /// The immediate data of the pipeline, by value.
    Immediates {
        /// Bytes to pass.
        size_bytes: u32,
    },
}

impl ParamKind {
    /// Bytes the parameter takes.
    pub fn size_bytes(&self) -> u32 {
        match self {
            ParamKind::Buffer { .. } | ParamKind::BufferBytes { .. } => 8,
            ParamKind::Uniform { size_bytes, .. } | ParamKind::Immediates { size_bytes } => *size_bytes,
        }
    }

    /// Alignment of the parameter in the parameter block, bytes.
    pub fn align_bytes(&self) -> u32 {
        match self {
            ParamKind::Buffer { .. } | ParamKind::BufferBytes { .. } => 8,
            ParamKind::Uniform { .. } | ParamKind::Immediates { .. } => 16,
        }
    }
}

/// Use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<uniform>` or `var<storage, read>`: must not be written by anyone while the kernel runs.
    Read,
    /// `var<storage, read_write>`
    ReadWrite,
}

/// Something not every card has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Tensor cores through `wmma`.
    CooperativeMatrix,
    /// 16-bit floats.
    Float16,
    /// 64-bit floats.
    Float64,
    /// Atomics of floats.
    FloatAtomics,
    /// Atomics of 64-bit integers.
    Int64Atomics,
    /// Warp operations and barriers.
    Subgroups,
}
