// Pieces: what stands before softmax*.wgsl. S is f32 or f64, U the unsigned integer of its size, V and K vectors of them, or single ones.

//# keys of f32: what softmax_scalar.wgsl names
const SIGN = 0x80000000u;
const MAGNITUDE = 0x7fffffffu;
const INFINITY = 0x7f800000u;
const KEY_LOWEST = 0x7fffffu;
const KEY_HIGHEST = 0xff800000u;
const NAN_KEY = 0xffffffffu;

//# keys of f64
const SIGN = 0x8000000000000000lu;
const MAGNITUDE = 0x7ffffffffffffffflu;
const INFINITY = 0x7ff0000000000000lu;
const KEY_LOWEST = 0xffffffffffffflu;
const KEY_HIGHEST = 0xfff0000000000000lu;
const NAN_KEY = 0xfffffffffffffffflu;

//# exponentials of f32: the device's own, whose error stays within the op's bound; results for infinite arguments are never used
fn exp_s(x: S) -> S { return exp(x); }
fn log_s(x: S) -> S { return log_f32(x); }
fn exp_v(x: V) -> V { return exp(x); }

//# exponentials of f64
fn exp_s(x: S) -> S { return exp_f64(x); }
fn log_s(x: S) -> S { return log_f64(x); }
fn exp_v(x: V) -> V { return $each; }

//# types
alias S = $s;
alias U = $u;
alias V = $v;
alias K = $k;

//# folded quad: the largest and the sum of a vector's elements
fn highest_of(k: K) -> U { return max(max(k.x, k.y), max(k.z, k.w)); }
fn sum_of(v: V) -> S { return (v.x + v.y) + (v.z + v.w); }

//# folded one
fn highest_of(k: K) -> U { return k; }
fn sum_of(v: V) -> S { return v; }

//# load
fn load(at: u32) -> V { return $load(at); }

//# store
fn store(at: u32, v: V) { $store(at, v); }

//# states
struct State { key: U, sum: S }
@group(0) @binding(2) var<storage, read> states: array<State>;

//# states at: a vector along a row has one state, a vector across columns one for each element
fn anchor_at(state: u32) -> V { return V($anchors); }
fn factor_at(state: u32) -> V { return V($factors); }

//# limits of f32: the exponential of -200 is 0 even where subnormals are kept
const FLOOR = -200.0f;
const LOWEST = -3.4028234663852886e38f;
fn higher(a: V, b: V) -> V { return max(a, b); }
fn higher_s(a: S, b: S) -> S { return max(a, b); }

//# limits of f64: not every compiler has max for it
const FLOOR = -800.0lf;
const LOWEST = -1.7976931348623157e308lf;
fn higher(a: V, b: V) -> V { return select(a, b, b > a); }
fn higher_s(a: S, b: S) -> S { return select(a, b, b > a); }

//# row
fn top_of(v: V) -> S { return $top; }
fn lone(x: S, rest: S) -> V { return $one; }
fn key_of_one(x: S) -> U {
    let bits = bitcast<U>(x);
    return select(bits | SIGN, ~bits, bits >= SIGN);
}

//# load one
fn load_one(at: u32) -> S { return load_x(at); }

//# raw octs
alias Raw = vec4<u32>;
fn load_raw(at: u32) -> Raw { return words_x(at); }
fn low_of(raw: Raw) -> V { return unpack4_x(raw.xy); }
fn high_of(raw: Raw) -> V { return unpack4_x(raw.zw); }

//# raw
alias Raw = V;
fn load_raw(at: u32) -> Raw { return $load(at); }
fn low_of(raw: Raw) -> V { return raw; }
fn high_of(raw: Raw) -> V { return raw; }

//# row of states: what the threads of a row have, joined
struct Folds { state: State, }
fn joined(state: State, total: S) -> Folds { return Folds(state); }
fn combine_folds(a: Folds, b: Folds) -> Folds {
    return Folds(combine(a.state, b.state));
}
fn end_row(index: u32, all: Folds) { end(index, all.state, S()); }

//# row of states and sums: where the ending needs the sum of the elements
struct Folds { state: State, total: S, }
fn joined(state: State, total: S) -> Folds { return Folds(state, total); }
fn combine_folds(a: Folds, b: Folds) -> Folds {
    return Folds(combine(a.state, b.state), a.total + b.total);
}
fn end_row(index: u32, all: Folds) { end(index, all.state, all.total); }

//# wide quad
struct Quad { key: K, sum: V }
alias Wide = Quad;
fn combine_wide(a: Wide, b: Wide) -> Wide {
    let scale = shrink_wide(a.key, b.key);
    let sum = select(a.sum + b.sum * scale, a.sum * scale + b.sum, b.key > a.key);
    return Wide(max(a.key, b.key), sum);
}
fn anchor_wide(k: K) -> V { return V(anchor_of(k.x), anchor_of(k.y), anchor_of(k.z), anchor_of(k.w)); }
fn shrink_wide(a: K, b: K) -> V { return V(shrink(a.x, b.x), shrink(a.y, b.y), shrink(a.z, b.z), shrink(a.w, b.w)); }

//# wide one
alias Wide = State;
fn combine_wide(a: Wide, b: Wide) -> Wide { return combine(a, b); }
fn narrow(w: Wide) -> Acc { return w; }
fn masked(w: Wide, live: u32) -> Wide { return w; }
fn anchor_wide(k: K) -> V { return anchor_of(k); }
fn shrink_wide(a: K, b: K) -> V { return shrink(a, b); }

//# identity
fn wide_identity() -> Wide { return Wide(K(KEY_LOWEST), V()); }

//# end in states
@group(0) @binding(2) var<storage, read_write> y: array<State>;
fn end(index: u32, state: State, total: S) { y[params.target_base + index] = state; }

//# losses: what softmax_loss.wgsl asks for
fn logit(at: u32) -> S { return $logit(at); }
fn weight_of(chosen: u32) -> S { return $weight; }
const SMOOTHED = $smoothed;
const IGNORES = $ignores;
fn is_ignored(target_of: $target) -> bool {
    return IGNORES && target_of == $ignored;
}
fn is_class(target_of: $target) -> bool {
    return ${is_positive}u32(target_of) < params.classes;
}
fn number(low: u32, high: u32) -> S { return $number; }
fn places_of(index: u32) -> vec2<u32> {
    var at = vec2<u32>(params.logits_base, params.targets_base);
    var rest = index;
    $steps
    return at;
}
