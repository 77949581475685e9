//! `transpose`, `determinant`, `inverse`, and the outer product; matrices lie column by column.
//!
//! The decision to know: determinants and inverses of half matrices are computed in f32.

use naga::VectorSize;

use super::float::Float;
use crate::error::{Error, Result};
use crate::ir::{Builder, Operand, Round, Ty, UnaryOp};

pub(super) fn transpose(columns: VectorSize, rows: VectorSize, m: &[Operand]) -> Result<Vec<Operand>> {
    let (columns, rows) = (columns as usize, rows as usize);
    if m.len() != columns * rows {
        return Err(Error::invalid("a matrix of the wrong number of scalars is transposed"));
    }
    Ok((0..rows).flat_map(|r| (0..columns).map(move |c| m[c * rows + r])).collect())
}

/// Column i is `x * y[i]`.
pub(super) fn outer(b: &mut Builder, ty: Ty, x: &[Operand], y: &[Operand]) -> Vec<Operand> {
    let f = &mut Float::new(b, ty);
    let mut leaves = Vec::with_capacity(x.len() * y.len());
    for &y in y {
        for &x in x {
            leaves.push(f.mul(x, y));
        }
    }
    leaves
}

/// The elements of a square matrix.
struct Square<'a> {
    n: usize,
    m: &'a [Operand],
}

impl Square<'_> {
    fn at(&self, row: usize, column: usize) -> Operand {
        self.m[column * self.n + row]
    }
}

/// Runs `f` on a square matrix of f32 or f64.
fn on_square(
    b: &mut Builder,
    ty: Ty,
    m: &[Operand],
    f: impl FnOnce(&mut Float, Square) -> Result<Vec<Operand>>,
) -> Result<Vec<Operand>> {
    let n = match m.len() {
        4 => 2,
        9 => 3,
        16 => 4,
        other => return Err(Error::invalid(format!("a matrix of {other} scalars is not square"))),
    };
    if ty != Ty::F16 {
        return f(&mut Float::new(b, ty), Square { n, m });
    }
    let wide: Vec<Operand> = m.iter().map(|&x| b.cvt(Ty::F32, Ty::F16, Round::None, x)).collect();
    let result = f(&mut Float::new(b, Ty::F32), Square { n, m: &wide })?;
    Ok(result.into_iter().map(|x| b.cvt(Ty::F16, Ty::F32, Round::Rn, x)).collect())
}

/// `a b - c d`
fn minor(f: &mut Float, a: Operand, b: Operand, c: Operand, d: Operand) -> Operand {
    let minus = f.mul(c, d);
    let minus = f.neg(minus);
    f.fma(a, b, minus)
}

/// `±(a b - c d + e g)`
fn alternating(f: &mut Float, pairs: [(Operand, Operand); 3], negative: bool) -> Operand {
    let [(a, b), (c, d), (e, g)] = pairs;
    let first = minor(f, a, b, c, d);
    let sum = f.fma(e, g, first);
    if negative { f.neg(sum) } else { sum }
}

/// The pairs i < j of 0..4, in the order in which their minors are kept.
const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// Minors of all pairs of columns in two rows of a 4x4 matrix.
fn minors(f: &mut Float, m: &Square, row: usize) -> Vec<Operand> {
    PAIRS.iter().map(|&(i, j)| minor(f, m.at(row, i), m.at(row + 1, j), m.at(row, j), m.at(row + 1, i))).collect()
}

pub(super) fn determinant(b: &mut Builder, ty: Ty, m: &[Operand]) -> Result<Vec<Operand>> {
    on_square(b, ty, m, |f, m| {
        Ok(vec![match m.n {
            2 => minor(f, m.at(0, 0), m.at(1, 1), m.at(0, 1), m.at(1, 0)),
            3 => {
                let cofactors = [adjugate3(f, &m, 0, 0), adjugate3(f, &m, 1, 0), adjugate3(f, &m, 2, 0)];
                expansion3(f, &m, &cofactors)
            }
            _ => {
                let (upper, lower) = (minors(f, &m, 0), minors(f, &m, 2));
                determinant4(f, &upper, &lower)
            }
        }])
    })
}

