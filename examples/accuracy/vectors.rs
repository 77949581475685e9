//! The geometric builtins, `determinant`, and products of matrices with vectors.
//!
//! Limits: <https://www.w3.org/TR/WGSL/#concrete-float-accuracy>. Sums of products may cancel: errors are counted in units
//! of the largest term.

use super::builtins::{Builtin, Measure, Results, Row, single};
use super::interval::{ANY, Allowed, Interval, Wgsl, one, point};

const VEC3: &str = "let p = vec3<T>(a, b, c); let q = vec3<T>(d, e, f);";

pub fn builtins() -> Vec<Builtin> {
    let mut list = vec![dot(), cross(), length(), distance(), normalize(), reflect(), face_forward(), refract()];
    list.extend([product(), determinant()]);
    list
}

fn sum_of_products(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn largest_product(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).fold(0.0, |largest, (x, y)| (x * y).abs().max(largest))
}

fn root(x: &[f64]) -> f64 {
    sum_of_products(x, x).sqrt()
}

/// The components of `f` at 0, 1 and 2.
fn three<T: Copy>(rest: T, f: impl Fn(usize) -> T) -> [T; 4] {
    [f(0), f(1), f(2), rest]
}

fn dot() -> Builtin {
    Builtin::of("dot(x, y), vec4", 8, "dot(vec4<T>(a, b, c, d), vec4<T>(e, f, g, h))", |x| {
        single(sum_of_products(&x[..4], &x[4..]))
    })
    .term(|x| largest_product(&x[..4], &x[4..8]))
    .limit("inherited from the sum of `x[i] y[i]`, in any order", |w, x| one(w.dot(&x[..4], &x[4..])))
}

fn cross() -> Builtin {
    Builtin::of("cross(x, y)", 6, "v.x", |x| {
        three(0.0, |i| {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            x[j] * x[3 + k] - x[k] * x[3 + j]
        })
    })
    .before("let v = cross(vec3<T>(a, b, c), vec3<T>(d, e, f));")
    .and("v.y")
    .and("v.z")
    .term(|x| {
        let largest = |x: &[f64]| x.iter().fold(0.0, |largest: f64, x| x.abs().max(largest));
        largest(&x[..3]) * largest(&x[3..6])
    })
    .limit("inherited from `x[i] y[j] - x[j] y[i]`", |w, x| {
        three(ANY, |i| {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            w.sub(w.mul(x[j], x[3 + k]), w.mul(x[k], x[3 + j]))
        })
    })
}

fn length() -> Builtin {
    Builtin::of("length(x), vec3", 3, "length(vec3<T>(a, b, c))", |x| single(root(x)))
        .limit("inherited from `sqrt(dot(x, x))`", |w, x| one(w.length(x)))
}

fn distance() -> Builtin {
    Builtin::of("distance(x, y), vec3", 6, "distance(p, q)", |x| single(root(&three(0.0, |i| x[i] - x[3 + i])[..3])))
        .before(VEC3)
        .limit("inherited from `length(x - y)`", |w, x| {
            one(w.length(&three(point(0.0), |i| w.sub(x[i], x[3 + i]))[..3]))
        })
}

fn normalize() -> Builtin {
    Builtin::of("normalize(x), vec3", 3, "v.x", |x| three(0.0, |i| x[i] / root(x)))
        .before("let v = normalize(vec3<T>(a, b, c));")
        .and("v.y")
        .and("v.z")
        .limit("inherited from `x / length(x)`", |w, x| {
            let length = w.length(x);
            three(ANY, |i| w.div(x[i], length))
        })
}

fn reflect() -> Builtin {
    Builtin::of("reflect(x, y), vec3", 6, "v.x", |x| {
        let along = sum_of_products(&x[..3], &x[3..]);
        three(0.0, |i| x[i] - 2.0 * along * x[3 + i])
    })
    .before("let v = reflect(vec3<T>(a, b, c), vec3<T>(d, e, f));")
    .and("v.y")
    .and("v.z")
    .draw(|r, x| x.iter_mut().for_each(|x| *x = r.within(-2.0, 2.0)))
    .term(|x| {
        let y = x[3..6].iter().fold(0.0, |largest: f64, y| y.abs().max(largest));
        x[..3].iter().fold(2.0 * largest_product(&x[..3], &x[3..6]) * y, |largest, x| x.abs().max(largest))
    })
    .limit("inherited from `x - 2 dot(x, y) y`", |w, x| {
        let twice = w.mul(point(2.0), w.dot(&x[..3], &x[3..]));
        three(ANY, |i| w.sub(x[i], w.mul(twice, x[3 + i])))
    })
}

