// Remainders and quotients rounded down, exact whatever the quotient. A float is taken apart into an integer and a power of two; integers are
// divided with digits of many bits, each guessed by a float quotient and put right by what is left, modulo 2^32 or 2^64.

// (significand, exponent) of the bits of a number above 0: it is significand 2^(exponent - 150), 2^23 <= significand < 2^24.
fn taken_apart_f32(size: u32) -> vec2<i32> {
    let exponent = i32(size >> 23u);
    let significand = select((size & 0x7fffffu) | 0x800000u, size, exponent == 0);
    let lead = countLeadingZeros(significand) - 8u;
    return vec2<i32>(i32(significand << lead), max(exponent, 1) - i32(lead));
}

// The bits of significand 2^(exponent - 150) where that is a number of f32 and significand < 2^24.
fn put_together_f32(significand: u32, exponent: i32) -> u32 {
    let lead = countLeadingZeros(significand | 1u) - 8u;
    let top = significand << lead;
    let e = exponent - i32(lead);
    let normal = (top & 0x7fffffu) | (u32(max(e, 1)) << 23u);
    return select(select(top >> u32(clamp(1 - e, 0, 31)), normal, e >= 1), 0u, significand == 0u);
}

// The bits of |a| mod |b| for 0 < b <= a < inf, 20 bits of the quotient a round: a guess of it is wrong by less than one.
fn rest_f32(a_size: u32, b_size: u32) -> u32 {
    let a = taken_apart_f32(a_size);
    let b = taken_apart_f32(b_size);
    let divisor = u32(b.x);
    let inverse = 1.0 / f32(divisor);
    var rest = u32(a.x);
    rest = select(rest, rest - divisor, rest >= divisor);
    var left = a.y - b.y; // at most 276
    for (var i = 0u; i < 14u; i++) {
        if left <= 0 { break; }
        let bits = u32(min(left, 20));
        let digit = u32(f32(rest) * (f32(1u << bits) * inverse));
        rest = (rest << bits) - digit * divisor;
        rest = select(rest, rest + divisor, rest >= 0x80000000u);
        rest = select(rest, rest - divisor, rest >= divisor);
        left -= 20;
    }
    return put_together_f32(rest, b.y);
}

fn rem_f32(a: f32, b: f32) -> f32 {
    let a_size = bitcast<u32>(a) & 0x7fffffffu;
    let b_size = bitcast<u32>(b) & 0x7fffffffu;
    var size = a_size;
    if (a_size >= 0x7f800000u) | (b_size == 0u) | (b_size > 0x7f800000u) {
        size = 0x7fc00000u;
    } else if a_size >= b_size {
        size = rest_f32(a_size, b_size);
    }
    return bitcast<f32>(size | (bitcast<u32>(a) & 0x80000000u));
}

// 2^149 times the number of these bits, where that is below 2^-100: a whole number, which no device takes for zero.
fn in_least_units_f32(size: u32) -> f32 {
    return select(bitcast<f32>(size + (149u << 23u)), f32(size), size < 0x800000u);
}

// |b| - |rest|, for a rest below |b| < inf.
fn up_to_f32(rest_size: u32, b_size: u32) -> f32 {
    // From here on a rest below the normal numbers, which devices may read as zero, is less than half a unit of b.
    if b_size >= 0x0d800000u {
        return bitcast<f32>(b_size) - bitcast<f32>(rest_size);
    }
    let units = in_least_units_f32(b_size) - in_least_units_f32(rest_size);
    let normal = bitcast<u32>(units) - (149u << 23u);
    return bitcast<f32>(select(normal, u32(units), units < 8388608.0));
}

fn remainder_f32(a: f32, b: f32) -> f32 {
    let rest = rem_f32(a, b);
    let bits = bitcast<u32>(rest);
    let size = bits & 0x7fffffffu;
    let b_size = bitcast<u32>(b) & 0x7fffffffu;
    let differs = ((bits ^ bitcast<u32>(b)) >= 0x80000000u) & (size < 0x7f800000u);
    var moved = b;
    if b_size < 0x7f800000u {
        moved = bitcast<f32>(bitcast<u32>(up_to_f32(size, b_size)) | (bitcast<u32>(b) & 0x80000000u));
    }
    return select(select(rest, moved, differs), copysign_f32(0.0, b), size == 0u);
}

