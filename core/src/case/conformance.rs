//! A case is data: an op, what its inputs hold, how the result is judged, and a name that is its identity.
//!
//! Names read `family/function dtypes shapes layouts values tags` and are unique within the suite; with `@seed` at the end
//! one names a single run of one case ([`super::Selection::filter`]). Cases are made beside the ops they test, in
//! `core/src/ops/cases/`.

use std::fmt::Write;

use super::Values;
use crate::{DType, Layout, Op, Result, Shape, TensorSpec};

/// One op on given inputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its identity.
    pub name: String,
    /// The registry's name for its kind.
    pub family: &'static str,
    /// What is computed.
    pub op: Op,
    /// What the operands read, then those updated hold, in the op's order.
    pub values: Vec<Values>,
    /// How the result is judged.
    pub check: Check,
    /// Whether it runs twice and must give the same bits.
    pub repeat: bool,
}

/// How a result is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// By the op's own bound.
    Bound,
    /// Every element must be the reference rounded to the output's dtype: the inputs are such that all sums are exact.
    Exact,
}

impl Case {
    /// A case named by its parts. Reductions, products and softmax are also checked for repeatable bits.
    pub fn new(family: &'static str, op: impl Into<Op>, values: Vec<Values>) -> Case {
        let op = op.into();
        let repeat = op.facts().repeats;
        Case { name: describe(family, &op, &values), family, op, values, check: Check::Bound, repeat }
    }

    /// A case of an op whose constructor may refuse it; refusing is a defect of the suite, reported by the run.
    pub(crate) fn push(cases: &mut Vec<Case>, family: &'static str, op: Result<impl Into<Op>>, values: Vec<Values>) {
        match op {
            Ok(op) => cases.push(Case::new(family, op, values)),
            Err(error) => {
                log::error!("a {family} case could not be made: {error}");
                debug_assert!(false, "a {family} case could not be made: {error}");
            }
        }
    }

    /// The same with exact results demanded.
    pub fn exact(mut self) -> Case {
        self.check = Check::Exact;
        self.name.push_str(" exact");
        self
    }

    /// The same with a word added to the name.
    pub fn tagged(mut self, tag: &str) -> Case {
        let _ = write!(self.name, " {tag}");
        self
    }

    /// Whether `dtype` is that of an operand or the result.
    pub fn uses(&self, dtype: DType) -> bool {
        let mut uses = false;
        self.op.operands(&mut |operand| uses |= operand.spec.dtype == dtype);
        uses
    }

    /// The dtypes of its operands, results among them, in the op's order.
    pub(crate) fn dtypes(&self) -> Vec<DType> {
        let mut dtypes = Vec::new();
        self.op.operands(&mut |operand| dtypes.push(operand.spec.dtype));
        dtypes
    }
}

