// The gradient of attention of at most 128 queries over at most 128 keys on Hopper's tensor cores (sm_90a): dq, dk and dv by one kernel.
//
// Computes      What attention_backward.cuh does, for queries and keys up to 128, D = 64, and a group of its own for every head.
// Algorithm     Persistent blocks walk over heads. 1. S = q k^T, dP = dout v^T (wgmma), delta from dout and out meanwhile; 2. P, dS, rounded,
//               into shared memory; 3. dq = dS k, dS in registers; dv = P^T dout, dk = dS^T q, of the keys that the warpgroup owns; 4. all
//               three to memory. WITH_EXTRAS: dP after P, which needs the registers.
// Tiling        128 queries x 128 keys; two consumer warpgroups, each with 64 of the queries and, for dk and dv, 64 of the keys.
// Mapping       attention_parts.cuh.
// Shared memory Two stages of k, v, q, dout and out, so that the next head's arrive meanwhile; P and dS in two parts of 64 keys each;
//               barriers. All tiles in rows of 128 bytes, swizzled by 128 bytes.
// Traffic       10 queries keys D operations a head; every operand and result once.
// Numerics      As in attention_backward.cuh.
// Requires      As in attention_backward.cuh, but for the sizes above.
// Measured      docs/attention.md
// References    As in attention_backward.cuh.
#pragma once
#include "attention_backward.cuh"
#include "ptx/store_shared.cuh"

namespace polywarp::attention {

template <typename T_, bool WITH_EXTRAS_>
struct BackwardShort {
    using T = T_;
    static constexpr int D = 64, ROWS = 2 * SLAB, CONSUMERS = 2, THREADS = 3 * WARPGROUP;
    static constexpr uint32_t STAGES = 2;
    static constexpr bool WITH_EXTRAS = WITH_EXTRAS_;
    static constexpr uint32_t TILE = TILE_BYTES<ROWS, D>;
    // A stage: k, v, q, dout, out. Then P and dS: tiles of 128 queries and 64 keys.
    static constexpr uint32_t K = 0, V = TILE, Q = 2 * TILE, DOUT = 3 * TILE, OUT = 4 * TILE, STAGE_BYTES = 5 * TILE;
    static constexpr uint32_t P_AT = STAGES * STAGE_BYTES, DS_AT = P_AT + 2 * TILE, BARRIERS_AT = DS_AT + 2 * TILE;
    static constexpr uint32_t SHARED_BYTES = 1024 + BARRIERS_AT + 8 * 2 * STAGES;
    static_assert(SHARED_BYTES <= 232448, "227 KiB opt-in shared memory a block, sm_90");
};

// Named barrier of both consumers.
constexpr uint32_t CONSUMERS_MEET = 1;

// d (+)= A^T B: both tiles lie along their rows, of which there are K; A has 64 columns.
template <typename T, int N, int K>
__device__ __forceinline__ void multiply_columns(float (&d)[N / 2], uint32_t a, uint32_t b) {
    constexpr uint32_t STEP = 16 * ptx::SWIZZLE_ROW_BYTES / ptx::DESCRIPTOR_UNIT;
    const uint64_t of_a = ptx::matrix_descriptor(ptx::descriptor_unit(a), K * ptx::SWIZZLE_ROW_BYTES, ptx::SWIZZLE_ATOM_BYTES);
    const uint64_t of_b = ptx::matrix_descriptor(ptx::descriptor_unit(b), K * ptx::SWIZZLE_ROW_BYTES, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
        ptx::Wgmma<T, T>::template run<N, Major::MN, Major::MN>(d, of_a + step * STEP, of_b + step * STEP, 1);
    }
}

// Where 16 bytes of a tile are: eight columns of a row, swizzled.
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t eight) {
    return row * ptx::SWIZZLE_ROW_BYTES + ((eight ^ row) % 8) * 16;
}

template <typename C>
struct ShortConsumer {
    using T = typename C::T;
    static constexpr int D = C::D, N = C::ROWS;
    const uint8_t* shared;
    uint32_t base, consumer, warp, lane, full, empty;
    Ring<C::STAGES> at;

    // A warp's 16 rows of P or dS, for products over queries.
    __device__ __forceinline__ void leave(uint32_t to, const uint32_t (&a)[N / 16][4]) const {
        const uint32_t row = consumer * SLAB + warp * 16 + lane % 16;
#pragma unroll
        for (int step = 0; step < N / 16; ++step) {
            const uint32_t address = to + step / 4 * C::TILE + swizzled(row, step % 4 * 2 + lane / 16);
            ptx::store_matrices(address, a[step][0], a[step][1], a[step][2], a[step][3]);
        }
    }

