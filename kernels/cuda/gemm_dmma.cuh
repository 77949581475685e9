// f64 matrix products on sm_90: DMMA fed by the tensor memory accelerator.
//
// Computes      D = activation(alpha A B + beta C + bias), A [batch, m, k], B [batch, k, n], C and D [batch, m, n], bias [n];
//               D dense. Or slabs of A B for split-K: [slab][batch][m][n].
// Algorithm     Persistent blocks, no more than tiles, or clusters of CLUSTER_K blocks that share the K of one tile. One
//               thread keeps a ring of tiles of A and B under way; one or two warpgroups multiply. 1. A warp holds the
//               fragments of A of one step of K and two blocks of B: while it multiplies with one block, the next is read, and
//               over the later blocks the A of the next step, also of the next tile; loads stand between two products each, as
//               both warps of a scheduler that issue loads together would leave the pipe idle (5 % at 128 x 128); 2. sums go
//               from registers to D, with the epilogue of a few instructions; 3. other activations are applied to what was
//               stored, in a rolled loop, so that their code exists once. Blocks that share K leave their sums in shared
//               memory after 1, and each does 2 and 3 for its share of the tile, adding up all of theirs in their order.
// Tiling        BLOCK_M x BLOCK_N, 16 of K a stage; WARPS_M x WARPS_N (4 or 8) warps of at least 16 x 16; m16n8k16 alone: one
//               warp keeps the pipe of its scheduler busy with it (98 % of the peak; with m16n8k8 72 %, m16n8k4 89 %), so that
//               it does not matter what the other one waits for.
// Mapping       Tiles run through groups of RASTER tile rows, column by column, so that a wave shares A and B in L2.
// Shared memory STAGES x (A, B), rows of 128 bytes, units of 16 mixed by the accelerator with the row's number. Rows (K-major)
//               and columns (MN-major) of a block are taken in an order in which half a warp's loads touch every bank once.
//               Sums that a cluster adds up take the place of the stages, in rows of BLOCK_N + 2.
// Traffic       2 m n k operations; (BLOCK_M + BLOCK_N) k elements read a tile of D, mostly from L2.
// Numerics      f64 sums, K in a fixed order: the same bits on every run.
// Requires      sm_90a; starts, pitches and batch strides multiples of 16 bytes. With CLUSTER_K > 1 as many clusters as tiles.
// Measured      docs/gemm.md, with what repeats it.
// References    PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .f64; "Swizzling modes".
#pragma once

#include <cuda.h>

#include "gemm_dmma_ending.cuh"
#include "ptx/barrier.cuh"
#include "ptx/dmma.cuh"
#include "ptx/launch.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"

#include <type_traits>

namespace dmma {

// Tile rows that are walked together.
constexpr uint32_t RASTER = 8;

// Number of the barrier among the warps that multiply; 0 is that of __syncthreads.
constexpr uint32_t ALL_CONSUMERS = 1;

enum class Major { K, MN };

template <int BLOCK_M, int BLOCK_N, int WARPS_M, int WARPS_N, int STAGES, int CLUSTER_K, Major MAJOR_A, Major MAJOR_B>
struct Gemm {
    static constexpr int CONSUMERS = WARPS_M * WARPS_N, THREADS = 32 * CONSUMERS + 128;
    static constexpr int WARP_M = BLOCK_M / WARPS_M, WARP_N = BLOCK_N / WARPS_N;
    static constexpr int BLOCKS_M = WARP_M / 16, BLOCKS_N = WARP_N / 8;
    static constexpr int BLOCK_K = 16, ROW_BYTES = 128;
    static constexpr uint32_t A_BYTES = BLOCK_M * ROW_BYTES, STAGE_BYTES = A_BYTES + BLOCK_N * ROW_BYTES;
    // A tile of 16 along M or N, all of K: one box of an MN-major operand.
    static constexpr uint32_t BOX_BYTES = 16 * ROW_BYTES;
    // 384 threads' registers in all, of which the loading warpgroup gives most away. Parts of K take it some more.
    static constexpr uint32_t LOADER_REGISTERS = CLUSTER_K > 1 ? 40 : 24, CONSUMER_REGISTERS = CLUSTER_K > 1 ? 232 : 240;
    // Bytes from row to row of sums that a cluster adds up; and pairs of neighbours of which each thread ends its share.
    static constexpr uint32_t SHARED_PITCH = (BLOCK_N + 2) * 8;
    static constexpr int PAIRS = BLOCK_M * BLOCK_N / 2, PAIRS_EACH = PAIRS / (CLUSTER_K * 32 * CONSUMERS);

    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0 && CONSUMERS % 4 == 0 && CONSUMERS <= 8);
    static_assert(CLUSTER_K == 1 || (PAIRS % (CLUSTER_K * 32 * CONSUMERS) == 0 && BLOCK_M * SHARED_PITCH <= STAGES * STAGE_BYTES));

