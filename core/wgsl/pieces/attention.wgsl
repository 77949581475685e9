// Pieces before attention*.wgsl, and those that fill the holes of their loops. S is f32 or f64, V four of them.

//# types
alias S = $s;
alias V = vec4<$s>;
const THREADS = ${threads}u;
const DROPS = $drops;

//# tiles
const ROWS = ${rows}u;
const COLUMNS = ${columns}u;
const KEYS = ${keys}u;
const ACROSS = ${across}u;
const DEPTH = ${depth}u;
const PITCH = ${pitch}u;
const STAGED = ${staged}u;
const CAUSAL = $causal;
const MASKED = $masked;
const HIDES = $hides;
const LARGEST = $largest;

//# no slope
fn slope_of_lse(row: u32) -> S { return S(); }

//# slope
fn slope_of_lse(row: u32) -> S { return load_dlse(params.dlse_offset + row); }

//# quad: number `at` of the head that begins at `row`, and nothing behind its end
fn quad_$name(row: u32, at: u32) -> V {
    return load4_x$name(row / 4u + at);
}

//# quad of elements
fn quad_$name(row: u32, at: u32) -> V {
    let d = row + 4u * at;
    var x = V(load_x$name(d), S(), S(), S());
    if 4u * at + 1u < params.$length { x.y = load_x$name(d + 1u); }
    if 4u * at + 2u < params.$length { x.z = load_x$name(d + 2u); }
    if 4u * at + 3u < params.$length { x.w = load_x$name(d + 3u); }
    return x;
}

//# vector: of row i of those that begin at `base`, and nothing behind the last
fn vector_$name(base: u32, i: u32, at: u32) -> V {
    if i >= params.$rows || 4u * at >= params.$length { return V(); }
    return quad_$name(base + i * params.${name}_row, at);
}

//# all shown
fn is_shown(b: u32, h: u32, i: u32, j: u32) -> bool { return true; }

//# shown by mask
fn is_shown(b: u32, h: u32, i: u32, j: u32) -> bool {
    let head = params.m_offset + b * params.m_batch + h * params.m_head;
    return load_xm(head + i * params.m_row + j * params.m_column);
}

//# put: quad `at` of row number `row` of a dense result
fn put_$name(row: u32, at: u32, v: V) {
    if 4u * at >= params.$length { return; }
    let d = params.${name}_offset + row * params.$length + 4u * at;
    store4_x$name(d / 4u, v);
}

//# put elements
fn put_$name(row: u32, at: u32, v: V) {
    if 4u * at >= params.$length { return; }
    let d = params.${name}_offset + row * params.$length + 4u * at;
    store_x$name(d, v.x);
    if 4u * at + 1u < params.$length { store_x$name(d + 1u, v.y); }
    if 4u * at + 2u < params.$length { store_x$name(d + 2u, v.z); }
    if 4u * at + 3u < params.$length { store_x$name(d + 3u, v.w); }
}

//# no key
fn key() -> vec4<u32> { return vec4<u32>(); }

//# all kept
fn kept(row: u32, j: u32) -> vec4<bool> { return vec4<bool>(true); }

//# key: seed low, seed high, stream low and stream high
fn key() -> vec4<u32> {
    let low = params.low_offset;
    let high = params.high_offset;
    return vec4<u32>(load_low(low), load_high(high), load_low(low + 1u), load_high(high + 1u));
}

//# key of stats: the same in halves, which any sum holds
fn key() -> vec4<u32> {
    return vec4<u32>($words);
}

//# place
    let ${name}_at = params.${name}_offset + b * params.${name}_batch + $head * params.${name}_head;

//# store
    if row0 + 4u * ty + ${r}u < params.$rows {
        let row = (b * params.$rows + row0 + 4u * ty + ${r}u) * $heads + $head;
        $puts
    }
