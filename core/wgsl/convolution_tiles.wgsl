// Computes      D = A B for every group and phase, or a slab of its sum: a convolution, or one of its gradients. A is gathered from
//               x and never stored.
// Algorithm     1. every thread finds the places of its rows of A and B once; 2. BLOCK_K terms at a time, A is gathered and B
//               read into workgroup memory, zeros beyond the sum; 3. every thread multiplies its 4 x 4 elements.
// Tiling        BLOCK x BLOCK x BLOCK_K a workgroup.
// Mapping       T x T threads; a thread owns rows and columns T apart, so that neighbours read neighbours.
// Shared memory 2 BLOCK_K PITCH elements, K-major; PITCH is odd, so that threads along K write to different banks.
// Traffic       A is gathered once for each tile of columns, B read once for each tile of rows.
// Numerics      one chain over k for each element in the accumulator's type; slabs are added up by convolution_combine.wgsl.
// Requires      prelude: alias Acc; const T, BLOCK = 4 T, BLOCK_K, PITCH, THREADS = T T, LOADS = BLOCK BLOCK_K / THREADS,
//               A_ALONG_K, B_ALONG_K (whether neighbours in memory are terms of the sum), N_FIRST (whether they are columns
//               of the result); Params; Walk, walk_of, size_of, a_row, a_column, b_row, b_column, place_of, gathered, OUTSIDE;
//               load_w; finish(slab, place, sum).
// Measured      not measured.

var<workgroup> a_tile: array<Acc, BLOCK_K * PITCH>;
var<workgroup> b_tile: array<Acc, BLOCK_K * PITCH>;

// The element of B at `place`, zero where it is not `live`.
fn b_element(place: u32, live: bool) -> Acc {
    var value = Acc();
    if live { value = load_w(place); }
    return value;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    if id >= params.workgroups { return; }
    let tile_n = id % params.tiles_n;
    let tile_m = id / params.tiles_n % params.tiles_m;
    let rest = id / (params.tiles_n * params.tiles_m);
    let part = rest % params.groups;
    let phase = rest / params.groups % params.phases;
    let slab = rest / (params.groups * params.phases);
    let walk = walk_of(phase);
    let size = size_of(walk);
    let first_m = tile_m * BLOCK;
    let first_n = tile_n * BLOCK;
    // Phases differ by a row or a tap.
    if first_m >= size.x { return; }
    let begin = min(slab * params.slab, size.z);
    let end = min(begin + params.slab, size.z);
    // Phase 1.
    let along_k = thread % BLOCK_K;
    let across_k = thread / BLOCK_K;
    let along = thread % BLOCK;
    let across = thread / BLOCK;
    var a_rows: array<vec4<i32>, LOADS>;
    var b_rows: array<u32, LOADS>;
    for (var i = 0u; i < LOADS; i++) {
        a_rows[i] = a_row(walk, part, first_m + select(along, across_k + i * (THREADS / BLOCK_K), A_ALONG_K));
        b_rows[i] = b_row(part, first_n + select(along, across_k + i * (THREADS / BLOCK_K), B_ALONG_K));
    }
    var sums: array<vec4<Acc>, 4>;
    let m = select(thread % T, thread / T, N_FIRST);
    let n = select(thread / T, thread % T, N_FIRST);
    for (var k = begin; k < end; k += BLOCK_K) {
        // Phase 2.
        if A_ALONG_K {
            var column = OUTSIDE;
            if k + along_k < end { column = a_column(walk, part, k + along_k); }
            for (var i = 0u; i < LOADS; i++) {
                a_tile[along_k * PITCH + across_k + i * (THREADS / BLOCK_K)] = gathered(a_rows[i], column);
            }
        } else {
            for (var i = 0u; i < LOADS; i++) {
                let term = across + i * (THREADS / BLOCK);
                var column = OUTSIDE;
                if k + term < end { column = a_column(walk, part, k + term); }
                a_tile[term * PITCH + along] = gathered(a_rows[i], column);
            }
        }
        if B_ALONG_K {
            var column = 0u;
            let live = k + along_k < end;
            if live { column = b_column(walk, part, k + along_k); }
            for (var i = 0u; i < LOADS; i++) {
                let row = across_k + i * (THREADS / BLOCK_K);
                b_tile[along_k * PITCH + row] = b_element(b_rows[i] + column, live & (first_n + row < size.y));
            }
        } else {
            for (var i = 0u; i < LOADS; i++) {
                let term = across + i * (THREADS / BLOCK);
                var column = 0u;
                let live = (k + term < end) & (first_n + along < size.y);
                if live { column = b_column(walk, part, k + term); }
                b_tile[term * PITCH + along] = b_element(b_rows[i] + column, live);
            }
        }
        workgroupBarrier(); // the tiles are there
        // Phase 3.
        for (var term = 0u; term < BLOCK_K; term++) {
            let at_a = term * PITCH + m;
            let at_b = term * PITCH + n;
            let b = vec4<Acc>(b_tile[at_b], b_tile[at_b + T], b_tile[at_b + 2u * T], b_tile[at_b + 3u * T]);
            sums[0] += a_tile[at_a] * b;
            sums[1] += a_tile[at_a + T] * b;
            sums[2] += a_tile[at_a + 2u * T] * b;
            sums[3] += a_tile[at_a + 3u * T] * b;
        }
        workgroupBarrier(); // the tiles have been read
    }
    for (var i = 0u; i < 4u; i++) {
        let row = first_m + m + i * T;
        for (var j = 0u; j < 4u; j++) {
            let column = first_n + n + j * T;
            if (row < size.x) & (column < size.y) { finish(slab, place_of(walk, part, row, column), sums[i][j]); }
        }
    }
}
