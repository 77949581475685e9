// y = SCALE * x + y, over the first n elements.
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(1) @binding(0) var<uniform> n: u32;
override SCALE: f32 = 2.0;
override BLOCK: u32 = 64;

@compute @workgroup_size(BLOCK)
fn saxpy(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < n {
        y[id.x] += SCALE * x[id.x];
    }
}

@compute @workgroup_size(1)
fn clear(@builtin(global_invocation_id) id: vec3<u32>) {
    y[id.x] = 0.0;
}
