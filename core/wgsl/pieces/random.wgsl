// Pieces of random.wgsl, and of other kernels that draw numbers.

//# native product
// Low and high word of a * b.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let p = u64(a) * u64(b);
    return vec2<u32>(u32(p & 0xfffffffflu), u32(p >> 32u));
}


//# product
// Low and high word of a * b.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    return vec2<u32>(a * b, mul_high(a, b));
}


//# philox: Philox4x32-10 of a counter by a key
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var c = counter;
    var k = key;
    for (var round = 0u; round < 10u; round++) {
        let p0 = wide_product(0xd2511f53u, c.x);
        let p1 = wide_product(0xcd9e8d57u, c.z);
        c = vec4<u32>(p1.y ^ c.y ^ k.x, p1.x, p0.y ^ c.w ^ k.y, p0.x);
        k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}

//# sample
fn sample(bits: vec4<u32>) -> $vector {
    return $value;
}


//# word: random bits of one element, where its neighbours may have other keys: a block of four for one word
fn random_word(index: u32, seed_low: u32, seed_high: u32, stream_low: u32, stream_high: u32) -> u32 {
    return philox(vec4<u32>(index >> 2u, 0u, stream_low, stream_high), vec2<u32>(seed_low, seed_high))[index & 3u];
}
