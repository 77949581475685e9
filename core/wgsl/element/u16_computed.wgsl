// u16 is computed in u32 and wrapped to 16 bits; how it is stored is in u16.wgsl.

fn round_u16(x: u32) -> u32 {
    return x & 0xffffu;
}
