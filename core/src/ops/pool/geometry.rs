//! Windows of pools: those of convolutions, or adaptive ones, which divide the input into as many parts as there are outputs.
//!
//! With `ceil_mode` a window more may begin at the end, where it begins inside the input or the padding before it, and not in the padding
//! behind: PyTorch's rule. A window that lies in padding alone has no value and is refused.

use std::ops::Range;

use super::super::Window;
use super::super::convolution::window::{per_axis, three};
use crate::{Error, Result, Shape};

/// What an average is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Divisor {
    /// The taps in the input and its padding, what `ceil_mode` adds left out: PyTorch's `count_include_pad`.
    #[default]
    Padded,
    /// The taps in the input.
    Inside,
    /// This number.
    Number(u32),
}

/// How windows move over [batch, spatial..., channels].
///
/// Numbers for spatial axes are given once for all of them, or one for each. No stride is the window's own extent; no dilation is 1, no
/// padding 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// Elements of a window.
    pub window: Vec<u64>,
    /// From a window to the next one.
    pub stride: Vec<u64>,
    /// From a tap of a window to the next one.
    pub dilation: Vec<u64>,
    /// Padding before and behind each axis: below all numbers of a maximum, zero in an average.
    pub padding: Vec<[u64; 2]>,
    /// Whether a last window may reach beyond the padded input.
    pub ceil_mode: bool,
    /// What averages are divided by.
    pub divisor: Divisor,
}

impl PoolOptions {
    /// Windows of `window` elements along each axis, side by side.
    pub fn window(window: u64) -> PoolOptions {
        PoolOptions { window: vec![window], ..PoolOptions::default() }
    }

    /// This stride along all axes.
    #[must_use]
    pub fn stride(self, stride: u64) -> Self {
        PoolOptions { stride: vec![stride], ..self }
    }

    /// This dilation along all axes.
    #[must_use]
    pub fn dilation(self, dilation: u64) -> Self {
        PoolOptions { dilation: vec![dilation], ..self }
    }

    /// As much padding on either side of all axes.
    #[must_use]
    pub fn padding(self, padding: u64) -> Self {
        PoolOptions { padding: vec![[padding; 2]], ..self }
    }

    /// A last window may reach beyond the padded input.
    #[must_use]
    pub fn ceil_mode(self) -> Self {
        PoolOptions { ceil_mode: true, ..self }
    }

    /// What averages are divided by.
    #[must_use]
    pub fn divisor(self, divisor: Divisor) -> Self {
        PoolOptions { divisor, ..self }
    }
}

/// Which elements are pooled: extents of x [batch, spatial..., channels] and y [batch, outputs..., channels].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolGeometry {
    /// Images.
    pub batch: u64,
    /// Channels.
    pub channels: u64,
    /// Spatial axes, 1 to 3.
    pub rank: usize,
    /// Their windows, those that are not there in front. Of adaptive ones the taps are the most that one has.
    pub windows: [Window; 3],
    /// Window o of n reads from `floor(o in / n)` to before `ceil((o + 1) in / n)`.
    pub is_adaptive: bool,
}

impl PoolGeometry {
    /// That of windows over x.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for numbers that have no meaning, saying which to change.
    pub fn new(op: &'static str, x: &Shape, options: &PoolOptions) -> Result<PoolGeometry> {
        let rank = rank_of(op, x)?;
        let refuse = |what, reason: String| Err(Error::InvalidArgument { what, reason: format!("{op}: {reason}") });
        if options.window.is_empty() {
            return refuse("window", "no extent; give one for all spatial axes, or one for each".to_owned());
        }
        let taps = per_axis(op, "window", &options.window, 1, rank)?;
        let strides =
            if options.stride.is_empty() { taps.clone() } else { per_axis(op, "stride", &options.stride, 1, rank)? };
        let dilations = per_axis(op, "dilation", &options.dilation, 1, rank)?;
        let paddings = per_axis(op, "padding", &options.padding, [0; 2], rank)?;
        let mut windows = Vec::new();
        for axis in 0..rank {
            let [before, after] = paddings[axis];
            let (input, taps, stride, dilation) = (x.dims()[axis + 1], taps[axis], strides[axis], dilations[axis]);
            let mut window = Window { input, output: 0, taps, stride, dilation, before, after };
            window.check_output(op, axis)?;
            let free = input + before + after - window.reach();
            window.output = if options.ceil_mode { free.div_ceil(stride) } else { free / stride } + 1;
            // A window more begins inside, or in the padding before.
            if options.ceil_mode && (window.output - 1) * stride >= input + before {
                window.output -= 1;
            }
            windows.push(window);
        }
        let [batch, channels] = [x.dims()[0], x.dims()[rank + 1]];
        PoolGeometry { batch, channels, rank, windows: three(&windows), is_adaptive: false }.check(op)
    }

    /// That of `outputs` parts of x.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for parts of nothing and another number of axes.
    pub fn adaptive(op: &'static str, x: &Shape, outputs: &[u64]) -> Result<PoolGeometry> {
        let rank = rank_of(op, x)?;
        let outputs = per_axis(op, "outputs", outputs, 1, rank)?;
        let window = |axis: usize| {
            let (input, output) = (x.dims()[axis + 1], outputs[axis]);
            let spread = if input.is_multiple_of(output.max(1)) { 0 } else { 1 };
            let taps = (input.div_ceil(output.max(1)) + spread).clamp(1, input.max(1));
            Window { input, output, taps, ..Window::NONE }
        };
        let [batch, channels] = [x.dims()[0], x.dims()[rank + 1]];
        let windows = three(&(0..rank).map(window).collect::<Vec<_>>());
        PoolGeometry { batch, channels, rank, windows, is_adaptive: true }.check(op)
    }

