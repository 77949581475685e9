//! Convolutions as matrix products of rows: all windows side by side in memory, `[pixels of y, terms]`, times the filters.
//!
//! What serves where no kernel gathers windows itself: whole numbers and floats of 8 bits, with scales or without; and floats of 16 bits on
//! devices that multiply matrices on units of their own, which products have kernels for and gathering has not ([`Operation::by_products`]). The
//! decision to know: a window overlaps its neighbours, so rows take several times the memory of what they are of; images are taken a few at a
//! time, so that rows take no more than [`ROWS_BYTES`], which every device binds. Channels that are no whole vectors are taken line by line
//! ([`Line`]): taps along the last axis and their channels lie side by side in memory, and more elements make whole vectors of them.

use super::super::matmul::Matmul;
use super::super::{Builder, Copy, Operation, Pad, PadMode, Value};
use super::geometry::Geometry;
use super::window::Window;
use super::{Convolution, ConvolutionInput, ConvolutionWeights, as_matrix};
use crate::graph::Graph;
use crate::{DType, Expr, Layout, Result, Shape, TensorSpec};

mod lines;

use lines::{Behind, Gathering, gathered_lines, has_vectors, padded_for, worth_gathering};

/// Bytes of rows that there are at a time, unless one image has more: what WebGPU binds at least.
const ROWS_BYTES: u64 = 128 << 20;
/// Bytes of a vector: rows and results of 16-bit floats are made of whole ones.
const VECTOR_BYTES: u64 = 16;
/// Terms and pixels from which a product is worth its rows.
const WORTH: u64 = 64;

/// An axis along which windows move over what may lie in padding.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Of padding before; less than nothing leaves elements out.
    before: i64,
    /// Extent with padding on both sides.
    padded: u64,
    outputs: u64,
    taps: u64,
    stride: u64,
    dilation: u64,
}

impl Axis {
    /// As a convolution walks over its input.
    fn of(window: &Window) -> Axis {
        let Window { input, output, taps, stride, dilation, before, after } = *window;
        Axis { before: before as i64, padded: input + before + after, outputs: output, taps, stride, dilation }
    }
}

/// The inputs of one remainder of the stride along an axis, which taps of one remainder reach: their gradient is a convolution of that of y.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// The first input; the next one is a stride away.
    input: u64,
    /// The first tap, and the next one likewise. The last is met first.
    tap: u64,
    step: u64,
    /// How it walks over the gradient of y: each input looks back at the windows that it lies in. No taps where none reaches it.
    axis: Axis,
}

impl Phase {
    /// All of an axis with inputs; its stride or its dilation is 1.
    fn all(window: &Window) -> Vec<Phase> {
        let Window { input, taps, stride, dilation, before, .. } = *window;
        let phase = |tap: u64| {
            let (tap_at, padding) = (tap as i64, before as i64);
            let first = (tap_at - padding).rem_euclid(stride as i64);
            // Input `first + m stride` lies under tap `tap + j stride` of window `window + m - j`; of a stride of 1 under tap j of `window + m - j dilation`.
            let window = (first + padding - tap_at) / stride as i64;
            let (inputs, reached) =
                (input.saturating_sub(first as u64).div_ceil(stride), taps.saturating_sub(tap).div_ceil(stride));
            let reach = dilation * reached.saturating_sub(1);
            let axis = Axis {
                before: reach as i64 - window,
                padded: inputs + reach,
                outputs: inputs,
                taps: reached,
                stride: 1,
                dilation,
            };
            Phase { input: first as u64, tap, step: stride, axis }
        };
        (0..stride).map(phase).filter(|phase| phase.axis.outputs > 0).collect()
    }
}

/// `x`, [batch, spatial..., channels], with its padding.
fn padded(graph: &mut Builder, x: Value, axes: &[Axis]) -> Result<Value> {
    let mut dims = x.dims().to_vec();
    let mut before = vec![0; dims.len()];
    for (at, axis) in (1..).zip(axes) {
        dims[at] = axis.padded;
        before[at] = axis.before;
    }
    if before.iter().all(|&before| before == 0) && dims == x.dims() {
        return Ok(x);
    }
    graph.one(Pad::new(x.spec(), PadMode::Constant, before, &dims, 0)?, &[x])
}

