// 2:4 metadata as wgmma.sp takes it, from rows of words.
//
// Computes      arranged[batch][stage][slab][t], t < 128, the word of thread t of a warpgroup for rows 64 slab to 64 slab + 63 and
//               64 stage to 64 stage + 63 of k: with w = t / 32, g = t % 32 / 4, c = t % 4 of row 64 slab + 16 w + g (lower half)
//               and of the row 8 further (upper half) half c % 2 of word 2 stage + c / 2. Rows of `words` words of metadata, four
//               bits a group of four; groups outside of them are 0100. (wgmma.sp, selector c / 2: ptx/wgmma_sparse.cuh.)
// Algorithm     1. words of 64 rows and 16 stages to shared memory; 2. two of them to a word of the result.
// Tiling        256 threads: 64 rows x 32 words.
// Mapping       Neighbouring threads read neighbouring words of a row, and write neighbouring words.
// Shared memory 64 rows, 34 words apart: what a warp reads in 2 lies in 16 banks, each for two lanes that read one word.
// Traffic       Metadata read once and written once, 1/8 of the values' bytes each (of 16-bit ones).
// Numerics      Bits move.
// Requires      sm_80; blocks fit 31 bits.
// Measured      not measured.
// References    PTX ISA 9.7.15.6.2, "Matrix fragments for warpgroup-level multiply-accumulate operation with sparse matrix A".
#include <stdint.h>

#include "ptx/launch.cuh"
#include "ptx/mma.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr uint32_t SLAB_M = 64;
constexpr uint32_t TILE_WORDS = 32, TILE_STAGES = TILE_WORDS / 2;
constexpr uint32_t PITCH = TILE_WORDS + 2;
// Threads of a warpgroup, and words of it for one stage.
constexpr uint32_t WARPGROUP = 128;
// Places 0 and 1 of every group.
constexpr uint32_t FIRST_TWO = 0x44444444;

}  // namespace

// Block x is tile x % tiles of slab x / tiles % slabs of matrix x / tiles / slabs; `rows` are those of a matrix.
extern "C" __global__ void __launch_bounds__(THREADS)
    sparse24_metadata_wgmma(const uint32_t* metadata, uint32_t* arranged, uint32_t rows, uint32_t words, uint32_t slabs,
                            uint32_t stages, uint32_t tiles) {
    __shared__ uint32_t tile[SLAB_M * PITCH];
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t above = blockIdx.x / tiles, batch = above / slabs;
    const uint32_t first_stage = blockIdx.x % tiles * TILE_STAGES, slab = above % slabs;
    // Phase 1.
    const uint32_t word = threadIdx.x % TILE_WORDS, column = 2 * first_stage + word;
#pragma unroll
    for (uint32_t i = 0; i < SLAB_M; i += THREADS / TILE_WORDS) {
        const uint32_t within = i + threadIdx.x / TILE_WORDS, row = slab * SLAB_M + within;
        const bool inside = row < rows && column < words;
        const int64_t at = (static_cast<int64_t>(batch) * rows + row) * words + column;
        tile[within * PITCH + word] = inside ? metadata[at] : FIRST_TWO;
    }
    __syncthreads();
    // Phase 2.
    const uint32_t thread = threadIdx.x % WARPGROUP, c = thread % 4;
    const uint32_t from = (thread / 32 * 16 + thread % 32 / 4) * PITCH + c / 2;
#pragma unroll
    for (uint32_t i = 0; i < TILE_STAGES; i += THREADS / WARPGROUP) {
        const uint32_t within = i + threadIdx.x / WARPGROUP, stage = first_stage + within;
        if (stage < stages) {
            const uint32_t upper = tile[from + 2 * within], lower = tile[from + 8 * PITCH + 2 * within];
            const int64_t to = (static_cast<int64_t>(batch) * stages + stage) * slabs + slab;
            arranged[to * WARPGROUP + thread] = ptx::pick_bytes(upper, lower, c % 2 == 0 ? 0x5410 : 0x7632);
        }
    }
}
