// Which probabilities dropout keeps, of attention's kernels: `key()` gives seed low, seed high, stream low and stream high; wide_product and
// philox are those of random numbers.

// Of the query in row `row` of all and the keys j .. j + 3, which are kept.
fn kept(row: u32, j: u32) -> vec4<bool> {
    let start = wide_product(row, params.keys);
    let low = start.x + j;
    let high = start.y + select(0u, 1u, low < start.x);
    let block = vec2<u32>((low >> 2u) | (high << 30u), high >> 2u);
    let words = key();
    let first = philox(vec4<u32>(block, words.zw), words.xy);
    var bits = first;
    let lane = low & 3u;
    if lane != 0u {
        let after = vec2<u32>(block.x + 1u, block.y + select(0u, 1u, block.x == 0xffffffffu));
        let second = philox(vec4<u32>(after, words.zw), words.xy);
        if lane == 1u { bits = vec4<u32>(first.yzw, second.x); }
        if lane == 2u { bits = vec4<u32>(first.zw, second.xy); }
        if lane == 3u { bits = vec4<u32>(first.w, second.xyz); }
    }
    return (bits >> vec4<u32>(8u)) >= vec4<u32>(params.threshold);
}
