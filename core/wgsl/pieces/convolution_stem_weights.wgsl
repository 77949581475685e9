// Pieces of convolution_stem_weights.wgsl: what is written out for every term and vector of filters of an invocation.
// $j: term. $v: vector of filters.

//# term
    let term_$j = place_of(first_term + ${j}u * GROUPS);

//# sum
    var sum_${j}_$v = vec4<Acc>();

//# gradient
                let gradient_$v = gradients[of_dy + ${v}u * LANES];

//# input
                let input_$j = inputs[at + term_$j];

//# product
                sum_${j}_$v += input_$j * gradient_$v;

//# end
    ended(part.w, part.x, first_term + ${j}u * GROUPS, quad + ${v}u * LANES, sum_${j}_$v);

//# gradient quad: all filters of a vector, which begin at a multiple of four elements
fn gradient_at(pixel: u32, quad: u32) -> vec4<Acc> {
    let value = load4_w(params.w_base + pixel * params.w_pitch + min(quad, params.quads - 1u));
    return select(vec4<Acc>(), value, quad < params.quads);
}


//# gradient each
fn gradient_of(at: u32, number: u32) -> Acc {
    let value = load_w(at + min(number, params.filters - 1u));
    return select(Acc(), value, number < params.filters);
}

fn gradient_at(pixel: u32, quad: u32) -> vec4<Acc> {
    let at = params.w_base + pixel * params.w_pitch;
    let first = 4u * quad;
    return vec4<Acc>(
        gradient_of(at, first), gradient_of(at, first + 1u), gradient_of(at, first + 2u), gradient_of(at, first + 3u),
    );
}

