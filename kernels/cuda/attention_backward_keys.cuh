// dk and dv, the third kernel of attention's gradient on Hopper (sm_90a): attention_backward.cuh, whose head is this one's too.
#pragma once
#include "attention_backward.cuh"

namespace polywarp::attention {

// OVERLAPS: the last products of a block are under way while the next one's are started, for which D = 128 has no registers.
template <typename T_, int D_, int BLOCK_M_, int STAGES_, bool OVERLAPS_, bool WITH_EXTRAS_>
struct BackwardKeys {
    using T = T_;
    static constexpr int D = D_, BLOCK_M = BLOCK_M_, BLOCK_N = 2 * SLAB, CONSUMERS = 2, THREADS = 3 * WARPGROUP;
    static constexpr uint32_t STAGES = STAGES_;
    static constexpr bool OVERLAPS = OVERLAPS_, WITH_EXTRAS = WITH_EXTRAS_;
    static constexpr uint32_t K_BYTES = TILE_BYTES<BLOCK_N, D>, Q_BYTES = TILE_BYTES<BLOCK_M, D>;
    // A stage: tiles of q and dout; behind all tiles, lse and delta of each stage.
    static constexpr uint32_t STAGES_AT = 2 * K_BYTES, STATISTICS_AT = STAGES_AT + STAGES * 2 * Q_BYTES;
    static constexpr uint32_t ROW_BYTES = BLOCK_M * 4, STATISTICS_BYTES = 2 * ROW_BYTES;
    static constexpr uint32_t BARRIERS_AT = STATISTICS_AT + STAGES * STATISTICS_BYTES;
    static constexpr uint32_t SHARED_BYTES = 1024 + BARRIERS_AT + 8 * (2 + 2 * STAGES);
    static_assert(SHARED_BYTES <= 232448, "227 KiB opt-in shared memory a block, sm_90");
    static_assert(STATISTICS_ROWS == BLOCK_M, "a step's statistics lie together");
};

// 128 keys of a group.
struct KeyTile {
    uint32_t row, group, batch;
    // The first block of queries of which some see some of its keys; as many as there are where none does.
    uint32_t first;

    // Blocks of queries.
    template <int BLOCK_M>
    __device__ static __forceinline__ uint32_t blocks(const Problem& problem) {
        return (problem.queries + BLOCK_M - 1) / BLOCK_M;
    }

    template <int BLOCK_M, int BLOCK_N>
    __device__ static __forceinline__ KeyTile of(const Problem& problem, uint32_t which, uint32_t place) {
        KeyTile tile;
        tile.batch = which / problem.groups;
        tile.group = which - tile.batch * problem.groups;
        tile.row = place * BLOCK_N;
        const int seen_from = static_cast<int>(tile.row + problem.queries) - static_cast<int>(problem.keys);
        tile.first = problem.causal && seen_from > 0 ? min(blocks<BLOCK_M>(problem), static_cast<uint32_t>(seen_from) / BLOCK_M) : 0;
        return tile;
    }
};

template <typename C>
struct KeysConsumer {
    using T = typename C::T;
    static constexpr int D = C::D, M = C::BLOCK_M;
    const uint8_t* shared;
    uint32_t base, consumer, warp, lane, kv_full, kv_empty, full, empty;
    Ring<1> of_k;
    Ring<C::STAGES> of_q;

    __device__ __forceinline__ void release(uint32_t barrier) const {
        if (lane == 0) {
            ptx::barrier_arrive(barrier);
        }
    }

    __device__ static __forceinline__ void keep_in_place(float (&sums_k)[D / 2], float (&sums_v)[D / 2], uint32_t (&p)[M / 16][4],
                                                         uint32_t (&ds)[M / 16][4]) {
        ptx::keep_in_place(sums_k);
        ptx::keep_in_place(sums_v);
        ptx::keep_in_place(p);
        ptx::keep_in_place(ds);
    }

