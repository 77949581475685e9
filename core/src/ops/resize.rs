//! Images in another size: nearest places, or straight lines between the four places around a point. The images are [..., height, width,
//! channels]; numbers are those of PyTorch's `interpolate`.
//!
//! Height and width are one axis after the other. Place i of an axis of `to` places reads an axis of `from` places at n / d, in whole numbers:
//! nearest floor(i from / to); centred n = max((2 i + 1) from - to, 0), d = 2 to; by corners n = i (from - 1), d = to - 1. With
//! p = floor(n / d), q = min(p + 1, from - 1) and w = (n mod d) / d it is `(1 - w) x[p] + w x[q]`. The decision to know: the gradient gathers, too.
//! What reads a place are neighbours, and at most a known number of them: each place takes theirs with their weights, in one order, so that
//! no addition is atomic and time grows with the elements alone.

use super::prelude::*;
use super::{Gather, Missing};

const OP: &str = "resize";

/// Which points two sizes of an image share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corners {
    /// The outer edges of the outermost places (PyTorch's `align_corners=False`).
    Edges,
    /// The centres of the outermost places (`align_corners=True`).
    Centres,
}

/// What lies between places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The place floor(i from / to) (PyTorch's `nearest`): any dtype, moved as it is.
    Nearest,
    /// Straight lines along both axes (PyTorch's `bilinear`): floats alone, those of 8 and 16 bits computed in f32 and rounded once.
    Bilinear(Corners),
}

/// `input` in another height and width.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resize {
    /// Images [..., height, width, channels], any view.
    pub input: TensorSpec,
    /// What lies between places.
    pub interpolation: Interpolation,
    /// Dense output of the input's dtype and shape, but for height and width.
    pub output: TensorSpec,
}

impl Resize {
    /// A checked change to `[height, width]` whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] below rank 3, and for a size without places or images without places;
    /// [`Error::UndefinedForDType`] for lines between integers or bool; [`Error::IndexWidth`] where positions do not fit 32 bits: extents
    /// whose product is 2^31 or more.
    pub fn new(input: TensorSpec, size: [u64; 2], interpolation: Interpolation) -> Result<Resize> {
        let mut dims = input.layout.dims().to_vec();
        let Some(height) = dims.len().checked_sub(3) else {
            let reason = format!("{OP} of {}; it takes [..., height, width, channels]", input.layout.shape());
            return Err(Error::InvalidArgument { what: "operand", reason });
        };
        dims[height..height + 2].copy_from_slice(&size);
        let output = TensorSpec::new(input.dtype, Layout::contiguous(Shape::new(&dims)?));
        Resize { input, interpolation, output }.check()
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// As [`Resize::new`]; [`Error::ShapeMismatch`] and [`Error::DTypeMismatch`] for another output.
    pub fn check(self) -> Result<Resize> {
        let (from, to) = (self.input.layout.dims(), self.output.layout.dims());
        if from.len() < 3 || from.len() != to.len() {
            return Err(Error::shape_mismatch(OP, self.input.layout.shape(), self.output.layout.shape(), None));
        }
        let height = from.len() - 3;
        if let Some(axis) = (0..from.len()).find(|&axis| !self.is_spatial(axis) && from[axis] != to[axis]) {
            return Err(Error::shape_mismatch(OP, self.input.layout.shape(), self.output.layout.shape(), Some(axis)));
        }
        if from[height..height + 2].contains(&0) || to[height..height + 2].contains(&0) {
            let (from, to) = (self.input.layout.shape(), self.output.layout.shape());
            let reason = format!("{OP} from {from} to {to}: height and width are at least 1");
            return Err(Error::InvalidArgument { what: "size", reason });
        }
        if self.interpolation != Interpolation::Nearest && !self.input.dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype: self.input.dtype });
        }
        check_dtype(OP, &self.output, self.input.dtype)?;
        for axis in self.axes() {
            // The largest number in the formulas is below 2 from to + 2 from + 2 to.
            let (elements, max) = ((axis.from + 1).saturating_mul(axis.to + 1), u64::from(u32::MAX) / 2);
            if elements > max {
                return Err(Error::IndexWidth { op: OP, elements, max });
            }
        }
        check_dense_output(OP, &self.output)?;
        Ok(self)
    }

    fn is_spatial(&self, axis: usize) -> bool {
        let rank = self.input.layout.rank();
        axis + 3 == rank || axis + 2 == rank
    }

    /// Height and width.
    fn axes(&self) -> [Axis; 2] {
        let (from, to) = (self.input.layout.dims(), self.output.layout.dims());
        [3, 2].map(|behind| {
            let number = from.len() - behind;
            Axis { number, from: from[number], to: to[number], interpolation: self.interpolation }
        })
    }

    /// Those that change, the one first that leaves less to the other.
    fn in_order(&self) -> Vec<Axis> {
        let mut axes = self.axes();
        if axes[0].to * axes[1].from > axes[0].from * axes[1].to {
            axes.reverse();
        }
        axes.into_iter().filter(|axis| axis.from != axis.to).collect()
    }
}

