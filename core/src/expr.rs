//! Expressions: several elementwise steps that one kernel runs.
//!
//! A caller builds an [`Expr`] from inputs and constants with ordinary operators. [`Program::compile`] gives every step
//! a dtype and flattens the tree to plain data, shared subtrees once; that is what ops carry and backends translate.
//! All elementwise ops are programs: `a.exp()` is a program of one step.
//!
//! Arithmetic: f16 and bf16 steps are computed in f32 and rounded once, where the program ends or casts; 8-bit integers
//! wrap after every step. Constants are kept apart from the steps, so kernels that differ only in them are the same.

use std::collections::HashMap;
use std::ops;
use std::sync::Arc;

use crate::{BinaryFn, CompareFn, DType, Error, Result, Scalar, UnaryFn};

/// Most inputs of one expression: WebGPU guarantees 8 storage buffers, one holds the result.
pub const MAX_INPUTS: usize = 7;

/// Most steps of one compiled expression.
pub const MAX_STEPS: usize = 256;

/// An elementwise computation under construction.
///
/// ```
/// use polywarp_core::Expr;
/// let (x, y) = (Expr::input(0), Expr::input(1));
/// let smooth = (x.clone() * 2.0 + y).tanh() - x; // one kernel, one pass over memory
/// # let _ = smooth;
/// ```
#[derive(Clone, Debug)]
pub struct Expr(Arc<Node>);

#[derive(Debug)]
struct Node {
    kind: Kind,
    depth: usize,
    /// What the expression is computed in when no input or cast decides: i32 for integers alone, else f32.
    fallback: DType,
}

#[derive(Debug)]
enum Kind {
    Input(usize),
    Constant(Scalar),
    Index,
    Unary(UnaryFn, Expr),
    Binary(BinaryFn, Expr, Expr),
    Compare(CompareFn, Expr, Expr),
    Select(Expr, Expr, Expr),
    Cast(DType, Expr),
    /// Replaces a node nested deeper than [`MAX_STEPS`], so that neither compiling nor dropping can exhaust the stack.
    TooDeep,
}

impl Expr {
    /// The element of input number `index`.
    pub fn input(index: usize) -> Expr {
        Expr::leaf(Kind::Input(index))
    }

    /// A constant; takes the dtype of what it is combined with.
    pub fn constant(value: impl Into<Scalar>) -> Expr {
        Expr::leaf(Kind::Constant(value.into()))
    }

    /// The row-major position of the element in the result; like a constant, it takes the dtype of what it meets.
    pub fn index() -> Expr {
        Expr::leaf(Kind::Index)
    }

    fn leaf(kind: Kind) -> Expr {
        let integer = matches!(kind, Kind::Constant(Scalar::I(_)) | Kind::Index);
        let fallback = if integer { DType::I32 } else { DType::F32 };
        Expr(Arc::new(Node { kind, depth: 1, fallback }))
    }

    fn node(kind: Kind) -> Expr {
        let operands: Vec<&Expr> = match &kind {
            Kind::Unary(_, x) | Kind::Cast(_, x) => vec![x],
            Kind::Binary(_, a, b) | Kind::Compare(_, a, b) | Kind::Select(_, a, b) => vec![a, b],
            Kind::Input(_) | Kind::Constant(_) | Kind::Index | Kind::TooDeep => vec![],
        };
        let mut depth = 1 + operands.iter().map(|x| x.0.depth).max().unwrap_or(0);
        if let Kind::Select(condition, ..) = &kind {
            depth = depth.max(1 + condition.0.depth);
        }
        let integer = operands.iter().all(|x| x.0.fallback == DType::I32);
        let fallback = if integer { DType::I32 } else { DType::F32 };
        Expr(Arc::new(Node { kind: if depth > MAX_STEPS { Kind::TooDeep } else { kind }, depth, fallback }))
    }

    /// `f` of this.
    pub fn unary(&self, f: UnaryFn) -> Expr {
        Expr::node(Kind::Unary(f, self.clone()))
    }

