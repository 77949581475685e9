//! Distance of an f32 from an f64 reference in ULP, for tests and the `ulp` program. Not for production code.

/// |y - reference| in units of the last place of the f32 nearest the reference (2^-149 among subnormal numbers). Equal specials give 0,
/// unequal ones infinity; a wrong sign of zero counts as infinity only when the reference is itself a zero.
pub fn ulp_error(y: f32, reference: f64) -> f64 {
    if y.is_nan() || reference.is_nan() {
        return if y.is_nan() && reference.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let nearest = reference as f32;
    if nearest.is_infinite() || y.is_infinite() {
        return if y == nearest { 0.0 } else { f64::INFINITY };
    }
    if reference == 0.0 {
        return if y.to_bits() == nearest.to_bits() { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((nearest.to_bits() >> 23) & 0xff).max(1) as i32;
    (f64::from(y) - reference).abs() / 2f64.powi(exponent - 150)
}

/// x Phi(x) in f64, limits at the infinities.
pub fn gelu_reference(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) }
}