    __device__ __forceinline__ void tile(const Problem& problem, const Mask& mask, const Dropout& dropout, const KeyTile& tile,
                                         T* dk, const Strides& of_dk, T* dv, const Strides& of_dv) {
        const float scale_log2 = problem.scale * LOG2_E;
        const uint32_t row = consumer * SLAB, first_key = tile.row + row + warp * 16, share = problem.heads / problem.groups;
        float sums_k[D / 2], sums_v[D / 2];
        clear(sums_k);
        clear(sums_v);
        const uint32_t blocks = KeyTile::blocks<M>(problem);
        if (tile.first < blocks) {
            ptx::barrier_wait(kv_full, of_k.phase);
            float s[M / 2], dp[M / 2];
            uint32_t p[M / 16][4], ds[M / 16][4];
            uint32_t before = 0;
            uint32_t head = tile.group * share, block = tile.first;
#pragma unroll 1
            do {
                const uint32_t q = base + C::STAGES_AT + of_q.stage * 2 * C::Q_BYTES, dout = q + C::Q_BYTES;
                // Phase 1.
                ptx::barrier_wait(full + 8 * of_q.stage, of_q.phase);
                ptx::wgmma_fence();
                multiply_rows<T, M, D, C::BLOCK_N>(s, base, row, q);
                ptx::wgmma_commit();
                multiply_rows<T, M, D, C::BLOCK_N>(dp, base + C::K_BYTES, row, dout);
                ptx::wgmma_commit();
                const uint32_t query = block * M;
                KeptColumns<M> kept;
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    const uint64_t pairs = static_cast<uint64_t>(problem.queries) * problem.keys;
                    kept.find(Key(dropout), (tile.batch * problem.heads + head) * pairs, problem.keys, query, first_key, lane);
                }
                // With overlap, also phases 3 and 5 of the block before.
                ptx::wgmma_wait<1>();
                ptx::keep_in_place(s);
                if constexpr (C::OVERLAPS) {
                    keep_in_place(sums_k, sums_v, p, ds);
                    if (block > tile.first || head > tile.group * share) {
                        release(empty + 8 * before);
                    }
                    before = of_q.stage;
                }
                // Phase 2.
                const float2* lse =
                    reinterpret_cast<const float2*>(shared + C::STATISTICS_AT + of_q.stage * C::STATISTICS_BYTES) + lane % 4;
                const float2* delta = lse + C::ROW_BYTES / sizeof(float2);
#pragma unroll
                for (int c = 0; c < M / 8; ++c) {
                    const float2 of_columns = lse[4 * c];
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        float& x = s[4 * c + 2 * h];
                        float& y = s[4 * c + 2 * h + 1];
                        x = ptx::exp2_approximate(fmaf(x, scale_log2, -of_columns.x));
                        y = ptx::exp2_approximate(fmaf(y, scale_log2, -of_columns.y));
                    }
                }
                const bool some_hidden = problem.causal && static_cast<int>(tile.row + row + SLAB - 1) > last_seen(problem, query);
                if (some_hidden || (C::WITH_EXTRAS && mask.seen != nullptr)) {
                    hide_unseen_columns<M>(problem, C::WITH_EXTRAS ? mask : Mask{}, tile.batch, head, query, first_key + lane / 4, lane,
                                           [&](int i) { s[i] = 0; });
                }
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    kept.for_dropped([&](int i) { s[i] = -s[i]; });
                    round_kept<T, M>(p, s);
                } else {
                    round_sums<T, M>(p, s);
                }
                // Phase 3.
                ptx::keep_in_place(p);
                ptx::wgmma_fence();
                multiply_registers<T, D, M>(sums_v, p, dout);
                ptx::wgmma_commit();
                ptx::wgmma_wait<1>();
                ptx::keep_in_place(dp);
                // Phases 4 and 5.
#pragma unroll
                for (int c = 0; c < M / 8; ++c) {
                    const float2 of_columns = delta[4 * c];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        s[4 * c + j] = score_gradient(s[4 * c + j], dp[4 * c + j], j % 2 ? of_columns.y : of_columns.x,
                                                      C::WITH_EXTRAS ? dropout.factor : 1);
                    }
                }
                round_sums<T, M>(ds, s);
                ptx::keep_in_place(ds);
                ptx::wgmma_fence();
                multiply_registers<T, D, M>(sums_k, ds, q);
                ptx::wgmma_commit();
                if constexpr (!C::OVERLAPS) {
                    ptx::wgmma_wait<0>();
                    keep_in_place(sums_k, sums_v, p, ds);
                    release(empty + 8 * of_q.stage);
                }
                of_q.advance();
                if (++block == blocks) {
                    block = tile.first;
                    ++head;
                }
            } while (head < (tile.group + 1) * share);
            if constexpr (C::OVERLAPS) {
                ptx::wgmma_wait<0>();
                keep_in_place(sums_k, sums_v, p, ds);
                release(empty + 8 * before);
            }
            release(kv_empty);
            of_k.advance();
        }
        const float scales[2] = {problem.scale, problem.scale};
        const float factor = C::WITH_EXTRAS ? dropout.factor : 1, factors[2] = {factor, factor};
        const auto place = [&](const Strides& strides) {
            return tile.batch * strides.batch + tile.group * strides.head + first_key * strides.row;
        };
        store<T, D>(dk + place(of_dk), of_dk.row, sums_k, scales, first_key, problem.keys, problem.size, lane);
        store<T, D>(dv + place(of_dv), of_dv.row, sums_v, factors, first_key, problem.keys, problem.width, lane);
    }
};

