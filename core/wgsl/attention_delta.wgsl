// Computes      of each query lse and delta = sum_c dout[c] out[c] (less dlse where there is one), side by side behind eight numbers that hold
//               the key in halves of words, for the kernels of the gradient.
// Algorithm     1. the key, by one invocation; 2. a sum a query.
// Tiling        THREADS queries a workgroup.
// Mapping       query = global number, in the order of lse.
// Shared memory none.
// Traffic       out and dout once.
// Numerics      sums in S. Halves of words are numbers that S holds exactly.
// Requires      from plans/attention: S, V; Params; quad_o, quad_d (a quad of a head), load_lse, slope_of_lse, key, store_stats.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y * workgroups.x + workgroup.x) * THREADS + thread;
    // Phase 1.
    if row == 0u && DROPS {
        let words = key();
        for (var n = 0u; n < 4u; n++) {
            store_stats(2u * n, S(words[n] & 0xffffu));
            store_stats(2u * n + 1u, S(words[n] >> 16u));
        }
    }
    if row >= params.rows { return; }
    // Phase 2.
    let head = row / params.queries;
    let b = head / params.heads;
    let at = ((b * params.queries + row % params.queries) * params.heads + head % params.heads) * params.width;
    var sums = V();
    for (var c = 0u; c < params.width; c += 4u) {
        sums = fma(quad_o(params.o_offset + at, c / 4u), quad_d(params.d_offset + at, c / 4u), sums);
    }
    store_stats(8u + 2u * row, load_lse(params.lse_offset + row));
    store_stats(9u + 2u * row, ((sums.x + sums.y) + (sums.z + sums.w)) - slope_of_lse(row));
}
