//! Functions that are not exact, made so: their argument is one of few numbers, and their result is cut into steps so
//! that none of those numbers comes near the edge of a step.
//!
//! The decision to know: the shift of the steps is searched for here, with all arguments, in double precision. An
//! implementation may be off by a hundredth of a step, far more than WGSL allows, and still gives the same integer.

use crate::generator::{Bound, Expr, Generator, float_literal};
use crate::types::{Scalar, Ty};

/// Least distance from the edge of a step, in steps. Precision of a builtin is absolute 2^-11 at worst (`sin`, `cos`).
const MARGIN: f64 = 0.02;

/// A function of one or two numbers.
struct Masked {
    /// Of `x` and `y`.
    text: &'static str,
    value: fn(f64, f64) -> f64,
    /// Arguments are integers in these ranges, times the unit.
    x: (i64, i64),
    y: (i64, i64),
    unit: f64,
    /// Steps of the result for each one.
    steps: f64,
}

const fn one(text: &'static str, value: fn(f64, f64) -> f64, x: (i64, i64), unit: f64, steps: f64) -> Masked {
    Masked { text, value, x, y: (0, 0), unit, steps }
}

const FUNCTIONS: [Masked; 30] = [
    one("sin(x)", |x, _| x.sin(), (-12, 12), 0.25, 4.0),
    one("cos(x)", |x, _| x.cos(), (-12, 12), 0.25, 4.0),
    one("tan(x)", |x, _| x.tan(), (-5, 5), 0.25, 2.0),
    one("asin(x)", |x, _| x.asin(), (-7, 7), 0.125, 4.0),
    one("acos(x)", |x, _| x.acos(), (-7, 7), 0.125, 4.0),
    one("atan(x)", |x, _| x.atan(), (-16, 16), 0.5, 4.0),
    one("sinh(x)", |x, _| x.sinh(), (-8, 8), 0.25, 2.0),
    one("cosh(x)", |x, _| x.cosh(), (-8, 8), 0.25, 2.0),
    one("tanh(x)", |x, _| x.tanh(), (-8, 8), 0.25, 4.0),
    one("asinh(x)", |x, _| x.asinh(), (-8, 8), 0.5, 4.0),
    one("acosh(x)", |x, _| x.acosh(), (3, 20), 0.5, 4.0),
    one("atanh(x)", |x, _| x.atanh(), (-6, 6), 0.125, 4.0),
    one("exp(x)", |x, _| x.exp(), (-8, 6), 0.5, 2.0),
    one("exp2(x)", |x, _| x.exp2(), (-8, 9), 0.5, 2.0),
    one("log(x)", |x, _| x.ln(), (1, 40), 0.5, 4.0),
    one("log2(x)", |x, _| x.log2(), (1, 40), 0.5, 4.0),
    one("sqrt(x)", |x, _| x.sqrt(), (1, 30), 1.0, 4.0),
    one("inverseSqrt(x)", |x, _| 1.0 / x.sqrt(), (1, 30), 0.25, 8.0),
    one("degrees(x)", |x, _| x.to_degrees(), (-8, 8), 0.25, 0.25),
    one("radians(x)", |x, _| x.to_radians(), (-20, 20), 10.0, 4.0),
    one("length(vec2<f32>(x, 3.0))", |x, _| x.hypot(3.0), (-20, 20), 1.0, 2.0),
    one("distance(vec3<f32>(x, 1.0, 2.0), vec3<f32>(-1.0, x, 0.5))", distance, (-12, 12), 1.0, 2.0),
    one("normalize(vec3<f32>(x, 2.0, -3.0)).x", |x, _| x / (x * x + 13.0).sqrt(), (-12, 12), 1.0, 8.0),
    one("smoothstep(-3.0, 5.0, x)", smoothstep, (-14, 14), 0.5, 8.0),
    one("mix(x, 7.0, 0.3)", |x, _| x + (7.0 - x) * 0.3, (-12, 12), 1.0, 2.0),
    one("refract(vec2<f32>(0.6, -0.8), vec2<f32>(0.0, 1.0), x).y", refract, (-10, 10), 0.0625, 16.0),
    Masked { text: "pow(x, y)", value: |x, y| x.powf(y), x: (1, 6), y: (-4, 4), unit: 0.5, steps: 4.0 },
    Masked { text: "atan2(x, y)", value: |x, y| x.atan2(y), x: (1, 6), y: (-6, 6), unit: 1.0, steps: 4.0 },
    Masked { text: "(x / y)", value: |x, y| x / y, x: (-12, 12), y: (1, 7), unit: 0.5, steps: 2.0 },
    Masked { text: "(x % (y + 0.25))", value: |x, y| x % (y + 0.25), x: (1, 12), y: (1, 4), unit: 1.0, steps: 1.0 },
];

