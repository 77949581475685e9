// A cooperative matrix of 8 rows.
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(32)
fn main() {
  let a = coopLoad<coop_mat8x8<f32, C>>(&data[0], 8u); // refused: a cooperative matrix of 8 rows or columns
  coopStore(a, &data[64], 8u);
}
