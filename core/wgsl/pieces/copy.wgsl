// Pieces before scatter.wgsl and transpose*.wgsl: what a tile keeps of four elements, and walks over the dimensions.

//# kept
alias Kept = $item;
fn keep(v: vec4<u32>) -> Kept { return $keep; }
fn kept(w: Kept) -> vec4<u32> { return $kept; }

//# element
fn copy_element(i: u32) {
    $coordinates
    store_y($y, load_x($x));
}


//# place
fn $name(i: u32) -> u32 {
    $coordinates
    return $place;
}
