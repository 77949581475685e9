//! Operands of products by wgmma, where they lie or packed first. How a tensor map describes one: `source.rs`.
//!
//! 16-bit operands are taken as they lie wherever a tensor map can describe them; others are packed (`pack.rs`).

use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Precision};

use super::super::operand::Operand;
use super::super::pack::Prepared;
use super::super::source::Source;
use crate::catalogue::pack::Mode;
use crate::{Caps, Element};

/// How operands of a type and precision are multiplied.
pub(super) struct Way {
    element: Element,
    /// How an operand is packed that cannot stay where it is.
    packing: Mode,
}

impl Way {
    /// `None` for types that no instance has, 8-bit floats of two kinds among them, and for f32 at `Highest` and `High`.
    pub fn of(op: &Matmul) -> Option<Way> {
        if op.a.dtype != op.b.dtype {
            return None;
        }
        let way = |element, packing| Some(Way { element, packing });
        match (op.a.dtype, op.precision) {
            (DType::F16, _) => way(Element::F16, Mode::Copy(2)),
            (DType::BF16, _) => way(Element::BF16, Mode::Copy(2)),
            (DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2, _) => way(Element::U8, Mode::Copy(1)),
            (DType::F32, Precision::Medium | Precision::Low) => way(Element::Tf32, Mode::Tf32),
            _ => None,
        }
    }

    /// An operand that a tensor map describes without being packed, along k or along its rows.
    pub fn as_it_lies(&self, operand: Operand) -> Option<Source> {
        Source::of(operand, self.element, true, 0)
    }

    /// The operand as a tensor map can describe it: where it lies, or packed.
    pub fn operand(&self, prepared: &mut Prepared, operand: Operand, caps: &Caps) -> Option<Source> {
        self.operand_along(prepared, operand, operand.element_bytes == 2, caps)
    }

    /// The same with neighbours along K.
    pub fn operand_along_k(&self, prepared: &mut Prepared, operand: Operand, caps: &Caps) -> Option<Source> {
        self.operand_along(prepared, operand, false, caps)
    }

    fn operand_along(&self, prepared: &mut Prepared, operand: Operand, along_mn: bool, caps: &Caps) -> Option<Source> {
        if let Some(source) = Source::of(operand, self.element, along_mn, 0) {
            return Some(source);
        }
        Source::of(prepared.pack(self.packing, &operand, caps)?, self.element, false, 0)
    }
}
