//! Elementwise arithmetic: each method is a one-step expression; [`Tensor::map`] fuses several.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;

use crate::expr::number;
use crate::ops::Map;
use crate::{BinaryFn, CompareFn, DType, Error, Expr, Program, Result, Scalar, Shape, Tensor, TensorSpec, UnaryFn};

/// An operand of a call on a tensor: another tensor, broadcast, or one number, which counts as [`Expr::constant`] says.
#[derive(Clone, Copy, Debug)]
pub enum TensorOrNumber<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Number(Scalar),
}

impl<'a> TensorOrNumber<'a> {
    /// What it is in an expression over `inputs`, to which a tensor is added.
    pub(super) fn among(self, inputs: &mut Vec<&'a Tensor>) -> Expr {
        match self {
            TensorOrNumber::Tensor(tensor) => {
                inputs.push(tensor);
                Expr::input(inputs.len() - 1)
            }
            TensorOrNumber::Number(number) => Expr::constant(number),
        }
    }
}

impl<'a> From<&'a Tensor> for TensorOrNumber<'a> {
    fn from(tensor: &'a Tensor) -> TensorOrNumber<'a> {
        TensorOrNumber::Tensor(tensor)
    }
}

impl<'a> From<&'a &Tensor> for TensorOrNumber<'a> {
    fn from(tensor: &'a &Tensor) -> TensorOrNumber<'a> {
        TensorOrNumber::Tensor(tensor)
    }
}

impl<T: Into<Scalar>> From<T> for TensorOrNumber<'_> {
    fn from(number: T) -> Self {
        TensorOrNumber::Number(number.into())
    }
}

/// A program of one step, such as every call of a function on tensors makes: compiled once for each function and dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OneStep {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Compare(CompareFn),
    Cast(DType),
}

/// The programs so far of a thread, by step and dtypes of its inputs.
type Compiled = HashMap<(OneStep, [DType; 2]), Program>;

impl OneStep {
    /// The program for one input, given twice, or two.
    fn program(self, inputs: [&Tensor; 2]) -> Result<Program> {
        thread_local! {
            static COMPILED: RefCell<Compiled> = RefCell::default();
        }
        let key = (self, inputs.map(|input| input.dtype));
        // A thread that ends has no table any more.
        if let Ok(Some(program)) = COMPILED.try_with(|compiled| compiled.borrow().get(&key).cloned()) {
            return Ok(program);
        }
        let (x, y, dtypes) = (Expr::input(0), Expr::input(1), key.1);
        let program = match self {
            OneStep::Unary(f) => Program::compile(&x.unary(f), &dtypes[..1]),
            OneStep::Binary(f) => Program::compile(&x.binary(f, y), &dtypes),
            OneStep::Compare(f) => Program::compile(&x.compare(f, y), &dtypes),
            OneStep::Cast(dtype) => Program::compile(&x.cast(dtype), &dtypes[..1]),
        }?;
        let _ = COMPILED.try_with(|compiled| compiled.borrow_mut().insert(key, program.clone()));
        Ok(program)
    }
}

impl Tensor {
    /// One kernel for a whole expression: `Expr::input(i)` is `inputs[i]`, all broadcast to one shape.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DeviceMismatch`], and as [`Program::compile`].
    pub fn map(expr: &Expr, inputs: &[&Tensor]) -> Result<Tensor> {
        Tensor::map_named("expr", expr, inputs)
    }

    pub(crate) fn map_named(label: &'static str, expr: &Expr, inputs: &[&Tensor]) -> Result<Tensor> {
        Tensor::map_program(label, inputs, || {
            let dtypes: Vec<DType> = inputs.iter().map(|t| t.dtype).collect();
            Program::compile(expr, &dtypes)
        })
    }

    /// The same by the program that `compile` gives for the inputs' dtypes.
    fn map_program(
        label: &'static str,
        inputs: &[&Tensor],
        compile: impl FnOnce() -> Result<Program>,
    ) -> Result<Tensor> {
        let Some(&first) = inputs.first() else {
            let reason = "an expression needs at least one input tensor; use Tensor::full or arange".to_owned();
            return Err(Error::InvalidArgument { what: "inputs", reason });
        };
        let mut shape = *first.shape();
        for input in &inputs[1..] {
            first.expect_device(label, input)?;
            shape = Shape::broadcast(label, &shape, input.shape())?;
        }
        let program = compile()?;
        let specs = inputs.iter().map(|t| Ok(TensorSpec::new(t.dtype, t.layout.broadcast_to(shape)?)));
        let specs: Vec<TensorSpec> = specs.collect::<Result<_>>()?;
        let out = Tensor::empty(&first.device, program.dtype(), shape)?;
        out.fill_by(&Map::new(label, program, specs, out.spec())?.into(), inputs)?;
        Ok(out)
    }

