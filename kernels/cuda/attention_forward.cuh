// Attention on Hopper's tensor cores (sm_90a): scores stay in registers, and are never in memory.
//
// Computes      out[b, i, h, :] = sum over j of P[i, j] v[b, j, g, :], P = softmax over j of scale q[b, i, h, :] . k[b, j, g, :], where
//               g = h groups / heads; lse[b, h, i] = log of the sum over j of exp(scale q . k). j runs over the keys that query i
//               sees: all, up to i + keys - queries (causal), and those where a mask is true. WITH_EXTRAS: of P some are dropped and
//               the others multiplied (Dropout). q [batches, queries, heads, size], k [batches, keys, groups, size], v [batches,
//               keys, groups, width]; out dense.
// Algorithm     Persistent blocks walk over tiles of BLOCK_M queries of a head (Walk). 1. one thread of the producer warpgroup keeps rings of
//               tiles of q, k and v filled by TMA, some of the next queries' too; 2. consumer warpgroups go over the keys from the last
//               block to the first: scores of the next block are multiplied (wgmma, both operands in shared memory) while this block's
//               P, from registers, is multiplied with v; 3. maximum, exponentials and sums of the next block (online softmax: Milakov
//               and Gimelshein 2018) meanwhile; 4. sums so far are brought to the new maximum; 5. at the end, divided by the sum of
//               the exponentials, straight to memory, 16 bytes a thread.
// Tiling        BLOCK_M queries, 64 a consumer; BLOCK_N keys a step; rows of D elements, of which size and width are used: the rest
//               is read as zero. TURNS: of two consumers one multiplies while the other finds its exponentials.
// Mapping       attention_parts.cuh.
// Shared memory STAGES_Q tiles of q, STAGES of k, STAGES of v: each in parts of 64 columns, of rows of 128 bytes, swizzled by 128 bytes;
//               then two barriers for each.
// Traffic       4 queries keys D operations a head, half when causal; q and out once, k and v once for every tile of queries, from the
//               second-level cache but for the first.
// Numerics      Scores, sums and lse in f32; P rounded to 16 bits before it is multiplied, not divided before. 2^x by the hardware's
//               approximation. The same bits on every run. Queries that see nothing: out 0, lse -infinity.
// Requires      sm_90a; bases and strides of q, k, v that are multiples of 16 bytes, size and width multiples of 8 up to D; scale > 0;
//               queries, keys below 2^30.
// Measured      docs/attention.md
// References    Dao et al., FlashAttention (arXiv 2205.14135); Shah et al., FlashAttention-3 (arXiv 2407.08608): the order of the
//               products and the turns of consumers.
// Next          attention_backward.cuh
#pragma once
#include "attention_parts.cuh"

namespace polywarp::attention {

// Named barriers; 0 is that of __syncthreads.
constexpr uint32_t TURN = 1;

template <typename T_, int D_, int BLOCK_M_, int BLOCK_N_, int STAGES_Q_, int STAGES_, bool WITH_EXTRAS_, bool TURNS_>
struct Forward {
    using T = T_;
    static constexpr int D = D_, BLOCK_M = BLOCK_M_, BLOCK_N = BLOCK_N_;
    static constexpr uint32_t STAGES_Q = STAGES_Q_, STAGES = STAGES_;
    static constexpr bool WITH_EXTRAS = WITH_EXTRAS_, TURNS = TURNS_;
    static constexpr int CONSUMERS = BLOCK_M / SLAB;
    static constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
    // 65,536 registers for all, in multiples of 8 a thread.
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 24;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : 240;
    static constexpr uint32_t Q_BYTES = TILE_BYTES<BLOCK_M, D>, K_BYTES = TILE_BYTES<BLOCK_N, D>;
    static constexpr uint32_t K_AT = STAGES_Q * Q_BYTES, V_AT = K_AT + STAGES * K_BYTES, BARRIERS_AT = V_AT + STAGES * K_BYTES;
    static constexpr uint32_t BARRIERS = 2 * STAGES_Q + 4 * STAGES;
    // The block's part begins at a multiple of 1024 bytes.
    static constexpr uint32_t SHARED_BYTES = 1024 + BARRIERS_AT + 8 * BARRIERS;
    static_assert(D % ATOM_COLUMNS == 0 && D <= 256 && BLOCK_M % SLAB == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= 256);
    static_assert(SHARED_BYTES <= 232448, "227 KiB opt-in shared memory a block, sm_90");
    static_assert(CONSUMERS == 2 || CONSUMERS == 3);
};

// Where barriers are.
template <typename C>
struct ForwardBarriers {
    uint32_t q_full, q_empty, k_full, k_empty, v_full, v_empty;
    __device__ __forceinline__ explicit ForwardBarriers(uint32_t base)
        : q_full(base + C::BARRIERS_AT),
          q_empty(q_full + 8 * C::STAGES_Q),
          k_full(q_empty + 8 * C::STAGES_Q),
          k_empty(k_full + 8 * C::STAGES),
          v_full(k_empty + 8 * C::STAGES),
          v_empty(v_full + 8 * C::STAGES) {}

