// Pieces of the kernel that adds slabs of a product's sums and ends them: see core/src/ops/matmul/plan/combine.rs.

//# result
fn result(at: u32) -> $value {
    var sum = $acc();
    $slabs
    let row = at / params.n;
    return epilogue(sum, $batch, row % params.m, at % params.n);
}

@compute @workgroup_size($threads)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let unit = (group.y * groups.x + group.x) * ${threads}u + thread;
    $stores
}

//# slabs
    for (var s = 0u; s < params.splits; s++) { sum += load_sums(s * params.elements + at); }

//# store one
    if unit < params.elements { store_d(params.target_base + unit, result(unit)); }

//# store quad
    let at = unit * 4u;
    if at >= params.elements { return; }
    let live = min(params.elements - at, 4u);
    var values = vec4<$value>();
    for (var i = 0u; i < live; i++) { values[i] = result(at + i); }
    let goal = params.target_base / 4u + unit;
    if live == 4u { store4_d(goal, values); } else { store_tail_d(goal, values, live); }
