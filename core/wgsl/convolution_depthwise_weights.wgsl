// Computes      a slab of the gradient of a convolution's weights, where each channel has one filter of its own: four channels at a time.
// Algorithm     1. an invocation walks runs of PIXELS pixels of dy along z, and adds up ROWS rows of TAPS taps: dy is read once for all of
//               them, inputs of a row once for the run (SHARED), or once for each tap where they lie far apart; 2. the LANES sums of
//               a weight are folded by halves in workgroup memory.
// Tiling        QUADS vectors of channels by ROWS * TAPS taps, params.rounds * LANES runs.
// Mapping       neighbours are channels of a run; a workgroup's runs of a round lie one behind the other.
// Shared memory partial: THREADS vectors.
// Traffic       dy once for each ROWS * TAPS taps; x once for each of ROWS, from caches but for the first time.
// Numerics      a chain over the runs of a lane in the accumulator's type, a tree over lanes; slabs are added up by convolution_combine.wgsl.
//               Rows of taps in the padding are left out, other padding is zero.
// Requires      prelude: alias Acc; const THREADS, QUADS, LANES, PIXELS, ROWS, TAPS, STEP, TAP_STEP, SPAN, SHARED; Params, of which x and w
//               (dy) are counted in vectors; load4_x; load4_w; finish(slab, element, sum); convolution_depthwise_read.wgsl.
// Measured      not measured.

var<workgroup> partial: array<vec4<Acc>, THREADS>;

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
    let lane = thread / QUADS;
    var sums: array<vec4<Acc>, ROWS * TAPS>;
    // Phase 1. A vector behind the last one reads nothing but still meets the barriers.
    if quad < params.quads {
        for (var round = 0u; round < params.rounds; round++) {
            let run = (slab * params.rounds + round) * LANES + lane;
            if run >= params.runs { break; }
            let place = indices(run, vec3<u32>(params.to_x, params.to_y, params.runs_z));
            let x = place.x * params.stride_x + first_tap.x * params.dilation_x - params.before_x;
            if x >= params.from_x { continue; }
            let first_z = place.z * PIXELS;
            let pixels = ((place.w * params.to_x + place.x) * params.to_y + place.y) * params.to_z;
            var gradients: array<vec4<Acc>, PIXELS>;
            for (var p = 0u; p < PIXELS; p++) {
                gradients[p] = load4_w(params.w_base + (pixels + min(first_z + p, params.to_z - 1u)) * params.w_pitch + quad);
            }
            let first = first_z * params.stride_z + first_tap.z * params.dilation_z - params.before_z;
            for (var r = 0u; r < ROWS; r++) {
                let tap_y = first_tap.y + r;
                let y = place.y * params.stride_y + tap_y * params.dilation_y - params.before_y;
                if (tap_y < params.taps_y) & (y < params.from_y) {
                    let row = ((place.w * params.from_x + x) * params.from_y + y) * params.from_z;
                    if SHARED {
                        var inputs: array<vec4<Acc>, SPAN>;
                        for (var s = 0u; s < SPAN; s++) { inputs[s] = read_x(row, first + s, quad); }
                        for (var p = 0u; p < PIXELS; p++) {
                            if first_z + p < params.to_z {
                                for (var t = 0u; t < TAPS; t++) {
                                    sums[r * TAPS + t] += inputs[p * STEP + t * TAP_STEP] * gradients[p];
                                }
                            }
                        }
                    } else {
                        for (var p = 0u; p < PIXELS; p++) {
                            if first_z + p < params.to_z {
                                let under = first + p * params.stride_z;
                                for (var t = 0u; t < TAPS; t++) {
                                    sums[r * TAPS + t] += read_x(row, under + t * params.dilation_z, quad) * gradients[p];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    // Phase 2.
    for (var r = 0u; r < ROWS; r++) {
        for (var t = 0u; t < TAPS; t++) {
            partial[thread] = sums[r * TAPS + t];
            workgroupBarrier(); // the lanes' sums are there
            for (var half = LANES / 2u; half > 0u; half /= 2u) {
                if lane < half { partial[thread] += partial[thread + half * QUADS]; }
                workgroupBarrier(); // so are those of twice as many
            }
            let tap = first_tap + vec3<u32>(0u, r, t);
            if (lane == 0u) & (quad < params.quads) & (tap.y < params.taps_y) & (tap.z < params.taps_z) {
                let element = 4u * quad * params.taps + (tap.x * params.taps_y + tap.y) * params.taps_z + tap.z;
                let sum = partial[thread];
                for (var c = 0u; c < 4u; c++) { finish(slab, element + c * params.taps, sum[c]); }
            }
        }
    }
}
