//! A small typed PTX: virtual registers, basic blocks, instructions.
//!
//! Lowering writes it through [`Builder`], `emit` spells it; nothing else knows either side. Registers are untyped bits
//! of one of four widths, as PTX's `.b` types allow; an instruction carries the type it works in. Registers may be
//! written more than once (a promoted variable is a register), so this is not SSA: the assembler builds that itself.
//! ISA sections are those of "PTX ISA 9.0", chapter 9 (instruction set).

mod builder;
mod join;
mod layouts;
mod vectorise;

use std::fmt;

pub(crate) use builder::Builder;

use crate::ptx::PtxVersion;

/// Width of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    Pred,
    B16,
    B32,
    B64,
}

/// The type an instruction works in (5.2 fundamental types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Pred,
    /// Only in loads and stores; in a register of 16 bits.
    U8,
    B16,
    U16,
    S16,
    F16,
    B32,
    U32,
    S32,
    F32,
    /// Two halves in 32 bits.
    F16x2,
    B64,
    U64,
    S64,
    F64,
}

impl Ty {
    pub(crate) fn class(self) -> Class {
        match self {
            Ty::Pred => Class::Pred,
            Ty::U8 | Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 => Class::B16,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16x2 => Class::B32,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => Class::B64,
        }
    }

    /// Bytes in memory; predicates are not stored.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Ty::Pred | Ty::U8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 => 2,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16x2 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F32 | Ty::F64 | Ty::F16x2)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// The untyped bits of the same width.
    pub(crate) fn bits(self) -> Ty {
        match self.class() {
            Class::Pred => Ty::Pred,
            Class::B16 => Ty::B16,
            Class::B32 => Ty::B32,
            Class::B64 => Ty::B64,
        }
    }
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reg {
    pub(crate) class: Class,
    pub(crate) id: u32,
}

/// What an instruction reads. Immediate bits are spelled in the instruction's type; a predicate is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    Reg(Reg),
    Imm(u64),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

impl Operand {
    pub(crate) fn u32(value: u32) -> Operand {
        Operand::Imm(u64::from(value))
    }

    pub(crate) fn i32(value: i32) -> Operand {
        Operand::Imm(u64::from(value as u32))
    }

    pub(crate) fn f32(value: f32) -> Operand {
        Operand::Imm(u64::from(value.to_bits()))
    }

    pub(crate) fn f64(value: f64) -> Operand {
        Operand::Imm(value.to_bits())
    }

    pub(crate) fn bool(value: bool) -> Operand {
        Operand::Imm(u64::from(value))
    }

    /// The immediate's bits.
    pub(crate) fn imm(self) -> Option<u64> {
        match self {
            Operand::Reg(_) => None,
            Operand::Imm(bits) => Some(bits),
        }
    }
}

/// State spaces (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Global,
    /// Global memory that nobody writes while the kernel runs: loads may use the read-only path (`ld.global.nc`).
    Constant,
    Shared,
    Local,
    Param,
}

impl Space {
    /// Width of an address register.
    pub(crate) fn address(self) -> Ty {
        match self {
            Space::Global | Space::Constant | Space::Param => Ty::U64,
            Space::Shared | Space::Local => Ty::U32,
        }
    }
}

/// `[base + offset]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// Where an address starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    Reg(Reg),
    /// The kernel's workgroup memory.
    Shared,
    /// The kernel's local memory.
    Local,
    /// The kernel's parameter number.
    Param(usize),
}

