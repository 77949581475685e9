// Computes      the elements of x at the places of maxima; zero where a place is none of the input's.
// Algorithm     one element an invocation.
// Tiling        THREADS elements a workgroup.
// Mapping       element = global number; neighbours are channels of a pixel.
// Shared memory none.
// Traffic       every place and result once.
// Numerics      exact.
// Requires      prelude: alias Acc; const THREADS, ADAPTIVE, PADDED; Params; pool_windows.wgsl; load_x, load_at, store_y.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let item = (group.y * groups.x + group.x) * THREADS + thread;
    if item >= params.total { return; }
    let pixel = item / params.channels;
    let channel = item - pixel * params.channels;
    let output = indices(pixel, vec3<u32>(params.out_x, params.out_y, params.out_z));
    let place = load_at(params.at_base + item);
    let rest = place / params.taps_z;
    let tap_x = rest / params.taps_y;
    let x = source(line_x(), output.x, tap_x);
    let y = source(line_y(), output.y, rest - tap_x * params.taps_y);
    let z = source(line_z(), output.z, place - rest * params.taps_z);
    var value = Acc();
    if (x != NOWHERE) & (y != NOWHERE) & (z != NOWHERE) { value = load_x(at_x(output.w, x, y, z, channel)); }
    store_y(params.y_base + item, value);
}
