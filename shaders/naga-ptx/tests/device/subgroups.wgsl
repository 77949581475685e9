// Subgroup operations against loops over the lanes that took part. Checks itself, on any backend:
//   polywarp run subgroups.wgsl --device D --grid 16,1,1 --bind 0=zeros:u32:34 --save 0=out.npy
// out[0] counts wrong results and must be 0, out[1] results looked at (more than a million), out[2 + i] wrong results
// of kind i (the second argument of `check`).
//
// Which lanes take part in divergent control flow is asked of the device itself (ballot); what they get is checked.
@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;

struct Lane {
  index: u32,
  lane: u32,
  // Index of the subgroup's first invocation.
  base: u32,
  size: u32,
}

const INVOCATIONS: u32 = 128u;
var<workgroup> values: array<u32, INVOCATIONS>;

fn hash(seed: u32) -> u32 {
  var x = seed * 0x9e3779b9u + 0x7f4a7c15u;
  x = (x ^ (x >> 16u)) * 0x21f0aaadu;
  x = (x ^ (x >> 15u)) * 0x735a2d97u;
  return x ^ (x >> 15u);
}

fn check(right: bool, kind: u32) {
  atomicAdd(&out[1], 1u);
  if !right {
    atomicAdd(&out[0], 1u);
    atomicAdd(&out[2u + kind], 1u);
  }
}

fn takes_part(ballot: u32, lane: u32) -> bool {
  return lane < 32u && ((ballot >> lane) & 1u) == 1u;
}

// All of it at one place in control flow: first the operations, then what they should have given.
fn operations(me: Lane, x: u32, seed: u32) {
  let i = bitcast<i32>(x);
  let f = f32(x & 1023u);
  let v = vec3(x, x ^ 77u, 5u);
  let ballot = subgroupBallot(true).x;
  let odd = subgroupBallot((x & 1u) == 1u);
  let add = subgroupAdd(x);
  let mul = subgroupMul(x | 1u);
  let least = subgroupMin(x);
  let most = subgroupMax(x);
  let least_i = subgroupMin(i);
  let most_i = subgroupMax(i);
  let every = subgroupAnd(x);
  let some = subgroupOr(x);
  let parity = subgroupXor(x);
  let add_f = subgroupAdd(f);
  let least_f = subgroupMin(f);
  let add_v = subgroupAdd(v);
  let up_to = subgroupInclusiveAdd(x);
  let before = subgroupExclusiveAdd(x);
  let product_up_to = subgroupInclusiveMul(x | 1u);
  let product_before = subgroupExclusiveMul(x | 1u);
  let add_f_up_to = subgroupInclusiveAdd(f);
  let add_f_before = subgroupExclusiveAdd(f);
  let all_odd = subgroupAll((x & 1u) == 1u);
  let any_odd = subgroupAny((x & 1u) == 1u);
  let first = subgroupBroadcastFirst(x);
  let third = subgroupBroadcast(x, 3u);
  let shuffled = subgroupShuffle(x, (me.lane + seed) % me.size);
  let shuffled_v = subgroupShuffleXor(v, seed % me.size);
  let below = subgroupShuffleUp(x, 1u);
  let above = subgroupShuffleDown(x, 2u);
  let quad = quadBroadcast(x, 2u);
  let across = quadSwapDiagonal(x);
  let count = subgroupAdd(1u);

  var e_odd = 0u; var e_add = 0u; var e_mul = 1u; var e_least = 0xffffffffu; var e_most = 0u;
  var e_least_i = 0x7fffffff; var e_most_i = -0x7fffffff; var e_and = 0xffffffffu; var e_or = 0u; var e_xor = 0u;
  var e_add_f = 0.0; var e_least_f = 1e9; var e_v = vec3(0u); var e_before = 0u; var e_product = 1u;
  var e_f_before = 0.0; var e_first = 0u; var found = false; var e_count = 0u;
  for (var lane = 0u; lane < 32u; lane++) {
    if takes_part(ballot, lane) {
      let y = values[me.base + lane];
      let g = f32(y & 1023u);
      if !found { e_first = y; found = true; }
      if lane < me.lane { e_before += y; e_product *= y | 1u; e_f_before += g; }
      e_odd |= (y & 1u) << lane; e_add += y; e_mul *= y | 1u; e_least = min(e_least, y); e_most = max(e_most, y);
      e_least_i = min(e_least_i, bitcast<i32>(y)); e_most_i = max(e_most_i, bitcast<i32>(y));
      e_and &= y; e_or |= y; e_xor ^= y; e_add_f += g; e_least_f = min(e_least_f, g);
      e_v += vec3(y, y ^ 77u, 5u); e_count += 1u;
    }
  }
  check(takes_part(ballot, me.lane), 0u);
  check(all(odd == vec4(e_odd, 0u, 0u, 0u)), 1u);
  check(add == e_add, 2u);
  check(mul == e_mul, 3u);
  check(least == e_least && most == e_most, 4u);
  check(least_i == e_least_i && most_i == e_most_i, 5u);
  check(every == e_and, 6u);
  check(some == e_or, 7u);
  check(parity == e_xor, 8u);
  check(add_f == e_add_f, 9u);
  check(least_f == e_least_f, 10u);
  check(all(add_v == e_v), 11u);
  check(up_to == e_before + x, 12u);
  check(before == e_before, 13u);
  check(product_up_to == e_product * (x | 1u), 14u);
  check(product_before == e_product, 15u);
  check(add_f_up_to == e_f_before + f, 16u);
  check(add_f_before == e_f_before, 17u);
  check(all_odd == (e_odd == ballot), 18u);
  check(any_odd == (e_odd != 0u), 19u);
  check(first == e_first, 20u);
  check(count == e_count, 30u);
  // What a lane that does not take part would give is open.
  if takes_part(ballot, 3u) { check(third == values[me.base + 3u], 21u); }
  let s = (me.lane + seed) % me.size;
  if takes_part(ballot, s) { check(shuffled == values[me.base + s], 22u); }
  let t = me.lane ^ (seed % me.size);
  if takes_part(ballot, t) { check(all(shuffled_v == vec3(values[me.base + t], values[me.base + t] ^ 77u, 5u)), 23u); }
  if me.lane >= 1u && takes_part(ballot, me.lane - 1u) { check(below == values[me.index - 1u], 24u); }
  if me.lane + 2u < me.size && takes_part(ballot, me.lane + 2u) { check(above == values[me.index + 2u], 25u); }
  if (ballot >> (me.lane & 28u) & 15u) == 15u {
    check(quad == values[me.base + (me.lane & 28u) + 2u], 26u);
    check(across == values[me.base + (me.lane ^ 3u)], 27u);
  }
}

fn rounds(me: Lane, group: u32) {
  check(me.lane < me.size && me.size <= 32u, 28u);
  check(me.base + me.lane == me.index, 29u);
  for (var round = 0u; round < 24u; round++) {
    let seed = hash(group * 24u + round);
    let x = hash(seed ^ me.index);
    workgroupBarrier();
    values[me.index] = x;
    workgroupBarrier();
    operations(me, x, seed);
    // From hardly any lane to all of them.
    if hash(x) % 8u <= round % 8u { operations(me, x, seed); }
  }
}

@compute @workgroup_size(128)
fn whole(
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) size: u32,
) {
  rounds(Lane(index, lane, subgroup * size, size), group.x);
}

// The last subgroup is not whole.
@compute @workgroup_size(83)
fn partial(
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(subgroup_invocation_id) lane: u32,
  @builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) size: u32,
) {
  rounds(Lane(index, lane, subgroup * size, size), group.x);
}
