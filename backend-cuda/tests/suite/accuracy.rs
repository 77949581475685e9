//! The errors of WGSL's float functions where they run: 2^20 inputs of f32, every one of f16, against f64 on the host.
//!
//! `naga-ptx` measures the same with modelled approximations (the table in its `lower/math/mod.rs`); here they are the
//! card's own. `cargo test -p polywarp-cuda --test suite accuracy -- --nocapture` prints the table. On the interpreted driver
//! fewer inputs of f32 are taken.

use crate::common::{bind, download, on_card, scaled, upload};
use polywarp_core::{Backend, Kernel};

/// A function of x, or of x and y.
struct Case {
    wgsl: &'static str,
    want: fn(f64, f64) -> f64,
    /// Where half of the inputs lie; the other half are random bits.
    x: (f64, f64),
    y: (f64, f64),
    /// Largest error of f32, ULP: what naga-ptx promises with approximations as bad as documented.
    limit: f64,
}

const NONE: (f64, f64) = (0.0, 0.0);

const fn of_one(wgsl: &'static str, want: fn(f64, f64) -> f64, x: (f64, f64), limit: f64) -> Case {
    Case { wgsl, want, x, y: NONE, limit }
}

const CASES: [Case; 27] = [
    Case { wgsl: "x / y", want: |x, y| x / y, x: (-9.0, 9.0), y: (-9.0, 9.0), limit: 0.5 },
    Case { wgsl: "pow(x, y)", want: f64::powf, x: (0.0, 4.0), y: (-60.0, 60.0), limit: 7.98 },
    // Worst where results are near the ends of the range and bases near the square root of two or its inverse.
    Case { wgsl: "pow(x, y)", want: f64::powf, x: (0.7, 0.72), y: (-260.0, 260.0), limit: 7.98 },
    Case { wgsl: "pow(x, y)", want: f64::powf, x: (1.38, 1.42), y: (-260.0, 260.0), limit: 7.98 },
    Case { wgsl: "atan2(x, y)", want: f64::atan2, x: (-4.0, 4.0), y: (-4.0, 4.0), limit: 2.5 },
    Case { wgsl: "fma(x, y, x)", want: |x, y| x.mul_add(y, x), x: (-4.0, 4.0), y: (-4.0, 4.0), limit: 0.5 },
    of_one("exp(x)", |x, _| x.exp(), (-104.0, 89.0), 3.0),
    of_one("exp2(x)", |x, _| x.exp2(), (-150.0, 128.0), 2.5),
    of_one("log(x)", |x, _| x.ln(), (0.4, 2.5), 1.5),
    of_one("log2(x)", |x, _| x.log2(), (0.4, 2.5), 2.0),
    of_one("sin(x)", |x, _| x.sin(), (-32768.0, 32768.0), 2.0),
    of_one("cos(x)", |x, _| x.cos(), (-32768.0, 32768.0), 2.0),
    of_one("tan(x)", |x, _| x.tan(), (-32768.0, 32768.0), 3.0),
    of_one("asin(x)", |x, _| x.asin(), (-1.0, 1.0), 2.0),
    of_one("acos(x)", |x, _| x.acos(), (-1.0, 1.0), 2.0),
    of_one("atan(x)", |x, _| x.atan(), (-4.0, 4.0), 2.0),
    of_one("sinh(x)", |x, _| x.sinh(), (-4.0, 4.0), 5.0),
    of_one("cosh(x)", |x, _| x.cosh(), (-4.0, 4.0), 3.5),
    of_one("tanh(x)", |x, _| x.tanh(), (-4.0, 4.0), 2.5),
    of_one("asinh(x)", |x, _| x.asinh(), (-4.0, 4.0), 3.0),
    of_one("acosh(x)", |x, _| x.acosh(), (1.0, 4.0), 3.0),
    of_one("atanh(x)", |x, _| x.atanh(), (-1.0, 1.0), 3.0),
    of_one("sqrt(x)", |x, _| x.sqrt(), (0.0, 4.0), 0.5),
    of_one("inverseSqrt(x)", |x, _| 1.0 / x.sqrt(), (0.0, 4.0), 2.0),
    of_one("radians(x)", |x, _| x.to_radians(), (-360.0, 360.0), 1.0),
    of_one("degrees(x)", |x, _| x.to_degrees(), (-7.0, 7.0), 1.0),
    of_one("round(x)", |x, _| x.round_ties_even(), (-9.0, 9.0), 0.0),
];

/// A binary float format.
#[derive(Clone, Copy)]
struct Format {
    precision: i32,
    /// Exponents of the least number and of the power of two that is one too large.
    least: i32,
    limit: i32,
}

const F32: Format = Format { precision: 24, least: -149, limit: 128 };
const F16: Format = Format { precision: 11, least: -24, limit: 16 };

