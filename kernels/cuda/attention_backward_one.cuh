// The gradient of attention on Hopper's tensor cores (sm_90a) in one pass over the scores: dq, dk and dv by one kernel, the same bits on
// every run.
//
// Computes      What attention_backward.cuh does, without masks, dropout, causality and groups; D = 128.
// Algorithm     A block owns 128 keys of a head and goes over its queries, two consumer warpgroups with 64 keys each. A step:
//               1. S^T = k q^T, dP^T = v dout^T; 2. P^T, while dP^T is under way; 3. dv += P^T dout; 4. dS^T while that is under way,
//               rounded, in registers and to shared memory; 5. dk += dS^T q. 6. Both consumers meet; dq's part = dS k, 64 of its 128
//               columns by each consumer, over all 128 keys. 7. The next step's S^T. 8. While that is under way, dq's part to shared
//               memory, from where a warp of the third warpgroup adds it to f32 sums in memory (bulk reduction). 6 to 8 are done in the
//               next step, so that a product is always under way.
//               Order of the sums: of a head's blocks of keys, the m-th of n begins at the m-th n-th of the queries and goes around. Each
//               block of queries has a counter of the parts that it has; whose turn is when follows from numbers alone (KeyWalk). The
//               first one stores instead of adding: sums need not be cleared. A kernel of its own rounds them to results.
// Deadlock      A head's blocks of keys, a gang, wait for each other, so they run at the same time: each has a multiprocessor, and the
//               launch is cooperative, which starts all blocks or none. Kernels of other streams delay it; they cannot leave it half
//               started. In a gang a step waits only for earlier steps, or for the same step of a later member that begins at the
//               same queries: of all unfinished steps the earliest can always go on. Heads do not wait for each other.
// Tiling        64 queries x 128 keys a step.
// Mapping       attention_parts.cuh; rows are keys, columns queries. Of dq's parts rows are queries.
// Shared memory k and v; two stages of q, of dout and of dS (128 keys x 64 queries), for which one meeting a step is enough; two of dq's
//               parts, one for each warp that adds; lse and delta; barriers. Tiles as in attention_forward.cuh.
// Traffic       10 queries keys D operations a head. A step reads 32 KiB and adds 32 KiB, mostly in the second-level cache.
// Numerics      As in attention_backward.cuh; parts of dq are added in f32 in memory, in one order.
// Requires      As in attention_backward.cuh; size and width up to 128; not more blocks of keys in a head than multiprocessors. Sums of dq:
//               64 x 128 f32 for each block of 64 queries of each head; a counter for each, which the kernel of statistics clears.
// Measured      docs/attention.md
// References    As in attention_backward.cuh; Shah et al., FlashAttention-3 (arXiv 2407.08608).
#pragma once
#include "attention_backward_short.cuh"
#include "ptx/bulk_sums.cuh"
#include "ptx/scarce.cuh"
#include "ptx/wgmma_anew.cuh"

namespace polywarp::attention {

template <typename T_>
struct BackwardOne {
    using T = T_;
    static constexpr int D = 128, BLOCK_M = STATISTICS_ROWS, BLOCK_N = 2 * SLAB, CONSUMERS = 2, THREADS = 3 * WARPGROUP;
    // BUFFERS: of dq's parts, each with a warp that adds them. One warp was busy all the time with one part after the other.
    static constexpr uint32_t STAGES = 2, BUFFERS = 2;
    static constexpr uint32_t K_BYTES = TILE_BYTES<BLOCK_N, D>, Q_BYTES = TILE_BYTES<BLOCK_M, D>, DS_BYTES = TILE_BYTES<BLOCK_N, BLOCK_M>;
    // Floats and bytes of a part of dq. Half a part: 64 columns; in it 16 bytes of each thread of a consumer, eight times.
    static constexpr uint32_t PART = BLOCK_M * D, PART_BYTES = 4 * PART, ROW_BYTES = BLOCK_M * 4;
    static constexpr uint32_t Q_AT = 2 * K_BYTES, DOUT_AT = Q_AT + STAGES * Q_BYTES, DS_AT = DOUT_AT + STAGES * Q_BYTES;
    static constexpr uint32_t PARTS_AT = DS_AT + STAGES * DS_BYTES, LSE_AT = PARTS_AT + BUFFERS * PART_BYTES;
    static constexpr uint32_t DELTA_AT = LSE_AT + STAGES * ROW_BYTES, BARRIERS_AT = DELTA_AT + STAGES * ROW_BYTES;
    static constexpr uint32_t SHARED_BYTES = 1024 + BARRIERS_AT + 8 * (2 + 4 * STAGES + 2 * BUFFERS);
    static_assert(SHARED_BYTES <= 232448, "227 KiB opt-in shared memory a block, sm_90");
    static_assert(BLOCK_M == ATOM_COLUMNS, "a row of dS fills the swizzle's span");
};

// How heads are shared out. From the host: what is computed takes registers.
struct Gangs {
    uint32_t tiles;     // blocks of keys of a head: the members of a gang, neighbouring blocks of the grid
    uint32_t together;  // gangs at the same time; the grid is so many times the tiles
    uint32_t blocks;    // of queries, of a head
};

// A block's 128 keys of a head, and how it goes over the head's queries.
struct KeyWalk {
    uint32_t number, member;  // of the head among all; of the block of keys in it

