// Computes      y[batch, c, r] = x[batch, r, c] for any extents and strides, elements of 4 bytes; bits are kept.
// Algorithm     1. a SIDE x SIDE tile is read row by row of x into workgroup memory; 2. it is read by columns and written
//               row by row of y.
// Tiling        SIDE x SIDE elements, SIDE x DEEP invocations.
// Mapping       tiles down the rows of x first (writes of neighbours touch), then across, then batches; workgroups folded over two dimensions.
// Shared memory SIDE * (SIDE + 1) words; the odd pitch puts a column on different banks.
// Traffic       every element once on both sides: memory bound.
// Numerics      none.
// Requires      prelude: Params; const SIDE, THREADS (a multiple of SIDE); batch_from, batch_to; load_x, store_y.
// Measured      not measured.

const DEEP = THREADS / SIDE;
const PITCH = SIDE + 1u;

var<workgroup> tile: array<u32, SIDE * PITCH>;

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
    let fast = thread % SIDE;
    let slow = thread / SIDE;
    if batch < params.batches {
        let from_at = batch_from(batch);
        let c = across * SIDE + fast;
        for (var p = slow; p < SIDE; p += DEEP) {
            let r = down * SIDE + p;
            if r < params.rows && c < params.cols { tile[p * PITCH + fast] = load_x(from_at + r * params.from_row + c); }
        }
    }
    workgroupBarrier(); // the tile is complete
    if batch < params.batches {
        let to_at = batch_to(batch);
        let r = down * SIDE + fast;
        for (var p = slow; p < SIDE; p += DEEP) {
            let c = across * SIDE + p;
            if r < params.rows && c < params.cols { store_y(to_at + c * params.to_row + r, tile[fast * PITCH + p]); }
        }
    }
}
