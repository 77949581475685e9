// bf16 as 16 bits of a u32, computed in f32: the upper half of an f32, rounded to nearest, ties to even.

fn value_bf16(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

fn bits_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    // A NaN whose payload lies in the lower half must stay one.
    return select(rounded, (bits >> 16u) | 0x40u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn round_bf16(x: f32) -> f32 {
    return value_bf16(bits_bf16(x));
}

fn unpack4_bf16(w: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u));
}

fn pack4_bf16(v: vec4<f32>) -> vec2<u32> {
    return vec2<u32>(bits_bf16(v.x) | (bits_bf16(v.y) << 16u), bits_bf16(v.z) | (bits_bf16(v.w) << 16u));
}
