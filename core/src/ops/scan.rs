//! Scans along one axis: cumulative sums, products, extrema and logarithms of sums of exponentials. Element k of a line of the result
//! combines elements 0 to k of the line of the input.
//!
//! Sums and products accumulate in f32 (f64 for f64; integers exactly, wrapping to the result's dtype), with the same bits on every run
//! on one device. Result dtypes are those of reductions: sums and products of i8 and i16 give i32, of u8, u16 and bool u32, otherwise the input's. A
//! scan may leave out the element itself ([`ScanStart::Exclusive`]) and may run from the last element to the first
//! ([`ScanDirection::Reverse`]). Extrema also give the position of what they chose: of equal elements that which the scan met first, so
//! that the last position is argmax's; the first NaN stays to the end. Zeros of both signs are equal.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use serde::{Deserialize, Serialize};

use super::prelude::*;
use crate::Position;

mod gradient;
mod oracle;

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanFn {
    /// log sum exp, of floats: of an infinity that infinity.
    LogSumExp,
    /// The largest element so far; NaN once one was NaN.
    Max,
    /// The smallest element so far; NaN once one was NaN.
    Min,
    /// Product.
    Prod,
    /// Sum.
    Sum,
}

impl ScanFn {
    /// Every scan, alphabetically.
    pub const ALL: [ScanFn; 5] = [ScanFn::LogSumExp, ScanFn::Max, ScanFn::Min, ScanFn::Prod, ScanFn::Sum];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ScanFn::LogSumExp => "logcumsumexp",
            ScanFn::Max => "cummax",
            ScanFn::Min => "cummin",
            ScanFn::Prod => "cumprod",
            ScanFn::Sum => "cumsum",
        }
    }

    /// The dtype of the result for an input of `dtype`; `None` where the scan has no meaning: of bool extrema, of what is no float
    /// logarithms.
    pub const fn output_dtype(self, dtype: DType) -> Option<DType> {
        match self {
            ScanFn::LogSumExp if dtype.is_float() => Some(dtype),
            ScanFn::LogSumExp => None,
            ScanFn::Max | ScanFn::Min => ReduceFn::Max.output_dtype(dtype),
            ScanFn::Prod | ScanFn::Sum => ReduceFn::Sum.output_dtype(dtype),
        }
    }

    /// Whether one of the elements is chosen, which has a position.
    pub const fn chooses(self) -> bool {
        matches!(self, ScanFn::Max | ScanFn::Min)
    }
}

/// Whether element k of the result takes in element k of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScanStart {
    /// It does: the first element of a sum is the first element.
    #[default]
    Inclusive,
    /// It does not: the first element of a sum is 0, of a product 1, of log sum exp -inf. Extrema of no elements have no meaning.
    Exclusive,
}

/// Which way a scan runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScanDirection {
    /// From the first element to the last.
    #[default]
    Forward,
    /// From the last element to the first; positions are counted from the first all the same.
    Reverse,
}

impl ScanDirection {
    /// The other one.
    pub fn turned(self) -> ScanDirection {
        match self {
            ScanDirection::Forward => ScanDirection::Reverse,
            ScanDirection::Reverse => ScanDirection::Forward,
        }
    }
}

/// Where a scan starts and which way it runs; by default it takes in each element, from the first to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanOptions {
    /// Whether an element is taken in at its own place.
    pub start: ScanStart,
    /// Which way it runs.
    pub direction: ScanDirection,
}

impl ScanOptions {
    /// The same without the element itself.
    pub fn exclusive(self) -> ScanOptions {
        ScanOptions { start: ScanStart::Exclusive, ..self }
    }

    /// The same the other way round.
    pub fn reversed(self) -> ScanOptions {
        ScanOptions { direction: self.direction.turned(), ..self }
    }

    fn describe(self, name: &mut String) {
        if self.start == ScanStart::Exclusive {
            name.push_str(" exclusive");
        }
        if self.direction == ScanDirection::Reverse {
            name.push_str(" reverse");
        }
    }
}

/// A scan of `input` along `axis`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// How elements are combined.
    pub function: ScanFn,
    /// Where it starts and which way it runs.
    pub options: ScanOptions,
    /// What is read.
    pub input: TensorSpec,
    /// The axis that lines run along.
    pub axis: usize,
    /// Dense output of the input's shape.
    pub output: TensorSpec,
    /// Of extrema, and of them alone: dense u32 positions along the axis, of the same shape.
    pub index: Option<TensorSpec>,
}

