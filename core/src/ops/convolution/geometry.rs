//! What a convolution is beside its operands: options as they are given, and the extents that follow from them ([`Geometry`]).

use super::super::TensorSpec;
use super::super::take::distance;
use super::window::{Window, per_axis, three};
use crate::{Error, Result, Shape, UnaryFn};

/// How windows move over tensors [batch, spatial..., channels]: what convolutions have beside operands.
///
/// Numbers for spatial axes are given once for all of them, or one for each; none means 1 (stride, dilation) or 0 (paddings).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionOptions {
    /// From a window to the next one.
    pub stride: Vec<u64>,
    /// From a tap of a window to the next one.
    pub dilation: Vec<u64>,
    /// Zeros before and behind each spatial axis.
    pub padding: Vec<[u64; 2]>,
    /// Groups of channels, each convolved by its own filters; as many as channels for depthwise convolutions.
    pub groups: u64,
    /// Elements that a transposed convolution adds at the end of each axis; convolutions have none.
    pub output_padding: Vec<u64>,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
}

impl Default for ConvolutionOptions {
    fn default() -> Self {
        let (stride, dilation, padding, output_padding) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        ConvolutionOptions { stride, dilation, padding, groups: 1, output_padding, activation: None }
    }
}

impl ConvolutionOptions {
    /// This stride along all axes.
    #[must_use]
    pub fn stride(self, stride: u64) -> Self {
        ConvolutionOptions { stride: vec![stride], ..self }
    }

    /// This dilation along all axes.
    #[must_use]
    pub fn dilation(self, dilation: u64) -> Self {
        ConvolutionOptions { dilation: vec![dilation], ..self }
    }

    /// As many zeros on either side of all axes.
    #[must_use]
    pub fn padding(self, padding: u64) -> Self {
        ConvolutionOptions { padding: vec![[padding; 2]], ..self }
    }

    /// As many outputs as inputs at a stride of 1, for windows of `taps`, one number for each axis, at the dilation set so far: PyTorch's
    /// `padding="same"`. Of an odd number of zeros the one more lies behind.
    ///
    /// ```
    /// use polywarp_core::ops::ConvolutionOptions;
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 2, 3, 1])?;
    /// let w = Tensor::full(&device, DType::F32, [1, 2, 2, 1], 1)?;
    /// let y = x.conv(&w, &ConvolutionOptions::default().same(&[2, 2]))?;
    /// assert_eq!(y.dims(), [1, 2, 3, 1]);
    /// assert_eq!(y.to_vec::<f32>()?, [12.0, 16.0, 9.0, 9.0, 11.0, 6.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    #[must_use]
    pub fn same(self, taps: &[u64]) -> Self {
        let dilation = |axis: usize| self.dilation.get(axis).or(self.dilation.last()).copied().unwrap_or(1);
        let zeros = (0..).zip(taps).map(|(axis, taps)| taps.saturating_sub(1).saturating_mul(dilation(axis)));
        let padding = zeros.map(|zeros| [zeros / 2, zeros.div_ceil(2)]).collect();
        ConvolutionOptions { padding, ..self }
    }

    /// That many groups of channels.
    #[must_use]
    pub fn groups(self, groups: u64) -> Self {
        ConvolutionOptions { groups, ..self }
    }

    /// That many elements more at the end of all axes of a transposed convolution.
    #[must_use]
    pub fn output_padding(self, output_padding: u64) -> Self {
        ConvolutionOptions { output_padding: vec![output_padding], ..self }
    }

    /// `activation` applied last.
    #[must_use]
    pub fn activation(self, activation: UnaryFn) -> Self {
        ConvolutionOptions { activation: Some(activation), ..self }
    }
}

/// From a pixel of [batch, spatial..., channels] to the next one in elements; `None` for channels that do not lie one after the
/// other and for pixels at several distances.
pub fn pixel_pitch(spec: &TensorSpec) -> Option<i64> {
    let (dims, strides) = (spec.layout.dims(), spec.layout.strides());
    let (last, pixels) = (dims.len().checked_sub(1)?, dims.len() - 1);
    let is_dense = dims.contains(&0) || dims[last] == 1 || strides[last] == 1;
    if is_dense { distance(&dims[..pixels], &strides[..pixels]) } else { None }
}

/// Refuses an operand without a [`pixel_pitch`].
pub(in crate::ops) fn check_pixels(op: &'static str, what: &'static str, spec: &TensorSpec) -> Result<()> {
    if pixel_pitch(spec).is_some() {
        return Ok(());
    }
    let reason = format!(
        "{op} reads pixels of neighbouring channels at one distance, not {:?}; make it contiguous first",
        spec.layout
    );
    Err(Error::InvalidArgument { what, reason })
}

