// f8e5m2 stored from values that are numbers of it already, having only been moved or chosen: an infinity stays one. Beside
// `f8e5m2.wgsl`, whose stores are for what was computed.

fn value_f8e5m2_kept(bits: u32) -> f32 {
    return value_f8e5m2(bits);
}

fn bits_f8e5m2_kept(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    return select(bits_f8e5m2(x), ((bits >> 24u) & 0x80u) | 0x7cu, (bits & 0x7fffffffu) == 0x7f800000u);
}

fn unpack4_f8e5m2_kept(w: u32) -> vec4<f32> {
    return unpack4_f8e5m2(w);
}

fn pack4_f8e5m2_kept(v: vec4<f32>) -> u32 {
    let low = bits_f8e5m2_kept(v.x) | (bits_f8e5m2_kept(v.y) << 8u);
    return low | (bits_f8e5m2_kept(v.z) << 16u) | (bits_f8e5m2_kept(v.w) << 24u);
}