impl Scan {
    /// A checked scan whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`]; [`Error::UndefinedForDType`] as [`ScanFn::output_dtype`] says; [`Error::InvalidArgument`] for extrema
    /// that leave out the element itself; [`Error::IndexWidth`] when positions do not fit u32.
    pub fn new(function: ScanFn, input: TensorSpec, axis: usize, options: ScanOptions) -> Result<Scan> {
        let undefined = Error::UndefinedForDType { op: function.name(), dtype: input.dtype };
        let dtype = function.output_dtype(input.dtype).ok_or(undefined)?;
        let layout = Layout::contiguous(*input.layout.shape());
        let index = function.chooses().then_some(TensorSpec::new(DType::U32, layout));
        Scan { function, options, input, axis, output: TensorSpec::new(dtype, layout), index }.check()
    }

    /// Elements of a line.
    pub fn count(&self) -> u64 {
        self.input.layout.dims()[self.axis]
    }
}

impl Operation for Scan {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    operands! { read input; write output, index }

    fn validate(&self) -> Result<()> {
        let (op, shape) = (self.function.name(), self.input.layout.shape());
        shape.axis(self.axis)?;
        let undefined = Error::UndefinedForDType { op, dtype: self.input.dtype };
        let dtype = self.function.output_dtype(self.input.dtype).ok_or(undefined)?;
        if self.function.chooses() && self.options.start == ScanStart::Exclusive {
            let reason = format!("{op} of no elements has no value; start inclusive");
            return Err(Error::InvalidArgument { what: "start", reason });
        }
        if self.index.is_some() != self.function.chooses() {
            let reason = format!("{op} has positions if it is an extremum, and only then");
            return Err(Error::InvalidArgument { what: "index", reason });
        }
        for (written, dtype) in [(Some(self.output), dtype), (self.index, DType::U32)] {
            let Some(written) = written else { continue };
            if written.dtype != dtype {
                return Err(Error::DTypeMismatch { op, expected: dtype, got: written.dtype });
            }
            if written.layout.shape() != shape {
                return Err(Error::shape_mismatch(op, shape, written.layout.shape(), None));
            }
            check_dense_output(op, &written)?;
        }
        if self.index.is_some() && self.count() > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op, elements: self.count(), max: u32::MAX.into() });
        }
        Ok(())
    }

    /// One operation per element; difference, exponential, sum and logarithm of log sum exp.
    fn arithmetic(&self) -> Arithmetic {
        let each = if self.function == ScanFn::LogSumExp { 4 } else { 1 };
        Arithmetic::flops(self.input.layout.elements().saturating_mul(each))
    }

    /// The definition in float64 (integers: wrapping i64), with the bounds stated in `scan/oracle.rs`.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        oracle::scan(self, &before[0])
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        gradient::rule(self, needs)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs)
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
        self.options.describe(name);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of `axis` alone; `None` along the axis of the scan.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis {
            return None;
        }
        let (input, output) = (self.input.first(axis, extent)?, self.output.dense_first(axis, extent)?);
        let index = self.index.map_or(Some(None), |index| index.dense_first(axis, extent).map(Some))?;
        Some(Scan { input, output, index, ..self.clone() }.into())
    }

    /// Some lines, each whole.
    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = Thinning::new(self.output.layout.dims(), |axis| axis != self.axis);
        let written = [Some(self.output), self.index].into_iter().flatten();
        let positions = written.map(|spec| thinning.of(&spec.layout)).collect::<Result<Vec<_>>>()?;
        let output = sample::dense(self.output.dtype, &positions[0]);
        let index = self.index.map(|index| sample::dense(index.dtype, &positions[0]));
        let op = Scan { input: thinning.of_spec(&self.input)?, output, index, ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions }))
    }
}

/// Extrema of lines and where they lie: what [`Tensor::cummax`] and [`Tensor::cummin`] give.
#[derive(Clone, Debug)]
pub struct Extrema {
    /// The largest or smallest elements so far, of the input's shape and dtype.
    pub values: Tensor,
    /// Their positions along the axis, u32, of the same shape.
    pub indices: Tensor,
}

impl Tensor {
    fn scanned(&self, f: ScanFn, axis: impl Position, options: ScanOptions) -> Result<Vec<Tensor>> {
        Tensor::apply(self.device(), Scan::new(f, self.spec(), self.axis(axis)?, options)?, &[self])
    }