    __device__ __forceinline__ void initialise() const {
        constexpr uint32_t READERS = 4 * C::CONSUMERS;  // a lane of each warp
        for (uint32_t stage = 0; stage < C::STAGES_Q; ++stage) {
            ptx::barrier_init(q_full + 8 * stage, 1);
            ptx::barrier_init(q_empty + 8 * stage, READERS);
        }
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(k_full + 8 * stage, 1);
            ptx::barrier_init(k_empty + 8 * stage, READERS);
            ptx::barrier_init(v_full + 8 * stage, 1);
            ptx::barrier_init(v_empty + 8 * stage, READERS);
        }
        ptx::fence_barrier_init();
    }
};

// A tile of queries of one head.
struct QueryTile {
    uint32_t row, head, batch;
    // Blocks of keys that some query of it may see.
    uint32_t blocks;

    template <int BLOCK_M, int BLOCK_N>
    __device__ static __forceinline__ QueryTile of(const Problem& problem, uint32_t which, uint32_t place) {
        QueryTile tile;
        tile.batch = which / problem.heads;
        tile.head = which - tile.batch * problem.heads;
        tile.row = place * BLOCK_M;
        const int end = last_seen(problem, min(tile.row + BLOCK_M, problem.queries) - 1) + 1;
        tile.blocks = end > 0 ? (end + BLOCK_N - 1) / BLOCK_N : 0;
        return tile;
    }
};

// Maximum and sum of a thread's two rows.
struct Online {
    float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

    // Phase 3: scores become exponentials. Returns by what sums of earlier blocks are to be multiplied.
    template <int N>
    __device__ __forceinline__ void exponentials(float (&s)[N / 2], float (&factors)[2], float scale_log2) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float largest = s[2 * h];
#pragma unroll
            for (int i = 0; i < N / 4; ++i) {
                largest = fmaxf(largest, s[i / 2 * 4 + 2 * h + i % 2]);
            }
            largest = fmaxf(maximum[h], row_maximum(largest));
            // Where nothing was seen yet, of all that is -infinity.
            const float base = largest == -INFINITY ? 0 : largest * scale_log2;
            factors[h] = ptx::exp2_approximate(fmaf(maximum[h], scale_log2, -base));
            maximum[h] = largest;
            float added = 0;
#pragma unroll
            for (int i = 0; i < N / 4; ++i) {
                float& x = s[i / 2 * 4 + 2 * h + i % 2];
                x = ptx::exp2_approximate(fmaf(x, scale_log2, -base));
                added += x;
            }
            sum[h] = fmaf(sum[h], factors[h], added);
        }
    }
};

template <typename C>
struct ForwardConsumer {
    using T = typename C::T;
    static constexpr int D = C::D, N = C::BLOCK_N;
    uint32_t base, consumer, warp, lane;
    ForwardBarriers<C> at;
    Ring<C::STAGES_Q> of_q;
    Ring<C::STAGES> of_k, of_v;

    __device__ __forceinline__ void release(uint32_t barrier) const {
        if (lane == 0) {
            ptx::barrier_arrive(barrier);
        }
    }

    // Starts the scores of the next block of keys.
    __device__ __forceinline__ void start_scores(float (&s)[N / 2]) {
        multiply_rows<T, N, D, C::BLOCK_M>(s, base + of_q.stage * C::Q_BYTES, consumer * SLAB, base + C::K_AT + of_k.stage * C::K_BYTES);
        ptx::wgmma_commit();
    }

