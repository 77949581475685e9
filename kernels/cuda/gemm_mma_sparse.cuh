// Matrix products with a 2:4 compressed A by mma.sp and cp.async: sm_80 and later.
//
// Computes      D = activation(alpha A B + beta C + bias), A [batch, m, k] as values [batch, m, k / 2] and words of metadata
//               [batch, m, ceil(k / 32)] (four bits for each group of four, ascending from bit 0), the rest as gemm_mma_sync.cuh.
// Algorithm     That kernel's: a ring of tiles filled by cp.async, fragments of the next step read before this one is multiplied,
//               its epilogue. A stage is a tile of values, one of B twice as long along k, and the metadata of the values.
// Tiling        BLOCK_M x BLOCK_N x BLOCK_K (of B); WARPS_M x WARPS_N warps; m16n8 instructions of 64 bytes of B's k.
// Mapping       As there.
// Shared memory STAGES x (A tile, B tile, metadata: BLOCK_K / 32 lines of one word a row, 16 further apart than long, so that the
//               rows and lines of one load lie in different banks); the epilogue reuses it.
// Traffic       2 m n k operations, counted as if A were dense; ((BLOCK_M + 2 BLOCK_N) / 2 elements + BLOCK_M / 8 bytes) k
//               read a tile of D, mostly from L2.
// Numerics      f32 sums (i32 for 8-bit integers), K in a fixed order: the same bits on every run. Zeros that were left out are not
//               multiplied: NaN and infinities of B opposite them do not count.
// Requires      sm_80; values and B on a 16-byte grid, B with one unit stride, k a multiple of 4.
// Measured      docs/gemm.md.
// References    PTX ISA 8.5, "Warp-level matrix instructions: mma.sp"; NVIDIA, "Accelerating sparse deep neural networks",
//               arXiv 2104.08378.
#pragma once
#include "gemm_mma_sync.cuh"
#include "ptx/mma_sparse.cuh"

namespace gemm_mma {

// Metadata of two blocks of 16 rows for one step of 16-bit elements: lanes c = 0, 1 hold that of the first, 2, 3 of the second.
template <typename Dense>
struct Sparse16 : Dense {
    // Steps' words in a row's tile, and blocks of rows that one register serves.
    static constexpr int STEP_WORDS = 1, TOGETHER = 2;

    // The line of words and the row at which this lane reads; a second word lies 8 rows further.
    __device__ static __forceinline__ uint32_t line() { return 0; }
    __device__ static __forceinline__ uint32_t row() { return lane_id() / 4 + 16 * (lane_id() % 4 / 2); }

    __device__ static __forceinline__ uint32_t metadata(uint32_t at) {
        uint32_t upper, lower;
        ptx::load_shared(upper, at);
        ptx::load_shared(lower, at + 8 * sizeof(uint32_t));
        return ptx::pick_bytes(upper, lower, lane_id() % 2 == 0 ? 0x5410 : 0x7632);
    }
};

struct SparseF16 : Sparse16<F16> {
    template <int SELECTOR>
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
        ptx::mma_sparse_f16<SELECTOR>(d, a, b, e);
    }
};

struct SparseBf16 : Sparse16<Bf16> {
    template <int SELECTOR>
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
        ptx::mma_sparse_bf16<SELECTOR>(d, a, b, e);
    }
};

// Each lane holds a word of its own.
struct SparseS8 : S8 {
    static constexpr int STEP_WORDS = 2, TOGETHER = 1;

    __device__ static __forceinline__ uint32_t line() { return lane_id() % 4 / 2; }
    __device__ static __forceinline__ uint32_t row() { return lane_id() / 4 + 8 * (lane_id() % 2); }

    __device__ static __forceinline__ uint32_t metadata(uint32_t at) {
        uint32_t word;
        ptx::load_shared(word, at);
        return word;
    }

    template <int SELECTOR>
    __device__ static __forceinline__ void multiply(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t e) {
        ptx::mma_sparse_s8(d, a, b, e);
    }
};

