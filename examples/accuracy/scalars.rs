//! The builtins on scalars that are approximated: exponential, trigonometric and hyperbolic functions, and others.
//!
//! Limits: the tables of <https://www.w3.org/TR/WGSL/#concrete-float-accuracy>. The project's own limit, 4 ULP of sine and
//! cosine to 2^15, is a line of its own.

use std::f64::consts::{LOG2_E, PI};

use super::builtins::{ALL, Builtin, F32_ONLY, Measure, Row, single};
use super::float::{Format, Type};
use super::interval::{ANY, Allowed, Interval, Wgsl, one, point};

const INHERITED: [&str; 4] = [
    "inherited from `sin(x) / cos(x)`",
    "worse of 6.77e-5 and inherited from `atan2(sqrt(1 - x x), x)`",
    "worse of 6.81e-5 and inherited from `atan2(x, sqrt(1 - x x))`",
    "worse of 1e-5 and inherited from `sinh(x) / cosh(x)`",
];

pub fn builtins() -> Vec<Builtin> {
    [exponential(), trigonometric(), hyperbolic(), others()].concat()
}

/// A logarithm's two lines.
fn logarithm(builtin: Builtin, allowed: fn(&Wgsl, &[Interval]) -> Allowed) -> Builtin {
    let near = |x: &[f64]| (0.5..=2.0).contains(&x[0]);
    builtin
        .row(Row {
            part: "x in [0.5, 2]",
            domain: near,
            measure: Measure::Absolute,
            words: ["absolute 2^-21", "absolute 2^-7"],
            allowed,
            only: None,
        })
        .row(Row {
            part: "other x",
            domain: |x| !(0.5..=2.0).contains(&x[0]),
            measure: Measure::Ulp,
            words: ["3 ULP"; 2],
            allowed,
            only: None,
        })
}

fn exponential() -> Vec<Builtin> {
    let words = ["3 + 2 \\|x\\| ULP", "1 + 2 \\|x\\| ULP"];
    let positive = |b: Builtin| {
        b.draw(|r, x| {
            x[0] = match r.below(4) {
                0 => r.near(1.0),
                1 => r.within(0.4, 2.5),
                _ => r.within(-149.0, 128.0).exp2(),
            };
        })
    };
    vec![
        Builtin::of("exp(x)", 1, "exp(a)", |x| single(x[0].exp()))
            .types(ALL)
            .draw(|r, x| {
                x[0] = match r.below(4) {
                    0 => r.within(-1.0, 1.0),
                    1 => r.near_any(&[-103.97, -87.3365, 88.72283, -17.3, 11.0899]),
                    2 => r.within(-400.0, 400.0).round() / LOG2_E / 2.0,
                    _ => r.within(-104.0, 89.0),
                };
            })
            .limits(words, |w, x| one(w.exp(x[0]))),
        Builtin::of("exp2(x)", 1, "exp2(a)", |x| single(x[0].exp2()))
            .types(ALL)
            .draw(|r, x| {
                x[0] = match r.below(4) {
                    0 => r.within(-1.0, 1.0),
                    1 => r.near_any(&[-149.0, -126.0, 127.99999, -24.0, 15.99]),
                    2 => r.within(-300.0, 256.0).round() / 2.0,
                    _ => r.within(-150.0, 128.0),
                };
            })
            .limits(words, |w, x| one(w.exp2(x[0]))),
        logarithm(positive(Builtin::of("log(x)", 1, "log(a)", |x| single(x[0].ln())).types(ALL)), |w, x| {
            one(w.log(x[0]))
        }),
        logarithm(positive(Builtin::of("log2(x)", 1, "log2(a)", |x| single(x[0].log2())).types(ALL)), |w, x| {
            one(w.log2(x[0]))
        }),
        Builtin::of("pow(x, y)", 2, "pow(a, b)", |x| single(x[0].powf(x[1])))
            .types(ALL)
            .draw(|r, x| {
                (x[0], x[1]) = match r.below(4) {
                    0 => (r.within(0.99, 1.01), r.within(-1e4, 1e4)),
                    1 => (r.within(0.0, 9.0), r.within(-9.0, 9.0).round()),
                    // Results of all magnitudes.
                    2 => {
                        let x = r.within(-126.0, 126.0).exp2();
                        (x, r.within(-150.0, 128.0) / x.log2())
                    }
                    _ => (r.within(0.0, 4.0), r.within(-60.0, 60.0)),
                };
            })
            .row(Row {
                part: "x > 0",
                domain: |x| x[0] > 0.0,
                measure: Measure::Ulp,
                words: ["inherited from `exp2(y log2(x))`"; 2],
                allowed: |w, x| one(w.exp2(w.mul(x[1], w.log2(x[0])))),
                only: None,
            }),
        positive(Builtin::of("sqrt(x)", 1, "sqrt(a)", |x| single(x[0].sqrt())).types(ALL))
            .limit("inherited from `1 / inverseSqrt(x)`", |w, x| one(w.sqrt(x[0]))),
        positive(Builtin::of("inverseSqrt(x)", 1, "inverseSqrt(a)", |x| single(1.0 / x[0].sqrt())).types(ALL))
            .limit("2 ULP", |w, x| one(w.inverse_sqrt(x[0]))),
    ]
}