    /// Refuses windows that no pool has.
    pub(super) fn check(self, op: &'static str) -> Result<PoolGeometry> {
        let refuse = |what, reason: String| Err(Error::InvalidArgument { what, reason: format!("{op}: {reason}") });
        if !(1..=3).contains(&self.rank) || self.windows[..3 - self.rank].iter().any(|window| *window != Window::NONE) {
            return refuse("rank", format!("{} spatial axes of {:?}", self.rank, self.windows));
        }
        for (axis, window) in self.windows[3 - self.rank..].iter().enumerate() {
            window.check(op, axis)?;
            if self.is_adaptive {
                if window.input == 0 && window.output > 0 {
                    return refuse(
                        "outputs",
                        format!("{} parts of spatial axis {axis}, which is empty", window.output),
                    );
                }
                continue;
            }
            let alone = |output: u64| (0..window.taps).all(|tap| window.source(output, tap).is_none());
            // Those that begin in the padding before, and the last one.
            let early = window.before.div_ceil(window.stride).min(window.output);
            let last = window.output.checked_sub(1);
            if let Some(output) = (0..early).chain(last).find(|&output| alone(output)) {
                return refuse(
                    "padding",
                    format!(
                        "window {output} of spatial axis {axis} lies in padding alone; give less padding, or a larger window"
                    ),
                );
            }
        }
        Ok(self)
    }

    /// Of x.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn input_shape(&self) -> Result<Shape> {
        self.shape(|window| window.input)
    }

    /// Of y.
    ///
    /// # Errors
    /// As [`Shape::new`].
    pub fn output_shape(&self) -> Result<Shape> {
        self.shape(|window| window.output)
    }

    fn shape(&self, of: impl Fn(&Window) -> u64) -> Result<Shape> {
        let spatial = self.windows[3 - self.rank..].iter().map(of);
        Shape::new(&[self.batch].into_iter().chain(spatial).chain([self.channels]).collect::<Vec<u64>>())
    }

    /// Taps of the largest window.
    pub fn taps(&self) -> u64 {
        self.windows.iter().map(|window| window.taps).product()
    }

    /// Pixels of x, and of y, in an image.
    pub fn pixels(&self) -> [u64; 2] {
        [
            self.windows.iter().map(|window| window.input).product(),
            self.windows.iter().map(|window| window.output).product(),
        ]
    }

    /// The input under `tap` of the window of `output` along an axis; `None` in the padding and behind the window.
    pub fn source(&self, axis: usize, output: u64, tap: u64) -> Option<u64> {
        let window = &self.windows[axis];
        if !self.is_adaptive {
            return window.source(output, tap).filter(|_| tap < window.taps);
        }
        let part = self.part(axis, output);
        (tap < part.end - part.start).then(|| part.start + tap)
    }

    /// Which inputs an adaptive window reads.
    fn part(&self, axis: usize, output: u64) -> Range<u64> {
        let Window { input, output: outputs, .. } = self.windows[axis];
        output * input / outputs..((output + 1) * input).div_ceil(outputs)
    }

    /// The outputs whose windows may read `input` along an axis.
    pub fn targets(&self, axis: usize, input: u64) -> Range<u64> {
        let window = &self.windows[axis];
        if self.is_adaptive {
            return input * window.output / window.input..((input + 1) * window.output).div_ceil(window.input);
        }
        let at = input + window.before;
        (at + 1).saturating_sub(window.reach()).div_ceil(window.stride)..(at / window.stride + 1).min(window.output)
    }

    /// The tap of the window of `output` that lies on `input`.
    pub fn tap(&self, axis: usize, output: u64, input: u64) -> Option<u64> {
        if self.is_adaptive {
            let part = self.part(axis, output);
            return part.contains(&input).then(|| input - part.start);
        }
        let window = &self.windows[axis];
        let away = (input + window.before).checked_sub(output * window.stride)?;
        (away.is_multiple_of(window.dilation) && away / window.dilation < window.taps).then_some(away / window.dilation)
    }

    /// What the average of the window of `output` is divided by.
    pub fn divisor(&self, divisor: Divisor, output: [u64; 3]) -> u64 {
        let along = |axis: usize| {
            let window = &self.windows[axis];
            let start = output[axis] * window.stride;
            match divisor {
                Divisor::Number(_) => 1,
                // Taps before the end of the padding; the first one is.
                Divisor::Padded if !self.is_adaptive => {
                    (window.input + window.before + window.after - start).div_ceil(window.dilation).min(window.taps)
                }
                _ => (0..window.taps).filter(|&tap| self.source(axis, output[axis], tap).is_some()).count() as u64,
            }
        };
        match divisor {
            Divisor::Number(number) => number.into(),
            Divisor::Padded | Divisor::Inside => (0..3).map(along).product(),
        }
    }

    /// What the name of a case says.
    pub(super) fn describe(&self, name: &mut String) {
        for window in &self.windows[3 - self.rank..] {
            let Window { output, taps, stride, dilation, before, after, .. } = window;
            if self.is_adaptive {
                name.push_str(&format!(" in{output}"));
            } else {
                name.push_str(&format!(" w{taps}s{stride}d{dilation}p{before},{after}o{output}"));
            }
        }
    }
}

fn rank_of(op: &'static str, x: &Shape) -> Result<usize> {
    let rank = x.rank().wrapping_sub(2);
    if (1..=3).contains(&rank) {
        return Ok(rank);
    }
    let reason = format!("{op} takes [batch, 1 to 3 spatial axes, channels], not {:?}", x.dims());
    Err(Error::InvalidArgument { what: "operand", reason })
}