    __device__ __forceinline__ explicit KeyWalk(const Gangs& gangs) : number(blockIdx.x / gangs.tiles), member(blockIdx.x % gangs.tiles) {}
    __device__ __forceinline__ bool any(const Problem& problem) const { return number < problem.batches * problem.heads; }
    __device__ __forceinline__ void next(const Gangs& gangs) { number += gangs.together; }

    __device__ __forceinline__ uint32_t row() const { return member * 2 * SLAB; }
    __device__ __forceinline__ uint32_t batch(const Problem& problem) const { return number / problem.heads; }
    __device__ __forceinline__ uint32_t head(const Problem& problem) const { return number % problem.heads; }

    // The block of queries where it begins, and the one after one.
    __device__ __forceinline__ uint32_t first(const Gangs& gangs) const { return member * gangs.blocks / gangs.tiles; }
    __device__ static __forceinline__ uint32_t after(uint32_t block, const Gangs& gangs) { return block + 1 == gangs.blocks ? 0 : block + 1; }

    // How many add to a block of queries before this one does: those that began at it or before it, the nearest first, then the others.
    __device__ __forceinline__ uint32_t position(uint32_t block, const Gangs& gangs) const {
        const uint32_t near = ((block + 1) * gangs.tiles + gangs.blocks - 1) / gangs.blocks;
        return member < near ? near - 1 - member : near + gangs.tiles - 1 - member;
    }
};

// Where barriers are; found from one number, for registers are scarce.
template <typename C>
struct OneBarriers {
    uint32_t base;

    static constexpr uint32_t Q_AT = C::BARRIERS_AT + 16, PART_AT = Q_AT + 32 * C::STAGES;
    __device__ __forceinline__ uint32_t k_full() const { return base + C::BARRIERS_AT; }
    __device__ __forceinline__ uint32_t k_empty() const { return base + C::BARRIERS_AT + 8; }
    __device__ __forceinline__ uint32_t q_full(uint32_t stage) const { return base + Q_AT + 8 * stage; }
    __device__ __forceinline__ uint32_t q_empty(uint32_t stage) const { return base + Q_AT + 8 * (C::STAGES + stage); }
    __device__ __forceinline__ uint32_t dout_full(uint32_t stage) const { return base + Q_AT + 8 * (2 * C::STAGES + stage); }
    __device__ __forceinline__ uint32_t dout_empty(uint32_t stage) const { return base + Q_AT + 8 * (3 * C::STAGES + stage); }
    __device__ __forceinline__ uint32_t part_full(uint32_t buffer) const { return base + PART_AT + 8 * buffer; }
    __device__ __forceinline__ uint32_t part_empty(uint32_t buffer) const { return base + PART_AT + 8 * (C::BUFFERS + buffer); }

