//! Types and register widths. Not what instructions do with them: `ops.rs`.

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
    Bf16x2,
    /// Two 8-bit floats in 16 bits.
    E4m3x2,
    E5m2x2,
    B32,
    U32,
    S32,
    F32,
    /// Of 32 bits the low 13 are not read.
    Tf32,
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
            "bf16x2" => Ty::Bf16x2,
            "e4m3x2" => Ty::E4m3x2,
            "e5m2x2" => Ty::E5m2x2,
            "tf32" => Ty::Tf32,
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
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 | Ty::E4m3x2 | Ty::E5m2x2 => 2,
            Ty::F16x2 | Ty::Bf16x2 | Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::Tf32 => 4,
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

    /// Not of loads, stores, moves or selections: they name bits.
    pub(crate) fn is_packed_or_small_float(self) -> bool {
        self.is_float() && !matches!(self, Ty::F32 | Ty::F64)
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(
            self,
            Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::E4m3x2 | Ty::E5m2x2 | Ty::F32 | Ty::Tf32 | Ty::F64
        )
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// Signed or unsigned integer.
    pub(crate) fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }
}