template <typename C>
__device__ __forceinline__ void run_keys(const CUtensorMap* map_q, const CUtensorMap* map_dout, const CUtensorMap* map_k,
                                         const CUtensorMap* map_v, typename C::T* dk, const Strides& of_dk, typename C::T* dv,
                                         const Strides& of_dv, const Statistics& statistics, const Problem& problem,
                                         const Mask& mask, const Dropout& dropout) {
    extern __shared__ uint8_t shared[];
    const uint32_t begin = ptx::smem_address(shared), base = (begin + 1023) / 1024 * 1024;
    const uint32_t kv_full = base + C::BARRIERS_AT, kv_empty = kv_full + 8, full = kv_full + 16, empty = full + 8 * C::STAGES;
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), warp = ptx::uniform(threadIdx.x % WARPGROUP / 32);
    if (threadIdx.x == 0) {
        constexpr uint32_t READERS = 4 * C::CONSUMERS;  // a lane of each warp
        ptx::barrier_init(kv_full, 1);
        ptx::barrier_init(kv_empty, READERS);
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(full + 8 * stage, 1);
            ptx::barrier_init(empty + 8 * stage, READERS);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t tiles = (problem.keys + C::BLOCK_N - 1) / C::BLOCK_N, all = problem.batches * problem.groups;
    if (warpgroup == 0) {
        ptx::give_registers<24>();
        if (warp == 0 && ptx::elected()) {
            Ring<1> of_k;
            Ring<C::STAGES> of_q;
            const uint32_t share = problem.heads / problem.groups;
            for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
                const KeyTile tile = KeyTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
                const uint32_t blocks = KeyTile::blocks<C::BLOCK_M>(problem);
                if (tile.first == blocks) {
                    continue;
                }
                ptx::barrier_wait(kv_empty, of_k.phase ^ 1);
                ptx::barrier_arrive_expect(kv_full, 2 * C::K_BYTES);
                load<C::BLOCK_N, C::D>(base, map_k, kv_full, tile.row, tile.group, tile.batch);
                load<C::BLOCK_N, C::D>(base + C::K_BYTES, map_v, kv_full, tile.row, tile.group, tile.batch);
                of_k.advance();
#pragma unroll 1
                for (uint32_t head = tile.group * share; head < (tile.group + 1) * share; ++head) {
                    const float* rows = statistics.at(tile.batch * problem.heads + head, 0);
#pragma unroll 1
                    for (uint32_t block = tile.first; block < blocks; ++block) {
                        const uint32_t barrier = full + 8 * of_q.stage, q = base + C::STAGES_AT + of_q.stage * 2 * C::Q_BYTES;
                        ptx::barrier_wait(empty + 8 * of_q.stage, of_q.phase ^ 1);
                        ptx::barrier_arrive_expect(barrier, 2 * C::Q_BYTES + C::STATISTICS_BYTES);
                        load<C::BLOCK_M, C::D>(q, map_q, barrier, block * C::BLOCK_M, head, tile.batch);
                        load<C::BLOCK_M, C::D>(q + C::Q_BYTES, map_dout, barrier, block * C::BLOCK_M, head, tile.batch);
                        ptx::load_bytes(base + C::STATISTICS_AT + of_q.stage * C::STATISTICS_BYTES, rows + block * (2 * C::BLOCK_M),
                                        C::STATISTICS_BYTES, barrier);
                        of_q.advance();
                    }
                }
            }
        }
    } else {
        ptx::take_registers<240>();
        KeysConsumer<C> consumer = {shared + (base - begin), base, warpgroup - 1, warp, threadIdx.x % 32, kv_full, kv_empty, full, empty};
        for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
            const KeyTile tile =
                KeyTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
            consumer.tile(problem, mask, dropout, tile, dk, of_dk, dv, of_dv);
        }
    }
}

}  // namespace polywarp::attention

// ---- Instances ----

#define ATTENTION_BACKWARD_KEYS(SYMBOL, T, D, BLOCK_M, STAGES, OVERLAPS, WITH_EXTRAS)                                     \
    using SYMBOL##_t = polywarp::attention::BackwardKeys<T, D, BLOCK_M, STAGES, OVERLAPS, WITH_EXTRAS>;                   \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_dout,                          \
        const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v, T* dk, int64_t dk_row,      \
        int64_t dk_head, int64_t dk_batch, T* dv, int64_t dv_row, int64_t dv_head, int64_t dv_batch, float* statistics,   \
        uint32_t padded, uint32_t batches, uint32_t heads, uint32_t groups, uint32_t queries, uint32_t keys,              \
        uint32_t size, uint32_t width, float scale, uint32_t causal, const uint8_t* seen,         \
        int64_t seen_batch, int64_t seen_head, int64_t seen_row, int64_t seen_column, const uint32_t* random_low,         \
        const uint32_t* random_high, uint32_t threshold, float kept_factor) {                                             \
        polywarp::attention::run_keys<SYMBOL##_t>(                                                                        \
            &map_q, &map_dout, &map_k, &map_v, dk, {dk_row, dk_head, dk_batch}, dv, {dv_row, dv_head, dv_batch},          \
            {statistics, padded}, {batches, heads, groups, queries, keys, size, width, scale, causal},   \
            {seen, seen_batch, seen_head, seen_row, seen_column},                                          \
            {random_low, random_high, threshold, kept_factor});                                                           \
    }
