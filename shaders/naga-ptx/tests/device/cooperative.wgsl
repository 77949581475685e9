// Cooperative matrices against scalar loops, in all layouts, from workgroup and storage memory. Checks itself:
//   polywarp run cooperative.wgsl --device D --grid 8,1,1 --bind 0=zeros:u32:34 --bind 1=zeros:f16:4096
//     --bind 2=zeros:f32:4096 --save 0=out.npy
// out[0] counts wrong results and must be 0, out[1] results looked at (20,480 for 8 workgroups), out[2 + i] wrong ones
// of kind i. The numbers are small integers, so that every sum is exact.
enable f16;
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
// Of each workgroup: 512 halves (32 apart) and 512 floats.
@group(0) @binding(1) var<storage, read_write> factors: array<f16>;
@group(0) @binding(2) var<storage, read_write> results: array<f32>;

const APART: u32 = 32u;
var<workgroup> a: array<f16, 512>;
var<workgroup> b: array<f16, 512>;
var<workgroup> d: array<f32, 512>;
var<workgroup> h: array<f16, 512>;

fn check(right: bool, kind: u32) {
  atomicAdd(&out[1], 1u);
  if !right {
    atomicAdd(&out[0], 1u);
    atomicAdd(&out[2u + kind], 1u);
  }
}

fn small(seed: u32) -> f32 {
  let x = (seed * 0x9e3779b9u) ^ ((seed * 0x85ebca6bu) >> 13u);
  return f32((x >> 8u) % 9u) - 4.0;
}

// Element (row, column) of the factors and of the addend.
fn a_at(group: u32, row: u32, column: u32) -> f32 { return small(group * 4099u + row * 16u + column); }
fn b_at(group: u32, row: u32, column: u32) -> f32 { return small(group * 8209u + 1000u + row * 16u + column); }
fn c_at(row: u32, column: u32) -> f32 { return f32(row) - 2.0 * f32(column); }

fn product(group: u32, row: u32, column: u32) -> f32 {
  var sum = 0.0;
  for (var k = 0u; k < 16u; k++) { sum += a_at(group, row, k) * b_at(group, k, column); }
  return sum;
}

// Factors of two layouts, and a sum that outlives the functions that add to it.
struct Pair { left: coop_mat16x16<f16, A>, right: coop_mat16x16<f16, B> }
var<private> total: coop_mat16x16<f32, C>;

fn fill(right: ptr<function, coop_mat16x16<f16, B>>) { *right = coopLoadT<coop_mat16x16<f16, B>>(&b[0], APART); }

fn pair() -> Pair {
  var p: Pair;
  p.left = coopLoad<coop_mat16x16<f16, A>>(&a[0], APART);
  fill(&p.right);
  return p;
}

