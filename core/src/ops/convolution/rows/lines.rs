//! Rows of windows whose channels are no whole vectors, line by line: a line is what a window has of a row of pixels. Its taps and channels lie
//! side by side in memory where x is dense and taps are neighbours, so that a line of whole vectors is read by reading on.

use super::super::super::{Builder, Copy, Value};
use super::super::geometry::Geometry;
use super::{Axis, ROWS_BYTES, VECTOR_BYTES, is_worth_rows, padded};
use crate::{CompareFn, DType, Expr, Layout, Result, Shape, TensorSpec};

/// How windows become rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Bytes of rows that there are at a time.
    pub(super) rows_bytes: u64,
    /// Lines that are longer than they need be.
    pub(super) line: Option<Line>,
}

impl Gathering {
    pub(super) const DENSE: Gathering = Gathering { rows_bytes: ROWS_BYTES, line: None };

    /// Terms of a row.
    pub(super) fn terms(&self, geometry: &Geometry) -> u64 {
        match self.line {
            Some(line) => geometry.taps() / geometry.windows[2].taps * line.width,
            None => geometry.taps() * geometry.group_channels(),
        }
    }
}

/// What a window has of a row of pixels: taps and channels, side by side in memory, and what lies behind them up to a whole vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Elements that are terms of the sum.
    pub(super) terms: u64,
    /// With those behind.
    pub(super) width: u64,
}

impl Line {
    /// For channels that are no whole vectors of `dtype`, of one group; `None` for others, for taps that lie apart and for single ones.
    pub(super) fn of(geometry: &Geometry, dtype: DType) -> Option<Line> {
        let (vector, terms) = (VECTOR_BYTES / dtype.size_bytes(), geometry.windows[2].taps * geometry.channels);
        let is_apart = geometry.windows[2].dilation > 1;
        let line = Line { terms, width: terms.next_multiple_of(vector) };
        let is_served = geometry.groups == 1 && !geometry.is_pointwise() && !is_apart;
        (is_served && !geometry.channels.is_multiple_of(vector)).then_some(line)
    }

    /// Whether most of it are terms: two of three.
    pub(super) fn is_full(&self) -> bool {
        2 * self.width <= 3 * self.terms
    }
}

/// What stands behind the terms of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Zeros, whatever lies there in memory: it is multiplied by zeros, and may be not finite.
    Zeros,
    /// Anything: its sums are left out.
    Anything,
}

/// The windows of x, dense, [batch, outputs..., taps of all axes but the last..., width of the line].
pub(super) fn gathered_lines(
    graph: &mut Builder,
    padded: Value,
    axes: &[Axis],
    line: Line,
    behind: Behind,
) -> Result<Value> {
    let from = padded.spec().layout;
    let (from_dims, strides, end) = (from.dims(), from.strides(), axes.len() + 1);
    let mut dims = vec![from_dims[0]];
    let mut steps = vec![strides[0]];
    dims.extend(axes.iter().map(|axis| axis.outputs));
    steps.extend((1..end).zip(axes).map(|(at, axis)| strides[at] * axis.stride as i64));
    let outer = &axes[..axes.len() - 1];
    dims.extend(outer.iter().map(|axis| axis.taps));
    steps.extend((1..end).zip(outer).map(|(at, axis)| strides[at] * axis.dilation as i64));
    dims.push(line.width);
    steps.push(1);
    let dims = Shape::new(&dims)?;
    let view = padded.viewed(Layout::strided(dims, &steps, from.offset())?);
    if behind == Behind::Zeros && line.width > line.terms {
        let is_term = Expr::index().compare(CompareFn::Lt, line.terms as i64);
        let is_term = graph.generate(&is_term, DType::Bool, Shape::new(&[line.width])?)?;
        let value = Expr::input(1).select(Expr::input(0), Expr::constant(0).cast(padded.dtype()));
        return graph.map(&value, &[view, is_term]);
    }
    graph.one(Copy::new(view.spec(), TensorSpec::dense(padded.dtype(), dims))?, &[view])
}

/// x with its padding for `gathering`: of lines dense, with pixels behind each row that they may reach.
pub(super) fn padded_for(graph: &mut Builder, x: Value, axes: &mut [Axis], gathering: Gathering) -> Result<Value> {
    let Some(line) = gathering.line else { return padded(graph, x, axes) };
    let channels = x.dims().last().copied().unwrap_or(1).max(1);
    if let Some(last) = axes.last_mut() {
        let reach = last.outputs.saturating_sub(1) * last.stride + line.width.div_ceil(channels);
        last.padded = last.padded.max(reach);
    }
    let x = padded(graph, x, axes)?;
    graph.contiguous(x)
}

/// Whether channels of x are whole vectors.
pub(super) fn has_vectors(geometry: &Geometry, dtype: DType) -> bool {
    geometry.channels.is_multiple_of(VECTOR_BYTES / dtype.size_bytes())
}

/// How the windows of x become rows, where that is worth it.
pub(super) fn worth_gathering(geometry: &Geometry, dtype: DType) -> Option<Gathering> {
    let gathering = Gathering { line: Line::of(geometry, dtype), ..Gathering::DENSE };
    let is_whole = has_vectors(geometry, dtype) || gathering.line.is_some_and(|line| line.is_full());
    let extents = [geometry.output_pixels(), gathering.terms(geometry)];
    (is_whole && is_worth_rows(geometry, dtype, extents)).then_some(gathering)
}