/// The determinant by the first row, whose cofactors are given.
fn expansion3(f: &mut Float, m: &Square, cofactors: &[Operand]) -> Operand {
    let sum = f.mul(m.at(0, 0), cofactors[0]);
    let sum = f.fma(m.at(0, 1), cofactors[1], sum);
    f.fma(m.at(0, 2), cofactors[2], sum)
}

/// Row i, column j of the adjugate of a 3x3 matrix; the cyclic order of indices carries the signs.
fn adjugate3(f: &mut Float, m: &Square, i: usize, j: usize) -> Operand {
    let (r, s, c, d) = ((j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3);
    minor(f, m.at(r, c), m.at(s, d), m.at(r, d), m.at(s, c))
}

/// The determinant by complementary minors (Laplace's expansion by two rows).
fn determinant4(f: &mut Float, upper: &[Operand], lower: &[Operand]) -> Operand {
    let sum = f.mul(upper[0], lower[5]);
    let sum = f.fma(upper[2], lower[3], sum);
    let sum = f.fma(upper[3], lower[2], sum);
    let sum = f.fma(upper[5], lower[0], sum);
    let sum = f.nfma(upper[1], lower[4], sum);
    f.nfma(upper[4], lower[1], sum)
}

pub(super) fn inverse(b: &mut Builder, ty: Ty, m: &[Operand]) -> Result<Vec<Operand>> {
    on_square(b, ty, m, |f, m| {
        // The adjugate, column by column.
        let (adjugate, determinant) = match m.n {
            2 => {
                let (minus_01, minus_10) = (f.neg(m.at(0, 1)), f.neg(m.at(1, 0)));
                let determinant = minor(f, m.at(0, 0), m.at(1, 1), m.at(0, 1), m.at(1, 0));
                (vec![m.at(1, 1), minus_10, minus_01, m.at(0, 0)], determinant)
            }
            3 => {
                let mut adjugate = Vec::with_capacity(9);
                for j in 0..3 {
                    for i in 0..3 {
                        adjugate.push(adjugate3(f, &m, i, j));
                    }
                }
                let determinant = expansion3(f, &m, &adjugate[..3]);
                (adjugate, determinant)
            }
            _ => {
                let (upper, lower) = (minors(f, &m, 0), minors(f, &m, 2));
                let mut adjugate = Vec::with_capacity(16);
                for j in 0..4 {
                    for i in 0..4 {
                        adjugate.push(adjugate4(f, &m, if j < 2 { &lower } else { &upper }, i, j));
                    }
                }
                (adjugate, determinant4(f, &upper, &lower))
            }
        };
        let scale = f.unary(UnaryOp::Rcp, determinant);
        Ok(adjugate.into_iter().map(|x| f.mul(x, scale)).collect())
    })
}

/// Row i, column j of the adjugate of a 4x4 matrix, by the other row of row j's half and the minors of the other half.
fn adjugate4(f: &mut Float, m: &Square, minors: &[Operand], i: usize, j: usize) -> Operand {
    let row = if j < 2 { 1 - j } else { 5 - j };
    let mut pairs = [(Operand::u32(0), Operand::u32(0)); 3];
    let columns = (0..4).filter(|&c| c != i);
    for (pair, column) in pairs.iter_mut().zip(columns) {
        // The minor of the two columns that are neither.
        let rest = PAIRS.iter().zip(minors).find(|((p, q), _)| ![i, column].contains(p) && ![i, column].contains(q));
        *pair = (m.at(row, column), rest.map_or(Operand::u32(0), |(_, &minor)| minor));
    }
    alternating(f, pairs, (i + j) % 2 == 1)
}
