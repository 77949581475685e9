// Matrix products on tensor cores by mma.sync and cp.async: every NVIDIA GPU from sm_80 on, any size, pitch and offset.
//
// Computes      D = activation(alpha A B + beta C + bias), A [batch, m, k], B [batch, k, n], C and D [batch, m, n], bias [n];
//               D dense. Or slabs of A B for split-K: [slab][batch][m][n].
// Algorithm     One block a tile of D. 1. AHEAD - 1 tiles of A and B start on their way; 2. for each tile of K, warps multiply
//               step by step, reading the fragments of the next step before they multiply this one, while the tile
//               AHEAD - 1 further is being copied; 3. sums go to shared memory, piece by piece; 4. each warp reads its own
//               rows back, 16 bytes a lane, applies the epilogue and stores whole lines.
// Tiling        BLOCK_M x BLOCK_N x BLOCK_K; WARPS_M x WARPS_N warps of WARP_M x WARP_N; m16n8 instructions.
// Mapping       Tiles run through groups of RASTER tile rows, column by column, so that a wave shares A and B in L2.
// Shared memory STAGES x (A tile, B tile), swizzled (gemm_mma_sync_tile.cuh); the epilogue reuses it.
// Traffic       2 m n k operations; (BLOCK_M + BLOCK_N) k elements read a tile of D, mostly from L2.
// Numerics      f32 sums (i32 for 8-bit integers, f64), K in a fixed order: the same bits on every run. Tf32 operands are
//               rounded to nearest, ties away from zero.
// Requires      sm_80; A and B with one unit stride. Access says what their starts and pitches are aligned to; ANY takes all.
// Measured      H200, 2026-11-21, TFLOP/s at 4096 (8192) cubed, random operands, both K-major: f16 486 (483) by 256x128x64,
//               419 (437) by 128x128x32; tf32 210 (198); i8 866 (965); f64 56 (57). Warp-level instructions alone: 633, 316,
//               1266, 66. Limited by L2 (a 128x128 tile of f16 asks for 6.4 TB/s at 412) and by the power limit of 700 W.
//               Lost: copies spread over the steps of a tile (f64 -4 %), m16n8k16 for f64 (same), 16-byte loads of f64 and
//               MN-major tf32 fragments (sorting registers by moves: -6 %, -20 %). More: docs/gemm.md.
// References    PTX ISA 8.x, "mma.sync", "ldmatrix", "cp.async"; CUTLASS, media/docs/cpp/efficient_gemm.md (the pipeline's shape).
#pragma once
#include "epilogue.cuh"
#include "gemm_mma_sync_fragments.cuh"
#include "ptx/split_barrier.cuh"

#include <type_traits>

namespace gemm_mma {

// Tile rows that are walked together.
constexpr uint32_t RASTER = 8;

// How warps of a block keep to the same tile of K.
enum class Pace {
    // They meet at every tile.
    TOGETHER,
    // Each says when it is half-way through a tile, and waits at its end until all others are half-way: nobody waits for small
    // differences. The ring holds one tile less ahead.
    APART,
};

// What the planner hands over.
struct Problem {
    // A and B: elements from row to row as they lie (along M or N when K-major, along K when MN-major), and from batch to batch.
    int64_t pitch_a, batch_stride_a, pitch_b, batch_stride_b;
    uint32_t m, n, k, batches;
    // Elements of K in each slab but the last, a multiple of BLOCK_K; k when there is one slab.
    uint32_t slab_k;
};

template <typename T, int BLOCK_M, int BLOCK_N, int BLOCK_K, int WARPS_M, int WARPS_N, int STAGES, Major MAJOR_A, Major MAJOR_B,
          Access ACCESS, Pace PACE>
struct Gemm {
    using Element = typename T::Element;
    using Sum = typename T::Sum;
    using Scalar = std::conditional_t<std::is_same_v<Sum, double>, double, float>;

    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static constexpr int WARP_M = BLOCK_M / WARPS_M, WARP_N = BLOCK_N / WARPS_N;
    static constexpr int BLOCKS_M = WARP_M / 16, BLOCKS_N = WARP_N / 8;
    static constexpr int STEPS = BLOCK_K / T::STEP_K;
    static constexpr Pattern PATTERN_A = MAJOR_A == Major::K ? T::K_PATTERN : T::MN_PATTERN;
    static constexpr Pattern PATTERN_B = MAJOR_B == Major::K ? T::K_PATTERN : T::MN_PATTERN;
    using TileA = Tile<Element, MAJOR_A, PATTERN_A, BLOCK_M, BLOCK_K, THREADS, ACCESS>;
    using TileB = Tile<Element, MAJOR_B, PATTERN_B, BLOCK_N, BLOCK_K, THREADS, ACCESS>;
    static constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
    // The ring, and for PACE APART a barrier behind it.
    static constexpr int RING_BYTES = STAGES * STAGE_BYTES;
    static constexpr int SHARED_BYTES = RING_BYTES + (PACE == Pace::APART ? 16 : 0);
    // Tiles on their way or in use.
    static constexpr int AHEAD = PACE == Pace::APART ? STAGES - 1 : STAGES;
    static constexpr int TURNS = STEPS * T::PARTS;

