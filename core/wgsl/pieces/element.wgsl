// Pieces: how elements are declared, read and written, form by form: see the tables in core/src/wgsl/element.rs.
// $name: the buffer. $c: what computes; $t: what is stored; $v2, $v4: two and four of what computes. $suffix: of conversions.

//# declaration
@group(0) @binding($binding) var<storage, $mode> $name: array<$item>;

//# load
fn load_$name(i: u32) -> $c { return $value; }

//# store
fn store_$name(i: u32, v: $c) { $name[i] = $value; }

//# load packed
fn load_$name(i: u32) -> $c { return value_$suffix(($word >> (${bits}u * (i % ${per_word}u))) & ${mask}u); }

//# store packed: neighbours in the word belong to other invocations, so no bits are cleared and set but its own
fn store_$name(i: u32, v: $c) {
    let shift = ${bits}u * (i % ${per_word}u);
    atomicAnd(&$name[i / ${per_word}u], ~(${mask}u << shift));
    atomicOr(&$name[i / ${per_word}u], bits_$suffix(v) << shift);
}

//# load pair
fn load2_$name(p: u32) -> $v2 { return $value; }

//# store pair
fn store2_$name(p: u32, v: $v2) { $name[p] = $value; }

//# load quad
fn load4_$name(q: u32) -> $v4 { return $value; }

//# store quad
fn store4_$name(q: u32, v: $v4) { $name[q] = $value; }
fn store_tail_$name(q: u32, v: $v4, count: u32) {
    if count > 0u { $name[q].x = $x; }
    if count > 1u { $name[q].y = $y; }
    if count > 2u { $name[q].z = $z; }
}

//# load wide quad
fn load_$name(i: u32) -> $t { return $name[i / 2u][i % 2u]; }
fn load4_$name(q: u32) -> $v4 {
    return $v4($name[2u * q], $name[min(2u * q + 1u, arrayLength(&$name) - 1u)]);
}

//# store wide quad
fn store4_$name(q: u32, v: $v4) {
    $name[2u * q] = v.xy;
    $name[2u * q + 1u] = v.zw;
}
fn store_tail_$name(q: u32, v: $v4, count: u32) {
    if count > 0u { $name[2u * q].x = v.x; }
    if count > 1u { $name[2u * q].y = v.y; }
    if count > 2u { $name[2u * q + 1u].x = v.z; }
}

//# load half quad
fn load_$name(i: u32) -> $c {
    return value_$suffix(($name[i / 4u][(i / 2u) % 2u] >> (16u * (i % 2u))) & 0xffffu);
}
fn load4_$name(q: u32) -> $v4 { return unpack4_$suffix($name[q]); }

//# store half quad
fn store4_$name(q: u32, v: $v4) { $name[q] = pack4_$suffix(v); }
fn store_tail_$name(q: u32, v: $v4, count: u32) {
    let w = pack4_$suffix(v);
    if count == 1u { $name[q].x = ($name[q].x & 0xffff0000u) | (w.x & 0xffffu); }
    if count > 1u { $name[q].x = w.x; }
    if count == 3u { $name[q].y = ($name[q].y & 0xffff0000u) | (w.y & 0xffffu); }
}

//# load byte quad
fn load_$name(i: u32) -> $c { return value_$suffix($name[i / 4u] >> (8u * (i % 4u))); }
fn load4_$name(q: u32) -> $v4 { return unpack4_$suffix($name[q]); }

//# store byte quad
fn store4_$name(q: u32, v: $v4) { $name[q] = pack4_$suffix(v); }
fn store_tail_$name(q: u32, v: $v4, count: u32) {
    let mask = (1u << (8u * count)) - 1u;
    if count > 0u { $name[q] = ($name[q] & ~mask) | (pack4_$suffix(v) & mask); }
}

//# load oct
fn words_$name(o: u32) -> vec4<u32> { return $name[o]; }
fn load_$name(i: u32) -> $c { return value_$suffix(($name[i / 8u][(i / 2u) % 4u] >> (16u * (i % 2u))) & 0xffffu); }
fn unpack4_$name(w: vec2<u32>) -> $v4 { return unpack4_$suffix(w); }

//# load native oct
fn words_$name(o: u32) -> vec4<u32> { return $name[o]; }
fn load_$name(i: u32) -> $c { return unpack2x16float($name[i / 8u][(i / 2u) % 4u] >> (16u * (i % 2u))).x; }
fn unpack4_$name(w: vec2<u32>) -> $v4 { return $v4(unpack2x16float(w.x), unpack2x16float(w.y)); }

//# store oct
fn store8_$name(o: u32, a: $v4, b: $v4) { $name[o] = vec4<u32>(pack4_$suffix(a), pack4_$suffix(b)); }

//# store native oct
fn store8_$name(o: u32, a: $v4, b: $v4) { $name[o] = vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw)); }
