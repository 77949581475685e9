// Pieces before matmul_pack.wgsl: sixteen bytes of a line.

//# params
const THREADS = ${threads}u;
const PER_WORD = ${per_word}u;
const BITS = ${bits}u;

struct Params {
    units: u32,
    vectors: u32, // of a line
    near: u32,
    x_offset: u32,
    x_far: u32,
    x_near: u32,
}
@group(0) @binding(0) var<uniform> params: Params;

//# neighbours
@group(0) @binding(1) var<storage, read> x: array<u32>;

fn elements_of(first: u32, count: u32) -> vec4<u32> {
    let word = first / PER_WORD;
    let last = (first + count - 1u) / PER_WORD;
    let here = vec4<u32>(x[word], x[min(word + 1u, last)], x[min(word + 2u, last)], x[min(word + 3u, last)]);
    $value
}


//# words
    return here;

//# parts of words: two shifts, because one by 32 bits is undefined, and where nothing is shifted this one must clear the word
    let next = vec4<u32>(here.yzw, x[min(word + 4u, last)]);
    let shift = BITS * (first % PER_WORD);
    let rest = (next << vec4<u32>(31u - shift)) << vec4<u32>(1u);
    return (here >> vec4<u32>(shift)) | rest;

//# apart
fn elements_of(first: u32, count: u32) -> vec4<u32> {
    return vec4<u32>(
        $words
    );
}


//# target
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;
