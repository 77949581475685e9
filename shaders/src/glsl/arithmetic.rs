//! Integer arithmetic, conversions and atomics whose values GLSL leaves open, or that naga writes otherwise than WGSL means.
//!
//! | WGSL | in GLSL | becomes |
//! |---|---|---|
//! | `a / b`, b = 0 or the smallest number by -1: a | undefined | `a / d`, d = 1 in these cases, else b |
//! | `a % b`, the sign of a; 0 in these cases | undefined, also where a or b is negative | `a - (a / d) * d`; unsigned `a % d` |
//! | `a << b`, `a >> b` by b modulo the width | undefined from the width on | `a << (b & 31)` |
//! | `i32(x)`, `u32(x)` of a float: the nearest there is | undefined | of x within the range |
//! | `abs(u)` of an unsigned number: u | naga writes `uint(abs(int(u)))` | `u` |
//! | `all(b)`, `any(b)` of one bool | not there | `b` |
//! | `atomicSub(p, v)` | naga writes `atomicAdd(p, -v)`: `--1` of a literal | `atomicAdd(p, 0 - v)` |
//!
//! Without a choice between values (`mix` of integers is not in every GLSL, and a choice is slower): a comparison is added in
//! as 0 or 1. A known divisor costs nothing but what `%` of signed numbers needs.

use naga::{
    AtomicFunction, BinaryOperator, Block, Expression, Handle, Literal, MathFunction, Scalar, ScalarKind, Span,
    Statement, TypeInner, VectorSize,
};
use polywarp_core::Result;

use super::rebuild::{Rebuilt, Rewrite};

/// See the module's head.
pub(super) struct Arithmetic;

/// A scalar, or a vector of so many.
#[derive(Clone, Copy)]
struct Numbers {
    scalar: Scalar,
    size: Option<VectorSize>,
}

impl Rewrite for Arithmetic {
    fn expression(&mut self, into: &mut Rebuilt<'_>, old: Handle<Expression>) -> Result<Option<Handle<Expression>>> {
        Ok(match into.old.expressions[old] {
            Expression::Binary { op: op @ (BinaryOperator::Divide | BinaryOperator::Modulo), left, right } => {
                divided(into, op, left, right)
            }
            Expression::Binary { op: op @ (BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight), left, right } => {
                shifted(into, op, left, right)
            }
            Expression::As { expr, kind: kind @ (ScalarKind::Sint | ScalarKind::Uint), convert: Some(4) } => {
                converted(into, expr, kind)
            }
            Expression::Math { fun: MathFunction::Abs, arg, .. } => {
                let unsigned = numbers(into.type_of(arg)).is_some_and(|n| n.scalar.kind == ScalarKind::Uint);
                unsigned.then(|| into.new_of(arg))
            }
            Expression::Relational { argument, .. } => {
                // naga's other relational functions, of floats, are not in WGSL.
                (*into.type_of(argument) == TypeInner::Scalar(Scalar::BOOL)).then(|| into.new_of(argument))
            }
            _ => None,
        })
    }

    fn statement(&mut self, into: &mut Rebuilt<'_>, old: &Statement, span: Span) -> Result<Option<Block>> {
        let mut copy = old.clone();
        let value = match &mut copy {
            Statement::Atomic { fun: fun @ AtomicFunction::Subtract, value, pointer, result } => {
                *fun = AtomicFunction::Add;
                *pointer = into.new_of(*pointer);
                *result = result.map(|result| into.new_of(result));
                value
            }
            Statement::ImageAtomic { fun: fun @ AtomicFunction::Subtract, value, image, coordinate, array_index } => {
                *fun = AtomicFunction::Add;
                *image = into.new_of(*image);
                *coordinate = into.new_of(*coordinate);
                *array_index = array_index.map(|index| into.new_of(index));
                value
            }
            _ => return Ok(None),
        };
        let zero = match numbers(into.type_of(*value)) {
            Some(Numbers { scalar: Scalar::I32, .. }) => Literal::I32(0),
            Some(Numbers { scalar: Scalar::U32, .. }) => Literal::U32(0),
            // No GLSL here has atomics of other types.
            _ => return Ok(None),
        };
        let mut block = Block::new();
        let start = into.mark();
        let zero = into.literal(zero);
        *value = into.binary(BinaryOperator::Subtract, zero, into.new_of(*value));
        into.emit(start, &mut block, span);
        block.push(copy, span);
        Ok(Some(block))
    }
}

