// Pieces: where the elements of strided operands lie.

//# place: the row-major index over axes with extents e0 (innermost), e1 ... becomes a place
fn $name(index: u32) -> u32 {
    var at = $from;
    $steps
    return at;
}