    __device__ __forceinline__ void initialise() const {
        constexpr uint32_t WARPS = 4 * C::CONSUMERS;  // a lane of each warp
        ptx::barrier_init(k_full(), 1);
        ptx::barrier_init(k_empty(), WARPS);
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(q_full(stage), 1);
            ptx::barrier_init(q_empty(stage), WARPS);
            ptx::barrier_init(dout_full(stage), 1);
            ptx::barrier_init(dout_empty(stage), WARPS);
        }
        for (uint32_t buffer = 0; buffer < C::BUFFERS; ++buffer) {
            ptx::barrier_init(part_full(buffer), WARPS);
            ptx::barrier_init(part_empty(buffer), 1);
        }
        ptx::fence_barrier_init();
    }
};

// d = A B^T, as multiply_rows.
template <typename T, int N, int K, int ROWS_A>
__device__ __forceinline__ void multiply_rows_anew(float (&d)[N / 2], uint32_t a, uint32_t row_a, uint32_t b) {
    constexpr uint32_t UNIT = ptx::DESCRIPTOR_UNIT, ROW = ptx::SWIZZLE_ROW_BYTES / UNIT;
    const uint64_t of_a = ptx::matrix_descriptor(ptx::descriptor_unit(a) + row_a * ROW, 0, ptx::SWIZZLE_ATOM_BYTES);
    const uint64_t of_b = ptx::matrix_descriptor(ptx::descriptor_unit(b), 0, ptx::SWIZZLE_ATOM_BYTES);
    ptx::wgmma_anew<T, N, Major::K, Major::K>(d, of_a, of_b);
#pragma unroll
    for (int step = 1; step < K / 16; ++step) {
        const uint32_t part = step / 4, in_part = step % 4 * 2;
        ptx::Wgmma<T, T>::template run<N, Major::K, Major::K>(d, of_a + part * ROWS_A * ROW + in_part, of_b + part * N * ROW + in_part, 1);
    }
}

// d = A^T B, as multiply_columns.
template <typename T, int N, int K>
__device__ __forceinline__ void multiply_columns_anew(float (&d)[N / 2], uint32_t a, uint32_t b) {
    constexpr uint32_t STEP = 16 * ptx::SWIZZLE_ROW_BYTES / ptx::DESCRIPTOR_UNIT;
    const uint64_t of_a = ptx::matrix_descriptor(ptx::descriptor_unit(a), K * ptx::SWIZZLE_ROW_BYTES, ptx::SWIZZLE_ATOM_BYTES);
    const uint64_t of_b = ptx::matrix_descriptor(ptx::descriptor_unit(b), K * ptx::SWIZZLE_ROW_BYTES, ptx::SWIZZLE_ATOM_BYTES);
    ptx::wgmma_anew<T, N, Major::MN, Major::MN>(d, of_a, of_b);
#pragma unroll
    for (int step = 1; step < K / 16; ++step) {
        ptx::Wgmma<T, T>::template run<N, Major::MN, Major::MN>(d, of_a + step * STEP, of_b + step * STEP, 1);
    }
}

template <typename C>
struct OneConsumer {
    using T = typename C::T;
    static constexpr int D = C::D, M = C::BLOCK_M;
    uint32_t base, consumer, warp, lane;
    OneBarriers<C> at;
    Ring<1> of_k;
    Ring<C::STAGES> of_q;
    Ring<C::BUFFERS> of_parts;

    __device__ __forceinline__ void release(uint32_t barrier) const {
        if (lane == 0) {
            ptx::barrier_arrive(barrier);
        }
    }

    __device__ __forceinline__ uint32_t q() const { return base + C::Q_AT + of_q.stage * C::Q_BYTES; }
    __device__ __forceinline__ uint32_t dout() const { return base + C::DOUT_AT + of_q.stage * C::Q_BYTES; }
    __device__ __forceinline__ uint32_t ds_at(uint32_t stage) const { return base + C::DS_AT + stage * C::DS_BYTES; }
    // The stage of the step before.
    __device__ __forceinline__ uint32_t before() const { return of_q.stage == 0 ? C::STAGES - 1 : of_q.stage - 1; }

    __device__ __forceinline__ void start_scores(float (&s)[M / 2]) const {
        ptx::barrier_wait(at.q_full(of_q.stage), of_q.phase);
        ptx::wgmma_fence();
        multiply_rows_anew<T, M, D, C::BLOCK_N>(s, base, consumer * SLAB, q());
        ptx::wgmma_commit();
    }