    /// The scan `f` along `axis`, of this tensor's shape: element k combines elements 0 to k of its line, or what `options` say. Of
    /// extrema the values alone; [`Tensor::cumulative_extrema`] gives their positions, too.
    ///
    /// ```
    /// use polywarp_core::ops::{ScanFn, ScanOptions};
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 2.0, 3.0], [3])?;
    /// let scan = |options| x.scan(ScanFn::Sum, 0, options)?.to_vec::<f32>();
    /// assert_eq!(scan(ScanOptions::default().exclusive())?, [0.0, 1.0, 3.0]);
    /// assert_eq!(scan(ScanOptions::default().reversed())?, [6.0, 5.0, 3.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan::new`]; memory errors of the device.
    pub fn scan(&self, f: ScanFn, axis: impl Position, options: ScanOptions) -> Result<Tensor> {
        Ok(self.scanned(f, axis, options)?.swap_remove(0))
    }

    /// Sums of all elements of a line up to each: of i8 and i16 as i32, of u8, u16 and bool as u32.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.cumsum(1)?.to_vec::<f32>()?, [1.0, 3.0, 3.0, 7.0]);
    /// assert_eq!(x.cumsum(0)?.to_vec::<f32>()?, [1.0, 2.0, 4.0, 6.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`].
    pub fn cumsum(&self, axis: impl Position) -> Result<Tensor> {
        self.scan(ScanFn::Sum, axis, ScanOptions::default())
    }

    /// Products of all elements of a line up to each: of i8 and i16 as i32, of u8, u16 and bool as u32.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2i32, 3, 4], [3])?;
    /// assert_eq!(x.cumprod(0)?.to_vec::<i32>()?, [2, 6, 24]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`].
    pub fn cumprod(&self, axis: impl Position) -> Result<Tensor> {
        self.scan(ScanFn::Prod, axis, ScanOptions::default())
    }

    /// log sum exp of all elements of a line up to each, of floats, without overflow on the way.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1000.0f32, 1000.0], [2])?;
    /// let y = x.logcumsumexp(0)?.to_vec::<f32>()?;
    /// assert!(y[0] == 1000.0 && (y[1] - 1000.6931).abs() < 1e-3);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`].
    pub fn logcumsumexp(&self, axis: impl Position) -> Result<Tensor> {
        self.scan(ScanFn::LogSumExp, axis, ScanOptions::default())
    }

    /// The largest (`f` is [`ScanFn::Max`]) or smallest elements of a line so far with their positions, the scan running in `direction`.
    ///
    /// ```
    /// use polywarp_core::ops::{ScanDirection, ScanFn};
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 3.0, 2.0], [3])?;
    /// let y = x.cumulative_extrema(ScanFn::Max, 0, ScanDirection::Reverse)?;
    /// assert_eq!(y.values.to_vec::<f32>()?, [3.0, 3.0, 2.0]);
    /// assert_eq!(y.indices.to_vec::<u32>()?, [1, 1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`]; [`Error::InvalidArgument`] for a function that chooses no element.
    pub fn cumulative_extrema(&self, f: ScanFn, axis: impl Position, direction: ScanDirection) -> Result<Extrema> {
        if !f.chooses() {
            let reason = format!("{} chooses no element; give ScanFn::Max or ScanFn::Min", f.name());
            return Err(Error::InvalidArgument { what: "function", reason });
        }
        let options = ScanOptions { direction, ..ScanOptions::default() };
        let mut results = self.scanned(f, axis, options)?;
        let indices = results.swap_remove(1);
        Ok(Extrema { values: results.swap_remove(0), indices })
    }

    /// The largest element of a line so far, and where it lies: of equal ones the first, and the first NaN.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 3.0, 3.0, 2.0], [4])?;
    /// let y = x.cummax(0)?;
    /// assert_eq!(y.values.to_vec::<f32>()?, [1.0, 3.0, 3.0, 3.0]);
    /// assert_eq!(y.indices.to_vec::<u32>()?, [0, 1, 1, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`].
    pub fn cummax(&self, axis: impl Position) -> Result<Extrema> {
        self.cumulative_extrema(ScanFn::Max, axis, ScanDirection::Forward)
    }

    /// The smallest element of a line so far, and where it lies: of equal ones the first, and the first NaN.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2i32, 3, 1], [3])?;
    /// let y = x.cummin(0)?;
    /// assert_eq!(y.values.to_vec::<i32>()?, [2, 2, 1]);
    /// assert_eq!(y.indices.to_vec::<u32>()?, [0, 0, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scan`].
    pub fn cummin(&self, axis: impl Position) -> Result<Extrema> {
        self.cumulative_extrema(ScanFn::Min, axis, ScanDirection::Forward)
    }
}