    /// Applies `f` to every element.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`], [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn unary(&self, f: UnaryFn) -> Result<Tensor> {
        Tensor::map_program(f.name(), &[self], || OneStep::Unary(f).program([self, self]))
    }

    /// Applies `f` to every pair of elements, broadcast.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::DeviceMismatch`], [`Error::UndefinedForDType`].
    pub fn binary(&self, f: BinaryFn, rhs: &Tensor) -> Result<Tensor> {
        Tensor::map_program(f.name(), &[self, rhs], || OneStep::Binary(f).program([self, rhs]))
    }

    /// Applies `f` to every element and one number. The larger and the smaller of both use the number itself, whatever
    /// the dtype; other functions compute with it in f32 for floats of 8 and 16 bits, else in the dtype: see
    /// [`Expr::constant`].
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`]; [`Error::NumberOutOfRange`] for a number that the dtype cannot hold.
    pub fn binary_scalar(&self, f: BinaryFn, rhs: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).binary(f, rhs.into()), &[self])
    }

    /// The comparison of every pair of elements, broadcast, as bool.
    ///
    /// # Errors
    /// As [`Tensor::binary`].
    pub fn compare(&self, f: CompareFn, rhs: &Tensor) -> Result<Tensor> {
        Tensor::map_program(f.name(), &[self, rhs], || OneStep::Compare(f).program([self, rhs]))
    }

    /// Compares every element with one number, as bool. The answer is that of mathematics, whatever the dtype can hold:
    /// no f32 equals the f64 0.1, but 0.1f32 is a number of f32.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`].
    pub fn compare_scalar(&self, f: CompareFn, rhs: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::map_named(f.name(), &Expr::input(0).compare(f, rhs.into()), &[self])
    }

    /// `yes` where this (bool) is true, else `no`, broadcast. Both are tensors or numbers. A number takes the dtype of
    /// the tensor beside it; two numbers give f32, or i32 when both are integers.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[-1.0f32, 2.0], [2])?;
    /// assert_eq!(x.lt(0)?.where_(0.0, &x)?.to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] when this is not bool or the branches differ; [`Error::NumberOutOfRange`] for a number that the tensor's dtype cannot
    /// hold; as [`Tensor::binary`].
    pub fn where_<'a>(
        &'a self,
        yes: impl Into<TensorOrNumber<'a>>,
        no: impl Into<TensorOrNumber<'a>>,
    ) -> Result<Tensor> {
        let mut inputs = vec![self];
        let [yes, no] = [yes.into(), no.into()].map(|branch| branch.among(&mut inputs));
        Tensor::map_named("where", &Expr::input(0).where_(yes, no), &inputs)
    }

    /// Limits every element to `low..=high`, integers to the integers of that range; NaN stays NaN. A bound beyond the
    /// range of the dtype has no effect.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `low` is above `high`, either is NaN, or no integer of the dtype lies between them;
    /// [`Error::UndefinedForDType`] for bool.
    pub fn clamp(&self, low: impl Into<Scalar>, high: impl Into<Scalar>) -> Result<Tensor> {
        let (low, high) = (low.into(), high.into());
        if !number::compared(low, high).is_some_and(Ordering::is_le) {
            let reason = format!("low {low} is above high {high}");
            return Err(Error::InvalidArgument { what: "clamp range", reason });
        }
        Tensor::map_named("clamp", &Expr::input(0).clamp(low, high), &[self])
    }

    /// Converts every element to `dtype` by the rules of [`Scalar::cast`]; returns the tensor itself when it has that dtype.
    ///
    /// # Errors
    /// [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if self.dtype == dtype {
            return Ok(self.clone());
        }
        Tensor::map_program("cast", &[self], || OneStep::Cast(dtype).program([self, self]))
    }
}

macro_rules! unary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`UnaryFn::", stringify!($variant), "`] of every element.\n\n# Errors\nAs [`Tensor::unary`].")]
            pub fn $name(&self) -> Result<Tensor> {
                self.unary(UnaryFn::$variant)
            }
        )*}
    };
}
crate::expr::unary_functions!(unary_methods);