    /// `f` of this and `rhs`.
    pub fn binary(&self, f: BinaryFn, rhs: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Binary(f, self.clone(), rhs.into()))
    }

    /// The comparison of this with `rhs`, as bool.
    pub fn compare(&self, f: CompareFn, rhs: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Compare(f, self.clone(), rhs.into()))
    }

    /// `yes` where this (bool) is true, else `no`.
    pub fn select(&self, yes: impl Into<Expr>, no: impl Into<Expr>) -> Expr {
        Expr::node(Kind::Select(self.clone(), yes.into(), no.into()))
    }

    /// This limited to `low..=high`; NaN stays NaN.
    pub fn clamp(&self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.binary(BinaryFn::Max, low).binary(BinaryFn::Min, high)
    }

    /// This converted to `dtype` by the rules of [`Scalar::cast`].
    pub fn cast(&self, dtype: DType) -> Expr {
        Expr::node(Kind::Cast(dtype, self.clone()))
    }
}

macro_rules! unary_methods {
    ($($name:ident => $variant:ident),* $(,)?) => {
        impl Expr {$(
            #[doc = concat!("[`UnaryFn::", stringify!($variant), "`] of this.")]
            pub fn $name(&self) -> Expr {
                self.unary(UnaryFn::$variant)
            }
        )*}
    };
}
unary_methods!(abs => Abs, ceil => Ceil, cos => Cos, erf => Erf, exp => Exp, exp2 => Exp2, floor => Floor, gelu => Gelu,
    log => Log, log2 => Log2, reciprocal => Reciprocal, relu => Relu, round => Round, rsqrt => Rsqrt,
    sigmoid => Sigmoid, sign => Sign, silu => Silu, sin => Sin, sqrt => Sqrt, tanh => Tanh);

macro_rules! operators {
    ($($trait:ident::$method:ident => $variant:ident),*) => {$(
        impl<R: Into<Expr>> ops::$trait<R> for Expr {
            type Output = Expr;

            fn $method(self, rhs: R) -> Expr {
                self.binary(BinaryFn::$variant, rhs)
            }
        }
    )*};
}
operators!(Add::add => Add, Sub::sub => Sub, Mul::mul => Mul, Div::div => Div, Rem::rem => Rem,
    BitAnd::bitand => And, BitOr::bitor => Or, BitXor::bitxor => Xor);

impl ops::Neg for Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        self.unary(UnaryFn::Neg)
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Expr {
        expr.clone()
    }
}

impl<T: Into<Scalar>> From<T> for Expr {
    fn from(value: T) -> Expr {
        Expr::constant(value)
    }
}

/// Number of a step within its program.
pub type StepId = u16;

/// One step of a compiled expression; operands are earlier steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The element of input number `.0`.
    Input(u8),
    /// Constant number `.0` of [`Program::constants`].
    Constant(u16),
    /// The row-major position of the element in the result.
    Index,
    /// A function of one step.
    Unary(UnaryFn, StepId),
    /// A function of two steps.
    Binary(BinaryFn, StepId, StepId),
    /// A comparison of two steps; its dtype is bool.
    Compare(CompareFn, StepId, StepId),
    /// Step `.1` where step `.0` is true, else step `.2`.
    Select(StepId, StepId, StepId),
    /// Step `.0` converted to this step's dtype.
    Cast(StepId),
}

/// A compiled expression: typed steps in order of evaluation; the last one is the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    steps: Vec<(Step, DType)>,
    constants: Vec<Scalar>,
}

impl Program {
    /// Types and flattens `expr` for inputs of the given dtypes. A constant that meets no typed operand becomes f32
    /// (or i32 when it is an integer).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an input that is not there, too many inputs or steps; [`Error::DTypeMismatch`]
    /// where two operands differ in dtype; [`Error::UndefinedForDType`] where a function has no meaning.
    pub fn compile(expr: &Expr, inputs: &[DType]) -> Result<Program> {
        if inputs.len() > MAX_INPUTS {
            return Err(invalid(format!("{} inputs, at most {MAX_INPUTS} fit one kernel", inputs.len())));
        }
        let mut compiler =
            Compiler { inputs, program: Program::default(), inferred: HashMap::new(), done: HashMap::new() };
        let dtype = compiler.infer(expr)?.unwrap_or(expr.0.fallback);
        compiler.lower(expr, dtype)?;
        Ok(compiler.program)
    }

