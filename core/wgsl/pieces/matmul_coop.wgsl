// Pieces of the kernel on cooperative matrices: what is not unrolled of core/src/ops/matmul/plan/coop.rs.

//# types
alias T = $t;
alias V = vec4<T>;
alias FactorA = coop_mat${size}x$size<$t, A>;
alias FactorB = coop_mat${size}x$size<$t, B>;
alias Sum = coop_mat${size}x$size<$sum, C>;

//# main
@compute @workgroup_size($threads)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    let id = group.y * groups.x + group.x;
    let tiles = params.tiles_m * params.tiles_n;
    let layer = id / tiles;
    if layer >= params.batches * params.splits { return; }
    $scales
    let split = layer % params.splits;
    let batch = layer / params.splits;
    let place = id % tiles;
    let band = place / (${raster}u * params.tiles_n);
    let band_first = band * ${raster}u;
    let band_rows = min(${raster}u, params.tiles_m - band_first);
    let in_band = place - band * ${raster}u * params.tiles_n;
    let tile_m = (band_first + in_band % band_rows) * ${block_m}u;
    let tile_n = in_band / band_rows * ${block_n}u;
    let k_first = split * params.slab;
    $range
    let d_start = $base$layer * params.m * params.n;
    $places
    $warp
    let own_m = warp % ${warps_m}u * ${own_m}u;
    let own_n = warp / ${warps_m}u * ${own_n}u;
    $steps
    $end
}

//# scales
    if info[0] == 0u { return; } // the plain kernel's turn
    let scale_a = bitcast<f32>(info[1]);
    let scale_b = bitcast<f32>(info[2]);
    let back = bitcast<f32>(info[3]);

//# range
    let k_end = min(k_first + params.slab, params.k);

//# range of parts: low and high parts are two halves of K; low * high, high * low, high * high
    let part = params.k / 2u;
    let k_end = 3u * part;

//# warp
    let warp = subgroup;

//# warps in rounds
    // As many rounds as it takes the subgroups there are to do all rectangles.
    for (var first = 0u; first < ${warps}u; first += subgroups) {
    let warp = min(first + subgroup, ${last}u);

//# end of rounds
    workgroupBarrier(); // the round is over
    }

//# first step
    // The first step.
    $fetch
    workgroupBarrier(); // the first step is complete

//# steps: no branch, the last round fetches the first step again, for nothing
    for (var k0 = $first; k0 < $end; k0 += ${block_k}u) {
        // The next step's operands travel while this one is multiplied.
        let next = select(k_first, k0 + ${block_k}u, k0 + ${block_k}u < k_end);
        $nexts
        $fetch
        $multiply
        workgroupBarrier(); // everyone has read this step
        $put
        workgroupBarrier(); // the next step is complete
    }

//# next parts: A reads its low, high and high parts in turn, B its high, low and high ones; the third is one that is stored already
        let next_a = select(next, next - part, next >= params.k);
        let next_b = select(next, next - params.k, next >= params.k);

//# rows: of the sums that the subgroups wrote
    for (var unit = thread; unit < ${total}u; unit += ${threads}u) {
        let whose = unit / ${units}u;
        let line = unit / ${quads}u % ${size}u;
        $skip
        let v = sums[whose * ${slab}u + line * ${stride}u + unit % ${quads}u]$back;
        let row = tile_m + $owner % ${warps_m}u * ${own_m}u + ${i}u + line;
        let col = tile_n + $owner / ${warps_m}u * ${own_n}u + ${j}u + unit % ${quads}u * 4u;
        $tail
        let at = d_start + row * params.n + col;
        $stores
    }

//# skip: of the rectangles that no subgroup of this round has
        if whose >= subgroups || first + whose >= ${warps}u { continue; }

//# tail
        if row >= params.m || col >= params.n { continue; }
