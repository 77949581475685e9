// Computes: C = A B, row-major f32; m and n multiples of 128, k of 8.
// Tiling: 128 x 128 per workgroup, 8 x 8 per invocation, A and B staged through workgroup memory 8 columns at a time.
struct Params { m: u32, n: u32, k: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;
const BLOCK_K = 8u;
var<workgroup> a_tile: array<array<f32, 128>, BLOCK_K>;
var<workgroup> b_tile: array<array<vec4<f32>, 32>, BLOCK_K>;

@compute @workgroup_size(256)
fn gemm(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) group: vec3<u32>) {
  let row = t / 16u;
  let column = t % 16u;
  var acc: array<array<vec4<f32>, 2>, 8>;
  let a_row = t / 2u;
  let a_column = t % 2u;
  let b_row = t / 32u;
  let b_column = t % 32u;
  let a_start = (group.y * 128u + a_row) * (params.k / 4u) + a_column;
  let b_start = b_row * (params.n / 4u) + group.x * 32u + b_column;
  for (var k = 0u; k < params.k; k += BLOCK_K) {
    let from_a = a[a_start + k / 4u];
    a_tile[a_column * 4u][a_row] = from_a.x;
    a_tile[a_column * 4u + 1u][a_row] = from_a.y;
    a_tile[a_column * 4u + 2u][a_row] = from_a.z;
    a_tile[a_column * 4u + 3u][a_row] = from_a.w;
    b_tile[b_row][b_column] = b[b_start + k * (params.n / 4u)];
    workgroupBarrier();
    for (var kk = 0u; kk < BLOCK_K; kk++) {
      let left = b_tile[kk][column];
      let right = b_tile[kk][column + 16u];
      for (var i = 0u; i < 8u; i++) {
        let x = a_tile[kk][row * 8u + i];
        acc[i][0] += x * left;
        acc[i][1] += x * right;
      }
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < 8u; i++) {
    let start = (group.y * 128u + row * 8u + i) * (params.n / 4u) + group.x * 32u + column;
    c[start] = acc[i][0];
    c[start + 16u] = acc[i][1];
  }
}