    // dout . out of rows l / 4 and l / 4 + 8 of the warp's, whose tiles follow each other.
    __device__ __forceinline__ void find_delta(float (&delta)[2], uint32_t dout) const {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t row = consumer * SLAB + warp * 16 + lane / 4 + 8 * h;
            float sum = 0;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint8_t* place = shared + dout + swizzled(row, 2 * (lane % 4) + i);
                sum += dot<T>(*reinterpret_cast<const uint4*>(place), *reinterpret_cast<const uint4*>(place + C::TILE));
            }
            delta[h] = row_sum(sum);
        }
    }

    __device__ __forceinline__ void head(const Problem& problem, const Mask& mask, const Dropout& dropout, uint32_t number,
                                         const float* lse, const float* dlse, T* dq, const Strides& of_dq, T* dk, const Strides& of_dk,
                                         T* dv, const Strides& of_dv) {
        const float scale_log2 = problem.scale * LOG2_E;
        const uint32_t batch = number / problem.heads, head = number - batch * problem.heads;
        const uint32_t first_row = consumer * SLAB + warp * 16, row = first_row + lane / 4;
        const uint32_t in_shared = at.stage * C::STAGE_BYTES, stage = base + in_shared;
        float of_lse[2], of_dlse[2], delta[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const bool inside = row + 8 * h < problem.queries;
            const uint64_t place = static_cast<uint64_t>(number) * problem.queries + row + 8 * h;
            of_lse[h] = inside ? lse_log2(lse[place]) : INFINITY;
            of_dlse[h] = inside && dlse != nullptr ? dlse[place] : 0;
        }
        Kept<N> kept;
        if (C::WITH_EXTRAS && dropout.threshold > 0) {
            const uint64_t pairs = static_cast<uint64_t>(problem.queries) * problem.keys;
            kept.find(Key(dropout), number * pairs, problem.keys, row, 0, lane);
        }
        // Phase 1.
        float s[N / 2], dp[N / 2];
        ptx::barrier_wait(full + 8 * at.stage, at.phase);
        ptx::wgmma_fence();
        multiply_rows<T, N, D, N>(s, stage + C::Q, consumer * SLAB, stage + C::K);
        ptx::wgmma_commit();
        if constexpr (!C::WITH_EXTRAS) {
            multiply_rows<T, N, D, N>(dp, stage + C::DOUT, consumer * SLAB, stage + C::V);
            ptx::wgmma_commit();
        }
        find_delta(delta, in_shared + C::DOUT);
        delta[0] -= of_dlse[0];
        delta[1] -= of_dlse[1];
        ptx::wgmma_wait<C::WITH_EXTRAS ? 0 : 1>();
        ptx::keep_in_place(s);
        // Phase 2.
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            s[i] = ptx::exp2_approximate(fmaf(s[i], scale_log2, -of_lse[i / 2 % 2]));
        }
        if (N - 1 > last_seen(problem, consumer * SLAB) || (C::WITH_EXTRAS && mask.seen != nullptr)) {
            hide_unseen<N>(problem, C::WITH_EXTRAS ? mask : Mask{}, batch, head, row, 0, lane, [&](int i) { s[i] = 0; });
        }
        if constexpr (C::WITH_EXTRAS) {
            if (dropout.threshold > 0) {
                kept.for_dropped([&](int i) { s[i] = -s[i]; });
            }
            ptx::wgmma_fence();
            multiply_rows<T, N, D, N>(dp, stage + C::DOUT, consumer * SLAB, stage + C::V);
            ptx::wgmma_commit();
        }
        // Nobody reads the last head's P and dS any more.
        ptx::named_barrier(CONSUMERS_MEET, C::CONSUMERS * WARPGROUP);
        uint32_t a[N / 16][4];
        if constexpr (C::WITH_EXTRAS) {
            round_kept<T, N>(a, s);
        } else {
            round_sums<T, N>(a, s);
        }
        leave(base + C::P_AT, a);
        ptx::wgmma_wait<0>();
        ptx::keep_in_place(dp);
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            s[i] = score_gradient(s[i], dp[i], delta[i / 2 % 2], C::WITH_EXTRAS ? dropout.factor : 1);
        }
        round_sums<T, N>(a, s);
        leave(base + C::DS_AT, a);
        // Phase 3.
        ptx::fence_async_proxy();
        float sums_q[D / 2], sums_k[D / 2], sums_v[D / 2];
        clear(sums_q);
        clear(sums_k);
        clear(sums_v);
        ptx::keep_in_place(a);
        ptx::keep_in_place(sums_q);
        ptx::wgmma_fence();
        multiply_registers<T, D, N>(sums_q, a, stage + C::K);
        ptx::wgmma_commit();
        ptx::named_barrier(CONSUMERS_MEET, C::CONSUMERS * WARPGROUP);
        ptx::keep_in_place(sums_k);
        ptx::keep_in_place(sums_v);
        ptx::wgmma_fence();
        multiply_columns<T, D, N>(sums_v, base + C::P_AT + consumer * C::TILE, stage + C::DOUT);
        multiply_columns<T, D, N>(sums_k, base + C::DS_AT + consumer * C::TILE, stage + C::Q);
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        ptx::keep_in_place(sums_q);
        ptx::keep_in_place(a);
        // Phase 4.
        const float scales[2] = {problem.scale, problem.scale};
        const float factor = C::WITH_EXTRAS ? dropout.factor : 1, factors[2] = {factor, factor};
        const auto place = [&](const Strides& strides) { return batch * strides.batch + head * strides.head + first_row * strides.row; };
        store<T, D>(dq + place(of_dq), of_dq.row, sums_q, scales, first_row, problem.queries, problem.size, lane);
        ptx::wgmma_wait<0>();
        ptx::keep_in_place(sums_k);
        ptx::keep_in_place(sums_v);
        if (lane == 0) {
            ptx::barrier_arrive(empty + 8 * at.stage);
        }
        at.advance();
        store<T, D>(dk + place(of_dk), of_dk.row, sums_k, scales, first_row, problem.keys, problem.size, lane);
        store<T, D>(dv + place(of_dv), of_dv.row, sums_v, factors, first_row, problem.keys, problem.width, lane);
    }
};