    // dq's part of the step before, when both consumers have left its dS.
    __device__ __forceinline__ void start_part(float (&part)[M / 2]) const {
        ptx::named_barrier(CONSUMERS_MEET, C::CONSUMERS * WARPGROUP);
        ptx::wgmma_fence();
        multiply_columns_anew<T, D / 2, C::BLOCK_N>(part, ds_at(before()), base + consumer * (C::K_BYTES / 2));
        ptx::wgmma_commit();
    }

    // A part of dq to where it is added from.
    __device__ __forceinline__ void leave_part(const float (&part)[M / 2]) {
        const uint32_t place = consumer * (C::PART / 2) + ptx::thread_again() % WARPGROUP * 4;
        const uint32_t to = base + C::PARTS_AT + of_parts.stage * C::PART_BYTES + 4 * place;
        ptx::barrier_wait(at.part_empty(of_parts.stage), of_parts.phase ^ 1);
#pragma unroll
        for (int i = 0; i < M / 8; ++i) {
            ptx::store_four(to + i * 16 * WARPGROUP, part[4 * i], part[4 * i + 1], part[4 * i + 2], part[4 * i + 3]);
        }
        ptx::fence_async_proxy();
        __syncwarp();
        release(at.part_full(of_parts.stage));
        of_parts.advance();
    }

    // The step before has ended: its product of dk, and the last use of its q.
    __device__ __forceinline__ void end_keys(float (&sums_k)[D / 2], uint32_t (&ds)[M / 16][4]) const {
        ptx::keep_in_place(sums_k);
        ptx::keep_in_place(ds);
        release(at.q_empty(before()));
    }

    // A step. dk's product of the one before is under way, but in the FIRST one. `inside`: how many of the consumer's keys there are.
    template <bool FIRST>
    __device__ __forceinline__ void step(float (&sums_k)[D / 2], float (&sums_v)[D / 2], uint32_t (&ds)[M / 16][4], float scale_log2,
                                         uint32_t inside) {
        const uint32_t lse = base + C::LSE_AT + of_q.stage * C::ROW_BYTES + lane % 4 * 8;
        const uint32_t delta = base + C::DELTA_AT + of_q.stage * C::ROW_BYTES + lane % 4 * 8;
        float s[M / 2], dp[M / 2];
        uint32_t p[M / 16][4];
        // Phases 6, 7 and 8 of the step before, and 1.
        if constexpr (FIRST) {
            start_scores(s);
        } else {
            float part[M / 2];
            start_part(part);
            // dS has to go before S^T comes: registers are scarce.
            ptx::wgmma_wait<1>();
            end_keys(sums_k, ds);
            start_scores(s);
            ptx::wgmma_wait<1>();
            ptx::keep_in_place(part);
            leave_part(part);
        }
        ptx::barrier_wait(at.dout_full(of_q.stage), of_q.phase);
        ptx::wgmma_fence();
        multiply_rows_anew<T, M, D, C::BLOCK_N>(dp, base + C::K_BYTES, consumer * SLAB, dout());
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        ptx::keep_in_place(s);
        // Phase 2.
#pragma unroll
        for (int c = 0; c < M / 8; ++c) {
            const float2 of_columns = ptx::load_pair(lse + 32 * c);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float& x = s[4 * c + 2 * h];
                float& y = s[4 * c + 2 * h + 1];
                x = ptx::exp2_approximate(fmaf(x, scale_log2, -of_columns.x));
                y = ptx::exp2_approximate(fmaf(y, scale_log2, -of_columns.y));
            }
        }
        if (inside < SLAB) {
            // Keys beyond the last.
            const uint32_t thread = ptx::thread_again(), key = thread % WARPGROUP / 32 * 16 + thread % 32 / 4;
#pragma unroll
            for (int i = 0; i < M / 2; ++i) {
                s[i] = key + i / 2 % 2 * 8 < inside ? s[i] : 0;
            }
        }
        round_sums<T, M>(p, s);
        // Phase 3.
        ptx::keep_in_place(p);
        ptx::wgmma_fence();
        multiply_registers<T, D, M>(sums_v, p, dout());
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
        ptx::keep_in_place(dp);
        // Phase 4.
#pragma unroll
        for (int c = 0; c < M / 8; ++c) {
            const float2 of_columns = ptx::load_pair(delta + 32 * c);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                s[4 * c + j] *= dp[4 * c + j] - (j % 2 ? of_columns.y : of_columns.x);
            }
        }
        round_sums<T, M>(ds, s);
        const uint32_t to = ds_at(of_q.stage) + swizzled(consumer * SLAB + warp * 16 + lane % 16, lane / 16);
