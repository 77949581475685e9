// A group of four neighbours and the places of its two largest, for sparse24_values.wgsl and sparse24_metadata.wgsl.
// Requires      params.k, groups, x_offset; load_x gives bits; magnitudes(bits: vec4<u32>) -> vec4<u32>.

// Bits of group `index` of all rows; what the last group of a row has beyond k is 0.
fn load_group(index: u32) -> vec4<u32> {
    let row = index / params.groups;
    let first = 4u * (index - row * params.groups);
    let last = min(3u, params.k - first - 1u);
    let base = params.x_offset + row * params.k + first;
    let x = vec4<u32>(load_x(base), load_x(base + min(1u, last)), load_x(base + min(2u, last)), load_x(base + last));
    return select(vec4<u32>(), x, vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(last));
}

// Places of the two of largest magnitude, ascending; of equals the first.
fn places(group: vec4<u32>) -> vec2<u32> {
    let m = magnitudes(group);
    // How many beat each element: those before it when they are as large, those behind it when they are larger.
    let one = vec4<u32>(1u);
    let none = vec4<u32>(0u);
    var better = select(none, one, vec4<bool>(m.y > m.x, m.x >= m.y, m.x >= m.z, m.x >= m.w));
    better += select(none, one, vec4<bool>(m.z > m.x, m.z > m.y, m.y >= m.z, m.y >= m.w));
    better += select(none, one, vec4<bool>(m.w > m.x, m.w > m.y, m.w > m.z, m.z >= m.w));
    let stays = select(none, vec4<u32>(1u, 2u, 4u, 8u), better < vec4<u32>(2u));
    let mask = stays.x | stays.y | stays.z | stays.w;
    return vec2<u32>(firstTrailingBit(mask), firstLeadingBit(mask));
}
