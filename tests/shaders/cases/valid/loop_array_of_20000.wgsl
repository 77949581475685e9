// An array declared in a loop starts as zero in every round, however large it is.
@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@compute @workgroup_size(1) fn main() { for (var r = 0u; r < a[0]; r++) { var big: array<u32, 20000>; big[a[1] + r] += 1u; a[2] += big[a[1]]; } }
