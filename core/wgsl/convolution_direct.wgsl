// Computes      a convolution, or the gradient of its input, of groups of few channels: depthwise convolutions.
// Algorithm     one element an invocation, over the taps that it meets and the channels of its group.
// Tiling        THREADS elements a workgroup.
// Mapping       element = global number; neighbours are channels of a pixel.
// Shared memory none.
// Traffic       every tap's element and weight once for each element written; from caches but for the first time.
// Numerics      one chain over taps and channels in the accumulator's type.
// Requires      prelude: alias Acc; const THREADS; Params; convolution_rows.wgsl and what it requires; load_w; finish.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = (group.y * groups.x + group.x) * THREADS + thread;
    if item >= params.total { return; }
    let width = params.groups * params.written;
    let number = item / width;
    let channel = item - number * width;
    let part = channel / params.written;
    let pixel = indices(number, vec3<u32>(params.to_x, params.to_y, params.to_z));
    let walk = walk_of(phase_of(pixel.xyz));
    let row = row_at(walk, (pixel.xyz - walk.row_first) / walk.row_gap, pixel.w);
    let weights = b_row(part, channel - part * params.written);
    var sum = Acc();
    for (var x = 0u; x < walk.taps.x; x++) {
        for (var y = 0u; y < walk.taps.y; y++) {
            for (var z = 0u; z < walk.taps.z; z++) {
                let shift = vec3<i32>(i32(x), i32(y), i32(z)) * walk.tap_step;
                for (var c = 0u; c < params.read; c++) {
                    let column = vec4<i32>(shift, i32(part * params.read + c));
                    let weight = load_w(weights + weight_at(walk, part, vec4<u32>(x, y, z, c)));
                    sum += gathered(row, column) * weight;
                }
            }
        }
    }
    finish(0u, vec2<u32>(number, channel), sum);
}
