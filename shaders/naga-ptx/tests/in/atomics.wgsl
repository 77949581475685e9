// Atomics in storage and workgroup memory.
struct Counters { signed: atomic<i32>, unsigned: atomic<u32>, many: array<atomic<u32>> }
@group(0) @binding(0) var<storage, read_write> counters: Counters;
@group(0) @binding(1) var<storage, read_write> out: array<u32>;
var<workgroup> shared_count: atomic<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  atomicAdd(&shared_count, t);
  workgroupBarrier();
  let before = atomicSub(&counters.signed, 3);
  let largest = atomicMax(&counters.unsigned, id.x);
  atomicMin(&counters.signed, before);
  atomicAnd(&counters.many[0], largest);
  atomicOr(&counters.many[1], 5u);
  atomicXor(&counters.many[id.x % arrayLength(&counters.many)], 1u);
  let swapped = atomicExchange(&counters.many[2], id.x);
  let result = atomicCompareExchangeWeak(&counters.many[3], swapped, swapped + 1u);
  if (result.exchanged) { atomicStore(&counters.many[4], result.old_value); }
  out[id.x] = atomicLoad(&shared_count) + atomicLoad(&counters.unsigned);
}