// The quotient is guessed to a few units, and what is left of a says how many.
fn floor_divide_f32(a: f32, b: f32) -> f32 {
    let a_size = bitcast<u32>(a) & 0x7fffffffu;
    let b_size = bitcast<u32>(b) & 0x7fffffffu;
    if a_size == 0x7f800000u { return nan_f32(a); }
    if (a_size > 0x7f800000u) | (b_size > 0x7f800000u) | (b_size == 0u) { return div_f32(a, b); }
    let negative = (bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u;
    var quotient = 0u;
    var rest = a_size;
    if a_size >= b_size {
        let x = taken_apart_f32(a_size);
        let y = taken_apart_f32(b_size);
        let left = x.y - y.y;
        if left > 24 { return div_f32(a, b); } // beyond 2^24, where every number is a whole one
        let divisor = u32(y.x);
        let power = f32(1u << u32(left));
        quotient = u32((f32(x.x) / f32(divisor)) * power);
        rest = (u32(x.x) << u32(left)) - quotient * divisor;
        // Between -16 and 16 times the divisor: up by 16, so that integers divide without a sign.
        rest += divisor << 4u;
        let more = rest / divisor;
        quotient = quotient + more - 16u;
        rest -= more * divisor;
    }
    quotient += select(0u, 1u, (negative != 0u) & (rest != 0u));
    return bitcast<f32>(bitcast<u32>(f32(quotient)) | negative);
}

fn leading_zeros_u64(x: u64) -> u32 {
    let high = u32(x >> 32u);
    return select(countLeadingZeros(high), 32u + countLeadingZeros(u32(x & 0xfffffffflu)), high == 0u);
}

// The significand of the bits of a number above 0, from 2^52 on; the number is significand 2^(exponent - 1075).
fn significand_f64(size: u64) -> u64 {
    let plain = select((size & 0xffffffffffffflu) | 0x10000000000000lu, size, size < 0x10000000000000lu);
    return plain << (leading_zeros_u64(plain) - 11u);
}

fn exponent_f64(size: u64) -> i32 {
    if size >= 0x10000000000000lu { return i32(u32(size >> 52u)); }
    return 12 - i32(leading_zeros_u64(size));
}

// The bits of significand 2^(exponent - 1075) where that is a number of f64 and significand < 2^53.
fn put_together_f64(significand: u64, exponent: i32) -> u64 {
    if significand == 0lu { return 0lu; }
    let lead = leading_zeros_u64(significand) - 11u;
    let top = significand << lead;
    let e = exponent - i32(lead);
    if e < 1 { return top >> u32(min(1 - e, 63)); }
    return (top & 0xffffffffffffflu) | (u64(u32(e)) << 52u);
}

// As of f32, 48 bits a round.
fn rest_f64(a_size: u64, b_size: u64) -> u64 {
    let b_exponent = exponent_f64(b_size);
    let divisor = significand_f64(b_size);
    let inverse = 1.0lf / f64(divisor);
    var rest = significand_f64(a_size);
    if rest >= divisor { rest = rest - divisor; }
    var left = exponent_f64(a_size) - b_exponent; // at most 2097
    for (var i = 0u; i < 44u; i++) {
        if left <= 0 { break; }
        let bits = u32(min(left, 48));
        let digit = u64(i64((f64(rest) * inverse) * power_of_two_f64(i32(bits))));
        rest = (rest << bits) - digit * divisor;
        if (rest >> 63u) == 1lu { rest = rest + divisor; }
        if rest >= divisor { rest = rest - divisor; }
        left -= 48;
    }
    return put_together_f64(rest, b_exponent);
}

fn rem_f64(a: f64, b: f64) -> f64 {
    let infinite = 0x7ff0000000000000lu;
    let a_size = bits_f64(a) & 0x7ffffffffffffffflu;
    let b_size = bits_f64(b) & 0x7ffffffffffffffflu;
    if a_size >= infinite || b_size == 0lu || b_size > infinite { return nan_f64(); }
    if a_size < b_size { return a; }
    return bitcast<f64>(rest_f64(a_size, b_size) | (bits_f64(a) & 0x8000000000000000lu));
}

fn remainder_f64(a: f64, b: f64) -> f64 {
    let rest = rem_f64(a, b);
    let size = bits_f64(rest) & 0x7ffffffffffffffflu;
    if size > 0x7ff0000000000000lu { return rest; }
    if size == 0lu { return copysign_f64(0.0lf, b); }
    if ((bits_f64(rest) ^ bits_f64(b)) >> 63u) == 0lu { return rest; }
    if (bits_f64(b) & 0x7ffffffffffffffflu) == 0x7ff0000000000000lu { return b; }
    return rest + b;
}

// As of f32.
fn floor_divide_f64(a: f64, b: f64) -> f64 {
    let infinite = 0x7ff0000000000000lu;
    let a_size = bits_f64(a) & 0x7ffffffffffffffflu;
    let b_size = bits_f64(b) & 0x7ffffffffffffffflu;
    if a_size == infinite { return nan_f64(); }
    if a_size > infinite || b_size > infinite || b_size == 0lu { return a / b; }
    let negative = (bits_f64(a) ^ bits_f64(b)) & 0x8000000000000000lu;
    var quotient = 0lu;
    var rest = a_size;
    if a_size >= b_size {
        let left = exponent_f64(a_size) - exponent_f64(b_size);
        if left > 53 { return a / b; } // beyond 2^53, where every number is a whole one
        let divisor = significand_f64(b_size);
        let dividend = significand_f64(a_size);
        quotient = u64(i64((f64(dividend) / f64(divisor)) * power_of_two_f64(left)));
        rest = (dividend << u32(left)) - quotient * divisor + (divisor << 4u);
        let more = rest / divisor;
        quotient = quotient + more - 16lu;
        rest = rest - more * divisor;
    }
    if negative != 0lu && rest != 0lu { quotient = quotient + 1lu; }
    return bitcast<f64>(bits_f64(f64(quotient)) | negative);
}

fn floor_divide_i32(a: i32, b: i32) -> i32 {
    let quotient = div_i32(a, b);
    let rest = a - quotient * b;
    return quotient - select(0, 1, (b != 0) & (rest != 0) & ((rest ^ b) < 0));
}

fn remainder_i32(a: i32, b: i32) -> i32 {
    let rest = rem_i32(a, b);
    return select(rest, rest + b, (rest != 0) & ((rest ^ b) < 0));
}

fn floor_divide_i64(a: i64, b: i64) -> i64 {
    let quotient = div_i64(a, b);
    let rest = a - quotient * b;
    return quotient - select(0li, 1li, (b != 0li) & (rest != 0li) & ((rest ^ b) < 0li));
}

fn remainder_i64(a: i64, b: i64) -> i64 {
    let rest = rem_i64(a, b);
    return select(rest, rest + b, (rest != 0li) & ((rest ^ b) < 0li));
}
