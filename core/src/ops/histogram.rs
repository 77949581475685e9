//! How many elements lie in each of equal parts between two limits: `y[b]` is the number of elements x whose part is b,
//! floor((x - low) * (bins / (high - low))).
//!
//! A part begins with its lower edge, and the last one has its upper edge, too; NaN and what lies outside of the limits is left out. Integers
//! are converted to f32, and the part is computed in f32 (f64 for f64): limits are compared as they were given, differences and
//! products are rounded, so that elements within a rounding of an edge may count beside it. A device that takes subnormal numbers for
//! zero does so with the difference and with parts for a distance of 1. Counts are u32 and exact, in whatever order they are added. Whole
//! numbers that are bins themselves: `bincount.rs`.

#[cfg(feature = "cpu")]
mod host;
pub(crate) mod plan;

use super::prelude::*;
use crate::expr::number;
use crate::{CompareFn, Expr, Position};

const OP: &str = "histogram";

/// The most bins: f32 counts them exactly.
const MOST_BINS: u64 = 1 << 24;

/// Counts of elements in equal parts of `low..=high`.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// What is counted: dense, of any shape, numbers of any dtype.
    pub input: TensorSpec,
    /// Lower edge of the first part.
    pub low: f64,
    /// Upper edge of the last part.
    pub high: f64,
    /// Dense u32 output `[bins]`.
    pub output: TensorSpec,
}

/// The limits in the type that computes, as f64.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Numbers {
    /// The least element that is counted: of those not below the lower limit.
    least: f64,
    /// The largest one.
    most: f64,
    /// The number nearest to the lower limit, which is subtracted.
    low: f64,
    /// Parts for a distance of 1.
    scale: f64,
}

impl Histogram {
    /// A checked count into `bins` parts that start their buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no or more than 2^24 bins, for limits that are not finite, do not rise, or lie farther apart than the
    /// largest number of the type that computes, and for an operand that is not dense; [`Error::NumberOutOfRange`] for limits that
    /// this type cannot hold, or that lie too close for it; [`Error::UndefinedForDType`] for bool; [`Error::IndexWidth`] for more than
    /// 2^32 - 1 elements.
    pub fn new(input: TensorSpec, bins: u64, low: f64, high: f64) -> Result<Histogram> {
        let output = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[bins])?));
        Histogram { input, low, high, output }.check()
    }

    /// Parts that there are.
    pub fn bins(&self) -> u64 {
        self.output.layout.elements()
    }

    /// The type that parts are computed in.
    fn compute(&self) -> DType {
        if self.input.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    fn scale(&self) -> Scalar {
        Scalar::F(self.bins() as f64 / (self.high - self.low))
    }

    fn numbers(&self) -> Numbers {
        let compute = self.compute();
        let [low, high] = [self.low, self.high].map(Scalar::F);
        // Floats have a number on either side of any.
        let within = |limit: Option<Scalar>| limit.map_or(f64::NAN, Scalar::as_f64);
        Numbers {
            least: within(number::not_below(compute, low)),
            most: within(number::not_above(compute, high)),
            low: low.cast(compute).as_f64(),
            scale: self.scale().cast(compute).as_f64(),
        }
    }

    /// The counts of `elements`, by the definition in the type that computes.
    fn counts(&self, elements: impl Iterator<Item = Scalar>) -> Vec<Expected> {
        let (compute, Numbers { least, most, low, scale }) = (self.compute(), self.numbers());
        let mut counts = vec![0i64; self.bins() as usize];
        let last = counts.len().saturating_sub(1);
        for element in elements {
            let x = element.cast(compute).as_f64();
            if !(least..=most).contains(&x) {
                continue;
            }
            // Not negative: a conversion takes the floor.
            let part = match compute {
                DType::F64 => ((x - low) * scale) as usize,
                _ => ((x as f32 - low as f32) * scale as f32) as usize,
            };
            counts[part.min(last)] += 1;
        }
        counts.into_iter().map(|count| Expected::exact(Scalar::I(count))).collect()
    }

    /// Everything it is, limits by their bits.
    fn identity(&self) -> impl Eq + std::hash::Hash + use<> {
        let Histogram { input, low, high, output } = *self;
        (input, low.to_bits(), high.to_bits(), output)
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Histogram) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Histogram {}

impl std::hash::Hash for Histogram {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Operation for Histogram {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        let (low, high, compute) = (self.low, self.high, self.compute());
        if self.output.layout.rank() != 1 {
            let reason = format!("{OP} writes one axis of bins, not {:?}", self.output.layout.dims());
            return Err(Error::InvalidArgument { what: "output", reason });
        }
        if self.bins() == 0 || self.bins() > MOST_BINS {
            let reason = format!("{OP} of {} bins; give from 1 to 2^24", self.bins());
            return Err(Error::InvalidArgument { what: "bins", reason });
        }
        if !(low.is_finite() && high.is_finite() && low < high) {
            let reason = format!("{OP} from {low} to {high}; give finite limits, the lower one first");
            return Err(Error::InvalidArgument { what: "limits", reason });
        }
        if self.input.dtype == DType::Bool {
            return Err(Error::UndefinedForDType { op: OP, dtype: DType::Bool });
        }
        number::operand(OP, compute, Scalar::F(low))?;
        let Numbers { low: nearest, most, .. } = self.numbers();
        if most - nearest > compute.max_finite() {
            let reason = format!("{OP} from {low} to {high}; give limits whose distance is a number of {compute}");
            return Err(Error::InvalidArgument { what: "limits", reason });
        }
        number::operand(OP, compute, self.scale())?;
        if !self.input.layout.is_contiguous() {
            let reason = format!("{OP} reads dense operands, not {:?}; make it contiguous first", self.input.layout);
            return Err(Error::InvalidArgument { what: "operand", reason });
        }
        let elements = self.input.layout.elements();
        if elements > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements, max: u32::MAX.into() });
        }
        check_dtype(OP, &self.output, DType::U32)?;
        check_dense_output(OP, &self.output)
    }

    /// Two comparisons, a difference, a product and an addition for each element.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements().saturating_mul(5))
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![self.counts(before[0].values.iter().copied())]
    }

    /// An element at a time: tables count 2^28 of them.
    fn oracle_of_bytes(&self, inputs: &[&[u8]]) -> Option<Vec<Expected>> {
        Some(self.counts(self.input.dense_values(inputs.first()?)?))
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("counts are whole numbers, which do not change by small steps"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" bins{} {}..={}", self.bins(), self.low, self.high));
    }
}