/// The windows of `padded`, dense, [batch, outputs..., taps..., channels]: elements are there as often as windows hold them.
fn gathered(graph: &mut Builder, padded: Value, axes: &[Axis]) -> Result<Value> {
    let from = padded.spec().layout;
    let (from_dims, strides, end) = (from.dims(), from.strides(), axes.len() + 1);
    let mut dims = vec![from_dims[0]];
    let mut steps = vec![strides[0]];
    dims.extend(axes.iter().map(|axis| axis.outputs));
    steps.extend((1..end).zip(axes).map(|(at, axis)| strides[at] * axis.stride as i64));
    dims.extend(axes.iter().map(|axis| axis.taps));
    steps.extend((1..end).zip(axes).map(|(at, axis)| strides[at] * axis.dilation as i64));
    dims.push(from_dims[end]);
    steps.push(strides[end]);
    let dims = Shape::new(&dims)?;
    let view = padded.viewed(Layout::strided(dims, &steps, from.offset())?);
    if view.spec().layout.is_contiguous() {
        return Ok(view);
    }
    graph.one(Copy::new(view.spec(), TensorSpec::dense(padded.dtype(), dims))?, &[view])
}

/// How many images are taken at a time. There are `batch`; an image has `rows` of `terms` elements of `dtype`, and a row gives `width` results.
/// Rows take `rows_bytes` at most.
fn images_at_a_time(
    [batch, rows_bytes]: [u64; 2],
    [rows, terms]: [u64; 2],
    dtype: DType,
    result: DType,
    width: u64,
) -> u64 {
    let image_bytes = rows.saturating_mul(terms).saturating_mul(dtype.size_bytes()).max(1);
    let most = (rows_bytes / image_bytes).clamp(1, batch.max(1));
    // Each part of the results begins where a dense result may.
    let is_aligned = |images: &u64| {
        let elements = images.saturating_mul(rows).saturating_mul(width);
        elements.saturating_mul(result.size_bytes()).is_multiple_of(VECTOR_BYTES)
    };
    if most >= batch { batch } else { (1..=most).rev().find(is_aligned).unwrap_or(batch) }
}

/// The parts of `batch` images, `at_a_time`: first and end. Of none there is one, of none.
fn parts(batch: u64, at_a_time: u64) -> impl Iterator<Item = (u64, u64)> {
    let at_a_time = at_a_time.max(1);
    (0..batch.div_ceil(at_a_time).max(1)).map(move |part| (part * at_a_time, ((part + 1) * at_a_time).min(batch)))
}

/// What follows the sums of a convolution.
struct Ends<'a> {
    of: &'a Convolution,
    residual: Option<Value>,
    bias: Option<Value>,
    /// Of x, `[1]`, and of each filter.
    scales: Option<[Value; 2]>,
}

