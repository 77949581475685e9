// f16 where shaders have it: storage is f16, the conversions are the device's own.

fn round_f16(x: f32) -> f32 {
    return f32(f16(x));
}
