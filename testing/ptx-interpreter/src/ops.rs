//! What arithmetic instructions do; the instructions themselves are in `inst.rs`.

use crate::types::Ty;

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
    /// Of f32, rounded towards zero, down, up.
    FmaRz,
    FmaRm,
    FmaRp,
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
    /// To nearest, ties away from zero.
    Rna,
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