impl Ends<'_> {
    /// One group: the product of `rows`, [pixels, terms], with its epilogue, dense, `offset` elements behind the start of its buffer.
    fn product(&self, rows: Value, weights: Value, offset: u64) -> Result<(Matmul, Vec<Value>)> {
        let [pixels, filters] = [rows.dims()[0], self.of.geometry.filters];
        let scales = self.scales.map(|[x, w]| {
            Ok::<_, crate::Error>([x.reshape([1, 1])?.broadcast_to([pixels, 1])?, w.reshape([1, filters])?])
        });
        let [scale_a, scale_b] = scales.transpose()?.map_or([None; 2], |scales| scales.map(Some));
        let layout = Layout::contiguous(Shape::new(&[pixels, filters])?).with_offset(offset);
        let [c, bias, a, b] = [self.residual, self.bias, scale_a, scale_b].map(|value| value.map(|value| value.spec()));
        let product = Matmul {
            c,
            beta: if c.is_some() { 1.0 } else { 0.0 },
            bias,
            scale_a: a,
            scale_b: b,
            activation: self.of.activation,
            ..Matmul::product(rows.spec(), weights.spec(), TensorSpec::new(self.of.output.dtype, layout))
        };
        let operands = [Some(rows), Some(weights), self.residual, self.bias, scale_a, scale_b];
        Ok((product.check()?, operands.into_iter().flatten().collect()))
    }

    /// Several groups: a batch of products of `rows`, [groups, pixels, terms], and the rest behind it.
    fn products(&self, graph: &mut Builder, rows: Value, weights: Value) -> Result<Value> {
        let (geometry, output) = (&self.of.geometry, self.of.output.dtype);
        let [groups, filters, pixels] = [geometry.groups, geometry.group_filters(), rows.dims()[1]];
        let scales = self.scales.map(|[x, w]| {
            let x = x.reshape([1, 1, 1])?.broadcast_to([groups, pixels, 1])?;
            Ok::<_, crate::Error>([x, w.reshape([groups, 1, filters])?])
        });
        let scales = scales.transpose()?;
        let sums = if output.is_float() { DType::F32 } else { output };
        let sums = TensorSpec::dense(sums, Shape::new(&[groups, pixels, filters])?);
        let product = Matmul {
            scale_a: scales.map(|scales| scales[0].spec()),
            scale_b: scales.map(|scales| scales[1].spec()),
            ..Matmul::product(rows.spec(), weights.spec(), sums)
        };
        let operands: Vec<Value> = [rows, weights].into_iter().chain(scales.into_iter().flatten()).collect();
        let sums = graph.one(product.check()?, &operands)?;
        let mut values = vec![sums.transpose(0, 1)?];
        let mut y = Expr::input(0);
        if let Some(residual) = self.residual {
            y = y + Expr::input(values.len()).cast(sums.dtype());
            values.push(graph.contiguous(residual)?.reshape([pixels, groups, filters])?);
        }
        if let Some(bias) = self.bias {
            y = y + Expr::input(values.len()).cast(sums.dtype());
            values.push(bias.reshape([groups, filters])?);
        }
        if let Some(activation) = self.of.activation {
            y = y.unary(activation);
        }
        graph.map(&y.cast(output), &values)
    }
}

/// Whether sums have scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Scales {
    Absent,
    /// The last two inputs: of x, `[1]`, and of each filter.
    Last,
}

/// The convolution `of` as a graph over `inputs`: x, weights, then residual and bias where it has them, and scales.
///
/// # Errors
/// None that checked operands could cause.
pub(in crate::ops) fn forward(
    name: &'static str,
    inputs: Vec<TensorSpec>,
    of: &Convolution,
    scales: Scales,
) -> Result<Graph> {
    forward_of(name, inputs, of, scales, Gathering::DENSE)
}

