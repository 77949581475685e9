// A matrix multiplied in f16 and stored by rows, with checks.
enable f16;
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read_write> c: array<f16>;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
  let x = coopLoad<coop_mat16x16<f16, A>>(&a[group.x * 256u], 16u);
  let y = coopLoadT<coop_mat16x16<f16, B>>(&a[group.y * 256u], 16u);
  let z = coopLoad<coop_mat16x16<f16, C>>(&c[group.x * 256u], 16u);
  coopStore(coopMultiplyAdd(x, y, z), &c[group.x * 256u], 16u);
}
