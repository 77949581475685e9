//! Pools: the maximum or the average of each window of [batch, spatial..., channels], channel by channel.
//!
//! A maximum is the first of the largest elements in row-major order, and the first NaN where there is one. Its place in the window is
//! a second result, u8 (u32 for windows of more than 256 taps), by which gradients go to that element alone. An average is a sum in f32
//! (f64 for f64) divided once ([`Divisor`]). Gradients are gathered: each input looks at the windows that contain it, in their order, so
//! that the bits are the same at each run. Everything here is linear but for the choice of a maximum, so that gradients have gradients: [`Pool`],
//! [`PoolGradient`] and [`PoolChosen`] are each other's. Next: `pool/geometry.rs`, `pool/gradients.rs`.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

pub(crate) mod geometry;
mod gradients;
mod oracle;
mod tensor;

pub use geometry::{Divisor, PoolGeometry, PoolOptions};
pub use gradients::{PoolChosen, PoolGradient};

use super::convolution::geometry::check_pixels;
use super::prelude::*;

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolFn {
    /// Its largest element, and where that lies.
    Max,
    /// Its sum, divided.
    Average(Divisor),
}

/// The pool of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Maximum or average.
    pub function: PoolFn,
    /// What is pooled, [batch, spatial..., channels]: channels one after the other, pixels at one distance.
    pub x: TensorSpec,
    /// Which windows.
    pub geometry: PoolGeometry,
    /// Dense output, [batch, outputs..., channels], of x's dtype.
    pub output: TensorSpec,
    /// Of maxima, the tap that each is, dense as the output: u8 for windows of no more than 256 taps, else u32.
    pub index: Option<TensorSpec>,
}

impl Pool {
    /// A checked pool whose results start their buffers.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for other dtypes than f16, bf16, f32 and f64, [`Error::ShapeMismatch`], [`Error::InvalidArgument`] for an
    /// operand that does not lie as it must, and for a divisor of 0.
    pub fn new(function: PoolFn, x: TensorSpec, geometry: PoolGeometry) -> Result<Pool> {
        let layout = Layout::contiguous(geometry.output_shape()?);
        let index = TensorSpec::new(index_dtype(&geometry), layout);
        let index = (function == PoolFn::Max).then_some(index);
        Pool { function, x, geometry, output: TensorSpec::new(x.dtype, layout), index }.check()
    }
}

/// The dtype of places within windows.
fn index_dtype(geometry: &PoolGeometry) -> DType {
    if geometry.taps() <= 256 { DType::U8 } else { DType::U32 }
}

fn check_function(op: &'static str, function: PoolFn) -> Result<()> {
    if function == PoolFn::Average(Divisor::Number(0)) {
        let reason = format!("{op} divides by 0; give another number");
        return Err(Error::InvalidArgument { what: "divisor", reason });
    }
    Ok(())
}

/// Refuses an operand of another shape or dtype, and dtypes that are not pooled.
fn check_float(op: &'static str, what: &'static str, (spec, shape): (TensorSpec, Shape), dtype: DType) -> Result<()> {
    if !matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64) {
        return Err(Error::UndefinedForDType { op, dtype });
    }
    if spec.dtype != dtype {
        return Err(Error::DTypeMismatch { op, expected: dtype, got: spec.dtype });
    }
    if *spec.layout.shape() != shape {
        return Err(Error::shape_mismatch(op, spec.layout.shape(), &shape, None));
    }
    if what == "output" { Ok(()) } else { check_pixels(op, what, &spec) }
}