    // Phases 3 and 4. One lane's vector of a row; a row of a warp's sums in shared memory, 8 elements further apart than long, so
    // that four rows of a fragment lie in different banks.
    static constexpr int VECTOR = 16 / sizeof(Sum);
    static constexpr int ROW_LANES = WARP_N / VECTOR;
    static constexpr int STAGING_PITCH = WARP_N + 8;
    static constexpr int STAGING_BYTES = WARP_M * STAGING_PITCH * sizeof(Sum) * WARPS_M * WARPS_N;
    static constexpr int PIECES = STAGING_BYTES <= RING_BYTES ? 1 : STAGING_BYTES <= 2 * RING_BYTES ? 2 : 4;
    static constexpr int PIECE_BLOCKS = BLOCKS_M / PIECES;
    static constexpr int PIECE_ROWS = WARP_M / PIECES;

    static_assert(AHEAD >= 2 && (PACE == Pace::TOGETHER || ACCESS != Access::ANY) && STEPS >= 2 && STEPS % 2 == 0, "fragments alternate between two buffers");
    static_assert(BLOCKS_M % PIECES == 0);
    static_assert(STAGING_BYTES / PIECES <= RING_BYTES);
    static_assert(ROW_LANES <= 32 && PIECE_ROWS % (32 / ROW_LANES) == 0);
    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0 && BLOCKS_N % (T::COLUMNS_TOGETHER * T::PARTS) == 0);
    static_assert(TileA::BYTES % 128 == 0 && STAGE_BYTES % 128 == 0);

    // A step's columns are multiplied in PARTS, so that fragments of B ahead of their use take fewer registers.
    static constexpr int PART_BLOCKS = BLOCKS_N / T::PARTS;
    using FragmentsA = typename T::Register[BLOCKS_M][T::A_REGISTERS];
    using FragmentsB = typename T::Register[PART_BLOCKS][T::B_REGISTERS];

    // Which tile of D this block computes, of which batch and slab.
    struct Place {
        uint32_t m, n, batch, slab;
    };

    __device__ static __forceinline__ Place place(const Problem& problem) {
        const uint32_t rows = (problem.m + BLOCK_M - 1) / BLOCK_M, columns = (problem.n + BLOCK_N - 1) / BLOCK_N;
        const uint32_t plane = rows * columns;
        const uint32_t layer = blockIdx.x / plane, within = blockIdx.x - layer * plane;
        const uint32_t group = within / (RASTER * columns), rest = within - group * RASTER * columns;
        const uint32_t height = min(RASTER, rows - group * RASTER);
        const uint32_t column = rest / height;
        Place place;
        place.m = (group * RASTER + rest - column * height) * BLOCK_M;
        place.n = column * BLOCK_N;
        place.slab = layer / problem.batches;
        place.batch = layer - place.slab * problem.batches;
        return place;
    }

    // One part of a step.
    __device__ static __forceinline__ void multiply(Sum (&sums)[BLOCKS_M][BLOCKS_N][4], FragmentsA& a, FragmentsB& b, int part) {
        if (part == 0) {
            T::prepare(a);
        }
        T::prepare(b);
#pragma unroll
        for (int row = 0; row < BLOCKS_M; ++row) {
#pragma unroll
            for (int i = 0; i < PART_BLOCKS; ++i) {
                // Back and forth, so that two neighbours share an operand.
                const int column = row % 2 == 0 ? i : PART_BLOCKS - 1 - i;
                T::multiply(sums[row][part * PART_BLOCKS + column], a[row], b[column]);
            }
        }
    }

