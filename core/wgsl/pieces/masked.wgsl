// Pieces before masked.wgsl: what becomes of an element for which the mask is true, and of another; what stands behind the last place.

//# functions
fn found(i: u32, place: u32) { $found }
fn passed(i: u32) { $passed }
fn behind(place: u32) { $behind }