fn add(sum: ptr<private, coop_mat16x16<f32, C>>, p: Pair) { *sum = coopMultiplyAdd(p.left, p.right, *sum); }

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) id: vec3<u32>) {
  let group = id.x;
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    // A by rows, B by columns, C by rows.
    a[row * APART + column] = f16(a_at(group, row, column));
    b[column * APART + row] = f16(b_at(group, row, column));
    d[row * APART + column] = c_at(row, column);
    h[row * APART + column] = f16(c_at(row, column));
    factors[group * 512u + row * APART + column] = f16(a_at(group, row, column));
    results[group * 512u + row * 16u + column] = c_at(row, column);
  }
  workgroupBarrier();
  storageBarrier();

  let rows_a = coopLoadT<coop_mat16x16<f16, A>>(&a[0], APART);
  let columns_b = coopLoad<coop_mat16x16<f16, B>>(&b[0], APART);
  let c = coopLoadT<coop_mat16x16<f32, C>>(&d[0], APART);
  let c_half = coopLoadT<coop_mat16x16<f16, C>>(&h[0], APART);
  // B read by rows is the transpose of B, A by columns that of A: (B' A')' = A B.
  let transposed_a = coopLoad<coop_mat16x16<f16, B>>(&a[0], APART);
  let transposed_b = coopLoadT<coop_mat16x16<f16, A>>(&b[0], APART);
  let stored_a = coopLoadT<coop_mat16x16<f16, A>>(&factors[group * 512u], APART);
  let stored_c = coopLoadT<coop_mat16x16<f32, C>>(&results[group * 512u], 16u);
  workgroupBarrier();

  // A B + C, stored by rows.
  coopStoreT(coopMultiplyAdd(rows_a, columns_b, c), &d[0], APART);
  coopStoreT(coopMultiplyAdd(rows_a, columns_b, c_half), &h[0], APART);
  workgroupBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    let right = product(group, row, column) + c_at(row, column);
    check(d[row * APART + column] == right, 0u);
    check(h[row * APART + column] == f16(right), 1u);
  }
  workgroupBarrier();

  // (B' A') stored by columns is A B by rows.
  coopStore(coopMultiplyAdd(transposed_b, transposed_a, coop_mat16x16<f32, C>()), &d[0], APART);
  // 2 A B - C, by columns, in halves.
  let twice = f16(2.0) * coopMultiplyAdd(rows_a, columns_b, coop_mat16x16<f16, C>());
  coopStore(twice - c_half, &h[0], APART);
  workgroupBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    let right = product(group, row, column);
    check(d[row * APART + column] == right, 2u);
    check(h[column * APART + row] == f16(2.0 * right - c_at(row, column)), 3u);
  }
  workgroupBarrier();

  // Variables, an array, a loop; sums of factors: 3 * (A + A) B + 3 C.
  var factor: coop_mat16x16<f16, A>;
  var sums: array<coop_mat16x16<f32, C>, 2>;
  sums[1] = stored_c;
  factor = stored_a + stored_a;
  for (var round = 0u; round < 3u; round++) {
    sums[0] = coopMultiplyAdd(factor, columns_b, sums[0]) + sums[1];
  }
  storageBarrier();
  coopStoreT(sums[0], &results[group * 512u], 16u);
  coopStore(sums[0] * 0.5, &d[0], APART);
  workgroupBarrier();
  storageBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    let right = 6.0 * product(group, row, column) + 3.0 * c_at(row, column);
    check(results[group * 512u + row * 16u + column] == right, 4u);
    check(d[column * APART + row] == 0.5 * right, 5u);
  }
  workgroupBarrier();

  // A and B with the other layout of each: A from its transpose by columns, B by rows.
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    a[column * APART + row] = f16(a_at(group, row, column));
    b[row * APART + column] = f16(b_at(group, row, column));
  }
  workgroupBarrier();
  let columns_a = coopLoad<coop_mat16x16<f16, A>>(&a[0], APART);
  let rows_b = coopLoadT<coop_mat16x16<f16, B>>(&b[0], APART);
  coopStoreT(coopMultiplyAdd(columns_a, rows_b, c), &d[0], APART);
  workgroupBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    check(d[row * APART + column] == product(group, row, column) + c_at(row, column), 6u);
  }
  workgroupBarrier();

  // Each layout with the other's factor.
  coopStoreT(coopMultiplyAdd(rows_a, rows_b, c), &d[0], APART);
  coopStoreT(coopMultiplyAdd(columns_a, columns_b, c_half), &h[0], APART);
  workgroupBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    let right = product(group, row, column) + c_at(row, column);
    check(d[row * APART + column] == right, 7u);
    check(h[row * APART + column] == f16(right), 8u);
  }  workgroupBarrier();

  // Through functions, pointers, members and a private variable: 2 A B + C.
  total = c;
  add(&total, pair());
  add(&total, pair());
  coopStoreT(total, &d[0], APART);
  workgroupBarrier();
  for (var i = lane; i < 256u; i += 32u) {
    let row = i / 16u;
    let column = i % 16u;
    check(d[row * APART + column] == 2.0 * product(group, row, column) + c_at(row, column), 9u);
  }
}
