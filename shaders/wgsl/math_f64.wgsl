// f64 functions. Devices with f64 follow IEEE 754 closely enough for plain comparisons with NaN.

fn abs_f64(x: f64) -> f64 {
    return abs(x);
}

fn ceil_f64(x: f64) -> f64 {
    return ceil(x);
}

fn floor_f64(x: f64) -> f64 {
    return floor(x);
}

fn round_f64(x: f64) -> f64 {
    return round(x);
}

fn sqrt_f64(x: f64) -> f64 {
    return sqrt(x);
}

fn rsqrt_f64(x: f64) -> f64 {
    return 1.0lf / sqrt(x);
}

fn reciprocal_f64(x: f64) -> f64 {
    return 1.0lf / x;
}

fn relu_f64(x: f64) -> f64 {
    return select(x, 0.0lf, x < 0.0lf);
}

fn sign_f64(x: f64) -> f64 {
    return select(select(x, -1.0lf, x < 0.0lf), 1.0lf, x > 0.0lf);
}

fn div_f64(a: f64, b: f64) -> f64 {
    return a / b;
}

// Equal operands differ at most in the sign of a zero: the sum of two zeros is +0 unless both are -0.
fn max_f64(a: f64, b: f64) -> f64 {
    if a != a { return a; }
    if b != b { return b; }
    if a == b { return select(a, a + b, a == 0.0lf); }
    return select(b, a, a > b);
}

fn min_f64(a: f64, b: f64) -> f64 {
    if a != a { return a; }
    if b != b { return b; }
    if a == b { return select(a, -((-a) + (-b)), a == 0.0lf); }
    return select(b, a, a < b);
}
