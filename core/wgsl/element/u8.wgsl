// u8 as 8 bits of a u32, computed in u32 and wrapped to 8 bits.

fn value_u8(bits: u32) -> u32 {
    return bits & 0xffu;
}

fn bits_u8(x: u32) -> u32 {
    return x & 0xffu;
}

fn round_u8(x: u32) -> u32 {
    return x & 0xffu;
}

fn unpack4_u8(w: u32) -> vec4<u32> {
    return vec4<u32>(value_u8(w), value_u8(w >> 8u), value_u8(w >> 16u), w >> 24u);
}

fn pack4_u8(v: vec4<u32>) -> u32 {
    return bits_u8(v.x) | (bits_u8(v.y) << 8u) | (bits_u8(v.z) << 16u) | (v.w << 24u);
}
