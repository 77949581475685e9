// Pieces: pairs of a key and a place, for the loops of reduce_rows.wgsl and reduce_columns.wgsl. The larger key wins, then the lower place.

//# pairs
struct Pair { key: $key, place: u32 }
alias Acc = Pair;
fn combine(a: Pair, b: Pair) -> Pair {
    if b.key > a.key || (b.key == a.key && b.place < a.place) { return b; }
    return a;
}

//# quad
alias Keys = vec4<$key>;
alias Places = vec4<u32>;
struct Quad { key: Keys, place: Places }
alias Wide = Quad;
fn combine_wide(a: Wide, b: Wide) -> Wide {
    let wins = (b.key > a.key) | ((b.key == a.key) & (b.place < a.place));
    return Wide(select(a.key, b.key, wins), select(a.place, b.place, wins));
}
fn narrow(w: Wide) -> Acc {
    let left = combine(Pair(w.key.x, w.place.x), Pair(w.key.y, w.place.y));
    return combine(left, combine(Pair(w.key.z, w.place.z), Pair(w.key.w, w.place.w)));
}
fn masked(w: Wide, live: u32) -> Wide {
    let dead = vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(live);
    return Wide(select(w.key, Keys($lowest), dead), select(w.place, Places(NOWHERE), dead));
}

//# one
alias Keys = $key;
alias Places = u32;
alias Wide = Pair;
fn combine_wide(a: Wide, b: Wide) -> Wide { return combine(a, b); }
fn narrow(w: Wide) -> Acc { return w; }
fn masked(w: Wide, live: u32) -> Wide { return w; }

//# identity: places are below u32's largest value, so anything beats nothing
const NOWHERE = 0xffffffffu;
fn wide_identity() -> Wide { return Wide(Keys($lowest), Places(NOWHERE)); }

//# read pairs: they move by what this pass adds
@group(0) @binding(1) var<storage, read> x: array<Pair>;
fn read_at(at: u32, place: u32) -> Wide { return Pair(x[at].key, x[at].place + place); }

//# read: elements become keys with their places
fn read_at(at: u32, place: u32) -> Wide { return Wide(key_of($load), $places); }

//# results
@group(0) @binding(2) var<storage, read_write> y: array<$item>;