/// Refuses places of an average, maxima without places, and places that are not dense as the output.
fn check_index(op: &'static str, geometry: &PoolGeometry, index: Option<TensorSpec>, function: PoolFn) -> Result<()> {
    let Some(index) = index else {
        let reason = format!("{op} has places of maxima");
        return if function == PoolFn::Max { Err(Error::InvalidArgument { what: "index", reason }) } else { Ok(()) };
    };
    if function != PoolFn::Max {
        return Err(Error::InvalidArgument { what: "index", reason: format!("{op} of averages has no places") });
    }
    if index.dtype != index_dtype(geometry) {
        return Err(Error::DTypeMismatch { op, expected: index_dtype(geometry), got: index.dtype });
    }
    let shape = geometry.output_shape()?;
    if *index.layout.shape() != shape {
        return Err(Error::shape_mismatch(op, index.layout.shape(), &shape, None));
    }
    if !index.layout.is_contiguous() {
        let reason = format!("{op} has dense places, not {:?}; make them contiguous first", index.layout);
        return Err(Error::InvalidArgument { what: "index", reason });
    }
    Ok(())
}

/// What the name of a case says.
fn describe(name: &mut String, geometry: &PoolGeometry, function: PoolFn) {
    geometry.describe(name);
    match function {
        PoolFn::Average(Divisor::Inside) => name.push_str(" inside"),
        PoolFn::Average(Divisor::Number(number)) => name.push_str(&format!(" by{number}")),
        PoolFn::Average(Divisor::Padded) | PoolFn::Max => {}
    }
}

/// The last image.
fn last_image(spec: &TensorSpec) -> Result<TensorSpec> {
    let batch = spec.layout.dims()[0];
    Ok(TensorSpec { layout: spec.layout.slice(0, batch - 1, batch, 1)?, ..*spec })
}

impl Operation for Pool {
    fn name(&self) -> &'static str {
        if self.function == PoolFn::Max { "max_pool" } else { "avg_pool" }
    }

    operands! { read x; write output, index }

    fn validate(&self) -> Result<()> {
        let (op, geometry) = (self.name(), self.geometry.check(self.name())?);
        let y = geometry.output_shape()?;
        check_function(op, self.function)?;
        check_float(op, "x", (self.x, geometry.input_shape()?), self.x.dtype)?;
        check_pixels(op, "x", &self.x)?;
        check_float(op, "output", (self.output, y), self.x.dtype)?;
        check_dense_output(op, &self.output)?;
        check_index(op, &geometry, self.index, self.function)?;
        self.index.map_or(Ok(()), |index| check_dense_output(op, &index))
    }

    /// A comparison or an addition for each tap.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.output.layout.elements().saturating_mul(self.geometry.taps()))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        oracle::pool(self, &before[0])
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        if !needs.outputs[0] {
            return rule.finish(vec![None]);
        }
        let mut operands = vec![rule.gradient(0)?];
        if self.index.is_some() {
            operands.push(rule.output(1)?);
        }
        let index = operands.get(1).map(|index| index.spec());
        let op = PoolGradient::new(self.function, operands[0].spec(), index, self.geometry)?;
        let gradient = rule.graph.apply(op, &operands)?.pop();
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::pool(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::pool(self, inputs[0], outputs)
    }

    fn describe(&self, name: &mut String) {
        describe(name, &self.geometry, self.function);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: self.function != PoolFn::Max, ..Facts::default() }
    }

    /// The op on the first `extent` images.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 {
            return None;
        }
        let (x, output) = (self.x.first(0, extent)?, self.output.dense_first(0, extent)?);
        let index = self.index.map_or(Some(None), |index| index.dense_first(0, extent).map(Some))?;
        let geometry = PoolGeometry { batch: extent, ..self.geometry };
        Some(Pool { x, output, index, geometry, ..self.clone() }.into())
    }

    /// The last image.
    fn sample(&self) -> Result<Option<Sample>> {
        if self.geometry.batch == 0 {
            return Ok(None);
        }
        let output = last_image(&self.output)?;
        let mut positions = vec![output.layout];
        let index = self.index.as_ref().map(last_image).transpose()?;
        positions.extend(index.map(|index| index.layout));
        let dense = |spec: TensorSpec| sample::dense(spec.dtype, &spec.layout);
        let op = Pool {
            x: last_image(&self.x)?,
            geometry: PoolGeometry { batch: 1, ..self.geometry },
            output: dense(output),
            index: index.map(dense),
            ..self.clone()
        };
        Ok(Some(Sample { op: op.check()?.into(), positions }))
    }
}
