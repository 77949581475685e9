// Pieces before take.wgsl: an item is four elements, or one.

//# quads
fn missing(column: u32) -> vec4<u32> {
    return vec4(params.fill_low, params.fill_high, params.fill_low, params.fill_high);
}
fn load_item(i: u32) -> vec4<u32> { return load4_x(i); }
fn store_item(i: u32, v: vec4<u32>) { store4_y(i, v); }

//# elements
fn missing(column: u32) -> u32 { return select(params.fill_low, params.fill_high, column % 2u == 1u); }
fn load_item(i: u32) -> u32 { return load_x(i); }
fn store_item(i: u32, v: u32) { store_y(i, v); }
