// Matrix products on Hopper's tensor cores (sm_90a): tiles arrive by TMA, wgmma multiplies, TMA or plain stores write.
//
// Computes      D = activation(alpha (scale_m A) (B scale_n) + beta C + bias), A [batch, m, k], B [batch, k, n], C and D
//               [batch, m, n], bias [n], scales of 8-bit operands per row and column, or of blocks of k besides; or, for
//               split-K, slabs of A B alone;
//               or, GROUPED, D[r] = activation(A[r] B[g] + bias[g]) for the group g that owns row r, A [m, k], B [groups, k, n],
//               D [m, n], bias [groups, n], and 0 where none does; or, REDUCED, of each row of each tile of D a number.
// Algorithm     Persistent blocks walk over tiles of D, and find their first before they wait for the kernel before this one. 1. two
//               warps of the producer warpgroup keep a ring of STAGES tiles of A and B filled by TMA; 2. consumer
//               warpgroups multiply every stage as it arrives and give it back one step later; 3. epilogue in registers,
//               32 columns at a time in a rolled loop, while what the next ones need of bias, C and scales is being loaded;
//               none where D is the rounded sums; 4. results go through shared memory to a TMA store, or, where D is not
//               aligned for that, straight to memory; so do bare sums of 32 bits of tiles of 64 columns. Blocks of a cluster
//               that share k leave their sums in shared memory after 2, and each ends its share of the tile from all of
//               them, in their order.
// Tiling        BLOCK_M x BLOCK_N x 128 bytes of k a stage. COOPERATIVE: CONSUMERS warpgroups stand one below the other, each
//               with BLOCK_M / CONSUMERS rows, in slabs of 64. PING_PONG: two warpgroups have a tile each, in turns: one
//               stores while the other multiplies. CLUSTER_M blocks one below the other share B, CLUSTER_N side by side
//               share A: each loads its part and multicasts it. CLUSTER_K blocks have one tile, each a part of k.
//               GROUPED: a group's tiles begin at its first row, whatever that is; of its last, the rows of the next group are
//               multiplied too, but not stored: 16 rows of which some are its own leave by plain stores of 16 bytes.
// Mapping       Of a slab of 64 rows, warp w of the warpgroup holds rows 16 w to 16 w + 15; lane l holds rows l / 4 and
//               l / 4 + 8, columns 2 (l % 4) and the next, of every 8 columns (PTX ISA, wgmma, fragment of D).
// Shared memory STAGES x (A tile, B tile), each in atoms of 8 rows of 128 bytes, swizzled by 128 bytes; then for each
//               consumer warp two to eight chunks of 16 rows x 128 bytes for results on their way; then two barriers a stage.
//               Sums that a cluster adds up take the place of the stages, in rows of BLOCK_N + 8.
// Traffic       2 m n k operations; (BLOCK_M + BLOCK_N) x k elements read a tile, less what the cluster shares.
// Numerics      f32 accumulators (i32 for 8-bit integers), K in ascending order: the same bits on every run. f32 operands
//               are read as tf32: rounded by the load when the tensor map says TFLOAT32. Sums of 8-bit floats leave wgmma
//               every 128 of k, and are added up in f32; SCALED_BLOCKS: each multiplied with A's scale, then B's, before.
//               SPLIT: f32 as three products of f16 parts, those with a low part first; split_f16.cu says how exact that is.
//               Tiles up to 64 x 128 a warpgroup are added while its next stage is multiplied, wider ones part by part of
//               their columns while the other warpgroup multiplies.
// Requires      sm_90a; bases and pitches of A and B are multiples of 16 bytes (TMA); 8-bit operands K-major, tf32 too,
//               but for the transposed product's A, which lies along its rows.
//               D may lie anywhere; it is written by TMA only where its base and pitch are multiples of 16 bytes. With
//               CLUSTER_K > 1 as many clusters as tiles. GROUPED: any number of blocks.
// Measured      docs/gemm.md, with what repeats it.
// References    PTX ISA 8.x, "Asynchronous Warpgroup Level Matrix Instructions", "cp.async.bulk.tensor", "mbarrier". Turns of
//               two consumers and sums promoted every 128 of k: NVIDIA CUTLASS, DeepSeek DeepGEMM (described there).
// Next          gemm_wgmma_config.cuh: constants, tiles; gemm_wgmma_mainloop.cuh: 1, 2; gemm_wgmma_ending.cuh: 3, its activations
//               in activation.cuh; gemm_wgmma_store.cuh: 4; gemm_wgmma_tiles.cuh: which tiles a block ends, one after the other;
//               gemm_wgmma_sparse.cuh: a compressed A; gemm_wgmma_blocks.cuh: scales that change along k; gemm_wgmma_transposed.cuh:
//               D^T = B^T A^T, of 32-bit operands with B^T in registers, 16-bit results by whole tiles; gemm_wgmma_reduced.cuh:
//               numbers of rows in place of D.
#pragma once
#include "gemm_wgmma_mainloop.cuh"
#include "gemm_wgmma_reduced.cuh"
#include "gemm_wgmma_store.cuh"
#include "gemm_wgmma_tiles.cuh"