/// Sine and cosine: WGSL's interval, the project's limit, and all floats.
fn wave(
    builtin: Builtin,
    allowed: fn(&Wgsl, &[Interval]) -> Allowed,
    ulps: fn(&Wgsl, &[Interval]) -> Allowed,
) -> Builtin {
    let row = Row {
        part: "\\|x\\| <= pi",
        domain: |x| x[0].abs() <= PI,
        measure: Measure::Absolute,
        words: ["absolute 2^-11", "absolute 2^-7"],
        allowed,
        only: None,
    };
    let wide = |x: &[f64]| x[0].abs() <= 32768.0;
    builtin
        .types(ALL)
        .draw(|r, x| {
            x[0] = match r.below(4) {
                0 => r.within(-PI, PI),
                1 => r.near_quarters(32768.0),
                2 => r.near_quarters(100.0),
                _ => r.within(-32768.0, 32768.0),
            };
        })
        .row(row)
        .row(Row {
            part: "\\|x\\| <= 2^15",
            domain: wide,
            measure: Measure::Ulp,
            words: ["ours: 4 ULP", ""],
            allowed: ulps,
            only: Some(Type::F32),
        })
        .row(Row {
            part: "all x",
            domain: |_| true,
            measure: Measure::Ulp,
            words: ["none"; 2],
            allowed: |_, _| [ANY; 4],
            only: None,
        })
}

fn trigonometric() -> Vec<Builtin> {
    let unit = |b: Builtin| {
        b.draw(|r, x| {
            x[0] = match r.below(3) {
                0 => r.near_any(&[1.0, -1.0, 0.5, -0.5]),
                1 => r.sized(-14.0, 0.0),
                _ => r.within(-1.0, 1.0),
            };
        })
    };
    vec![
        wave(
            Builtin::of("sin(x)", 1, "sin(a)", |x| single(x[0].sin())),
            |w, x| one(w.sin(x[0])),
            |w, x| one(w.ulps(x[0].low.sin(), 4.0).hull(w.ulps(x[0].high.sin(), 4.0))),
        ),
        wave(
            Builtin::of("cos(x)", 1, "cos(a)", |x| single(x[0].cos())),
            |w, x| one(w.cos(x[0])),
            |w, x| one(w.ulps(x[0].low.cos(), 4.0)),
        ),
        Builtin::of("tan(x)", 1, "tan(a)", |x| single(x[0].tan()))
            .types(ALL)
            .draw(|r, x| {
                x[0] = match r.below(3) {
                    0 => r.within(-PI, PI),
                    1 => r.near_quarters(32768.0),
                    _ => r.within(-32768.0, 32768.0),
                };
            })
            .row(Row {
                part: "\\|x\\| <= pi",
                domain: |x| x[0].abs() <= PI,
                measure: Measure::Ulp,
                words: [INHERITED[0]; 2],
                allowed: |w, x| one(w.div(w.sin(x[0]), w.cos(x[0]))),
                only: None,
            })
            .row(Row {
                part: "all x",
                domain: |_| true,
                measure: Measure::Ulp,
                words: ["none"; 2],
                allowed: |_, _| [ANY; 4],
                only: None,
            }),
        unit(Builtin::of("acos(x)", 1, "acos(a)", |x| single(x[0].acos())).types(ALL)).limits(
            [INHERITED[1], "worse of 3.91e-3 and inherited from `atan2(sqrt(1 - x x), x)`"],
            |w, x| {
                let root = w.sqrt(w.sub(point(1.0), w.mul(x[0], x[0])));
                let error = if w.format == Format::F16 { 3.91e-3 } else { 6.77e-5 };
                let [low, high] = [x[0].low, x[0].high].map(|x| w.within(x.acos(), error));
                one(w.atan2(root, x[0]).hull(low).hull(high))
            },
        ),
        unit(Builtin::of("asin(x)", 1, "asin(a)", |x| single(x[0].asin())).types(ALL)).limits(
            [INHERITED[2], "worse of 3.91e-3 and inherited from `atan2(x, sqrt(1 - x x))`"],
            |w, x| {
                let root = w.sqrt(w.sub(point(1.0), w.mul(x[0], x[0])));
                let error = if w.format == Format::F16 { 3.91e-3 } else { 6.81e-5 };
                let [low, high] = [x[0].low, x[0].high].map(|x| w.within(x.asin(), error));
                one(w.atan2(x[0], root).hull(low).hull(high))
            },
        ),
        Builtin::of("atan(x)", 1, "atan(a)", |x| single(x[0].atan()))
            .types(ALL)
            .limits(["4096 ULP", "5 ULP"], |w, x| one(w.atan(x[0]))),
        Builtin::of("atan2(y, x)", 2, "atan2(a, b)", |x| single(x[0].atan2(x[1])))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-20.0, 20.0);
                x[1] = if r.below(2) == 0 { r.near(x[0]) } else { r.sized(-20.0, 20.0) };
            })
            .limits(
                ["4096 ULP for \\|x\\| in [2^-126, 2^126], y normal", "5 ULP for \\|x\\| in [2^-14, 2^14], y normal"],
                |w, x| one(w.atan2(x[0], x[1])),
            ),
    ]
}

