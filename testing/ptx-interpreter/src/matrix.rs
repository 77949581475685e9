//! Instructions on matrices: what their operands are. How they are carried out is in `exec/`.

use crate::inst::{Address, Slot, Space};

/// Types of matrix elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    /// The upper 19 bits of 32.
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    F64,
}

impl Element {
    pub(crate) fn parse(text: &str) -> Option<Element> {
        Some(match text {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "tf32" => Element::Tf32,
            "e4m3" => Element::E4m3,
            "e5m2" => Element::E5m2,
            "s8" => Element::S8,
            "u8" => Element::U8,
            "f64" => Element::F64,
            _ => return None,
        })
    }

    /// Bytes in memory and in registers.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Element::F64 => 8,
            Element::Tf32 => 4,
            Element::F16 | Element::Bf16 => 2,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 1,
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Element::S8 | Element::U8)
    }
}

/// Types of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    F16,
    F32,
    F64,
    S32 {
        /// `.satfinite`
        saturates: bool,
    },
}

/// `ldmatrix` or `stmatrix`: one, two or four matrices of 8 rows of 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatrixMove {
    pub(crate) load: bool,
    pub(crate) transposed: bool,
    pub(crate) regs: Vec<Slot>,
    pub(crate) address: Address,
    pub(crate) space: Space,
}

/// `mma.sync` and `mma.sp`, A row-major and B column-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mma {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) types: [Element; 2],
    pub(crate) accumulator: Accumulator,
    pub(crate) d: Vec<Slot>,
    pub(crate) a: Vec<Slot>,
    pub(crate) b: Vec<Slot>,
    pub(crate) c: Vec<Slot>,
    /// A holds two of each four elements along k.
    pub(crate) sparse: Option<Metadata>,
}

/// Where the elements of a sparse A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) words: Slot,
    /// Which lanes' words count.
    pub(crate) selector: u32,
}

/// Where wgmma's A is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WgmmaA {
    /// The row of its descriptor.
    Shared(Slot),
    Registers(Vec<Slot>),
}

/// `wgmma.mma_async` and `wgmma.mma_async.sp` of 64 rows, 16 of them each warp's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wgmma {
    pub(crate) n: usize,
    /// Elements of k: 32 bytes, or 64 of which a sparse A holds half.
    pub(crate) k: usize,
    pub(crate) types: [Element; 2],
    pub(crate) accumulator: Accumulator,
    pub(crate) d: Vec<Slot>,
    pub(crate) a: WgmmaA,
    /// The row of B's descriptor.
    pub(crate) b: Slot,
    /// The predicate that D is added to; without it D is overwritten.
    pub(crate) add: Slot,
    pub(crate) negate: [bool; 2],
    /// Whether neighbours in shared memory lie along m of A, and n of B.
    pub(crate) mn_major: [bool; 2],
    /// A holds two of each four elements along k.
    pub(crate) sparse: Option<Metadata>,
}
