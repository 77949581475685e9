// Computes      y[i] = body(x0[i], x1[i], ..., y[i]) for i in 0..n, in place: several y, dense; each input by its own layout.
// Algorithm     a quad is four consecutive elements: quad(q) loads them and calls body for each, then write_quad(q) stores them.
// Tiling        THREADS * ITEMS quads a workgroup; a thread's quads lie THREADS apart, so dense accesses are coalesced.
// Mapping       workgroup group.x + group.y * num_workgroups.x (two dimensions only because one may not reach).
// Shared memory none.
// Traffic       every dense operand once, an updated one there and back: memory bound.
// Numerics      that of body.
// Requires      as map.wgsl. A quad is read by the invocation that writes it and by no other: behind the end nothing is read.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * (THREADS * ITEMS) + thread;
    // Only the last quad may be short.
    let whole = params.quads - min(params.tail, 1u);
    for (var i = 0u; i < ITEMS; i++) {
        let q = first + i * THREADS;
        if q < whole { write_quad(q, quad(q)); } else if q < params.quads { write_tail(q, quad(q), params.tail); }
    }
}
