// Every shape in memory, transposed, and times a vector from either side.
struct Shapes {
  m22: mat2x2<f32>, m23: mat2x3<f32>, m24: mat2x4<f32>,
  m32: mat3x2<f32>, m33: mat3x3<f32>, m34: mat3x4<f32>,
  m42: mat4x2<f32>, m43: mat4x3<f32>, m44: mat4x4<f32>,
}
struct Results {
  columns: array<vec4<f32>, 9>,
  rows: array<vec4<f32>, 9>,
  transposed: Shapes,
}
@group(0) @binding(0) var<uniform> shapes: Shapes;
@group(0) @binding(1) var<storage, read_write> results: Results;
@group(0) @binding(2) var<storage, read> v: vec4<f32>;

@compute @workgroup_size(1)
fn main() {
  results.columns[0] = vec4(shapes.m22 * v.xy, 0.0, 0.0);
  results.columns[1] = vec4(shapes.m23 * v.xy, 0.0);
  results.columns[2] = shapes.m24 * v.xy;
  results.columns[3] = vec4(shapes.m32 * v.xyz, 0.0, 0.0);
  results.columns[4] = vec4(shapes.m33 * v.xyz, 0.0);
  results.columns[5] = shapes.m34 * v.xyz;
  results.columns[6] = vec4(shapes.m42 * v, 0.0, 0.0);
  results.columns[7] = vec4(shapes.m43 * v, 0.0);
  results.columns[8] = shapes.m44 * v;
  results.rows[0] = vec4(v.xy * shapes.m22, 0.0, 0.0);
  results.rows[1] = vec4(v.xyz * shapes.m23, 0.0, 0.0);
  results.rows[2] = vec4(v * shapes.m24, 0.0, 0.0);
  results.rows[3] = vec4(v.xy * shapes.m32, 0.0);
  results.rows[4] = vec4(v.xyz * shapes.m33, 0.0);
  results.rows[5] = vec4(v * shapes.m34, 0.0);
  results.rows[6] = v.xy * shapes.m42;
  results.rows[7] = v.xyz * shapes.m43;
  results.rows[8] = v * shapes.m44;
  results.transposed.m22 = transpose(shapes.m22);
  results.transposed.m23 = transpose(shapes.m32);
  results.transposed.m24 = transpose(shapes.m42);
  results.transposed.m32 = transpose(shapes.m23);
  results.transposed.m33 = transpose(shapes.m33);
  results.transposed.m34 = transpose(shapes.m43);
  results.transposed.m42 = transpose(shapes.m24);
  results.transposed.m43 = transpose(shapes.m34);
  results.transposed.m44 = transpose(shapes.m44);
}