    // First places of a tile, and where in K it begins.
    struct Place {
        uint32_t m, n, batch, slab, first_k, k_tiles;
    };

    __device__ static __forceinline__ uint32_t tiles(const Problem& problem) {
        return (problem.m + BLOCK_M - 1) / BLOCK_M * ((problem.n + BLOCK_N - 1) / BLOCK_N) * problem.batches * problem.slabs;
    }

    // Of a cluster's tile each block takes a part of K, if there are as many stages of it.
    __device__ static __forceinline__ Place place(const Problem& problem, uint32_t tile, uint32_t rank) {
        const uint32_t rows = (problem.m + BLOCK_M - 1) / BLOCK_M, columns = (problem.n + BLOCK_N - 1) / BLOCK_N;
        const uint32_t plane = rows * columns;
        const uint32_t layer = tile / plane, within = tile - layer * plane;
        const uint32_t group = within / (RASTER * columns), rest = within - group * RASTER * columns;
        const uint32_t height = min(RASTER, rows - group * RASTER);
        const uint32_t column = rest / height;
        Place place;
        place.m = (group * RASTER + rest - column * height) * BLOCK_M;
        place.n = column * BLOCK_N;
        place.slab = layer / problem.batches;
        place.batch = layer - place.slab * problem.batches;
        place.first_k = place.slab * problem.slab_k;
        const uint32_t all = (min(problem.slab_k, problem.k - place.first_k) + BLOCK_K - 1) / BLOCK_K;
        const uint32_t before = all * rank / CLUSTER_K;
        place.first_k += before * BLOCK_K;
        place.k_tiles = all * (rank + 1) / CLUSTER_K - before;
        return place;
    }

    // The ring: which stage is next, and the parity of its phase.
    struct Ring {
        uint32_t stage = 0, parity = 0;
        __device__ __forceinline__ void advance() {
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    };

    template <Major MAJOR, int BLOCK>
    __device__ static __forceinline__ void fetch_operand(uint32_t to, const CUtensorMap* map, uint32_t barrier, int first, int k, int batch) {
        if constexpr (MAJOR == Major::K) {
            ptx::load_tile(to, map, barrier, k, first, batch);
        } else {
#pragma unroll 1
            for (int box = 0; box < BLOCK / 16; ++box) {
                ptx::load_tile(to + box * BOX_BYTES, map, barrier, first + 16 * box, k, batch);
            }
        }
    }

    // By a whole warp: all tiles of this block, one after the other.
    __device__ static __forceinline__ void fetch_all(const CUtensorMap* a, const CUtensorMap* b, const Problem& problem, uint32_t rank,
                                                     uint32_t shared, uint32_t filled, uint32_t freed) {
        const bool leads = ptx::elected();
        Ring ring;
        for (uint32_t tile = blockIdx.x / CLUSTER_K; tile < tiles(problem); tile += gridDim.x / CLUSTER_K) {
            const Place at = place(problem, tile, rank);
#pragma unroll 1
            for (uint32_t i = 0; i < at.k_tiles; ++i) {
                const uint32_t to = shared + ring.stage * STAGE_BYTES, barrier = filled + 8 * ring.stage;
                const int k = at.first_k + i * BLOCK_K;
                ptx::barrier_wait(freed + 8 * ring.stage, ring.parity ^ 1);
                if (leads) {
                    ptx::barrier_arrive_expect(barrier, STAGE_BYTES);
                    fetch_operand<MAJOR_A, BLOCK_M>(to, a, barrier, at.m, k, problem.a_batches ? at.batch : 0);
                    fetch_operand<MAJOR_B, BLOCK_N>(to + A_BYTES, b, barrier, at.n, k, problem.b_batches ? at.batch : 0);
                }
                ring.advance();
            }
        }
    }

