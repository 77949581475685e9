//! Conversions between scalar types, and packing into and out of 32 bits.
//!
//! Rules: <https://www.w3.org/TR/WGSL/#floating-point-conversion> and the table of builtins. Packed results are compared
//! lane by lane, as integers.

use super::builtins::{ALL, Builtin, F32_ONLY, Measure, Results, Row, single};
use super::float::{Format, Type, power};
use super::interval::{ANY, Allowed, Interval, Wgsl, one, point};

const F16_ONLY: &[Type] = &[Type::F16];
const ROUNDED: [&str; 2] = ["correctly rounded"; 2];
const TRUNCATED: [&str; 2] = ["truncated, clamped to what the type and i32 can both represent"; 2];

pub fn builtins() -> Vec<Builtin> {
    [conversions(), packing(), unpacking()].concat()
}

fn line(
    measure: Measure,
    words: [&'static str; 2],
    domain: fn(&[f64]) -> bool,
    part: &'static str,
    allowed: fn(&Wgsl, &[Interval]) -> Allowed,
) -> Row {
    Row { part, domain, measure, words, allowed, only: None }
}

/// Truncates, and clamps to low and high, which the float type represents.
fn truncated(w: &Wgsl, x: Interval, low: f64, high: f64) -> Interval {
    // The greatest value that the float type can also represent; the limits of halves are inside the range.
    let high = w.format.down(high.min(w.format.max()));
    let low = low.max(-w.format.max());
    Interval { low: x.low.trunc().clamp(low, high), high: x.high.trunc().clamp(low, high) }
}

const I32: (f64, f64) = (-2147483648.0, 2147483647.0);
const U32: (f64, f64) = (0.0, 4294967295.0);

fn conversions() -> Vec<Builtin> {
    vec![
        Builtin::of("i32(x)", 1, "i32(a)", |x| single(x[0].trunc().clamp(I32.0, 2147483520.0)))
            .types(FLOATS)
            .to(Type::I32)
            .draw(|r, x| x[0] = r.sized(-1.0, 33.0))
            .row(line(Measure::Absolute, TRUNCATED, |_| true, "", |w, x| one(truncated(w, x[0], I32.0, I32.1)))),
        Builtin::of("u32(x)", 1, "u32(a)", |x| single(x[0].trunc().clamp(U32.0, 4294967040.0)))
            .types(FLOATS)
            .to(Type::U32)
            .draw(|r, x| x[0] = r.sized(-1.0, 33.0))
            .row(line(Measure::Absolute, TRUNCATED, |_| true, "", |w, x| one(truncated(w, x[0], U32.0, U32.1)))),
        Builtin::of("T(i32)", 1, "T(a)", |x| single(x[0])).types(ALL).from(Type::I32).draw(integers).row(line(
            Measure::Ulp,
            ROUNDED,
            |_| true,
            "",
            |w, x| one(w.rounded(x[0])),
        )),
        Builtin::of("T(u32)", 1, "T(a)", |x| single(x[0])).types(ALL).from(Type::U32).draw(integers).row(line(
            Measure::Ulp,
            ROUNDED,
            |_| true,
            "",
            |w, x| one(w.rounded(x[0])),
        )),
        Builtin::of("f16(f32)", 1, "T(a)", |x| single(x[0]))
            .types(F16_ONLY)
            .from(Type::F32)
            .draw(|r, x| x[0] = r.sized(-26.0, 16.0))
            .row(line(Measure::Ulp, ROUNDED, |_| true, "", |w, x| one(w.rounded(x[0])))),
        Builtin::of("f32(f16)", 1, "T(a)", |x| single(x[0])).types(F32_WITH_HALVES).from(Type::F16).row(line(
            Measure::Ulp,
            ROUNDED,
            |_| true,
            "",
            |w, x| {
                // A subnormal half may be flushed before it is converted.
                let flushed = if Format::F16.is_subnormal(x[0].low) { point(0.0) } else { x[0] };
                one(w.rounded(x[0]).hull(flushed))
            },
        )),
    ]
}

const FLOATS: &[Type] = &[Type::F32, Type::F16];
const F32_WITH_HALVES: &[Type] = F32_ONLY;

fn integers(r: &mut super::inputs::Random, x: &mut [f64]) {
    x[0] = (r.sized(0.0, 32.0)).trunc();
}

/// floor(0.5 + factor clamp(x, low, 1)), its intermediate value rounded either way.
fn packed(w: &Wgsl, x: Interval, factor: f64, low: f64) -> Interval {
    let x = w.clamp(x, point(low), point(1.0));
    let scaled = w.add(w.mul(x, point(factor)), point(0.5));
    Interval { low: scaled.low.floor(), high: scaled.high.floor() }
}

fn pack(x: &[f64], factor: f64, low: f64) -> Results {
    std::array::from_fn(|i| x.get(i).map_or(0.0, |x| (0.5 + factor * x.clamp(low, 1.0)).floor()))
}

const LANES: [&str; 2] = ["the nearest, intermediate result correctly rounded"; 2];

fn packing() -> Vec<Builtin> {
    fn near_ties(r: &mut super::inputs::Random, x: &mut [f64]) {
        for x in x {
            *x = match r.below(3) {
                0 => r.within(-1.25, 1.25),
                1 => r.within(-65535.0, 65535.0).round() / 65535.0 / 2.0,
                _ => r.within(-255.0, 255.0).round() / 127.0 / 2.0,
            };
        }
    }
    let lanes = |name, arity, before, first, want| {
        Builtin::of(name, arity, first, want).types(F32_ONLY).before(before).draw(near_ties)
    };
    let four = "bitcast<i32>(p << 24u) >> 24u";
    vec![
        lanes("pack4x8snorm(x)", 4, "let p = pack4x8snorm(vec4<f32>(a, b, c, d));", four, |x| pack(x, 127.0, -1.0))
            .and("bitcast<i32>(p << 16u) >> 24u")
            .and("bitcast<i32>(p << 8u) >> 24u")
            .and("bitcast<i32>(p) >> 24u")
            .to(Type::I32)
            .row(line(
                Measure::Absolute,
                LANES,
                |_| true,
                "",
                |w, x| std::array::from_fn(|i| packed(w, x[i], 127.0, -1.0)),
            )),
        lanes("pack4x8unorm(x)", 4, "let p = pack4x8unorm(vec4<f32>(a, b, c, d));", "p & 255u", |x| {
            pack(x, 255.0, 0.0)
        })
        .and("(p >> 8u) & 255u")
        .and("(p >> 16u) & 255u")
        .and("p >> 24u")
        .to(Type::U32)
        .row(line(
            Measure::Absolute,
            LANES,
            |_| true,
            "",
            |w, x| std::array::from_fn(|i| packed(w, x[i], 255.0, 0.0)),
        )),
        lanes("pack2x16snorm(x)", 2, "let p = pack2x16snorm(vec2<f32>(a, b));", "bitcast<i32>(p << 16u) >> 16u", |x| {
            pack(x, 32767.0, -1.0)
        })
        .and("bitcast<i32>(p) >> 16u")
        .to(Type::I32)
        .row(line(
            Measure::Absolute,
            LANES,
            |_| true,
            "",
            |w, x| [packed(w, x[0], 32767.0, -1.0), packed(w, x[1], 32767.0, -1.0), ANY, ANY],
        )),
        lanes("pack2x16unorm(x)", 2, "let p = pack2x16unorm(vec2<f32>(a, b));", "p & 65535u", |x| {
            pack(x, 65535.0, 0.0)
        })
        .and("p >> 16u")
        .to(Type::U32)
        .row(line(
            Measure::Absolute,
            LANES,
            |_| true,
            "",
            |w, x| [packed(w, x[0], 65535.0, 0.0), packed(w, x[1], 65535.0, 0.0), ANY, ANY],
        )),
        lanes("pack2x16float(x)", 2, "let p = pack2x16float(vec2<f32>(a, b));", "p & 65535u", |x| {
            [x[0], x[1], 0.0, 0.0]
        })
        .and("p >> 16u")
        .to(Type::HalfInU32)
        .draw(|r, x| x.iter_mut().for_each(|x| *x = r.sized(-26.0, 16.0)))
        .row(line(
            Measure::Ulp,
            ROUNDED,
            // Beyond this the whole result is indeterminate.
            |x| x.iter().all(|x| x.abs() <= Format::F16.max()),
            "\\|x\\| <= 65504",
            |_, x| {
                let half = Wgsl { format: Format::F16 };
                [half.rounded(x[0]), half.rounded(x[1]), ANY, ANY]
            },
        )),
    ]
}

/// The first `count` lanes of a word, of `bits` bits each, as signed or unsigned integers.
fn lanes(word: f64, bits: u32, signed: bool) -> Results {
    std::array::from_fn(|i| {
        let lane = (word as u32 as u64) >> (bits as usize * i) & ((1 << bits) - 1);
        let sign = signed && lane >> (bits - 1) == 1;
        lane as f64 - if sign { power(bits as i32) } else { 0.0 }
    })
}

fn unpacking() -> Vec<Builtin> {
    let two = |name, before| Builtin::of(name, 1, "v.x", |_| [0.0; 4]).before(before).and("v.y");
    let four = |name, before| two(name, before).and("v.z").and("v.w");
    let words = |b: Builtin, want: fn(&[f64]) -> Results, allowed| {
        let mut b = b.types(F32_ONLY).from(Type::U32).row(line(Measure::Ulp, ["3 ULP"; 2], |_| true, "", allowed));
        b.want = want;
        b.draw = |r, x| x[0] = (r.bits() >> 32) as f64;
        b
    };
    let mut list = vec![
        words(four("unpack4x8snorm(x)", "let v = unpack4x8snorm(a);"), snorm8, |w, x| {
            snorm8(&[x[0].low]).map(|value| w.ulps(value, 3.0))
        }),
        words(four("unpack4x8unorm(x)", "let v = unpack4x8unorm(a);"), unorm8, |w, x| {
            unorm8(&[x[0].low]).map(|value| w.ulps(value, 3.0))
        }),
        words(two("unpack2x16snorm(x)", "let v = unpack2x16snorm(a);"), snorm16, |w, x| {
            snorm16(&[x[0].low]).map(|value| w.ulps(value, 3.0))
        }),
        words(two("unpack2x16unorm(x)", "let v = unpack2x16unorm(a);"), unorm16, |w, x| {
            unorm16(&[x[0].low]).map(|value| w.ulps(value, 3.0))
        }),
    ];
    let halves = words(two("unpack2x16float(x)", "let v = unpack2x16float(a);"), float16, |w, x| {
        float16(&[x[0].low]).map(|value| {
            let exact = w.rounded(point(value));
            if Format::F16.is_subnormal(value) { exact.hull(point(0.0)) } else { exact }
        })
    });
    list.push(Builtin { rows: halves.rows.iter().map(|row| Row { words: ROUNDED, ..*row }).collect(), ..halves });
    list
}

fn snorm8(x: &[f64]) -> Results {
    lanes(x[0], 8, true).map(|lane| (lane / 127.0).max(-1.0))
}

fn unorm8(x: &[f64]) -> Results {
    lanes(x[0], 8, false).map(|lane| lane / 255.0)
}

fn snorm16(x: &[f64]) -> Results {
    lanes(x[0], 16, true).map(|lane| (lane / 32767.0).max(-1.0))
}

fn unorm16(x: &[f64]) -> Results {
    lanes(x[0], 16, false).map(|lane| lane / 65535.0)
}

fn float16(x: &[f64]) -> Results {
    lanes(x[0], 16, false).map(|lane| Type::F16.decode(lane as u64))
}
