// i8 as 8 bits of a u32, computed in i32 and wrapped to 8 bits.

fn value_i8(bits: u32) -> i32 {
    return bitcast<i32>(bits << 24u) >> 24u;
}

fn bits_i8(x: i32) -> u32 {
    return bitcast<u32>(x) & 0xffu;
}

fn round_i8(x: i32) -> i32 {
    return (x << 24u) >> 24u;
}

fn unpack4_i8(w: u32) -> vec4<i32> {
    return vec4<i32>(value_i8(w), value_i8(w >> 8u), value_i8(w >> 16u), value_i8(w >> 24u));
}

fn pack4_i8(v: vec4<i32>) -> u32 {
    return bits_i8(v.x) | (bits_i8(v.y) << 8u) | (bits_i8(v.z) << 16u) | (bits_i8(v.w) << 24u);
}