fn distance(x: f64, _: f64) -> f64 {
    ((x + 1.0).powi(2) + (1.0 - x).powi(2) + 1.5 * 1.5).sqrt()
}

fn smoothstep(x: f64, _: f64) -> f64 {
    let t = ((x + 3.0) / 8.0).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

fn refract(eta: f64, _: f64) -> f64 {
    let d = -0.8;
    let k = 1.0 - eta * eta * (1.0 - d * d);
    eta * -0.8 - (eta * d + k.sqrt())
}

/// A shift in [0, 1) that keeps every result of `function` away from an integer, and the largest result.
fn shift(function: &Masked) -> Option<(f64, f64)> {
    let values: Vec<f64> = (function.x.0..=function.x.1)
        .flat_map(|x| (function.y.0..=function.y.1).map(move |y| (x as f64 * function.unit, y as f64 * function.unit)))
        .map(|(x, y)| (function.value)(x, y) * function.steps)
        .collect();
    let most = values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let distance =
        |shift: f64| values.iter().map(|x| x + shift).map(|x| (x - x.round()).abs()).fold(f64::INFINITY, f64::min);
    // Multiples of 1/1024: floats of any precision.
    let shifts = (0..1024).map(|i| f64::from(i) / 1024.0);
    let best = shifts.max_by(|a, b| distance(*a).total_cmp(&distance(*b)))?;
    (distance(best) >= MARGIN).then_some((best, (most + 1.0).ceil()))
}

impl Generator<'_> {
    /// A small integer, as a float, that an inexact function gives.
    pub(crate) fn masked(&mut self, n: usize, depth: usize) -> Expr {
        let index = self.random.below(FUNCTIONS.len());
        let function = &FUNCTIONS[index];
        let Some((_, most)) = shift(function) else { return self.changing_leaf(n, Scalar::F32) };
        self.spend(20.0 * n as f64);
        if function.text.contains("vec") && n > 1 {
            let float = self.types.name(&Ty::of(n, Scalar::F32));
            let parts: Vec<String> = (0..n).map(|_| self.masked_call(function, index, 1, depth)).collect();
            return self.stepped(format!("{float}({})", parts.join(", ")), most, n);
        }
        let call = self.masked_call(function, index, n, depth);
        self.stepped(call, most, n)
    }

    fn stepped(&mut self, text: String, most: f64, n: usize) -> Expr {
        let expr = Expr::bounded(text, Bound { most, fraction: 0 });
        self.at_rest(expr, &Ty::of(n, Scalar::F32))
    }

    fn masked_call(&mut self, function: &Masked, index: usize, n: usize, depth: usize) -> String {
        let name = format!("step_{index}_{n}");
        if !self.helpers.contains_key(&name)
            && let Some((shift, _)) = shift(function)
        {
            let (float, int) = (self.types.name(&Ty::of(n, Scalar::F32)), self.types.name(&Ty::of(n, Scalar::I32)));
            let number = |x: f64| float_literal(x, Scalar::F32);
            let argument = |name: &str, range: (i64, i64)| {
                let (low, high) = (range.0.to_string(), range.1.to_string());
                let unit = number(function.unit);
                format!("    let {name} = {float}(clamp({name}i, {int}({low}i), {int}({high}i))) * {unit};\n")
            };
            let mut text = function.text.to_owned();
            if n > 1 {
                // Literals beside vectors have to be vectors in most builtins.
                for literal in ["-3.0", "5.0", "7.0", "0.3"] {
                    text = text.replace(&format!("{literal},"), &format!("{float}({literal}),"));
                    text = text.replace(&format!("{literal})"), &format!("{float}({literal}))"));
                }
            }
            let helper = format!(
                "fn {name}(xi: {int}, yi: {int}) -> {float} {{\n{}{}    return floor({text} * {} + {});\n}}\n",
                argument("x", function.x),
                argument("y", function.y),
                number(function.steps),
                number(shift)
            );
            self.helpers.insert(name.clone(), helper);
        }
        let x = self.changing(n, Scalar::I32, depth.saturating_sub(1)).text;
        let y = self.changing_leaf(n, Scalar::I32).text;
        // Wild numbers would nearly all be clamped to an end.
        let small = |x: String| if self.random.bits() & 3 == 0 { x } else { format!("({x} % 32i)") };
        let [x, y] = [x, y].map(small);
        format!("{name}({x}, {y})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_shift() {
        for function in &FUNCTIONS {
            assert!(shift(function).is_some(), "{}: no shift keeps its results off the edges", function.text);
        }
    }
}
