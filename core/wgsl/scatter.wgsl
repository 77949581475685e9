// Computes      y[to(i)] = x[from(i)] for i in 0..n: a copy into a view with gaps, reversed or permuted.
// Algorithm     one element an invocation; bytes and halves share words with their neighbours and are set by atomics.
// Tiling        THREADS elements a workgroup.
// Mapping       element = global number; its coordinates innermost first, the output's smallest stride innermost.
// Shared memory none.
// Traffic       every element once on both sides; coalesced as far as the output's innermost stride allows.
// Numerics      bits are kept.
// Requires      prelude: Params with `n`; const THREADS; copy_element(i), load_x, store_y.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.y * groups.x + group.x) * THREADS + thread;
    if i < params.n { copy_element(i); }
}