    __device__ __forceinline__ void start_values(float (&o)[D / 2], const uint32_t (&p)[N / 16][4]) {
        multiply_registers<T, D, N>(o, p, base + C::V_AT + of_v.stage * C::K_BYTES);
        ptx::wgmma_commit();
    }

    // Phases 2 to 5 for one tile.
    __device__ __forceinline__ void tile(const Problem& problem, const Mask& mask, const Dropout& dropout, const QueryTile& tile,
                                         T* out, float* lse) {
        const float scale_log2 = problem.scale * LOG2_E;
        const uint32_t first_row = tile.row + consumer * SLAB + warp * 16, row = first_row + lane / 4;
        const uint64_t head_number = tile.batch * problem.heads + tile.head;
        float o[D / 2];
        Online online;
        clear(o);
        if (tile.blocks > 0) {
            // What this warpgroup's first query sees is seen by all of them.
            const int seen_by_all = last_seen(problem, tile.row + consumer * SLAB);
            float s[N / 2], factors[2];
            uint32_t p[N / 16][4];
            const auto hide = [&](uint32_t block) {
                const int key = block * N;
                if (key + N - 1 > seen_by_all || (C::WITH_EXTRAS && mask.seen != nullptr)) {
                    hide_unseen<N>(problem, C::WITH_EXTRAS ? mask : Mask{}, tile.batch, tile.head, row, key, lane,
                                   [&](int i) { s[i] = -INFINITY; });
                }
            };
            Kept<N> kept;
            const auto find_kept = [&](uint32_t block) {
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    kept.find(Key(dropout), head_number * problem.queries * problem.keys, problem.keys, row, block * N, lane);
                }
            };
            const auto drop = [&] {
                if (C::WITH_EXTRAS && dropout.threshold > 0) {
                    kept.for_dropped([&](int i) { s[i] = 0; });
                }
            };
            find_kept(tile.blocks - 1);
            ptx::barrier_wait(at.q_full + 8 * of_q.stage, of_q.phase);
            ptx::barrier_wait(at.k_full + 8 * of_k.stage, of_k.phase);
            uint32_t block = tile.blocks - 1;
            ptx::wgmma_fence();
            start_scores(s);
            ptx::wgmma_wait<0>();
            ptx::keep_in_place(s);
            release(at.k_empty + 8 * of_k.stage);
            of_k.advance();
            hide(block);
            online.template exponentials<N>(s, factors, scale_log2);
            drop();
            round_sums<T, N>(p, s);
#pragma unroll 1
            for (; block > 0; --block) {
                ptx::barrier_wait(at.k_full + 8 * of_k.stage, of_k.phase);
                if constexpr (C::TURNS) {
                    ptx::named_barrier(TURN + consumer, C::CONSUMERS * WARPGROUP);
                }
                ptx::keep_in_place(o);
                ptx::keep_in_place(p);
                ptx::wgmma_fence();
                start_scores(s);
                ptx::barrier_wait(at.v_full + 8 * of_v.stage, of_v.phase);
                ptx::wgmma_fence();
                start_values(o, p);
                if constexpr (C::TURNS) {
                    ptx::named_barrier_arrive(TURN + (consumer ^ 1), C::CONSUMERS * WARPGROUP);
                }
                find_kept(block - 1);
                ptx::wgmma_wait<1>();
                ptx::keep_in_place(s);
                release(at.k_empty + 8 * of_k.stage);
                of_k.advance();
                hide(block - 1);
                online.template exponentials<N>(s, factors, scale_log2);
                drop();
                ptx::wgmma_wait<0>();
                ptx::keep_in_place(o);
                ptx::keep_in_place(p);
                release(at.v_empty + 8 * of_v.stage);
                of_v.advance();
                round_sums<T, N>(p, s);
#pragma unroll
                for (int i = 0; i < D / 2; ++i) {
                    o[i] *= factors[i / 2 % 2];
                }
            }
            release(at.q_empty + 8 * of_q.stage);
            of_q.advance();
            ptx::barrier_wait(at.v_full + 8 * of_v.stage, of_v.phase);
            ptx::keep_in_place(o);
            ptx::keep_in_place(p);
            ptx::wgmma_fence();
            start_values(o, p);
            ptx::wgmma_wait<0>();
            ptx::keep_in_place(o);
            ptx::keep_in_place(p);
            release(at.v_empty + 8 * of_v.stage);
            of_v.advance();
        }
        float factors[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float sum = row_sum(online.sum[h]);
            factors[h] = sum == 0 ? 0 : (C::WITH_EXTRAS ? dropout.factor : 1) / sum;
            if (lane % 4 == 0 && row + 8 * h < problem.queries) {
                lse[head_number * problem.queries + row + 8 * h] =
                    sum == 0 ? -INFINITY : fmaf(online.maximum[h], problem.scale, logf(sum));
            }
        }
        const int64_t pitch = static_cast<int64_t>(problem.heads) * problem.width;
        const int64_t to = (static_cast<int64_t>(tile.batch) * problem.queries + first_row) * pitch + tile.head * problem.width;
        store<T, D>(out + to, pitch, o, factors, first_row, problem.queries, problem.width, lane);
    }
};

