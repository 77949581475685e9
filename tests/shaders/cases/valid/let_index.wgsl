// A `let` is no const-expression, so this is a valid shader whose accesses are out of bounds at run time.
@group(0) @binding(0) var<storage, read_write> a: array<u32, 4>;
@compute @workgroup_size(1) fn main() { let j = 4u; a[j] = 77u; }
