// Computes      dv[j] = sum_i m p[i, j] dout[i] and dk[j] = scale sum_i dS[i, j] q[i], over the queries of all heads that share the keys; see
//               attention_queries.wgsl.
// Algorithm     a block of keys goes over the heads and blocks of queries: 1. scores and dP; 2. m p into workgroup memory, and its product with
//               dout; 3. dS into workgroup memory, and its product with q.
// Tiling        ROWS keys of a group a workgroup, COLUMNS queries a round.
// Mapping       workgroup = (block of keys, group, batch); thread (ty, tx) owns 4 x 4 pairs, and of 4 rows of dk and dv the quads
//               tx + n ACROSS.
// Shared memory as attention.wgsl.
// Traffic       q, k, v and dout once for each block of keys. Bound by arithmetic: 4 (size + width) flops a pair.
// Numerics      as attention_queries.wgsl.
// Requires      from plans/attention: as attention_queries.wgsl. Holes: PLACE, PRODUCT_S, PRODUCT_T, SUMS, ADD_V, ADD_K, STORE.
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
    // The first keys first: where attention is causal most queries see them.
    let row0 = number % params.blocks * ROWS;
    let rest = number / params.blocks;
    let groups = params.heads / params.shared_heads;
    let b = rest / groups;
    let group = rest - b * groups;
    let tx = thread % ACROSS;
    let ty = thread / ACROSS;
    if thread == 0u { atomicStore(&wild, 0u); }
    let nothing = S(bitcast<f32>(params.lowest));
    var from_query = 0u;
    if CAUSAL { from_query = u32(max(i32(row0) - params.shift, 0)); }
    $SUMS
    for (var h = group * params.shared_heads; h < (group + 1u) * params.shared_heads; h++) {
        let head = b * params.heads + h;
        $PLACE
        for (var column0 = from_query; column0 < params.queries; column0 += COLUMNS) {
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
            let s = array<V, 4>(s0, s1, s2, s3);
            var t = array<V, 4>(t0, t1, t2, t3);
            let j = row0 + 4u * ty;
            let i = column0 + 4u * tx;
            var lse: V;
            var delta: V;
            var stay: array<vec4<bool>, 4>;
            for (var c = 0u; c < 4u; c++) {
                let row = head * params.queries + min(i + c, params.queries - 1u);
                lse[c] = stats[8u + 2u * row];
                delta[c] = stats[9u + 2u * row];
                if DROPS { stay[c] = kept(row, j); }
            }
            // Phase 2.
            var p: array<V, 4>;
            workgroupBarrier(); // shares of the round before have been read
            for (var r = 0u; r < 4u; r++) {
                let seen = vec4<bool>(
                    sees(b, h, i, j + r), sees(b, h, i + 1u, j + r), sees(b, h, i + 2u, j + r), sees(b, h, i + 3u, j + r)
                );
                p[r] = share_of(select(V(nothing), s[r] * params.scale, seen), lse);
                var share = p[r];
                if DROPS {
                    let stays = vec4<bool>(stay[0][r], stay[1][r], stay[2][r], stay[3][r]);
                    share = select(V(), share * params.factor, stays);
                    t[r] = select(V(), t[r] * params.factor, stays);
                }
                shares[(4u * ty + r) * ACROSS + tx] = share;
            }
            $ADD_V
            // Phase 3.
            workgroupBarrier(); // shares have been read
            for (var r = 0u; r < 4u; r++) {
                shares[(4u * ty + r) * ACROSS + tx] = select(p[r] * (t[r] - delta), V(), p[r] == V());
            }
            $ADD_K
        }
    }
    $STORE
}