/// One axis that changes.
#[derive(Clone, Copy, Debug)]
struct Axis {
    number: usize,
    from: u64,
    to: u64,
    interpolation: Interpolation,
}

/// A whole number of a checked size.
fn whole(number: u64) -> Expr {
    Expr::constant(i64::try_from(number).unwrap_or(i64::MAX))
}

fn least(a: Expr, b: u64) -> Expr {
    a.binary(BinaryFn::Min, whole(b))
}

impl Axis {
    /// d of the module's formulas.
    fn divisor(&self) -> u64 {
        match self.interpolation {
            Interpolation::Nearest => self.to,
            Interpolation::Bilinear(Corners::Edges) => 2 * self.to,
            Interpolation::Bilinear(Corners::Centres) => (self.to - 1).max(1),
        }
    }

    /// n of place `i`, u32.
    fn dividend(&self, i: Expr) -> Expr {
        match self.interpolation {
            Interpolation::Nearest => i * whole(self.from),
            Interpolation::Bilinear(Corners::Edges) => {
                ((i * 2 + 1) * whole(self.from)).binary(BinaryFn::Max, whole(self.to)) - whole(self.to)
            }
            Interpolation::Bilinear(Corners::Centres) => i * whole(self.from - 1),
        }
    }

    /// The same on the host: p, q and w of place `i`.
    fn read(&self, i: u64) -> (u64, u64, f64) {
        let (n, d) = match self.interpolation {
            Interpolation::Nearest => (i * self.from, self.to),
            Interpolation::Bilinear(Corners::Edges) => (((2 * i + 1) * self.from).saturating_sub(self.to), 2 * self.to),
            Interpolation::Bilinear(Corners::Centres) => (i * (self.from - 1), (self.to - 1).max(1)),
        };
        let w = if self.interpolation == Interpolation::Nearest { 0.0 } else { (n % d) as f64 / d as f64 };
        (n / d, (n / d + 1).min(self.from - 1), w)
    }

    /// w of place `i`, a float of `compute`.
    fn weight(&self, i: Expr, compute: DType) -> Expr {
        (self.dividend(i) % whole(self.divisor())).cast(compute) / self.divisor() as f64
    }

    /// The first place that may read place `j`, u32: for nearest the first with p = j, else the first with n / d of j - 1 or more.
    fn first(&self, j: Expr) -> Expr {
        let (from, to) = (self.from, self.to);
        match self.interpolation {
            Interpolation::Nearest => (j * whole(to) + whole(from - 1)) / whole(from),
            Interpolation::Bilinear(Corners::Edges) => {
                let odd = j.binary(BinaryFn::Max, 1) * 2 - 1;
                let first = (odd * whole(to) + whole(from - 1)) / whole(2 * from);
                j.compare(CompareFn::Eq, 0).select(0, first).cast(DType::U32)
            }
            Interpolation::Bilinear(Corners::Centres) => {
                let steps = from.max(2) - 1;
                let before = j.binary(BinaryFn::Max, 1) - 1;
                (before * whole(to - 1) + whole(steps - 1)) / whole(steps)
            }
        }
    }

    /// How many places read one at most: those of an interval of one place, or of two.
    fn readers(&self) -> u64 {
        let most = match self.interpolation {
            Interpolation::Nearest => self.to.div_ceil(self.from),
            Interpolation::Bilinear(Corners::Edges) => 2 * self.to / self.from + 1,
            Interpolation::Bilinear(Corners::Centres) => 2 * (self.to - 1) / (self.from - 1).max(1) + 1,
        };
        if self.from == 1 { self.to } else { most.min(self.to) }
    }

    /// Positions along the axis, which all other axes share: a view for [`Gather`] of `x`.
    fn positions(&self, graph: &mut Builder, x: Value, count: u64, position: &Expr) -> Result<Value> {
        let mut dims = vec![1; x.dims().len()];
        dims[self.number] = count;
        let positions = graph.generate(&position.cast(DType::U32), DType::U32, Shape::new(&dims)?)?;
        let mut whole = x.dims().to_vec();
        whole[self.number] = count;
        positions.broadcast_to(Shape::new(&whole)?)
    }

