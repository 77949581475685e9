// Computes      y = the end of the sum of all slabs, in order: what follows kernels that wrote slabs. With no slab, the end of 0.
// Algorithm     one element an invocation.
// Tiling        THREADS elements a workgroup.
// Mapping       element = global number.
// Shared memory none.
// Traffic       every slab once.
// Numerics      one chain over the slabs in the accumulator's type.
// Requires      prelude: alias Acc; const THREADS; Params; slabs_of(element), the sum; finish.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = (group.y * groups.x + group.x) * THREADS + thread;
    if item >= params.total { return; }
    let pixel = item / params.width;
    finish(0u, vec2<u32>(pixel, item - pixel * params.width), slabs_of(item));
}
