// Pieces before convolution_*.wgsl and convolution_depthwise*.wgsl: what becomes of a sum.

//# finish: place names pixel and channel
fn finish(slab: u32, place: vec2<u32>, sum: Acc) {
    let element = place.x * params.width + place.y;
    var value = sum;
    $residual
    $bias
    $activation
    store_y(params.y_base + element, value);
}


//# residual
    value += load_residual(params.c_base + place.x * params.c_pitch + place.y);

//# bias
    value += load_bias(params.bias_base + place.y * params.bias_step);

//# activation
    value = $value;

//# finish slab
fn finish(slab: u32, place: vec2<u32>, sum: Acc) {
    let element = place.x * params.width + place.y;
    store_y(slab * params.total + element, sum);
}


//# sum of slabs: eight loads are on their way at a time, added up in order
fn slabs_of(element: u32) -> Acc {
    var sum = Acc();
    var at = element;
    for (var block = 0u; block < params.slabs / 8u; block++) {
        let a = load_sums(at);
        let b = load_sums(at + params.total);
        let c = load_sums(at + 2u * params.total);
        let d = load_sums(at + 3u * params.total);
        let e = load_sums(at + 4u * params.total);
        let f = load_sums(at + 5u * params.total);
        let g = load_sums(at + 6u * params.total);
        let h = load_sums(at + 7u * params.total);
        sum = sum + a + b + c + d + e + f + g + h;
        at += 8u * params.total;
    }
    for (var slab = 0u; slab < params.slabs % 8u; slab++) { sum += load_sums(at + slab * params.total); }
    return sum;
}

//# no slabs
fn slabs_of(element: u32) -> Acc { return Acc(); }

//# finish weights
fn finish(slab: u32, element: u32, sum: Acc) { store_y($place + element, sum); }


//# activated
fn activated(value: Acc) -> Acc { return $value; }


//# finish quad
fn finish(pixel: u32, quad: u32, sum: vec4<Acc>) {
    var value = sum;
    $residual
    $bias
    $activation
    store4_y(params.y_base + pixel * params.quads + quad, value);
}


//# residual quad
    value += load4_residual(params.c_base + pixel * params.c_pitch + quad);

//# bias quad
    let at = params.bias_base + 4u * quad * params.bias_step;
    value += vec4<Acc>($each);

//# activated quad
    value = vec4<Acc>(activated(value.x), activated(value.y), activated(value.z), activated(value.w));
