// Computes      out[i] = sum_j p[i, j] v[j] and lse[i] = log sum_j exp(s[i, j]), of scores s = scale q k^T over the keys that are seen, with
//               p = exp(s - lse), some of which are dropped.
// Algorithm     a block of queries goes over the blocks of keys: 1. scores, scale and choice of those seen; 2. the largest so far, and by what
//               sums are scaled because of it; 3. exponentials into workgroup memory; 4. their product with the values is added; at the end
//               5. the sum of exponentials, by which all is divided.
// Tiling        ROWS queries of a head a workgroup, COLUMNS keys a round; ROWS / 4 x ACROSS threads, COLUMNS = 4 ACROSS.
// Mapping       workgroup = (block of queries, head, batch); thread (ty, tx) owns 4 x 4 scores, and of 4 rows of out the quads tx + n ACROSS.
// Shared memory shares, ROWS x COLUMNS of S; staged, (ROWS + COLUMNS) PITCH quads, a quad more a line than is staged so that lines lie in
//               different banks; one word.
// Traffic       q, k and v once for each block of queries; no scores. Bound by arithmetic: 2 (size + width) flops a pair.
// Numerics      sums and probabilities in S. Marks of rows are finite numbers, because shaders may assume that there are no
//               others.
// Requires      from plans/attention: S, V, U, K and their constants; Params; vectors of q, k and v; what stores; attention_pairs.wgsl, attention_kept.wgsl,
//               softmax_scalar.wgsl; LARGEST, the largest finite S. Holes: PLACE, PRODUCT, SUMS, RESCALE, ADD, STORE.
// Measured      not measured.
// References    Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691.

var<workgroup> staged: array<V, STAGED>;
var<workgroup> shares: array<V, ROWS * ACROSS>;
var<workgroup> wild: atomic<u32>;

// The largest of four scores as a finite number.
fn peak(s: V) -> S {
    let keys = key_of(s);
    let highest = max(max(keys.x, keys.y), max(keys.z, keys.w));
    if highest >= KEY_HIGHEST { return LARGEST; }
    if highest <= KEY_LOWEST { return -LARGEST; }
    return anchor_of(highest);
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = workgroup.y * workgroups.x + workgroup.x;
    if number >= params.workgroups { return; }
    // The last queries first: where attention is causal they see most.
    let row0 = (params.blocks - 1u - number % params.blocks) * ROWS;
    let head = number / params.blocks;
    let b = head / params.heads;
    let h = head - b * params.heads;
    let tx = thread % ACROSS;
    let ty = thread / ACROSS;
    let group = h / params.shared_heads;
    $PLACE
    if thread == 0u { atomicStore(&wild, 0u); }
    let nothing = S(bitcast<f32>(params.lowest));
    $SUMS
    var most = array<S, 4>(-LARGEST, -LARGEST, -LARGEST, -LARGEST);
    var total = array<S, 4>(S(), S(), S(), S());
    var reach = params.keys;
    if CAUSAL {
        let last = i32(min(row0 + ROWS, params.queries)) + params.shift;
        reach = min(reach, u32(max(last, 0)));
    }
    for (var column0 = 0u; column0 < reach; column0 += COLUMNS) {
        // Phase 1.
        var s0 = V();
        var s1 = V();
        var s2 = V();
        var s3 = V();
        $PRODUCT
        var s = array<V, 4>(s0, s1, s2, s3);
        let j = column0 + 4u * tx;
        for (var r = 0u; r < 4u; r++) {
            let i = row0 + 4u * ty + r;
            let seen = vec4<bool>(sees(b, h, i, j), sees(b, h, i, j + 1u), sees(b, h, i, j + 2u), sees(b, h, i, j + 3u));
            s[r] = select(V(nothing), s[r] * params.scale, seen);
        }
        // Phase 2.
        workgroupBarrier(); // shares of the round before have been read
        for (var r = 0u; r < 4u; r++) { shares[(4u * ty + r) * ACROSS + tx] = V(peak(s[r])); }
        workgroupBarrier(); // the peaks of all threads are there
        var next = most;
        for (var n = 0u; n < ACROSS; n++) {
            let at = 4u * ty * ACROSS + n;
            next[0] = max(next[0], shares[at].x);
            next[1] = max(next[1], shares[at + ACROSS].x);
            next[2] = max(next[2], shares[at + 2u * ACROSS].x);
            next[3] = max(next[3], shares[at + 3u * ACROSS].x);
        }
        workgroupBarrier(); // the peaks have been read
        // Phase 3.
        var shrink: array<S, 4>;
        for (var r = 0u; r < 4u; r++) {
            let anchor = select(next[r], S(), abs(next[r]) >= LARGEST);
            var p = exp_of(s[r], V(anchor));
            shrink[r] = S();
            if most[r] > -LARGEST { shrink[r] = exp_s(min(most[r] - anchor, S())); }
            most[r] = next[r];
            total[r] = total[r] * shrink[r] + ((p.x + p.y) + (p.z + p.w));
            if DROPS {
                p = select(V(), p * params.factor, kept(head * params.queries + row0 + 4u * ty + r, j));
            }
            shares[(4u * ty + r) * ACROSS + tx] = p;
        }
        $RESCALE
        // Phase 4.
        $ADD
    }
    // Phase 5.
    workgroupBarrier(); // shares of the last round have been read
    for (var r = 0u; r < 4u; r++) { shares[(4u * ty + r) * ACROSS + tx] = V(total[r]); }
    workgroupBarrier(); // the sums of all threads are there
    var whole = array<S, 4>(S(), S(), S(), S());
    for (var n = 0u; n < ACROSS; n++) {
        let at = 4u * ty * ACROSS + n;
        whole[0] += shares[at].x;
        whole[1] += shares[at + ACROSS].x;
        whole[2] += shares[at + 2u * ACROSS].x;
        whole[3] += shares[at + 3u * ACROSS].x;
    }
    var inverse: array<S, 4>;
    for (var r = 0u; r < 4u; r++) {
        var log = most[r] + log_s(max(whole[r], S(1)));
        inverse[r] = S(1) / max(whole[r], S(1));
        if most[r] <= -LARGEST {
            log = nothing;
            inverse[r] = S();
        }
        if most[r] >= LARGEST {
            log = S(bitcast<f32>(params.nan));
            inverse[r] = log;
        }
        let i = row0 + 4u * ty + r;
        if tx == 0u && i < params.queries { store_lse(params.lse_offset + head * params.queries + i, log); }
    }
    $STORE
}