#pragma unroll
        for (int i = 0; i < M / 16; ++i) {
            // Eights 2 i further: the swizzle adds them without carry.
            ptx::store_matrices(to ^ (i * 32), ds[i][0], ds[i][1], ds[i][2], ds[i][3]);
        }
        // Phase 5.
        ptx::keep_in_place(ds);
        ptx::wgmma_fence();
        multiply_registers<T, D, M>(sums_k, ds, q());
        ptx::wgmma_commit();
        // For dq's part, which reads dS in shared memory.
        ptx::fence_async_proxy();
        ptx::wgmma_wait<1>();
        ptx::keep_in_place(sums_v);
        ptx::keep_in_place(p);
        release(at.dout_empty(of_q.stage));
        of_q.advance();
    }

    __device__ __forceinline__ void tile(const Problem& problem, const Gangs& gangs, KeyWalk walk, T* dk, const Strides& of_dk, T* dv,
                                         const Strides& of_dv) {
        const float scale_log2 = problem.scale * LOG2_E;
        const uint32_t inside = problem.keys - min(problem.keys, walk.row() + consumer * SLAB);
        float sums_k[D / 2], sums_v[D / 2];
        uint32_t ds[M / 16][4];
        clear(sums_k);
        clear(sums_v);
        ptx::barrier_wait(at.k_full(), of_k.phase);
        step<true>(sums_k, sums_v, ds, scale_log2, inside);
#pragma unroll 1
        for (uint32_t left = gangs.blocks; left > 1; --left) {
            step<false>(sums_k, sums_v, ds, scale_log2, inside);
        }
        float part[M / 2];
        start_part(part);
        ptx::wgmma_wait<0>();
        end_keys(sums_k, ds);
        ptx::keep_in_place(part);
        leave_part(part);
        release(at.k_empty());
        of_k.advance();
        const float scales[2] = {problem.scale, problem.scale}, ones[2] = {1, 1};
        // Found anew: in the loop above there are no registers for it.
        ptx::keep_in_place(walk.number);
        ptx::keep_in_place(walk.member);
        const uint32_t batch = walk.batch(problem), head = walk.head(problem), first_key = walk.row() + consumer * SLAB + warp * 16;
        const auto place = [&](const Strides& strides) { return batch * strides.batch + head * strides.head + first_key * strides.row; };
        store<T, D>(dk + place(of_dk), of_dk.row, sums_k, scales, first_key, problem.keys, problem.size, lane);
        store<T, D>(dv + place(of_dv), of_dv.row, sums_v, ones, first_key, problem.keys, problem.width, lane);
    }
};

// Adds a part of dq when its turn has come. By one thread.
template <typename C>
__device__ __forceinline__ void add_part(const OneBarriers<C>& at, const KeyWalk& walk, const Gangs& gangs, float* sums,
                                         uint32_t* counters, uint32_t buffer, uint32_t phase, uint32_t block) {
    const uint64_t place = static_cast<uint64_t>(walk.number) * gangs.blocks + block;
    const uint32_t from = at.base + C::PARTS_AT + buffer * C::PART_BYTES, position = walk.position(block, gangs);
    float* to = sums + place * C::PART;
    ptx::barrier_wait(at.part_full(buffer), phase);
    while (ptx::load_acquire(counters + place) != position) {
    }
    ptx::fence_async_global();
    if (position == 0) {
        ptx::store_bytes(to, from, C::PART_BYTES);
    } else {
        ptx::add_bytes(to, from, C::PART_BYTES);
    }
    ptx::commit_stores();
    ptx::wait_stores_read<0>();
    ptx::barrier_arrive(at.part_empty(buffer));
    ptx::wait_stores<0>();
    ptx::fence_async_global();
    ptx::add_release(counters + place, 1);
}

