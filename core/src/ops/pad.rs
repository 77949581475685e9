//! Each place of the result takes the element of one place of the input, or one number: padding of every kind, cropping, rolling
//! and tiling. `y[i, j, ...] = x[f(i - before_0), f(j - before_1), ...]`, where `f` says what lies outside ([`PadMode`]).
//!
//! The extents of the result and of what comes before may be any, along every axis; so one operation is all of these, in one launch.
//! Bits are moved as they are. Names and meaning of the modes are NumPy's (`numpy.pad`), a `reflect` wider than the input included.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;
use crate::expr::number;

const OP: &str = "pad";

/// What lies outside of the input along an axis of n elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PadMode {
    /// One number.
    Constant,
    /// The nearest element: the first before, the last behind.
    Edge,
    /// The elements mirrored at the first and the last one, which are not repeated.
    Reflect,
    /// The elements again: position i takes element i mod n.
    Wrap,
}

impl PadMode {
    /// All of them.
    pub const ALL: [PadMode; 4] = [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap];

    /// Lower-case name, as NumPy has it.
    pub const fn name(self) -> &'static str {
        match self {
            PadMode::Constant => "constant",
            PadMode::Edge => "edge",
            PadMode::Reflect => "reflect",
            PadMode::Wrap => "wrap",
        }
    }

    /// Positions after which what lies outside of `n` elements comes again.
    pub fn period(self, n: u64) -> u64 {
        if self == PadMode::Reflect { (2 * n.clamp(1, 1 << 40) - 2).max(1) } else { n.max(1) }
    }

    /// Of `n` elements the one for position `at`, which may lie on either side; `None` for the number.
    fn source(self, at: i64, n: u64) -> Option<u64> {
        let inside = u64::try_from(at).ok().filter(|&at| at < n);
        let again = || at.rem_euclid(self.period(n) as i64) as u64;
        match self {
            PadMode::Constant => inside,
            PadMode::Edge => Some(at.clamp(0, n.max(1) as i64 - 1) as u64),
            PadMode::Reflect => Some(again().min(self.period(n) - again())),
            PadMode::Wrap => Some(again()),
        }
    }
}

/// `input` with what lies outside of it, or a part of that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pad {
    /// What is read: any view.
    pub input: TensorSpec,
    /// What lies outside.
    pub mode: PadMode,
    /// For each axis the positions of the result before the input's first element; where negative, those of the input left out.
    pub before: Vec<i64>,
    /// The bytes of the number that [`PadMode::Constant`] puts outside, an element of the input's dtype; else zeros.
    pub fill: [u8; 8],
    /// Dense output of the input's rank and dtype.
    pub output: TensorSpec,
}

/// An axis of a [`Pad`], or several that are as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PadAxis {
    /// Extent of the result.
    pub output: u64,
    /// Extent of the input.
    pub input: u64,
    /// Positions before the input.
    pub before: i64,
    /// From an element of the input to the next one.
    pub stride: i64,
}

impl PadAxis {
    fn is_whole(&self) -> bool {
        self.before == 0 && self.input == self.output
    }
}

impl Pad {
    /// A checked padding to a result of extents `dims` that starts its buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another number of axes, and for padding of an empty axis by a mode that repeats elements;
    /// [`Error::NumberOutOfRange`] for a number that the dtype cannot hold; [`Error::IndexWidth`] for axes of 2^32 elements and more, of
    /// which a reflection has almost two for each of the input.
    pub fn new(
        input: TensorSpec,
        mode: PadMode,
        before: Vec<i64>,
        dims: &[u64],
        fill: impl Into<Scalar>,
    ) -> Result<Pad> {
        let (output, mut bytes) = (TensorSpec::new(input.dtype, Layout::contiguous(Shape::new(dims)?)), [0; 8]);
        if mode == PadMode::Constant {
            let fill = fill.into();
            number::operand(OP, input.dtype, fill)?;
            let element = fill.to_le_bytes(input.dtype);
            bytes[..element.len()].copy_from_slice(&element);
        }
        Pad { input, mode, before, fill: bytes, output }.check()
    }