/// The inverse functions use libm as reference: the standard library's lose bits of f64 near 1, and overflow.
fn hyperbolic() -> Vec<Builtin> {
    let draw = |b: Builtin| {
        b.draw(|r, x| {
            x[0] = match r.below(3) {
                0 => r.sized(-20.0, 4.0),
                1 => r.within(-2.0, 2.0),
                _ => r.within(-90.0, 90.0),
            };
        })
    };
    fn sinh(w: &Wgsl, x: Interval) -> Interval {
        w.mul(w.sub(w.exp(x), w.exp(w.neg(x))), point(0.5))
    }
    fn cosh(w: &Wgsl, x: Interval) -> Interval {
        w.mul(w.add(w.exp(x), w.exp(w.neg(x))), point(0.5))
    }
    vec![
        draw(Builtin::of("sinh(x)", 1, "sinh(a)", |x| single(x[0].sinh())).types(ALL))
            .limit("inherited from `(exp(x) - exp(-x)) 0.5`", |w, x| one(sinh(w, x[0]))),
        draw(Builtin::of("cosh(x)", 1, "cosh(a)", |x| single(x[0].cosh())).types(ALL))
            .limit("inherited from `(exp(x) + exp(-x)) 0.5`", |w, x| one(cosh(w, x[0]))),
        draw(Builtin::of("tanh(x)", 1, "tanh(a)", |x| single(x[0].tanh())).types(ALL)).limit(INHERITED[3], |w, x| {
            let [low, high] = [x[0].low, x[0].high].map(|x| w.within(x.tanh(), 1e-5));
            one(w.div(sinh(w, x[0]), cosh(w, x[0])).hull(low).hull(high))
        }),
        draw(Builtin::of("asinh(x)", 1, "asinh(a)", |x| single(libm::asinh(x[0]))).types(ALL))
            .limit("inherited from `log(x + sqrt(x x + 1))`", |w, x| {
                one(w.log(w.add(x[0], w.sqrt(w.add(w.mul(x[0], x[0]), point(1.0))))))
            }),
        Builtin::of("acosh(x)", 1, "acosh(a)", |x| single(if x[0] < 1.0 { f64::NAN } else { libm::acosh(x[0]) }))
            .types(ALL)
            .draw(|r, x| {
                x[0] = match r.below(3) {
                    0 => 1.0 + r.within(-23.0, 0.0).exp2(),
                    1 => r.within(1.0, 4.0),
                    _ => r.within(0.0, 127.0).exp2(),
                };
            })
            .limit("inherited from `log(x + sqrt(x x - 1))`", |w, x| {
                one(w.log(w.add(x[0], w.sqrt(w.sub(w.mul(x[0], x[0]), point(1.0))))))
            }),
        Builtin::of("atanh(x)", 1, "atanh(a)", |x| single(libm::atanh(x[0])))
            .types(ALL)
            .draw(|r, x| {
                x[0] = match r.below(3) {
                    0 => r.near_any(&[1.0, -1.0, 0.5, -0.5]),
                    1 => r.sized(-20.0, 0.0),
                    _ => r.within(-1.0, 1.0),
                };
            })
            .limit("inherited from `log((1 + x) / (1 - x)) 0.5`", |w, x| {
                let ratio = w.div(w.add(point(1.0), x[0]), w.sub(point(1.0), x[0]));
                one(w.mul(w.log(ratio), point(0.5)))
            }),
    ]
}

