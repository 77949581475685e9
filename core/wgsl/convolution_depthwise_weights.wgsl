// Computes      a slab of the gradient of a convolution's weights, where each channel has one filter of its own: four channels at a time.
// Algorithm     1. an invocation walks runs of PIXELS pixels of dy along z, and adds up ROWS rows of TAPS taps: dy is read once for all of
//               them, inputs of a row once for the run, or once for each tap where they lie far apart; 2. the LANES sums of SUMS weights
//               at a time are folded by halves in workgroup memory.
// Tiling        QUADS vectors of channels by ROWS * TAPS taps, params.rounds * LANES runs.
// Mapping       neighbours are channels of a run; a workgroup's runs of a round lie one behind the other.
// Shared memory partial: SUMS rows of THREADS vectors.
// Traffic       dy once for each ROWS * TAPS taps; x once for each of ROWS, from caches but for the first time.
// Numerics      a chain over the runs of a lane in the accumulator's type, a tree over lanes; slabs are added up by convolution_combine.wgsl.
//               Slices of taps in the padding are left out, other padding is zero.
// Requires      prelude: alias Acc; const THREADS, QUADS, LANES, PIXELS, ROWS, TAPS, SUMS, WHOLE (rows of pixels are whole runs); Params, of
//               which x and w (dy) are counted in vectors; load4_x; load4_w; finish(slab, element, sum); convolution_depthwise_read.wgsl.
//               Sums, inputs and gradients are variables, written out: where a compiler keeps a loop, it keeps an array in memory.
// Measured      H200, Vulkan, 3 x 3 taps, 256 channels, 64 images of 28 x 28: f32 1.5 TB/s, f16 0.94.

var<workgroup> partial: array<vec4<Acc>, SUMS * THREADS>;

// Folds the sums of all lanes in the first `count` rows of `partial`: lane 0 has what they are together.
fn fold(thread: u32, count: u32) {
    let lane = thread / QUADS;
    workgroupBarrier(); // the lanes' sums are there
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        if lane < half {
            for (var i = 0u; i < count; i++) { partial[i * THREADS + thread] += partial[i * THREADS + thread + half * QUADS]; }
        }
        workgroupBarrier(); // so are those of twice as many
    }
}

// The end of what was folded: each of `count` lanes takes a sum. Sum number `first` of the workgroup's ROWS * TAPS taps is in the first row.
fn finish_folded(slab: u32, quad: u32, first_tap: vec3<u32>, thread: u32, first: u32, count: u32) {
    let lane = thread / QUADS;
    let number = first + lane;
    let tap = first_tap + vec3<u32>(0u, number / TAPS, number % TAPS);
    if (lane < count) & (quad < params.quads) & (tap.y < params.taps_y) & (tap.z < params.taps_z) {
        let element = 4u * quad * params.taps + (tap.x * params.taps_y + tap.y) * params.taps_z + tap.z;
        let sum = partial[lane * THREADS + thread % QUADS];
        finish(slab, element, sum.x);
        finish(slab, element + params.taps, sum.y);
        finish(slab, element + 2u * params.taps, sum.z);
        finish(slab, element + 3u * params.taps, sum.w);
    }
    workgroupBarrier(); // the sums have been read
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= params.workgroups { return; }
    let block = id % params.blocks;
    let part = indices(id / params.blocks, vec3<u32>(params.taps_x, params.parts_y, params.parts_z));
    let first_tap = vec3<u32>(part.x, part.y * ROWS, part.z * TAPS);
    let slab = part.w;
    let quad = block * QUADS + thread % QUADS;
    $sums
    // Phase 1. A vector behind the last one reads nothing but still meets the barriers.
    if quad < params.quads {
        for (var round = 0u; round < params.rounds; round++) {
            let run = (slab * params.rounds + round) * LANES + thread / QUADS;
            if run >= params.runs { break; }
            let place = indices(run, vec3<u32>(params.to_x, params.to_y, params.runs_z));
            let x = place.x * params.stride_x + first_tap.x * params.dilation_x - params.before_x;
            if x >= params.from_x { continue; }
            let first_z = place.z * PIXELS;
            let pixels = ((place.w * params.to_x + place.x) * params.to_y + place.y) * params.to_z;
            let slice = (place.w * params.from_x + x) * params.from_y;
            let first_y = place.y * params.stride_y + first_tap.y * params.dilation_y - params.before_y;
            let first = first_z * params.stride_z + first_tap.z * params.dilation_z - params.before_z;
            $gradients
            $rows
        }
    }
    // Phase 2.
    $folds
}
