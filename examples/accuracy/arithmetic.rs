//! Operators, and the builtins whose results are floats already: rounding to integers, comparison, decomposition.
//!
//! Limits: the tables of <https://www.w3.org/TR/WGSL/#concrete-float-accuracy>.

use super::builtins::{ALL, Builtin, FLOATS, Measure, Row, single};
use super::interval::{ANY, Interval, one, point};

pub fn builtins() -> Vec<Builtin> {
    [operators(), exact()].concat()
}

fn operators() -> Vec<Builtin> {
    vec![
        Builtin::of("-x", 1, "-a", |x| single(-x[0])).types(ALL).rounded(|w, x| one(w.neg(x[0]))),
        Builtin::of("x + y", 2, "a + b", |x| single(x[0] + x[1]))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-10.0, 10.0);
                x[1] = if r.below(2) == 0 { r.near(-x[0]) } else { r.sized(-10.0, 10.0) };
            })
            .rounded(|w, x| one(w.add(x[0], x[1]))),
        Builtin::of("x - y", 2, "a - b", |x| single(x[0] - x[1]))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-10.0, 10.0);
                x[1] = if r.below(2) == 0 { r.near(x[0]) } else { r.sized(-10.0, 10.0) };
            })
            .rounded(|w, x| one(w.sub(x[0], x[1]))),
        Builtin::of("x * y", 2, "a * b", |x| single(x[0] * x[1]))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-70.0, 60.0);
                x[1] = r.sized(-70.0, 60.0);
            })
            .rounded(|w, x| one(w.mul(x[0], x[1]))),
        Builtin::of("x / y", 2, "a / b", |x| single(x[0] / x[1]))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-60.0, 60.0);
                x[1] = r.sized(-60.0, 60.0);
            })
            .limits(["2.5 ULP for \\|y\\| in [2^-126, 2^126]", "2.5 ULP for \\|y\\| in [2^-14, 2^14]"], |w, x| {
                one(w.div(x[0], x[1]))
            }),
        Builtin::of("x % y", 2, "a % b", |x| single(x[0] % x[1]))
            .types(ALL)
            .draw(|r, x| {
                x[1] = r.sized(-8.0, 8.0);
                x[0] = match r.below(3) {
                    0 => x[1] * r.within(-20.0, 20.0).round(), // where the quotient is near an integer
                    1 => x[1] * r.within(-2000.0, 2000.0),
                    _ => r.sized(-8.0, 8.0),
                };
            })
            .term(|x| x[0].abs())
            .limit("inherited from `x - y trunc(x / y)`", |w, x| {
                let whole = w.exact(w.div(x[0], x[1]), f64::trunc);
                one(w.sub(x[0], w.mul(x[1], whole)))
            }),
        Builtin::of("fma(x, y, z)", 3, "fma(a, b, c)", |x| single(x[0].mul_add(x[1], x[2])))
            .types(ALL)
            .draw(|r, x| {
                x[0] = r.sized(-6.0, 6.0);
                x[1] = r.sized(-6.0, 6.0);
                x[2] = if r.below(2) == 0 { r.near(-x[0] * x[1]) } else { r.sized(-8.0, 8.0) };
            })
            .term(|x| x[2].abs().max((x[0] * x[1]).abs()))
            .limit("inherited from `x y + z`", |w, x| one(w.add(w.mul(x[0], x[1]), x[2]))),
    ]
}

/// The builtins whose results are floats without rounding.
fn exact() -> Vec<Builtin> {
    let dense = |b: Builtin| {
        b.types(ALL).draw(|r, x| {
            x[0] = match r.below(3) {
                0 => r.within(-4.0, 4.0),
                1 => {
                    let whole = r.within(-300.0, 300.0).round() / 2.0;
                    r.near(whole)
                }
                _ => r.sized(18.0, 25.0),
            };
        })
    };
    let pairs = |b: Builtin| b.types(ALL);
    vec![
        dense(Builtin::of("abs(x)", 1, "abs(a)", |x| single(x[0].abs())))
            .rounded(|_, x| one(Interval { low: x[0].least(), high: x[0].greatest() })),
        dense(Builtin::of("floor(x)", 1, "floor(a)", |x| single(x[0].floor())))
            .rounded(|w, x| one(w.exact(x[0], f64::floor))),
        dense(Builtin::of("ceil(x)", 1, "ceil(a)", |x| single(x[0].ceil())))
            .rounded(|w, x| one(w.exact(x[0], f64::ceil))),
        dense(Builtin::of("trunc(x)", 1, "trunc(a)", |x| single(x[0].trunc())))
            .rounded(|w, x| one(w.exact(x[0], f64::trunc))),
        dense(Builtin::of("round(x)", 1, "round(a)", |x| single(x[0].round_ties_even())))
            .rounded(|w, x| one(w.exact(x[0], f64::round_ties_even))),
        dense(Builtin::of("fract(x)", 1, "fract(a)", |x| single(x[0] - x[0].floor())))
            .limit("inherited from `x - floor(x)`", |w, x| one(w.sub(x[0], w.exact(x[0], f64::floor)))),
        dense(Builtin::of("sign(x)", 1, "sign(a)", |x| single(if x[0] == 0.0 { 0.0 } else { x[0].signum() })))
            .rounded(|w, x| one(w.exact(x[0], |x| if x == 0.0 { 0.0 } else { x.signum() }))),
        dense(Builtin::of("saturate(x)", 1, "saturate(a)", |x| single(x[0].clamp(0.0, 1.0))))
            .rounded(|w, x| one(w.clamp(x[0], point(0.0), point(1.0)))),
        dense(Builtin::of("modf(x)", 1, "m.fract", |x| [x[0] - x[0].trunc(), x[0].trunc(), 0.0, 0.0]))
            .types(FLOATS)
            .before("let m = modf(a);")
            .and("m.whole")
            .rounded(|w, x| {
                let whole = w.exact(x[0], f64::trunc);
                let [low, high] = [x[0].low, x[0].high].map(|x| x - x.trunc());
                [w.rounded(Interval { low, high }), whole, ANY, ANY]
            }),
        pairs(Builtin::of("min(x, y)", 2, "min(a, b)", |x| single(x[0].min(x[1]))))
            .rounded(|w, x| one(w.min(x[0], x[1]))),
        pairs(Builtin::of("max(x, y)", 2, "max(a, b)", |x| single(x[0].max(x[1]))))
            .rounded(|w, x| one(w.max(x[0], x[1]))),
        pairs(Builtin::of("step(edge, x)", 2, "step(a, b)", |x| single(f64::from(u8::from(x[0] <= x[1]))))).rounded(
            |_, x| {
                one(Interval {
                    low: f64::from(u8::from(x[0].high <= x[1].low)),
                    high: f64::from(u8::from(x[0].low <= x[1].high)),
                })
            },
        ),
        pairs(Builtin::of("clamp(x, low, high)", 3, "clamp(a, b, c)", |x| single(x[0].max(x[1]).min(x[2])))).row(Row {
            part: "low <= high",
            domain: |x| x[1] <= x[2],
            measure: Measure::Ulp,
            words: ["correctly rounded"; 2],
            allowed: |w, x| one(w.clamp(x[0], x[1], x[2])),
            only: None,
        }),
    ]
}
