// Pieces of the tiled kernel: what is not unrolled of core/src/ops/matmul/plan/tiled.rs.

//# buffers
var<workgroup> a_tile: array<V, $a_vectors>;
var<workgroup> b_tile: array<V, $b_vectors>;

//# main
@compute @workgroup_size($threads)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let tiles = params.tiles_m * params.tiles_n;
    let layer = id / tiles;
    if layer >= params.batches * params.splits { return; }
    $gate
    $batch
    let place = id % tiles;
    let band = place / (${raster}u * params.tiles_n);
    let band_first = band * ${raster}u;
    let band_rows = min(${raster}u, params.tiles_m - band_first);
    let in_band = place - band * ${raster}u * params.tiles_n;
    $tile
    let tile_n = in_band / band_rows * ${block_n}u;
    $range
    let lane = thread % ${warp}u;
    let warp = thread / ${warp}u;
    let own_m = warp % ${warps_m}u * ${own_m}u + lane / ${lanes_n}u;
    let own_n = warp / ${warps_m}u * ${own_n}u + lane % ${lanes_n}u;
    $places
    // The first step.
    $first
    workgroupBarrier(); // the first step is complete
    $steps
}

//# gate
    if info[0] != 0u { return; } // done by the kernel before

//# batch
    let split = layer % params.splits;
    let batch = layer / params.splits;

//# tile
    let tile_m = (band_first + in_band % band_rows) * ${block_m}u;

//# tile of group
    let part = part_of(band_first + in_band % band_rows, ${block_m}u);
    if part.row >= params.m { return; } // fewer tiles than there could be
    let batch = part.group;
    let tile_m = part.row;

//# range
    let k_first = split * params.slab;
    let k_end = min(k_first + params.slab, params.k);

//# range of group
    let k_first = 0u;
    let k_end = select(0u, params.k, batch < params.groups);

//# range of slab of group
    let split = layer % params.splits;
    let k_first = split * params.slab;
    let slab_end = min(k_first + params.slab, params.k);
    let k_end = select(k_first, slab_end, batch < params.groups);

//# range of blocks
    let k_first = 0u;
    var k_end = min(params.block_k, params.k); // of a block

//# range of slab of blocks
    let k_first = split * params.slab;
    let slab_end = min(k_first + params.slab, params.k);
    // Of a block, which may have begun before.
    var k_end = k_first + min(params.block_k - k_first % params.block_k, slab_end - k_first);

//# steps: no branch, the last round fetches the first step again, for nothing (+8 % on an H200)
    for (var k0 = k_first; k0 < k_end; k0 += ${block_k}u) {
        // The next step's operands travel while this one is multiplied.
        let next = select(k_first, k0 + ${block_k}u, k0 + ${block_k}u < k_end);
        $fetch
        $multiply
        workgroupBarrier(); // everyone has read this step
        $put
        workgroupBarrier(); // the next step is complete
    }
    $stores

//# steps of blocks: as without blocks, the last round fetches the first step again, for nothing
    var block = $block;
    var k0 = $first;
    while k0 < $end {
        let after = min(k0 + ${block_k}u, k_end);
        let ends_block = after == k_end;
        let next = select(after, $first, after >= $end);
        if ends_block { k_end = next + min(params.block_k, $end - next); }
        $fetch
        $multiply
        if ends_block {
            $scaling
            block++;
        }
        k0 = after;
        workgroupBarrier(); // everyone has read this step
        $put
        workgroupBarrier(); // the next step is complete
    }
    $stores

//# store loop
    var sums = array<$v, $count>($sums);
    for (var i = 0u; i < ${count}u; i++) {
        let r = i / ${vectors}u;
        let row = tile_m + (own_m + r / 4u * ${lanes_m}u) * 4u + r % 4u;
        let col = tile_n + (own_n + i % ${vectors}u * ${lanes_n}u) * 4u;
        if row >= $row_end || col >= params.n { continue; }
        let at = d_start + row * params.n + col;
        var value = $value;
        let live = min(params.n - col, 4u);
        for (var e = 0u; e < live; e++) {
            $each
        }
        $whole
    }