    // Where the loads of lane 4 g + c begin in a tile. K-major: place g of 8 stands at row 2 (g % 4) + g / 4. MN-major A: places
    // g and g + 8 of 16 are neighbours, read by one load, at 8 (g % 2) + 2 (g / 2). MN-major B: place g of block i of two stands
    // at g % 2 + 8 (g / 2 % 2) + 2 (g / 4) + 4 i.
    template <Major MAJOR, bool IS_A>
    __device__ static __forceinline__ uint32_t start() {
        const uint32_t g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
        if constexpr (MAJOR == Major::K) {
            const uint32_t row = 2 * (g & 3) + (g >> 2);
            return row * ROW_BYTES + (((c >> 1) ^ row) * 16) + (c & 1) * 8;
        } else if constexpr (IS_A) {
            return c * ROW_BYTES + ((4 * (g & 1) + (g >> 1)) ^ c) * 16;
        } else {
            return c * ROW_BYTES + ((4 * (g >> 1 & 1) + (g >> 2)) ^ c) * 16 + (g & 1) * 8;
        }
    }

    // The address 4 `quarter` of K further.
    template <Major MAJOR>
    __device__ static __forceinline__ uint32_t along_k(uint32_t address, int quarter) {
        return MAJOR == Major::K ? address ^ quarter * 32 : (address ^ (quarter & 1) * 64) + quarter * 4 * ROW_BYTES;
    }

    // Rows of 16, and of K `quarter`, of A.
    __device__ static __forceinline__ void load_a(double (&a)[8], uint32_t address, int block, int quarter) {
        const uint32_t at = along_k<MAJOR_A>(address, quarter) + block * BOX_BYTES;
        if constexpr (MAJOR_A == Major::K) {
            ptx::load_double(a[2 * quarter], at);
            ptx::load_double(a[2 * quarter + 1], at + 8 * ROW_BYTES);
        } else {
            ptx::load_doubles(a[2 * quarter], a[2 * quarter + 1], at);
        }
    }

    // A block of 8 columns of B, 16 of K.
    __device__ static __forceinline__ void load_b(double (&b)[4], uint32_t address, int block) {
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) {
            const uint32_t at = along_k<MAJOR_B>(address, quarter);
            ptx::load_double(b[quarter], MAJOR_B == Major::K ? at + block * 8 * ROW_BYTES : (at ^ block % 2 * 32) + block / 2 * BOX_BYTES);
        }
    }

    // Rows and columns of D within a warp's tile: place g + 8 `half` of a block of rows; the first of the pair of neighbours that
    // lane 4 g + c stores of a block of columns.
    __device__ static __forceinline__ uint32_t row_of(int block, int half) {
        const uint32_t g = threadIdx.x % 32 / 4;
        return 16 * block + (MAJOR_A == Major::K ? 8 * half + 2 * (g & 3) + (g >> 2) : 2 * (4 * (g & 1) + (g >> 1)) + half);
    }
    __device__ static __forceinline__ uint32_t column_of(int block) {
        const uint32_t c = threadIdx.x % 4;
        return MAJOR_B == Major::K ? 8 * block + 4 * (c & 1) + 2 * (c >> 1) : 16 * (block / 2) + 4 * (block % 2) + 8 * (c & 1) + 2 * (c >> 1);
    }

    // Fragments: of A of this step and of the next; the block of B that is multiplied, and the next.
    struct Fragments {
        double a[2][BLOCKS_M][8], b[2][4];
    };
    // Parts of A: what one column of a step reads ahead, in the later half of the columns.
    static constexpr int PARTS = 4 * BLOCKS_M, PARTS_AHEAD = PARTS / (BLOCKS_N / 2);
    static_assert(BLOCKS_N % 2 == 0 && PARTS % (BLOCKS_N / 2) == 0);

