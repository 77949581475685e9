// ptx: trusted
// Tensor cores.
enable f16;
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read> a: array<f16>;
@group(0) @binding(1) var<storage, read> b: array<f16>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
  var acc = coop_mat16x16<f32, C>();
  for (var k = 0u; k < 64u; k += 16u) {
    let x = coopLoadT<coop_mat16x16<f16, A>>(&a[group.x * 1024u + k], 64u);
    let y = coopLoad<coop_mat16x16<f16, B>>(&b[group.y * 1024u + k], 64u);
    acc = coopMultiplyAdd(x, y, acc);
  }
  coopStoreT(acc, &c[group.x * 256u], 16u);
}