template <typename T, int BLOCK_M, int BLOCK_N, int BLOCK_K, int WARPS_M, int WARPS_N, int STAGES, Major MAJOR_B>
struct SparseGemm {
    using Element = typename T::Element;
    using Sum = typename T::Sum;
    // The dense kernel of the same tile of D on half of K: its tiles of A, its places and its epilogue, whose ring is smaller.
    using Dense = Gemm<T, BLOCK_M, BLOCK_N, BLOCK_K / 2, WARPS_M, WARPS_N, STAGES, Major::K, MAJOR_B, Access::BYTES_16, Pace::TOGETHER>;
    using Place = typename Dense::Place;
    using TileA = typename Dense::TileA;
    using TileB = Tile<Element, MAJOR_B, Dense::PATTERN_B, BLOCK_N, BLOCK_K, Dense::THREADS, Access::BYTES_16>;

    static constexpr int THREADS = Dense::THREADS, BLOCKS_M = Dense::BLOCKS_M, BLOCKS_N = Dense::BLOCKS_N;
    static constexpr int STEPS = Dense::STEPS;
    // A step's columns are multiplied in two parts, so that fragments of B ahead of their use take fewer registers.
    static constexpr int PARTS = 2, PART_BLOCKS = BLOCKS_N / PARTS, TURNS = STEPS * PARTS;
    // Lines of metadata in a tile; words from one to the next.
    static constexpr int WORDS = BLOCK_K / 32;
    static constexpr int LINE_BYTES = (BLOCK_M + 16) * sizeof(uint32_t);
    static constexpr int METADATA_BYTES = WORDS * LINE_BYTES;
    static constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES + METADATA_BYTES;
    static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;
    static constexpr int REGISTERS_E = BLOCKS_M / T::TOGETHER;

    static_assert(STAGE_BYTES % 128 == 0 && SHARED_BYTES >= Dense::SHARED_BYTES);
    static_assert(WORDS == STEPS * T::STEP_WORDS && BLOCKS_M % T::TOGETHER == 0 && STEPS % 2 == 0);
    static_assert(BLOCKS_N % (2 * PARTS) == 0, "blocks of B are loaded in pairs");
    static_assert(BLOCK_M * WORDS % THREADS == 0 && THREADS % WORDS == 0);

    // The metadata of a tile: this thread's words, all of one line.
    struct MetadataLoader {
        const uint32_t* from;
        // Words from row to row; those left in a row from this thread's on; rows left.
        uint32_t pitch;
        int left_words, left_rows;
        uint32_t to;

        __device__ __forceinline__ MetadataLoader(const uint32_t* metadata, const Problem& problem, uint32_t first) {
            const uint32_t row = threadIdx.x / WORDS, word = threadIdx.x % WORDS;
            pitch = (problem.k + 31) / 32;
            from = metadata + static_cast<int64_t>(first + row) * pitch + word;
            left_words = static_cast<int>(pitch - word);
            left_rows = static_cast<int>(problem.m - first - row);
            to = word * LINE_BYTES + row * sizeof(uint32_t);
        }

        __device__ __forceinline__ void advance() {
            from += WORDS;
            left_words -= WORDS;
        }

        __device__ __forceinline__ void copy(uint32_t stage) const {
            constexpr int STEP_ROWS = THREADS / WORDS;
#pragma unroll
            for (int row = 0; row < BLOCK_M; row += STEP_ROWS) {
                const uint32_t at = stage + to + row * static_cast<uint32_t>(sizeof(uint32_t));
                if (left_words > 0 && row < left_rows) {
                    ptx::copy_async<4>(at, from + static_cast<int64_t>(row) * pitch, 4);
                } else {
                    // Outside of A values are zero; places must be in order all the same.
                    ptx::store_shared(at, 0x44444444u);
                }
            }
        }
    };

    using FragmentsA = uint32_t[BLOCKS_M][4];
    using FragmentsB = uint32_t[PART_BLOCKS][4];
    using FragmentsE = uint32_t[REGISTERS_E];

