//! A matrix times a vector (M or N is 1, one product): a fold whose elements are products.
//!
//! Rows where the matrix is dense along K, columns where it is dense along the other dimension, slabs and a second pass where there are few
//! results. `combine.rs` does all parts of an epilogue.

use crate::ops::Matmul;
use crate::{Layout, Result, Shape};

use super::combine;
use super::epilogue::Places;
use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::{self, Fold, Partials, Text, View};
use crate::plan::{Access, Caps, Plan, Slot};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::pieces::holes;

/// Products of a matrix and a vector, as one pass knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Products {
    /// The matrix as stored.
    input: Element,
    /// The vector.
    vector: Element,
    accumulator: Element,
    /// The type in which results are stored.
    output: Element,
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
    let (vector_base, _, vector_step) = side(vector);
    let (a, b) = (Element::new(op.a.dtype, caps)?, Element::new(op.b.dtype, caps)?);
    let (matrix_element, vector_element) = if along_n { (b, a) } else { (a, b) };
    let epilogue = places.epilogue;
    let plain = epilogue.is_plain();
    let sums = Partials::elements(epilogue.accumulator.dtype());
    let mut plan = fold::plan(view, sums, caps, |pass| {
        let ends = pass.last && plain;
        let along_k = pass.walk.is_rows() && !pass.partial;
        let fold = Products {
            input: matrix_element,
            vector: vector_element,
            accumulator: epilogue.accumulator,
            output: if ends { epilogue.output } else { epilogue.accumulator },
            vector_quad: pass.quad && along_k && vector_step == 1 && vector_base.is_multiple_of(4),
        };
        let mut launch = pass.launch(fold, 0, if plain { pass.target_base(&op.output) } else { 0 }, caps)?;
        if !pass.partial {
            launch.params.extend([vector_base as u32, vector_step as u32]);
            launch.bindings.push(Slot::Input(vector));
        }
        Ok(launch)
    })?;
    if let Some(last) = plan.launches.last_mut().filter(|_| !plain) {
        let totals = Slot::Scratch(plan.scratch_bytes.len());
        last.bindings[1] = totals;
        plan.scratch_bytes.push(extent * sums.bytes);
        plan.launches.push(combine::launch(op, places, 1, Some(totals), caps)?);
    }
    Ok(Some(plan))
}

impl Fold for Products {
    fn text(&self, frame: &Frame) -> Text {
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        bindings.extend((!frame.partial).then_some(Access::Read));
        let members: &[&str] = if frame.partial { &[] } else { &["vector_base", "vector_step"] };
        let source = if frame.partial { self.accumulator } else { self.input };
        Text {
            name: format!("matmul_vector_{}_{}", frame.suffix(), self.input.dtype()),
            elements: vec![self.input, self.vector, self.accumulator, self.output],
            members: members.iter().map(|&member| member.to_owned()).collect(),
            bindings,
            buffers: frame.source(source) + &self.output.storage(2, "y", Form::Scalar, Access::ReadWrite),
            state: frame.sum(self.accumulator),
            read: self.read(frame),
            finish: frame.stores(|at, v| format!("store_y({at}, {v})"), "v", |i| format!("v[{i}]")),
            body: frame.body(),
        }
    }
}

impl Products {
    fn read(&self, frame: &Frame) -> String {
        let load = frame.load();
        if frame.partial {
            return FOLD.fill("read", holes!(value = load));
        }
        let form = if self.vector_quad { Form::Quad } else { Form::Scalar };
        // A vector at the end of a row may reach past it; the elements that it reads there are masked.
        let one = |i: u32| {
            let place = if i == 0 { "place".to_owned() } else { format!("min(place + {i}u, params.count - 1u)") };
            format!("Acc(load_v(params.vector_base + {place} * params.vector_step))")
        };
        let factor = match (frame.quad && frame.walk.is_rows(), self.vector_quad) {
            (true, true) => "Wide(load4_v((params.vector_base + place) / 4u))".to_owned(),
            (true, false) => format!("Wide({}, {}, {}, {})", one(0), one(1), one(2), one(3)),
            _ => format!("Wide({})", one(0)),
        };
        let product = FOLD.fill("read", holes!(value = format!("Wide({load}) * {factor}")));
        self.vector.storage(3, "v", form, Access::Read) + &product
    }
}