template <typename C>
__device__ __forceinline__ void run_one(const CUtensorMap* map_q, const CUtensorMap* map_dout, const CUtensorMap* map_k,
                                        const CUtensorMap* map_v, typename C::T* dk, const Strides& of_dk, typename C::T* dv,
                                        const Strides& of_dv, const Statistics& statistics, float* sums, uint32_t* counters,
                                        const Problem& problem, const Gangs& gangs) {
    extern __shared__ uint8_t shared[];
    // Found anew by each branch, which so need not keep it.
    const auto find_base = [] {
        uint32_t begin = ptx::smem_address(shared);
        ptx::keep_in_place(begin);
        return ptx::uniform((begin + 1023) / 1024 * 1024);
    };
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), warp = ptx::uniform(threadIdx.x % WARPGROUP / 32);
    if (warpgroup == 0 && warp == 0) {
        const OneBarriers<C> at{find_base()};
        if (ptx::elected()) {
            at.initialise();
        }
    }
    __syncthreads();
    if (warpgroup == 0) {
        ptx::give_registers<24>();
        const uint32_t base = find_base();
        const OneBarriers<C> at{base};
        if (warp == 0) {
            if (ptx::elected()) {
                Ring<1> of_k;
                Ring<C::STAGES> of_q;
                for (KeyWalk walk(gangs); walk.any(problem); walk.next(gangs)) {
                    const uint32_t batch = walk.batch(problem), head = walk.head(problem);
                    ptx::barrier_wait(at.k_empty(), of_k.phase ^ 1);
                    ptx::barrier_arrive_expect(at.k_full(), 2 * C::K_BYTES);
                    load<C::BLOCK_N, C::D>(base, map_k, at.k_full(), walk.row(), head, batch);
                    load<C::BLOCK_N, C::D>(base + C::K_BYTES, map_v, at.k_full(), walk.row(), head, batch);
                    of_k.advance();
                    uint32_t block = walk.first(gangs);
#pragma unroll 1
                    for (uint32_t left = gangs.blocks; left > 0; --left) {
                        const float* rows = statistics.at(walk.number, block * C::BLOCK_M);
                        const uint32_t stage = of_q.stage, full = at.q_full(stage), dout_full = at.dout_full(stage);
                        ptx::barrier_wait(at.q_empty(stage), of_q.phase ^ 1);
                        ptx::barrier_arrive_expect(full, C::Q_BYTES + C::ROW_BYTES);
                        load<C::BLOCK_M, C::D>(base + C::Q_AT + stage * C::Q_BYTES, map_q, full, block * C::BLOCK_M, head, batch);
                        ptx::load_bytes(base + C::LSE_AT + stage * C::ROW_BYTES, rows, C::ROW_BYTES, full);
                        ptx::barrier_wait(at.dout_empty(stage), of_q.phase ^ 1);
                        ptx::barrier_arrive_expect(dout_full, C::Q_BYTES + C::ROW_BYTES);
                        load<C::BLOCK_M, C::D>(base + C::DOUT_AT + stage * C::Q_BYTES, map_dout, dout_full, block * C::BLOCK_M, head, batch);
                        ptx::load_bytes(base + C::DELTA_AT + stage * C::ROW_BYTES, rows + STATISTICS_ROWS, C::ROW_BYTES, dout_full);
                        of_q.advance();
                        block = KeyWalk::after(block, gangs);
                    }
                }
            }
        } else if (warp <= C::BUFFERS && ptx::elected()) {
            Ring<C::BUFFERS> of_parts;
            for (KeyWalk walk(gangs); walk.any(problem); walk.next(gangs)) {
                uint32_t block = walk.first(gangs);
#pragma unroll 1
                for (uint32_t left = gangs.blocks; left > 0; --left) {
                    if (of_parts.stage == warp - 1) {
                        add_part<C>(at, walk, gangs, sums, counters, of_parts.stage, of_parts.phase, block);
                    }
                    of_parts.advance();
                    block = KeyWalk::after(block, gangs);
                }
            }
        }
    } else {
        ptx::take_registers<240>();
        const uint32_t base = find_base();
        OneConsumer<C> consumer = {base, warpgroup - 1, warp, ptx::thread_again() % 32, {base}};
        for (KeyWalk walk(gangs); walk.any(problem); walk.next(gangs)) {
            consumer.tile(problem, gangs, walk, dk, of_dk, dv, of_dv);
        }
    }
}

