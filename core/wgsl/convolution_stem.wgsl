// Computes      a convolution of few channels in one group, the first layer of a network say: y = the end of the sum of x times weights.
// Algorithm     for each slice of taps along x: 1. the inputs that the pixels of the tile read go to workgroup memory, zeros in the
//               padding; for each row of taps of the slice: 2. the weights of the row go there; 3. an invocation multiplies PIXELS pixels
//               in a row by 4 VECTORS filters: for a channel and TAPS_AT_A_TIME taps it reads each input of the run once.
// Tiling        TILE_Y by TILE_Z pixels of a slice of an image by 4 QUADS filters.
// Mapping       neighbours have other filters of the same pixels (LANES), then rows of pixels; vectors of an invocation are LANES apart.
// Shared memory inputs: ROWS rows of PITCH elements; PITCH is odd, so that rows begin at different banks. weights: TERMS rows of W_PITCH
//               vectors, W_PITCH odd, for they are written along the terms.
// Traffic       x once for each block of filters, and what tiles share; weights once for each tile; y once.
// Numerics      one chain over taps and channels in f32: a row of taps after the other, in it TAPS_AT_A_TIME taps of each channel. Slices of
//               taps in the padding are left out, other padding is zero.
// Requires      prelude: alias Acc; const THREADS, LANES, QUADS, TILE_Y, TILE_Z, PIXELS, CHANNELS, TAPS, TAPS_AT_A_TIME, TERMS = TAPS
//               CHANNELS, STEP and TAP_STEP (elements from a pixel's inputs to the next one's, and from a tap's), ROWS, COLUMNS, PITCH,
//               W_PITCH; Params; load_w; ended(pixel, quad, sum); convolution_stem_read.wgsl.
// Measured      H200, Vulkan, 7 x 7 taps of 3 channels at stride 2, 64 filters, 64 images of 224 x 224: f32 33 TFLOP/s, f16 36.

var<workgroup> weights: array<vec4<Acc>, TERMS * W_PITCH>;

// A weight of filter `number`, `at` elements behind its first one; zero behind the last filter.
fn weight_at(number: u32, at: u32) -> Acc {
    let value = load_w(params.w_base + min(number, params.width - 1u) * params.taps * params.w_pitch + at);
    return select(Acc(), value, number < params.width);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= params.workgroups { return; }
    let block = id % params.blocks;
    let tile = indices(id / params.blocks, vec3<u32>(params.to_x, params.tiles_y, params.tiles_z));
    let first_y = tile.y * TILE_Y;
    let first_z = tile.z * TILE_Z;
    let lane = thread % LANES;
    let run = thread / LANES;
    let row = run % TILE_Y;
    let along = run / TILE_Y * PIXELS;
    $sums
    for (var tap_x = 0u; tap_x < params.taps_x; tap_x++) {
        let x = tile.x * params.stride_x + tap_x * params.dilation_x - params.before_x;
        if x >= params.from_x { continue; }
        // Phase 1.
        place_inputs(
            tile.w * params.from_x + x, first_y * params.stride_y - params.before_y, first_z * params.stride_z - params.before_z, thread,
        );
        for (var tap_y = 0u; tap_y < params.taps_y; tap_y++) {
            // Phase 2.
            let first_tap = (tap_x * params.taps_y + tap_y) * TAPS;
            for (var i = thread; i < TERMS * QUADS; i += THREADS) {
                let quad = i / TERMS;
                let term = i % TERMS;
                let number = 4u * (block * QUADS + quad);
                let at = (first_tap + term / CHANNELS) * params.w_pitch + term % CHANNELS;
                weights[term * W_PITCH + quad] = vec4<Acc>(
                    weight_at(number, at), weight_at(number + 1u, at), weight_at(number + 2u, at), weight_at(number + 3u, at),
                );
            }
            workgroupBarrier(); // inputs and weights are there
            // Phase 3.
            let of_row = (row * params.stride_y + tap_y * params.dilation_y) * PITCH + along * STEP;
            for (var tap = 0u; tap < TAPS; tap += TAPS_AT_A_TIME) {
                for (var channel = 0u; channel < CHANNELS; channel++) {
                    let at = of_row + tap * TAP_STEP + channel;
                    let of_w = (tap * CHANNELS + channel) * W_PITCH + lane;
                    $terms
                }
            }
            workgroupBarrier(); // they have been read
        }
    }
    let y = first_y + row;
    if y >= params.to_y { return; }
    let z = first_z + along;
    let pixel = ((tile.w * params.to_x + tile.x) * params.to_y + y) * params.to_z + z;
    let quad = block * QUADS + lane;
    $ends
}