    /// `x` with `to` places, in `compute`, or in its own dtype where it is only moved.
    fn forwards(&self, graph: &mut Builder, x: Value, compute: DType) -> Result<Value> {
        let i = || Expr::index().cast(DType::U32);
        let p = self.dividend(i()) / whole(self.divisor());
        let places = self.positions(graph, x, self.to, &p)?;
        let below = gathered(graph, x, places, self.number)?;
        if self.interpolation == Interpolation::Nearest {
            return Ok(below);
        }
        let places = self.positions(graph, x, self.to, &least(p + 1, self.from - 1))?;
        let above = gathered(graph, x, places, self.number)?;
        let mut dims = vec![1; x.dims().len()];
        dims[self.number] = self.to;
        let weights = graph.generate(&self.weight(i(), compute), compute, Shape::new(&dims)?)?;
        let [a, b, w] = [0, 1, 2].map(|number| Expr::input(number).cast(compute));
        // A place that is met exactly is taken alone: an infinity beside it does not show.
        let line = a.clone() * (Expr::constant(1.0) - &w) + b * &w;
        graph.map(&w.compare(CompareFn::Eq, 0.0).select(a, line), &[below, above, weights])
    }

    /// The transposed of [`Axis::forwards`]: `dy` with `from` places, in `compute`.
    fn backwards(&self, graph: &mut Builder, dy: Value, compute: DType) -> Result<Value> {
        let (readers, dims) = (self.readers(), dy.dims().to_vec());
        let outer: u64 = dims[..self.number].iter().product();
        let inner: u64 = dims[self.number + 1..].iter().product();
        let line = Axis { number: 1, ..*self };
        let dy = dy.reshape([outer, self.to, inner])?;
        let at = || Expr::index().cast(DType::U32);
        let j = || at() / whole(readers);
        let i = || self.first(j()) + at() % whole(readers);
        let inside = || least(i(), self.to - 1);
        let places = line.positions(graph, dy, self.from * readers, &inside())?;
        let taken = gathered(graph, dy, places, 1)?.reshape([outer, self.from, readers, inner])?;
        let p = self.dividend(inside()) / whole(self.divisor());
        let is_here = p.compare(CompareFn::Eq, j());
        let weight = if self.interpolation == Interpolation::Nearest {
            is_here.select(1.0, 0.0)
        } else {
            let w = self.weight(inside(), compute);
            let is_next = least(p + 1, self.from - 1).compare(CompareFn::Eq, j());
            is_here.select(Expr::constant(1.0) - &w, 0.0) + is_next.select(w, 0.0)
        };
        let weight = i().compare(CompareFn::Lt, whole(self.to)).select(weight, 0.0).cast(compute);
        let weights = graph.generate(&weight, compute, Shape::new(&[1, self.from, readers, 1])?)?;
        let [dy, w] = [0, 1].map(|number| Expr::input(number).cast(compute));
        // Of what does not read the place nothing comes, were it an infinity.
        let term = w.compare(CompareFn::Eq, 0.0).select(0.0, dy * &w).cast(compute);
        let terms = graph.map(&term, &[taken, weights])?;
        let sums = graph.reduce(ReduceFn::Sum, terms, &[2], KeepDims::No)?;
        let mut whole = dims;
        whole[self.number] = self.from;
        sums.reshape(Shape::new(&whole)?)
    }
}

fn gathered(graph: &mut Builder, x: Value, places: Value, axis: usize) -> Result<Value> {
    let gather = Gather::new(x.spec(), places.spec(), axis, Missing::Zero)?;
    let value = graph.apply(gather, &[x, places])?.pop();
    value.ok_or_else(|| Error::InvalidArgument { what: "graph", reason: format!("{OP}: a gather gave nothing") })
}

impl Operation for Resize {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// Two products and a sum along each axis; nothing where elements are moved.
    fn arithmetic(&self) -> Arithmetic {
        match self.interpolation {
            Interpolation::Nearest => Arithmetic::default(),
            Interpolation::Bilinear(_) => Arithmetic::flops(self.output.layout.elements().saturating_mul(6)),
        }
    }

