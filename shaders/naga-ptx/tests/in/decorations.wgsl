// Buffers whose accesses happen as written: nothing is kept in a register, nor read through a cache that sees no writes.
@group(0) @binding(0) @coherent var<storage, read_write> shared_flag: array<u32>;
@group(0) @binding(1) @volatile var<storage, read_write> words: array<vec4<u32>>;
@group(0) @binding(2) @coherent @volatile var<storage, read> inputs: array<f32>;
@group(0) @binding(3) var<storage, read_write> plain: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  shared_flag[i] = 1u;
  let twice = shared_flag[i] + shared_flag[i];
  words[i] = words[i] + vec4<u32>(twice);
  plain[i] = inputs[i] + inputs[i];
}
