// Computes      y[line][i] = x[line * x_far + i * x_near] for i in 0..near, 0 from there to the end of the line: the lines of
//               a matrix as whole vectors of 16 bytes.
// Algorithm     1. load the elements of a vector, none from behind the line; 2. clear what lies behind the line; 3. store the
//               vector whole, so that every byte of the copy is written and none is read before.
// Tiling        THREADS vectors a workgroup.
// Mapping       a vector belongs to one line.
// Shared memory none.
// Traffic       every element read once (words that neighbours share again, from caches), every byte of the copy written once.
// Numerics      bits move.
// Requires      prelude: const THREADS, PER_WORD (elements), BITS (of one); elements_of(first, count): a vector of elements,
//               anything behind the first `count`; y of vectors.
// Measured      not measured.

// The bits of a vector that hold its first `count` elements.
fn held(count: u32) -> vec4<u32> {
    // Those of each word: 0 to PER_WORD of them.
    let behind = vec4<u32>(0u, 1u, 2u, 3u) * PER_WORD;
    let elements = min(max(vec4<u32>(count), behind) - behind, vec4<u32>(PER_WORD));
    // No shift by a whole word.
    let ones = vec4<u32>(0xffffffffu) >> ((PER_WORD - max(elements, vec4<u32>(1u))) * BITS);
    return select(vec4<u32>(), ones, elements > vec4<u32>());
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = (group.y * groups.x + group.x) * THREADS + thread;
    if id >= params.units { return; }
    let line = id / params.vectors;
    let column = (id - line * params.vectors) * (4u * PER_WORD);
    var vector = vec4<u32>();
    if column < params.near {
        let count = min(params.near - column, 4u * PER_WORD);
        let first = params.x_offset + line * params.x_far + column * params.x_near;
        vector = elements_of(first, count) & held(count);
    }
    y[id] = vector;
}
