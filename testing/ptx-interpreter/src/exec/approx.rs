//! The approximate functions. By default the true value, rounded; on request off by as much as the ISA allows, in a way
//! that depends on the argument and a seed alone, so that one argument has one result, as on hardware.

use crate::inst::FloatOp;

/// How approximations come out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Approximation {
    /// Seed of the errors; `None` for none.
    pub(crate) seed: Option<u64>,
}

/// SplitMix64's finaliser: a cheap mixing of all bits.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Approximation {
    /// `op` of `x` (and `y`), not yet rounded to `f32`.
    pub(crate) fn value(&self, op: FloatOp, x: f32, y: f32) -> f64 {
        let exact = exact(op, f64::from(x), f64::from(y));
        let Some(seed) = self.seed.filter(|_| exact.is_finite() && exact != 0.0) else {
            return exact;
        };
        let hash = mix(seed ^ mix(u64::from(x.to_bits()) << 32 | u64::from(y.to_bits())) ^ op as u64);
        let noise = (hash >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        let power = |exponent: f64| exponent.exp2();
        // PTX ISA 9.7.3: the largest errors; half a place of rounding is left out of those that it bounds in places.
        let (relative, absolute) = match op {
            FloatOp::RcpApprox | FloatOp::SqrtApprox => (power(-24.0), 0.0),
            FloatOp::RsqrtApprox => (power(-22.9) - power(-24.0), 0.0),
            FloatOp::Ex2Approx => (power(-22.5) - power(-24.0), 0.0),
            FloatOp::DivFull | FloatOp::DivApprox => (power(-23.0), 0.0),
            FloatOp::TanhApprox => (power(-11.0), 0.0),
            FloatOp::Lg2Approx if x > 0.5 && x < 2.0 => (0.0, power(-22.0)),
            FloatOp::Lg2Approx => (power(-22.6), 0.0),
            FloatOp::SinApprox | FloatOp::CosApprox if x.abs() <= std::f32::consts::TAU => (0.0, power(-20.5)),
            FloatOp::SinApprox | FloatOp::CosApprox => (0.0, power(-14.7)),
            _ => (0.0, 0.0),
        };
        exact * (1.0 + noise * relative) + noise * absolute
    }

    /// The same of halves: `ex2` and `tanh`.
    pub(crate) fn value16(&self, op: FloatOp, x: f32) -> f64 {
        exact(op, f64::from(x), 0.0)
    }
}

fn exact(op: FloatOp, x: f64, y: f64) -> f64 {
    match op {
        FloatOp::DivFull | FloatOp::DivApprox => x / y,
        FloatOp::SqrtApprox => x.sqrt(),
        FloatOp::RsqrtApprox => 1.0 / x.sqrt(),
        FloatOp::Ex2Approx => x.exp2(),
        FloatOp::Lg2Approx => x.log2(),
        FloatOp::SinApprox => x.sin(),
        FloatOp::CosApprox => x.cos(),
        FloatOp::TanhApprox => x.tanh(),
        _ => 1.0 / x,
    }
}
