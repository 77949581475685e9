//! Decides whether f32 or bf16 operands of a product fit in f16 after scaling by powers of two, and finds the scales:
//! three small launches.
//!
//! f16 has the precision that `Medium` and `Low` ask for of f32, and all digits of bf16, but little range. Each operand
//! is scaled so that its largest magnitude lies in [2^14, 2^15). The product may then use f16 if the smallest magnitude
//! other than 0 is at least 2 to the [`least_exponent`]: 2^28 lies between them, and bf16 is exact. Two launches find
//! the extremes of A and B. One decides and writes [`INFO_WORDS`] words: 1 (or 0 where the plain kernel must compute
//! the product), the scale of A, that of B, and the inverse of both, as f32. The kernels that follow read them, and the
//! one that is not needed ends at once. Nothing comes back to the host. Data out of range cost the reading of the
//! operands, never a wrong result.

use crate::ops::Matmul;
use crate::{DType, Layout, Precision, Result, TensorSpec};

use super::super::{Shape, key};
use crate::plan::looped;
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::{decode, in_quads};
use crate::wgsl::params::axis_members;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("matmul_range.wgsl");

/// Workgroups that look for extremes, and threads of each.
const GROUPS: u32 = 512;
const THREADS: u32 = 256;
/// Words of the decision, which the kernels that follow read.
pub(in super::super) const INFO_WORDS: u64 = 4;

/// Specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Range {
    /// Finds the extremes of an operand: one pair for each workgroup.
    Extremes { element: Element, quad: bool, axes: u8 },
    /// Decides from the extremes of both operands.
    Decide,
}

/// The least exponent that a scaled operand may have. f16 is normal down to 2^-14, where it has 11 bits. `Low` allows
/// an error of 2^-7 of f32, and f16 knows 2^-16 to 2^-9 of itself.
fn least_exponent(op: &Matmul) -> i32 {
    match (op.a.dtype, op.precision) {
        (DType::F32, Precision::Low) => -16,
        _ => -14,
    }
}

/// The launches, which use two scratch buffers: extremes, then the decision.
pub(in super::super) fn launches(op: &Matmul, caps: &Caps) -> Result<(Vec<Launch>, [u64; 2])> {
    let extremes = |spec: &TensorSpec, slot: usize| {
        let (list, quad) = axes(&spec.layout);
        let element = Element::new(spec.dtype, caps)?;
        let kernel = Range::Extremes { element, quad, axes: list.len() as u8 };
        let count = list.iter().map(|axis| axis.0).product::<u64>();
        let mut params = vec![count as u32, spec.layout.offset() as u32, slot as u32 * GROUPS];
        params.extend(list.iter().rev().map(|axis| axis.0 as u32));
        params.extend(list.iter().rev().map(|axis| axis.1 as u32));
        Ok(Launch {
            kernel: key(Shape::Range(kernel)),
            grid: [GROUPS, 1, 1],
            bindings: vec![Slot::Input(slot), Slot::Scratch(0)],
            params,
        })
    };
    let decide = Launch {
        kernel: key(Shape::Range(Range::Decide)),
        grid: [1, 1, 1],
        bindings: vec![Slot::Scratch(0), Slot::Scratch(1)],
        params: vec![least_exponent(op) as u32],
    };
    let bytes = [u64::from(GROUPS) * 2 * 8, INFO_WORDS * 4];
    Ok((vec![extremes(&op.a, 0)?, extremes(&op.b, 1)?, decide], bytes))
}

/// Extents and strides, outermost first. The axis of neighbours comes last, counted in quads where possible. Each
/// element is visited once; the order does not matter.
fn axes(layout: &Layout) -> (Vec<(u64, i64)>, bool) {
    let mut list: Vec<(u64, i64)> = layout.dims().iter().copied().zip(layout.strides().iter().copied()).collect();
    list.retain(|&(extent, stride)| extent != 1 && stride != 0);
    list.sort_by_key(|&(_, stride)| std::cmp::Reverse(stride.unsigned_abs()));
    let mut merged: Vec<(u64, i64)> = Vec::new();
    for (extent, stride) in list {
        match merged.last_mut() {
            Some(outer) if stride.checked_mul(extent as i64) == Some(outer.1) => *outer = (outer.0 * extent, stride),
            _ => merged.push((extent, stride)),
        }
    }
    let quad = merged
        .split_last()
        .is_some_and(|(near, rest)| in_quads(*near, [layout.offset()], rest.iter().map(|axis| axis.1)));
    if let Some(near) = merged.last_mut().filter(|_| quad) {
        *near = (near.0 / 4, 4);
    }
    (merged, quad)
}

impl Range {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let folds = looped(THREADS.ilog2().into(), 0);
        match self {
            Range::Extremes { .. } => {
                let units = params.first().copied().unwrap_or(u32::MAX);
                looped(units.div_ceil(THREADS * GROUPS).into(), 0) + folds
            }
            Range::Decide => 2 * folds,
        }
    }

    pub fn source(&self) -> Source {
        let (name, text) = match self {
            Range::Extremes { element, quad, axes } => ("matmul_coop_extremes", extremes(*element, *quad, *axes)),
            Range::Decide => ("matmul_coop_decide", decide()),
        };
        Source { name: name.to_owned(), wgsl: text, bindings: vec![Access::Read, Access::ReadWrite] }
    }
}

fn extremes(element: Element, quad: bool, axes: u8) -> String {
    let members = axis_members("es", axes.into());
    let mut out = format!("struct Params {{ count: u32, base: u32, target_base: u32,{members} }}\n");
    out += &format!("@group(0) @binding(0) var<uniform> params: Params;\nconst THREADS = {THREADS}u;\n");
    out += &element::prelude(&[element]);
    out += &element.storage(1, "x", if quad { Form::Quad } else { Form::Scalar }, Access::Read);
    out += TEXT.get("extremes of operand");
    out += &decode("place_of", "params.base", 's', axes.into());
    out += "\n";
    out += TEXT.get("reduce");
    let takes = TEXT.get(if quad { "take quad" } else { "take one" });
    out + &TEXT.fill("main of extremes", holes!(threads = THREADS, groups = GROUPS, takes))
}

fn decide() -> String {
    let of = |slot: u32| {
        let pairs: Vec<String> =
            (0..GROUPS / THREADS).map(|i| format!("found[{}u + thread]", slot * GROUPS + i * THREADS)).collect();
        let fold = |field: &str, f: &str| {
            pairs
                .iter()
                .map(|pair| format!("{pair}.{field}"))
                .reduce(|x, y| format!("{f}({x}, {y})"))
                .unwrap_or_default()
        };
        format!("vec2<u32>({}, {})", fold("x", "max"), fold("y", "min"))
    };
    let mut out = TEXT.fill("params of decision", holes!(threads = THREADS));
    out += "\n";
    out += TEXT.get("reduce");
    out += include_str!("../../../../../wgsl/matmul_decide.wgsl");
    out + &TEXT.fill("main of decision", holes!(threads = THREADS, of_a = of(0), of_b = of(1)))
}