/// [`forward`] by rows as `gathering` says.
fn forward_of(
    name: &'static str,
    inputs: Vec<TensorSpec>,
    of: &Convolution,
    scales: Scales,
    gathering: Gathering,
) -> Result<Graph> {
    let (geometry, output) = (&of.geometry, of.output);
    let count = inputs.len();
    let mut graph = Builder::new(inputs);
    let residual = of.residual.map(|_| graph.input(2)).transpose()?;
    let bias = of.bias.map(|_| graph.input(2 + usize::from(residual.is_some()))).transpose()?;
    let scales = match scales {
        Scales::Absent => None,
        Scales::Last => Some([graph.input(count - 2)?, graph.input(count - 1)?]),
    };
    let (mut x, mut weights) = (graph.input(0)?, graph.input(1)?);
    if x.dtype().is_float8() {
        // All of them are exact in f16, for which there are products wherever there are any.
        (x, weights) = (graph.cast(x, DType::F16)?, graph.cast(weights, DType::F16)?);
    }
    let [terms, filters] = [gathering.terms(geometry), geometry.filters];
    let mut weights = graph.contiguous(weights)?;
    let mut axes: Vec<Axis> = geometry.windows[3 - geometry.rank..].iter().map(Axis::of).collect();
    if geometry.groups > 1 {
        let (groups, pixels) = (geometry.groups, geometry.batch * geometry.output_pixels());
        let x = padded(&mut graph, x, &axes)?;
        let rows = gathered(&mut graph, x, &axes)?;
        let by_group = rows.reshape([pixels, geometry.taps(), groups, geometry.group_channels()])?;
        let by_group = by_group.transpose(1, 2)?.transpose(0, 1)?;
        let rows = graph.contiguous(by_group)?.reshape([groups, pixels, terms])?;
        let weights = weights.reshape([groups, geometry.group_filters(), terms])?.t()?;
        let residual = residual.map(|value| Ok::<_, crate::Error>(value.viewed(as_matrix(&value.spec())?.layout)));
        let ends = Ends { of, residual: residual.transpose()?, bias, scales };
        let y = ends.products(&mut graph, rows, weights)?.reshape(*output.layout.shape())?;
        return graph.finish(name, &[y], &[output]);
    }
    if let Some(line) = gathering.line {
        let lines = weights.reshape([filters, terms / line.width, line.terms])?;
        let dims = [filters, terms / line.width, line.width];
        weights = graph.one(Pad::new(lines.spec(), PadMode::Constant, vec![0; 3], &dims, 0)?, &[lines])?;
    }
    let weights = weights.reshape([filters, terms])?.t()?;
    let is_pointwise = geometry.is_pointwise();
    let pixels = geometry.output_pixels();
    let at_a_time = match is_pointwise {
        true => geometry.batch,
        false => {
            let batch = [geometry.batch, gathering.rows_bytes];
            images_at_a_time(batch, [pixels, terms], x.dtype(), output.dtype, filters)
        }
    };
    let x = if is_pointwise { x } else { padded_for(&mut graph, x, &mut axes, gathering)? };
    let y = graph.place(TensorSpec::dense(output.dtype, Shape::new(&[geometry.batch * pixels, filters])?));
    for (first, end) in parts(geometry.batch, at_a_time) {
        let images = x.slice(0, first, end)?;
        let rows = if is_pointwise {
            images.viewed(as_matrix(&images.spec())?.layout)
        } else {
            let rows = match gathering.line {
                Some(line) => gathered_lines(&mut graph, images, &axes, line, Behind::Zeros)?,
                None => gathered(&mut graph, images, &axes)?,
            };
            rows.reshape([(end - first) * pixels, terms])?
        };
        let part = |value: Value| {
            let value = value.slice(0, first, end)?;
            Ok::<_, crate::Error>(value.viewed(as_matrix(&value.spec())?.layout))
        };
        let ends = Ends { of, residual: residual.map(part).transpose()?, bias, scales };
        let (product, operands) = ends.product(rows, weights, first * pixels * filters)?;
        graph.write(product, &operands, y)?;
    }
    let y = y.reshape(*output.layout.shape())?;
    graph.finish(name, &[y], &[output])
}

/// Whether rows are worth what they cost for floats of 16 bits: whole vectors of results, and rows of one image that can be bound.
fn is_worth_rows(geometry: &Geometry, dtype: DType, [rows, terms]: [u64; 2]) -> bool {
    let vector = VECTOR_BYTES / dtype.size_bytes();
    let is_served = matches!(dtype, DType::F16 | DType::BF16) && geometry.groups == 1 && !geometry.is_pointwise();
    let image_bytes = rows.saturating_mul(terms).saturating_mul(dtype.size_bytes());
    is_served
        && geometry.channels > 0
        && geometry.filters > 0
        && geometry.filters.is_multiple_of(vector)
        && terms >= WORTH
        && geometry.batch.saturating_mul(rows) >= WORTH
        && image_bytes <= ROWS_BYTES
}