namespace polywarp::gemm_wgmma {

// Warps of the producer warpgroup that load: the first A, the second B. One for both would be late for small stages.
constexpr uint32_t LOADERS = 2;

// Numbers of barriers among warps; 0 is that of __syncthreads.
constexpr uint32_t ALL_CONSUMERS = 1;
constexpr uint32_t TURN = 2;  // of consumer 0; the next is that of consumer 1

// Waits for what earlier kernels write, having found a tile: the compiler must not put that off.
__device__ __forceinline__ void wait_knowing(const Tile& tile, const Range& range) {
    asm volatile("" ::"r"(tile.m), "r"(tile.n), "r"(tile.batch), "r"(tile.layer), "r"(range.first), "r"(range.count));
    ptx::wait_for_previous_kernels();
}

template <typename C>
__device__ __forceinline__ void run(const CUtensorMap* map_a, const CUtensorMap* map_b, const CUtensorMap* map_d,
                                    typename C::Out* d, const Problem& problem, const typename C::Epilogue& epilogue,
                                    const Extras& extras) {
    using Load = Mainloop<C>;
    using End = Store<C>;
    typename C::Epilogue ended = epilogue;
    const Ending<C> ending = {ended, extras.scales};
    extern __shared__ uint8_t shared[];
    const uint32_t base = (ptx::smem_address(shared) + 1023) / 1024 * 1024;
    const uint32_t full = base + C::BARRIERS_AT, empty = full + C::STAGES * 8;
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), thread = threadIdx.x % WARPGROUP;
    const uint32_t warp = ptx::uniform(thread / 32);
    const uint32_t rank = C::CLUSTER == 1 ? 0 : ptx::cluster_rank();
    const uint32_t cluster = blockIdx.x / C::CLUSTER, clusters = gridDim.x / C::CLUSTER;
    if (threadIdx.x == 0) {
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(full + stage * 8, LOADERS);
            ptx::barrier_init(empty + stage * 8, C::READERS * (C::CLUSTER_M + C::CLUSTER_N - 1));
        }
        ptx::fence_barrier_init();
    } else if (threadIdx.x == 32) {
        ptx::prefetch_map(map_a);
    } else if (threadIdx.x == 64) {
        ptx::prefetch_map(map_b);
    }
    // Nobody loads into a block or arrives at its barriers before they are initialised.
    if constexpr (C::MULTICAST) {
        ptx::cluster_barrier();
    } else {
        __syncthreads();
    }
    ptx::let_next_kernel_start();
    const uint32_t all = C::tile_count(problem);
    // Where groups end is in memory; else a block finds its first tile before it waits.
    bool waits = true;
    if constexpr (C::GROUPED) {
        ptx::wait_for_previous_kernels();
        waits = false;
    }
    Position<C::STAGES> at;
    if (warpgroup == 0) {
        if constexpr (C::CONSUMERS > 1) {
            ptx::give_registers<C::PRODUCER_REGISTERS>();
        }
        if (warp < LOADERS) {
            for (Tiles<C> tiles(problem, extras.groups, cluster, clusters, rank, all); tiles.any(); tiles.next()) {
                const Tile tile = tiles.at();
                const Range range = C::k_tiles(problem, tile, rank);
                if (waits) {
                    wait_knowing(tile, range);
                    waits = false;
                }
                const auto load = [&](auto of_a, auto keeps) {
                    constexpr bool OF_A = decltype(of_a)::value;
                    Load::template load_tile<OF_A, decltype(keeps)::value>(OF_A ? map_a : map_b, problem, extras.metadata, tile, range,
                                                                           base, full, empty, at, rank);
                };
                if (warp == 0) {
                    problem.keeps_operands ? load(std::true_type(), std::true_type()) : load(std::true_type(), std::false_type());
                } else {
                    problem.keeps_operands ? load(std::false_type(), std::true_type()) : load(std::false_type(), std::false_type());
                }
            }
        }
        __syncwarp();
        if constexpr (C::CLUSTER_K > 1) {
            ptx::cluster_barrier();
        }
    } else {
        if constexpr (C::CONSUMERS > 1) {
            ptx::take_registers<C::CONSUMER_REGISTERS>();
        }
        const uint32_t consumer = warpgroup - 1, lane = thread % 32;
        const uint32_t staging = base + C::STAGES * C::STAGE_BYTES +
                                 (C::STAGES_TILES ? consumer : consumer * 4 + warp) * C::STAGING_BYTES_EACH;
        const uint32_t warpgroup_row = C::PING_PONG ? 0 : consumer * C::WARPGROUP_M;
        const uint32_t first_row = warpgroup_row + warp * 16;
        uint32_t number = 0;
        for (Tiles<C> tiles(problem, extras.groups, cluster, clusters, rank, all); tiles.any(); tiles.next(), ++number) {
            const Tile tile = tiles.at();
            const Range range = C::k_tiles(problem, tile, rank);
            const uint32_t count = range.count;
            if (waits) {
                wait_knowing(tile, range);
                waits = false;
            }
            // Found before the other consumer waits for it.
            const bool any_next = C::PING_PONG && tiles.any_next();
            if constexpr (C::PING_PONG) {
                if (number % 2 != consumer) {
                    at.skip(count);
                    continue;
                }
                // Until the other consumer has seen all of its stages full: one that waits for a later round of a stage would
                // take an earlier one for it.
                if (number > 0) {
                    ptx::named_barrier(TURN + consumer, 2 * WARPGROUP);
                }
            }
            typename Load::Sums sums;
            if constexpr (C::BLOCK_SCALED) {
                const TileFactors<C> factors(extras.block_scales, problem, tile, range.first, tile.m + first_row + lane / 4);
                Load::multiply_tile_promoted(sums, factors, count, base, full, empty, at, warpgroup_row, thread, rank);
            } else if constexpr (C::PROMOTED) {
                Load::multiply_tile_promoted(sums, Unscaled{}, count, base, full, empty, at, warpgroup_row, thread, rank);
            } else if constexpr (C::A_IN_REGISTERS) {
                Load::multiply_tile_of_registers(sums, count, base, full, empty, at, warpgroup_row, thread, rank);
            } else if constexpr (C::SPLIT) {
                Load::multiply_tile_of_parts(sums, extras.parts, problem, tile, range, base, full, empty, at, warpgroup_row, thread,
                                             rank);
            } else {
                Load::multiply_tile(sums, true, count, base, full, empty, at, warpgroup_row, thread, rank);
            }
            if constexpr (C::PING_PONG) {
                if (any_next) {
                    ptx::named_barrier_arrive(TURN + (consumer ^ 1), 2 * WARPGROUP);
                }
            }
            if constexpr (C::CLUSTER_K > 1) {
                // All stages have been read: sums take their place.
                ptx::named_barrier(ALL_CONSUMERS, C::CONSUMERS * WARPGROUP);
                if constexpr (C::TRANSPOSED) {
                    TransposedStore<C>::share(sums, count > 0, base, first_row, lane);
                } else {
                    End::share(sums, count > 0, base, first_row, lane);
                }
                ptx::cluster_barrier();
                End::finish_shared(d + tile.layer * problem.batch_stride, base, ending, problem, tile, rank,
                                   consumer * WARPGROUP + thread);
            } else if constexpr (C::TRANSPOSED) {
                TransposedStore<C>::finish(sums, map_d, d, staging, ending, problem, tile, first_row, consumer, lane);
            } else if constexpr (C::REDUCED) {
                Reduced<C>::finish_tile(sums, d, ending, extras.reduction, problem, tile, first_row, lane);
            } else if (C::is_unowned(problem, tile)) {
                End::store_zeros(d, problem, tile, first_row, lane);
            } else {
                if constexpr (C::GROUPED) {
                    ended.bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + tile.batch * extras.groups.bias_stride;
                }
                End::finish(sums, map_d, d, shared + (staging - ptx::smem_address(shared)), staging, ending, problem, tile,
                            first_row, lane);
            }
        }
        if (C::CLUSTER_K == 1 && ptx::elected()) {
            ptx::wait_stores_read<0>();
        }
        __syncwarp();
    }
    // A block stays while others of its cluster may still arrive at its barriers or read its sums.
    if constexpr (C::CLUSTER > 1) {
        ptx::cluster_barrier();
    }
}

}  // namespace polywarp::gemm_wgmma

