//! Floats whose every operation is exact, so that rounding, contraction and the order of sums cannot matter.
//!
//! Each expression carries a bound (`Bound`): all its values are multiples of a fraction and at most so large. An
//! operation whose result might not fit the type gets its operands brought to rest first. What is not exact by nature
//! (roots, sines) is in `masked.rs`.

use crate::expression::join;
use crate::generator::{Bound, Expr, Generator, float_literal};
use crate::types::{Scalar, Ty};

fn sum(a: Bound, b: Bound) -> Bound {
    Bound { most: a.most + b.most, fraction: a.fraction.max(b.fraction) }
}

fn product(a: Bound, b: Bound) -> Bound {
    Bound { most: a.most * b.most, fraction: a.fraction + b.fraction }
}

/// The sum of `n` products.
fn products(n: usize, a: Bound, b: Bound) -> Bound {
    let one = product(a, b);
    Bound { most: one.most * n as f64, ..one }
}

impl Generator<'_> {
    /// The operation `text` of `operands`, which are brought to rest where its result might not be exact.
    fn exact(
        &mut self,
        scalar: Scalar,
        mut operands: Vec<(Expr, Ty)>,
        bound: impl Fn(&[Bound]) -> Bound,
        text: impl FnOnce(&[String]) -> String,
    ) -> Expr {
        let bounds = |operands: &[(Expr, Ty)]| operands.iter().map(|(expr, _)| expr.bound).collect::<Vec<_>>();
        if !bound(&bounds(&operands)).fits(scalar) {
            operands = operands.into_iter().map(|(expr, ty)| (self.at_rest(expr, &ty), ty)).collect();
        }
        let bound = bound(&bounds(&operands));
        debug_assert!(bound.fits(scalar), "{bound:?} is not exact");
        let texts: Vec<String> = operands.into_iter().map(|(expr, _)| expr.text).collect();
        Expr::bounded(text(&texts), bound)
    }

    pub(crate) fn float(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let ty = Ty::of(n, scalar);
        let one = |x: f64| float_literal(x, scalar);
        let (resting, _) = scalar.resting();
        match self.random.below(30) {
            0..5 => {
                let (a, b) = self.operands(n, scalar, depth);
                let op = self.random.pick(&["+", "-"]);
                let operands = vec![(a, ty.clone()), (b, ty)];
                self.exact(scalar, operands, |b| sum(b[0], b[1]), |t| format!("({} {op} {})", t[0], t[1]))
            }
            5..8 => {
                let (a, b) = self.operands(n, scalar, depth);
                let operands = vec![(a, ty.clone()), (b, ty)];
                self.exact(scalar, operands, |b| product(b[0], b[1]), |t| format!("({} * {})", t[0], t[1]))
            }
            8 => {
                let a = self.changing(n, scalar, depth - 1);
                let scalar_ty = Ty::Scalar(scalar);
                let b = self.numeric(1, scalar, depth - 1);
                let left = self.random.chance(50);
                let operands = vec![(a, ty), (b, scalar_ty)];
                self.exact(
                    scalar,
                    operands,
                    |b| product(b[0], b[1]),
                    |t| match left {
                        true => format!("({} * {})", t[1], t[0]),
                        false => format!("({} * {})", t[0], t[1]),
                    },
                )
            }
            9 => {
                let a = self.changing(n, scalar, depth - 1);
                Expr::bounded(format!("(-{})", a.text), a.bound)
            }
            10 => {
                let a = self.changing(n, scalar, depth - 1);
                Expr::bounded(format!("abs({})", a.text), a.bound)
            }
            11 => {
                let (a, b) = self.operands(n, scalar, depth);
                let f = self.random.pick(&["min", "max"]);
                Expr::bounded(format!("{f}({}, {})", a.text, b.text), a.bound.either(b.bound))
            }
            12 => {
                let a = self.changing(n, scalar, depth - 1);
                let f = self.random.pick(&["floor", "ceil", "trunc", "round"]);
                Expr::bounded(format!("{f}({})", a.text), Bound { most: a.bound.most.ceil(), fraction: 0 })
            }
            13 => {
                let a = self.changing(n, scalar, depth - 1);
                match self.random.below(3) {
                    0 => Expr::bounded(format!("sign({})", a.text), Bound { most: 1.0, fraction: 0 }),
                    1 => Expr::bounded(format!("saturate({})", a.text), Bound { most: 1.0, ..a.bound }),
                    _ => Expr::bounded(format!("fract({})", a.text), Bound { most: 1.0, ..a.bound }),
                }
            }
            14 => {
                let (a, b) = self.operands(n, scalar, depth);
                Expr::bounded(format!("step({}, {})", a.text, b.text), Bound { most: 1.0, fraction: 0 })
            }
            15 => {
                let a = self.changing(n, scalar, depth - 1);
                let low = self.random.between(-6, 0) as f64;
                let high = self.random.between(0, 6) as f64;
                let name = self.types.name(&ty);
                let text = format!("clamp({}, {name}({}), {name}({}))", a.text, one(low), one(high));
                Expr::bounded(text, Bound { most: 6.0, ..a.bound })
            }
            16..18 => {
                let (a, b) = self.operands(n, scalar, depth);
                let c = self.numeric(n, scalar, depth - 1);
                let written = self.random.chance(50);
                let operands = vec![(a, ty.clone()), (b, ty.clone()), (c, ty)];
                self.exact(
                    scalar,
                    operands,
                    |b| sum(product(b[0], b[1]), b[2]),
                    |t| match written {
                        true => format!("(({} * {}) + {})", t[0], t[1], t[2]),
                        false => format!("fma({}, {}, {})", t[0], t[1], t[2]),
                    },
                )
            }
            18 => {
                // By a power of two, which is exact, and so is the remainder of it.
                let a = self.changing(n, scalar, depth - 1);
                let power = 1 + self.random.below(2) as u32;
                let by = one(f64::from(1 << power));
                match self.random.chance(50) {
                    true => self.exact(
                        scalar,
                        vec![(a, ty)],
                        |b| Bound { most: b[0].most, fraction: b[0].fraction + power },
                        |t| format!("({} / {by})", t[0]),
                    ),
                    false => {
                        let bound = Bound { most: f64::from(1 << power), ..a.bound };
                        Expr::bounded(format!("({} % {by})", a.text), bound)
                    }
                }
            }
            19 => self.float_of_other(n, scalar, depth),
            20 if n == 1 => {
                let m = 2 + self.random.below(3);
                let (a, b) = self.operands(m, scalar, depth);
                let vector = Ty::of(m, scalar);
                let operands = vec![(a, vector.clone()), (b, vector)];
                self.exact(scalar, operands, |b| products(m, b[0], b[1]), |t| format!("dot({}, {})", t[0], t[1]))
            }
            20 if n == 3 => {
                let (a, b) = self.operands(3, scalar, depth);
                let operands = vec![(a, ty.clone()), (b, ty)];
                self.exact(scalar, operands, |b| products(2, b[0], b[1]), |t| format!("cross({}, {})", t[0], t[1]))
            }
            21 if n > 1 && scalar != Scalar::F64 => {
                let m = 2 + self.random.below(3);
                let left = self.random.chance(50);
                let (columns, rows) = if left { (m, n) } else { (n, m) };
                let matrix = self.matrix(columns, rows, scalar, depth - 1);
                let vector = self.changing(m, scalar, depth - 1);
                let operands = vec![(matrix, Ty::Matrix(columns, rows, scalar)), (vector, Ty::of(m, scalar))];
                self.exact(
                    scalar,
                    operands,
                    |b| products(m, b[0], b[1]),
                    |t| match left {
                        true => format!("({} * {})", t[0], t[1]),
                        false => format!("({} * {})", t[1], t[0]),
                    },
                )
            }
            21 if n == 1 && scalar != Scalar::F64 => {
                // Of -1, 0 and 1, so that any way to compute it is exact.
                let m = 2 + self.random.below(3);
                let columns: Vec<String> =
                    (0..m).map(|_| format!("sign({})", self.changing(m, scalar, depth - 1).text)).collect();
                let name = self.types.name(&Ty::Matrix(m, m, scalar));
                let text = format!("determinant({name}({}))", columns.join(", "));
                Expr::bounded(text, Bound { most: 24.0, fraction: 0 })
            }
            22 => {
                let a = self.changing(n, scalar, depth - 1);
                let a = self.at_rest(a, &ty);
                match self.random.below(4) {
                    0 => Expr::bounded(format!("modf({}).fract", a.text), Bound { most: 1.0, ..a.bound }),
                    1 => Expr::bounded(format!("modf({}).whole", a.text), Bound { fraction: 0, ..a.bound }),
                    // Half to one: the significand of a number at rest, which has few bits.
                    2 if scalar == Scalar::F32 => {
                        Expr::bounded(format!("frexp({}).fract", a.text), Bound { most: 1.0, fraction: 8 })
                    }
                    _ if scalar == Scalar::F32 => {
                        let by = self.random.between(0, 3);
                        let counts = self.types.name(&Ty::of(n, Scalar::I32));
                        let most = a.bound.most * f64::from(1 << by);
                        let shifted = format!("ldexp({}, {counts}({by}i))", a.text);
                        Expr::bounded(shifted, Bound { most, ..a.bound })
                    }
                    _ => a,
                }
            }
            23 => {
                let (a, b) = self.operands(n, scalar, depth);
                let weight = self.random.pick(&[0.0, 0.5, 1.0, 0.25]);
                let operands = vec![(a, ty.clone()), (b, ty)];
                let bound = |b: &[Bound]| Bound { fraction: sum(b[0], b[1]).fraction + 2, ..sum(b[0], b[1]) };
                self.exact(scalar, operands, bound, |t| format!("mix({}, {}, {})", t[0], t[1], one(weight)))
            }
            24 if n > 1 => {
                let (a, b) = (self.changing(n, scalar, depth - 1), self.changing(n, scalar, depth - 1));
                let normal = Expr::bounded(format!("sign({})", b.text), Bound { most: 1.0, fraction: 0 });
                if self.random.chance(50) {
                    let c = self.changing(n, scalar, depth - 1);
                    let operands = vec![(a.clone(), ty.clone()), (c, ty)];
                    let normal = normal.text;
                    let text = |t: &[String]| format!("faceForward({}, {normal}, {})", t[0], t[1]);
                    let both = self.exact(scalar, operands, |b| products(n, b[0], b[1]), text);
                    return Expr { bound: both.bound.either(a.bound), ..both };
                }
                let bound = |b: &[Bound]| Bound { most: b[0].most * (1.0 + 2.0 * n as f64), ..b[0] };
                let normal = normal.text;
                self.exact(scalar, vec![(a, ty)], bound, |t| format!("reflect({}, {normal})", t[0]))
            }
            25 if scalar == Scalar::F32 => {
                let a = self.changing(n, scalar, depth - 1);
                let a = self.at_rest(a, &ty);
                if n == 2 && self.random.chance(50) {
                    return Expr::bounded(format!("unpack2x16float(pack2x16float({}))", a.text), a.bound);
                }
                Expr::bounded(format!("quantizeToF16({})", a.text), a.bound)
            }
            26..28 if scalar == Scalar::F32 => self.masked(n, depth),
            _ => {
                let x = self.changing(n, scalar, depth - 1);
                let name = self.types.name(&ty);
                let operands = vec![(x, ty)];
                let by = one(resting / 8.0);
                let bound = |b: &[Bound]| Bound { most: b[0].most + resting / 8.0, ..b[0] };
                self.exact(scalar, operands, bound, |t| format!("({} + {name}({by}))", t[0]))
            }
        }
    }

    /// A float converted from a small integer, a bool or another float.
    fn float_of_other(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let name = self.types.name(&Ty::of(n, scalar));
        let (most, fraction) = scalar.resting();
        match self.random.below(4) {
            0 => {
                let a = self.changing(n, Scalar::Bool, depth - 1).text;
                Expr::bounded(format!("{name}({a})"), Bound { most: 1.0, fraction: 0 })
            }
            1 => {
                let a = self.changing(n, Scalar::U32, depth - 1).text;
                let small = self.types.name(&Ty::of(n, Scalar::U32));
                let text = format!("{name}({a} % {small}({}u))", most as u32 + 1);
                Expr::bounded(text, Bound { most, fraction: 0 })
            }
            2 => {
                let a = self.changing(n, Scalar::I32, depth - 1).text;
                let small = self.types.name(&Ty::of(n, Scalar::I32));
                let m = most as i32;
                let text = format!("{name}(clamp({a}, {small}({}i), {small}({m}i)))", -m);
                Expr::bounded(text, Bound { most, fraction: 0 })
            }
            _ => {
                let mut from = vec![Scalar::F32];
                if self.settings.f16 {
                    from.push(Scalar::F16);
                }
                if self.settings.f64 {
                    from.push(Scalar::F64);
                }
                let from = self.random.pick(&from);
                let a = self.changing(n, from, depth - 1);
                let a = self.at_rest(a, &Ty::of(n, from));
                if a.bound.fits(scalar) {
                    return Expr::bounded(format!("{name}({})", a.text), a.bound);
                }
                let steps = float_literal(f64::from(1 << fraction), from);
                Expr::bounded(format!("{name}(floor({}) / {steps})", a.text), a.bound)
            }
        }
    }

    /// A matrix.
    pub(crate) fn matrix(&mut self, columns: usize, rows: usize, scalar: Scalar, depth: usize) -> Expr {
        let ty = Ty::Matrix(columns, rows, scalar);
        let name = self.types.name(&ty);
        let free = depth > 0 && self.spend((columns * rows) as f64);
        if !free || self.random.chance(35) {
            if let Some(read) = self.read(&ty, depth) {
                return read;
            }
            if !free {
                let parts: Vec<Expr> = (0..columns * rows).map(|_| self.changing_leaf(1, scalar)).collect();
                return Expr::new(format!("{name}({})", join(&parts)), scalar);
            }
        }
        match self.random.below(6) {
            0 => {
                let m = 2 + self.random.below(3);
                let a = self.matrix(m, rows, scalar, depth - 1);
                let b = self.matrix(columns, m, scalar, depth - 1);
                let operands = vec![(a, Ty::Matrix(m, rows, scalar)), (b, Ty::Matrix(columns, m, scalar))];
                self.exact(scalar, operands, |b| products(m, b[0], b[1]), |t| format!("({} * {})", t[0], t[1]))
            }
            1 => {
                let a = self.matrix(columns, rows, scalar, depth - 1);
                let b = self.changing(1, scalar, depth - 1);
                let operands = vec![(a, ty), (b, Ty::Scalar(scalar))];
                let left = self.random.chance(50);
                self.exact(
                    scalar,
                    operands,
                    |b| product(b[0], b[1]),
                    |t| match left {
                        true => format!("({} * {})", t[1], t[0]),
                        false => format!("({} * {})", t[0], t[1]),
                    },
                )
            }
            2 => {
                let a = self.matrix(columns, rows, scalar, depth - 1);
                let b = self.matrix(columns, rows, scalar, depth - 1);
                let op = self.random.pick(&["+", "-"]);
                let operands = vec![(a, ty.clone()), (b, ty)];
                self.exact(scalar, operands, |b| sum(b[0], b[1]), |t| format!("({} {op} {})", t[0], t[1]))
            }
            3 => {
                let a = self.matrix(rows, columns, scalar, depth - 1);
                let name = self.turning(columns, rows, scalar);
                Expr { text: format!("{name}({})", a.text), ..a }
            }
            _ => {
                let parts: Vec<Expr> = (0..columns).map(|_| self.changing(rows, scalar, depth - 1)).collect();
                let zero = Bound { most: 0.0, fraction: 0 };
                let bound = parts.iter().fold(zero, |bound, part| bound.either(part.bound));
                Expr::bounded(format!("{name}({})", join(&parts)), bound)
            }
        }
    }

    /// A helper that transposes to a matrix of so many columns and rows, and takes the result apart: Mesa 22.3 refuses,
    /// or crashes on, products in which several transposed matrices meet.
    fn turning(&mut self, columns: usize, rows: usize, scalar: Scalar) -> String {
        let name = format!("turned_{}_{columns}x{rows}", scalar.name());
        let to = self.types.name(&Ty::Matrix(columns, rows, scalar));
        let from = self.types.name(&Ty::Matrix(rows, columns, scalar));
        let parts: Vec<String> = (0..columns).map(|i| format!("x[{i}]")).collect();
        let body = format!("    let x = transpose(y);\n    return {to}({});", parts.join(", "));
        self.helpers.insert(name.clone(), format!("fn {name}(y: {from}) -> {to} {{\n{body}\n}}\n"));
        name
    }
}