impl Tensor {
    /// How many elements lie in each of `bins` equal parts of `low..=high`: u32, `[bins]`. A part begins with its lower edge, and the last
    /// has its upper edge, too; NaN and what lies outside is left out. The part is computed in f32 (f64 for f64), so that elements
    /// within a rounding of an edge may count beside it. Integers are converted to f32.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[0.1f32, 0.2, 0.9, 1.0, 3.0, f32::NAN], [6])?;
    /// assert_eq!(x.histogram(2, 0.0, 1.0)?.to_vec::<u32>()?, [2, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Histogram::new`]; memory errors of the device.
    pub fn histogram(&self, bins: u64, low: f64, high: f64) -> Result<Tensor> {
        // What is wrong with the call is told before anything is copied. Elements count in any order: memory's is free.
        let dense = TensorSpec::new(self.dtype(), Layout::contiguous(*self.shape()));
        Histogram::new(dense, bins, low, high)?;
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(self.layout().strides()[axis].unsigned_abs()));
        let input = if self.layout().is_contiguous() { self.clone() } else { self.permute(order)?.contiguous()? };
        let op = Histogram::new(input.spec(), bins, low, high)?;
        Ok(Tensor::apply(self.device(), op, &[&input])?.swap_remove(0))
    }

    /// [`Tensor::histogram`] of each line along `axis` alone, with the same limits: u32, of this tensor's shape but for `bins` along the axis. Two
    /// launches: the part of each element, and [`Tensor::bincount_along`] of them.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[0.1f32, 0.2, 0.9, 1.0, 3.0, 0.6], [2, 3])?;
    /// assert_eq!(x.histogram_along(2, 0.0, 1.0, 1)?.to_vec::<u32>()?, [2, 1, 0, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Histogram::new`]; [`Error::AxisOutOfRange`]; [`Error::IndexWidth`] for more than 2^32 - 1 bins of all lines; memory errors of the device.
    pub fn histogram_along(&self, bins: u64, low: f64, high: f64, axis: impl Position) -> Result<Tensor> {
        let axis = self.axis(axis)?;
        let dense = TensorSpec::new(self.dtype(), Layout::contiguous(*self.shape()));
        let op = Histogram::new(dense, bins, low, high)?;
        let (compute, Numbers { least, most, low, scale }) = (op.compute(), op.numbers());
        let x = Expr::input(0).cast(compute);
        let is_inside = x.compare(CompareFn::Ge, least) & x.compare(CompareFn::Le, most);
        // Not negative where it is inside: a conversion takes the floor.
        let part = ((x - low) * scale).cast(DType::U32).minimum(bins as i64 - 1);
        self.counts_along(OP, axis, bins, &is_inside, &part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn dense(dtype: DType) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[9]).unwrap()))
    }

    #[test]
    fn limits_that_no_part_can_be_computed_between_are_refused_by_name() {
        let refused = |dtype, bins, low, high| Histogram::new(dense(dtype), bins, low, high).unwrap_err();
        for (bins, low, high, argument) in [
            (0, 0.0, 1.0, "bins"),
            ((1 << 24) + 1, 0.0, 1.0, "bins"),
            (3, 1.0, 1.0, "limits"),
            (3, 0.0, f64::NAN, "limits"),
            (3, f64::NEG_INFINITY, 1.0, "limits"),
            (3, -3e38, 3e38, "limits"),
        ] {
            let error = refused(DType::I32, bins, low, high);
            assert!(matches!(error, Error::InvalidArgument { what, .. } if what == argument), "{error}");
            assert!(error.to_string().contains("histogram"), "{error}");
        }
        let far = refused(DType::F64, 3, -1.7e308, 1.7e308);
        assert!(matches!(far, Error::InvalidArgument { what: "limits", .. }), "{far}");
        for (low, high) in [(1e300, 1.1e300), (1e-60, 1.0), (0.0, 1e-45)] {
            let error = refused(DType::F32, 3, low, high);
            assert!(matches!(error, Error::NumberOutOfRange { op: OP, dtype: DType::F32, .. }), "{error}");
            assert!(Histogram::new(dense(DType::F64), 3, low, high).is_ok());
        }
        assert!(matches!(refused(DType::Bool, 3, 0.0, 1.0), Error::UndefinedForDType { op: OP, dtype: DType::Bool }));
        let strided =
            TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[2, 3]).unwrap()).transpose(0, 1).unwrap());
        let error = Histogram::new(strided, 3, 0.0, 1.0).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { what: "operand", .. }), "{error}");
    }

    #[test]
    fn operations_that_differ_in_a_limit_alone_are_two() {
        let of = |low, high| Histogram::new(dense(DType::F32), 4, low, high).unwrap();
        assert_eq!(of(0.0, 1.0), of(0.0, 1.0));
        assert!(of(0.0, 1.0) != of(-0.0, 1.0) && of(0.0, 1.0) != of(0.0, 2.0));
    }

    /// A limit that f32 does not hold is compared as it is: f32's 0.1 is above 0.1, and 0.7 below.
    #[test]
    fn limits_are_compared_as_they_were_given() {
        let device = Device::cpu();
        let x = [0.1f32, 0.1f32.next_down(), 0.7, 0.7f32.next_up(), -0.0, f32::INFINITY, f32::NAN];
        let x = Tensor::from_slice(&device, &x, [7]).unwrap();
        assert_eq!(x.histogram(1, 0.1, 0.7).unwrap().to_vec::<u32>().unwrap(), [2]);
        assert_eq!(x.histogram(1, 0.0, 0.1).unwrap().to_vec::<u32>().unwrap(), [2]);
        assert_eq!(x.histogram(2, -1.0, 0.0).unwrap().to_vec::<u32>().unwrap(), [0, 1]);
    }

    #[test]
    fn views_count_as_their_elements_do() {
        let device = Device::cpu();
        let values: Vec<f32> = (0..3 * 70_000).map(|i| (i % 11) as f32).collect();
        let x = Tensor::from_slice(&device, &values, [3, 70_000]).unwrap();
        let whole = x.histogram(11, 0.0, 11.0).unwrap().to_vec::<u32>().unwrap();
        let of = |part: usize| values.iter().filter(|&&x| x as usize == part).count() as u32;
        assert_eq!(whole, (0..11).map(of).collect::<Vec<u32>>());
        for view in [x.t().unwrap(), x.slice_step(1, .., -1).unwrap()] {
            assert_eq!(view.histogram(11, 0.0, 11.0).unwrap().to_vec::<u32>().unwrap(), whole);
        }
        // Of a row alone, in the bytes of all.
        let op = Histogram::new(x.slice(0, 1..2).unwrap().spec(), 11, 0.0, 11.0).unwrap();
        let counts = op.oracle_of_bytes(&[bytemuck::cast_slice(&values)]).unwrap();
        let row = x.slice(0, 1..2).unwrap().histogram(11, 0.0, 11.0).unwrap().to_vec::<u32>().unwrap();
        assert_eq!(row, counts.iter().map(|count| count.value.as_i64() as u32).collect::<Vec<u32>>());
        let rows = x.slice(1, 0..1).unwrap().broadcast_to([3, 5]).unwrap();
        assert_eq!(rows.histogram(1, 0.0, 11.0).unwrap().to_vec::<u32>().unwrap(), [15]);
    }
}