/// What is convolved with what: extents of x [batch, spatial..., channels], weights [filters, taps..., channels / groups] and y [batch,
/// outputs..., filters].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Images.
    pub batch: u64,
    /// Channels of x.
    pub channels: u64,
    /// Channels of y.
    pub filters: u64,
    /// Groups of channels.
    pub groups: u64,
    /// Spatial axes, 1 to 3.
    pub rank: usize,
    /// Their windows, those that are not there in front.
    pub windows: [Window; 3],
}

impl Geometry {
    /// The same windows by the shortest strides: one that is longer than the padded input leads nowhere.
    pub(super) fn with_shortest_strides(mut self) -> Geometry {
        for window in &mut self.windows {
            window.stride = window.stride.min((window.input + window.before + window.after).max(1));
        }
        self
    }

    /// The last groups alone, at most `most`.
    pub(super) fn last_groups(&self, most: u64) -> Geometry {
        let groups = self.groups.min(most);
        let of = |all: u64| all / self.groups * groups;
        Geometry { groups, channels: of(self.channels), filters: of(self.filters), ..*self }
    }

    /// That of a convolution of x with weights.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for another number of axes and channels that do not fit, [`Error::InvalidArgument`] for numbers that have
    /// no meaning, each saying which to change.
    pub fn new(op: &'static str, x: &Shape, weights: &Shape, options: &ConvolutionOptions) -> Result<Geometry> {
        if let Some(more) = options.output_padding.iter().find(|&&more| more > 0) {
            let reason = format!("{op}: {more}, which transposed convolutions alone have");
            return Err(Error::InvalidArgument { what: "output_padding", reason });
        }
        let mut geometry = Geometry::unplaced(op, x, weights, options)?;
        for (axis, &input) in x.dims()[1..=geometry.rank].iter().enumerate() {
            let window = &mut geometry.windows[3 - geometry.rank + axis];
            window.input = input;
            window.check_output(op, axis)?;
            window.output = window.most_outputs().unwrap_or(0);
        }
        geometry.channels = x.dims()[geometry.rank + 1];
        geometry.check(op, x, weights)
    }

    /// That whose gradient of the input is the transposed convolution of x with weights: x is its output.
    ///
    /// # Errors
    /// As [`Geometry::new`]; [`Error::InvalidArgument`] for an output padding that is neither below the stride nor below the dilation.
    pub fn transposed(op: &'static str, x: &Shape, weights: &Shape, options: &ConvolutionOptions) -> Result<Geometry> {
        let mut geometry = Geometry::unplaced(op, x, weights, options)?;
        let refuse = |what, reason: String| Err(Error::InvalidArgument { what, reason: format!("{op}: {reason}") });
        let more = per_axis(op, "output_padding", &options.output_padding, 0, geometry.rank)?;
        for (axis, (&output, more)) in x.dims()[1..=geometry.rank].iter().zip(more).enumerate() {
            let window = &mut geometry.windows[3 - geometry.rank + axis];
            window.output = output;
            window.check(op, axis)?;
            let most = window.stride.max(window.dilation);
            if more >= most {
                let reason =
                    format!("{more} at spatial axis {axis}; it is below the stride or the dilation, so below {most}");
                return refuse("output_padding", reason);
            }
            let padded = if output == 0 { 0 } else { (output - 1) * window.stride + window.reach() + more };
            let Some(input) = padded.checked_sub(window.before + window.after).filter(|_| output > 0) else {
                let reason = format!(
                    "{padded} elements of spatial axis {axis} come of {output}, and {} of padding are taken away; pad less",
                    window.before + window.after
                );
                return refuse("padding", reason);
            };
            window.input = input;
            window.check_output(op, axis)?;
        }
        let filters = x.dims()[geometry.rank + 1];
        if filters != geometry.filters {
            return Err(Error::shape_mismatch(op, x, weights, Some(geometry.rank + 1)));
        }
        let of_group = weights.dims()[geometry.rank + 1];
        geometry.channels = of_group.saturating_mul(geometry.groups);
        geometry.check(op, x, weights)
    }

