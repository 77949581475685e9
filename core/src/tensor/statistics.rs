//! Variances, deviations, norms and counts over any axes. Each is a graph of maps and reductions, planned as one
//! operation, so that rows are read once where that pays, and gradients are those of the steps.
//!
//! Floats of 8 and 16 bits are computed in f32 and rounded once, at the end.

use crate::axis;
use crate::ops::{Builder, GraphOp, ReduceFn, Value};
use crate::{Axes, BinaryFn, CompareFn, DType, Error, Expr, KeepDims, Layout, Result, Tensor, TensorSpec};

/// The kind of length of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// The sum of magnitudes.
    L1,
    /// The root of the sum of squares.
    L2,
    /// The largest magnitude.
    Infinity,
    /// The p-th root of the sum of p-th powers of magnitudes, for a finite p above 0.
    P(f64),
}

impl Tensor {
    /// Runs the graph that `build` makes of `inputs` as one operation.
    pub(super) fn by_graph(
        name: &'static str,
        inputs: &[&Tensor],
        build: impl FnOnce(&mut Builder, &[Value]) -> Result<Value>,
    ) -> Result<Tensor> {
        let Some(first) = inputs.first() else {
            return Err(Error::InvalidArgument { what: "graph", reason: format!("{name} reads nothing") });
        };
        let specs: Vec<TensorSpec> = inputs.iter().map(|input| input.spec()).collect();
        let mut graph = Builder::new(specs.clone());
        let values = (0..inputs.len()).map(|number| graph.input(number)).collect::<Result<Vec<Value>>>()?;
        let result = build(&mut graph, &values)?;
        let output = TensorSpec::new(result.dtype(), Layout::contiguous(*result.spec().layout.shape()));
        let graph = graph.finish(name, &[result], &[output])?;
        let (op, used) = GraphOp::new(name, graph, specs, vec![output]);
        let used: Vec<&Tensor> = used.into_iter().filter_map(|number| inputs.get(number).copied()).collect();
        Ok(Tensor::apply(first.device(), op, &used)?.swap_remove(0))
    }

    fn expect_float(&self, op: &'static str) -> Result<DType> {
        if self.dtype().is_float() {
            Ok(self.dtype())
        } else {
            Err(Error::UndefinedForDType { op, dtype: self.dtype() })
        }
    }

    fn spread(&self, op: &'static str, axes: impl Axes, correction: f64, finish: fn(Expr) -> Expr) -> Result<Tensor> {
        let dtype = self.expect_float(op)?;
        let (axes, keep) = axis::reduced(op, axes, self.rank())?;
        let compute = dtype.compute();
        let count: u64 = axes.iter().map(|&axis| self.dims()[axis]).product();
        if !correction.is_finite() {
            let reason = format!("{op} with a correction of {correction}; give a finite number, such as 1");
            return Err(Error::InvalidArgument { what: "correction", reason });
        }
        // Too few elements give an infinity or NaN, as in PyTorch.
        let divisor = (count as f64 - correction).max(0.0);
        Tensor::by_graph(op, &[self], |graph, inputs| {
            let x = graph.cast(inputs[0], compute)?;
            let mean = graph.reduce(ReduceFn::Mean, x, &axes, KeepDims::Yes)?;
            let difference = Expr::input(0) - Expr::input(1);
            let squares = graph.map(&(difference.clone() * difference), &[x, mean])?;
            let sum = graph.reduce(ReduceFn::Sum, squares, &axes, keep)?;
            graph.map(&finish(Expr::input(0) / divisor).cast(dtype), &[sum])
        })
    }

    /// The variance over `axes` (`..`: all), which disappear: the sum of squared differences from the mean, divided by
    /// the number of elements minus `correction`. A correction of 1 makes it unbiased, 0 gives the mean of squares.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(x.var(1, 1.0)?.to_vec::<f32>()?, [0.5, 0.5]);
    /// assert_eq!(x.var(.., 0.0)?.item::<f32>()?, 1.25);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::InvalidArgument`] for a correction that is not finite; axes as in
    /// [`Tensor::reduce`]; memory errors of the device.
    pub fn var(&self, axes: impl Axes, correction: f64) -> Result<Tensor> {
        self.spread("var", axes, correction, |variance| variance)
    }

    /// The square root of [`Tensor::var`]. Where all elements are equal the gradient is NaN, as PyTorch's.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 3.0, 5.0], [3])?;
    /// assert_eq!(x.std(.., 1.0)?.item::<f32>()?, 2.0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::var`].
    pub fn std(&self, axes: impl Axes, correction: f64) -> Result<Tensor> {
        self.spread("std", axes, correction, |variance| variance.sqrt())
    }