fn others() -> Vec<Builtin> {
    vec![
        Builtin::of("degrees(x)", 1, "degrees(a)", |x| single(x[0].to_degrees()))
            .types(ALL)
            .limit("inherited from `x * 57.295779513082322865`", |w, x| {
                one(w.mul(x[0], w.rounded(point(1f64.to_degrees()))))
            }),
        Builtin::of("radians(x)", 1, "radians(a)", |x| single(x[0].to_radians()))
            .types(ALL)
            .draw(|r, x| x[0] = r.within(-720.0, 720.0))
            .limit("inherited from `x * 0.017453292519943295474`", |w, x| {
                one(w.mul(x[0], w.rounded(point(1f64.to_radians()))))
            }),
        Builtin::of("mix(x, y, z)", 3, "mix(a, b, c)", |x| single(x[0] * (1.0 - x[2]) + x[1] * x[2]))
            .draw(|r, x| {
                x[0] = r.within(-10.0, 10.0);
                x[1] = r.within(-10.0, 10.0);
                x[2] = r.within(-0.5, 1.5);
            })
            .term(|x| (x[0] * (1.0 - x[2])).abs().max((x[1] * x[2]).abs()))
            .limit("inherited from `x (1 - z) + y z`", |w, x| {
                let first = w.mul(x[0], w.sub(point(1.0), x[2]));
                one(w.total(&[first, w.mul(x[1], x[2])]))
            }),
        Builtin::of("smoothstep(low, high, x)", 3, "smoothstep(a, b, c)", |x| {
            let t = ((x[2] - x[0]) / (x[1] - x[0])).clamp(0.0, 1.0);
            single(t * t * (3.0 - 2.0 * t))
        })
        .draw(|r, x| {
            x[0] = r.within(-10.0, 10.0);
            x[1] = x[0] + r.sized(-3.0, 3.0).abs();
            x[2] = x[0] + (x[1] - x[0]) * r.within(-0.25, 1.25);
        })
        .row(Row {
            part: "low < high",
            domain: |x| x[0] < x[1],
            measure: Measure::Ulp,
            words: ["inherited from `t t (3 - 2 t)`, `t = clamp((x - low) / (high - low), 0, 1)`"; 2],
            allowed: |w, x| {
                let t = w.div(w.sub(x[2], x[0]), w.sub(x[1], x[0]));
                if t.is_any() {
                    return [ANY; 4];
                }
                let t = w.clamp(t, point(0.0), point(1.0));
                one(w.mul(w.mul(t, t), w.sub(point(3.0), w.mul(point(2.0), t))))
            },
            only: None,
        }),
        Builtin::of("ldexp(x, n)", 2, "ldexp(a, i32(b))", |x| single(scaled(x[0], x[1])))
            .draw(|r, x| {
                x[0] = r.sized(-40.0, 40.0);
                x[1] = r.within(-170.0, 129.0).floor();
            })
            .row(Row {
                part: "n whole, <= 128 (f16: 16)",
                // Greater n give indeterminate values.
                domain: |x| x[1].fract() == 0.0 && x[1] <= 128.0 && x[1] >= -1e6,
                measure: Measure::Ulp,
                words: ["correctly rounded"; 2],
                allowed: |w, x| {
                    let greatest = f64::from(w.format.greatest + 1);
                    if x[1].high > greatest {
                        return [ANY; 4];
                    }
                    one(w.rounded(Interval { low: scaled(x[0].low, x[1].low), high: scaled(x[0].high, x[1].high) }))
                },
                only: None,
            }),
        Builtin::of("frexp(x)", 1, "f.fract", |x| {
            let (fract, exponent) = split(x[0]);
            [fract, exponent, 0.0, 0.0]
        })
        .before("let f = frexp(a);")
        .and("T(f.exp)")
        .row(Row {
            part: "zero and normal x",
            domain: |_| true,
            measure: Measure::Ulp,
            words: ["correctly rounded"; 2],
            allowed: |w, x| {
                if x[0].low != x[0].high || w.format.is_subnormal(x[0].low) {
                    return [ANY; 4];
                }
                let (fract, exponent) = split(x[0].low);
                [point(fract), point(exponent), ANY, ANY]
            },
            only: None,
        }),
        Builtin::of("quantizeToF16(x)", 1, "quantizeToF16(a)", |x| {
            let exact = Type::F16.decode(Type::F16.encode(x[0]));
            single(exact)
        })
        .types(F32_ONLY)
        .draw(|r, x| x[0] = r.sized(-26.0, 16.0))
        .row(Row {
            part: "",
            domain: |x| x[0].abs() <= Format::F16.max(),
            measure: Measure::Ulp,
            words: ["correctly rounded (error against the nearest half)", ""],
            allowed: |_, x| one(Wgsl { format: Format::F16 }.rounded(x[0])),
            only: None,
        }),
    ]
}

/// x 2^n
fn scaled(x: f64, n: f64) -> f64 {
    // Floats of 32 bits and less, and the exponents that WGSL takes: exact.
    x * n.clamp(-600.0, 600.0).exp2()
}

/// A fraction in [0.5, 1), and the exponent of the power of two that multiplies it.
fn split(x: f64) -> (f64, f64) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0.0);
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    (x * (f64::from(-exponent)).exp2(), f64::from(exponent))
}
