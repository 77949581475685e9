// Computes      a slab of the gradient of a convolution's weights, of groups of few channels: depthwise convolutions.
// Algorithm     one weight and slab an invocation, over the slab's pixels.
// Tiling        THREADS weights a workgroup.
// Mapping       weight = global number; neighbours are filters of a tap, which lie side by side in both operands.
// Shared memory none.
// Traffic       both operands once for each tap, from caches but for the first time.
// Numerics      one chain over the slab's pixels in the accumulator's type; slabs are added up by convolution_combine.wgsl.
// Requires      prelude: alias Acc; const THREADS; Params; convolution_weights.wgsl and what it requires; load_w; finish.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = (group.y * groups.x + group.x) * THREADS + thread;
    let filters = params.groups * params.written;
    let filter_number = item % filters;
    let part = filter_number / params.written;
    let walk = walk_of(0u);
    let size = size_of(walk);
    let m = item / filters % size.x;
    let slab = item / (filters * size.x);
    let begin = slab * params.slab;
    if begin >= size.z { return; }
    let end = min(begin + params.slab, size.z);
    let row = a_row(walk, part, m);
    let gradient = b_row(part, filter_number - part * params.written);
    var sum = Acc();
    for (var k = begin; k < end; k++) {
        sum += gathered(row, a_column(walk, part, k)) * load_w(gradient + b_column(walk, part, k));
    }
    finish(slab, vec2<u32>(filter_number, m), sum);
}
