// What WGSL says of operations, memory and control flow, one result per place of `out`; `tests/suite/semantics.rs` knows what
// they must be. Nothing is known when compiling: every operand depends on the invocation or on `zeros`.
struct Inner { x: u32, v: vec3<f32>, y: f32 }
struct Layout {
  a: u32,
  b: vec3<f32>,
  c: f32,
  d: array<vec3<u32>, 2>,
  e: mat3x3<f32>,
  f: vec2<u32>,
  g: Inner,
  h: array<Inner, 2>,
  i: u32,
}
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@group(0) @binding(1) var<storage, read> zeros: array<u32>;
@group(0) @binding(2) var<storage, read_write> placed: Layout;
@group(0) @binding(3) var<storage, read_write> spare: array<u32>;

const PLACES: u32 = 64u;
const TABLE = array<u32, 5>(10u, 20u, 30u, 40u, 50u);
var<private> counter: u32 = 3u;
var<workgroup> shared_words: array<u32, 64>;

fn count(add: u32) -> bool {
  counter += add;
  return add > 0u;
}

fn twice(p: ptr<function, u32>, q: ptr<private, u32>) -> u32 {
  *p *= 2u;
  *q += 1u;
  return *p + *q;
}

// Leaves a nest of loops and a switch by a return.
fn find(limit: u32, wanted: u32) -> u32 {
  for (var i = 0u; i < limit; i++) {
    for (var j = 0u; ; j++) {
      switch j {
        case 0u: { continue; }
        case 1u, 2u: { if i * 10u + j == wanted { return i * 100u + j; } }
        default: { break; }
      }
      if j > 4u { break; }
      if i * 10u + j == wanted + 1000u { return 7u; }
    }
  }
  return 9999u;
}

