// ptx: sm_80 trusted
// Some invocations leave a loop, the others the function: what follows is not reached by whole subgroups.
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  loop {
    if (out[i] > 5u) { break; }
    return;
  }
  out[i] = subgroupAdd(i);
}
