// Computes      the maximum of each window and its tap, or the average of each window.
// Algorithm     one unit of neighbouring channels (1 or 4) an invocation, over the taps of its window in row-major order.
// Tiling        THREADS units a workgroup.
// Mapping       unit = global number; neighbours are channels of a pixel.
// Shared memory none.
// Traffic       overlapping windows read from caches; every result once.
// Numerics      maxima are exact, the first of equal ones, the first NaN before all; averages are a chain of additions and a division.
// Requires      prelude: alias Acc, Value (of a unit); const THREADS, ADAPTIVE, PADDED; Params, in units; pool_windows.wgsl; get_x;
//               struct Held; begin() -> Held; absorb(held, value, tap) -> Held; end(unit, held, output).
// Measured      H100, 2026-11-26: 177 us, an element an invocation 313 us, for [64, 112, 112, 64] of f16, windows of 3 and stride 2.

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
    var held = begin();
    for (var tap_x = 0u; tap_x < params.taps_x; tap_x++) {
        let x = source(line_x(), output.x, tap_x);
        if x == NOWHERE { continue; }
        for (var tap_y = 0u; tap_y < params.taps_y; tap_y++) {
            let y = source(line_y(), output.y, tap_y);
            if y == NOWHERE { continue; }
            for (var tap_z = 0u; tap_z < params.taps_z; tap_z++) {
                let z = source(line_z(), output.z, tap_z);
                if z == NOWHERE { continue; }
                let tap = (tap_x * params.taps_y + tap_y) * params.taps_z + tap_z;
                held = absorb(held, get_x(at_x(output.w, x, y, z, channel)), tap);
            }
        }
    }
    end(item, held, output.xyz);
}
