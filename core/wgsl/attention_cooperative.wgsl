// Computes      out[i] = sum_j p[i, j] v[j] and lse[i] = log sum_j exp(s[i, j]), of scores s = scale q k^T over the keys that are seen, with
//               p = exp(s - lse); q, k, v and out in f16.
// Algorithm     a block of queries goes over the blocks of keys: 1. scores by cooperative matrices, into workgroup memory; 2. of each row the
//               largest so far, exponentials as f16, and their sum; 3. where a largest grew by more than 2^RAISE, what was added so far turns
//               through workgroup memory and is made smaller; 4. the product with the values is added; at the end 5. all is divided by the sum.
//               Values that are not finite make NaN of a probability of 0. Where some query does not see some key and a result is not finite,
//               all is done again with care: such values count as 1 or -1 in the product, and phase 3 adds them
//               where the probability is not 0.
// Tiling        ROWS queries of a head a workgroup, 16 a subgroup; KEYS keys a round; of long values COLUMNS columns a workgroup.
// Mapping       workgroup = (block of queries, columns, head, batch); two lanes share a row of scores, of which they own quads in turn. The
//               hardware knows which lane holds what of a matrix.
// Shared memory tile, queries at first, then keys and values in turn, rows 16 bytes longer than their elements, so that neighbours lie in
//               different banks; scores in f32 and probabilities in f16, KEYS + 8 a row; two words.
// Traffic       k and v once for each block of queries; no scores. Of a round two products of matrices for 16 KEYS (size + COLUMNS) pairs.
// Numerics      sums in f32. Exponentials are taken in base 2 of scores less what is 8 below the row's mark, its largest score until it grows by more
//               than RAISE: so f16 holds them from 2^-32 to 2^14 of that score's.
// Requires      from plan/cooperative.rs: ROWS, KEYS, COLUMNS, PITCH, THREADS, PARTS, CAUSAL, MASKED, HIDES, EXACT_SIZE, EXACT_WIDTH; Params; xo,
//               store_lse; attention_cooperative_parts.wgsl. Subgroups of 32; matrices of 16. Holes: LOAD_QUERIES, FIRST_KEYS, FETCH_VALUES,
//               SCORES, PUT_VALUES, SOFTMAX, RESCALE, FETCH_KEYS, ADD, PUT_KEYS, SUMS, STORE.
// Measured      not measured.
// References    Dao, arXiv 2307.08691; marks that stay while a largest grows little: Shah et al., arXiv 2407.08608, and FlashAttention-4.

const LN_2 = 0.693147180559945309417f;
// Of marks of rows that have seen nothing.
const LARGEST = 0x1.fffffep+127f;
// By how much, in base 2, a largest score grows before the mark follows.
const RAISE = 6f;
// How far below the mark exponents begin.
const BIAS = 8f;

var<workgroup> tile: array<V, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * PITCH>;
var<workgroup> shares: array<V, ROWS * PITCH>;
// Whether a mark was raised in this round, and whether a result was not finite. 16 bytes: a driver may lay variables one behind the other, and
// matrices are loaded from multiples of 16 bytes (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986).
var<workgroup> flags: array<atomic<u32>, 4>;
const RAISED = 0u;
const WILD = 1u;

// What a row of shares gives of the values that are not finite, quad `column` of them; keys begin at row `key0`.
fn wild_sum(row: u32, at: u32, key0: u32, column: u32) -> vec4<f32> {
    var sum = vec4<f32>();
    for (var j = 0u; j < KEYS; j++) {
        let p = f32(shares[row * PITCH + j / 4u][j % 4u]);
        let x = vec4<f32>(value(at, key0 + j, column));
        if p > 0.0 { sum += select(vec4<f32>(), p * x, is_wild(x)); }
    }
    return sum;
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
    // The last queries first: where attention is causal they see most.
    let row0 = (params.blocks - 1u - number % params.blocks) * ROWS;
    let head_part = number / params.blocks;
    let head = head_part / PARTS;
    let column0 = head_part % PARTS * (COLUMNS / 4u);
    let b = head / params.heads;
    let h = head - b * params.heads;
    let group = h / params.shared_heads;
    let q_at = (params.q_offset + b * params.q_batch + h * params.q_head) / 4u;
    let k_at = (params.k_offset + b * params.k_batch + group * params.k_head) / 4u;
    let v_at = (params.v_offset + b * params.v_batch + group * params.v_head) / 4u;
    let scale = params.scale * LOG2_E;
    let nothing = vec4<f32>(bitcast<f32>(params.lowest));
    // The rows of the subgroup, the row of the lane, and its first quad.
    let own = subgroup * 16u;
    let row = own + lane / 2u;
    let half = lane % 2u;
    let own_at = own * PITCH;
    let at = row * PITCH + half;
    let i = row0 + row;
    var reach = params.keys;
    if CAUSAL {
        let last = i32(min(row0 + ROWS, params.queries)) + params.shift;
        reach = min(reach, u32(max(last, 0)));
    }
    if thread == 0u {
        atomicStore(&flags[RAISED], 0u);
        atomicStore(&flags[WILD], 0u);
    }
    $LOAD_QUERIES
    var turns = 1u;
    for (var turn = 0u; turn < turns; turn++) {
        let careful = turn > 0u;
        workgroupBarrier(); // queries, or what was stored before, have been read
        $FIRST_KEYS
        $SUMS
        var mark = -LARGEST;
        var total = 0f;
        workgroupBarrier(); // the first keys are there
        for (var key0 = 0u; key0 < reach; key0 += KEYS) {
            // Phase 1.
            $FETCH_VALUES
            $SCORES
            workgroupBarrier(); // scores are written, keys have been read
            // Phase 2.
            $PUT_VALUES
            var shrink = 1f;
            $SOFTMAX
            workgroupBarrier(); // shares, values and whether a mark was raised are there
            // Phase 3. A loop of one round: naga knows no condition to be uniform.
            let rounds = max(atomicLoad(&flags[RAISED]), u32(careful));
            for (var round = 0u; round < rounds; round++) {
                $RESCALE
            }
            // Phase 4.
            $FETCH_KEYS
            $ADD
            workgroupBarrier(); // values have been read, and whether a mark was raised
            if thread == 0u { atomicStore(&flags[RAISED], 0u); }
            $PUT_KEYS
            workgroupBarrier(); // the next keys are there
        }
        // Phase 5.
        total += subgroupShuffleXor(total, 1u);
        var inverse = 1f / max(total, 1f);
        // Less what exponents began below the mark.
        var log = mark * LN_2 + log_f32(max(total * 0x1p-8f, 1f));
        if mark <= -LARGEST {
            log = nothing.x;
            inverse = 0f;
        }
        if (bitcast<u32>(total) & 0x7fffffffu) >= 0x7f800000u {
            log = bitcast<f32>(params.nan);
            inverse = log;
        }
        if half == 0u && i < params.queries && column0 == 0u { store_lse(params.lse_offset + head * params.queries + i, log); }
        let out_at = (params.o_offset + ((b * params.queries + i) * params.heads + h) * params.width) / 4u;
        var is_strange = false;
        $STORE
        if HIDES {
            if is_strange { atomicStore(&flags[WILD], 1u); }
            workgroupBarrier(); // whether a result was not finite is there
            if turn == 0u && atomicLoad(&flags[WILD]) > 0u { turns = 2u; }
        }
    }
}
