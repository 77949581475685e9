//! Attention in float64, naively, and how far a backend may be off. The gradient's is in `gradient_oracle.rs`, and reads scores from here.
//!
//! Bounds, u being the roundoff of sums, w that of the operands' dtype (or of what [`Precision`] lets products round their factors to) and
//! h(n) the chain of a sum of n terms (2 sqrt n, at least 8):
//!
//! | number | error |
//! |---|---|
//! | score s | `off = scale sum abs(q k) (u h(size) + 2 r) + 4 u abs(s)`, r being what factors of f32 products may lose |
//! | exponential | relative, `t = e^off - 1 + u (16 + 6 abs(s - max) + 2 abs(max))` |
//! | their sum | relative, `T = sum p t + u h(keys)` |
//! | lse | `T (1 + T) + u (16 + 8 abs(log sum) + 2 abs(max) + 2 abs(lse))` |
//! | out | `sum p abs(v) ((t + T) / (1 - T) + u h(keys) + 4 w)`, and what is lost where a probability is subnormal |

use super::{Attention, AttentionDims};
use crate::oracle::{Expected, HostTensor};
use crate::{DType, Precision, Scalar};

/// Operands in float64, and what of a pair is the same in both directions.
pub(super) struct Pairs<'a> {
    op: &'a Attention,
    pub(super) dims: AttentionDims,
    pub(super) q: Vec<f64>,
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    mask: Option<&'a [Scalar]>,
    /// Seed and stream.
    key: Option<[u32; 4]>,
    pub(super) limits: Limits,
}

/// Roundoffs of an attention.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Of sums.
    pub(super) u: f64,
    /// Of what is multiplied: of probabilities, and of their gradients.
    pub(super) w: f64,
    /// Of the factors of a product of operands.
    pub(super) r: f64,
    /// The absolute error of a number below the smallest that is normal.
    pub(super) tiny: f64,
    /// The largest finite number of what is multiplied.
    pub(super) largest: f64,
}

impl Limits {
    fn of(dtype: DType, precision: Precision) -> Limits {
        let u = dtype.compute().unit_roundoff();
        let r = match (dtype, precision) {
            (DType::F32, Precision::Low) => DType::BF16.unit_roundoff(),
            (DType::F32, Precision::Medium) => DType::F16.unit_roundoff(),
            (DType::F32, Precision::High) => (-19f64).exp2(),
            _ => 0.0,
        };
        // An operand may be rounded to f16, whose range is smaller.
        let narrow = if dtype == DType::F32 && precision == Precision::Low { DType::F16 } else { dtype };
        let tiny = dtype.compute().min_normal() + narrow.unit_roundoff() * narrow.min_normal();
        Limits { u, w: dtype.unit_roundoff().max(r), r, tiny, largest: dtype.max_finite() }
    }

    /// Of a sum of n terms.
    pub(super) fn chain(self, n: u64) -> f64 {
        self.u * crate::oracle::chain(n as usize)
    }
}

/// A sum of products and the sum of their magnitudes.
#[derive(Clone, Copy, Default)]
pub(super) struct Dot {
    pub(super) value: f64,
    pub(super) magnitude: f64,
}

/// The sum of products of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> Dot {
    let mut sum = Dot::default();
    for (a, b) in a.iter().zip(b) {
        sum.value += a * b;
        sum.magnitude += (a * b).abs();
    }
    sum
}