fn choose(x: u32) -> u32 {
  var r = 0u;
  switch x {
    case 0u: { r = 5u; }
    default: { r = 1u; if x > 6u { break; } r += 100u; }
    case 3u, 4u: { r = 7u; }
    case 5u: { return 55u; }
  }
  return r + x;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) i: u32) {
  let z = zeros[0];
  let zi = i32(z);
  let zf = f32(z);
  var r: array<u32, PLACES>;
  // Integers.
  r[0] = (7u + i) / z;
  r[1] = (7u + i) % z;
  r[2] = bitcast<u32>((i32(-2147483647 - 1) + zi) / (-1 + zi));
  r[3] = bitcast<u32>((i32(-2147483647 - 1) + zi) % (-1 + zi));
  r[4] = bitcast<u32>((-7 + zi) / 2);
  r[5] = bitcast<u32>((-7 + zi) % 4);
  r[6] = 1u << (i + z);
  r[7] = bitcast<u32>((-1024 + zi) >> (i % 8u));
  r[8] = (0xf000000fu + z) >> (i % 32u);
  r[9] = u32(-1.5 + zf);
  r[10] = bitcast<u32>(i32(-1.5 - zf));
  r[11] = u32(f32(i) * 1.25);
  r[12] = bitcast<u32>(f32(i32(i) - 32));
  // Memory out of bounds is somewhere inside.
  var small = array<u32, 4>(11u, 12u, 13u, 14u);
  r[13] = small[i % 4u];
  small[(i * 7u) % 4u] = 99u;
  r[14] = small[0] + small[1] + small[2] + small[3];
  r[15] = TABLE[i % 5u];
  var v = vec4<u32>(1u, 2u, 3u, 4u);
  v[i % 4u] += 10u;
  r[16] = v.x * 1000u + v.y * 100u + v.z * 10u + v.w;
  v = v.wzyx;
  r[17] = v[(i + 1u) % 4u];
  var m = mat3x2<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0);
  m[i % 3u][i % 2u] = 50.0;
  let mv = m * vec3<f32>(1.0, 2.0, 3.0);
  r[18] = u32(mv.x);
  r[19] = u32(mv.y);
  r[20] = arrayLength(&zeros) + arrayLength(&spare);
  // Calls, private memory, what is not evaluated.
  var p = i;
  r[21] = twice(&p, &counter) + p;
  r[22] = select(0u, 1u, (i % 2u == 0u) && count(5u));
  r[23] = counter;
  r[24] = select(0u, 1u, (i % 3u == 0u) || count(7u));
  r[25] = counter;
  // Control flow.
  r[26] = find(6u, i);
  r[27] = choose(i);
  var sum = 0u;
  var k = 0u;
  loop {
    if k % 3u == 1u { continue; }
    if k > i { break; }
    sum += k;
    continuing { k += 1u; break if k == 20u; }
  }
  r[28] = sum * 100u + k;
  var n = i + 1u;
  var steps = 0u;
  while n != 1u { if n % 2u == 0u { n /= 2u; } else { n = 3u * n + 1u; } steps++; }
  r[29] = steps;
  // Workgroup memory.
  shared_words[i] = i * i;
  workgroupBarrier();
  r[30] = shared_words[63u - i];
  workgroupBarrier();
  if i < 16u { shared_words[i] = shared_words[i + 16u] + shared_words[i + 32u]; }
  let uniform_word = workgroupUniformLoad(&shared_words[5]);
  r[31] = uniform_word;
  // Structures by value.
  var one = Inner(i, vec3<f32>(f32(i), 2.0, 3.0), 4.0);
  var two = one;
  two.v.y += f32(i);
  one.v = two.v.zyx;
  r[32] = u32(one.v.x * 10000.0 + one.v.y * 100.0 + one.v.z) + two.x;
  var pairs = array<vec2<u32>, 3>(vec2(1u, 2u), vec2(3u, 4u), vec2(5u, 6u));
  let copy = pairs;
  pairs[i % 3u].y = 100u;
  r[33] = copy[i % 3u].y * 1000u + pairs[0].y + pairs[1].y + pairs[2].y;
  // Bits and packing.
  r[34] = countOneBits(i) * 100u + countLeadingZeros(i) + countTrailingZeros(i);
  r[35] = firstLeadingBit(i) + firstTrailingBit(i);
  r[36] = bitcast<u32>(firstLeadingBit(-i32(i) - 1));
  r[37] = extractBits(0x12345678u + z, i % 40u, 7u);
  r[38] = bitcast<u32>(extractBits(bitcast<i32>(0x92345678u + z), i % 33u, i % 9u));
  r[39] = insertBits(0xffffffffu - z, i, i % 33u, (i * 5u) % 34u);
  r[40] = reverseBits(i);
  r[41] = dot4U8Packed(0x01020304u + i, 0x05060708u);
  r[42] = pack4xU8(vec4<u32>(i, i + 1u, 300u, 4u));
  // Floats.
  r[43] = bitcast<u32>(round(f32(i) * 0.5));
  r[44] = bitcast<u32>(fract(f32(i) * 0.25 - 3.0));
  r[45] = bitcast<u32>(clamp(f32(i) - 32.0, -5.0, 7.0));
  r[46] = bitcast<u32>(sign(f32(i) - 32.0));
  let parts = modf(f32(i) * 0.75 - 10.0);
  r[47] = bitcast<u32>(parts.whole);
  r[48] = bitcast<u32>(parts.fract);
  let split = frexp(f32(i) * 3.0);
  r[49] = bitcast<u32>(ldexp(split.fract, split.exp));
  r[50] = bitcast<u32>((f32(i) - 20.5) % 3.0);
  r[51] = bitcast<u32>(trunc(f32(i) * 0.3 - 8.0));
  r[52] = bitcast<u32>(step(10.0, f32(i)) + floor(f32(i) * -0.5) + ceil(f32(i) * 0.5));
  r[53] = bitcast<u32>(abs(i32(i) - 40)) + u32(max(i32(i) - 40, -3) + min(i32(i), 9) + 3);
  r[54] = select(1u, 2u, any(vec3<u32>(i) == vec3(3u, 5u, 7u))) + select(0u, 4u, all(vec2<u32>(i) < vec2(9u, 12u)));
  let x = u32(mat2x2<f32>(1.0, 2.0, 3.0, f32(i))[1][1]);
  r[55] = x + u32(determinant(mat2x2<f32>(f32(i), 2.0, 3.0, 4.0)) + 6.0);
  r[56] = u32(dot(vec3<f32>(f32(i), 1.0, 2.0), vec3<f32>(2.0, 3.0, 4.0)));
  r[57] = pack2x16float(vec2<f32>(f32(i), -0.5));
  r[58] = u32(unpack2x16float(r[57]).x);
  // High words of wide products.
  r[59] = u32((u64(0xfffffff0u - z) * u64(i * 0x1234567u)) >> 32u);
  r[60] = bitcast<u32>(i32((i64(-0x7ffffff0 + zi) * i64(i32(i) * 0x1234567)) >> 32u));

  for (var place = 0u; place < PLACES; place++) { out[i * PLACES + place] = r[place]; }
  if i == 0u {
    placed.a = 1u;
    placed.b = vec3(2.0, 3.0, 4.0);
    placed.c = 5.0;
    placed.d[1] = vec3(6u, 7u, 8u);
    placed.e = mat3x3<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0);
    placed.f = vec2(9u, 10u);
    placed.g = Inner(11u, vec3(12.0, 13.0, 14.0), 15.0);
    placed.h[1 + zi] = Inner(16u, vec3(17.0, 18.0, 19.0), 20.0);
    placed.i = 21u;
  }
}

// Indices out of bounds: reads and writes stay inside, whichever place they take. `spare` has 8 words.
@compute @workgroup_size(32)
fn outside(@builtin(local_invocation_index) i: u32) {
  var local = array<u32, 4>(1u, 2u, 3u, 4u);
  let far = i * 0x10000001u;
  local[far] = 5u;
  var v = vec3<u32>(1u, 2u, 3u);
  v[far % 16u] = 9u;
  var m = mat2x4<f32>();
  m[far][far] = 1.0;
  shared_words[far] = 1u;
  workgroupBarrier();
  let read = local[far] + v[far] + shared_words[far] + zeros[far] + spare[far] + u32(placed.h[far].y) + TABLE[far];
  workgroupBarrier();
  spare[far] = read & 0u;
  spare[far + 1u] = 3u & (far * 0u);
  placed.d[far][far] = 0u;
  out[i] = read;
}