    // Phase 1. Begins and ends with the first fragments of a stage in registers, if there are `more` stages after these.
    __device__ static __forceinline__ void multiply(double (&sums)[BLOCKS_M][BLOCKS_N][4], Fragments& x, Ring& ring, uint32_t k_tiles,
                                                    bool more, uint32_t from_a, uint32_t from_b, uint32_t filled, uint32_t freed) {
        // Registers cannot be indexed by a variable: steps alternate in the code.
        const auto step = [&](auto parity, bool next_exists) {
            constexpr int THIS = decltype(parity)::value, OTHER = 1 - THIS;
            const uint32_t stage = ring.stage * STAGE_BYTES, done = freed + 8 * ring.stage;
            ring.advance();
            // Without a next stage what is read there is not used.
            const uint32_t next = ring.stage * STAGE_BYTES;
#pragma unroll
            for (int column = 0; column < BLOCKS_N; ++column) {
                // Loads come between two products, so that the pipe has work while they are issued.
                ptx::mma_f64_16x8x16(sums[0][column], x.a[THIS][0], x.b[column % 2]);
                if (column == BLOCKS_N / 2 - 1 && next_exists) {
                    ptx::barrier_wait(filled + 8 * ring.stage, ring.parity);
                }
                if (column < BLOCKS_N - 1) {
                    load_b(x.b[(column + 1) % 2], from_b + stage, column + 1);
                } else {
                    load_b(x.b[0], from_b + next, 0);
                    // All of this stage is in registers.
                    __syncwarp();
                    if (threadIdx.x % 32 == 0) {
                        ptx::barrier_arrive(done);
                    }
                }
                if (column >= BLOCKS_N / 2) {
#pragma unroll
                    for (int i = 0; i < PARTS_AHEAD; ++i) {
                        const int part = (column - BLOCKS_N / 2) * PARTS_AHEAD + i;
                        load_a(x.a[OTHER][part / 4], from_a + next, part / 4, part % 4);
                    }
                }
#pragma unroll
                for (int row = 1; row < BLOCKS_M; ++row) {
                    ptx::mma_f64_16x8x16(sums[row][column], x.a[THIS][row], x.b[column % 2]);
                }
            }
        };
        for (uint32_t i = 0; i < k_tiles; i += 2) {
            step(std::integral_constant<int, 0>{}, more || i + 1 < k_tiles);
            if (i + 1 < k_tiles) {
                step(std::integral_constant<int, 1>{}, more || i + 2 < k_tiles);
            }
        }
        if (k_tiles % 2 == 1) {
#pragma unroll
            for (int row = 0; row < BLOCKS_M; ++row) {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    x.a[0][row][i] = x.a[1][row][i];
                }
            }
        }
    }

    // Two neighbours of a lane's sums: of a row of D, those that begin at column_of(block).
    __device__ static __forceinline__ void pick(double (&x)[2], const double (&sums)[BLOCKS_M][BLOCKS_N][4], int row, int half, int block) {
        x[0] = sums[row][block][2 * half];
        x[1] = sums[row][block][2 * half + 1];
        if constexpr (MAJOR_B == Major::K) {
            // Lanes c and c + 2 hold every other one of four neighbours.
            const bool upper = threadIdx.x % 4 >= 2;
            const double other = __shfl_xor_sync(~0u, upper ? x[0] : x[1], 2);
            x[0] = upper ? other : x[0];
            x[1] = upper ? x[1] : other;
        }
    }

    // Phases 2 and 3 for the tile of a warp that begins at (first_m, first_n).
    __device__ static __forceinline__ void finish(const double (&sums)[BLOCKS_M][BLOCKS_N][4], const Ending& ending, uint32_t first_m,
                                                  uint32_t first_n) {
#pragma unroll
        for (int block = 0; block < BLOCKS_N; ++block) {
            const uint32_t n = first_n + column_of(block);
            double bias[2];
            ending.load_bias(bias, n);
#pragma unroll
            for (int place = 0; place < 2 * BLOCKS_M; ++place) {
                double x[2];
                pick(x, sums, place / 2, place % 2, block);
                ending.store(x, bias, first_m + row_of(place / 2, place % 2), n);
            }
        }
        if (ending.slow) {
#pragma unroll 1
            for (int i = 0; i < 4 * BLOCKS_M * BLOCKS_N; ++i) {
                ending.activate(first_m + row_of(i / 2 % BLOCKS_M, i / 2 / BLOCKS_M % 2),
                                first_n + column_of(i / (4 * BLOCKS_M)) + i % 2);
            }
        }
    }

    // Leaves a warp's sums where its block's stages were; (row, column): where its tile begins in the block's.
    __device__ static __forceinline__ void share(const double (&sums)[BLOCKS_M][BLOCKS_N][4], uint32_t shared, uint32_t row, uint32_t column) {
#pragma unroll
        for (int block = 0; block < BLOCKS_N; ++block) {
#pragma unroll
            for (int place = 0; place < 2 * BLOCKS_M; ++place) {
                double x[2];
                pick(x, sums, place / 2, place % 2, block);
                const uint32_t at = (row + row_of(place / 2, place % 2)) * SHARED_PITCH + (column + column_of(block)) * 8;
                ptx::store_doubles(shared + at, x[0], x[1]);
            }
        }
    }

    // Phases 2 and 3 for a thread's share of the tile that begins at (first_m, first_n), of which every block has left a part.
    __device__ static __forceinline__ void finish_shared(uint32_t shared, const Ending& ending, uint32_t rank, uint32_t first_m,
                                                         uint32_t first_n) {
        const auto pair = [&](int i) { return (i * CLUSTER_K + rank) * 32 * CONSUMERS + threadIdx.x; };
        const auto row_in = [](uint32_t pair) { return pair / (BLOCK_N / 2); };
        const auto column_in = [](uint32_t pair) { return pair % (BLOCK_N / 2) * 2; };
        double parts[PAIRS_EACH][CLUSTER_K][2];
#pragma unroll
        for (int i = 0; i < PAIRS_EACH; ++i) {
            const uint32_t from = shared + row_in(pair(i)) * SHARED_PITCH + column_in(pair(i)) * 8;
#pragma unroll
            for (int part = 0; part < CLUSTER_K; ++part) {
                ptx::load_doubles_of(from, part, parts[i][part][0], parts[i][part][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < PAIRS_EACH; ++i) {
            double x[2] = {parts[i][0][0], parts[i][0][1]};
#pragma unroll
            for (int part = 1; part < CLUSTER_K; ++part) {
                x[0] += parts[i][part][0];
                x[1] += parts[i][part][1];
            }
            const uint32_t n = first_n + column_in(pair(i));
            double bias[2];
            ending.load_bias(bias, n);
            ending.store(x, bias, first_m + row_in(pair(i)), n);
        }
        if (ending.slow) {
#pragma unroll 1
            for (int i = 0; i < 2 * PAIRS_EACH; ++i) {
                ending.activate(first_m + row_in(pair(i / 2)), first_n + column_in(pair(i / 2)) + i % 2);
            }
        }
    }

    __device__ static __forceinline__ void run(const CUtensorMap* map_a, const CUtensorMap* map_b, double* d, const Problem& problem,
                                               const polywarp::Epilogue<double>& epilogue) {
        extern __shared__ uint8_t memory[];
        // Swizzled tiles start on 1024 bytes.
        const uint32_t shared = (ptx::smem_address(memory) + 1023) & ~1023u;
        const uint32_t filled = shared + STAGES * STAGE_BYTES, freed = filled + 8 * STAGES;
        const uint32_t warp = ptx::uniform(threadIdx.x / 32);
        const uint32_t rank = CLUSTER_K == 1 ? 0 : ptx::cluster_rank();
        if (threadIdx.x == 0) {
            for (int stage = 0; stage < STAGES; ++stage) {
                ptx::barrier_init(filled + 8 * stage, 1);
                ptx::barrier_init(freed + 8 * stage, CONSUMERS);
            }
            ptx::fence_barrier_init();
            ptx::prefetch_map(map_a);
            ptx::prefetch_map(map_b);
        }
        // The barriers are there, for all.
        __syncthreads();
        ptx::let_next_kernel_start();
        ptx::wait_for_previous_kernels();
        if (warp >= CONSUMERS) {
            ptx::give_registers<LOADER_REGISTERS>();
            if (warp == CONSUMERS) {
                fetch_all(map_a, map_b, problem, rank, shared, filled, freed);
            }
            if constexpr (CLUSTER_K > 1) {
                // Once when sums are there, once when they have been read.
                __syncwarp();
                ptx::cluster_barrier();
                ptx::cluster_barrier();
            }
            return;
        }
        ptx::take_registers<CONSUMER_REGISTERS>();
        const uint32_t warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;
        const uint32_t from_a = shared + start<MAJOR_A, true>() + warp_m * ROW_BYTES;
        const uint32_t from_b = shared + A_BYTES + start<MAJOR_B, false>() + warp_n * ROW_BYTES;
        const uint32_t first = blockIdx.x / CLUSTER_K, step = gridDim.x / CLUSTER_K, end = tiles(problem);
        Ring ring;
        Fragments fragments;
        if (CLUSTER_K == 1 || place(problem, first, rank).k_tiles > 0) {
            ptx::barrier_wait(filled, 0);
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                load_a(fragments.a[0][part / 4], from_a, part / 4, part % 4);
            }
            load_b(fragments.b[0], from_b, 0);
        }
        for (uint32_t tile = first; tile < end; tile += step) {
            const Place at = place(problem, tile, rank);
            double sums[BLOCKS_M][BLOCKS_N][4] = {};
            multiply(sums, fragments, ring, at.k_tiles, tile + step < end, from_a, from_b, filled, freed);
            const int64_t layer = static_cast<int64_t>(at.slab) * problem.batches + at.batch;
            const Ending ending(d + layer * problem.m * problem.n, epilogue, problem, at.batch);
            if constexpr (CLUSTER_K == 1) {
                finish(sums, ending, at.m + warp_m, at.n + warp_n);
            } else {
                // All stages have been read: sums take their place.
                ptx::named_barrier(ALL_CONSUMERS, 32 * CONSUMERS);
                share(sums, shared, warp_m, warp_n);
                ptx::cluster_barrier();
                finish_shared(shared, ending, rank, at.m, at.n);
                ptx::cluster_barrier();
            }
        }
    }
};

}  // namespace dmma

