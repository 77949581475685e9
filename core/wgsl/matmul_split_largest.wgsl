// Computes      maxima[operand][product][block], the largest finite magnitude, as bits, that a workgroup has met in its share of
//               a matrix; 0 in place of matrices that products share, but for the first.
// Algorithm     1. each thread the largest of its units; 2. those of all threads.
// Tiling        THREADS units of four elements a workgroup and turn.
// Mapping       neighbouring threads have neighbouring units; the workgroups of a matrix take turns.
// Shared memory 8 bytes a thread.
// Traffic       every element read once.
// Numerics      magnitudes are compared as bits, which subnormal numbers survive; what is not finite counts as nothing.
// Requires      prelude: const THREADS; Params; quad_a and quad_b; maxima. Then matmul_split.wgsl.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= 2u * params.batches * params.blocks { return; }
    let work = work_of(id);
    // Phase 1.
    var largest = 0u;
    for (var unit = work.block * THREADS + thread; unit < work.units; unit += params.blocks * THREADS) {
        let bits = bitcast<vec4<u32>>(unit_of(work, unit)) & vec4<u32>(0x7fffffffu);
        let finite = select(vec4<u32>(), bits, bits <= vec4<u32>(LARGEST_FINITE));
        largest = max(max(largest, max(finite.x, finite.y)), max(finite.z, finite.w));
    }
    // Phase 2.
    let found = largest_of_all(thread, vec2<u32>(largest, 0u));
    if thread == 0u { maxima[id] = found.x; }
}
