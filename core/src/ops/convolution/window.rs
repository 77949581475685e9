//! Windows that move over one spatial axis, shared by convolutions and pools: which input lies under which tap.
//!
//! One to three spatial axes are kept as three: [`Window::NONE`] stands for those that are not there, in front. An output's extent is
//! at most what the formula gives; one that is smaller leaves windows out at the end, which transposed convolutions need.

use crate::{Error, Result};

/// What strides, dilations, paddings and extents stay below: twice of it fits the 32-bit integers of kernels.
const MOST: u64 = 1 << 30;

/// A window along one axis. Tap t of the window of output o lies on input `o * stride + t * dilation - before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Extent of the input.
    pub input: u64,
    /// Extent of the output: windows.
    pub output: u64,
    /// Elements that a window reads.
    pub taps: u64,
    /// From a window to the next one.
    pub stride: u64,
    /// From a tap to the next one.
    pub dilation: u64,
    /// Padding before the first element.
    pub before: u64,
    /// Padding behind the last one.
    pub after: u64,
}

impl Window {
    /// The window of an axis that is not there.
    pub const NONE: Window = Window { input: 1, output: 1, taps: 1, stride: 1, dilation: 1, before: 0, after: 0 };

    /// From the first element of a window to its last one, both counted.
    pub fn reach(&self) -> u64 {
        self.dilation * (self.taps - 1) + 1
    }

    /// The input under `tap` of the window of `output`; `None` in the padding.
    pub fn source(&self, output: u64, tap: u64) -> Option<u64> {
        let at = (output * self.stride + tap * self.dilation).checked_sub(self.before)?;
        (at < self.input).then_some(at)
    }

    /// The output whose `tap` lies on `input`, if there is one.
    pub fn target(&self, input: u64, tap: u64) -> Option<u64> {
        let at = (input + self.before).checked_sub(tap * self.dilation)?;
        let output = at / self.stride;
        (at.is_multiple_of(self.stride) && output < self.output).then_some(output)
    }

    /// How many windows fit into the padded input.
    pub(super) fn most_outputs(&self) -> Option<u64> {
        Some((self.input + self.before + self.after).checked_sub(self.reach())? / self.stride + 1)
    }

    /// Whether every output is its own input.
    pub fn is_identity(&self) -> bool {
        self.taps == 1 && self.stride == 1 && self.before == 0 && self.input == self.output
    }

    /// Refuses what no window is; its output aside.
    pub(in crate::ops) fn check(&self, op: &'static str, axis: usize) -> Result<()> {
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "window", reason: format!("{op}: {reason}") });
        let parts = [("window", self.taps), ("stride", self.stride), ("dilation", self.dilation)];
        if let Some((part, _)) = parts.iter().find(|(_, extent)| *extent == 0) {
            return refuse(format!("the {part} of spatial axis {axis} is 0; it is at least 1"));
        }
        let all = [self.input, self.output, self.before, self.after];
        let largest = parts.iter().map(|&(_, extent)| extent).chain(all).max().unwrap_or(0);
        if largest >= MOST || self.dilation.saturating_mul(self.taps) >= MOST {
            return refuse(format!("{self:?} of spatial axis {axis} has a number beyond {MOST}; split the tensor"));
        }
        Ok(())
    }

    /// Refuses more windows than there are, and an input smaller than its window.
    pub(in crate::ops) fn check_output(&self, op: &'static str, axis: usize) -> Result<()> {
        self.check(op, axis)?;
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "window", reason: format!("{op}: {reason}") });
        let Some(most) = self.most_outputs() else {
            let (reach, padded) = (self.reach(), self.input + self.before + self.after);
            return refuse(format!(
                "a window that reaches over {reach} elements of spatial axis {axis}, which has {padded} with its padding; \
                 pad by {} more or take a smaller window or dilation",
                reach - padded
            ));
        };
        if self.output > most {
            return refuse(format!("{} outputs of spatial axis {axis}, where {most} windows fit", self.output));
        }
        Ok(())
    }
}

/// The numbers for `rank` axes that `given` says: one for each, one for all, or none.
pub(in crate::ops) fn per_axis<T: Copy>(
    op: &'static str,
    what: &'static str,
    given: &[T],
    none: T,
    rank: usize,
) -> Result<Vec<T>> {
    match given {
        [] => Ok(vec![none; rank]),
        [one] => Ok(vec![*one; rank]),
        all if all.len() == rank => Ok(all.to_vec()),
        all => {
            let reason =
                format!("{op}: {} numbers for {rank} spatial axes; give one for all, or one for each", all.len());
            Err(Error::InvalidArgument { what, reason })
        }
    }
}

/// `windows` as those of three axes.
pub(in crate::ops) fn three(windows: &[Window]) -> [Window; 3] {
    let mut all = [Window::NONE; 3];
    all[3 - windows.len()..].copy_from_slice(windows);
    all
}

/// The coordinates of pixel `number` of extents `of`, row-major.
pub(crate) fn coordinates(number: u64, of: [u64; 3]) -> [u64; 3] {
    let (rest, z) = (number / of[2], number % of[2]);
    [rest / of[1], rest % of[1], z]
}

/// The number of a pixel, row-major.
pub(crate) fn number([x, y, z]: [u64; 3], of: [u64; 3]) -> u64 {
    (x * of[1] + y) * of[2] + z
}
