//! Operands of products by wgmma, where they lie or packed first. How a tensor map describes one: `source.rs`.
//!
//! 16-bit operands are taken as they lie wherever a tensor map can describe them; others are packed (`pack.rs`).

use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Precision};

use super::super::operand::Operand;
use super::super::pack::pack;
use super::super::source::Source;
use crate::catalogue::pack::Mode;
use crate::{Caps, Element, Launch};

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
}

/// Launches that come before the product, and the scratch space they fill.
#[derive(Default)]
pub(super) struct Prepared {
    pub launches: Vec<Launch>,
    pub scratch_bytes: Vec<u64>,
    pub estimate_ns: f64,
}

impl Prepared {
    /// The operand as a tensor map can describe it: where it lies, or packed.
    pub fn operand(&mut self, operand: Operand, way: &Way, caps: &Caps) -> Option<Source> {
        self.operand_along(operand, way, operand.element_bytes == 2, caps)
    }

    /// The same with neighbours along K.
    pub fn operand_along_k(&mut self, operand: Operand, way: &Way, caps: &Caps) -> Option<Source> {
        self.operand_along(operand, way, false, caps)
    }

    fn operand_along(&mut self, operand: Operand, way: &Way, along_mn: bool, caps: &Caps) -> Option<Source> {
        if let Some(source) = Source::of(operand, way.element, along_mn, 0) {
            return Some(source);
        }
        let (launch, packed) = pack(way.packing, &operand, self.scratch_bytes.len(), caps)?;
        self.launches.push(launch);
        self.scratch_bytes.push(packed.bytes);
        self.estimate_ns += packed.estimate_ns;
        Source::of(packed.operand, way.element, false, 0)
    }
}