impl Format {
    /// |got - want| in units of the last place of `want`; what rounds to infinity may be it.
    fn ulps(self, got: f64, want: f64) -> f64 {
        let bound = 2f64.powi(self.limit);
        let cut = |x: f64| if x.abs() > bound { bound.copysign(x) } else { x };
        let (got, want) = (cut(got), cut(want));
        if got == want || got.is_nan() && want.is_nan() {
            return 0.0;
        }
        let exponent = (want.abs().log2().floor() as i32).clamp(-2000, self.limit - 1); // 0 has no logarithm
        let unit = (exponent - self.precision + 1).max(self.least);
        let distance = (got - want).abs();
        if distance.is_nan() { f64::INFINITY } else { distance * 2f64.powi(-unit) }
    }
}

/// The value of a half.
fn half(bits: u32) -> f64 {
    let (exponent, mantissa) = (bits >> 10 & 0x1f, f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent as i32 - 25),
    };
    if bits & 0x8000 != 0 { -magnitude } else { magnitude }
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn floats(&mut self, count: usize, (low, high): (f64, f64)) -> Vec<u32> {
        (0..count)
            .map(|i| match i % 2 {
                0 => (self.bits() >> 32) as u32,
                _ => ((low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64) as f32).to_bits(),
            })
            .collect()
    }
}

fn kernel(head: &str, ty: &str, expression: &str) -> Kernel {
    Kernel::wgsl(format!(
        "{head}
        @group(0) @binding(0) var<storage, read> xs: array<{ty}>;
        @group(0) @binding(1) var<storage, read> ys: array<{ty}>;
        @group(0) @binding(2) var<storage, read_write> zs: array<{ty}>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < arrayLength(&zs) {{
                let x = xs[id.x];
                let y = ys[id.x];
                zs[id.x] = {expression};
            }}
        }}"
    ))
}

/// The largest error over all inputs, and where it is.
fn worst(
    format: Format,
    inputs: impl Iterator<Item = (f64, f64)>,
    got: &[f64],
    want: fn(f64, f64) -> f64,
) -> (f64, f64, f64) {
    inputs.zip(got).fold((0.0, 0.0, 0.0), |worst, ((x, y), &got)| {
        let ulps = format.ulps(got, want(x, y));
        if ulps > worst.0 { (ulps, x, y) } else { worst }
    })
}

#[test]
fn f32_functions_are_within_their_bounds() {
    on_card(|backend| {
        let count = scaled(1 << 20, 1 << 13);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut faults = Vec::new();
        for Case { wgsl, want, x, y, limit } in &CASES {
            let (x, y) = (random.floats(count, *x), random.floats(count, *y));
            let z = upload(backend, &vec![0x1234_5678; count]);
            let bindings = [bind(0, &upload(backend, &x)), bind(1, &upload(backend, &y)), bind(2, &z)];
            backend.launch(&kernel("", "f32", wgsl), [count as u32 / 64, 1, 1], &bindings).unwrap();
            let float = |bits: &u32| f64::from(f32::from_bits(*bits));
            let got: Vec<f64> = download(backend, &z).iter().map(float).collect();
            let worst = worst(F32, x.iter().map(float).zip(y.iter().map(float)), &got, *want);
            println!("f32 {wgsl}: {:.3} ULP at {:e}, {:e}", worst.0, worst.1, worst.2);
            if worst.0 > *limit {
                faults.push(format!("{wgsl}: {:.3} ULP, not {limit}, at {:e}, {:e}", worst.0, worst.1, worst.2));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}

#[test]
fn f16_functions_are_rounded_once() {
    on_card(|backend| {
        let inputs: Vec<u32> = (0..32768).map(|i| (2 * i) | ((2 * i + 1) << 16)).collect();
        // Quotients and powers by one more half.
        let other: Vec<u32> = inputs.iter().map(|word| word.wrapping_mul(0x9e37) ^ word >> 7).collect();
        let halves = |words: &[u32]| words.iter().flat_map(|w| [half(w & 0xffff), half(w >> 16)]).collect::<Vec<f64>>();
        let (x, y) = (halves(&inputs), halves(&other));
        let mut faults = Vec::new();
        for Case { wgsl, want, .. } in &CASES {
            let z = upload(backend, &vec![0; inputs.len()]);
            let bindings = [bind(0, &upload(backend, &inputs)), bind(1, &upload(backend, &other)), bind(2, &z)];
            backend.launch(&kernel("enable f16;", "f16", wgsl), [1024, 1, 1], &bindings).unwrap();
            let got = halves(&download(backend, &z));
            let worst = worst(F16, x.iter().copied().zip(y.iter().copied()), &got, *want);
            println!("f16 {wgsl}: {:.4} ULP at {:e}, {:e}", worst.0, worst.1, worst.2);
            // lg2.approx is off by up to 2^-22, four of the least halves, at 1 should it be off there.
            let limit = if wgsl.starts_with("log") { 4.0 } else { 0.51 };
            if worst.0 > limit {
                faults.push(format!("{wgsl}: {:.4} ULP, not {limit}, at {:e}, {:e}", worst.0, worst.1, worst.2));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    });
}
