// Computes      y[4 q .. 4 q + 3] = sample(Philox4x32-10(counter (q, 0, stream), key seed)).
// Algorithm     1. ten rounds of two wide products and four exclusive ors; 2. sample turns four words into four elements.
// Tiling        THREADS * ITEMS quads a workgroup; an invocation's quads lie THREADS apart.
// Mapping       quad q is block q, whatever the grid.
// Shared memory none.
// Traffic       every element written once; bound by integer products where shaders have no 64-bit integers.
// Numerics      bits and the unit interval exact; normals by minimax polynomials of their own.
// Requires      prelude: const THREADS, ITEMS; wide_product, sample; store4_y, store_tail_y.
// Measured      H200, Vulkan, 2026-11-21, 2^28 f32: 820 Gelem/s (3.28 TB/s) uniform (benches/results/h200-2026-11-21). H100, 2026-11-27: 630
//               normal, 0.83 of the copy's rate, through Vulkan 526 (benches/results/h100-2026-11-27b). Repeat: polywarp bench --suite random.
// References    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11; Box & Muller (1958).

struct Params {
    quads: u32,
    tail: u32,      // elements of a short last quad
    y_offset: u32,  // quads
    seed_low: u32,
    seed_high: u32,
    stream_low: u32,
    stream_high: u32,
    a: f32,         // low, or mean
    b: f32,         // high - low, or standard deviation
}
@group(0) @binding(0) var<uniform> params: Params;

$philox

// 24 bits fill the significand: every value is exact and below 1.
fn unit_interval(bits: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(bits >> vec4<u32>(8u)) * 0x1p-24f;
}

// sqrt(-2 ln u) (cos 2 pi v, sin 2 pi v) with u in (0, 1] from the first word and v in [0, 1) from the second. The polynomials are minimax
// ones, found by Remez' algorithm; together they are less than 6 units of the last place of the radius off.
fn normal_pair(radius_bits: u32, angle_bits: u32) -> vec2<f32> {
    // u = n 2^-24 = (1 + m) 2^e with 1 + m in [sqrt(1/2), sqrt(2)): every n is a normal number.
    let above = bitcast<u32>(f32((radius_bits >> 8u) + 1u)) - 0x3f3504f3u; // the bits of sqrt(1/2)
    let m = bitcast<f32>((above & 0x7fffffu) + 0x3f3504f3u) - 1.0;
    let e = bitcast<f32>((above >> 23u) + (0x4b400000u - 24u)) - 12582912.0; // an addition, not a conversion
    // -2 ln(1 + m) / m, to a relative 2^-22.4.
    var p = 0.20213807;
    p = p * m - 0.3244517;
    p = p * m + 0.34501658;
    p = p * m - 0.3980033;
    p = p * m + 0.49939818;
    p = p * m - 0.6667012;
    p = p * m + 1.0000073;
    p = p * m - 1.9999999;
    let square = p * m - e * 1.3862944;
    let radius = square * inverseSqrt(max(square, 0x1p-60f)); // 0 of 0
    // Half the angle, less a quarter turn, is pi t: no quadrants. With s and c its sine and cosine, the cosine wanted is 2 s s - 1, the
    // sine - 2 s c; both polynomials have a factor sqrt(2), to 2^-27 and 2^-23.8.
    let t = f32(angle_bits >> 8u) * 0x1p-24f - 0.5;
    let z = t * t;
    let s = t * ((((0.10968695 * z - 0.84604216) * z + 3.6063433) * z - 7.308245) * z + 4.442883);
    let minus_c = (((-0.31069818 * z + 1.883563) * z - 5.739461) * z + 6.978851) * z - 1.4142135;
    let long = radius * s;
    return vec2<f32>(long * s - radius, long * minus_c);
}

fn normal(bits: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(normal_pair(bits.x, bits.y), normal_pair(bits.z, bits.w));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    for (var i = 0u; i < ITEMS; i++) {
        let q = first + i * THREADS;
        if q >= params.quads { return; }
        let counter = vec4<u32>(q, 0u, params.stream_low, params.stream_high);
        let value = sample(philox(counter, vec2<u32>(params.seed_low, params.seed_high)));
        let at = params.y_offset + q;
        // Only the last quad may be short.
        if params.tail == 0u || q + 1u < params.quads { store4_y(at, value); } else { store_tail_y(at, value, params.tail); }
    }
}