    /// Batch, filters, groups, and windows without extents.
    fn unplaced(op: &'static str, x: &Shape, weights: &Shape, options: &ConvolutionOptions) -> Result<Geometry> {
        let rank = x.rank().wrapping_sub(2);
        if !(1..=3).contains(&rank) {
            let reason = format!("{op} takes [batch, 1 to 3 spatial axes, channels], not {:?}", x.dims());
            return Err(Error::InvalidArgument { what: "operand", reason });
        }
        if weights.rank() != x.rank() {
            return Err(Error::shape_mismatch(op, x, weights, None));
        }
        let strides = per_axis(op, "stride", &options.stride, 1, rank)?;
        let dilations = per_axis(op, "dilation", &options.dilation, 1, rank)?;
        let paddings = per_axis(op, "padding", &options.padding, [0; 2], rank)?;
        let window = |axis: usize| {
            let [before, after] = paddings[axis];
            let (taps, stride, dilation) = (weights.dims()[axis + 1], strides[axis], dilations[axis]);
            Window { taps, stride, dilation, before, after, ..Window::NONE }
        };
        let windows = three(&(0..rank).map(window).collect::<Vec<_>>());
        let (batch, filters) = (x.dims()[0], weights.dims()[0]);
        Ok(Geometry { batch, channels: 0, filters, groups: options.groups, rank, windows })
    }

    /// Refuses groups that do not divide, and windows that do not fit.
    fn check(self, op: &'static str, x: &Shape, weights: &Shape) -> Result<Geometry> {
        self.check_numbers(op)?;
        if weights.dims()[self.rank + 1] != self.group_channels() {
            return Err(Error::shape_mismatch(op, x, weights, Some(self.rank + 1)));
        }
        Ok(self)
    }

    /// Refuses numbers that are none of a convolution.
    pub(super) fn check_numbers(&self, op: &'static str) -> Result<()> {
        let refuse = |what, reason: String| Err(Error::InvalidArgument { what, reason: format!("{op}: {reason}") });
        if !(1..=3).contains(&self.rank) || self.windows[..3 - self.rank].iter().any(|window| *window != Window::NONE) {
            return refuse("rank", format!("{} spatial axes of {:?}", self.rank, self.windows));
        }
        if self.groups == 0 {
            return refuse("groups", "0 groups; there is at least 1".to_owned());
        }
        for (what, extent) in [("channels", self.channels), ("filters", self.filters)] {
            if !extent.is_multiple_of(self.groups) {
                return refuse("groups", format!("{extent} {what} do not divide by {} groups", self.groups));
            }
        }
        let windows = self.windows[3 - self.rank..].iter().enumerate();
        windows.into_iter().try_for_each(|(axis, window)| window.check_output(op, axis))
    }

    /// Of x: [batch, spatial..., channels].
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn input_shape(&self) -> Result<Shape> {
        self.shape(self.batch, |window| window.input, self.channels)
    }

    /// Of the weights: [filters, taps..., channels / groups].
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn weights_shape(&self) -> Result<Shape> {
        self.shape(self.filters, |window| window.taps, self.group_channels())
    }

    /// Of y: [batch, outputs..., filters].
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn output_shape(&self) -> Result<Shape> {
        self.shape(self.batch, |window| window.output, self.filters)
    }

    fn shape(&self, first: u64, of: impl Fn(&Window) -> u64, last: u64) -> Result<Shape> {
        let spatial = self.windows[3 - self.rank..].iter().map(of);
        Shape::new(&[first].into_iter().chain(spatial).chain([last]).collect::<Vec<u64>>())
    }

    /// Channels of x that a filter reads.
    pub fn group_channels(&self) -> u64 {
        self.channels / self.groups.max(1)
    }

    /// Filters that read one channel.
    pub fn group_filters(&self) -> u64 {
        self.filters / self.groups.max(1)
    }

    /// Taps of a window.
    pub fn taps(&self) -> u64 {
        self.windows.iter().map(|window| window.taps).product()
    }

    /// Pixels of x in an image.
    pub fn input_pixels(&self) -> u64 {
        self.windows.iter().map(|window| window.input).product()
    }

    /// Pixels of y in an image.
    pub fn output_pixels(&self) -> u64 {
        self.windows.iter().map(|window| window.output).product()
    }

    /// Whether it is a matrix product of pixels and filters: one tap, and every pixel its own.
    pub fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.windows.iter().all(Window::is_identity)
    }

    /// Multiplications and additions of a convolution or one of its gradients.
    pub fn flops(&self) -> u64 {
        let terms = [self.output_pixels(), self.filters, self.taps(), self.group_channels()];
        terms.into_iter().fold(2 * self.batch, u64::saturating_mul)
    }

    /// What the name of a case says.
    pub fn describe(&self, name: &mut String) {
        for window in &self.windows[3 - self.rank..] {
            let Window { output, stride, dilation, before, after, .. } = window;
            name.push_str(&format!(" s{stride}d{dilation}p{before},{after}o{output}"));
        }
        if self.groups != 1 {
            name.push_str(&format!(" g{}", self.groups));
        }
    }
}
