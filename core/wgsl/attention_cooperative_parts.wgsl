// What the attention kernels on cooperative matrices share: quads of operands, which pairs are seen, what is not finite. The prelude has Params; xq, xk and
// xv as quads; CAUSAL, MASKED, EXACT_SIZE, EXACT_WIDTH and is_shown, which reads the mask.

alias V = vec4<f16>;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;

const LOG2_E = 1.44269504088896340736f;

// Quad `column` of row `row` of queries, keys and values whose first row begins at quad `at`; zeros beyond their ends.
fn query(at: u32, row: u32, column: u32) -> V {
    var x = V();
    if row < params.queries && (EXACT_SIZE || 4u * column < params.size) { x = xq[at + row * (params.q_row / 4u) + column]; }
    return x;
}

fn key(at: u32, row: u32, column: u32) -> V {
    var x = V();
    if row < params.keys && (EXACT_SIZE || 4u * column < params.size) { x = xk[at + row * (params.k_row / 4u) + column]; }
    return x;
}

fn value(at: u32, row: u32, column: u32) -> V {
    var x = V();
    if row < params.keys && (EXACT_WIDTH || 4u * column < params.width) { x = xv[at + row * (params.v_row / 4u) + column]; }
    return x;
}

fn is_wild(x: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) >= vec4<u32>(0x7f800000u);
}

// With 1, or -1, in place of what is not finite: zero times that is zero, and infinity times that is infinity.
fn tame(x: V) -> V {
    return select(x, select(V(1.0), V(-1.0), x < V()), is_wild(vec4<f32>(x)));
}

// Whether query i of head h sees the keys j .. j + 3.
fn seen(b: u32, h: u32, i: u32, j: u32) -> vec4<bool> {
    let keys = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u);
    var seen = keys < vec4<u32>(params.keys);
    if CAUSAL { seen = seen & (vec4<i32>(keys) <= vec4<i32>(i32(i) + params.shift)); }
    if MASKED && i < params.queries {
        if seen.x { seen.x = is_shown(b, h, i, j); }
        if seen.y { seen.y = is_shown(b, h, i, j + 1u); }
        if seen.z { seen.z = is_shown(b, h, i, j + 2u); }
        if seen.w { seen.w = is_shown(b, h, i, j + 3u); }
    }
    return seen;
}