    /// The steps with the dtype of each, in order of evaluation.
    pub fn steps(&self) -> &[(Step, DType)] {
        &self.steps
    }

    /// The constants; [`Step::Constant`] numbers them.
    pub fn constants(&self) -> &[Scalar] {
        &self.constants
    }

    /// The dtype of the result.
    pub fn dtype(&self) -> DType {
        self.steps.last().map_or(DType::F32, |s| s.1)
    }

    /// Arithmetic steps per element: what [`crate::Cost`] counts as operations.
    pub fn operations(&self) -> u64 {
        let leaf = |step: &Step| matches!(step, Step::Input(_) | Step::Constant(_) | Step::Index);
        self.steps.iter().filter(|(step, _)| !leaf(step)).count() as u64
    }
}

struct Compiler<'a> {
    inputs: &'a [DType],
    program: Program,
    /// Dtypes already inferred and nodes already lowered, by address: a shared subtree is visited once and becomes
    /// one step.
    inferred: HashMap<*const Node, Option<DType>>,
    done: HashMap<(*const Node, DType), StepId>,
}

impl Compiler<'_> {
    /// The dtype a node has by itself; `None` for constants and the index, which take what they meet.
    fn infer(&mut self, expr: &Expr) -> Result<Option<DType>> {
        let key = Arc::as_ptr(&expr.0);
        if let Some(&dtype) = self.inferred.get(&key) {
            return Ok(dtype);
        }
        let dtype = self.infer_node(&expr.0.kind)?;
        self.inferred.insert(key, dtype);
        Ok(dtype)
    }

    fn infer_node(&mut self, kind: &Kind) -> Result<Option<DType>> {
        match kind {
            Kind::Input(i) => match self.inputs.get(*i) {
                Some(&dtype) => Ok(Some(dtype)),
                None => Err(invalid(format!("uses input {i}, but {} were given", self.inputs.len()))),
            },
            Kind::Constant(_) | Kind::Index => Ok(None),
            Kind::Unary(_, x) => self.infer(x),
            Kind::Binary(f, a, b) => self.unify(f.name(), a, b),
            Kind::Compare(..) => Ok(Some(DType::Bool)),
            Kind::Select(_, yes, no) => self.unify("where", yes, no),
            Kind::Cast(dtype, _) => Ok(Some(*dtype)),
            Kind::TooDeep => Err(invalid(format!("nested deeper than {MAX_STEPS} steps; split it"))),
        }
    }

    fn unify(&mut self, op: &'static str, a: &Expr, b: &Expr) -> Result<Option<DType>> {
        match (self.infer(a)?, self.infer(b)?) {
            (Some(expected), Some(got)) if expected != got => Err(Error::DTypeMismatch { op, expected, got }),
            (Some(dtype), _) | (None, Some(dtype)) => Ok(Some(dtype)),
            (None, None) => Ok(None),
        }
    }

    /// Emits the node as dtype `want`, which `infer` has already agreed to.
    fn lower(&mut self, expr: &Expr, want: DType) -> Result<StepId> {
        let key = (Arc::as_ptr(&expr.0), want);
        if let Some(&id) = self.done.get(&key) {
            return Ok(id);
        }
        let step = match &expr.0.kind {
            Kind::Input(i) => Step::Input(*i as u8),
            Kind::Constant(value) => {
                self.program.constants.push(value.cast(want));
                Step::Constant((self.program.constants.len() - 1) as u16)
            }
            Kind::Index => Step::Index,
            Kind::Unary(f, x) => {
                defined(f.name(), f.defined_for(want), want)?;
                Step::Unary(*f, self.lower(x, want)?)
            }
            Kind::Binary(f, a, b) => {
                defined(f.name(), f.defined_for(want), want)?;
                Step::Binary(*f, self.lower(a, want)?, self.lower(b, want)?)
            }
            Kind::Compare(f, a, b) => {
                let dtype = self.unify(f.name(), a, b)?.unwrap_or(a.0.fallback);
                defined(f.name(), f.defined_for(dtype), dtype)?;
                Step::Compare(*f, self.lower(a, dtype)?, self.lower(b, dtype)?)
            }
            Kind::Select(cond, yes, no) => {
                let got = self.infer(cond)?.unwrap_or(DType::Bool);
                if got != DType::Bool {
                    return Err(Error::DTypeMismatch { op: "where", expected: DType::Bool, got });
                }
                Step::Select(self.lower(cond, DType::Bool)?, self.lower(yes, want)?, self.lower(no, want)?)
            }
            // The position has no dtype of its own: a cast gives it one without a detour through i32.
            Kind::Cast(_, x) if matches!(x.0.kind, Kind::Index) => Step::Index,
            Kind::Cast(_, x) => {
                let from = self.infer(x)?.unwrap_or(x.0.fallback);
                Step::Cast(self.lower(x, from)?)
            }
            Kind::TooDeep => return Err(invalid(format!("nested deeper than {MAX_STEPS} steps; split it"))),
        };
        if self.program.steps.len() >= MAX_STEPS {
            return Err(invalid(format!("more than {MAX_STEPS} steps; split it")));
        }
        self.program.steps.push((step, want));
        let id = (self.program.steps.len() - 1) as StepId;
        self.done.insert(key, id);
        Ok(id)
    }
}