impl Convolution {
    /// As a product of rows, where that may be faster than what gathers them itself.
    pub(super) fn as_rows(&self) -> Result<Option<Graph>> {
        let Some(gathering) = worth_gathering(&self.geometry, self.x.dtype) else { return Ok(None) };
        forward_of(self.name(), self.inputs(), self, Scales::Absent, gathering).map(Some)
    }
}

impl ConvolutionInput {
    /// Along axes whose stride or dilation is 1, as products, one for each remainder of the strides: the rows are those of dy, and the filters are
    /// turned round.
    pub(super) fn as_rows(&self) -> Result<Option<Graph>> {
        let geometry = &self.geometry;
        let strides = geometry.windows.iter().fold(1u64, |all, window| all.saturating_mul(window.stride));
        let taps: u64 = geometry.windows.iter().map(|window| window.taps.div_ceil(window.stride)).product();
        let extents = [geometry.input_pixels() / strides, taps * geometry.filters];
        let dtype = self.gradient.dtype;
        if !self.has_phases() || !has_vectors(geometry, dtype) || !is_worth_rows(geometry, dtype, extents) {
            return Ok(None);
        }
        self.rows(ROWS_BYTES).map(Some)
    }

    fn has_phases(&self) -> bool {
        self.geometry.windows.iter().all(|window| window.stride == 1 || window.dilation == 1)
    }

    fn rows(&self, rows_bytes: u64) -> Result<Graph> {
        let geometry = &self.geometry;
        let mut graph = Builder::new(self.inputs());
        // Every remainder of every axis with every one of the others.
        let mut phases: Vec<Vec<Phase>> = vec![Vec::new()];
        for window in &geometry.windows[3 - geometry.rank..] {
            let before = std::mem::take(&mut phases);
            for phase in Phase::all(window) {
                phases.extend(before.iter().map(|others| [&others[..], &[phase]].concat()));
            }
        }
        let is_reached = |phases: &Vec<Phase>| phases.iter().all(|phase| phase.axis.taps > 0);
        let (dtype, shape) = (self.output.dtype, geometry.input_shape()?);
        let dx = match phases.iter().all(is_reached) {
            // Written by products as they are, or by copies of what they give.
            true if self.is_one_phase() => {
                let pixels = geometry.batch * geometry.input_pixels();
                graph.place(TensorSpec::dense(dtype, Shape::new(&[pixels, geometry.channels])?))
            }
            true => graph.place(TensorSpec::dense(dtype, shape)),
            false => graph.full(dtype, shape, 0)?,
        };
        for phases in phases.iter().filter(|phases| is_reached(phases)) {
            self.phase(&mut graph, dx, phases, rows_bytes)?;
        }
        graph.finish(self.name(), &[dx.reshape(shape)?], &[self.output])
    }

    fn is_one_phase(&self) -> bool {
        self.geometry.windows.iter().all(|window| window.stride == 1)
    }

    /// The gradients of the inputs of `phases`, one for each axis, in their places in `dx`.
    fn phase(&self, graph: &mut Builder, dx: Value, phases: &[Phase], rows_bytes: u64) -> Result<()> {
        let geometry = &self.geometry;
        let (dy, weights) = (graph.input(0)?, graph.input(1)?);
        let mut turned = weights.spec().layout;
        for (axis, phase) in (1..).zip(phases) {
            turned = turned.slice(axis, phase.tap, turned.dims()[axis], phase.step as i64)?;
            turned = turned.slice(axis, 0, turned.dims()[axis], -1)?;
        }
        let order: Vec<usize> = (1..=geometry.rank).chain([0, geometry.rank + 1]).collect();
        let axes: Vec<Axis> = phases.iter().map(|phase| phase.axis).collect();
        let pixels: u64 = axes.iter().map(|axis| axis.outputs).product();
        let taps: u64 = axes.iter().map(|axis| axis.taps).product();
        let (terms, channels) = (taps * geometry.filters, geometry.channels);
        let weights = graph.contiguous(weights.viewed(turned.permute(&order)?))?.reshape([terms, channels])?;
        let dy = padded(graph, dy, &axes)?;
        let batch = [geometry.batch, rows_bytes];
        let at_a_time = images_at_a_time(batch, [pixels, terms], dy.dtype(), self.output.dtype, channels);
        for (first, end) in parts(geometry.batch, at_a_time) {
            let rows = gathered(graph, dy.slice(0, first, end)?, &axes)?.reshape([(end - first) * pixels, terms])?;
            let shape = Shape::new(&[(end - first) * pixels, channels])?;
            let product = |offset: u64| {
                let output = TensorSpec::new(dx.dtype(), Layout::contiguous(shape).with_offset(offset));
                Matmul::product(rows.spec(), weights.spec(), output).check()
            };
            if self.is_one_phase() {
                graph.write(product(first * pixels * channels)?, &[rows, weights], dx)?;
                continue;
            }
            let found = graph.one(product(0)?, &[rows, weights])?;
            let mut place = dx.spec().layout.slice(0, first, end, 1)?;
            for (axis, phase) in (1..).zip(phases) {
                place = place.slice(axis, phase.input, place.dims()[axis], phase.step as i64)?;
            }
            graph.lay(found.reshape(*place.shape())?, dx, TensorSpec::new(dx.dtype(), place))?;
        }
        Ok(())
    }
}

