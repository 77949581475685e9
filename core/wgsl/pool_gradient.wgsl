// Computes      the gradient of a pool's input: for each input the sum over the windows that contain it.
// Algorithm     one unit of neighbouring channels (1 or 4) an invocation, over its windows in row-major order: no additions in memory.
// Tiling        THREADS units a workgroup.
// Mapping       unit = global number; neighbours are channels of a pixel.
// Shared memory none.
// Traffic       overlapping windows read from caches; every result once.
// Numerics      a chain of additions in the order of the windows; of averages each term is divided first.
// Requires      prelude: alias Acc, Value (of a unit); const THREADS, ADAPTIVE, PADDED; Params, in units; pool_windows.wgsl; put_y;
//               share(pixel, channel, tap, output), what a unit of the window's gradient gives to a tap.
// Measured      H100, 2026-11-26: 274 us for [64, 112, 112, 64] of f16, windows of 3 and stride 2; 943 an element an invocation, most of it
//               divisions of indices (`polywarp bench --suite networks --only resnet50 --profile F`).

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
    let input = indices(pixel, vec3<u32>(params.in_x, params.in_y, params.in_z));
    let of_x = targets(line_x(), input.x);
    let of_y = targets(line_y(), input.y);
    let of_z = targets(line_z(), input.z);
    var sum = Value();
    for (var i = 0u; i < of_x.y; i++) {
        let x = of_x.x + i;
        let tap_x = tap_on(line_x(), x, input.x);
        if tap_x == NOWHERE { continue; }
        for (var j = 0u; j < of_y.y; j++) {
            let y = of_y.x + j;
            let tap_y = tap_on(line_y(), y, input.y);
            if tap_y == NOWHERE { continue; }
            for (var k = 0u; k < of_z.y; k++) {
                let z = of_z.x + k;
                let tap_z = tap_on(line_z(), z, input.z);
                if tap_z == NOWHERE { continue; }
                let tap = (tap_x * params.taps_y + tap_y) * params.taps_z + tap_z;
                sum += share(number_of(input.w, x, y, z), channel, tap, vec3<u32>(x, y, z));
            }
        }
    }
    put_y(params.y_base + item, sum);
}