macro_rules! binary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of every pair of elements, broadcast, or of every element and one number.",
                "\n\n# Errors\nAs [`Tensor::binary`] and [`Tensor::binary_scalar`].")]
            pub fn $name<'a>(&self, rhs: impl Into<TensorOrNumber<'a>>) -> Result<Tensor> {
                match rhs.into() {
                    TensorOrNumber::Tensor(rhs) => self.binary(BinaryFn::$variant, rhs),
                    TensorOrNumber::Number(rhs) => self.binary_scalar(BinaryFn::$variant, rhs),
                }
            }
        )*}
    };
}
crate::expr::binary_functions!(binary_methods);

macro_rules! comparison_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`CompareFn::", stringify!($variant), "`] of every pair of elements, broadcast, or of every element and one number.",
                "\n\n# Errors\nAs [`Tensor::compare`] and [`Tensor::compare_scalar`].")]
            pub fn $name<'a>(&self, rhs: impl Into<TensorOrNumber<'a>>) -> Result<Tensor> {
                match rhs.into() {
                    TensorOrNumber::Tensor(rhs) => self.compare(CompareFn::$variant, rhs),
                    TensorOrNumber::Number(rhs) => self.compare_scalar(CompareFn::$variant, rhs),
                }
            }
        )*}
    };
}
crate::expr::comparisons!(comparison_methods);

macro_rules! scalar_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of every element and one number.\n\n# Errors\nAs [`Tensor::binary_scalar`].")]
            pub fn $name(&self, rhs: impl Into<Scalar>) -> Result<Tensor> {
                self.binary_scalar(BinaryFn::$variant, rhs)
            }
        )*}
    };
}
scalar_methods!(add_scalar => Add, div_scalar => Div, floor_divide_scalar => FloorDivide, fmod_scalar => Rem, mul_scalar => Mul, pow_scalar => Pow,
    remainder_scalar => Remainder, shl_scalar => Shl, shr_scalar => Shr, sub_scalar => Sub);

#[cfg(test)]
mod tests {
    use crate::{DType, Device, Error, Expr, Tensor};

