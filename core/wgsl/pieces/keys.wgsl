// Pieces: keys that order as elements do, and the way back: see core/src/wgsl/keys.rs. Keys is u32, or i64 for the 64-bit types.

//# key of float: NaN has the highest, zeros of both signs have one
fn key_of(x: $ty) -> Keys {
    let bits = $bits;
    let magnitude = bits & Keys(0x7fffffffu);
    let middle = Keys(0x80000000u);
    let key = select(middle $plus magnitude, middle $minus magnitude, bits != magnitude);
    return select(key, Keys(0xffffffffu), magnitude > Keys(0x7f800000u));
}

//# key of f64
fn key_of(x: $ty) -> Keys {
    let magnitude = x & Keys(9223372036854775807li);
    let key = select($order, x < Keys(0li));
    return select(key, Keys(9223372036854775807li), magnitude > Keys(0x7ff0000000000000li));
}

//# key of integer
fn key_of(x: $ty) -> Keys {
    return $key;
}

//# element of float
fn is_one_of_several(key: Keys) -> bool { return key == Keys(0x80000000u) || key == Keys(0xffffffffu); }
fn element_of(key: Keys) -> $ty {
    let middle = Keys(0x80000000u);
    let magnitude = select(key - middle, middle - key, key < middle);
    let bits = magnitude | select(Keys(0u), middle, key $is_negative middle);
    return $element;
}

//# element of f64
fn is_one_of_several(key: Keys) -> bool { return key == Keys(0li) || key == Keys(9223372036854775807li); }
fn element_of(key: Keys) -> $ty {
    let sign = Keys(select(0u, 1u, key $is_negative Keys(0li))) << 63u;
    return select(key, -key, key < Keys(0li)) | sign;
}

//# element of integer
fn is_one_of_several(key: Keys) -> bool { return false; }
fn element_of(key: Keys) -> $ty {
    return $element;
}
