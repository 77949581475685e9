// f16 where shaders have it: storage is f16, the conversions are the device's own; but not where a value is rounded and
// stays in registers: NVIDIA's Vulkan driver (580) leaves out a conversion to f16 and back.

// To nearest, ties to even, by integers.
fn round_f16(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let normal = (size + 0xfffu + ((size >> 13u) & 1u)) & 0xffffe000u;
    let subnormal = bitcast<u32>(round(bitcast<f32>(size) * 0x1p24f) * 0x1p-24f);
    var rounded = select(subnormal, normal, size >= 0x38800000u);
    rounded = select(rounded, 0x7f800000u, size >= 0x477ff000u); // 65520 and above round to infinity
    rounded = select(rounded, 0x7fc00000u, size > 0x7f800000u); // NaN
    return bitcast<f32>((bits & 0x80000000u) | rounded);
}