    /// Its axes, those merged that step evenly.
    pub fn axes(&self) -> Vec<PadAxis> {
        // Innermost first.
        let mut axes: Vec<PadAxis> = Vec::new();
        for axis in (0..self.before.len()).rev() {
            let (input, output) = (self.input.layout.dims()[axis], self.output.layout.dims()[axis]);
            let outer = PadAxis { output, input, before: self.before[axis], stride: self.input.layout.strides()[axis] };
            if outer.is_whole() && output == 1 {
                continue;
            }
            // What repeats single elements repeats no runs of them.
            let is_run = outer.is_whole() || matches!(self.mode, PadMode::Constant | PadMode::Wrap);
            match axes.last_mut() {
                Some(inner)
                    if is_run
                        && inner.is_whole()
                        && outer.before.checked_mul(inner.input as i64).is_some()
                        && (outer.input == 1 || inner.stride.checked_mul(inner.input as i64) == Some(outer.stride)) =>
                {
                    *inner = PadAxis {
                        output: outer.output * inner.output,
                        input: outer.input * inner.input,
                        before: outer.before * inner.input as i64,
                        stride: inner.stride,
                    };
                }
                _ => axes.push(outer),
            }
        }
        axes.reverse();
        axes
    }

    /// Of an axis the element of the input that position `i` of the result takes.
    pub fn source(&self, axis: &PadAxis, i: u64) -> Option<u64> {
        self.mode.source(i as i64 - axis.before, axis.input)
    }
}

