// u32 keys that order as floats do, NaN beyond every number on the side that is looked for: extrema without arithmetic on NaN.

fn largest_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let key = select(bits | 0x80000000u, ~bits, bits != magnitude);
    return select(key, 0xffffffffu, magnitude > 0x7f800000u);
}

fn smallest_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let key = select(bits | 0x80000000u, ~bits, bits != magnitude);
    return select(key, 0u, magnitude > 0x7f800000u);
}

fn of_key(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