// ---- Instances ----

// What a kernel declares beside its bounds, by the number of blocks in its cluster.
#define GEMM_WGMMA_CLUSTER_1
#define GEMM_WGMMA_CLUSTER_2 __cluster_dims__(2, 1, 1)
#define GEMM_WGMMA_CLUSTER_4 __cluster_dims__(4, 1, 1)
#define GEMM_WGMMA_CLUSTER_8 __cluster_dims__(8, 1, 1)

// One kernel: operands A of IN_A and B of IN_B, D of OUT; SIZE is the product of the cluster's three numbers. EXTRAS is what a kernel
// of KIND is given besides, from MORE: parameters behind those that all have.
#define GEMM_WGMMA_KERNEL(SYMBOL, IN_A, IN_B, OUT, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS, CLUSTER_M, CLUSTER_N,   \
                          CLUSTER_K, SIZE, A_MAJOR, B_MAJOR, KIND, EXTRAS, MORE)                                          \
    using SYMBOL##_t =                                                                                                    \
        polywarp::gemm_wgmma::Config<IN_A, IN_B, OUT, BLOCK_M, BLOCK_N, STAGES, polywarp::gemm_wgmma::Schedule::SCHEDULE, \
                                     CONSUMERS, CLUSTER_M, CLUSTER_N, CLUSTER_K, ptx::Major::A_MAJOR,                     \
                                     ptx::Major::B_MAJOR, polywarp::gemm_wgmma::Kind::KIND>;                              \
    static_assert(SYMBOL##_t::CLUSTER == SIZE);                                                                           \
    extern "C" __global__ void GEMM_WGMMA_CLUSTER_##SIZE __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                \
        const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,                             \
        const __grid_constant__ CUtensorMap map_d, OUT* d, uint32_t m, uint32_t n, uint32_t k, uint32_t tiles_m,          \
        uint32_t tiles_n, uint32_t batches, uint32_t slabs, uint32_t slab_tiles, uint32_t raster, uint32_t layer_inverse, \
        uint32_t band_inverse, uint32_t raster_inverse, uint32_t last_inverse, uint32_t batched_a, uint32_t batched_b,    \
        uint32_t store_by_tma, uint32_t keeps_operands, int64_t row_stride, int64_t column_stride, int64_t batch_stride,  \
        float alpha, float beta, const OUT* c, int64_t ldc, int64_t batch_stride_c, const OUT* bias,                      \
        uint32_t activation MORE) {                                                                                       \
        const polywarp::gemm_wgmma::Problem problem = {                                                                   \
            m,            n,             k,            tiles_m,       tiles_n,        batches,                            \
            slabs,        slab_tiles,    raster,       layer_inverse, band_inverse,   raster_inverse,                     \
            last_inverse, batched_a,     batched_b,    store_by_tma,  keeps_operands, row_stride,                         \
            column_stride, batch_stride};                                                                                 \
        const SYMBOL##_t::Epilogue epilogue(alpha, beta, c, ldc, batch_stride_c, bias, activation);                       \
        polywarp::gemm_wgmma::run<SYMBOL##_t>(&map_a, &map_b, &map_d, d, problem, epilogue, EXTRAS);                      \
    }
