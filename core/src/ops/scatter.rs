//! Elements put into places along an axis: `y = input`, then for i in order `y[.., indices[.., i, ..], ..]` becomes what the function
//! makes of it and `source[.., i, ..]`. PyTorch's `scatter` and `scatter_reduce` (with `include_self`).
//!
//! The order is that of the positions, on every device, without atomics: where several name one place the last one is set, and sums
//! have the same bits at each run. Floats of 8 and 16 bits are computed in f32 and rounded once. Positions that are none of the axis
//! are left out, whatever their sign.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::Map;
use super::gather::{Gather, check_along};
use super::prelude::*;
use super::take::Missing;
use super::walk::Walk;
use crate::Program;
use crate::oracle::Span;

/// What becomes of a place that a position names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterFn {
    /// The source's element.
    Set,
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The larger, as [`BinaryFn::Max`] says.
    Max,
    /// The smaller, as [`BinaryFn::Min`] says.
    Min,
}

impl ScatterFn {
    /// All of them.
    pub const ALL: [ScatterFn; 5] = [ScatterFn::Set, ScatterFn::Sum, ScatterFn::Prod, ScatterFn::Max, ScatterFn::Min];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ScatterFn::Set => "scatter_set",
            ScatterFn::Sum => "scatter_sum",
            ScatterFn::Prod => "scatter_prod",
            ScatterFn::Max => "scatter_max",
            ScatterFn::Min => "scatter_min",
        }
    }

    /// The function of both elements; `None` where the source's is taken.
    pub const fn binary(self) -> Option<BinaryFn> {
        match self {
            ScatterFn::Set => None,
            ScatterFn::Sum => Some(BinaryFn::Add),
            ScatterFn::Prod => Some(BinaryFn::Mul),
            ScatterFn::Max => Some(BinaryFn::Max),
            ScatterFn::Min => Some(BinaryFn::Min),
        }
    }

    /// Whether a result is one of the elements as it is.
    pub const fn chooses(self) -> bool {
        !matches!(self, ScatterFn::Sum | ScatterFn::Prod)
    }
}

/// `source` put into `input` along `axis`, at `indices`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// What becomes of a place that is named.
    pub function: ScatterFn,
    /// What the places hold before: any view.
    pub input: TensorSpec,
    /// Positions along the axis, i32 or u32: any view, of the input's extents but along the axis.
    pub indices: TensorSpec,
    /// What goes there: any view of the indices' shape and the input's dtype.
    pub source: TensorSpec,
    /// The axis.
    pub axis: usize,
    /// Dense output of the input's shape.
    pub output: TensorSpec,
}

impl Scatter {
    /// A checked scatter whose output starts its buffer.
    ///
    /// # Errors
    /// As [`Gather::new`]; [`Error::ShapeMismatch`] for a source of another shape than the indices, [`Error::DTypeMismatch`] for one of
    /// another dtype; [`Error::UndefinedForDType`] for a function that the dtype has not.
    pub fn new(
        function: ScatterFn,
        input: TensorSpec,
        indices: TensorSpec,
        source: TensorSpec,
        axis: usize,
    ) -> Result<Scatter> {
        let output = TensorSpec::new(input.dtype, Layout::contiguous(*input.layout.shape()));
        Scatter { function, input, indices, source, axis, output }.check()
    }

    /// The fewest dimensions of the result, with the axis for itself, and the strides of input, indices and source.
    pub fn walk(&self) -> Walk {
        let views = [self.input, self.indices, self.source].map(|spec| spec.layout.strides().to_vec());
        Walk::around(self.output.layout.dims(), &views, self.axis)
    }

    /// Positions in a line.
    pub fn count(&self) -> u64 {
        self.indices.layout.dims()[self.axis]
    }

    /// For each place what `function` makes of its number in `numbers` and of those in `source`, all dense.
    fn back(
        &self,
        graph: &mut Builder,
        function: ScatterFn,
        numbers: Value,
        at: Value,
        source: Value,
    ) -> Result<Value> {
        let op = Scatter::new(function, numbers.spec(), at.spec(), source.spec(), self.axis)?;
        Ok(graph.apply(op, &[numbers, at, source])?.swap_remove(0))
    }

    /// For each position the number at its place; zero where it has none.
    fn there(&self, graph: &mut Builder, numbers: Value, at: Value) -> Result<Value> {
        let op = Gather::new(numbers.spec(), at.spec(), self.axis, Missing::Zero)?;
        Ok(graph.apply(op, &[numbers, at])?.swap_remove(0))
    }
}

impl Operation for Scatter {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    operands! { read input, indices, source; write output }

    fn validate(&self) -> Result<()> {
        let op = self.function.name();
        check_along(op, &self.input, &self.indices, self.axis)?;
        if self.source.layout.shape() != self.indices.layout.shape() {
            return Err(Error::shape_mismatch(op, self.source.layout.shape(), self.indices.layout.shape(), None));
        }
        if self.output.layout.shape() != self.input.layout.shape() {
            return Err(Error::shape_mismatch(op, self.input.layout.shape(), self.output.layout.shape(), None));
        }
        for got in [self.source.dtype, self.output.dtype] {
            if got != self.input.dtype {
                return Err(Error::DTypeMismatch { op, expected: self.input.dtype, got });
            }
        }
        if self.function.binary().is_some() && self.input.dtype == DType::Bool {
            return Err(Error::UndefinedForDType { op, dtype: DType::Bool });
        }
        check_dense_output(op, &self.output)
    }

    /// A step for each element of the source, unless they are set.
    fn arithmetic(&self) -> Arithmetic {
        let steps = if self.function == ScatterFn::Set { 0 } else { self.source.layout.elements() };
        Arithmetic::flops(steps)
    }

