// Subgroup operations that `subgroups.wgsl` has not, and barriers.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@group(0) @binding(1) var<storage, read_write> reals: array<f32>;
var<workgroup> shared_words: array<u32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let x = data[id.x];
  let f = reals[id.x];
  shared_words[t] = x;
  subgroupBarrier();
  let near = shared_words[t ^ 1u];
  textureBarrier();
  let words = vec4(subgroupAnd(x), subgroupOr(x), subgroupMul(x), subgroupInclusiveMul(x));
  let lanes = vec4(subgroupExclusiveAdd(x), quadBroadcast(x, 2u), quadSwapX(x), quadSwapY(x));
  data[id.x] = words.x + words.y + words.z + words.w + lanes.x + lanes.y + lanes.z + lanes.w
    + quadSwapDiagonal(x) + near;
  reals[id.x] = subgroupMul(f) + subgroupInclusiveMul(f) + subgroupExclusiveAdd(f) + quadSwapDiagonal(f);
}