#define GEMM_WGMMA_COMMA ,

#define GEMM_WGMMA(...) GEMM_WGMMA_KERNEL(__VA_ARGS__, MATRICES, polywarp::gemm_wgmma::Extras(), )
// The same with scales.
#define GEMM_WGMMA_SCALED(...)                                                                                            \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, MATRICES,                                                                              \
                      (polywarp::gemm_wgmma::Scales{scale_m, scale_m_stride, scale_m_batch, scale_n, scale_n_stride,      \
                                                    scale_n_batch}),                                                      \
                      GEMM_WGMMA_COMMA const float* scale_m GEMM_WGMMA_COMMA int64_t scale_m_stride GEMM_WGMMA_COMMA      \
                          int64_t scale_m_batch GEMM_WGMMA_COMMA const float* scale_n GEMM_WGMMA_COMMA                    \
                              int64_t scale_n_stride GEMM_WGMMA_COMMA int64_t scale_n_batch)
// The same of groups: a batch is a run of A's rows.
#define GEMM_WGMMA_GROUPED(...)                                                                                           \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, GROUPS,                                                                                \
                      (polywarp::gemm_wgmma::Groups{ends, ends_stride, ends_are_signed, bias_stride}),                    \
                      GEMM_WGMMA_COMMA const uint32_t* ends GEMM_WGMMA_COMMA int64_t ends_stride GEMM_WGMMA_COMMA         \
                          uint32_t ends_are_signed GEMM_WGMMA_COMMA int64_t bias_stride)
