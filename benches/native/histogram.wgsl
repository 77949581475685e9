// Computes: bins[v] += 1 for each byte v of n words; counted per workgroup first.
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> bins: array<atomic<u32>, 256>;
var<workgroup> local_bins: array<atomic<u32>, 256>;

@compute @workgroup_size(256)
fn histogram(
  @builtin(local_invocation_index) t: u32,
  @builtin(global_invocation_id) id: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  atomicStore(&local_bins[t], 0u);
  workgroupBarrier();
  for (var i = id.x; i < params.n; i += groups.x * 256u) {
    let word = x[i];
    atomicAdd(&local_bins[word & 255u], 1u);
    atomicAdd(&local_bins[(word >> 8u) & 255u], 1u);
    atomicAdd(&local_bins[(word >> 16u) & 255u], 1u);
    atomicAdd(&local_bins[word >> 24u], 1u);
  }
  workgroupBarrier();
  atomicAdd(&bins[t], atomicLoad(&local_bins[t]));
}
