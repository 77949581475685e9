// Arrays: by constant index in registers, by unknown index in local memory or by choice, as values, nested.
@group(0) @binding(0) var<storage, read_write> data: array<i32>;
const TABLE = array<i32, 12>(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8);
fn pick(values: array<i32, 5>, index: u32) -> i32 { return values[index]; }
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  var constant_only: array<i32, 3>;
  constant_only[0] = data[i];
  constant_only[2] = constant_only[0] + 1;
  var chosen = array<i32, 4>(1, 2, 3, 4);
  chosen[i & 3u] += 10;
  var large: array<array<i32, 8>, 4>;
  large[i & 3u][(i >> 2u) & 7u] = data[i + 1u];
  large[1] = large[i & 3u];
  let copied = chosen;
  data[i] = constant_only[2] + chosen[(i + 1u) & 3u] + large[1][i & 7u] + TABLE[i % 12u] + copied[2]
    + pick(array<i32, 5>(5, 4, 3, 2, 1), i % 5u);
}
