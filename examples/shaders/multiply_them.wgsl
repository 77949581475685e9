// dest[i] = a[i] * b[i], for as many elements as dest has.
@group(0) @binding(0) var<storage, read_write> dest: array<f32>;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;

@compute @workgroup_size(256)
fn multiply_them(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&dest) {
        dest[id.x] = a[id.x] * b[id.x];
    }
}
