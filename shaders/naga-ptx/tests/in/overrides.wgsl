// ptx: trusted WIDTH=48 3=2.5
// Overrides, set by name, by number and left as they are; in a workgroup's size, an array's length and a condition.
override WIDTH: u32 = 16;
@id(3) override scale: f32;
override twice: bool = true;
override AREA: u32 = WIDTH * 2;
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
var<workgroup> row: array<f32, AREA>;
@compute @workgroup_size(WIDTH)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) group: vec3<u32>) {
  row[t] = data[group.x * WIDTH + t] * scale;
  row[t + WIDTH] = 1.0;
  workgroupBarrier();
  if (twice) { row[t] *= 2.0; }
  data[group.x * WIDTH + t] = row[t] + row[AREA - 1u - t];
}
