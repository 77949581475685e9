// The gradient of attention on Hopper's tensor cores (sm_90a): statistics of rows, then dq, then dk and dv, each a kernel.
//
// Computes      with P as in attention_forward.cuh, made again from lse, and m what dropout multiplies a probability by (1 without):
//               delta[i] = sum over c of dout[i, c] out[i, c] - dlse[i], dP = dout v^T, dS = P (m dP - delta); dq = scale dS k,
//               dk = scale dS^T q, dv = (m P)^T dout, the last two summed over the heads that share a group.
// Algorithm     Statistics: lse in powers of two and delta, of every row. dq: blocks own BLOCK_M queries and go over the keys: 1. S and dP
//               (wgmma, operands in shared memory), 2. P while dP is under way, 3. dS, rounded, 4. dq += dS k (wgmma, dS in registers).
//               dk and dv: blocks own 128 keys and go over the heads of a group and their queries: 1. S^T = k q^T, dP^T = v dout^T,
//               2. P^T, 3. dv += P^T dout, 4. dS^T, 5. dk += dS^T q, P^T and dS^T in registers. Nothing is added in memory.
// Tiling        BLOCK_M x BLOCK_N pairs a step; two consumer warpgroups, each with 64 of the rows that its block owns.
// Mapping       attention_parts.cuh; of dk and dv rows are keys, columns queries.
// Shared memory What the block owns; then STAGES of what it goes over. Tiles as in attention_forward.cuh. Then barriers.
// Traffic       14 queries keys D operations a head where one pass that adds to dq in memory makes 10: S and dP are made twice, so that each
//               sum is made in one place, in one order.
// Numerics      As in attention_forward.cuh: P and dS rounded to 16 bits before they are multiplied, sums in f32. The same bits on every
//               run.
// Requires      As in attention_forward.cuh, of dout and out too; D up to 128.
// Measured      docs/attention.md
// References    Dao et al., FlashAttention (arXiv 2205.14135), algorithm 4; Dao, FlashAttention-2 (arXiv 2307.08691).
// Next          attention_backward_keys.cuh: dk and dv; attention_backward_short.cuh: all three at once where keys are few;
//               attention_backward_one.cuh: all three at once for long heads, dq added up in memory in one order
#pragma once
#include "attention_forward.cuh"

namespace polywarp::attention {

// Rows of statistics that lie together: their lse, then their delta. Heads have a multiple of twice as many.
constexpr uint32_t STATISTICS_ROWS = 64;

// For each row of each head lse log2(e), infinity where nothing is seen, so that every probability is 0, and delta.
struct Statistics {
    float* rows;
    uint32_t padded;  // queries, up to a multiple of 128; what is beyond them sees nothing

    // Where a row's lse is. Its delta is STATISTICS_ROWS further.
    __device__ __forceinline__ float* at(uint32_t head, uint32_t row) const {
        return rows + 2 * (static_cast<uint64_t>(head) * padded + row / STATISTICS_ROWS * STATISTICS_ROWS) + row % STATISTICS_ROWS;
    }
};

// Sum of the products of eight pairs of 16 bits.
template <typename T>
__device__ __forceinline__ float dot(const uint4& x, const uint4& y) {
    const uint32_t of_x[4] = {x.x, x.y, x.z, x.w}, of_y[4] = {y.x, y.y, y.z, y.w};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 a, b;
        if constexpr (std::is_same_v<T, __half>) {
            a = __half22float2(*reinterpret_cast<const __half2*>(&of_x[i]));
            b = __half22float2(*reinterpret_cast<const __half2*>(&of_y[i]));
        } else {
            a = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&of_x[i]));
            b = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&of_y[i]));
        }
        sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
    }
    return sum;
}

// lse as statistics have it.
__device__ __forceinline__ float lse_log2(float lse) { return lse == -INFINITY ? INFINITY : lse * LOG2_E; }

