// Computes      dq[i] = scale sum_j dS[i, j] k[j], with dS = p (m dP - delta), p = exp(s - lse) of the keys seen, dP = dout v^T, and m what
//               dropout multiplies p by.
// Algorithm     a block of queries goes over the blocks of keys: 1. scores and dP; 2. dS into workgroup memory; 3. its product with the
//               keys is added.
// Tiling        as attention.wgsl.
// Mapping       workgroup = (block of queries, head, batch); thread (ty, tx) owns 4 x 4 pairs, and of 4 rows of dq the quads tx + n ACROSS.
// Shared memory as attention.wgsl.
// Traffic       q, k, v and dout once for each block of queries. Bound by arithmetic: 2 (2 size + width) flops a pair.
// Numerics      sums in S; nothing is rounded before it is stored. Sums have one order, and the same bits each time.
// Requires      from plans/attention: as attention.wgsl, vectors of dout, and stats. Holes: PLACE, PRODUCT_S, PRODUCT_T, SUMS, ADD, STORE.
// Measured      not measured.
// References    Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691.

var<workgroup> staged: array<V, STAGED>;
var<workgroup> shares: array<V, ROWS * ACROSS>;
var<workgroup> wild: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = workgroup.y * workgroups.x + workgroup.x;
    if number >= params.workgroups { return; }
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
    var lse: array<S, 4>;
    var delta: array<S, 4>;
    for (var r = 0u; r < 4u; r++) {
        let i = min(row0 + 4u * ty + r, params.queries - 1u);
        lse[r] = stats[8u + 2u * (head * params.queries + i)];
        delta[r] = stats[9u + 2u * (head * params.queries + i)];
    }
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
        $PRODUCT_S
        var t0 = V();
        var t1 = V();
        var t2 = V();
        var t3 = V();
        $PRODUCT_T
        // Phase 2.
        let s = array<V, 4>(s0, s1, s2, s3);
        var t = array<V, 4>(t0, t1, t2, t3);
        let j = column0 + 4u * tx;
        workgroupBarrier(); // shares of the round before have been read
        for (var r = 0u; r < 4u; r++) {
            let i = row0 + 4u * ty + r;
            let seen = vec4<bool>(sees(b, h, i, j), sees(b, h, i, j + 1u), sees(b, h, i, j + 2u), sees(b, h, i, j + 3u));
            let p = share_of(select(V(nothing), s[r] * params.scale, seen), V(lse[r]));
            if DROPS { t[r] = select(V(), t[r] * params.factor, kept(head * params.queries + i, j)); }
            shares[(4u * ty + r) * ACROSS + tx] = select(p * (t[r] - V(delta[r])), V(), p == V());
        }
        // Phase 3.
        $ADD
    }
    $STORE
}