template <typename C>
__device__ __forceinline__ void run_short(const CUtensorMap* map_q, const CUtensorMap* map_dout, const CUtensorMap* map_out,
                                          const CUtensorMap* map_k, const CUtensorMap* map_v, const float* lse, const float* dlse,
                                          typename C::T* dq, const Strides& of_dq, typename C::T* dk, const Strides& of_dk,
                                          typename C::T* dv, const Strides& of_dv, const Problem& problem, const Mask& mask,
                                          const Dropout& dropout) {
    extern __shared__ uint8_t shared[];
    const uint32_t begin = ptx::smem_address(shared), base = (begin + 1023) / 1024 * 1024;
    const uint32_t full = base + C::BARRIERS_AT, empty = full + 8 * C::STAGES;
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), warp = ptx::uniform(threadIdx.x % WARPGROUP / 32);
    if (threadIdx.x == 0) {
        constexpr uint32_t READERS = 4 * C::CONSUMERS;  // a lane of each warp
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(full + 8 * stage, 1);
            ptx::barrier_init(empty + 8 * stage, READERS);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t all = problem.batches * problem.heads;
    if (warpgroup == 0) {
        ptx::give_registers<24>();
        if (warp == 0 && ptx::elected()) {
            Ring<C::STAGES> at;
            for (uint32_t number = blockIdx.x; number < all; number += gridDim.x) {
                const uint32_t batch = number / problem.heads, head = number - batch * problem.heads;
                const uint32_t stage = base + at.stage * C::STAGE_BYTES, barrier = full + 8 * at.stage;
                ptx::barrier_wait(empty + 8 * at.stage, at.phase ^ 1);
                ptx::barrier_arrive_expect(barrier, C::STAGE_BYTES);
                load<C::ROWS, C::D>(stage + C::Q, map_q, barrier, 0, head, batch);
                load<C::ROWS, C::D>(stage + C::K, map_k, barrier, 0, head, batch);
                load<C::ROWS, C::D>(stage + C::DOUT, map_dout, barrier, 0, head, batch);
                load<C::ROWS, C::D>(stage + C::V, map_v, barrier, 0, head, batch);
                load<C::ROWS, C::D>(stage + C::OUT, map_out, barrier, 0, head, batch);
                at.advance();
            }
        }
    } else {
        ptx::take_registers<240>();
        ShortConsumer<C> consumer = {shared + (base - begin), base, warpgroup - 1, warp, threadIdx.x % 32, full, empty};
        for (uint32_t number = blockIdx.x; number < all; number += gridDim.x) {
            consumer.head(problem, mask, dropout, number, lse, dlse, dq, of_dq, dk, of_dk, dv, of_dv);
        }
    }
}

}  // namespace polywarp::attention

// ---- Instances ----

#define ATTENTION_BACKWARD_SHORT(SYMBOL, T, WITH_EXTRAS)                                                                  \
    using SYMBOL##_t = polywarp::attention::BackwardShort<T, WITH_EXTRAS>;                                                \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_dout,                          \
        const __grid_constant__ CUtensorMap map_out, const __grid_constant__ CUtensorMap map_k,                           \
        const __grid_constant__ CUtensorMap map_v, const float* lse, const float* dlse, T* dq, int64_t dq_row,            \
        int64_t dq_head, int64_t dq_batch, T* dk, int64_t dk_row, int64_t dk_head, int64_t dk_batch, T* dv,               \
        int64_t dv_row, int64_t dv_head, int64_t dv_batch, uint32_t batches, uint32_t heads, uint32_t groups,             \
        uint32_t queries, uint32_t keys, uint32_t size, uint32_t width, float scale, uint32_t causal,                     \
        const uint8_t* seen, int64_t seen_batch, int64_t seen_head, int64_t seen_row, int64_t seen_column,                \
        const uint32_t* random_low, const uint32_t* random_high, uint32_t threshold, float kept_factor) {                 \
        polywarp::attention::run_short<SYMBOL##_t>(                                                                       \
            &map_q, &map_dout, &map_out, &map_k, &map_v, lse, dlse, dq, {dq_row, dq_head, dq_batch}, dk,                  \
            {dk_row, dk_head, dk_batch}, dv, {dv_row, dv_head, dv_batch},                                                 \
            {batches, heads, groups, queries, keys, size, width, scale, causal},                                          \
            {seen, seen_batch, seen_head, seen_row, seen_column}, {random_low, random_high, threshold, kept_factor});     \
    }