/// `left / right` or `left % right` of integers.
fn divided(
    into: &mut Rebuilt<'_>,
    op: BinaryOperator,
    left: Handle<Expression>,
    right: Handle<Expression>,
) -> Option<Handle<Expression>> {
    use BinaryOperator as B;
    let (of_left, of_right) = (numbers(into.type_of(left))?, numbers(into.type_of(right))?);
    let signed = of_left.scalar == Scalar::I32;
    if !signed && of_left.scalar != Scalar::U32 {
        return None;
    }
    let known = literal(into, right);
    let safe = match known {
        Some(Literal::I32(value)) => value != 0 && value != -1,
        Some(Literal::U32(value)) => value != 0,
        _ => false,
    };
    let all = Numbers { scalar: of_left.scalar, size: of_left.size.or(of_right.size) };
    let a = widened(into, left, of_left, all);
    let mut d = widened(into, right, of_right, all);
    if !safe {
        // b | (b == 0) is b, or 1 for 0.
        let zero = all.splat(into, if signed { Literal::I32(0) } else { Literal::U32(0) });
        let is_zero = all.one_where(into, d, zero);
        let b = d;
        d = into.binary(B::InclusiveOr, d, is_zero);
        if signed {
            // -1 + 2 is 1.
            let (least, minus_one) = (all.splat(into, Literal::I32(i32::MIN)), all.splat(into, Literal::I32(-1)));
            let (is_least, is_minus_one) = (all.one_where(into, a, least), all.one_where(into, b, minus_one));
            let both = into.binary(B::And, is_least, is_minus_one);
            let twice = into.binary(B::Add, both, both);
            d = into.binary(B::Add, d, twice);
        }
    }
    Some(match (op, signed) {
        (B::Modulo, true) => {
            let quotient = into.binary(B::Divide, a, d);
            let whole = into.binary(B::Multiply, quotient, d);
            into.binary(B::Subtract, a, whole)
        }
        _ => into.binary(op, a, d),
    })
}

/// `left << right` or `left >> right`.
fn shifted(
    into: &mut Rebuilt<'_>,
    op: BinaryOperator,
    left: Handle<Expression>,
    right: Handle<Expression>,
) -> Option<Handle<Expression>> {
    let (of_left, by) = (numbers(into.type_of(left))?, numbers(into.type_of(right))?);
    let bits = 8 * u32::from(of_left.scalar.width);
    if by.scalar != Scalar::U32 || matches!(literal(into, right), Some(Literal::U32(by)) if by < bits) {
        return None;
    }
    let mask = by.splat(into, Literal::U32(bits - 1));
    let by = into.binary(BinaryOperator::And, into.new_of(right), mask);
    Some(into.binary(op, into.new_of(left), by))
}

/// The float `old` as an integer of 32 bits.
fn converted(into: &mut Rebuilt<'_>, old: Handle<Expression>, kind: ScalarKind) -> Option<Handle<Expression>> {
    let of = numbers(into.type_of(old))?;
    let signed = kind == ScalarKind::Sint;
    let (low, high) = match of.scalar {
        // The largest float of 24 bits below 2^31 and 2^32.
        Scalar::F32 if signed => (Literal::F32(-2_147_483_648.0), Literal::F32(2_147_483_520.0)),
        Scalar::F32 => (Literal::F32(0.0), Literal::F32(4_294_967_040.0)),
        Scalar::F64 if signed => (Literal::F64(-2_147_483_648.0), Literal::F64(2_147_483_647.0)),
        Scalar::F64 => (Literal::F64(0.0), Literal::F64(4_294_967_295.0)),
        _ => return None,
    };
    let (low, high) = (of.splat(into, low), of.splat(into, high));
    let arg = into.new_of(old);
    let within =
        into.add(Expression::Math { fun: MathFunction::Clamp, arg, arg1: Some(low), arg2: Some(high), arg3: None });
    Some(into.add(Expression::As { expr: within, kind, convert: Some(4) }))
}

fn numbers(inner: &TypeInner) -> Option<Numbers> {
    match *inner {
        TypeInner::Scalar(scalar) => Some(Numbers { scalar, size: None }),
        TypeInner::Vector { size, scalar } => Some(Numbers { scalar, size: Some(size) }),
        _ => None,
    }
}

/// The literal that an old expression is, in all components.
fn literal(into: &Rebuilt<'_>, old: Handle<Expression>) -> Option<Literal> {
    let value = match into.old.expressions[old] {
        Expression::Splat { value, .. } => value,
        _ => old,
    };
    match into.old.expressions[value] {
        Expression::Literal(literal) => Some(literal),
        Expression::Constant(constant) => match into.module.global_expressions[into.module.constants[constant].init] {
            Expression::Literal(literal) => Some(literal),
            _ => None,
        },
        _ => None,
    }
}

/// What stands for `old`, with as many components as `all` has.
fn widened(into: &mut Rebuilt<'_>, old: Handle<Expression>, of: Numbers, all: Numbers) -> Handle<Expression> {
    let value = into.new_of(old);
    match (of.size, all.size) {
        (None, Some(size)) => into.add(Expression::Splat { size, value }),
        _ => value,
    }
}

impl Numbers {
    /// `literal` in every component.
    fn splat(self, into: &mut Rebuilt<'_>, literal: Literal) -> Handle<Expression> {
        let value = into.literal(literal);
        match self.size {
            Some(size) => into.add(Expression::Splat { size, value }),
            None => value,
        }
    }

    /// 1 in each component where `a` and `b` are equal, else 0.
    fn one_where(self, into: &mut Rebuilt<'_>, a: Handle<Expression>, b: Handle<Expression>) -> Handle<Expression> {
        let equal = into.binary(BinaryOperator::Equal, a, b);
        into.add(Expression::As { expr: equal, kind: self.scalar.kind, convert: Some(self.scalar.width) })
    }
}

impl Rebuilt<'_> {
    fn binary(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Handle<Expression> {
        self.add(Expression::Binary { op, left, right })
    }
}