// LANES threads a row, 8 columns each. Rows in the order of out, which is read in one piece. `counters`: one for each block of
// STATISTICS_ROWS queries of a head, cleared for attention_backward_one.cuh; null for none.
template <typename T, int LANES>
__device__ __forceinline__ void find_statistics(const T* out, const T* dout, const float* lse, const float* dlse, float* rows,
                                                uint32_t batches, uint32_t heads, uint32_t queries, uint32_t width, uint32_t padded,
                                                uint32_t* counters) {
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint64_t number = (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / LANES;
    const uint32_t lane = threadIdx.x % LANES, head = number % heads;
    const uint64_t row = number / heads % padded, batch = number / heads / padded;
    float sum = 0;
    const bool inside = batch < batches && row < queries;
    if (inside && 8 * lane < width) {
        const uint64_t at = ((batch * queries + row) * heads + head) * width + 8 * lane;
        sum = dot<T>(*reinterpret_cast<const uint4*>(out + at), *reinterpret_cast<const uint4*>(dout + at));
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    if (lane == 0 && batch < batches) {
        const uint64_t which = batch * heads + head;
        float found = INFINITY;
        if (inside) {
            found = lse_log2(lse[which * queries + row]);
            sum -= dlse == nullptr ? 0 : dlse[which * queries + row];
            if (counters != nullptr && row % STATISTICS_ROWS == 0) {
                counters[which * ((queries + STATISTICS_ROWS - 1) / STATISTICS_ROWS) + row / STATISTICS_ROWS] = 0;
            }
        }
        float* to = Statistics{rows, padded}.at(which, row);
        to[0] = found;
        to[STATISTICS_ROWS] = inside ? sum : 0;
    }
}

// ---- dq ----

// OVERLAPS: the last product of a block is under way while the next one's are started, for which wide blocks have no registers.
template <typename T_, int D_, int BLOCK_N_, int STAGES_, bool OVERLAPS_, bool WITH_EXTRAS_>
struct BackwardQueries {
    using T = T_;
    static constexpr int D = D_, BLOCK_M = 2 * SLAB, BLOCK_N = BLOCK_N_, CONSUMERS = 2, THREADS = 3 * WARPGROUP;
    static constexpr uint32_t STAGES = STAGES_;
    static constexpr bool OVERLAPS = OVERLAPS_, WITH_EXTRAS = WITH_EXTRAS_;
    static constexpr uint32_t Q_BYTES = TILE_BYTES<BLOCK_M, D>, K_BYTES = TILE_BYTES<BLOCK_N, D>;
    static constexpr uint32_t K_AT = 2 * Q_BYTES, V_AT = K_AT + STAGES * K_BYTES, BARRIERS_AT = V_AT + STAGES * K_BYTES;
    // Full and empty: q and dout together; k; v.
    static constexpr uint32_t SHARED_BYTES = 1024 + BARRIERS_AT + 8 * (2 + 4 * STAGES);
    static_assert(SHARED_BYTES <= 232448, "227 KiB opt-in shared memory a block, sm_90");
    // What ForwardBarriers asks for.
    static constexpr uint32_t STAGES_Q = 1;
};

// dS of a thread's scores: of P, negative where it is dropped, and dP.
__device__ __forceinline__ float score_gradient(float p, float dp, float delta, float kept_factor) {
    return p * (p < 0 ? delta : fmaf(dp, kept_factor, -delta));
}

template <typename C>
struct QueriesConsumer {
    using T = typename C::T;
    static constexpr int D = C::D, N = C::BLOCK_N;
    uint32_t base, consumer, warp, lane;
    ForwardBarriers<C> at;
    Ring<1> of_q;
    Ring<C::STAGES> of_k, of_v;

    __device__ __forceinline__ void release(uint32_t barrier) const {
        if (lane == 0) {
            ptx::barrier_arrive(barrier);
        }
    }

    __device__ __forceinline__ void tile(const Problem& problem, const Mask& mask, const Dropout& dropout, const QueryTile& tile,
                                         const Statistics& statistics, T* dq, const Strides& strides) {
        const float scale_log2 = problem.scale * LOG2_E;
        const uint32_t first_row = tile.row + consumer * SLAB + warp * 16, row = first_row + lane / 4;
        const uint32_t head_number = tile.batch * problem.heads + tile.head;
        float sums[D / 2];
        clear(sums);
        if (tile.blocks > 0) {
            const int seen_by_all = last_seen(problem, tile.row + consumer * SLAB);
            float lse[2], delta[2];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const float* of_row = statistics.at(head_number, row + 8 * h);
                lse[h] = of_row[0];
                delta[h] = of_row[STATISTICS_ROWS];
            }
            float s[N / 2], dp[N / 2];
            uint32_t ds[N / 16][4];
            uint32_t before = 0;
            ptx::barrier_wait(at.q_full, of_q.phase);
#pragma unroll 1
            for (uint32_t block = tile.blocks; block-- > 0;) {
                // Phase 1.
                ptx::barrier_wait(at.k_full + 8 * of_k.stage, of_k.phase);
                ptx::wgmma_fence();
                multiply_rows<T, N, D, C::BLOCK_M>(s, base, consumer * SLAB, base + C::K_AT + of_k.stage * C::K_BYTES);
                ptx::wgmma_commit();
                ptx::barrier_wait(at.v_full + 8 * of_v.stage, of_v.phase);
                ptx::wgmma_fence();
                multiply_rows<T, N, D, C::BLOCK_M>(dp, base + C::Q_BYTES, consumer * SLAB, base + C::V_AT + of_v.stage * C::K_BYTES);
                ptx::wgmma_commit();
                const int key = block * N;
                Kept<N> kept;
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    const uint64_t pairs = static_cast<uint64_t>(problem.queries) * problem.keys;
                    kept.find(Key(dropout), head_number * pairs, problem.keys, row, key, lane);
                }
                // With overlap, also phase 4 of the block before.
                ptx::wgmma_wait<1>();
                ptx::keep_in_place(s);
                if constexpr (C::OVERLAPS) {
                    ptx::keep_in_place(sums);
                    ptx::keep_in_place(ds);
                    if (block + 1 < tile.blocks) {
                        release(at.k_empty + 8 * before);
                    }
                    before = of_k.stage;
                }
                // Phase 2.
#pragma unroll
                for (int i = 0; i < N / 2; ++i) {
                    s[i] = ptx::exp2_approximate(fmaf(s[i], scale_log2, -lse[i / 2 % 2]));
                }
                if (key + N - 1 > seen_by_all || (C::WITH_EXTRAS && mask.seen != nullptr)) {
                    hide_unseen<N>(problem, C::WITH_EXTRAS ? mask : Mask{}, tile.batch, tile.head, row, key, lane, [&](int i) { s[i] = 0; });
                }
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    kept.for_dropped([&](int i) { s[i] = -s[i]; });
                }
                ptx::wgmma_wait<0>();
                ptx::keep_in_place(dp);
                release(at.v_empty + 8 * of_v.stage);
                of_v.advance();
                // Phases 3 and 4.
#pragma unroll
                for (int i = 0; i < N / 2; ++i) {
                    s[i] = score_gradient(s[i], dp[i], delta[i / 2 % 2], C::WITH_EXTRAS ? dropout.factor : 1);
                }
                round_sums<T, N>(ds, s);
                ptx::keep_in_place(ds);
                ptx::wgmma_fence();
                multiply_registers<T, D, N>(sums, ds, base + C::K_AT + of_k.stage * C::K_BYTES);
                ptx::wgmma_commit();
                if constexpr (!C::OVERLAPS) {
                    ptx::wgmma_wait<0>();
                    ptx::keep_in_place(sums);
                    ptx::keep_in_place(ds);
                    release(at.k_empty + 8 * of_k.stage);
                }
                of_k.advance();
            }
            if constexpr (C::OVERLAPS) {
                ptx::wgmma_wait<0>();
                ptx::keep_in_place(sums);
                ptx::keep_in_place(ds);
                release(at.k_empty + 8 * before);
            }
            release(at.q_empty);
            of_q.advance();
        }
        const float factors[2] = {problem.scale, problem.scale};
        const int64_t to = tile.batch * strides.batch + tile.head * strides.head + first_row * strides.row;
        store<T, D>(dq + to, strides.row, sums, factors, first_row, problem.queries, problem.size, lane);
    }
};

