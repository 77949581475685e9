// Computes      y = x 2^s, with the matrix's largest finite magnitude in [2^14, 2^15); high = f16(y), low = f16((y - high) 2^11);
//               and for each product of the batch two factors whose product is 2^-(s of A + s of B).
// Algorithm     1. the largest of what matmul_split_largest.wgsl left; 2. factors; 3. parts of one unit after the other.
// Tiling        THREADS units of four elements a workgroup and turn.
// Mapping       neighbouring threads have neighbouring units; the workgroups of a matrix take turns.
// Shared memory 8 bytes a thread.
// Traffic       reads every element once, and writes as many bytes: every byte of both parts, what pads them being zeros.
// Numerics      high is rounded to nearest, by integers: see f16_native.wgsl. low may be truncated:
//               |x - (high + low 2^-11) 2^-s| <= 2^-22 |x| + 2^-49 max|x|; half of that where it is rounded. What is below 2^-14 of
//               f16's range keeps the distance of its smallest numbers, 2^-24. low of infinities and NaN is 0. Scales by two
//               powers of two each: one alone may be out of range.
// Requires      prelude: const THREADS; Params; quad_a and quad_b; maxima, parts_a, parts_b, factors. Then matmul_split.wgsl.
//               Subnormal f16, in conversions and in products.
// Measured      not measured.
// References    Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
//               peak performance" (2022): low parts kept 2^11 times as large.

const INFINITE = 0x7f800000u;

// The exponent of the scale of a matrix. Subnormal numbers have that of the smallest normal one.
fn scale_of(largest: u32) -> i32 {
    return select(14 - (max(i32(largest >> 23u), 1) - 127), 0, largest == 0u);
}

// Two factors whose product is 2^e, for e of -252 to 254.
fn powers(e: i32) -> vec2<f32> {
    let half = vec2<i32>(e / 2, e - e / 2);
    return bitcast<vec2<f32>>(vec2<u32>(half + vec2<i32>(127)) << vec2<u32>(23u));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= 2u * params.batches * params.blocks { return; }
    let work = work_of(id);
    // Phase 1. A matrix that products share has the first one's.
    let first_a = select(0u, work.matrix, params.a.matrices > 1u) * params.maxima;
    let first_b = (params.batches + select(0u, work.matrix, params.b.matrices > 1u)) * params.maxima;
    var own = vec2<u32>();
    for (var i = thread; i < params.maxima; i += THREADS) {
        own = max(own, vec2<u32>(maxima[first_a + i], maxima[first_b + i]));
    }
    let largest = largest_of_all(thread, own);
    let scale_a = scale_of(largest.x);
    let scale_b = scale_of(largest.y);
    // Phase 2. What 2^-252 makes of a sum is zero, as what less would make.
    if work.of_a && work.block == 0u && thread == 0u {
        factors[work.matrix] = powers(max(-scale_a - scale_b, -252));
    }
    // Phase 3.
    let scale = powers(select(scale_b, scale_a, work.of_a));
    for (var unit = work.block * THREADS + thread; unit < work.units; unit += params.blocks * THREADS) {
        let y = unit_of(work, unit) * scale.x * scale.y;
        let high = vec4<f32>(round_f16(y.x), round_f16(y.y), round_f16(y.z), round_f16(y.w));
        let finite = (bitcast<vec4<u32>>(y) & vec4<u32>(INFINITE)) != vec4<u32>(INFINITE);
        let low = select(vec4<f32>(), (y - high) * LOW_SCALE, finite);
        if work.of_a {
            let line = unit / params.a.units;
            let at = work.matrix * params.a.matrix + line * params.a.pitch + unit - line * params.a.units;
            parts_a[at + params.a.high] = vec4<f16>(high);
            parts_a[at + params.a.low] = vec4<f16>(low);
        } else {
            let line = unit / params.b.units;
            let at = work.matrix * params.b.matrix + line * params.b.pitch + unit - line * params.b.units;
            parts_b[at + params.b.high] = vec4<f16>(high);
            parts_b[at + params.b.low] = vec4<f16>(low);
        }
    }
}
