//! The gradient of attention in float64, naively, and how far a backend may be off.
//!
//! Bounds, in the words of `oracle.rs`, of a pair with probability `p = exp(s - lse)`, kept or dropped by the factor m:
//!
//! | number | error |
//! |---|---|
//! | p | relative, `t = e^off - 1 + u (16 + 6 abs(s) + 6 abs(lse)) + 3 w` |
//! | delta = sum dout out | `D = u h(width) sum abs(dout out)` |
//! | dP = sum dout v | `E = (u h(width) + 2 r) sum abs(dout v)` |
//! | dS = p (m dP - delta + dlse) | `p (t abs(m dP - delta + dlse) + m E + D + 4 u (m abs(dP) + abs(delta) + abs(dlse)))`, then w |
//! | dq = scale sum dS k | `scale (sum abs(k) off dS + (u h(keys) + 2 r) sum abs(dS k))`; dk alike, over queries and heads |
//! | dv = sum m p dout | `sum abs(m p dout) (t + 4 w + u h + 2 r)` |

use super::AttentionGradient;
use super::oracle::{Dot, Limits, Pairs, dot, within};
use crate::oracle::{Expected, HostTensor};
use crate::{DType, Scalar};

/// A sum, its error so far and the sum of magnitudes.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    error: f64,
    magnitude: f64,
    /// Whether it may be anything.
    is_open: bool,
}

impl Sum {
    /// Adds `a b`, where a is off by `error`. Zero times a value that is not finite may be zero or NaN; so may a product of almost zero.
    fn add(&mut self, a: f64, error: f64, b: f64, nearly_nothing: f64) {
        if !b.is_finite() && a.abs() <= nearly_nothing {
            self.is_open = true;
            return;
        }
        self.value += a * b;
        self.error += error * b.abs();
        self.magnitude += (a * b).abs();
    }
}

/// dq, dk and dv.
pub(super) fn backward(op: &AttentionGradient, before: &[HostTensor]) -> Vec<Vec<Expected>> {
    of_pairs(op, before, |_, _| true)
}

/// The same of the last `rows` queries and the last `rows` keys alone.
pub(super) fn edges(op: &AttentionGradient, before: &[HostTensor], rows: u64) -> Vec<Vec<Expected>> {
    let dims = op.forward.dims();
    let [queries, keys] = [dims.queries, dims.keys].map(|extent| extent.saturating_sub(rows));
    let found = of_pairs(op, before, |i, j| i >= queries || j >= keys);
    let lengths = [dims.heads * dims.size, dims.groups * dims.size, dims.groups * dims.width];
    let firsts = [queries, keys, keys].into_iter().zip(lengths).map(|(first, length)| (first * length) as usize);
    found.into_iter().zip(firsts).map(|(mut all, first)| all.split_off(first)).collect()
}