    // Phases 1 and 2. Loaders bring the tiles of A and B along K, from where the slab of `place` begins: Tile::Loader those of
    // matrices, convolution_mma_sync.cuh has others.
    template <typename LoadA, typename LoadB>
    __device__ static __forceinline__ void multiply_all(Sum (&sums)[BLOCKS_M][BLOCKS_N][4], uint32_t shared, LoadA& load_a,
                                                        LoadB& load_b, const Problem& problem, const Place& place,
                                                        uint32_t warp_m, uint32_t warp_n) {
        // Elements of K from the next tile to be loaded on.
        uint32_t left = min(problem.slab_k, problem.k - place.slab * problem.slab_k);
        const uint32_t tiles = (left + BLOCK_K - 1) / BLOCK_K;
        const auto advance = [&] {
            load_a.advance();
            load_b.advance();
            left -= min(left, static_cast<uint32_t>(BLOCK_K));
        };
        const auto copy = [&](uint32_t stage) {
            if (left > 0) {
                load_a.copy(stage, left);
                load_b.copy(stage + TileA::BYTES, left);
                advance();
            }
            // Empty groups too: what is awaited is counted in groups.
            ptx::copy_async_commit();
        };
        // By way of registers, which loaders of other Access need not know.
        const auto fetch = [&] {
            if constexpr (ACCESS == Access::ANY) {
                if (left > 0) {
                    load_a.fetch(left);
                    load_b.fetch(left);
                }
            }
        };
        const auto put = [&](uint32_t stage) {
            if constexpr (ACCESS == Access::ANY) {
                if (left > 0) {
                    load_a.put(stage, left);
                    load_b.put(stage + TileA::BYTES, left);
                    advance();
                }
            }
        };
        const uint32_t end = shared + RING_BYTES, half_way = end;
        const auto next = [&](uint32_t stage) { return stage + STAGE_BYTES == end ? shared : stage + STAGE_BYTES; };

        uint32_t reading = shared, writing = shared;
        if constexpr (ACCESS == Access::ANY) {
            fetch();
            put(writing);
            writing = next(writing);
            fetch();
        } else {
#pragma unroll
            for (int stage = 0; stage < AHEAD - 1; ++stage) {
                copy(writing);
                writing = next(writing);
            }
            ptx::copy_async_wait<AHEAD - 2>();
        }
        if (PACE == Pace::APART && threadIdx.x == 0) {
            ptx::split_barrier_init(half_way, WARPS_M * WARPS_N);
        }
        // The first tile is there, for all.
        __syncthreads();

        const uint32_t start_a = T::template start<TileA, MAJOR_A, true>(warp_m);
        const uint32_t start_b = T::template start<TileB, MAJOR_B, false>(warp_n) + TileA::BYTES;
        const auto read_a = [&](FragmentsA& to, int step) { T::template load_a<TileA, MAJOR_A>(to, reading + start_a, step); };
        const auto read_b = [&](FragmentsB& to, int step, int part) {
            constexpr uint32_t PART_BYTES_K = TileB::offset(8 * PART_BLOCKS, 0);
            constexpr uint32_t PART_BYTES_MN = TileB::offset(0, 8 * PART_BLOCKS * sizeof(Element));
            const uint32_t at = TileB::at(reading + start_b, part * (MAJOR_B == Major::K ? PART_BYTES_K : PART_BYTES_MN));
            T::template load_b<TileB, MAJOR_B>(to, at, step);
        };
        // What is multiplied, and what is multiplied next.
        FragmentsA a_steps[2];
        FragmentsB b_parts[2];
        read_a(a_steps[0], 0);
        read_b(b_parts[0], 0, 0);
        for (uint32_t tile = 0; tile < tiles; ++tile) {
#pragma unroll
            for (int i = 0; i < TURNS; ++i) {
                const int step = i / T::PARTS, part = i % T::PARTS;
                if (PACE == Pace::APART && i == TURNS / 2) {
                    // This warp's part of the next tile is there, and it has read the tile before this one.
                    ptx::copy_async_wait<AHEAD - 2>();
                    __syncwarp();
                    if (lane_id() == 0) {
                        ptx::split_barrier_arrive(half_way);
                    }
                }
                if (i == TURNS - 1) {
                    if constexpr (PACE == Pace::APART) {
                        // The next tile is there, for all; and all have read the tile before this one.
                        ptx::split_barrier_wait(half_way, tile % 2);
                    } else {
                        if constexpr (ACCESS != Access::ANY) {
                            ptx::copy_async_wait<AHEAD - 2>();
                        }
                        // The next tile is there, for all; and all have read the last fragments of this one.
                        __syncthreads();
                    }
                    reading = next(reading);
                }
                if (part == T::PARTS - 1) {
                    read_a(a_steps[(step + 1) % 2], (step + 1) % STEPS);
                }
                read_b(b_parts[(i + 1) % 2], (i + 1) / T::PARTS % STEPS, (i + 1) % T::PARTS);
                if (i == 0) {
                    if constexpr (ACCESS == Access::ANY) {
                        put(writing);
                        fetch();
                    } else {
                        copy(writing);
                    }
                    writing = next(writing);
                }
                multiply(sums, a_steps[step % 2], b_parts[i % 2], part);
            }
        }
        if constexpr (ACCESS != Access::ANY) {
            ptx::copy_async_wait<0>();
        }
        // Shared memory is free for the epilogue.
        __syncthreads();
    }

