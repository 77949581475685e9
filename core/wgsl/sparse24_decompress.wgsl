// Computes      y[row][4 g + place] = x[row][2 g + i] for both values i of each group g, at the places that metadata names; 0
//               elsewhere.
// Algorithm     1. load two values and their places; 2. select for each of four elements; 3. store a quad.
// Tiling        THREADS * ITEMS quads a workgroup; an invocation's quads lie THREADS apart.
// Mapping       with k a multiple of 4 (WHOLE) a quad is a group, else its elements belong to up to three.
// Shared memory none.
// Traffic       values and metadata read once (again from caches where k is no multiple of 4), every element written once.
// Numerics      bits move. Where both places are one the second value is there.
// Requires      prelude: const THREADS, ITEMS, WHOLE; load_x, store4_y, store_tail_y on bits; metadata of words.
// Measured      not measured.
// References    PTX ISA 8.x, "Warp-level matrix instructions: mma.sp", sparse metadata.

fn group_of(row: u32, g: u32) -> vec4<u32> {
    let at = params.x_offset + 2u * (row * params.groups + g);
    let word = metadata[params.metadata_offset + row * params.words + g / 8u];
    let places = word >> (4u * (g % 8u));
    let lanes = vec4<u32>(0u, 1u, 2u, 3u);
    let first = select(vec4<u32>(), vec4<u32>(load_x(at)), lanes == vec4<u32>(places & 3u));
    return select(first, vec4<u32>(load_x(at + 1u)), lanes == vec4<u32>((places >> 2u) & 3u));
}

fn element(index: u32) -> u32 {
    let row = index / params.k;
    let column = index - row * params.k;
    let group = group_of(row, column / 4u);
    let lane = column % 4u;
    return select(select(group.x, group.y, lane == 1u), select(group.z, group.w, lane == 3u), lane >= 2u);
}

fn quad(q: u32, count: u32) -> vec4<u32> {
    if WHOLE {
        let row = q / params.groups;
        return group_of(row, q - row * params.groups);
    }
    // What lies behind the last element is the last element again.
    let last = count - 1u;
    let first = 4u * q;
    return vec4<u32>(
        element(first),
        element(first + min(1u, last)),
        element(first + min(2u, last)),
        element(first + min(3u, last)),
    );
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
        let whole = q + 1u < params.units || params.tail == 0u;
        let value = quad(q, select(params.tail, 4u, whole));
        let at = params.y_offset + q;
        if whole || params.whole_end != 0u { store4_y(at, value); } else { store_tail_y(at, value, params.tail); }
    }
}
