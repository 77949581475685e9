// bool as one byte of a u32: any bit set reads as true, true is written as 1.

fn value_bool(bits: u32) -> bool {
    return (bits & 0xffu) != 0u;
}

fn bits_bool(x: bool) -> u32 {
    return select(0u, 1u, x);
}

fn unpack4_bool(w: u32) -> vec4<bool> {
    return vec4<bool>(value_bool(w), value_bool(w >> 8u), value_bool(w >> 16u), value_bool(w >> 24u));
}

fn pack4_bool(v: vec4<bool>) -> u32 {
    return bits_bool(v.x) | (bits_bool(v.y) << 8u) | (bits_bool(v.z) << 16u) | (bits_bool(v.w) << 24u);
}
