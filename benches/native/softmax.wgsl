// Computes: y[r, :] = softmax(x[r, :]) over rows of `columns` floats, one workgroup per row.
struct Params { columns: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
const THREADS = 256u;
var<workgroup> part: array<f32, THREADS>;

@compute @workgroup_size(THREADS)
fn softmax(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) group: vec3<u32>) {
  let row = group.x * params.columns;
  var largest = -3.4028234e38;
  for (var i = t; i < params.columns; i += THREADS) { largest = max(largest, x[row + i]); }
  part[t] = largest;
  workgroupBarrier();
  for (var s = THREADS / 2u; s > 0u; s >>= 1u) {
    if (t < s) { part[t] = max(part[t], part[t + s]); }
    workgroupBarrier();
  }
  largest = part[0];
  workgroupBarrier();
  var sum = 0.0;
  for (var i = t; i < params.columns; i += THREADS) { sum += exp(x[row + i] - largest); }
  part[t] = sum;
  workgroupBarrier();
  for (var s = THREADS / 2u; s > 0u; s >>= 1u) {
    if (t < s) { part[t] = part[t] + part[t + s]; }
    workgroupBarrier();
  }
  let scale = 1.0 / part[0];
  for (var i = t; i < params.columns; i += THREADS) { y[row + i] = exp(x[row + i] - largest) * scale; }
}
