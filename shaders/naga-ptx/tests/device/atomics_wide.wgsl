// Atomics of 64 bits and of f32 against what any order of the operations must leave. Checks itself:
//   polywarp run atomics_wide.wgsl --device D --grid 64,1,1 --bind 0=zeros:u32:34 --bind 1=zeros:u32:16
//     --bind 2=zeros:f32:4 --save 0=out.npy
// out[0] counts wrong results and must be 0, out[1] results looked at (more than 100,000), out[2 + i] wrong ones of kind i.
@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
struct Places { finished: atomic<u32>, sum: atomic<u64>, most: atomic<u64>, parity: atomic<u64>, least_i: atomic<i64> }
@group(0) @binding(1) var<storage, read_write> places: Places;
@group(0) @binding(2) var<storage, read_write> reals: array<atomic<f32>>;

const INVOCATIONS: u32 = 128u;
var<workgroup> local: array<atomic<u64>, 12>;
var<workgroup> signed: array<atomic<i64>, 2>;
var<workgroup> winners: atomic<u32>;
var<workgroup> is_last: u32;

fn hash(seed: u32) -> u32 {
  var x = seed * 0x9e3779b9u + 0x7f4a7c15u;
  x = (x ^ (x >> 16u)) * 0x21f0aaadu;
  x = (x ^ (x >> 15u)) * 0x735a2d97u;
  return x ^ (x >> 15u);
}

fn wide(i: u32) -> u64 {
  return (u64(hash(i)) << 32u) | u64(hash(i ^ 0x12345u));
}

fn check(right: bool, kind: u32) {
  atomicAdd(&out[1], 1u);
  if !right {
    atomicAdd(&out[0], 1u);
    atomicAdd(&out[2u + kind], 1u);
  }
}

struct Left { sum: u64, most: u64, least: u64, every: u64, some: u64, parity: u64, most_i: i64, least_i: i64, real: f32 }

fn left(first: u32, last: u32) -> Left {
  var all = Left(0lu, 0lu, ~0lu, ~0lu, 0lu, 0lu, 0li, 0li, 0.0);
  for (var i = first; i < last; i++) {
    let y = wide(i);
    all.sum += y;
    all.most = max(all.most, y);
    all.least = min(all.least, y);
    all.every &= y | 0xff00ff0000lu;
    all.some |= y & 0xf0f0f0f0f0f0lu;
    all.parity ^= y;
    all.most_i = max(all.most_i, bitcast<i64>(y));
    all.least_i = min(all.least_i, bitcast<i64>(y));
    // Sums of small integers are exact in any order.
    all.real += f32(hash(i) & 255u);
  }
  return all;
}

@compute @workgroup_size(128)
fn main(
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let global = group.x * INVOCATIONS + index;
  let x = wide(global);
  if index == 0u { atomicStore(&local[4], ~0lu); atomicStore(&local[5], ~0lu); }
  workgroupBarrier();
  let before = atomicAdd(&local[1], x);
  atomicSub(&local[2], x);
  let most_before = atomicMax(&local[3], x);
  atomicMin(&local[4], x);
  atomicAnd(&local[5], x | 0xff00ff0000lu);
  atomicOr(&local[6], x & 0xf0f0f0f0f0f0lu);
  atomicXor(&local[7], x);
  let swapped = atomicExchange(&local[8], u64(index) + 0x100000000lu);
  atomicAdd(&local[9], swapped);
  let won = atomicCompareExchangeWeak(&local[10], 0lu, u64(index) + 0x500000001lu);
  if won.exchanged { atomicAdd(&winners, 1u); }
  atomicMax(&signed[0], bitcast<i64>(x));
  atomicMin(&signed[1], bitcast<i64>(x));
  var known = atomicLoad(&local[11]);
  loop {
    let attempt = atomicCompareExchangeWeak(&local[11], known, known + x);
    if attempt.exchanged { break; }
    known = attempt.old_value;
  }
  workgroupBarrier();
  let here = left(group.x * INVOCATIONS, (group.x + 1u) * INVOCATIONS);
  check(atomicLoad(&local[1]) == here.sum, 1u);
  check(atomicLoad(&local[2]) == 0lu - here.sum, 2u);
  check(atomicLoad(&local[3]) == here.most && most_before <= here.most, 3u);
  check(atomicLoad(&local[4]) == here.least, 4u);
  check(atomicLoad(&local[5]) == here.every, 5u);
  check(atomicLoad(&local[6]) == here.some, 6u);
  check(atomicLoad(&local[7]) == here.parity, 7u);
  let numbers = u64(INVOCATIONS * (INVOCATIONS - 1u) / 2u) + u64(INVOCATIONS) * 0x100000000lu;
  check(atomicLoad(&local[8]) + atomicLoad(&local[9]) == numbers, 8u);
  check(atomicLoad(&winners) == 1u, 9u);
  check(won.exchanged == (atomicLoad(&local[10]) == u64(index) + 0x500000001lu), 10u);
  check(atomicLoad(&signed[0]) == here.most_i && atomicLoad(&signed[1]) == here.least_i, 11u);
  check(atomicLoad(&local[11]) == here.sum, 12u);
  check(before != here.sum || x == 0lu, 13u);

  atomicAdd(&places.sum, x);
  atomicMax(&places.most, x);
  atomicXor(&places.parity, x);
  atomicMin(&places.least_i, bitcast<i64>(x));
  let real = f32(hash(global) & 255u);
  let real_before = atomicAdd(&reals[0], real);
  check(real_before >= 0.0, 14u);
  atomicSub(&reals[1], real);
  storageBarrier();
  if index == 0u { is_last = select(0u, 1u, atomicAdd(&places.finished, 1u) == groups.x - 1u); }
  let last = workgroupUniformLoad(&is_last);
  storageBarrier();
  if last == 1u {
    let all = left(0u, groups.x * INVOCATIONS);
    check(atomicLoad(&places.sum) == all.sum, 15u);
    check(atomicLoad(&places.most) == all.most, 16u);
    check(atomicLoad(&places.parity) == all.parity, 17u);
    check(atomicLoad(&places.least_i) == all.least_i, 18u);
    check(atomicLoad(&reals[0]) == all.real, 19u);
    check(atomicLoad(&reals[1]) == -all.real, 20u);
  }
}
