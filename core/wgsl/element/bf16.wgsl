// bf16 as 16 bits of a u32, computed in f32: the upper half of an f32, rounded to nearest, ties to even.

fn value_bf16(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// The result in the upper half, anything in the lower.
fn upper_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rounded = bits + 0x7fffu + ((bits >> 16u) & 1u);
    // A NaN whose payload lies in the lower half must stay one.
    return select(rounded, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u);
}

fn bits_bf16(x: f32) -> u32 {
    return upper_bf16(x) >> 16u;
}

fn round_bf16(x: f32) -> f32 {
    return bitcast<f32>(upper_bf16(x) & 0xffff0000u);
}

fn unpack4_bf16(w: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(w.x << 16u, w.x & 0xffff0000u, w.y << 16u, w.y & 0xffff0000u));
}

fn pair_bf16(low: f32, high: f32) -> u32 {
    return (upper_bf16(low) >> 16u) | (upper_bf16(high) & 0xffff0000u);
}

fn pack4_bf16(v: vec4<f32>) -> vec2<u32> {
    return vec2<u32>(pair_bf16(v.x, v.y), pair_bf16(v.z, v.w));
}