    /// The length over `axes` (`..`: all), which disappear. Sums of powers may overflow where the length itself would not. At a length of
    /// zero the gradient is zero.
    ///
    /// ```
    /// use polywarp_core::{Device, Norm, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[3.0f32, -4.0], [2])?;
    /// let length = |kind| x.norm(kind, ..)?.item::<f32>();
    /// assert_eq!([length(Norm::L1)?, length(Norm::L2)?, length(Norm::Infinity)?], [7.0, 5.0, 4.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::InvalidArgument`] for a p that is not finite or not above 0; axes as in
    /// [`Tensor::reduce`]; memory errors of the device.
    pub fn norm(&self, kind: Norm, axes: impl Axes) -> Result<Tensor> {
        const OP: &str = "norm";
        let dtype = self.expect_float(OP)?;
        let (axes, keep) = axis::reduced(OP, axes, self.rank())?;
        let compute = dtype.compute();
        let x = Expr::input(0).cast(compute);
        // A root has no derivative at zero: there the graph takes the root of 1 and then discards it.
        let is_zero = Expr::input(0).compare(CompareFn::Eq, 0.0);
        let sum = is_zero.select(1.0, Expr::input(0));
        let at_zero = |root: Expr| is_zero.select(0.0, root);
        let (power, root) = match kind {
            Norm::Infinity => return self.reduce_sorted(ReduceFn::AbsMax, &axes, keep),
            Norm::P(p) if !(p.is_finite() && p > 0.0) => {
                let reason = format!("{OP} of order {p}; give a finite number above 0, or Norm::Infinity");
                return Err(Error::InvalidArgument { what: "p", reason });
            }
            Norm::L1 => (x.abs(), Expr::input(0)),
            Norm::L2 => (x.clone() * &x, at_zero(sum.sqrt())),
            Norm::P(p) => (x.abs().binary(BinaryFn::Pow, p), at_zero(sum.binary(BinaryFn::Pow, 1.0 / p))),
        };
        Tensor::by_graph(OP, &[self], |graph, inputs| {
            let powers = graph.map(&power, inputs)?;
            let sum = graph.reduce(ReduceFn::Sum, powers, &axes, keep)?;
            graph.map(&root.cast(dtype), &[sum])
        })
    }

    /// The number of elements over `axes` (`..`: all) that are not zero, as u32; the axes disappear. NaN is not zero.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[0.0f32, 2.0, -0.0, f32::NAN], [4])?;
    /// assert_eq!(x.count_nonzero(..)?.item::<u32>()?, 2);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::IndexWidth`] where counts do not fit u32; axes as in [`Tensor::reduce`]; memory errors of the device.
    pub fn count_nonzero(&self, axes: impl Axes) -> Result<Tensor> {
        const OP: &str = "count_nonzero";
        let (axes, keep) = axis::reduced(OP, axes, self.rank())?;
        let count = axes.iter().map(|&axis| self.dims()[axis]).fold(1, u64::saturating_mul);
        if count > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: count, max: u32::MAX.into() });
        }
        let x = self.detach();
        Tensor::by_graph(OP, &[&x], |graph, inputs| {
            let marks = graph.map(&Expr::input(0).cast(DType::Bool).cast(DType::U32), inputs)?;
            graph.reduce(ReduceFn::Sum, marks, &axes, keep)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Tape, bf16};

    fn of(values: &[f64]) -> Tensor {
        Tensor::from_slice(&Device::cpu(), values, [values.len() as u64]).unwrap()
    }

    /// Compares the gradient by the tape with central differences of the sum of `f`.
    fn prove(f: impl Fn(&Tensor) -> Result<Tensor>, values: &[f64]) {
        let (tape, x) = (Tape::new(), of(values));
        let watched = tape.watch(&x).unwrap();
        let gradients = tape.backward(&f(&watched).unwrap()).unwrap();
        let found = gradients.of(&watched).unwrap().to_vec::<f64>().unwrap();
        for (i, found) in found.into_iter().enumerate() {
            let at = |step: f64| {
                let mut moved = values.to_vec();
                moved[i] += step;
                f(&of(&moved)).unwrap().item::<f64>().unwrap()
            };
            let want = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((found - want).abs() < 1e-6 * (1.0 + want.abs()), "element {i}: {found}, not {want}");
        }
    }

    #[test]
    fn gradients_are_central_differences() {
        let values = [0.5, -1.25, 3.0, 2.0, -0.75];
        prove(|x| x.var(.., 1.0), &values);
        prove(|x| x.std(0, 0.0), &values);
        for kind in [Norm::L1, Norm::L2, Norm::Infinity, Norm::P(3.0), Norm::P(0.5)] {
            prove(|x| x.norm(kind, ..), &values);
        }
    }

    #[test]
    fn length_zero_has_gradient_zero() {
        let (tape, x) = (Tape::new(), of(&[0.0, 0.0]));
        let watched = tape.watch(&x).unwrap();
        let gradients = tape.backward(&watched.norm(Norm::L2, ..).unwrap()).unwrap();
        assert_eq!(gradients.of(&watched).unwrap().to_vec::<f64>().unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn bf16_is_computed_in_f32_and_rounded_once() {
        let values: Vec<bf16> = (0..1000u16).map(|i| bf16::from_f32(256.0 + f32::from(i % 4))).collect();
        let x = Tensor::from_slice(&Device::cpu(), &values, [1000]).unwrap();
        let exact: Vec<f64> = values.iter().map(|x| x.to_f64()).collect();
        let mean = exact.iter().sum::<f64>() / 1000.0;
        let want = exact.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 999.0;
        let got = x.var(.., 1.0).unwrap().item::<bf16>().unwrap().to_f64();
        assert!((got - want).abs() <= want / 256.0, "{got}, not {want}");
    }

    #[test]
    fn too_few_elements_and_wrong_parameters() {
        assert!(of(&[1.0]).var(.., 1.0).unwrap().item::<f64>().unwrap().is_nan());
        let x = of(&[1.0, 2.0]);
        assert!(matches!(x.norm(Norm::P(0.0), ..), Err(Error::InvalidArgument { what: "p", .. })));
        assert!(matches!(x.var(.., f64::NAN), Err(Error::InvalidArgument { what: "correction", .. })));
        let whole = x.cast(DType::I32).unwrap();
        assert!(matches!(whole.std(.., 1.0), Err(Error::UndefinedForDType { op: "std", dtype: DType::I32 })));
        assert_eq!(whole.count_nonzero(..).unwrap().item::<u32>().unwrap(), 2);
        assert!(matches!(x.norm(Norm::L2, 1), Err(Error::AxisOutOfRange { axis: 1, rank: 1 })));
    }
}