/// dq, dk and dv of the pairs of query and key that `is_wanted` names.
fn of_pairs(op: &AttentionGradient, before: &[HostTensor], is_wanted: impl Fn(u64, u64) -> bool) -> Vec<Vec<Expected>> {
    let pairs = Pairs::new(&op.forward, before);
    let (dims, limits) = (pairs.dims, pairs.limits);
    let Limits { u, w, r, tiny, largest } = limits;
    let floats = |number: usize| before[number].values.iter().map(|x: &Scalar| x.as_f64()).collect::<Vec<f64>>();
    let first = pairs.operands();
    let (out, lse, dout) = (floats(first), floats(first + 1), floats(first + 2));
    let dlse = op.dlse.map(|_| floats(first + 3));
    let (dtype, scale) = (op.forward.q.dtype, op.forward.scale);
    let rows = [dims.queries, dims.heads, dims.width];
    let (mut dq, mut dk, mut dv) =
        (vec![Sum::default(); pairs.q.len()], vec![Sum::default(); pairs.k.len()], vec![Sum::default(); pairs.v.len()]);
    for (b, h, i) in
        (0..dims.batch).flat_map(|b| (0..dims.heads).flat_map(move |h| (0..dims.queries).map(move |i| (b, h, i))))
    {
        let dout = Pairs::vector(&dout, rows, [b, i, h]);
        let Dot { value: delta, magnitude } = dot(dout, Pairs::vector(&out, rows, [b, i, h]));
        let off_delta = limits.chain(dims.width) * magnitude;
        let row = ((b * dims.heads + h) * dims.queries + i) as usize;
        let (lse, dlse) = (lse[row], dlse.as_ref().map_or(0.0, |dlse| dlse[row]));
        for j in (0..dims.keys).filter(|&j| is_wanted(i, j) && pairs.sees([b, h, i, j])) {
            let [s, off] = pairs.score([b, h, i, j]);
            // A query whose scores are all -inf has seen nothing either.
            let p = if lse == f64::NEG_INFINITY { 0.0 } else { (s - lse).exp() };
            let t = off.exp_m1() + u * (16.0 + 6.0 * s.abs() + 6.0 * lse.abs()) + 3.0 * w;
            let t = if p == 0.0 { 0.0 } else { t };
            let kept = pairs.kept([b, h, i, j]);
            let (query, key, value) = (pairs.query(b, i, h), pairs.key_of(b, j, h), pairs.value_of(b, j, h));
            let product = dot(dout, value);
            let slope = kept * product.value - delta + dlse;
            let off_product = (limits.chain(dims.width) + 2.0 * r) * product.magnitude;
            let steps = 4.0 * u * (kept * product.value.abs() + delta.abs() + dlse.abs());
            let ds = p * slope;
            let off_slope = kept * off_product + off_delta + steps;
            let off_ds = p * (t * (slope.abs() + off_slope) + off_slope) + tiny * slope.abs();
            let off_ds = off_ds * (1.0 + 2.0 * w) + 2.0 * w * ds.abs() + tiny;
            // What is no number of the dtype that is multiplied may come to anything.
            let is_open = [ds, p * kept, p].iter().any(|x| x.abs() > largest);
            let off_ds = if is_open { f64::INFINITY } else { off_ds };
            let off_p = p * kept * (t + 4.0 * w + 4.0 * u) + 2.0 * tiny * kept.max(1.0);
            let off_p = if is_open { f64::INFINITY } else { off_p };
            let group = h / dims.shared();
            let at_q = (((b * dims.queries + i) * dims.heads + h) * dims.size) as usize;
            let at_k = (((b * dims.keys + j) * dims.groups + group) * dims.size) as usize;
            let at_v = (((b * dims.keys + j) * dims.groups + group) * dims.width) as usize;
            for (sum, &k) in dq[at_q..].iter_mut().zip(key) {
                sum.add(ds, off_ds, k, 1e4 * tiny);
            }
            for (sum, &q) in dk[at_k..].iter_mut().zip(query) {
                sum.add(ds, off_ds, q, 1e4 * tiny);
            }
            for (sum, &d) in dv[at_v..].iter_mut().zip(dout) {
                sum.add(p * kept, off_p, d, 1e4 * tiny);
            }
        }
    }
    let finish = |sums: Vec<Sum>, scale: f64, terms: u64, dtype: DType| -> Vec<Expected> {
        let roundoff = limits.chain(terms) + 2.0 * r + 4.0 * u;
        let of = |sum: Sum| {
            if sum.is_open {
                return Expected::within(Scalar::F(sum.value), f64::INFINITY);
            }
            let error = scale.abs() * (sum.error + roundoff * sum.magnitude) + f64::MIN_POSITIVE;
            within(scale * sum.value, error, dtype)
        };
        sums.into_iter().map(of).collect()
    };
    let of_keys = dims.queries * dims.shared();
    vec![finish(dq, scale, dims.keys, dtype), finish(dk, scale, of_keys, dtype), finish(dv, 1.0, of_keys, dtype)]
}
