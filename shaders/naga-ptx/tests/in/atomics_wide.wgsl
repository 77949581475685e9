// Atomics of 64 bits and of f32, in storage and in workgroup memory.
struct Places { sum: atomic<u64>, most: atomic<u64>, least: atomic<i64>, word: atomic<u64>, real: atomic<f32> }
@group(0) @binding(0) var<storage, read_write> places: Places;
@group(0) @binding(1) var<storage, read_write> out: array<u64>;
@group(0) @binding(2) var<storage, read_write> reals: array<f32>;
var<workgroup> count: atomic<u64>;
var<workgroup> signed: atomic<i64>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let wide = u64(id.x) << 33u;
  atomicAdd(&count, wide);
  atomicMin(&signed, i64(t) - 9li);
  workgroupBarrier();
  let before = atomicAdd(&places.sum, atomicLoad(&count));
  atomicMax(&places.most, wide);
  atomicMin(&places.least, atomicLoad(&signed));
  atomicAnd(&places.word, 0xffff0000ffff0000lu);
  atomicXor(&places.word, wide);
  let swapped = atomicExchange(&places.word, before);
  let tried = atomicCompareExchangeWeak(&places.word, swapped, wide);
  if (tried.exchanged) { atomicStore(&places.most, tried.old_value); }
  out[id.x] = atomicSub(&places.sum, 5lu) + atomicOr(&places.word, 1lu);
  atomicAdd(&places.real, 0.5);
  let old = atomicSub(&places.real, reals[id.x]);
  reals[id.x] = old + atomicExchange(&places.real, 2.0) + atomicLoad(&places.real);
}