    // Phase 3: one piece of a warp's sums, as rows.
    __device__ static __forceinline__ void stage_piece(Sum* to, const Sum (&sums)[BLOCKS_M][BLOCKS_N][4], int piece) {
        const uint32_t g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
        for (int block = piece * PIECE_BLOCKS; block < (piece + 1) * PIECE_BLOCKS; ++block) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = T::template row_of<MAJOR_A>(block, g + 8 * half) - piece * PIECE_ROWS;
#pragma unroll
                for (int column_block = 0; column_block < BLOCKS_N; ++column_block) {
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int column = T::template column_of<MAJOR_B>(column_block, 2 * c + i);
                        to[row * STAGING_PITCH + column] = sums[block][column_block][2 * half + i];
                    }
                }
            }
        }
    }

    // VECTOR elements of a result or addend.
    template <typename Out>
    struct alignas(VECTOR * sizeof(Out)) Several {
        Out x[VECTOR];
    };

    // alpha sum + beta c + bias; integers wrap.
    __device__ static __forceinline__ float combine(float alpha, float sum, float beta, float c, float bias) {
        return fmaf(alpha, sum, beta * c) + bias;
    }
    __device__ static __forceinline__ double combine(double alpha, double sum, double beta, double c, double bias) {
        return fma(alpha, sum, beta * c) + bias;
    }
    __device__ static __forceinline__ int32_t combine(int32_t alpha, int32_t sum, int32_t beta, int32_t c, int32_t bias) {
        return static_cast<int32_t>(static_cast<uint32_t>(alpha) * static_cast<uint32_t>(sum) +
                                    static_cast<uint32_t>(beta) * static_cast<uint32_t>(c) + static_cast<uint32_t>(bias));
    }

    // Where the rows of a D begin that is dense, in elements from its start.
    struct DenseRows {
        uint32_t n;

        __device__ __forceinline__ int64_t operator()(uint32_t m) const { return static_cast<int64_t>(m) * n; }
    };

    // Phase 4: the rows of one piece. A lane reads and writes its own places of `staging` alone. Rows of D begin where `start_of`
    // says, aligned as those of a dense D are.
    template <typename Out, typename Rows>
    __device__ static __forceinline__ void store_piece(Out* matrix, Sum* staging, const polywarp::Epilogue<Out>& epilogue,
                                                       const Problem& problem, const Rows& start_of, const Place& place,
                                                       uint32_t first_m, uint32_t first_n) {
        constexpr int STEP_ROWS = 32 / ROW_LANES;
        const uint32_t column = lane_id() % ROW_LANES * VECTOR, first_row = lane_id() / ROW_LANES;
        const uint32_t n = first_n + column;
        if (n >= problem.n || first_m >= problem.m) {
            return;
        }
        const int count = min(problem.n - n, static_cast<uint32_t>(VECTOR));
        const int rows = min(problem.m - first_m, static_cast<uint32_t>(PIECE_ROWS));
        // Whole vectors where every row of D (and C) starts aligned; the same for the whole launch.
        const bool whole = problem.n % VECTOR == 0 && reinterpret_cast<uint64_t>(matrix) % sizeof(Several<Out>) == 0;
        const bool whole_c = whole && epilogue.ldc % VECTOR == 0 && epilogue.batch_stride_c % VECTOR == 0 &&
                             reinterpret_cast<uint64_t>(epilogue.c) % sizeof(Several<Out>) == 0;
        Sum bias[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            bias[i] = epilogue.bias != nullptr && i < count ? polywarp::to_compute(epilogue.bias[n + i]) : Sum(0);
        }
        const auto at = [&](int row) { return reinterpret_cast<Several<Sum>*>(staging + row * STAGING_PITCH + column); };
        if (!epilogue.is_plain()) {
#pragma unroll 2
            for (int row = first_row; row < rows; row += STEP_ROWS) {
                Several<Out> addend = {};
                if (epilogue.c != nullptr) {
                    const Out* c = epilogue.c_at(place.batch, first_m + row, n);
                    if (whole_c) {
                        addend = *reinterpret_cast<const Several<Out>*>(c);
                    } else {
#pragma unroll
                        for (int i = 0; i < VECTOR; ++i) {
                            if (i < count) {
                                addend.x[i] = c[i];
                            }
                        }
                    }
                }
                Several<Sum> sums = *at(row);
#pragma unroll
                for (int i = 0; i < VECTOR; ++i) {
                    sums.x[i] = combine(epilogue.alpha, sums.x[i], epilogue.beta, polywarp::to_compute(addend.x[i]), bias[i]);
                }
                *at(row) = sums;
            }
        }
        if (epilogue.activation != polywarp::ACTIVATION_NONE) {
            // Rolled: all activations inlined once take some 4 KiB of code.
#pragma unroll 1
            for (int i = 0; i < (rows - static_cast<int>(first_row) + STEP_ROWS - 1) / STEP_ROWS * VECTOR; ++i) {
                Sum* one = at(first_row + i / VECTOR * STEP_ROWS)->x + i % VECTOR;
                *one = polywarp::activate(*one, epilogue.activation);
            }
        }
#pragma unroll 4
        for (int row = first_row; row < rows; row += STEP_ROWS) {
            const Several<Sum> sums = *at(row);
            Several<Out> result;
#pragma unroll
            for (int i = 0; i < VECTOR; ++i) {
                result.x[i] = polywarp::from_compute<Out>(sums.x[i]);
            }
            Out* d = matrix + start_of(first_m + row) + n;
            if (whole) {
                *reinterpret_cast<Several<Out>*>(d) = result;
            } else {
#pragma unroll
                for (int i = 0; i < VECTOR; ++i) {
                    if (i < count) {
                        d[i] = result.x[i];
                    }
                }
            }
        }
    }

    template <typename Out, typename Rows>
    __device__ static __forceinline__ void store(const Sum (&sums)[BLOCKS_M][BLOCKS_N][4], Out* d,
                                                 const polywarp::Epilogue<Out>& epilogue, const Problem& problem,
                                                 const Rows& start_of, const Place& place, uint32_t warp, uint32_t warp_m,
                                                 uint32_t warp_n, uint8_t* shared) {
        Sum* staging = reinterpret_cast<Sum*>(shared) + warp * PIECE_ROWS * STAGING_PITCH;
        const int64_t layer = static_cast<int64_t>(place.slab) * problem.batches + place.batch;
        Out* matrix = d + layer * problem.m * problem.n;
#pragma unroll 1
        for (int piece = 0; piece < PIECES; ++piece) {
#pragma unroll
            for (int i = 0; i < PIECES; ++i) {
                if (i == piece) {
                    stage_piece(staging, sums, i);
                }
            }
            __syncwarp();
            store_piece<Out>(matrix, staging, epilogue, problem, start_of, place, place.m + warp_m + piece * PIECE_ROWS,
                             place.n + warp_n);
            // The next piece overwrites what was read.
            __syncwarp();
        }
    }

    // D, and what it is made of besides the product. `wide`: D, C and bias are f32 (1) or OtherResult (2), not Result.
    struct Destination {
        void* d;
        uint32_t wide;
        Scalar alpha, beta;
        const void* c;
        int64_t ldc, batch_stride_c;
        const void* bias;
        uint32_t activation;
    };

    // Phases 3 and 4.
    template <typename Rows>
    __device__ static __forceinline__ void finish(const Sum (&sums)[BLOCKS_M][BLOCKS_N][4], const Destination& to,
                                                  const Problem& problem, const Rows& start_of, const Place& place,
                                                  uint32_t warp, uint32_t warp_m, uint32_t warp_n, uint8_t* shared) {
        const auto store_as = [&](auto* typed) {
            using Out = std::remove_pointer_t<decltype(typed)>;
            const polywarp::Epilogue<Out> epilogue(to.alpha, to.beta, static_cast<const Out*>(to.c), to.ldc, to.batch_stride_c,
                                                   static_cast<const Out*>(to.bias), to.activation);
            store<Out>(sums, typed, epilogue, problem, start_of, place, warp, warp_m, warp_n, shared);
        };
        if constexpr (!std::is_void_v<typename T::OtherResult>) {
            if (to.wide == 2) {
                store_as(static_cast<typename T::OtherResult*>(to.d));
                return;
            }
        }
        if constexpr (sizeof(typename T::Result) == 2) {
            if (to.wide != 0) {
                store_as(static_cast<float*>(to.d));
                return;
            }
        }
        store_as(static_cast<typename T::Result*>(to.d));
    }

    // All phases, on the tile of D at `place`.
    template <typename LoadA, typename LoadB, typename Rows>
    __device__ static __forceinline__ void run(LoadA& load_a, LoadB& load_b, const Destination& to, const Problem& problem,
                                               const Rows& start_of, const Place& place) {
        extern __shared__ __align__(1024) uint8_t shared[];
        const uint32_t warp = threadIdx.x / 32;
        const uint32_t warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;
        Sum sums[BLOCKS_M][BLOCKS_N][4] = {};
        multiply_all(sums, static_cast<uint32_t>(__cvta_generic_to_shared(shared)), load_a, load_b, problem, place, warp_m, warp_n);
        finish(sums, to, problem, start_of, place, warp, warp_m, warp_n, shared);
    }

    // Of matrices.
    __device__ static __forceinline__ void run(const Element* a, const Element* b, const Destination& to, const Problem& problem) {
        const Place at = place(problem);
        const uint32_t first_k = at.slab * problem.slab_k;
        typename TileA::Loader load_a(a + at.batch * problem.batch_stride_a, problem.pitch_a, at.m, problem.m, first_k);
        typename TileB::Loader load_b(b + at.batch * problem.batch_stride_b, problem.pitch_b, at.n, problem.n, first_k);
        run(load_a, load_b, to, problem, DenseRows{problem.n}, at);
    }
};

}  // namespace gemm_mma