    /// The definition, in order; steps carry their error as those of programs do ([`Span`]).
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (n, count) = (self.input.layout.dims()[self.axis], self.count());
        let inner: u64 = self.output.layout.dims()[self.axis + 1..].iter().product();
        let dtype = self.output.dtype;
        let mut places: Vec<Span> = before[0].values.iter().map(|&x| Span::exact(x)).collect();
        for (i, index) in before[1].values.iter().enumerate() {
            let (outer, column) = (i as u64 / (count * inner), i as u64 % inner);
            let Some(at) = u64::try_from(index.as_i64()).ok().filter(|&at| at < n) else { continue };
            let place = &mut places[((outer * n + at) * inner + column) as usize];
            let x = Span::exact(before[2].values[i]);
            *place = self.function.binary().map_or(x, |f| place.binary(f, x, dtype));
        }
        let rounded = |x: Span| if self.function.chooses() { x } else { x.round_to(dtype) };
        vec![places.into_iter().map(|x| rounded(x).into_expected(dtype)).collect()]
    }

    /// Of a sum: the gradient itself, and what stands at each position. Where elements are chosen, those of the element that was: of the
    /// last one set; of extrema shared by all that are equal to the result.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        if self.function == ScatterFn::Prod {
            return Ok(Gradient::Refused(
                "products of what positions name have no rule: they would be divided by factors that may be zero; multiply by a gather",
            ));
        }
        let mut rule = RuleBuilder::new(self, needs)?;
        let (at, dy) = (rule.input(1)?, rule.gradient(0)?);
        let wants = [rule.wants(0), rule.wants(2)];
        let (whole, lines) = (*self.input.layout.shape(), *self.indices.layout.shape());
        let dtype = self.input.dtype;
        let (mut of_input, mut of_source) = (None, None);
        match self.function {
            ScatterFn::Sum | ScatterFn::Prod => {
                of_input = Some(dy);
                if wants[1] {
                    of_source = Some(self.there(&mut rule.graph, dy, at)?);
                }
            }
            ScatterFn::Set => {
                if wants[0] {
                    let zeros = rule.graph.full(dtype, lines, 0)?;
                    of_input = Some(self.back(&mut rule.graph, ScatterFn::Set, dy, at, zeros)?);
                }
                if wants[1] {
                    // The position that was the last one at each place.
                    let none = rule.graph.full(DType::I32, whole, -1)?;
                    let inner: u64 = lines.dims()[self.axis + 1..].iter().product();
                    let position = Expr::index().cast(DType::U32) / Expr::constant(inner.max(1) as i64);
                    let position = (position % Expr::constant(self.count().max(1) as i64)).cast(DType::I32);
                    let spec = TensorSpec::new(DType::I32, Layout::contiguous(lines));
                    let numbers = Map::new("position", Program::compile(&position, &[])?, Vec::new(), spec)?;
                    let numbers = rule.graph.apply(numbers, &[])?.swap_remove(0);
                    let last = self.back(&mut rule.graph, ScatterFn::Set, none, at, numbers)?;
                    let [last, there] = [last, dy].map(|x| self.there(&mut rule.graph, x, at));
                    let (last, there) = (last?, there?);
                    let is_last = Expr::input(0).compare(CompareFn::Eq, Expr::input(1));
                    let zero = Expr::constant(0).cast(dtype);
                    let kept = is_last.select(Expr::input(2), zero);
                    of_source = Some(rule.graph.map(&kept, &[last, numbers, there])?);
                }
            }
            ScatterFn::Max | ScatterFn::Min => {
                let (input, source, y) = (rule.input(0)?, rule.input(2)?, rule.output(0)?);
                let graph = &mut rule.graph;
                // 1 where an element is the result, at places and at positions; shares of the gradient by their number.
                let is_result = Expr::input(0).compare(CompareFn::Eq, Expr::input(1)).cast(dtype);
                let wins = graph.map(&is_result, &[input, y])?;
                let y_there = self.there(graph, y, at)?;
                let named = graph.full(dtype, whole, 1)?;
                let named = self.there(graph, named, at)?;
                let wins_there = graph.map(&(is_result * Expr::input(2)), &[source, y_there, named])?;
                let winners = self.back(graph, ScatterFn::Sum, wins, at, wins_there)?;
                let share = graph.map(&(Expr::input(0) / Expr::input(1)), &[dy, winners])?;
                let product = Expr::input(0) * Expr::input(1);
                if wants[0] {
                    of_input = Some(graph.map(&product, &[share, wins])?);
                }
                if wants[1] {
                    let share = self.there(graph, share, at)?;
                    of_source = Some(graph.map(&product, &[share, wins_there])?);
                }
            }
        }
        let both = [(wants[0], of_input), (wants[1], of_source)];
        rule.finish(both.into_iter().filter(|(wanted, _)| *wanted).map(|(_, gradient)| gradient).collect())
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis {
            return None;
        }
        let [input, indices, source] =
            [self.input, self.indices, self.source].map(|operand| operand.first(axis, extent));
        let output = self.output.dense_first(axis, extent)?;
        Some(Scatter { input: input?, indices: indices?, source: source?, output, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        if input == 1 { Content::Rows { rows: self.input.layout.dims()[self.axis] } } else { Content::Any }
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = sample::Thinning::new(self.output.layout.dims(), |axis| axis != self.axis);
        let positions = thinning.of(&self.output.layout)?;
        let [input, indices, source] =
            [self.input, self.indices, self.source].map(|operand| thinning.of_spec(&operand));
        let output = sample::dense(self.output.dtype, &positions);
        let op = Scatter { input: input?, indices: indices?, source: source?, output, ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}