fn face_forward() -> Builtin {
    Builtin::of("faceForward(x, y, z), vec3", 9, "v.x", |x| {
        let sign = if sum_of_products(&x[3..6], &x[6..]) < 0.0 { 1.0 } else { -1.0 };
        three(0.0, |i| sign * x[i])
    })
    .before("let v = faceForward(vec3<T>(a, b, c), vec3<T>(d, e, f), vec3<T>(g, h, i));")
    .and("v.y")
    .and("v.z")
    .row(Row {
        part: "dot(y, z) not near 0",
        domain: |x| {
            let largest = largest_product(&x[3..6], &x[6..9]);
            largest < 1e4 && sum_of_products(&x[3..6], &x[6..9]).abs() > (0.01 * largest).max(0.01)
        },
        measure: Measure::Ulp,
        words: ["inherited from `select(-x, x, dot(z, y) < 0)`"; 2],
        allowed: |w, x| {
            let along = w.dot(&x[3..6], &x[6..]);
            three(ANY, |i| match along {
                along if along.high < 0.0 => x[i],
                along if along.low >= 0.0 => w.neg(x[i]),
                _ => x[i].hull(w.neg(x[i])),
            })
        },
        only: None,
    })
}

/// 1 - z^2 (1 - dot(y, x)^2), whose root the builtin takes.
fn discriminant(x: &[f64]) -> f64 {
    let along = sum_of_products(&x[..3], &x[3..6]);
    1.0 - x[6] * x[6] * (1.0 - along * along)
}

fn refract() -> Builtin {
    fn want(x: &[f64]) -> Results {
        let (k, along) = (discriminant(x), sum_of_products(&x[..3], &x[3..6]));
        three(0.0, |i| if k < 0.0 { 0.0 } else { x[6] * x[i] - (x[6] * along + k.sqrt()) * x[3 + i] })
    }
    fn allowed(w: &Wgsl, x: &[Interval]) -> Allowed {
        let (along, z, unit) = (w.dot(&x[3..6], &x[..3]), x[6], point(1.0));
        let k = w.sub(unit, w.mul(w.mul(z, z), w.sub(unit, w.mul(along, along))));
        if k.is_any() || k.low < 0.0 && k.high >= 0.0 {
            return [ANY; 4];
        }
        let factor = w.add(w.mul(z, along), w.sqrt(k));
        three(ANY, |i| if k.high < 0.0 { point(0.0) } else { w.sub(w.mul(z, x[i]), w.mul(factor, x[3 + i])) })
    }
    Builtin::of("refract(x, y, z), vec3", 7, "v.x", want)
        .before("let v = refract(vec3<T>(a, b, c), vec3<T>(d, e, f), g);")
        .and("v.y")
        .and("v.z")
        // Unit vectors up to rounding, as refraction requires.
        .draw(|r, x| {
            for vector in x[..6].chunks_exact_mut(3) {
                vector.iter_mut().for_each(|x| *x = r.within(-1.0, 1.0));
                let length = root(vector);
                vector.iter_mut().for_each(|x| *x /= length);
            }
            x[6] = r.within(0.25, 2.0);
        })
        .term(|x| {
            let large = |x: &[f64]| x.iter().fold(0.0, |largest: f64, x| x.abs().max(largest));
            let root = discriminant(x).max(0.0).sqrt();
            let factor = (x[6] * largest_product(&x[..3], &x[3..6])).abs().max(root);
            (x[6] * large(&x[..3])).abs().max(factor * large(&x[3..6]))
        })
        .row(Row {
            part: "x, y of length 1, k not near 0",
            domain: |x| {
                let unit = |x: &[f64]| (root(x) - 1.0).abs() < 0.01;
                unit(&x[..3]) && unit(&x[3..6]) && x[6].abs() <= 2.0 && discriminant(x).abs() > 0.02
            },
            measure: Measure::UlpOfTerm,
            words: ["inherited from `z x - (z dot(y, x) + sqrt(k)) y`, `k = 1 - z z (1 - dot(y, x)^2)`"; 2],
            allowed,
            only: None,
        })
}

/// A matrix's two columns of two times a vector of two.
fn product() -> Builtin {
    Builtin::of("mat2x2 * vec2", 6, "v.x", |x| [x[0] * x[4] + x[2] * x[5], x[1] * x[4] + x[3] * x[5], 0.0, 0.0])
        .before("let v = mat2x2<T>(a, b, c, d) * vec2<T>(e, f);")
        .and("v.y")
        .term(|x| {
            let largest = |x: &[f64]| x.iter().fold(0.0, |largest: f64, x| x.abs().max(largest));
            largest(&x[..4]) * largest(&x[4..6])
        })
        .limit("inherited from the sum of `m[j][i] v[j]`, in any order", |w, x| {
            [w.dot(&[x[0], x[2]], &x[4..]), w.dot(&[x[1], x[3]], &x[4..]), ANY, ANY]
        })
}

fn determinant() -> Builtin {
    Builtin::of("determinant(m), mat3x3", 9, "determinant(mat3x3<T>(a, b, c, d, e, f, g, h, i))", |x| {
        let minor = |i: usize, j: usize| x[3 + i] * x[6 + j] - x[3 + j] * x[6 + i];
        single(x[0] * minor(1, 2) - x[1] * minor(0, 2) + x[2] * minor(0, 1))
    })
    // Few enough bits to be exact in f64.
    .draw(|r, x| x.iter_mut().for_each(|x| *x = r.within(-256.0, 256.0).round() / 256.0))
    .row(Row {
        part: "entries in [-1, 1]",
        domain: |x| x.iter().all(|x| x.abs() <= 1.0),
        measure: Measure::Absolute,
        words: ["none (infinite ULP)"; 2],
        allowed: |_, _| [ANY; 4],
        only: None,
    })
}