// Defines kernel NAME; further arguments are Gemm's after T.
#define GEMM_MMA_KERNEL(NAME, T, MIN_BLOCKS, ...)                                                                                 \
    extern "C" __global__ void __launch_bounds__(gemm_mma::Gemm<gemm_mma::T, __VA_ARGS__>::THREADS, MIN_BLOCKS)                 \
        NAME(const gemm_mma::T::Element* a, int64_t pitch_a, int64_t batch_stride_a, const gemm_mma::T::Element* b,             \
             int64_t pitch_b, int64_t batch_stride_b, void* d, uint32_t wide, uint32_t m, uint32_t n, uint32_t k,                \
             uint32_t batches, uint32_t slab_k, gemm_mma::Gemm<gemm_mma::T, __VA_ARGS__>::Scalar alpha,                           \
             gemm_mma::Gemm<gemm_mma::T, __VA_ARGS__>::Scalar beta, const void* c, int64_t ldc, int64_t batch_stride_c,         \
             const void* bias, uint32_t activation) {                                                                         \
        const gemm_mma::Problem problem = {pitch_a, batch_stride_a, pitch_b, batch_stride_b, m, n, k, batches, slab_k};     \
        gemm_mma::Gemm<gemm_mma::T, __VA_ARGS__>::run(                                                                          \
            a, b, {d, wide, alpha, beta, c, ldc, batch_stride_c, bias, activation}, problem);                                   \
    }