// ---- f32 sums of dq to results ----

// A block for each block of queries, eight warps, each with 16 queries of 64 columns. As the consumers left them: 16 bytes i of lane l
// have columns 8 i + 2 (l % 4) and the next of rows l / 4 and l / 4 + 8.
template <typename C>
__device__ __forceinline__ void round_queries(const float* sums, typename C::T* dq, const Strides& strides, uint32_t heads,
                                              uint32_t queries, uint32_t size, float scale) {
    ptx::let_next_kernel_start();
    const uint32_t blocks = (queries + C::BLOCK_M - 1) / C::BLOCK_M, number = blockIdx.x / blocks, block = blockIdx.x % blocks;
    const uint32_t batch = number / heads, head = number % heads, half = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const uint32_t lane = thread % 32, row = block * C::BLOCK_M + thread / 32 * 16, t = lane % 4;
    const float2* part = reinterpret_cast<const float2*>(sums + static_cast<uint64_t>(blockIdx.x) * C::PART + half * (C::PART / 2)) + 2 * thread;
    typename C::T* to = dq + batch * strides.batch + head * strides.head + row * strides.row;
#pragma unroll
    for (int pass = 0; pass < 4; ++pass) {
        const uint32_t group = pass / 2, h = pass % 2, below = lane / 4 + 8 * h, column = 64 * half + 32 * group + 8 * t;
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 x = part[(4 * group + i) * WARPGROUP * 2 + h];
            words[i] = pack<typename C::T>(x.x * scale, x.y * scale);
        }
        transpose(words, t);
        if (row + below < queries && column < size) {
            *reinterpret_cast<uint4*>(to + below * strides.row + column) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

}  // namespace polywarp::attention

// ---- Instances ----

#define ATTENTION_BACKWARD_ONE(SYMBOL, T)                                                                                 \
    using SYMBOL##_t = polywarp::attention::BackwardOne<T>;                                                               \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_q, const __grid_constant__ CUtensorMap map_dout,                          \
        const __grid_constant__ CUtensorMap map_k, const __grid_constant__ CUtensorMap map_v, T* dk, int64_t dk_row,      \
        int64_t dk_head, int64_t dk_batch, T* dv, int64_t dv_row, int64_t dv_head, int64_t dv_batch, float* statistics,   \
        uint32_t padded, float* sums, uint32_t* counters, uint32_t tiles, uint32_t together, uint32_t blocks,             \
        uint32_t batches, uint32_t heads, uint32_t groups, uint32_t queries, uint32_t keys, uint32_t size,                \
        uint32_t width, float scale, uint32_t causal) {                                                                   \
        polywarp::attention::run_one<SYMBOL##_t>(                                                                         \
            &map_q, &map_dout, &map_k, &map_v, dk, {dk_row, dk_head, dk_batch}, dv, {dv_row, dv_head, dv_batch},          \
            {statistics, padded}, sums, counters, {batches, heads, groups, queries, keys, size, width, scale, causal},    \
            {tiles, together, blocks});                                                                                   \
    }

#define ATTENTION_BACKWARD_ONE_ROUNDED(SYMBOL, T)                                                                         \
    extern "C" __global__ void __launch_bounds__(256) SYMBOL(const float* sums, T* dq, int64_t dq_row, int64_t dq_head,   \
                                                             int64_t dq_batch, uint32_t heads, uint32_t queries,          \
                                                             uint32_t size, float scale) {                                \
        polywarp::attention::round_queries<polywarp::attention::BackwardOne<T>>(sums, dq, {dq_row, dq_head, dq_batch},    \
                                                                                heads, queries, size, scale);             \
    }