    // One part of a step.
    __device__ static __forceinline__ void multiply(Sum (&sums)[BLOCKS_M][BLOCKS_N][4], const FragmentsA& a, const FragmentsB& b,
                                                    const FragmentsE& e, int part) {
#pragma unroll
        for (int row = 0; row < BLOCKS_M; ++row) {
#pragma unroll
            for (int i = 0; i < PART_BLOCKS; ++i) {
                // Back and forth, so that two neighbours share an operand.
                const int column = row % 2 == 0 ? i : PART_BLOCKS - 1 - i;
                Sum(&sum)[4] = sums[row][part * PART_BLOCKS + column];
                if (row % T::TOGETHER == 0) {
                    T::template multiply<0>(sum, a[row], b[column], e[row / T::TOGETHER]);
                } else {
                    T::template multiply<1>(sum, a[row], b[column], e[row / T::TOGETHER]);
                }
            }
        }
    }

    __device__ static __forceinline__ void multiply_all(Sum (&sums)[BLOCKS_M][BLOCKS_N][4], uint32_t shared, const Element* values,
                                                        const uint32_t* metadata, const Element* b, const Problem& problem,
                                                        const Place& place, uint32_t warp_m, uint32_t warp_n) {
        // Elements of K from the next tile to be loaded on.
        uint32_t left = problem.k;
        const uint32_t tiles = (left + BLOCK_K - 1) / BLOCK_K;
        typename TileA::Loader load_a(values, problem.pitch_a, place.m, problem.m, 0);
        typename TileB::Loader load_b(b, problem.pitch_b, place.n, problem.n, 0);
        MetadataLoader load_e(metadata, problem, place.m);
        const auto copy = [&](uint32_t stage) {
            if (left > 0) {
                load_a.copy(stage, left / 2);
                load_b.copy(stage + TileA::BYTES, left);
                load_e.copy(stage + TileA::BYTES + TileB::BYTES);
                load_a.advance();
                load_b.advance();
                load_e.advance();
                left -= min(left, static_cast<uint32_t>(BLOCK_K));
            }
            // Empty groups too: what is awaited is counted in groups.
            ptx::copy_async_commit();
        };
        const uint32_t end = shared + SHARED_BYTES;
        const auto next = [&](uint32_t stage) { return stage + STAGE_BYTES == end ? shared : stage + STAGE_BYTES; };

        uint32_t reading = shared, writing = shared;
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            copy(writing);
            writing = next(writing);
        }
        ptx::copy_async_wait<STAGES - 2>();
        // The first tile is there, for all.
        __syncthreads();

