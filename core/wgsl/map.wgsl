// Computes      y[i] = body(x0[i], x1[i], ...) for i in 0..n, y dense; each input by its own layout.
// Algorithm     a quad is four consecutive elements of y: 1. quad(q) loads them and calls body for each; 2. write_quad(q).
// Tiling        THREADS * ITEMS quads a workgroup; a thread's quads lie THREADS apart, so dense accesses are coalesced.
// Mapping       workgroup group.x + group.y * num_workgroups.x (two dimensions only because one may not reach).
// Shared memory none.
// Traffic       every dense operand once: memory bound.
// Numerics      that of body.
// Requires      prelude: Params with `quads` (1 and more) and `tail`; const THREADS, ITEMS; alias Quad, four elements;
//               quad, write_quad, write_tail.
// Measured      H200, Vulkan, 2026-11-21, 2^28 f32: add 4.26 TB/s, exp 3.92, gelu 2.39 before its present form; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite elementwise.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    // 1. Behind the end the last quad again: with no condition in between, every load is under way before a result.
    var values: array<Quad, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) {
        values[i] = quad(min(first + i * THREADS, params.quads - 1u));
    }
    // 2. Only the last quad may be short.
    let whole = params.quads - min(params.tail, 1u);
    for (var i = 0u; i < ITEMS; i++) {
        let q = first + i * THREADS;
        if q < whole { write_quad(q, values[i]); } else if q < params.quads { write_tail(q, values[i], params.tail); }
    }
}
