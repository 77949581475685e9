// ptx: sm_80
// Subgroup operations in uniform and in divergent control flow.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@group(0) @binding(1) var<storage, read_write> reals: array<vec2<f32>>;
@compute @workgroup_size(64)
fn main(
  @builtin(global_invocation_id) id: vec3<u32>,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) size: u32,
  @builtin(num_subgroups) count: u32,
) {
  let x = data[id.x];
  var sum = subgroupAdd(x) + subgroupInclusiveAdd(x) + subgroupExclusiveMul(x) + subgroupMin(x) + subgroupXor(x);
  let ballot = subgroupBallot(x > 5u);
  sum += ballot.x + subgroupBroadcast(x, 3u) + subgroupShuffle(x, lane ^ 1u) + subgroupShuffleXor(x, 4u)
    + subgroupShuffleUp(x, 1u) + subgroupShuffleDown(x, 2u) + subgroupBroadcastFirst(x) + quadSwapX(x);
  reals[id.x] = subgroupMax(reals[id.x]);
  if (x > 100u) {
    sum += subgroupAdd(sum);
    if (subgroupAny(sum == 7u) && !subgroupAll(sum == 8u)) { sum += 1u; }
  }
  data[id.x] = sum + subgroup * size + count;
}
