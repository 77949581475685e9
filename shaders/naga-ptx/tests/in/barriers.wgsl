// Barriers and uniform loads; workgroup memory starts as zero.
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
var<workgroup> flags: array<u32, 40>;
var<workgroup> last: u32;
@compute @workgroup_size(8, 4)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) group: vec3<u32>) {
  flags[t] = data[t];
  workgroupBarrier();
  if (t == 31u) { last = flags[0] + flags[39]; }
  let everywhere = workgroupUniformLoad(&last);
  storageBarrier();
  data[t + group.x * 32u] = everywhere;
}
