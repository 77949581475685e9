// Computes      dq[i] = scale sum_j dS[i, j] k[j], or dk[j] = scale sum_i dS[i, j] q[i] and dv[j] = sum_i p[i, j] dout[i], with p = exp(s - lse) of the
//               pairs that are seen and dS = p (dP - delta), dP = dout v^T; all operands in f16.
// Algorithm     a block of queries goes over the blocks of keys, or one of keys over the heads that share them and their blocks of queries: 1. scores and
//               dP by cooperative matrices, into workgroup memory; 2. p and dS as f16 into workgroup memory; 3. with care, what values that are not
//               finite give; 4. the products with what was staged are added. Care: see attention_cooperative.wgsl.
// Tiling        ROWS rows a workgroup, 16 a subgroup; STREAMED rows of the others a round.
// Mapping       workgroup = (block of rows, head, batch), of keys (block of rows, group, batch); two lanes share a row of pairs, of which they own quads
//               in turn.
// Shared memory tile, own rows at first, then the others' two operands one behind the other; a row of scores is 16 scores and 16 of dP, one of shares 16
//               probabilities and 16 of dS, 8 elements longer than that; one word.
// Traffic       q, k, v and dout once for each block of rows. Of a round three products of matrices for queries, four for keys.
// Numerics      sums in f32; p and dS are rounded to f16 before they are multiplied. Sums have one order, and the same bits each time.
// Requires      from plan/cooperative/gradient.rs: ROWS, STREAMED, PITCH, TILE, THREADS, HIDES; what attention_cooperative_parts.wgsl does; xd, stats and
//               results; OF_WILD, functions by which phase 3 adds. Subgroups of 32; matrices of 16. Holes: PLACE, LOAD_OWN, OPEN, FIRST, SCORES, PAIRS,
//               TAME, RESCALE, FETCH, ADD, PUT, CLOSE, SUMS, STORE.
// Measured      not measured.
// References    Dao, arXiv 2307.08691.

var<workgroup> tile: array<V, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * PITCH>;
var<workgroup> shares: array<V, ROWS * PITCH>;
// Whether a result was not finite.
// (16 bytes, as in attention_cooperative.wgsl.)
var<workgroup> flags: array<atomic<u32>, 4>;
const WILD = 0u;

// Of gradients of out, as the quads of attention_cooperative_parts.wgsl.
fn slope(at: u32, row: u32, column: u32) -> V {
    var x = V();
    if row < params.queries && (EXACT_WIDTH || 4u * column < params.width) { x = xd[at + row * (params.d_row / 4u) + column]; }
    return x;
}

$OF_WILD
// exp(s - lse) of the pairs that are shown.
fn share_of(s: vec4<f32>, lse: vec4<f32>, shown: vec4<bool>) -> vec4<f32> {
    return select(vec4<f32>(), exp2(fma(s, vec4<f32>(params.scale * LOG2_E), lse * -LOG2_E)), shown);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let number = workgroup.y * workgroups.x + workgroup.x;
    if number >= params.workgroups { return; }
    // The rows of the subgroup, the row of the lane, and its first quad.
    let own = subgroup * 16u;
    let row = own + lane / 2u;
    let half = lane % 2u;
    let own_at = own * PITCH;
    let at = row * PITCH + half;
    $PLACE
    if thread == 0u { atomicStore(&flags[WILD], 0u); }
    $LOAD_OWN
    var turns = 1u;
    for (var turn = 0u; turn < turns; turn++) {
        let careful = turn > 0u;
        $SUMS
        $OPEN
        workgroupBarrier(); // what was staged or stored before has been read
        $FIRST
        workgroupBarrier(); // the first rows are there
        for (var first = begin; first < reach; first += STREAMED) {
            // Phase 1.
            $SCORES
            workgroupBarrier(); // scores are written, rows have been read
            // Phase 2.
            $PAIRS
            $TAME
            workgroupBarrier(); // shares are there
            // Phase 3. A loop of one round: naga knows no condition to be uniform.
            $RESCALE
            // Phase 4.
            $FETCH
            $ADD
            workgroupBarrier(); // rows and shares have been read
            $PUT
            workgroupBarrier(); // the next rows are there
        }
        $CLOSE
        var is_strange = false;
        $STORE
        if HIDES {
            if is_strange { atomicStore(&flags[WILD], 1u); }
            workgroupBarrier(); // whether a result was not finite is there
            if turn == 0u && atomicLoad(&flags[WILD]) > 0u { turns = 2u; }
        }
    }
}
