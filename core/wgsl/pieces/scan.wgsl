// Pieces: what a scan's kernel says around the loops of scan_*.wgsl: how elements are read, combined and written.

//# extrema: places are below u32's largest value, so that anything beats nothing
struct Acc { key: $key, place: u32 }
alias Keys = $key;
fn identity() -> Acc { return Acc($lowest, 0xffffffffu); }
fn combine(a: Acc, b: Acc) -> Acc {
    if b.key > a.key || (b.key == a.key && b.place < a.place) { return b; }
    return a;
}

//# exponential types
alias S = $s;
alias U = $u;
alias V = S;
alias K = U;

//# exponential identity
fn identity() -> Acc { return Acc(KEY_LOWEST, S()); }

//# arithmetic
alias Acc = $acc;
fn identity() -> Acc { return $identity; }
fn combine(a: Acc, b: Acc) -> Acc { return a $sign b; }

//# read carries
@group(0) @binding(1) var<storage, read> x: array<Acc>;
alias Read = Acc;
fn load(at: u32) -> Read { return x[at]; }
fn pick(v: Read, w: u32) -> Acc { return v; }
fn lift(x: Acc, p: u32) -> Acc { return x; }

//# read
alias Read = $read;
fn load(at: u32) -> Read { return $load(at); }
fn pick(v: Read, w: u32) -> $x { return $pick; }

//# lift
fn lift(x: $x, p: u32) -> Acc { return $lifted; }

//# carried
@group(0) @binding(2) var<storage, read> carries: array<Acc>;
fn carried(at: u32) -> Acc { return carries[at]; }

//# nothing carried
fn carried(at: u32) -> Acc { return identity(); }

//# give totals
@group(0) @binding(2) var<storage, read_write> y: array<Acc>;
fn fold(at: u32, total: Acc) { y[at] = total; }
fn emit(line: u32, at: u32, results: array<Acc, WIDTH>) { y[params.y_base + at] = results[0]; }

//# fold nothing
fn fold(at: u32, total: Acc) { }

//# chosen: along a row a vector holds neighbours in place, down columns neighbours at one place
fn chosen(line: u32, place: u32, w: u32) -> $y { return $chosen; }
fn place_of(place: u32) -> u32 { return $place; }

//# finish exponentials
fn finish(a: Acc) -> $y {
    if a.key > KEY_HIGHEST { return S(bitcast<f32>(params.nan)); }
    if a.key == KEY_HIGHEST { return S(bitcast<f32>(params.infinity)); }
    if a.key <= KEY_LOWEST { return S(bitcast<f32>(params.lowest)); }
    return anchor_of(a.key) + log_s(a.sum);
}

//# finish
fn finish(a: Acc) -> $y { return a; }

//# emit
fn emit(line: u32, at: u32, results: array<Acc, WIDTH>) {
    ${store}_y(params.y_base + at, $value);
}

//# emit both
fn emit(line: u32, at: u32, results: array<Acc, WIDTH>) {
    ${store}_y(params.y_base + at, $value);
    ${store}_indices(params.i_base + at, $place);
}