impl<'a> Pairs<'a> {
    /// Of what the operation reads: q, k, v, and mask and key where there are.
    pub(super) fn new(op: &'a Attention, before: &'a [HostTensor]) -> Pairs<'a> {
        let floats = |number: usize| before[number].values.iter().map(|x: &Scalar| x.as_f64()).collect::<Vec<f64>>();
        let mask = op.mask.map(|_| before[3].values.as_slice());
        let words = 3 + usize::from(op.mask.is_some());
        let key = op.dropout.map(|_| {
            let word = |number: usize, at: usize| before[words + number].values[at].as_i64() as u32;
            [word(0, 0), word(1, 0), word(0, 1), word(1, 1)]
        });
        let limits = Limits::of(op.q.dtype, op.precision);
        Pairs { op, dims: op.dims(), q: floats(0), k: floats(1), v: floats(2), mask, key, limits }
    }

    /// How many operands it has.
    pub(super) fn operands(&self) -> usize {
        3 + usize::from(self.mask.is_some()) + 2 * usize::from(self.key.is_some())
    }

    /// The vector of `length` numbers of row i, head h of a tensor [batch, rows, heads, length].
    pub(super) fn vector(of: &[f64], [rows, heads, length]: [u64; 3], [b, i, h]: [u64; 3]) -> &[f64] {
        let at = ((b * rows + i) * heads + h) * length;
        &of[at as usize..(at + length) as usize]
    }

    pub(super) fn query(&self, b: u64, i: u64, h: u64) -> &[f64] {
        Self::vector(&self.q, [self.dims.queries, self.dims.heads, self.dims.size], [b, i, h])
    }

    /// Of the group of head h.
    pub(super) fn key_of(&self, b: u64, j: u64, h: u64) -> &[f64] {
        let group = h / self.dims.shared();
        Self::vector(&self.k, [self.dims.keys, self.dims.groups, self.dims.size], [b, j, group])
    }

    pub(super) fn value_of(&self, b: u64, j: u64, h: u64) -> &[f64] {
        let group = h / self.dims.shared();
        Self::vector(&self.v, [self.dims.keys, self.dims.groups, self.dims.width], [b, j, group])
    }

    /// The number of a pair among all.
    fn pair(&self, [b, h, i, j]: [u64; 4]) -> u64 {
        let AttentionDims { heads, queries, keys, .. } = self.dims;
        ((b * heads + h) * queries + i) * keys + j
    }

    /// Whether query i of head h sees key j.
    pub(super) fn sees(&self, at: [u64; 4]) -> bool {
        let [_, _, i, j] = at;
        let is_shown = self.mask.is_none_or(|mask| mask[self.pair(at) as usize].as_i64() != 0);
        is_shown && (!self.op.causal || j < self.dims.before(i))
    }

    /// What dropout multiplies the probability of a pair by.
    pub(super) fn kept(&self, at: [u64; 4]) -> f64 {
        let (Some(dropout), Some([seed_low, seed_high, stream_low, stream_high])) = (self.op.dropout, self.key) else {
            return 1.0;
        };
        let number = self.pair(at);
        let (block, lane) = (number / 4, (number % 4) as usize);
        let counter = [block as u32, (block >> 32) as u32, stream_low, stream_high];
        let words = crate::ops::philox4x32_10(counter, [seed_low, seed_high]);
        if words[lane] >> 8 >= dropout.threshold() { dropout.factor() } else { 0.0 }
    }

    /// The score of a pair and its error.
    pub(super) fn score(&self, [b, h, i, j]: [u64; 4]) -> [f64; 2] {
        let Limits { u, r, .. } = self.limits;
        let product = dot(self.query(b, i, h), self.key_of(b, j, h));
        let score = self.op.scale * product.value;
        let off = self.op.scale.abs() * product.magnitude * (self.limits.chain(self.dims.size) + 2.0 * r);
        // What may overflow on the way may come to anything.
        let is_open = product.value.is_finite() && product.magnitude > self.op.q.dtype.compute().max_finite();
        [score, if is_open { f64::INFINITY } else { off + 4.0 * u * score.abs() }]
    }
}

/// A number give or take `error`; open where that is unknown.
pub(super) fn within(value: f64, error: f64, dtype: DType) -> Expected {
    let error = if error.is_nan() { f64::INFINITY } else { error };
    Expected::near(value, error).round_to(dtype)
}

/// out and lse.
pub(super) fn forward(op: &Attention, before: &[HostTensor]) -> Vec<Vec<Expected>> {
    let pairs = Pairs::new(op, before);
    let AttentionDims { batch, queries, keys, heads, width, .. } = pairs.dims;
    let nothing = Expected::within(Scalar::F(0.0), f64::MIN_POSITIVE);
    let mut out = vec![nothing; (batch * queries * heads * width) as usize];
    let mut all_lse = Vec::new();
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..queries {
                let (lse, row) = row(&pairs, [b, h, i]);
                all_lse.push(lse);
                let at = ((b * queries + i) * heads + h) * width;
                if keys > 0 {
                    out[at as usize..(at + width) as usize].copy_from_slice(&row);
                }
            }
        }
    }
    vec![out, all_lse]
}

