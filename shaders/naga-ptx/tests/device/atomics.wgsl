// Atomics and barriers against what any order of the operations must leave. Checks itself, on any backend:
//   polywarp run atomics.wgsl --device D --grid 64,1,1 --bind 0=zeros:u32:40 --bind 1=zeros:u32:64 --bind 2=zeros:u32:16384
//     --save 0=out.npy
// out[0] counts wrong results and must be 0, out[1] results looked at (more than 10,000), out[2 + i] wrong ones of kind i.
@group(0) @binding(0) var<storage, read_write> out: array<atomic<u32>>;
// One counter of finished workgroups, then one place per operation.
@group(0) @binding(1) var<storage, read_write> places: array<atomic<u32>, 64>;
// What each invocation hands to the workgroup that finishes last; not atomic.
@group(0) @binding(2) var<storage, read_write> handed: array<u32>;

const INVOCATIONS: u32 = 256u;
var<workgroup> local: array<atomic<u32>, 16>;
var<workgroup> signed: array<atomic<i32>, 4>;
var<workgroup> seen: array<atomic<u32>, 8>;
var<workgroup> plain: array<u32, INVOCATIONS>;
var<workgroup> is_last: u32;

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

// What all invocations of all workgroups up to `last` leave, one after the other.
struct Left { sum: u32, most: u32, least: u32, every: u32, some: u32, parity: u32, most_i: i32, least_i: i32 }

fn left(first: u32, last: u32) -> Left {
  var all = Left(0u, 0u, 0xffffffffu, 0xffffffffu, 0u, 0u, -0x7fffffff, 0x7fffffff);
  for (var i = first; i < last; i++) {
    let y = hash(i);
    all.sum += y;
    all.most = max(all.most, y);
    all.least = min(all.least, y);
    all.every &= y | 0xff00u;
    all.some |= y & 0x0f0f0fu;
    all.parity ^= y;
    all.most_i = max(all.most_i, bitcast<i32>(y));
    all.least_i = min(all.least_i, bitcast<i32>(y));
  }
  return all;
}

@compute @workgroup_size(256)
fn main(
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let global = group.x * INVOCATIONS + index;
  let x = hash(global);

  // Workgroup memory, results read and not read.
  let turn = atomicAdd(&local[0], 1u);
  atomicAdd(&local[1], x);
  atomicSub(&local[2], x);
  atomicMax(&local[3], x);
  if index == 0u { atomicStore(&local[4], 0xffffffffu); atomicStore(&local[5], 0xffffffffu); atomicStore(&signed[0], 0x7fffffff); }
  workgroupBarrier();
  atomicMin(&local[4], x);
  atomicAnd(&local[5], x | 0xff00u);
  atomicOr(&local[6], x & 0x0f0f0fu);
  atomicXor(&local[7], x);
  atomicMin(&signed[0], bitcast<i32>(x));
  let before_max = atomicMax(&signed[1], bitcast<i32>(x));
  let swapped = atomicExchange(&local[8], index + 1u);
  atomicAdd(&local[9], swapped);
  atomicOr(&seen[turn / 32u], 1u << (turn % 32u));
  let won = atomicCompareExchangeWeak(&local[10], 0u, index + 1u);
  if won.exchanged { atomicAdd(&local[11], 1u); }
  // A sum by compare and exchange.
  var known = atomicLoad(&local[12]);
  loop {
    let attempt = atomicCompareExchangeWeak(&local[12], known, known + x);
    if attempt.exchanged { break; }
    known = attempt.old_value;
  }
  workgroupBarrier();
  let here = left(group.x * INVOCATIONS, (group.x + 1u) * INVOCATIONS);
  check(atomicLoad(&local[0]) == INVOCATIONS, 0u);
  check(atomicLoad(&local[1]) == here.sum, 1u);
  check(atomicLoad(&local[2]) == 0u - here.sum, 2u);
  check(atomicLoad(&local[3]) == here.most, 3u);
  check(atomicLoad(&local[4]) == here.least, 4u);
  check(atomicLoad(&local[5]) == here.every, 5u);
  check(atomicLoad(&local[6]) == here.some, 6u);
  check(atomicLoad(&local[7]) == here.parity, 7u);
  check(atomicLoad(&signed[0]) == here.least_i, 8u);
  check(atomicLoad(&signed[1]) == max(here.most_i, 0), 9u);
  check(before_max <= max(here.most_i, 0), 10u);
  // Each number was put in once and taken out once, but for the last.
  check(atomicLoad(&local[8]) + atomicLoad(&local[9]) == INVOCATIONS * (INVOCATIONS + 1u) / 2u, 11u);
  check(atomicLoad(&seen[index / 32u]) == 0xffffffffu, 12u);
  check(atomicLoad(&local[11]) == 1u, 13u);
  check(won.exchanged == (atomicLoad(&local[10]) == index + 1u), 14u);
  check(won.exchanged == (won.old_value == 0u), 15u);
  check(atomicLoad(&local[12]) == here.sum, 16u);

  // Plain memory across a barrier, and a uniform load.
  plain[index] = x;
  workgroupBarrier();
  check(plain[(index + 77u) % INVOCATIONS] == hash(group.x * INVOCATIONS + (index + 77u) % INVOCATIONS), 17u);

  // Storage, from all workgroups at once.
  atomicAdd(&places[1], x);
  atomicSub(&places[2], x);
  atomicMax(&places[3], x);
  atomicMax(&places[4], ~x);
  atomicOr(&places[5], x & 0x0f0f0fu);
  atomicXor(&places[6], x);
  let number = atomicAdd(&places[7], 1u);
  check(number < groups.x * INVOCATIONS, 18u);
  handed[global] = x ^ 0x5555u;

  // The workgroup that finishes last sees what all others did.
  storageBarrier();
  if index == 0u { is_last = select(0u, 1u, atomicAdd(&places[0], 1u) == groups.x - 1u); }
  let last = workgroupUniformLoad(&is_last);
  storageBarrier();
  if last == 1u {
    let all = left(0u, groups.x * INVOCATIONS);
    check(atomicLoad(&places[1]) == all.sum, 19u);
    check(atomicLoad(&places[2]) == 0u - all.sum, 20u);
    check(atomicLoad(&places[3]) == all.most, 21u);
    check(atomicLoad(&places[4]) == ~all.least, 22u);
    check(atomicLoad(&places[5]) == all.some, 23u);
    check(atomicLoad(&places[6]) == all.parity, 24u);
    check(atomicLoad(&places[7]) == groups.x * INVOCATIONS, 25u);
    for (var other = 0u; other < groups.x; other++) {
      let i = other * INVOCATIONS + index;
      check(handed[i] == (hash(i) ^ 0x5555u), 26u);
    }
  }
}
