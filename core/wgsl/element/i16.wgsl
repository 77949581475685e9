// i16 as 16 bits of a u32, computed in i32 and wrapped to 16 bits.

fn value_i16(bits: u32) -> i32 {
    return bitcast<i32>(bits << 16u) >> 16u;
}

fn bits_i16(x: i32) -> u32 {
    return bitcast<u32>(x) & 0xffffu;
}

fn round_i16(x: i32) -> i32 {
    return (x << 16u) >> 16u;
}

fn unpack4_i16(w: vec2<u32>) -> vec4<i32> {
    return vec4<i32>(value_i16(w.x), value_i16(w.x >> 16u), value_i16(w.y), value_i16(w.y >> 16u));
}

fn pack4_i16(v: vec4<i32>) -> vec2<u32> {
    return vec2<u32>(bits_i16(v.x) | (bits_i16(v.y) << 16u), bits_i16(v.z) | (bits_i16(v.w) << 16u));
}
