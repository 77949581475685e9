// Pieces: what elements, keys and pairs are to the loops in sort_*.wgsl.

//# types
const THREADS = ${threads}u;
const TILE = ${tile}u;
const ITEMS = ${items}u;
const LOADS = ${loads}u;
alias Key = $key;
alias Keys = Key;
const LAST: Key = $last;
struct Pair { key: Key, place: u32 }

//# reads
@group(0) @binding($binding) var<storage, read> $name: array<$item>;

//# writes
@group(0) @binding($binding) var<storage, read_write> $name: array<$item>;

//# key of place: a negative number is a large one
fn key_of(x: u32) -> Key { return min(x, params.bound); }

//# key of bool
fn key_of(x: bool) -> Key { return select($yes_first, x); }

//# key at
fn key_at(line: u32, place: u32) -> Key {
    return key_of(load_x(line + place * params.x_stride));
}

//# pairs
fn line_of(row: u32) -> u32 { return $line; }
fn pair_at(line: u32, at: u32) -> Pair { return $pair; }

//# digit
fn digit_of(key: Key) -> u32 { return $digit; }

//# give parts
fn give(row: u32, at: u32, key: Key, place: u32) {
    let to = row * params.line + at;
    given_keys[to] = key;
    given_places[to] = place;
}

//# give pairs
fn give(row: u32, at: u32, key: Key, place: u32) { sorted[row * params.line + at] = Pair(key, place); }

//# give: keys come back as elements without a look at a far place, but for those that say too little
fn give(row: u32, at: u32, key: Key, place: u32) {
    if at >= params.kept { return; }
    let to = row / params.inner * params.y_line + row % params.inner + at * params.inner;
    var element = element_of(key);
    if is_one_of_several(key) { element = load_x(base_of(row) + place * params.x_stride); }
    store_y(params.y_base + to, element);
    indices[params.i_base + to] = place;
}
