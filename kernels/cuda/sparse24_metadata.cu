// 2:4 metadata as wgmma.sp takes it, from rows of words.
//
// Computes      arranged[batch][unit][slab][t], t < 128, the word of thread t of a warpgroup for rows 64 slab to 64 slab + 63 and
//               elements 64 unit to 64 unit + 63 of k. With w = t / 32, g = t % 32 / 4, c = t % 4 and row r = 64 slab + 16 w + g:
//               of 16-bit elements half c % 2 of word 2 unit + c / 2, of r in the lower half and of r + 8 in the upper; of 8-bit
//               ones word 2 unit + c / 2 of r + 8 (c % 2). Rows of `words` words of metadata, four bits a group of four; groups
//               outside of them are 0100. (Lanes of wgmma.sp, selector c / 2: ptx/wgmma_sparse.cuh.)
// Algorithm     1. words of 64 rows and 16 units to shared memory; 2. one or two of them to a word of the result.
// Tiling        256 threads: 64 rows x 32 words.
// Mapping       Neighbouring threads read neighbouring words of a row, and write neighbouring words.
// Shared memory 64 rows, 34 words apart: what a warp reads in 2 lies in banks of its own, for all lanes that read it.
// Traffic       Metadata read once and written once, 1/8 of the values' bytes each (of 16-bit ones).
// Numerics      Bits move.
// Requires      sm_80; blocks fit 31 bits.
// Measured      docs/gemm.md, with what repeats it.
// References    PTX ISA 9.7.15.6.2, "Matrix fragments for warpgroup-level multiply-accumulate operation with sparse matrix A".
#include <stdint.h>

#include "ptx/launch.cuh"
#include "ptx/mma.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr uint32_t SLAB_M = 64;
constexpr uint32_t TILE_WORDS = 32, TILE_UNITS = TILE_WORDS / 2;
constexpr uint32_t PITCH = TILE_WORDS + 2;
// Threads of a warpgroup, and words of it for one unit.
constexpr uint32_t WARPGROUP = 128;
// Places 0 and 1 of every group.
constexpr uint32_t FIRST_TWO = 0x44444444;

// Block x is tile x % tiles of slab x / tiles % slabs of matrix x / tiles / slabs; `rows` are those of a matrix.
template <int ELEMENT_BYTES>
__device__ __forceinline__ void arrange(const uint32_t* metadata, uint32_t* arranged, uint32_t rows, uint32_t words,
                                        uint32_t slabs, uint32_t units, uint32_t tiles) {
    __shared__ uint32_t tile[SLAB_M * PITCH];
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t above = blockIdx.x / tiles, batch = above / slabs;
    const uint32_t first_unit = blockIdx.x % tiles * TILE_UNITS, slab = above % slabs;
    // Phase 1.
    const uint32_t word = threadIdx.x % TILE_WORDS, column = 2 * first_unit + word;
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
    for (uint32_t i = 0; i < TILE_UNITS; i += THREADS / WARPGROUP) {
        const uint32_t within = i + threadIdx.x / WARPGROUP, unit = first_unit + within;
        if (unit < units) {
            const uint32_t* of_row = tile + from + 2 * within;
            const int64_t to = (static_cast<int64_t>(batch) * units + unit) * slabs + slab;
            if constexpr (ELEMENT_BYTES == 2) {
                const uint32_t halves = c % 2 == 0 ? 0x5410 : 0x7632;
                arranged[to * WARPGROUP + thread] = ptx::pick_bytes(of_row[0], of_row[8 * PITCH], halves);
            } else {
                arranged[to * WARPGROUP + thread] = of_row[c % 2 * 8 * PITCH];
            }
        }
    }
}

}  // namespace

// Defines kernel NAME for elements of so many bytes.
#define SPARSE24_METADATA(NAME, ELEMENT_BYTES)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                    \
        NAME(const uint32_t* metadata, uint32_t* arranged, uint32_t rows, uint32_t words, uint32_t slabs, uint32_t units,    \
             uint32_t tiles) {                                                                                               \
        arrange<ELEMENT_BYTES>(metadata, arranged, rows, words, slabs, units, tiles);                                        \
    }
