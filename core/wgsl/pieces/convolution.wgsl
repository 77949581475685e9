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


//# sum of slabs
fn slabs_of(element: u32) -> Acc {
    var sum = Acc();
    for (var slab = 0u; slab < params.slabs; slab++) { sum += load_sums(slab * params.total + element); }
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
