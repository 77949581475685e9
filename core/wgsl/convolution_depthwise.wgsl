// Computes      a convolution, or the gradient of its input, where each channel has one filter of its own: four channels at a time.
// Algorithm     1. the weights of the workgroup's channels go to workgroup memory, those of four channels and one tap as a vector; 2. an
//               invocation computes runs of PIXELS pixels along z: TAPS taps of a row at a time, whose inputs it reads once for the run
//               (SHARED), or once for each tap where they lie far apart.
// Tiling        QUADS vectors of channels by LANES runs, params.rounds times.
// Mapping       neighbours are channels of a run; runs of the gradient have pixels a stride apart, which meet the same taps.
// Shared memory weights: params.taps rows of PITCH vectors, PITCH odd: rows of neighbouring taps begin at other banks.
// Traffic       y once; x once for each row of taps, from caches but for the first time; weights once a workgroup.
// Numerics      one chain over taps in the accumulator's type. Rows of taps in the padding are left out, other padding is zero.
// Requires      prelude: alias Acc; const THREADS, QUADS, LANES, PIXELS, TAPS, STEP, TAP_STEP, SPAN, PITCH, WEIGHTS, FORWARD, SHARED, WHOLE;
//               Params, of which x, y and residual are counted in vectors; load4_x; load_w; finish(pixel, quad, sum);
//               convolution_depthwise_read.wgsl.
// Measured      not measured.

var<workgroup> weights: array<vec4<Acc>, WEIGHTS>;

// How windows move along an axis. The gradient of an input has gap = stride / divisor, divisor = gcd(stride, dilation), and the inverse of
// dilation / divisor modulo gap.
struct Axis {
    taps: u32,
    stride: u32,
    dilation: u32,
    before: u32,
    gap: u32,
    divisor: u32,
    inverse: u32,
}

fn axis_x() -> Axis {
    return Axis(
        params.taps_x, params.stride_x, params.dilation_x, params.before_x, params.gap_x, params.divisor_x, params.inverse_x,
    );
}

fn axis_y() -> Axis {
    return Axis(
        params.taps_y, params.stride_y, params.dilation_y, params.before_y, params.gap_y, params.divisor_y, params.inverse_y,
    );
}

fn axis_z() -> Axis {
    return Axis(
        params.taps_z, params.stride_z, params.dilation_z, params.before_z, params.gap_z, params.divisor_z, params.inverse_z,
    );
}

// The taps that a pixel meets along an axis: number i of them is tap + i * tap_gap of the window, and lies on first + i * tap_step.
struct Line {
    first: i32,
    tap: u32,
    taps: u32,
}

fn line_of(axis: Axis, pixel: u32) -> Line {
    if FORWARD { return Line(i32(pixel * axis.stride) - i32(axis.before), 0u, axis.taps); }
    // The last tap first, so that what is read ascends.
    let at = pixel + axis.before;
    if axis.stride == 1u {
        let last = axis.taps - 1u;
        return Line(i32(at) - i32(last * axis.dilation), last, axis.taps);
    }
    // Taps t for which at - t * dilation is a multiple of the stride: none, or all that are a gap apart.
    let remainder = at % axis.stride;
    let part = remainder / axis.divisor;
    let lowest = part * axis.inverse % axis.gap;
    if (part * axis.divisor != remainder) | (lowest >= axis.taps) { return Line(0, 0u, 0u); }
    let more = (axis.taps - 1u - lowest) / axis.gap;
    let last = lowest + more * axis.gap;
    return Line((i32(at) - i32(last * axis.dilation)) / i32(axis.stride), last, more + 1u);
}

fn weights_of(quad: u32, tap: u32) -> vec4<Acc> {
    let at = params.w_base + (4u * quad * params.taps + tap) * params.w_pitch;
    let next = params.taps * params.w_pitch;
    return vec4<Acc>(load_w(at), load_w(at + next), load_w(at + 2u * next), load_w(at + 3u * next));
}

// Run number `run` of the vector `quad`, which is number `column` of the workgroup's.
fn compute(run: u32, quad: u32, column: u32) {
    let place = indices(run, vec3<u32>(params.to_x, params.to_y, params.runs_z));
    let stretch = place.z / params.run_gap;
    let first_z = stretch * PIXELS * params.run_gap + (place.z - stretch * params.run_gap);
    let along_x = line_of(axis_x(), place.x);
    let along_y = line_of(axis_y(), place.y);
    let along_z = line_of(axis_z(), first_z);
    var sums: array<vec4<Acc>, PIXELS>;
    for (var i = 0u; i < along_x.taps; i++) {
        let x = u32(along_x.first) + i * params.tap_step_x;
        if x >= params.from_x { continue; }
        let tap_x = along_x.tap + i * params.tap_gap_x;
        for (var j = 0u; j < along_y.taps; j++) {
            let y = u32(along_y.first) + j * params.tap_step_y;
            if y >= params.from_y { continue; }
            let tap_y = along_y.tap + j * params.tap_gap_y;
            let row = ((place.w * params.from_x + x) * params.from_y + y) * params.from_z;
            let taps = (tap_x * params.taps_y + tap_y) * params.taps_z + along_z.tap;
            for (var k = 0u; k < along_z.taps; k += TAPS) {
                let first = u32(along_z.first) + k * params.tap_step_z;
                if SHARED {
                    var inputs: array<vec4<Acc>, SPAN>;
                    for (var s = 0u; s < SPAN; s++) { inputs[s] = read_x(row, first + s, params.from_z, quad); }
                    for (var t = 0u; t < TAPS; t++) {
                        if WHOLE | (k + t < along_z.taps) {
                            let weight = weights[(taps + (k + t) * params.tap_gap_z) * PITCH + column];
                            for (var p = 0u; p < PIXELS; p++) { sums[p] += inputs[p * STEP + t * TAP_STEP] * weight; }
                        }
                    }
                } else {
                    for (var t = 0u; t < TAPS; t++) {
                        if WHOLE | (k + t < along_z.taps) {
                            let weight = weights[(taps + (k + t) * params.tap_gap_z) * PITCH + column];
                            let under = first + t * params.tap_step_z;
                            for (var p = 0u; p < PIXELS; p++) {
                                sums[p] += read_x(row, under + p * params.step, params.from_z, quad) * weight;
                            }
                        }
                    }
                }
            }
        }
    }
    let pixels = ((place.w * params.to_x + place.x) * params.to_y + place.y) * params.to_z;
    for (var p = 0u; p < PIXELS; p++) {
        let z = first_z + p * params.run_gap;
        if z < params.to_z { finish(pixels + z, quad, sums[p]); }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= params.workgroups { return; }
    let row = id / params.blocks;
    let first_quad = (id - row * params.blocks) * QUADS;
    // Phase 1.
    for (var i = thread; i < params.taps * QUADS; i += THREADS) {
        let column = i / params.taps;
        let tap = i - column * params.taps;
        if first_quad + column < params.quads { weights[tap * PITCH + column] = weights_of(first_quad + column, tap); }
    }
    workgroupBarrier(); // the weights are there
    // Phase 2.
    let column = thread % QUADS;
    if first_quad + column >= params.quads { return; }
    for (var round = 0u; round < params.rounds; round++) {
        let run = (row * params.rounds + round) * LANES + thread / QUADS;
        if run >= params.runs { return; }
        compute(run, first_quad + column, column);
    }
}