// What a kernel declares beside its bounds, by the number of blocks in its cluster.
#define GEMM_DMMA_CLUSTER_1
#define GEMM_DMMA_CLUSTER_2 __cluster_dims__(2, 1, 1)
#define GEMM_DMMA_CLUSTER_4 __cluster_dims__(4, 1, 1)
#define GEMM_DMMA_CLUSTER_8 __cluster_dims__(8, 1, 1)

// Defines kernel NAME of clusters of CLUSTER blocks; further arguments are Gemm's.
#define GEMM_DMMA(NAME, CLUSTER, BLOCK_M, BLOCK_N, WARPS_M, WARPS_N, STAGES, MAJOR_A, MAJOR_B)                                 \
    using NAME##_t = dmma::Gemm<BLOCK_M, BLOCK_N, WARPS_M, WARPS_N, STAGES, CLUSTER, MAJOR_A, MAJOR_B>;                        \
    extern "C" __global__ void GEMM_DMMA_CLUSTER_##CLUSTER __launch_bounds__(NAME##_t::THREADS, 1)                            \
        NAME(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, double* d, uint32_t m, uint32_t n, \
             uint32_t k, uint32_t batches, uint32_t slabs, uint32_t slab_k, uint32_t a_batches, uint32_t b_batches,           \
             double alpha, double beta, const double* c, int64_t ldc, int64_t batch_stride_c, const double* bias,             \
             uint32_t activation) {                                                                                           \
        const polywarp::Epilogue<double> epilogue(alpha, beta, c, ldc, batch_stride_c, bias, activation);                     \
        NAME##_t::run(&a, &b, d, {m, n, k, batches, slabs, slab_k, a_batches, b_batches}, epilogue);                          \
    }
