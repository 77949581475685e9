// What the softmax kernels share: keys that order as f32 does, and what follows from a row's largest key.
// Key of -inf: 0x007fffff, of +inf: 0xff800000, of any NaN: 0xffffffff.

fn value_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

// What is subtracted from a row's elements: its largest if finite, else 0.
fn anchor_of(highest: u32) -> f32 {
    if highest <= 0x007fffffu || highest >= 0xff800000u { return 0.0; }
    return value_of(highest);
}

// By what a row's exponentials are multiplied; for the logarithm, what is subtracted from its elements.
fn factor_of(highest: u32, sum: f32) -> f32 {
    if highest >= 0xff800000u { return bitcast<f32>(params.nan); }
    if highest <= 0x007fffffu { return 0.0; }
    if LOG { return log_f32(sum); }
    return 1.0 / sum;
}
