// Computes      y[i] = element_at(i) for i in 0..n, y dense: each element by its position alone.
// Algorithm     four consecutive elements an invocation, stored at once; behind the end the last one again.
// Tiling        THREADS quads a workgroup.
// Mapping       quad = global number.
// Shared memory none.
// Traffic       every element of y written once; what is read is element_at's.
// Numerics      that of element_at; elements that only move keep their bits.
// Requires      prelude: Params with `quads`, `tail` and `last`; const THREADS; alias Value; element_at; put_quad, put_tail.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let q = (group.y * groups.x + group.x) * THREADS + thread;
    if q >= params.quads { return; }
    let i = 4u * q;
    let v = vec4<Value>(
        element_at(i),
        element_at(min(i + 1u, params.last)),
        element_at(min(i + 2u, params.last)),
        element_at(min(i + 3u, params.last)),
    );
    if (params.tail != 0u) & (q + 1u == params.quads) { put_tail(q, v, params.tail); } else { put_quad(q, v); }
}
