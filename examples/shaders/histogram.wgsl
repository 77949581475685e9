// Computes: bins[v] += the number of elements of `values` equal to v, for v in 0..BINS; larger values are not counted.
// Algorithm: 1. each workgroup counts its share in workgroup memory; 2. it adds its counts to the result.
// Mapping: invocations stride over `values` by the size of the whole grid, so any grid gives the same counts.
// Requires: `bins` zeroed by the caller. Integers only, so the result is the same on every device, bit for bit.

override BINS: u32 = 64u;
const MAX_BINS = 256u;
const WORKGROUP = 64u;

@group(0) @binding(0) var<storage, read> values: array<u32>;
@group(0) @binding(1) var<storage, read_write> bins: array<atomic<u32>>;

// WebGPU clears workgroup memory before a kernel starts.
var<workgroup> counts: array<atomic<u32>, MAX_BINS>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(global_invocation_id) global: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(num_workgroups) grid: vec3<u32>,
) {
    for (var i = global.x; i < arrayLength(&values); i += grid.x * WORKGROUP) {
        let value = values[i];
        if value < BINS {
            atomicAdd(&counts[value], 1u);
        }
    }
    workgroupBarrier(); // every count of this workgroup before any of them is read
    for (var bin = local; bin < BINS; bin += WORKGROUP) {
        atomicAdd(&bins[bin], atomicLoad(&counts[bin]));
    }
}
