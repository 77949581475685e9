//! Decoded instructions: what the executor's loop matches on.
//!
//! Operands are slots of a register file. Immediates and special registers are slots too (rows filled before the first
//! instruction), so that an instruction never asks what kind its operand is.

/// Row of the register file of the operand's width.
pub(crate) type Slot = u32;

/// Slot of an operand that is not there, or of a result nobody wants (`_`).
pub(crate) const NONE: Slot = u32::MAX;

/// Width of a register, bits; a predicate is one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    Pred,
    Half,
    Word,
    Double,
}

impl Class {
    pub(crate) fn bits(self) -> u32 {
        match self {
            Class::Pred => 1,
            Class::Half => 16,
            Class::Word => 32,
            Class::Double => 64,
        }
    }
}

/// Fundamental types (PTX ISA 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    F16,
    F16x2,
    Bf16,
    B32,
    U32,
    S32,
    F32,
    B64,
    U64,
    S64,
    F64,
}

impl Ty {
    pub(crate) fn parse(text: &str) -> Option<Ty> {
        Some(match text {
            "pred" => Ty::Pred,
            "b8" => Ty::B8,
            "u8" => Ty::U8,
            "s8" => Ty::S8,
            "b16" => Ty::B16,
            "u16" => Ty::U16,
            "s16" => Ty::S16,
            "f16" => Ty::F16,
            "f16x2" => Ty::F16x2,
            "bf16" => Ty::Bf16,
            "b32" => Ty::B32,
            "u32" => Ty::U32,
            "s32" => Ty::S32,
            "f32" => Ty::F32,
            "b64" => Ty::B64,
            "u64" => Ty::U64,
            "s64" => Ty::S64,
            "f64" => Ty::F64,
            _ => return None,
        })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Ty::Pred | Ty::B8 | Ty::U8 | Ty::S8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => 2,
            Ty::F16x2 | Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    /// The register that holds it; bytes live in 16 bits.
    pub(crate) fn class(self) -> Class {
        match self.bytes() {
            _ if self == Ty::Pred => Class::Pred,
            1 | 2 => Class::Half,
            4 => Class::Word,
            _ => Class::Double,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::F32 | Ty::F64)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// Signed or unsigned integer.
    pub(crate) fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }
}

/// Integer and logic operations of up to three operands, in a width with a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntOp {
    Neg,
    Abs,
    Not,
    /// `d` is 32 bits wide, as for the next two.
    Popc,
    Clz,
    Bfind,
    BfindShift,
    Brev,
    Add,
    Sub,
    AddSat,
    SubSat,
    Mul,
    MulHi,
    /// `d` is twice as wide.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// `b` is 32 bits wide, as for the next.
    Shl,
    Shr,
    Mad,
    MadHi,
    /// `c` and `d` are twice as wide.
    MadWide,
    /// `b` and `c` are 32 bits wide.
    Bfe,
    Sad,
}

/// Operations of three 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordOp {
    Prmt,
    ShfL { clamp: bool },
    ShfR { clamp: bool },
    Lop3(u8),
    Dp4a { signed: [bool; 2] },
}

/// Floating-point operations of up to three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatOp {
    Neg,
    Abs,
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Min,
    Max,
    MinNan,
    MaxNan,
    CopySign,
    Sqrt,
    Rcp,
    // Approximations: see `exec::approx` for what they return.
    DivFull,
    DivApprox,
    RcpApprox,
    SqrtApprox,
    RsqrtApprox,
    Ex2Approx,
    Lg2Approx,
    SinApprox,
    CosApprox,
    TanhApprox,
}

impl FloatOp {
    pub(crate) fn is_approximate(self) -> bool {
        use FloatOp::*;
        matches!(
            self,
            DivFull
                | DivApprox
                | RcpApprox
                | SqrtApprox
                | RsqrtApprox
                | Ex2Approx
                | Lg2Approx
                | SinApprox
                | CosApprox
                | TanhApprox
        )
    }
}

/// Subnormals to zero; result to [0, 1] and NaN to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct FloatMods {
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
    Not,
    Mov,
}

