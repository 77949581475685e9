// y[r, i] = x[r, 0] + ... + x[r, i]: an invocation a row.
struct Params {
    rows: u32,
    columns: u32,
    x_offset: u32,
    y_offset: u32,
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (group.y * groups.x + group.x) * 64u + thread;
    if row >= params.rows { return; }
    var sum = 0.0;
    for (var i = 0u; i < params.columns; i++) {
        sum += x[params.x_offset + row * params.columns + i];
        y[params.y_offset + row * params.columns + i] = sum;
    }
}