    /// The names of public methods in `source`, except those that macros make.
    fn methods(source: &str) -> Vec<&str> {
        let signatures = source.split("    pub fn ").skip(1);
        let names = signatures.filter_map(|text| text.split(['(', '<']).next());
        names.filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).collect()
    }

    /// Functions of elements have the same name for tensors and for expressions. Lists that both share need no comparison.
    #[test]
    fn expressions_have_the_names_of_tensors() {
        let of_tensors = [methods(include_str!("math.rs")), methods(include_str!("functions.rs"))].concat();
        let of_expr = [methods(include_str!("../expr.rs")), methods(include_str!("../expr/functions.rs"))].concat();
        // Expressions take numbers everywhere, so they need no second name for it.
        for name in of_tensors.iter().filter(|name| **name != "map" && !name.ends_with("_scalar")) {
            assert!(of_expr.contains(name), "Expr::{name}");
        }
        let leaves = ["input", "constant", "index", "random", "uniform", "select"];
        let shared = include_str!("functions.rs");
        for name in of_expr.iter().filter(|name| !leaves.contains(name)) {
            let is_listed = shared.split(['(', ',', ')']).any(|word| word.trim() == *name);
            assert!(of_tensors.contains(name) || is_listed, "Tensor::{name}");
        }
        assert!(of_tensors.len() > 10 && of_expr.len() > 25, "{of_tensors:?} {of_expr:?}");
    }

    #[test]
    fn operators_of_expressions_are_those_of_tensors() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[1.5f32, -2.0], [2]).unwrap();
        let e = Expr::input(0);
        let same = |expr: Expr, tensor: crate::Result<Tensor>| {
            let found = Tensor::map(&expr, &[&x]).unwrap();
            assert_eq!(found.to_bytes().unwrap(), tensor.unwrap().to_bytes().unwrap());
        };
        same(&e + &e, &x + &x);
        same(&e * 2.0, &x * 2.0);
        same(1.0 - &e, 1.0 - &x);
        same(3 / e.clone(), 3 / &x);
        same(-&e, -&x);
        same(e.pow(2.0), x.pow(2.0));
        same(e.maximum(0), x.maximum(0));
        same(e.lt(0).where_(0.0, &e), x.lt(0).unwrap().where_(0.0, &x));
        same(!&e.lt(0.5), !x.lt(0.5).unwrap());
        same(!&e.lt(0.5), !&x.lt(0.5).unwrap());
        same(e.lt(0.5) & e.gt(-3), x.lt(0.5).unwrap() & x.gt(-3).unwrap());
        same(e.lt(0.5) | e.lt(-3), x.lt(0.5).unwrap() | &x.lt(-3).unwrap());
        same(e.lt(0.5) ^ e.gt(-3), &x.lt(0.5).unwrap() ^ &x.gt(-3).unwrap());
        let x = Tensor::from_slice(&device, &[6i32, -7], [2]).unwrap();
        let same = |expr: Expr, tensor: crate::Result<Tensor>, expected: [i32; 2]| {
            let tensor = tensor.unwrap().to_vec::<i32>().unwrap();
            assert_eq!(
                (Tensor::map(&expr, &[&x]).unwrap().to_vec::<i32>().unwrap(), &tensor[..]),
                (tensor.clone(), &expected[..])
            );
        };
        same(&e & 3, &x & 3, [2, 1]);
        same(1 | &e, 1 | &x, [7, -7]);
        same(&e ^ 1, &x ^ 1, [7, -8]);
        same(&e << 1, &x << 1, [12, -14]);
        same(&e >> 1, &x >> 1, [3, -4]);
        same(1 << &e.abs(), 1 << x.abs().unwrap(), [64, 128]);
        same(!&e, !&x, [-7, 6]);
    }

    #[test]
    fn functions_asked_for_again_are_those_of_their_dtypes() {
        let device = Device::cpu();
        let of = |dtype| Tensor::full(&device, dtype, [2], 2).unwrap();
        // The second round finds programs of the first.
        for _ in 0..2 {
            for dtype in [DType::F32, DType::I32, DType::F16, DType::U64] {
                let x = of(dtype);
                let found = [x.add(&x), x.mul(&x), x.sub(&x), x.cast(DType::U8), x.eq(&x)].map(|found| {
                    let found = found.unwrap();
                    (found.dtype(), found.to_f64_vec().unwrap()[0])
                });
                let truth = (DType::Bool, 1.0);
                assert_eq!(found, [(dtype, 4.0), (dtype, 4.0), (dtype, 0.0), (DType::U8, 2.0), truth]);
                let other = of(if dtype == DType::F32 { DType::I32 } else { DType::F32 });
                assert!(matches!(x.add(&other), Err(Error::DTypeMismatch { op: "add", .. })), "{dtype}");
            }
        }
    }

    #[test]
    fn numbers_stand_beside_tensors_in_lerp_fmax_and_fmin() {
        let device = Device::cpu();
        let of = |numbers: [f32; 2]| Tensor::from_slice(&device, &numbers, [2]).unwrap();
        let (x, end) = (of([f32::NAN, 2.0]), of([4.0, 6.0]));
        let same = |tensor: crate::Result<Tensor>, expected: [f32; 2]| {
            assert_eq!(tensor.unwrap().to_vec::<f32>().unwrap(), expected);
        };
        same(x.fmax(3), [3.0, 3.0]);
        same(x.fmin(&Tensor::full(&device, DType::F32, [], 3).unwrap()), [3.0, 2.0]);
        same(x.fmin(1.5), [1.5, 1.5]);
        same(end.lerp(&of([8.0, 8.0]), 0.5), [6.0, 7.0]);
        same(end.lerp(8, 0.25), [5.0, 6.5]);
        same(end.lerp(8, &of([1.0, 0.0])), [8.0, 6.0]);
        same(end.lerp(&of([8.0, 8.0]), &of([1.0, 0.0])), [8.0, 6.0]);
        let integers = Tensor::full(&device, DType::U8, [2], 1).unwrap();
        assert!(matches!(integers.fmax(300), Err(Error::NumberOutOfRange { .. } | Error::UndefinedForDType { .. })));
    }

    #[test]
    fn numbers_stand_beside_tensors_in_comparisons_and_choices() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[1u8, 200], [2]).unwrap();
        assert_eq!(x.lt(256).unwrap().to_vec::<bool>().unwrap(), [true, true]);
        let small = x.le(&Tensor::full(&device, DType::U8, [], 7).unwrap()).unwrap();
        assert_eq!(small.where_(&x, 9).unwrap().to_vec::<u8>().unwrap(), [1, 9]);
        assert_eq!(small.where_(9, &x).unwrap().to_vec::<u8>().unwrap(), [9, 200]);
        assert_eq!(small.where_(1, 0).unwrap().to_vec::<i32>().unwrap(), [1, 0]);
        assert_eq!(small.where_(1.0, 0.0).unwrap().to_vec::<f32>().unwrap(), [1.0, 0.0]);
        assert!(matches!(small.where_(&x, 300), Err(Error::NumberOutOfRange { .. })));
        assert!(matches!(x.where_(1, 0), Err(Error::DTypeMismatch { op: "where", .. })));
    }
}
