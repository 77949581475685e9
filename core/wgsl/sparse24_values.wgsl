// Computes      of each group of four neighbours along k the two of largest magnitude, as bits: y[2 i], y[2 i + 1] of group i.
// Algorithm     1. load a group; 2. count for each element how many beat it; 3. store those that fewer than two beat.
// Tiling        THREADS * ITEMS quads a workgroup; an invocation's quads lie THREADS apart.
// Mapping       quad q holds the groups 2 q and 2 q + 1.
// Shared memory none.
// Traffic       every element read once, half of them written.
// Numerics      integer comparisons of magnitudes: subnormals and NaN payloads stay.
// Requires      prelude: const THREADS, ITEMS; load_x, store4_y, store_tail_y on bits; sparse24_group.wgsl.
// Measured      not measured.
// References    NVIDIA, "Accelerating sparse deep neural networks", arXiv 2104.08378.

fn kept(index: u32) -> vec2<u32> {
    let group = load_group(index);
    let at = places(group);
    // The first is not the last element, the second not the first.
    let first = select(select(group.x, group.y, at.x == 1u), group.z, at.x == 2u);
    let second = select(select(group.y, group.z, at.y == 2u), group.w, at.y == 3u);
    return vec2<u32>(first, second);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    for (var i = 0u; i < ITEMS; i++) {
        let q = first + i * THREADS;
        if q >= params.units { return; }
        // The last quad may be half full: its second group is then the first again.
        let whole = q + 1u < params.units || params.tail == 0u;
        let value = vec4<u32>(kept(2u * q), kept(2u * q + select(0u, 1u, whole)));
        let at = params.y_offset + q;
        if whole { store4_y(at, value); } else { store_tail_y(at, value, params.tail); }
    }
}
