// Pieces of convolution_stem.wgsl: what is written out for every pixel, tap and vector of filters of an invocation.
// $p: pixel. $t: tap. $v: vector of filters. $s: input along z, counted from that of the first pixel and tap.

//# sum
    var sum_${p}_$v = vec4<Acc>();

//# input: $place elements behind the first one
                    let input_$s = inputs[at + ${place}u];

//# weight: $place vectors behind the first one
                    let weight_${t}_$v = weights[of_w + ${place}u];

//# product
                    sum_${p}_$v += input_$s * weight_${t}_$v;

//# end
    if z + ${p}u < params.to_z { ended(pixel + ${p}u, quad + ${v}u * LANES, sum_${p}_$v); }

//# ended quad: all filters of a vector, which begin at a multiple of four elements
fn ended(pixel: u32, quad: u32, sum: vec4<Acc>) {
    if quad < params.quads { finish(pixel, quad, sum); }
}


//# ended each
fn ended(pixel: u32, quad: u32, sum: vec4<Acc>) {
    let first = 4u * quad;
    if first < params.width { finish(0u, vec2<u32>(pixel, first), sum.x); }
    if first + 1u < params.width { finish(0u, vec2<u32>(pixel, first + 1u), sum.y); }
    if first + 2u < params.width { finish(0u, vec2<u32>(pixel, first + 2u), sum.z); }
    if first + 3u < params.width { finish(0u, vec2<u32>(pixel, first + 3u), sum.w); }
}

