// Pieces before sparse24_*.wgsl.

//# params
struct Params {
    units: u32,
    tail: u32,     // elements of a short last quad
    k: u32,
    groups: u32,   // of a row
    words: u32,    // of a row's metadata
    x_offset: u32,
    y_offset: u32, // units
    metadata_offset: u32,
    $more
}
@group(0) @binding(0) var<uniform> params: Params;


//# magnitudes: what is compared of the bits of four elements
fn magnitudes(bits: vec4<u32>) -> vec4<u32> { return $value; }
