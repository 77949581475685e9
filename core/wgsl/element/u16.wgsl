// Two bytes of a u32 as they are: what a copy of f16 and bf16 moves.

fn value_u16(bits: u32) -> u32 {
    return bits & 0xffffu;
}

fn bits_u16(x: u32) -> u32 {
    return x & 0xffffu;
}

fn unpack4_u16(w: vec2<u32>) -> vec4<u32> {
    return vec4<u32>(w.x & 0xffffu, w.x >> 16u, w.y & 0xffffu, w.y >> 16u);
}

fn pack4_u16(v: vec4<u32>) -> vec2<u32> {
    return vec2<u32>((v.x & 0xffffu) | (v.y << 16u), (v.z & 0xffffu) | (v.w << 16u));
}
