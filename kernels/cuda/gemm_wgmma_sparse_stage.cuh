// What a stage of gemm_wgmma_sparse.cuh does otherwise than one of gemm_wgmma_mainloop.cuh: metadata, and wgmma.sp.
#pragma once
#include "gemm_wgmma_config.cuh"
#include "ptx/ldmatrix.cuh"

namespace polywarp::gemm_wgmma {

template <typename C>
struct SparseStage {
    using Sums = float[C::SLABS][C::BLOCK_N / 2];

    // Phase 1. The words of the slabs of `tile` for its tile `k` of K, of matrix `batch` of A: they lie in a row.
    __device__ static __forceinline__ void load_metadata(const Metadata& metadata, uint32_t stage, uint32_t barrier,
                                                         const Problem& problem, const Tile& tile, uint32_t k, int batch) {
        const int64_t of_batch = static_cast<int64_t>(batch) * C::term_tiles(problem) + k;
        const int64_t slab = of_batch * metadata.slabs + tile.m / SLAB_M;
        ptx::load_bytes(stage + C::METADATA_AT, metadata.words + slab * WARPGROUP, C::METADATA_BYTES, barrier);
    }

    // Phase 2. Every slab of rows from `first_row` on times both steps of k of a B that `b` describes. The words of both steps are
    // in one register, of which each selects its lanes; they come while the stage before is still being multiplied.
    __device__ static __forceinline__ void multiply(Sums& d, uint32_t stage, uint64_t b, uint32_t first_row, bool fresh) {
        using Instruction = typename C::Instruction;
        constexpr Major MAJOR_B = C::MAJOR_B;
        uint32_t words[C::SLABS];
        uint64_t a[C::SLABS];
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
            const uint32_t row = first_row + slab * SLAB_M;
            const uint32_t from = row / SLAB_M * C::SLAB_METADATA_BYTES + threadIdx.x % WARPGROUP * sizeof(uint32_t);
            ptx::load_shared(words[slab], stage + C::METADATA_AT + from);
            a[slab] = ptx::sparse_descriptor(stage + row * C::ROW_BYTES_A);
        }
        ptx::wgmma_fence();
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
            Instruction::template run<C::BLOCK_N, MAJOR_B, 0>(d[slab], a[slab], b, words[slab], !fresh);
        }
        // Bytes to the second step: along the row, or K rows of 128 bytes further.
        constexpr uint32_t STEP_A = ptx::SPARSE_STEP_A_BYTES;
        constexpr uint32_t STEP_B =
            MAJOR_B == Major::K ? ptx::SPARSE_STEP_B_BYTES : Instruction::K * ptx::SWIZZLE_ROW_BYTES;
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
            Instruction::template run<C::BLOCK_N, MAJOR_B, 1>(d[slab], a[slab] + (STEP_A >> 4), b + (STEP_B >> 4), words[slab], 1);
        }
    }
};

}  // namespace polywarp::gemm_wgmma
