// Computes      the words of the first fault, number `first` of the positions, unless they hold an earlier one.
// Algorithm     one invocation reads the position once more and writes six words.
// Tiling        none.
// Mapping       the first invocation of the only workgroup.
// Shared memory none.
// Traffic       one position, six words.
// Numerics      whole numbers.
// Requires      prelude: Params with `w_offset`, `code`, `extent`; position, load_w, store_w.
// Measured      not measured.
fn keep(first: u32) {
    let w = params.w_offset;
    if first == NONE || load_w(w) != 0u { return; }
    let at = position(first);
    store_w(w, params.code);
    store_w(w + 1u, first);
    store_w(w + 2u, 0u);
    store_w(w + 3u, at.x);
    store_w(w + 4u, at.y);
    store_w(w + 5u, params.extent);
}
