// Computes      a slab of the gradient of the weights of a convolution of few channels in one group: sums over pixels of x times dy.
// Algorithm     for each tile of pixels of the slab: 1. the inputs that its windows read and its dy go to workgroup memory, zeros in the padding
//               and behind the last filter; 2. an invocation multiplies, pixel by pixel, EACH terms by 4 VECTORS filters.
// Tiling        GROUPS * EACH terms (taps of a slice along x, with their channels) by 4 QUADS filters, params.tiles tiles of TILE_Y by TILE_Z
//               pixels.
// Mapping       neighbours have other filters of the same terms (LANES), then other terms; terms of an invocation are GROUPS apart.
// Shared memory inputs: ROWS rows of PITCH elements; PITCH is odd. gradients: a row of QUADS vectors for each pixel of the tile.
// Traffic       x and dy once for each block of filters and part of the terms, and what tiles share of x.
// Numerics      one chain over the pixels of a slab in f32; slabs are added up by convolution_combine.wgsl. Slices of taps in the padding are
//               left out, other padding is zero; pixels that are not there are no terms.
// Requires      prelude: alias Acc; const THREADS, LANES, QUADS, GROUPS, EACH, TILE_Y, TILE_Z, CHANNELS, LINE = taps of a row times CHANNELS,
//               TERMS (of a slice), STEP and TAP_STEP (elements from a pixel's inputs to the next one's, and from a tap's), ROWS, COLUMNS,
//               PITCH; Params; load_x; gradient_at(pixel, quad); finish(slab, place, sum); convolution_stem_read.wgsl.
// Measured      H200, Vulkan, 7 x 7 taps of 3 channels at stride 2, 64 filters, 64 images of 224 x 224: f32 22 TFLOP/s.

const PIXELS = TILE_Y * TILE_Z;

var<workgroup> gradients: array<vec4<Acc>, PIXELS * QUADS>;

// How far the input under term `number` is behind the first one of a window.
fn place_of(number: u32) -> u32 {
    let term = min(number, TERMS - 1u);
    let tap_y = term / LINE;
    let rest = term % LINE;
    return tap_y * params.dilation_y * PITCH + rest / CHANNELS * TAP_STEP + rest % CHANNELS;
}

// The end of the sums of term `number` and of the four filters of `quad`.
fn ended(slab: u32, slice: u32, number: u32, quad: u32, sum: vec4<Acc>) {
    if number >= TERMS { return; }
    let term = slice * TERMS + number;
    let first = 4u * quad;
    if first < params.filters { finish(slab, vec2<u32>(first, term), sum.x); }
    if first + 1u < params.filters { finish(slab, vec2<u32>(first + 1u, term), sum.y); }
    if first + 2u < params.filters { finish(slab, vec2<u32>(first + 2u, term), sum.z); }
    if first + 3u < params.filters { finish(slab, vec2<u32>(first + 3u, term), sum.w); }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= params.workgroups { return; }
    // Block of filters, part of the terms, slice of taps, slab.
    let part = indices(id, vec3<u32>(params.taps_x, params.parts, params.blocks));
    let first_quad = part.z * QUADS;
    let lane = thread % LANES;
    let first_term = part.y * GROUPS * EACH + thread / LANES;
    $terms
    $sums
    let end = min((part.w + 1u) * params.tiles, params.all_tiles);
    for (var number = part.w * params.tiles; number < end; number++) {
        let tile = indices(number, vec3<u32>(params.to_x, params.tiles_y, params.tiles_z));
        let x = tile.x * params.stride_x + part.x * params.dilation_x - params.before_x;
        if x >= params.from_x { continue; }
        let first_y = tile.y * TILE_Y;
        let first_z = tile.z * TILE_Z;
        // Phase 1.
        place_inputs(
            tile.w * params.from_x + x, first_y * params.stride_y - params.before_y, first_z * params.stride_z - params.before_z, thread,
        );
        let rows = min(params.to_y - first_y, TILE_Y);
        let columns = min(params.to_z - first_z, TILE_Z);
        let slice = (tile.w * params.to_x + tile.x) * params.to_y + first_y;
        for (var i = thread; i < PIXELS * QUADS; i += THREADS) {
            let pixel = i / QUADS;
            let row = min(pixel / TILE_Z, rows - 1u);
            let column = min(pixel % TILE_Z, columns - 1u);
            gradients[i] = gradient_at((slice + row) * params.to_z + first_z + column, first_quad + i % QUADS);
        }
        workgroupBarrier(); // inputs and gradients are there
        // Phase 2.
        for (var row = 0u; row < rows; row++) {
            for (var column = 0u; column < columns; column++) {
                let at = row * params.stride_y * PITCH + column * STEP;
                let of_dy = (row * TILE_Z + column) * QUADS + lane;
                $products
            }
        }
        workgroupBarrier(); // they have been read
    }
    let quad = first_quad + lane;
    $ends
}
