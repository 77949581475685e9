// f16 as 16 bits of a u32, computed in f32. Integer arithmetic, so that rounding (to nearest, ties to even), subnormals,
// infinities and NaN do not depend on what a driver makes of pack2x16float.

fn value_f16(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let rest = bits & 0x7fffu;
    // An f16 subnormal is a normal f32: made by a product, which no flushing of subnormal operands touches.
    let small = bitcast<u32>(f32(rest) * 0x1p-24f);
    let normal = (rest << 13u) + select(0x38000000u, 0x70000000u, rest >= 0x7c00u);
    return bitcast<f32>(sign | select(normal, small, rest < 0x400u));
}

fn bits_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let rest = bits & 0x7fffffffu;
    if rest > 0x7f800000u { return sign | 0x7e00u; }        // NaN
    if rest >= 0x477ff000u { return sign | 0x7c00u; }       // 65520 and above round to infinity
    if rest >= 0x38800000u {                                // 2^-14 and above: normal
        return sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13u) & 1u)) >> 13u);
    }
    if rest <= 0x33000000u { return sign; }                 // up to 2^-25: the tie goes to zero
    let shift = 126u - (rest >> 23u);                       // 14 to 24: the significand in units of 2^-24
    let significand = (rest & 0x7fffffu) | 0x800000u;
    let half = 1u << (shift - 1u);
    return sign | ((significand + half - 1u + ((significand >> shift) & 1u)) >> shift);
}

fn round_f16(x: f32) -> f32 {
    return value_f16(bits_f16(x));
}

fn unpack4_f16(w: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(value_f16(w.x), value_f16(w.x >> 16u), value_f16(w.y), value_f16(w.y >> 16u));
}

fn pack4_f16(v: vec4<f32>) -> vec2<u32> {
    return vec2<u32>(bits_f16(v.x) | (bits_f16(v.y) << 16u), bits_f16(v.z) | (bits_f16(v.w) << 16u));
}