/// How many elements outermost to innermost a case reads, in a view of which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Dense from element 0.
    Dense,
    /// Dense from element 3.
    Offset,
    /// The dimensions in reverse order of memory.
    Transposed,
    /// Every second element of the last dimension.
    Step,
    /// Every dimension backwards.
    Reversed,
    /// Rows with three unused elements after each, from element 1.
    Padded,
    /// The first dimension repeats (stride 0).
    BroadcastOuter,
    /// The last dimension repeats (stride 0).
    BroadcastInner,
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [LayoutKind; 8] = [
        LayoutKind::Dense,
        LayoutKind::Offset,
        LayoutKind::Transposed,
        LayoutKind::Step,
        LayoutKind::Reversed,
        LayoutKind::Padded,
        LayoutKind::BroadcastOuter,
        LayoutKind::BroadcastInner,
    ];

    /// The word for it in a case's name.
    pub const fn name(self) -> &'static str {
        match self {
            LayoutKind::Dense => "dense",
            LayoutKind::Offset => "offset",
            LayoutKind::Transposed => "transposed",
            LayoutKind::Step => "step",
            LayoutKind::Reversed => "reversed",
            LayoutKind::Padded => "padded",
            LayoutKind::BroadcastOuter => "broadcast-outer",
            LayoutKind::BroadcastInner => "broadcast-inner",
        }
    }

    /// A view of shape `dims` of this kind.
    ///
    /// # Errors
    /// Those of the view's construction, for extents beyond any device.
    pub fn layout(self, dims: &[u64]) -> Result<Layout> {
        let shape = Shape::new(dims)?;
        let dense = Layout::contiguous(shape);
        let Some(last) = dims.len().checked_sub(1) else { return Ok(dense) };
        let with = |axis: usize, dim: u64| {
            let mut dims = dims.to_vec();
            dims[axis] = dim;
            Shape::new(&dims).map(Layout::contiguous)
        };
        match self {
            LayoutKind::Dense => Ok(dense),
            LayoutKind::Offset => Ok(dense.with_offset(3)),
            LayoutKind::Transposed => {
                let back: Vec<u64> = dims.iter().rev().copied().collect();
                let order: Vec<usize> = (0..dims.len()).rev().collect();
                Layout::contiguous(Shape::new(&back)?).permute(&order)
            }
            LayoutKind::Step => with(last, 2 * dims[last])?.slice(last, 0, 2 * dims[last], 2),
            LayoutKind::Reversed => {
                (0..dims.len()).try_fold(dense, |layout, axis| layout.slice(axis, 0, dims[axis], -1))
            }
            LayoutKind::Padded => {
                let rows = with(last, dims[last] + 3)?.slice(last, 0, dims[last], 1)?;
                Ok(rows.with_offset(rows.offset() + 1))
            }
            LayoutKind::BroadcastOuter => with(0, 1)?.broadcast_to(shape),
            LayoutKind::BroadcastInner => with(last, 1)?.broadcast_to(shape),
        }
    }

    /// [`LayoutKind::layout`] with a dtype.
    ///
    /// # Errors
    /// As [`LayoutKind::layout`].
    pub fn spec(self, dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
        Ok(TensorSpec::new(dtype, self.layout(dims)?))
    }
}

/// Bytes before a dense output, so that writing before it is seen: three units of the output alignment.
pub const OUTPUT_OFFSET_BYTES: u64 = 48;

/// A dense output, some way into its buffer.
///
/// # Errors
/// As [`Shape::new`].
pub fn output(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    let offset = OUTPUT_OFFSET_BYTES / dtype.size_bytes();
    Ok(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?).with_offset(offset)))
}

fn describe(family: &str, op: &Op, values: &[Values]) -> String {
    let mut name = format!("{family}/{}", op.name());
    let inputs = op.held();
    let mut dtypes: Vec<&str> = inputs.iter().map(|input| input.dtype.name()).collect();
    dtypes.dedup();
    let out = op.output();
    let _ = match dtypes.as_slice() {
        [one] if *one == out.dtype.name() => write!(name, " {one}"),
        [] => write!(name, " {}", out.dtype),
        many => write!(name, " {}->{}", many.join(","), out.dtype),
    };
    let same_shape = inputs.iter().all(|input| input.layout.shape() == out.layout.shape());
    if same_shape {
        let _ = write!(name, " {}", dims(&out));
    } else {
        let _ = write!(name, " {}", inputs.iter().map(dims).collect::<Vec<_>>().join("x"));
    }
    let strided = |spec: &TensorSpec| if spec.layout.is_contiguous() { String::new() } else { strides(spec) };
    for spec in inputs.iter().chain(op.facts().scatters.then_some(&out)) {
        let offset = spec.layout.offset();
        let _ = write!(name, "{}{}", strided(spec), if offset > 0 { format!("+{offset}") } else { String::new() });
    }
    op.describe(&mut name);
    let mut recipes: Vec<String> = values.iter().map(Values::name).collect();
    recipes.dedup();
    if !recipes.is_empty() {
        let _ = write!(name, " {}", recipes.join(","));
    }
    name.replace(", ", ",")
}

fn dims(spec: &TensorSpec) -> String {
    format!("{:?}", spec.layout.dims())
}

fn strides(spec: &TensorSpec) -> String {
    format!(" strides{:?}", spec.layout.strides())
}
