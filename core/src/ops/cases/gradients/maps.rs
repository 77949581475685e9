//! Elementwise programs: every function of one operand and of two where it is smooth, several results, what is dropped at random.

use super::{F64, TIES, add, dense, map};
use crate::case::{Case, LayoutKind, Values};
use crate::{BinaryFn, CompareFn, DType, Expr, Layout, Result, Shape, TensorSpec, UnaryFn};

/// The functions of two operands that have a derivative.
const DIFFERENTIABLE: [BinaryFn; 13] = [
    BinaryFn::Add,
    BinaryFn::Atan2,
    BinaryFn::Copysign,
    BinaryFn::Div,
    BinaryFn::FloorDivide,
    BinaryFn::Hypot,
    BinaryFn::Max,
    BinaryFn::Min,
    BinaryFn::Mul,
    BinaryFn::Pow,
    BinaryFn::Rem,
    BinaryFn::Remainder,
    BinaryFn::Sub,
];

pub(super) fn small(cases: &mut Vec<Case>) {
    let (x, y, z) = (Expr::input(0), Expr::input(1), Expr::input(2));
    // Each function where it is smooth: positive for those with poles, no whole numbers and halves for those that round.
    for f in UnaryFn::ALL.into_iter().filter(|f| f.defined_for(F64)) {
        let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
        let positive = if f == UnaryFn::Acosh { Values::Uniform(1.3, 2.4) } else { Values::Uniform(0.55, 0.95) };
        add(cases, "unary", op, &[positive]);
        if matches!(f, UnaryFn::Acos | UnaryFn::Asin | UnaryFn::Atanh | UnaryFn::Erfinv) {
            let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
            add(cases, "unary", op, &[Values::Uniform(-0.9, -0.3)]);
        } else if !matches!(f, UnaryFn::Acosh | UnaryFn::Log | UnaryFn::Log2 | UnaryFn::Sqrt | UnaryFn::Rsqrt) {
            let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
            add(cases, "unary", op, &[Values::Uniform(-1.9, -1.6)]);
        }
    }
    for f in DIFFERENTIABLE {
        for kinds in [[LayoutKind::Dense; 2], [LayoutKind::BroadcastOuter, LayoutKind::BroadcastInner]] {
            let inputs = || kinds.iter().map(|kind| kind.spec(F64, &[4, 5])).collect::<Result<Vec<_>>>();
            let op = inputs().and_then(|inputs| map(&[x.binary(f, &y)], inputs, &[4, 5]));
            add(cases, "binary", op, &[Values::Uniform(0.5, 1.0), Values::Uniform(1.1, 2.0)]);
        }
        let op = dense(&[9]).and_then(|input| map(&[x.binary(f, 1.5)], vec![input], &[9]));
        add(cases, "binary", op, &[Values::Uniform(0.5, 1.0)]);
        let op = dense(&[9]).and_then(|input| map(&[Expr::constant(1.5).binary(f, &x)], vec![input], &[9]));
        add(cases, "binary", op, &[Values::Uniform(0.5, 1.0)]);
    }
    // Several results that share steps, choices, a value used twice, one that no result depends on.
    let shared = (x.clone() * &y).tanh();
    let chosen = x.compare(CompareFn::Gt, 0.7).select(shared.clone() * &x, z.clone().exp());
    let two = [shared.clone() + &x, chosen.clone() - x.clone() * &x];
    let three = || vec![dense(&[3, 5]); 3].into_iter().collect::<Result<Vec<_>>>();
    add(cases, "expr", three().and_then(|inputs| map(&two, inputs, &[3, 5])), &[Values::Uniform(0.0, 1.0); 3]);
    add(cases, "expr", three().and_then(|inputs| map(&[y.sigmoid()], inputs, &[3, 5])), &[Values::Normal; 3]);
    let clamped = [(x.clone() * 2.0).clamp(-0.5, 0.5) * &y];
    let both = || Ok(vec![dense(&[31])?, dense(&[31])?]);
    add(cases, "clamp", both().and_then(|inputs| map(&clamped, inputs, &[31])), &[Values::Normal; 2]);
    add(cases, "expr", both().and_then(|inputs| map(&[x.clone() * &y], inputs, &[31])), &[Values::Constant(0.0); 2]);
    // What is random depends on key and position, and not on what is moved.
    for (p, kind) in [(0.5, LayoutKind::Dense), (0.25, LayoutKind::Transposed), (1.0, LayoutKind::BroadcastOuter)] {
        let inputs = || {
            let word = Layout::contiguous(Shape::new(&[])?).broadcast_to(Shape::new(&[4, 6])?)?;
            Ok::<_, crate::Error>([vec![kind.spec(F64, &[4, 6])?], vec![TensorSpec::new(DType::U32, word); 4]].concat())
        };
        let noisy = [Expr::dropped(p) * x.exp(), (Expr::uniform([1, 2, 3, 4].map(Expr::input)).cast(F64) + 1.0) * &x];
        let values = [&[Values::Normal][..], &[Values::RandomBits; 4]].concat();
        add(cases, "dropout", inputs().and_then(|inputs| map(&noisy, inputs, &[4, 6])), &values);
    }
    for dims in [&[0, 4][..], &[4, 0]] {
        let op = dense(dims).and_then(|input| map(&[x.exp()], vec![input], dims));
        add(cases, "unary", op, &[Values::Normal]);
    }
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    let noisy = (Expr::input(0) * Expr::input(1)).tanh() + Expr::input(0).unary(UnaryFn::Gelu);
    let op = || {
        map(
            std::slice::from_ref(&noisy),
            vec![dense(&[40, 129])?, LayoutKind::BroadcastOuter.spec(F64, &[40, 129])?],
            &[40, 129],
        )
    };
    add(cases, "expr", op(), &normal[..2]);
    for (p, kind) in [(0.1, LayoutKind::Dense), (0.5, LayoutKind::BroadcastOuter)] {
        let inputs = || {
            let word = Layout::contiguous(Shape::new(&[])?).broadcast_to(Shape::new(&[67, 129])?)?;
            Ok::<_, crate::Error>(
                [vec![kind.spec(F64, &[67, 129])?], vec![TensorSpec::new(DType::U32, word); 4]].concat(),
            )
        };
        let op = inputs().and_then(|inputs| map(&[Expr::dropped(p)], inputs, &[67, 129]));
        add(cases, "dropout", op, &[&[Values::Normal][..], &[Values::RandomBits; 4]].concat());
    }
}

/// Programs with a derivative at zero, and those that choose between equal elements.
pub(super) fn tied(cases: &mut Vec<Case>) {
    let (x, y) = (Expr::input(0), Expr::input(1));
    let both = || Ok(vec![dense(&[31])?, dense(&[31])?]);
    for f in [BinaryFn::Add, BinaryFn::Max, BinaryFn::Min, BinaryFn::Mul, BinaryFn::Sub] {
        for values in [[TIES; 2], [Values::Constant(0.0), Values::Normal], [Values::Constant(0.0); 2]] {
            add(cases, "binary", both().and_then(|inputs| map(&[x.binary(f, &y)], inputs, &[31])), &values);
        }
    }
    add(cases, "expr", both().and_then(|inputs| map(&[x.tanh() * &y, x.exp()], inputs, &[31])), &[TIES; 2]);
}