// The transposed product: what is A here is B^T, and D's columns are rows.
#define GEMM_WGMMA_TRANSPOSED(...) GEMM_WGMMA_KERNEL(__VA_ARGS__, TRANSPOSED, polywarp::gemm_wgmma::Extras(), )
// f32 in f16 parts.
#define GEMM_WGMMA_SPLIT(...)                                                                                             \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, SPLIT, polywarp::gemm_wgmma::Parts{factors}, GEMM_WGMMA_COMMA const float* factors)
// A number for each row; of 8-bit operands that leave as floats with scales.
#define GEMM_WGMMA_REDUCTION polywarp::gemm_wgmma::Reduction{c_column, bias_row, bias_column, function, divisor}
#define GEMM_WGMMA_REDUCED(...)                                                                                           \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, REDUCED, (GEMM_WGMMA_REDUCTION),                                                       \
                      GEMM_WGMMA_COMMA int64_t c_column GEMM_WGMMA_COMMA int64_t bias_row GEMM_WGMMA_COMMA                \
                          int64_t bias_column GEMM_WGMMA_COMMA uint32_t function GEMM_WGMMA_COMMA float divisor)
#define GEMM_WGMMA_REDUCED_SCALED(...)                                                                                    \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, REDUCED,                                                                               \
                      (polywarp::gemm_wgmma::Extras(polywarp::gemm_wgmma::Scales{scale_m, scale_m_stride, scale_m_batch,  \
                                                                                 scale_n, scale_n_stride, scale_n_batch}, \
                                                    GEMM_WGMMA_REDUCTION)),                                               \
                      GEMM_WGMMA_COMMA const float* scale_m GEMM_WGMMA_COMMA int64_t scale_m_stride GEMM_WGMMA_COMMA      \
                          int64_t scale_m_batch GEMM_WGMMA_COMMA const float* scale_n GEMM_WGMMA_COMMA                    \
                              int64_t scale_n_stride GEMM_WGMMA_COMMA int64_t scale_n_batch GEMM_WGMMA_COMMA              \
                                  int64_t c_column GEMM_WGMMA_COMMA int64_t bias_row GEMM_WGMMA_COMMA int64_t bias_column \
                                      GEMM_WGMMA_COMMA uint32_t function GEMM_WGMMA_COMMA float divisor)
// 8-bit floats with scales of blocks.
#define GEMM_WGMMA_SCALED_BLOCKS(...)                                                                                     \
    GEMM_WGMMA_KERNEL(__VA_ARGS__, SCALED_BLOCKS,                                                                         \
                      (polywarp::gemm_wgmma::BlockScales{scale_a, scale_a_row, scale_a_k, scale_a_batch, scale_b,         \
                                                         scale_b_column, scale_b_k, scale_b_batch, scale_rows,            \
                                                         scale_columns, scale_stages}),                                   \
                      GEMM_WGMMA_COMMA const float* scale_a GEMM_WGMMA_COMMA int64_t scale_a_row GEMM_WGMMA_COMMA         \
                          int64_t scale_a_k GEMM_WGMMA_COMMA int64_t scale_a_batch GEMM_WGMMA_COMMA const float* scale_b  \
                              GEMM_WGMMA_COMMA int64_t scale_b_column GEMM_WGMMA_COMMA int64_t scale_b_k GEMM_WGMMA_COMMA \
                                  int64_t scale_b_batch GEMM_WGMMA_COMMA uint32_t scale_rows GEMM_WGMMA_COMMA             \
                                      uint32_t scale_columns GEMM_WGMMA_COMMA uint32_t scale_stages)
