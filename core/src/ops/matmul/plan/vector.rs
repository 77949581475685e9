//! A matrix times a vector (M or N is 1, one product): a reduction whose elements are products.
//!
//! The passes and loops are those of `reduce/`: rows where the matrix is dense along K, columns where it is dense along
//! the other dimension, slabs and a second pass where there are few results. `combine.rs` does all parts of an epilogue.

use crate::ops::Matmul;
use crate::{Layout, Result, Shape};

use super::epilogue::Places;
use super::{combine, key};
use crate::ops::fold::frame::{FOLD, Frame, launch};
use crate::ops::fold::{Partials, Pass, View, Walk, passes};
use crate::plan::{Access, Caps, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("matmul_vector.wgsl");

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Vector {
    frame: Frame,
    /// The matrix as stored.
    input: Element,
    /// The vector.
    vector: Element,
    accumulator: Element,
    /// The type in which results are stored.
    output: Element,
    partial: bool,
    /// The vector is read four elements at a time.
    vector_quad: bool,
}

/// The plan, where one operand is a single vector.
pub(super) fn plan(op: &Matmul, places: &Places, caps: &Caps) -> Result<Option<Plan>> {
    let dims = op.dims();
    if dims.batch != 1 || (dims.m != 1 && dims.n != 1) {
        return Ok(None);
    }
    let along_n = dims.m == 1;
    let (matrix, vector) = if along_n { (1, 0) } else { (0, 1) };
    let side = |which: usize| {
        let layout: &Layout = if which == 0 { &op.a.layout } else { &op.b.layout };
        let (rank, strides) = (layout.rank(), layout.strides());
        let (x, k) =
            if which == 0 { (strides[rank - 2], strides[rank - 1]) } else { (strides[rank - 1], strides[rank - 2]) };
        (layout.offset(), x, k)
    };
    let (base, stride_x, stride_k) = side(matrix);
    let extent = if along_n { dims.n } else { dims.m };
    // [extent, k] or [k, extent]: results have the same numbers in both, only the order of the walk in memory differs.
    let Ok(layout) = Layout::strided(Shape::new(&[extent, dims.k])?, &[stride_x, stride_k], base) else {
        return Ok(None);
    };
    let mut view = View::of_input(&layout, &[1]);
    view.slot = Slot::Input(matrix);
    let accumulator = places.epilogue.accumulator.dtype();
    let (list, mut scratch_bytes) = passes(view, Partials::elements(accumulator), caps);
    let (vector_base, _, vector_step) = side(vector);
    let (a, b) = (Element::new(op.a.dtype, caps)?, Element::new(op.b.dtype, caps)?);
    let (matrix_element, vector_element) = if along_n { (b, a) } else { (a, b) };
    let epilogue = places.epilogue;
    let plain = epilogue.is_plain();
    let sums = Slot::Scratch(scratch_bytes.len());
    let launch_of = |pass: &Pass| {
        let rows = matches!(pass.walk, Walk::Rows { .. });
        let ends = pass.last && plain;
        let kernel = Vector {
            frame: Frame::of(pass),
            input: matrix_element,
            vector: vector_element,
            accumulator: epilogue.accumulator,
            output: if ends { epilogue.output } else { epilogue.accumulator },
            partial: pass.partial,
            vector_quad: pass.quad && rows && !pass.partial && vector_step == 1 && vector_base.is_multiple_of(4),
        };
        let target = if ends { op.output.layout.offset() } else { 0 };
        let mut launch = launch(key(super::Shape::Vector(kernel)), pass, 0, target, caps)?;
        if !pass.partial {
            launch.params.extend([vector_base as u32, vector_step as u32]);
            launch.bindings.push(Slot::Input(vector));
        }
        if pass.last && !plain {
            launch.bindings[1] = sums;
        }
        Ok(launch)
    };
    let mut launches = list.iter().map(launch_of).collect::<Result<Vec<_>>>()?;
    if !plain {
        scratch_bytes.push(extent * accumulator.size_bytes());
        launches.push(combine::launch(op, places, 1, Some(sums), caps)?);
    }
    Ok(Some(Plan { launches, scratch_bytes }))
}

impl Vector {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }

    pub fn source(&self) -> Source {
        let prelude = element::prelude(&[self.input, self.vector, self.accumulator, self.output]);
        let wgsl = prelude + &self.functions() + self.frame.body();
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        if !self.partial {
            bindings.push(Access::Read);
        }
        let name = format!("matmul_vector_{}_{}", self.frame.suffix(), self.input.dtype());
        Source { name, wgsl, bindings }
    }

    fn functions(&self) -> String {
        let quad = self.frame.quad;
        let rows = matches!(self.frame.walk, Walk::Rows { .. });
        let acc = self.accumulator.scalar();
        let wide = if quad { self.accumulator.vector() } else { acc.to_owned() };
        let form = |quad| if quad { Form::Quad } else { Form::Scalar };
        let mut out =
            self.frame.head(&["vector_base", "vector_step"].map(str::to_owned)[if self.partial { 2 } else { 0 }..]);
        let source = if self.partial { self.accumulator } else { self.input };
        out += &source.storage(1, "x", form(quad), Access::Read);
        out += &self.output.storage(2, "y", Form::Scalar, Access::ReadWrite);
        out += &FOLD.fill("sum", holes!(acc, wide));
        out += FOLD.get("absorb");
        out += FOLD.get(if quad { "sum of quad" } else { "one" });
        let load = if quad { "load4_x(at)" } else { "load_x(at)" };
        if self.partial {
            out += &FOLD.fill("read", holes!(value = load));
        } else {
            out += &self.vector.storage(3, "v", form(self.vector_quad), Access::Read);
            // A vector at the end of a row may reach past it; the elements that it reads there are masked.
            let one = |i: u32| {
                let place = if i == 0 { "place".to_owned() } else { format!("min(place + {i}u, params.count - 1u)") };
                format!("Acc(load_v(params.vector_base + {place} * params.vector_step))")
            };
            let factor = match (quad && rows, self.vector_quad) {
                (true, true) => "Wide(load4_v((params.vector_base + place) / 4u))".to_owned(),
                (true, false) => format!("Wide({}, {}, {}, {})", one(0), one(1), one(2), one(3)),
                _ => format!("Wide({})", one(0)),
            };
            out += &FOLD.fill("read", holes!(value = format!("Wide({load}) * {factor}")));
        }
        out + TEXT.get(match (rows, quad) {
            (true, _) => "write row",
            (false, true) => "write columns",
            (false, false) => "write column",
        })
    }
}
