// ptx: sm_90 trusted
// A choice between halves that were loaded: by a mask, since ptxas spoils a `selp.b16` of them.
enable f16;
@group(0) @binding(0) var<storage> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  let chosen = select(x[0], x[48], (y[i] & 1u) == 1u);
  y[i] = u32((x[48] + 1.0h) * chosen + (f16(y[i] & 7u) + 1.0h));
}