        const uint32_t start_a = T::template start<TileA, Major::K, true>(warp_m);
        const uint32_t start_b = T::template start<TileB, MAJOR_B, false>(warp_n) + TileA::BYTES;
        const uint32_t start_e = TileA::BYTES + TileB::BYTES + T::line() * LINE_BYTES + (warp_m + T::row()) * sizeof(uint32_t);
        const auto read_a = [&](FragmentsA& to, FragmentsE& to_e, int step) {
            T::template load_a<TileA, Major::K>(to, reading + start_a, step);
#pragma unroll
            for (int i = 0; i < REGISTERS_E; ++i) {
                to_e[i] = T::metadata(reading + start_e + step * T::STEP_WORDS * LINE_BYTES + 16 * T::TOGETHER * i * sizeof(uint32_t));
            }
        };
        const auto read_b = [&](FragmentsB& to, int step, int part) {
            constexpr uint32_t PART_BYTES_K = TileB::offset(8 * PART_BLOCKS, 0);
            constexpr uint32_t PART_BYTES_MN = TileB::offset(0, 8 * PART_BLOCKS * sizeof(Element));
            const uint32_t at = TileB::at(reading + start_b, part * (MAJOR_B == Major::K ? PART_BYTES_K : PART_BYTES_MN));
            // 64 bytes of K are two steps of the dense kernel.
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t pairs[PART_BLOCKS][2];
                T::template load_b<TileB, MAJOR_B>(pairs, at, 2 * step + half);
#pragma unroll
                for (int block = 0; block < PART_BLOCKS; ++block) {
                    to[block][2 * half] = pairs[block][0];
                    to[block][2 * half + 1] = pairs[block][1];
                }
            }
        };
        // What is multiplied, and what is multiplied next.
        FragmentsA a_steps[2];
        FragmentsE e_steps[2];
        FragmentsB b_parts[2];
        read_a(a_steps[0], e_steps[0], 0);
        read_b(b_parts[0], 0, 0);
        for (uint32_t tile = 0; tile < tiles; ++tile) {
#pragma unroll
            for (int i = 0; i < TURNS; ++i) {
                const int step = i / PARTS, part = i % PARTS;
                if (i == TURNS - 1) {
                    ptx::copy_async_wait<STAGES - 2>();
                    // The next tile is there, for all; and all have read the last fragments of this one.
                    __syncthreads();
                    reading = next(reading);
                }
                if (part == PARTS - 1) {
                    read_a(a_steps[(step + 1) % 2], e_steps[(step + 1) % 2], (step + 1) % STEPS);
                }
                read_b(b_parts[(i + 1) % 2], (i + 1) / PARTS % STEPS, (i + 1) % PARTS);
                if (i == 0) {
                    copy(writing);
                    writing = next(writing);
                }
                multiply(sums, a_steps[step % 2], b_parts[i % 2], e_steps[step % 2], part);
            }
        }
        ptx::copy_async_wait<0>();
        // Shared memory is free for the epilogue.
        __syncthreads();
    }

    __device__ static __forceinline__ void run(const Element* values, const uint32_t* metadata, int64_t batch_stride_metadata,
                                               const Element* b, const typename Dense::Destination& to, const Problem& problem) {
        extern __shared__ __align__(1024) uint8_t shared[];
        const Place at = Dense::place(problem);
        const uint32_t warp = threadIdx.x / 32;
        const uint32_t warp_m = warp / WARPS_N * Dense::WARP_M, warp_n = warp % WARPS_N * Dense::WARP_N;
        Sum sums[BLOCKS_M][BLOCKS_N][4] = {};
        multiply_all(sums, static_cast<uint32_t>(__cvta_generic_to_shared(shared)), values + at.batch * problem.batch_stride_a,
                     metadata + at.batch * batch_stride_metadata, b + at.batch * problem.batch_stride_b, problem, at, warp_m, warp_n);
        Dense::finish(sums, to, problem, typename Dense::DenseRows{problem.n}, at, warp, warp_m, warp_n, shared);
    }
};

}  // namespace gemm_mma

// Defines kernel NAME; further arguments are SparseGemm's after T. `wide`: D, C and bias are f32, not Result.
#define GEMM_MMA_SPARSE_KERNEL(NAME, T, MIN_BLOCKS, ...)                                                                        \
    extern "C" __global__ void __launch_bounds__(gemm_mma::SparseGemm<gemm_mma::T, __VA_ARGS__>::THREADS, MIN_BLOCKS)           \
        NAME(const gemm_mma::T::Element* values, int64_t pitch_a, int64_t batch_stride_a, const uint32_t* metadata,             \
             int64_t batch_stride_metadata, const gemm_mma::T::Element* b, int64_t pitch_b, int64_t batch_stride_b, void* d,    \
             uint32_t wide, uint32_t m, uint32_t n, uint32_t k, uint32_t batches, float alpha, float beta, const void* c,       \
             int64_t ldc, int64_t batch_stride_c, const void* bias, uint32_t activation) {                                     \
        const gemm_mma::Problem problem = {pitch_a, batch_stride_a, pitch_b, batch_stride_b, m, n, k, batches, k};              \
        gemm_mma::SparseGemm<gemm_mma::T, __VA_ARGS__>::run(                                                                    \
            values, metadata, batch_stride_metadata, b, {d, wide, alpha, beta, c, ldc, batch_stride_c, bias, activation},       \
            problem);                                                                                                           \
    }