impl Operation for Pad {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        let (from, to) = (self.input.layout.dims(), self.output.layout.dims());
        if from.len() != to.len() || self.before.len() != from.len() {
            let reason =
                format!("{OP} of {from:?} to {to:?} takes a number for each axis, not {} of them", self.before.len());
            return Err(Error::InvalidArgument { what: "padding", reason });
        }
        for (axis, (&n, &extent)) in from.iter().zip(to).enumerate() {
            if n == 0 && extent > 0 && self.mode != PadMode::Constant {
                let mode = self.mode.name();
                let reason = format!("axis {axis} of {from:?} has no element for mode {mode} to repeat; use constant");
                return Err(Error::InvalidArgument { what: "padding", reason });
            }
            let reach = extent.max(self.mode.period(n)).max(self.before[axis].unsigned_abs());
            if reach > u64::from(u32::MAX) {
                return Err(Error::IndexWidth { op: OP, elements: reach, max: u32::MAX.into() });
            }
        }
        check_dtype(OP, &self.output, self.input.dtype)?;
        check_dense_output(OP, &self.output)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    /// The definition, exactly, axis by axis as it was asked for.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (from, to) = (self.input.layout.dims(), self.output.layout.dims());
        let outside = Scalar::from_le_bytes(&self.fill, self.input.dtype);
        let element = |linear: u64| {
            let (mut rest, mut place, mut step) = (linear, Some(0), 1);
            for axis in (0..to.len()).rev() {
                let at = self.mode.source((rest % to[axis]) as i64 - self.before[axis], from[axis]);
                place = place.zip(at).map(|(place, at)| place + at * step);
                step *= from[axis];
                rest /= to[axis];
            }
            Expected::exact(place.map_or(outside, |place| before[0].values[place as usize]))
        };
        vec![(0..self.output.layout.elements()).map(element).collect()]
    }

    /// What was taken several times is summed up: by the same operation backwards where each element is taken once at most, else axis
    /// by axis, as a sum over periods.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let mut gradient = rule.gradient(0)?;
        let (from, to) = (self.input.layout.dims(), self.output.layout.dims());
        let is_roll = self.mode == PadMode::Wrap && from == to;
        if self.mode == PadMode::Constant || is_roll {
            let before = self.before.iter().map(|before| -before).collect();
            let op = Pad::new(gradient.spec(), self.mode, before, from, 0)?;
            let back = rule.graph.apply(op, &[gradient])?.pop();
            return rule.finish(vec![back]);
        }
        let mut dims = to.to_vec();
        for axis in (0..dims.len()).filter(|&axis| self.before[axis] != 0 || from[axis] != to[axis]) {
            let [outer, inner] = [&dims[..axis], &dims[axis + 1..]].map(|dims| dims.iter().product());
            let lines = gradient.reshape([outer, to[axis], inner])?;
            dims[axis] = from[axis];
            let back = folded(&mut rule.graph, self.mode, lines, self.before[axis], from[axis])?;
            gradient = back.reshape(Shape::new(&dims)?)?;
        }
        rule.finish(vec![Some(gradient)])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" {} {:?}->{:?}", self.mode.name(), self.before, self.output.layout.dims()));
        if self.mode == PadMode::Constant {
            name.push_str(&format!(" {}", Scalar::from_le_bytes(&self.fill, self.input.dtype)));
        }
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        Some(Pad { output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    /// The last indices of every axis, about 4096 elements.
    fn sample(&self) -> Result<Option<Sample>> {
        const KEEP: u64 = 4096;
        let (mut positions, mut before) = (self.output.layout, self.before.clone());
        for axis in 0..before.len() {
            let dims = positions.dims();
            let others = (0..dims.len()).filter(|&other| other != axis).map(|other| dims[other].min(8));
            let (extent, others) = (dims[axis], others.product::<u64>().max(1));
            let first = extent - extent.min((KEEP / others).max(1));
            positions = positions.slice(axis, first, extent, 1)?;
            before[axis] -= first as i64;
        }
        let op = Pad { before, output: sample::dense(self.output.dtype, &positions), ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

/// Of the gradient [outer, positions, inner] of a padding along the middle axis, that of its `n` elements.
fn folded(graph: &mut Builder, mode: PadMode, lines: Value, before: i64, n: u64) -> Result<Value> {
    let [outer, positions, inner] = [0, 1, 2].map(|axis| lines.dims()[axis]);
    let placed = |graph: &mut Builder, x: Value, before: i64, extent: u64| {
        let op = Pad::new(x.spec(), PadMode::Constant, vec![0, before, 0], &[x.dims()[0], extent, x.dims()[2]], 0)?;
        Ok::<_, Error>(graph.apply(op, &[x])?.swap_remove(0))
    };
    if mode == PadMode::Edge {
        let inside = placed(graph, lines, -before, n)?;
        let low = before.clamp(0, positions as i64) as u64;
        let high = (before + n as i64).clamp(0, positions as i64) as u64;
        let mut terms = vec![inside];
        for (start, end, place) in [(0, low, 0), (high, positions, n - 1)] {
            if start < end {
                let run = lines.slice(1, start, end)?;
                let sum = graph.reduce(ReduceFn::Sum, run, &[1], KeepDims::Yes)?;
                terms.push(placed(graph, sum, place as i64, n)?);
            }
        }
        let sum = (1..terms.len()).fold(Expr::input(0), |sum, term| sum + Expr::input(term));
        return if terms.len() == 1 { Ok(inside) } else { graph.map(&sum, &terms) };
    }
    let period = mode.period(n);
    let shift = (-before).rem_euclid(period as i64) as u64;
    let periods = (shift + positions).div_ceil(period).max(1);
    let aligned = placed(graph, lines, shift as i64, periods * period)?.reshape([outer, periods, period, inner])?;
    let once = graph.reduce(ReduceFn::Sum, aligned, &[1], KeepDims::No)?;
    if mode == PadMode::Wrap || n <= 2 {
        return Ok(once);
    }
    // Between the first and the last one each element is met on the way back, too.
    let back = once.viewed(once.spec().layout.slice(1, n, period, -1)?);
    let back = placed(graph, back, 1, n)?;
    let there = once.slice(1, 0, n)?;
    graph.map(&(Expr::input(0) + Expr::input(1)), &[there, back])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn pad(dims: &[u64], mode: PadMode, before: &[i64], to: &[u64]) -> Pad {
        let input = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()));
        Pad::new(input, mode, before.to_vec(), to, 0).unwrap()
    }

    #[test]
    fn positions_outside_are_numpys() {
        let of = |mode: PadMode| (-5..8).map(|at| mode.source(at, 3).map_or(-1, |at| at as i64)).collect::<Vec<_>>();
        assert_eq!(of(PadMode::Constant), [-1, -1, -1, -1, -1, 0, 1, 2, -1, -1, -1, -1, -1]);
        assert_eq!(of(PadMode::Edge), [0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(of(PadMode::Reflect), [1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1]);
        assert_eq!(of(PadMode::Wrap), [1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!([-2, 0, 3].map(|at| PadMode::Reflect.source(at, 1)), [Some(0); 3]);
    }

    #[test]
    fn whole_axes_are_merged_and_runs_move_together() {
        let axes = pad(&[2, 3, 4], PadMode::Constant, &[0, 1, 0], &[2, 5, 4]).axes();
        assert_eq!(axes.len(), 2);
        assert_eq!(axes[1], PadAxis { output: 20, input: 12, before: 4, stride: 1 });
        assert_eq!(pad(&[2, 3, 4], PadMode::Edge, &[0, 1, 0], &[2, 5, 4]).axes().len(), 3);
        assert_eq!(pad(&[2, 3, 4], PadMode::Edge, &[0, 0, 1], &[2, 3, 7]).axes().len(), 2);
    }
}
