// Computes      y[i] = body(x0[i], x1[i], ...) for i in 0..n, y dense; each input by its own layout.
// Algorithm     a quad is four consecutive elements of y: 1. quad(q) loads them and calls body for each; 2. write_quad(q).
// Tiling        THREADS * ITEMS quads a workgroup; a thread's quads lie THREADS apart, so dense accesses are coalesced.
// Mapping       workgroup group.x + group.y * num_workgroups.x (two dimensions only because one may not reach).
// Shared memory none.
// Traffic       every dense operand once: memory bound.
// Numerics      that of body.
// Requires      prelude: Params with `quads` and `tail`; const THREADS, ITEMS; quad, write_quad, write_tail.
// Measured      H200, Vulkan, 2026-11-21, 2^28 f32: add 4.26 TB/s, exp 3.92, gelu 2.39; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite elementwise.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    for (var i = 0u; i < ITEMS; i++) {
        let q = first + i * THREADS;
        if q >= params.quads { return; }
        let value = quad(q);
        // Only the last quad may be short.
        if params.tail == 0u || q + 1u < params.quads { write_quad(q, value); } else { write_tail(q, value, params.tail); }
    }
}