template <typename C>
__device__ __forceinline__ void run_queries(const CUtensorMap* map_q, const CUtensorMap* map_dout, const CUtensorMap* map_k,
                                            const CUtensorMap* map_v, typename C::T* dq, const Strides& strides,
                                            const Statistics& statistics, const Problem& problem, const Mask& mask,
                                            const Dropout& dropout) {
    extern __shared__ uint8_t shared[];
    const uint32_t base = (ptx::smem_address(shared) + 1023) / 1024 * 1024;
    const ForwardBarriers<C> at(base);
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), warp = ptx::uniform(threadIdx.x % WARPGROUP / 32);
    if (threadIdx.x == 0) {
        at.initialise();
    }
    __syncthreads();
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t tiles = (problem.queries + C::BLOCK_M - 1) / C::BLOCK_M, all = problem.batches * problem.heads;
    if (warpgroup == 0) {
        ptx::give_registers<24>();
        if (warp == 0 && ptx::elected()) {
            Ring<1> of_q;
            Ring<C::STAGES> of_k, of_v;
            const uint32_t share = problem.heads / problem.groups;
            for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
                const QueryTile tile = QueryTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
                if (tile.blocks == 0) {
                    continue;
                }
                const uint32_t group = tile.head / share;
                ptx::barrier_wait(at.q_empty, of_q.phase ^ 1);
                ptx::barrier_arrive_expect(at.q_full, 2 * C::Q_BYTES);
                load<C::BLOCK_M, C::D>(base, map_q, at.q_full, tile.row, tile.head, tile.batch);
                load<C::BLOCK_M, C::D>(base + C::Q_BYTES, map_dout, at.q_full, tile.row, tile.head, tile.batch);
                of_q.advance();
#pragma unroll 1
                for (uint32_t block = tile.blocks; block-- > 0;) {
                    ptx::barrier_wait(at.k_empty + 8 * of_k.stage, of_k.phase ^ 1);
                    ptx::barrier_arrive_expect(at.k_full + 8 * of_k.stage, C::K_BYTES);
                    load<C::BLOCK_N, C::D>(base + C::K_AT + of_k.stage * C::K_BYTES, map_k, at.k_full + 8 * of_k.stage,
                                           block * C::BLOCK_N, group, tile.batch);
                    of_k.advance();
                    ptx::barrier_wait(at.v_empty + 8 * of_v.stage, of_v.phase ^ 1);
                    ptx::barrier_arrive_expect(at.v_full + 8 * of_v.stage, C::K_BYTES);
                    load<C::BLOCK_N, C::D>(base + C::V_AT + of_v.stage * C::K_BYTES, map_v, at.v_full + 8 * of_v.stage,
                                           block * C::BLOCK_N, group, tile.batch);
                    of_v.advance();
                }
            }
        }
    } else {
        ptx::take_registers<240>();
        QueriesConsumer<C> consumer = {base, warpgroup - 1, warp, threadIdx.x % 32, at};
        for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
            const QueryTile tile = QueryTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
            consumer.tile(problem, mask, dropout, tile, statistics, dq, strides);
        }
    }
}

}  // namespace polywarp::attention