/// What one query gives: its lse and its out.
fn row(pairs: &Pairs<'_>, [b, h, i]: [u64; 3]) -> (Expected, Vec<Expected>) {
    let (dims, limits) = (pairs.dims, pairs.limits);
    let Limits { u, w, tiny, .. } = limits;
    let (dtype, compute) = (pairs.op.q.dtype, pairs.op.q.dtype.compute());
    let seen: Vec<u64> = (0..dims.keys).filter(|&j| pairs.sees([b, h, i, j])).collect();
    let scores: Vec<[f64; 2]> = seen.iter().map(|&j| pairs.score([b, h, i, j])).collect();
    let max = scores.iter().fold(f64::NEG_INFINITY, |max, &[s, _]| if s.is_nan() || s > max { s } else { max });
    if max.is_nan() || max == f64::INFINITY {
        let nan = Expected::exact(Scalar::F(f64::NAN));
        // Of an infinite score the logarithm is infinite too, or what comes of infinity less infinity.
        let lse = if max.is_nan() { nan } else { Expected::exact(Scalar::F(max)).or_nan() };
        return (lse, vec![nan; dims.width as usize]);
    }
    if max == f64::NEG_INFINITY {
        let nothing = Expected::within(Scalar::F(0.0), f64::MIN_POSITIVE);
        return (Expected::exact(Scalar::F(f64::NEG_INFINITY)), vec![nothing; dims.width as usize]);
    }
    let sum: f64 = scores.iter().map(|[s, _]| (s - max).exp()).sum();
    let lse = max + sum.ln();
    // Of each key that is seen: probability, and its relative error before it is divided by the sum.
    let shares: Vec<[f64; 2]> = scores
        .iter()
        .map(|&[s, off]| {
            let share = (s - lse).exp();
            let relative = off.exp_m1() + u * (16.0 + 6.0 * (s - max).abs() + 2.0 * max.abs());
            if share == 0.0 { [0.0, 0.0] } else { [share, relative] }
        })
        .collect();
    let whole = shares.iter().map(|[p, t]| p * t).sum::<f64>() + limits.chain(dims.keys);
    let off_lse = if whole < 0.5 { whole * (1.0 + whole) } else { f64::INFINITY };
    let off_lse = off_lse + u * (16.0 + 8.0 * sum.ln().abs() + 2.0 * max.abs() + 2.0 * lse.abs());
    let out = (0..dims.width as usize).map(|c| {
        let (mut value, mut error, mut is_open, mut is_infinite) = (0.0, 0.0, whole >= 0.5, false);
        for (&j, &[share, relative]) in seen.iter().zip(&shares) {
            let v = pairs.value_of(b, j, h)[c];
            let kept = pairs.kept([b, h, i, j]);
            if !v.is_finite() {
                // Nothing times infinity: where the probability is nothing in a backend's numbers, or is dropped.
                is_open |= share * kept < 1e4 * tiny;
                is_infinite |= v.is_infinite();
                value += if kept == 0.0 { 0.0 } else { v };
                continue;
            }
            let term = share * kept * v;
            value += term;
            let relative = (relative + whole) / (1.0 - whole) + limits.chain(dims.keys) + 4.0 * w + 4.0 * u;
            error += term.abs() * relative + 2.0 * tiny * (kept * v).abs();
        }
        let error = if is_open { f64::INFINITY } else { error + f64::MIN_POSITIVE };
        if is_open {
            return Expected::within(Scalar::F(value), f64::INFINITY).or_nan();
        }
        let expected = within(value, error, dtype);
        // Kernels that know values by their products alone make NaN of infinity times nothing.
        if is_infinite { expected.or_nan() } else { expected }
    });
    let out = out.collect();
    (within(lse, off_lse, compute), out)
}