impl ConvolutionWeights {
    /// As a product over pixels: dy turned round times the rows of x. Of images a few at a time, the sums of f32 are added up in order.
    pub(super) fn as_rows(&self) -> Result<Option<Graph>> {
        let Some(gathering) = worth_gathering(&self.geometry, self.output.dtype) else { return Ok(None) };
        self.rows(gathering).map(Some)
    }

    fn rows(&self, gathering: Gathering) -> Result<Graph> {
        let (geometry, dtype) = (&self.geometry, self.output.dtype);
        let [pixels, terms] = [geometry.output_pixels(), gathering.terms(geometry)];
        let mut graph = Builder::new(self.inputs());
        let (dy, x) = (graph.input(0)?, graph.input(1)?);
        let mut axes: Vec<Axis> = geometry.windows[3 - geometry.rank..].iter().map(Axis::of).collect();
        let x = padded_for(&mut graph, x, &mut axes, gathering)?;
        let (batch, rows) = ([geometry.batch, gathering.rows_bytes], [pixels, terms]);
        let at_a_time = images_at_a_time(batch, rows, dtype, dtype, geometry.filters);
        let sums = if at_a_time < geometry.batch { dtype.compute() } else { dtype };
        let shape = Shape::new(&[geometry.filters, terms])?;
        let mut sum: Option<Value> = None;
        for (first, end) in parts(geometry.batch, at_a_time) {
            let images = x.slice(0, first, end)?;
            let rows = match gathering.line {
                Some(line) => gathered_lines(&mut graph, images, &axes, line, Behind::Anything)?,
                None => gathered(&mut graph, images, &axes)?,
            };
            let rows = rows.reshape([(end - first) * pixels, terms])?;
            let dy = dy.slice(0, first, end)?;
            let dy = dy.viewed(as_matrix(&dy.spec())?.layout).t()?;
            let product = Matmul::product(dy.spec(), rows.spec(), TensorSpec::dense(sums, shape)).check()?;
            let part = graph.one(product, &[dy, rows])?;
            sum = Some(match sum {
                Some(so_far) => graph.map(&(Expr::input(0) + Expr::input(1)), &[so_far, part])?,
                None => part,
            });
        }
        // There is always a part, if of nothing.
        let mut sum = sum.map_or_else(|| graph.full(sums, shape, 0), Ok)?;
        if let Some(line) = gathering.line {
            let lines = sum.reshape([geometry.filters, terms / line.width, line.width])?;
            sum = graph.contiguous(lines.slice(2, 0, line.terms)?)?;
        }
        let sum = graph.cast(sum, dtype)?.reshape(*self.output.layout.shape())?;
        graph.finish(self.name(), &[sum], &[self.output])
    }
}

#[cfg(all(test, feature = "cpu"))]
#[path = "rows/tests.rs"]
mod tests;
