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
    let rest = bits & 0x7fffffffu;
    let normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13u) & 1u)) >> 13u;
    // Below 2^-14: the significand in units of 2^-24. Shifted by 25 nothing is left of it.
    let shift = clamp(126u - (rest >> 23u), 1u, 25u);
    let significand = (rest & 0x7fffffu) | 0x800000u;
    let subnormal = (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    var rounded = select(subnormal, normal, rest >= 0x38800000u);
    rounded = select(rounded, 0x7c00u, rest >= 0x477ff000u); // 65520 and above round to infinity
    rounded = select(rounded, 0x7e00u, rest > 0x7f800000u); // NaN
    return ((bits >> 16u) & 0x8000u) | rounded;
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
