// Computes      y[w]: the places of the two largest of each of eight groups of four neighbours, four bits a group.
// Algorithm     1. load a group; 2. count for each element how many beat it; 3. the places of those that fewer than two beat.
// Tiling        THREADS * ITEMS words a workgroup; an invocation's words lie THREADS apart.
// Mapping       a word belongs to one row; bits of groups that the row has not are 0100.
// Shared memory none.
// Traffic       every element read once, a word written for 32 of them.
// Numerics      integer comparisons of magnitudes.
// Requires      prelude: const THREADS, ITEMS; load_x on bits, y of words; sparse24_group.wgsl.
// Measured      not measured.
// References    PTX ISA 8.x, "Warp-level matrix instructions: mma.sp", sparse metadata.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    for (var i = 0u; i < ITEMS; i++) {
        let w = first + i * THREADS;
        if w >= params.units { return; }
        let row = w / params.words;
        let first_group = 8u * (w - row * params.words);
        let count = min(8u, params.groups - first_group);
        var word = 0x44444444u;
        for (var g = 0u; g < count; g++) {
            let at = places(load_group(row * params.groups + first_group + g));
            word = insertBits(word, at.x | (at.y << 2u), 4u * g, 4u);
        }
        y[params.y_offset + w] = word;
    }
}