/// Rounding of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// None was written: exact, or integers.
    Exact,
    Rn,
    Rz,
    Rm,
    Rp,
    /// To an integer.
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) to: Ty,
    pub(crate) from: Ty,
    pub(crate) round: Round,
    pub(crate) sat: bool,
    pub(crate) ftz: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    /// `ld.global.nc`
    NonCoherent,
    Shared,
    Local,
    Param,
    Const,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global | Space::NonCoherent => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Param => "param",
            Space::Const => "const",
        }
    }
}

/// `[base + offset]`; `base` is a row of 32 or 64 bits, or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Slot,
    pub(crate) wide: bool,
    pub(crate) offset: u64,
}

/// Whether an access takes part in data races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    /// `.relaxed`, `.acquire`, `.release`, `.volatile`: two of these do not race.
    Strong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Inc,
    Dec,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    A,
    B,
    C,
}

/// A `wmma` instruction on 16x16x16; `row` says the layout in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wmma {
    Load { fragment: Fragment, row: bool, space: Space, half: bool, regs: Vec<Slot>, address: Address, stride: Slot },
    Store { row: bool, space: Space, half: bool, regs: Vec<Slot>, address: Address, stride: Slot },
    Mma { rows: [bool; 2], d_half: bool, c_half: bool, d: Vec<Slot>, a: Vec<Slot>, b: Vec<Slot>, c: Vec<Slot> },
}

/// Warp-wide operations; each waits for the threads of its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Vote {
        mode: VoteMode,
        d: Slot,
        p: Slot,
        negated: bool,
    },
    Ballot {
        d: Slot,
        p: Slot,
        negated: bool,
    },
    Redux {
        op: ReduxOp,
        signed: bool,
        d: Slot,
        a: Slot,
    },
    MatchAny {
        wide: bool,
        d: Slot,
        a: Slot,
    },
    MatchAll {
        wide: bool,
        d: Slot,
        p: Slot,
        a: Slot,
    },
    /// One thread of the mask; `d` is its number, `p` is true in it.
    Elect {
        d: Slot,
        p: Slot,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Mov {
        class: Class,
        d: Slot,
        a: Slot,
    },
    /// Two rows of half the width as one, or four of a quarter; low first.
    Pack {
        part: Class,
        d: Slot,
        parts: [Slot; 4],
    },
    Unpack {
        part: Class,
        parts: [Slot; 4],
        a: Slot,
    },
    Int {
        op: IntOp,
        class: Class,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Bfi {
        wide: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    Word {
        op: WordOp,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Float {
        op: FloatOp,
        ty: Ty,
        mods: FloatMods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Logic {
        op: Logic,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Slot,
        inverse: Slot,
        a: Slot,
        b: Slot,
        with: Option<(Logic, Slot, bool)>,
    },
    Selp {
        class: Class,
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
        negated: bool,
    },
    Cvt {
        convert: Convert,
        to: Class,
        from: Class,
        d: Slot,
        a: Slot,
    },
    /// Two `f32` as halves: `a` becomes the high one.
    CvtPack {
        round: Round,
        relu: bool,
        sat: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ld {
        space: Space,
        ty: Ty,
        class: Class,
        count: u8,
        dst: [Slot; 4],
        address: Address,
        strength: Strength,
    },
    St {
        space: Space,
        ty: Ty,
        class: Class,
        count: u8,
        src: [Slot; 4],
        address: Address,
        strength: Strength,
    },
    Atom {
        space: Space,
        op: AtomOp,
        ty: Ty,
        d: Slot,
        address: Address,
        a: Slot,
        b: Slot,
    },
    /// `count` is a row or absent; aligned ones want a whole warp at the same instruction.
    Barrier {
        id: Slot,
        count: Slot,
        arrive: bool,
    },
    Fence,
    ActiveMask {
        d: Slot,
    },
    Collective {
        op: Collective,
        mask: Slot,
    },
    Wmma(Box<Wmma>),
    Bra {
        target: u32,
        join: u32,
    },
    /// First instruction of a block where a branch's paths meet again.
    Join,
    Exit,
    Trap,
}

/// Where a guard's predicate is, and which value lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) p: Slot,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inst {
    pub(crate) guard: Option<Guard>,
    pub(crate) op: Op,
    pub(crate) line: u32,
}
