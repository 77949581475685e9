// Computes      y[batch, c, r] = x[batch, r, c]; rows, cols and every stride multiples of four; bits are kept.
// Algorithm     1. each invocation reads a 4 x 4 block, transposes it in registers and writes four vectors to workgroup
//               memory; 2. the tile is read row by row of y and written.
// Tiling        SIDE x SIDE blocks, 4 * SIDE elements a side, THREADS invocations.
// Mapping       tiles down the rows of x first (writes of neighbours touch), then across, then batches; workgroups folded over two dimensions.
// Shared memory SIDE * SIDE * 4 vectors of four elements (16 KiB for SIDE = 16 of 4 bytes, 32 KiB for SIDE = 32 of 2); slot()
//               swaps vectors within a row by the row's block number, so that the writes by column and the reads by row
//               touch every bank once.
// Traffic       every element once on both sides, in runs of 4 * SIDE elements: memory bound.
// Numerics      none.
// Requires      prelude: Params; const SIDE, THREADS (dividing SIDE * SIDE); batch_from, batch_to; load4_x, store4_y;
//               Kept, four elements as workgroup memory holds them; keep, kept.
// Measured      H200, Vulkan, 2026-11-21, 16384 x 16384: f32 3.73 TB/s, f16 2.70 with tiles of 64; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite copy.

const BLOCKS = SIDE * SIDE;
const PASSES = BLOCKS / THREADS;

var<workgroup> tile: array<Kept, BLOCKS * 4u>;

// Where row `r` (below 4 * SIDE) of the transposed tile keeps its vector `c` (below SIDE).
fn slot(r: u32, c: u32) -> u32 {
    return r * SIDE + (c ^ ((r / 4u) % SIDE));
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = group.y * groups.x + group.x;
    let down = number % params.tiles_r;
    let across = (number / params.tiles_r) % params.tiles_c;
    let batch = number / (params.tiles_c * params.tiles_r);
    // Extents and strides in units of four elements.
    let units_r = params.rows / 4u;
    let units_c = params.cols / 4u;
    // A tile wholly inside runs without guards: its loads are issued together.
    let inside = (across + 1u) * SIDE <= units_c && (down + 1u) * SIDE <= units_r;
    if batch < params.batches {
        let from_at = batch_from(batch) / 4u;
        for (var p = 0u; p < PASSES; p++) {
            let block = thread + p * THREADS;
            let bc = block % SIDE;
            let br = block / SIDE;
            let c = across * SIDE + bc;
            let r = down * SIDE + br;
            if inside || (r < units_r && c < units_c) {
                let at = from_at + r * params.from_row + c;
                let pitch = params.from_pitch;
                let r0 = load4_x(at);
                let r1 = load4_x(at + pitch);
                let r2 = load4_x(at + 2u * pitch);
                let r3 = load4_x(at + 3u * pitch);
                tile[slot(bc * 4u, br)] = keep(vec4<u32>(r0.x, r1.x, r2.x, r3.x));
                tile[slot(bc * 4u + 1u, br)] = keep(vec4<u32>(r0.y, r1.y, r2.y, r3.y));
                tile[slot(bc * 4u + 2u, br)] = keep(vec4<u32>(r0.z, r1.z, r2.z, r3.z));
                tile[slot(bc * 4u + 3u, br)] = keep(vec4<u32>(r0.w, r1.w, r2.w, r3.w));
            }
        }
    }
    workgroupBarrier(); // the tile is complete
    if batch < params.batches {
        let to_at = batch_to(batch) / 4u;
        for (var p = 0u; p < 4u * PASSES; p++) {
            let unit = thread + p * THREADS;
            let row = unit / SIDE;
            let c = across * SIDE * 4u + row;
            let r = down * SIDE + unit % SIDE;
            if inside || (c < params.cols && r < units_r) {
                store4_y(to_at + c * (params.to_row / 4u) + r, kept(tile[slot(row, unit % SIDE)]));
            }
        }
    }
}