template <typename C>
__device__ __forceinline__ void run_forward(const CUtensorMap* map_q, const CUtensorMap* map_k, const CUtensorMap* map_v, typename C::T* out,
                                            float* lse, const Problem& problem, const Mask& mask,
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
        ptx::give_registers<C::PRODUCER_REGISTERS>();
        if (warp == 0 && ptx::elected()) {
            Ring<C::STAGES_Q> of_q;
            Ring<C::STAGES> of_k, of_v;
            const uint32_t share = problem.heads / problem.groups;
            for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
                const QueryTile tile = QueryTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
                if (tile.blocks == 0) {
                    continue;
                }
                const uint32_t group = tile.head / share;
                ptx::barrier_wait(at.q_empty + 8 * of_q.stage, of_q.phase ^ 1);
                ptx::barrier_arrive_expect(at.q_full + 8 * of_q.stage, C::Q_BYTES);
                load<C::BLOCK_M, C::D>(base + of_q.stage * C::Q_BYTES, map_q, at.q_full + 8 * of_q.stage, tile.row, tile.head, tile.batch);
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
        ptx::take_registers<C::CONSUMER_REGISTERS>();
        ForwardConsumer<C> consumer = {base, warpgroup - 1, warp, threadIdx.x % 32, at};
        if (C::TURNS && consumer.consumer == 1) {
            ptx::named_barrier_arrive(TURN, C::CONSUMERS * WARPGROUP);
        }
        for (Walk walk; walk.any(tiles, all, problem.causal); walk.next(tiles, problem.causal)) {
            const QueryTile tile = QueryTile::of<C::BLOCK_M, C::BLOCK_N>(problem, walk.head(tiles, problem.causal), walk.place(tiles, problem.causal));
            consumer.tile(problem, mask, dropout, tile, out, lse);
        }
        if (C::TURNS && consumer.consumer == 0) {
            ptx::named_barrier(TURN, C::CONSUMERS * WARPGROUP);
        }
    }
}

}  // namespace polywarp::attention

// ---- Instances ----

#define ATTENTION_FORWARD(SYMBOL, T, D, BLOCK_M, BLOCK_N, STAGES_Q, STAGES, WITH_EXTRAS, TURNS)                           \
    using SYMBOL##_t = polywarp::attention::Forward<T, D, BLOCK_M, BLOCK_N, STAGES_Q, STAGES, WITH_EXTRAS, TURNS>;        \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_k,                             \
        const __grid_constant__ CUtensorMap map_v, T* out, float* lse, uint32_t batches, uint32_t heads, uint32_t groups, \
        uint32_t queries, uint32_t keys, uint32_t size, uint32_t width, float scale, uint32_t causal,                     \
        const uint8_t* seen, int64_t seen_batch, int64_t seen_head, int64_t seen_row,             \
        int64_t seen_column, const uint32_t* random_low, const uint32_t* random_high, uint32_t threshold,                 \
        float kept_factor) {                                                                                              \
        polywarp::attention::run_forward<SYMBOL##_t>(                                                                     \
            &map_q, &map_k, &map_v, out, lse, {batches, heads, groups, queries, keys, size, width, scale, causal},        \
            {seen, seen_batch, seen_head, seen_row, seen_column},                                                         \
            {random_low, random_high, threshold, kept_factor});                                      \
    }