/// Special registers (chapter 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    /// `%tid.{x,y,z}`
    Tid(usize),
    /// `%ctaid`
    Ctaid(usize),
    /// `%nctaid`
    Nctaid(usize),
    LaneId,
    LaneMaskLt,
    LaneMaskLe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnaryOp {
    Neg,
    Abs,
    Not,
    Popc,
    Clz,
    Brev,
    /// Index of the highest bit that differs from the sign; all ones when there is none.
    Bfind,
    /// Correctly rounded.
    Sqrt,
    /// Correctly rounded reciprocal.
    Rcp,
    /// At most 1 ULP from the correct reciprocal (f32).
    RcpApprox,
    RsqrtApprox,
    /// Of an argument that is not subnormal: without the scaling that those need.
    RsqrtApproxFtz,
    Ex2Approx,
    /// Subnormal arguments and results become 0, which saves the scaling that they would need.
    Ex2ApproxFtz,
    Lg2Approx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    /// Floats: may be contracted with a product. Integers wrap.
    Add,
    Sub,
    /// Floats: may be contracted with a sum. Integers: the low half.
    Mul,
    /// Floats only: rounded by itself.
    AddRn,
    SubRn,
    MulRn,
    MulHi,
    /// Product of twice the width of its operands.
    MulWide,
    /// Floats: correctly rounded. Integers: undefined for 0.
    Div,
    Rem,
    /// Floats: the number where one is NaN.
    Min,
    Max,
    And,
    Or,
    Xor,
    /// Shifts by 32 bits of count; counts beyond the width give 0 or the sign.
    Shl,
    Shr,
    /// `a`'s sign on `b`'s magnitude.
    CopySign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TernaryOp {
    /// Floats, one rounding.
    Fma,
    /// Integers, low half of the product.
    MadLo,
    /// The product of 32-bit operands plus a 64-bit number.
    MadWide,
    /// Extracts `c` bits of `a` from bit `b` on; signed types extend.
    Bfe,
    /// Picks bytes of `{b, a}` by the nibbles of `c`.
    Prmt,
    /// `(b:a) << c`, high word; funnel shift, counts modulo 32.
    ShfL,
    /// Dot product of four signed or unsigned bytes with accumulation; the type says which.
    Dp4a,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compare {
    Eq,
    /// Integers; floats: ordered, false with a NaN.
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Floats: true with a NaN.
    Neu,
    /// Either is NaN.
    Nan,
}

/// Rounding of a conversion (9.7.9, `cvt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    /// Exact, or integer to integer.
    None,
    /// Float result, nearest even.
    Rn,
    /// Integer result (also of float type), nearest even, towards 0, down, up.
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AtomOp {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VoteMode {
    All,
    Any,
}

/// Operation of `redux.sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

/// Reach of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Cta,
    Gpu,
}

/// Layout of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Major {
    Row,
    Column,
}

/// Which operand of a matrix product a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fragment {
    A,
    B,
    C,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Inst {
    Mov {
        ty: Ty,
        dst: Reg,
        src: Operand,
    },
    /// The address of a variable of the kernel.
    MovBase {
        ty: Ty,
        dst: Reg,
        base: Base,
    },
    Special {
        dst: Reg,
        special: Special,
    },
    Unary {
        op: UnaryOp,
        ty: Ty,
        dst: Reg,
        src: Operand,
    },
    Binary {
        op: BinaryOp,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    Ternary {
        op: TernaryOp,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// Insert the low `d` bits of `a` into `b` from bit `c` on.
    Bfi {
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
        d: Operand,
    },
    Setp {
        cmp: Compare,
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
    },
    Selp {
        ty: Ty,
        dst: Reg,
        a: Operand,
        b: Operand,
        p: Reg,
    },
    Cvt {
        to: Ty,
        from: Ty,
        round: Round,
        saturate: bool,
        dst: Reg,
        src: Operand,
    },
    /// Two registers of half the width, low half first, as one.
    Pack {
        dst: Reg,
        low: Reg,
        high: Reg,
    },
    Unpack {
        low: Reg,
        high: Reg,
        src: Reg,
    },
    Load {
        space: Space,
        ty: Ty,
        dst: Vec<Reg>,
        address: Address,
        volatile: bool,
    },
    Store {
        space: Space,
        ty: Ty,
        src: Vec<Operand>,
        address: Address,
        volatile: bool,
    },
    Atom {
        space: Space,
        op: AtomOp,
        ty: Ty,
        dst: Reg,
        address: Address,
        a: Operand,
        b: Option<Operand>,
    },
    /// `atom` whose result nobody reads; there is none of exchanges.
    Red {
        space: Space,
        op: AtomOp,
        ty: Ty,
        address: Address,
        a: Operand,
    },
    /// An atomic load or store (`.relaxed.gpu`, `.relaxed.cta` in shared memory).
    AtomicLoad {
        space: Space,
        ty: Ty,
        dst: Reg,
        address: Address,
    },
    AtomicStore {
        space: Space,
        ty: Ty,
        src: Operand,
        address: Address,
    },
    /// Waits for all threads of the block and orders their memory accesses.
    Barrier,
    /// Waits for the threads in `mask` of the warp and orders their memory accesses.
    WarpBarrier {
        mask: Operand,
    },
    Fence {
        scope: Scope,
    },
    ActiveMask {
        dst: Reg,
    },
    Shfl {
        mode: ShflMode,
        dst: Reg,
        in_range: Option<Reg>,
        src: Operand,
        lane: Operand,
        clamp: Operand,
        mask: Operand,
    },
    Vote {
        mode: VoteMode,
        dst: Reg,
        src: Operand,
        mask: Operand,
    },
    Ballot {
        dst: Reg,
        src: Operand,
        mask: Operand,
    },
    Redux {
        op: ReduxOp,
        ty: Ty,
        dst: Reg,
        src: Operand,
        mask: Operand,
    },
    /// Fragments of a 16x16x16 product: `ty` is the element type.
    WmmaLoad {
        fragment: Fragment,
        major: Major,
        space: Space,
        ty: Ty,
        dst: Vec<Reg>,
        address: Address,
        stride: Operand,
    },
    WmmaStore {
        major: Major,
        space: Space,
        ty: Ty,
        src: Vec<Reg>,
        address: Address,
        stride: Operand,
    },
    /// `ab_major`: the layouts with which A and B were loaded, named when all is written (`layouts.rs`).
    WmmaMma {
        ab_major: [Major; 2],
        d_ty: Ty,
        c_ty: Ty,
        d: Vec<Reg>,
        a: Vec<Reg>,
        b: Vec<Reg>,
        c: Vec<Reg>,
    },
}

/// Runs an instruction only where a predicate is (or is not) set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) pred: Reg,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) guard: Option<Guard>,
    pub(crate) inst: Inst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(crate) u32);

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminator {
    Jump(BlockId),
    Branch { pred: Reg, accept: BlockId, reject: BlockId },
    Return,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) id: BlockId,
    pub(crate) lines: Vec<Line>,
    pub(crate) terminator: Terminator,
}

/// One entry point, lowered.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) symbol: String,
    pub(crate) workgroup_size: [u32; 3],
    /// Size and alignment of each parameter, bytes.
    pub(crate) params: Vec<(u32, u32)>,
    pub(crate) shared_bytes: u32,
    pub(crate) shared_is_dynamic: bool,
    pub(crate) local_bytes: u32,
    pub(crate) blocks: Vec<Block>,
    /// Registers of each class: pred, 16, 32, 64 bits.
    pub(crate) registers: [u32; 4],
    /// PTX ISA version that the instructions need.
    pub(crate) version: PtxVersion,
}