fn defined(op: &'static str, is_defined: bool, dtype: DType) -> Result<()> {
    if is_defined { Ok(()) } else { Err(Error::UndefinedForDType { op, dtype }) }
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument { what: "expression", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_subtree_is_one_step() {
        let t = Expr::input(0).tanh();
        let p = Program::compile(&(t.clone() * t), &[DType::F32]).unwrap();
        assert_eq!(p.steps().len(), 3);
        assert_eq!(p.operations(), 2);
    }

    #[test]
    fn constants_take_the_dtype_they_meet() {
        let p = Program::compile(&(Expr::input(0) * 2.0), &[DType::F16]).unwrap();
        assert!(p.steps().iter().all(|s| s.1 == DType::F16));
        let p = Program::compile(&Expr::constant(3), &[]).unwrap();
        assert_eq!(p.dtype(), DType::I32);
    }

    #[test]
    fn mixed_dtypes_are_refused() {
        let e = Expr::input(0) + Expr::input(1);
        let err = Program::compile(&e, &[DType::F32, DType::I32]).unwrap_err();
        assert!(matches!(err, Error::DTypeMismatch { op: "add", expected: DType::F32, got: DType::I32 }));
        let err = Program::compile(&Expr::input(0).exp(), &[DType::I32]).unwrap_err();
        assert!(matches!(err, Error::UndefinedForDType { op: "exp", dtype: DType::I32 }));
        let err = Program::compile(&Expr::input(0).select(1.0, 2.0), &[DType::F32]).unwrap_err();
        assert!(matches!(err, Error::DTypeMismatch { op: "where", expected: DType::Bool, .. }));
    }

    #[test]
    fn missing_input_and_endless_nesting_are_refused() {
        assert!(matches!(Program::compile(&Expr::input(1), &[DType::F32]), Err(Error::InvalidArgument { .. })));
        let mut deep = Expr::input(0);
        for _ in 0..100_000 {
            deep = -deep;
        }
        assert!(matches!(Program::compile(&deep, &[DType::F32]), Err(Error::InvalidArgument { .. })));
    }

    #[test]
    fn doubling_a_shared_node_stays_linear() {
        let mut sum = Expr::input(0);
        for _ in 0..100 {
            sum = sum.clone() + sum;
        }
        assert_eq!(Program::compile(&sum, &[DType::F32]).unwrap().steps().len(), 101);
    }
}