    /// The definition in float64. Bound, u being the roundoff: a weight errs by 4 u, and each of the two axes rounds three times, of the
    /// largest of four magnitudes. Elements that are moved alone are exact.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let [height, width] = self.axes();
        let channels = self.output.layout.dims().last().copied().unwrap_or(0);
        let compute = self.input.dtype.compute();
        let (u, tiny) = (compute.unit_roundoff(), compute.min_normal());
        let x = &before[0].values;
        let element = |at: u64| {
            let (channel, at) = (at % channels, at / channels);
            let (column, at) = (at % width.to, at / width.to);
            let (row, image) = (at % height.to, at / height.to);
            let ((top, bottom, down), (left, right, across)) = (height.read(row), width.read(column));
            let pixel = |row: u64, column: u64| {
                x[(((image * height.from + row) * width.from + column) * channels + channel) as usize]
            };
            if self.interpolation == Interpolation::Nearest {
                return Expected::exact(pixel(top, left));
            }
            let lerp = |a: f64, b: f64, w: f64| if w == 0.0 { a } else { a * (1.0 - w) + b * w };
            let of = |row: u64, column: u64| pixel(row, column).as_f64();
            let [upper, lower] = [top, bottom].map(|row| lerp(of(row, left), of(row, right), across));
            let value = lerp(upper, lower, down);
            let corners = [(top, left), (top, right), (bottom, left), (bottom, right)];
            let most = corners.iter().map(|&(row, column)| of(row, column).abs()).fold(0.0, f64::max);
            let error = if value.is_finite() { 16.0 * u * most + 4.0 * tiny } else { 0.0 };
            Expected::within(Scalar::F(value), error).round_to(self.output.dtype)
        };
        vec![(0..self.output.layout.elements()).map(element).collect()]
    }

    /// The transposed: each place takes from those that read it, with their weights.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        RuleBuilder::of_first(self, needs, |rule| {
            let dy = rule.gradient(0)?;
            let graph = &mut rule.graph;
            let compute = self.input.dtype.compute();
            let mut dx = dy;
            for axis in self.in_order().iter().rev() {
                dx = axis.backwards(graph, dx, compute)?;
            }
            // Of the same size it is what came, which is no result of a graph.
            let dx = graph.map(&Expr::input(0).cast(self.input.dtype), &[dx])?;
            Ok(dx)
        })
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        let mut graph = Builder::new(vec![self.input]);
        let (mut x, compute) = (graph.input(0)?, self.input.dtype.compute());
        for axis in self.in_order() {
            x = axis.forwards(&mut graph, x, compute)?;
        }
        let x = graph.cast(x, self.input.dtype)?;
        Ok(Some(graph.finish(OP, &[x], &[self.output])?))
    }

    fn describe(&self, name: &mut String) {
        let [height, width] = self.axes();
        let how = match self.interpolation {
            Interpolation::Nearest => "nearest",
            Interpolation::Bilinear(Corners::Edges) => "bilinear",
            Interpolation::Bilinear(Corners::Centres) => "bilinear corners",
        };
        name.push_str(&format!(" to {}x{} {how}", height.to, width.to));
    }

    fn facts(&self) -> super::Facts {
        super::Facts { repeats: true, ..super::Facts::default() }
    }

    /// The op on the first `extent` indices of the output's `axis` alone: of images and channels.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if self.is_spatial(axis) {
            return None;
        }
        let (input, output) = (self.input.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        Some(Resize { input, output, ..self.clone() }.into())
    }

    /// Some images and channels, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = Thinning::new(self.output.layout.dims(), |axis| !self.is_spatial(axis));
        let positions = thinning.of(&self.output.layout)?;
        let output = sample::dense(self.output.dtype, &positions);
        let op = Resize { input: thinning.of_spec(&self.input)?, output, ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

impl Tensor {
    /// Images [..., height, width, channels] in the size `[height, width]`, larger or smaller. PyTorch's `interpolate` with `nearest` and
    /// `bilinear`, without its smoothing of smaller sizes; its images are [..., channels, height, width].
    ///
    /// ```
    /// use polywarp_core::ops::{Corners, Interpolation};
    /// use polywarp_core::{Device, Tensor};
    ///
    /// // One row of two pixels.
    /// let x = Tensor::from_slice(&Device::cpu(), &[0.0f32, 4.0], [1, 2, 1])?;
    /// let row = |how| x.resize([1, 4], how)?.to_vec::<f32>();
    /// assert_eq!(row(Interpolation::Nearest)?, [0.0, 0.0, 4.0, 4.0]);
    /// assert_eq!(row(Interpolation::Bilinear(Corners::Edges))?, [0.0, 1.0, 3.0, 4.0]);
    /// assert_eq!(x.resize([1, 3], Interpolation::Bilinear(Corners::Centres))?.to_vec::<f32>()?, [0.0, 2.0, 4.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Resize::new`]; memory errors of the device.
    pub fn resize(&self, size: [u64; 2], interpolation: Interpolation) -> Result<Tensor> {
        let op = Resize::new(self.spec(), size, interpolation)?;
        Ok(Tensor::apply(self.device(), op, &[self])?.swap_remove(0))
    }
}

#[cfg(test)]
mod tests;
