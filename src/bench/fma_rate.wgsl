// Computes: nothing of use; keeps the multiply-add units busy to measure how fast they are.
// Algorithm: each invocation runs 8 independent chains of 256 vec4<f32> multiply-adds and stores their sum.
// Mapping: 256 invocations per workgroup, one f32 stored by each.
// Traffic: 4 bytes and 16,384 multiply-adds per invocation: bound by arithmetic on any device.

@group(0) @binding(0) var<storage, read_write> sums: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    // Factors just below 1, different per invocation: no overflow, nothing to fold at compile time.
    let a = vec4<f32>(0.999 - f32(id.x & 255u) * 1e-6);
    let b = vec4<f32>(1e-3, 2e-3, 3e-3, 4e-3);
    var x0 = b;
    var x1 = b * 2.0;
    var x2 = b * 3.0;
    var x3 = b * 4.0;
    var x4 = b * 5.0;
    var x5 = b * 6.0;
    var x6 = b * 7.0;
    var x7 = b * 8.0;
    for (var i = 0u; i < 256u; i += 1u) {
        x0 = fma(x0, a, b);
        x1 = fma(x1, a, b);
        x2 = fma(x2, a, b);
        x3 = fma(x3, a, b);
        x4 = fma(x4, a, b);
        x5 = fma(x5, a, b);
        x6 = fma(x6, a, b);
        x7 = fma(x7, a, b);
    }
    let sum = ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7));
    if id.x < arrayLength(&sums) {
        sums[id.x] = (sum.x + sum.y) + (sum.z + sum.w);
    }
}
