// f8e4m3 as 8 bits of a u32, computed in f32. Integer arithmetic: to nearest, ties to even; beyond 448, infinity included,
// 448; NaN is 0x7f of either sign. There is no infinity.

fn value_f8e4m3(bits: u32) -> f32 {
    let sign = (bits & 0x80u) << 24u;
    let rest = bits & 0x7fu;
    // A subnormal is a normal f32.
    let small = bitcast<u32>(f32(rest) * 0x1p-9f);
    let normal = (rest << 20u) + select(0x3c000000u, 0x78000000u, rest == 0x7fu);
    return bitcast<f32>(sign | select(normal, small, rest < 8u));
}

fn bits_f8e4m3(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rest = bits & 0x7fffffffu;
    let normal = (rest - 0x3c000000u + 0x7ffffu + ((rest >> 20u) & 1u)) >> 20u;
    // Below 2^-6: the significand in units of 2^-9. Shifted by 25 nothing is left of it.
    let shift = clamp(141u - (rest >> 23u), 1u, 25u);
    let significand = (rest & 0x7fffffu) | 0x800000u;
    let subnormal = (significand + (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u)) >> shift;
    var rounded = min(select(subnormal, normal, rest >= 0x3c800000u), 0x7eu);
    rounded = select(rounded, 0x7fu, rest > 0x7f800000u); // NaN
    return ((bits >> 24u) & 0x80u) | rounded;
}

fn round_f8e4m3(x: f32) -> f32 {
    return value_f8e4m3(bits_f8e4m3(x));
}

fn unpack4_f8e4m3(w: u32) -> vec4<f32> {
    return vec4<f32>(value_f8e4m3(w), value_f8e4m3(w >> 8u), value_f8e4m3(w >> 16u), value_f8e4m3(w >> 24u));
}

fn pack4_f8e4m3(v: vec4<f32>) -> u32 {
    return bits_f8e4m3(v.x) | (bits_f8e4m3(v.y) << 8u) | (bits_f8e4m3(v.z) << 16u) | (bits_f8e4m3(v.w) << 24u);
}