// ---- Instances ----

#define ATTENTION_STATISTICS(SYMBOL, T, LANES)                                                                            \
    extern "C" __global__ void __launch_bounds__(256) SYMBOL(                                                             \
        const T* out, const T* dout, const float* lse, const float* dlse, float* rows, uint32_t batches, uint32_t heads,  \
        uint32_t queries, uint32_t width, uint32_t padded, uint32_t* counters) {                                          \
        polywarp::attention::find_statistics<T, LANES>(out, dout, lse, dlse, rows, batches, heads, queries, width, padded, \
                                                       counters);                                                         \
    }

#define ATTENTION_BACKWARD_QUERIES(SYMBOL, T, D, BLOCK_N, STAGES, OVERLAPS, WITH_EXTRAS)                                  \
    using SYMBOL##_t = polywarp::attention::BackwardQueries<T, D, BLOCK_N, STAGES, OVERLAPS, WITH_EXTRAS>;                \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_dout,                          \
        const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v, T* dq, int64_t dq_row,      \
        int64_t dq_head, int64_t dq_batch, float* statistics, uint32_t padded, uint32_t batches, uint32_t heads,          \
        uint32_t groups, uint32_t queries, uint32_t keys, uint32_t size, uint32_t width, float scale, uint32_t causal,    \
        const uint8_t* seen, int64_t seen_batch, int64_t seen_head, int64_t seen_row,             \
        int64_t seen_column, const uint32_t* random_low, const uint32_t* random_high, uint32_t threshold,                 \
        float kept_factor) {                                                                                              \
        polywarp::attention::run_queries<SYMBOL##_t>(                                                                     \
            &map_q, &map_dout, &map_k, &map_v, dq, {dq_row, dq_head, dq_batch}, {statistics, padded},                     \
            {batches, heads, groups, queries, keys, size, width, scale, causal},                          \
            {seen, seen_batch, seen_head, seen_row, seen_column}, {random_low, random_high, threshold, kept_factor});     \
    }
