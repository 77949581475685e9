// What a stage of gemm_wgmma_sparse.cuh does otherwise than one of gemm_wgmma_mainloop.cuh: metadata, and wgmma.sp.
#pragma once
#include "gemm_wgmma_config.cuh"
#include "ptx/ldmatrix.cuh"

namespace polywarp::gemm_wgmma {

template <typename C>
struct SparseStage {
    using Instruction = typename C::Instruction;
    using Accumulator = typename C::Accumulator;
    static constexpr int SLABS = C::SLABS, STEPS_A_WORD = Instruction::STEPS_A_WORD;
    using Sums = Accumulator[SLABS][C::BLOCK_N / 2];
    static_assert(C::K_STEPS == C::UNITS * STEPS_A_WORD);

    // Phase 1. The words of the slabs of `tile` for its tile `k` of K, of matrix `batch` of A: those of a unit lie in a row.
    __device__ static __forceinline__ void load_metadata(const Metadata& metadata, uint32_t stage, uint32_t barrier,
                                                         const Problem& problem, const Tile& tile, uint32_t k, int batch) {
        const int64_t first = (static_cast<int64_t>(batch) * C::term_tiles(problem) + k) * C::UNITS;
#pragma unroll
        for (int unit = 0; unit < C::UNITS; ++unit) {
            const int64_t slab = (first + unit) * metadata.slabs + tile.m / SLAB_M;
            ptx::load_bytes(stage + C::METADATA_AT + unit * C::UNIT_METADATA_BYTES, metadata.words + slab * WARPGROUP,
                            C::UNIT_METADATA_BYTES, barrier);
        }
    }

    // Phase 2. Every slab of rows from `first_row` on times both steps of k. Words come while the stage before is still being
    // multiplied.
    __device__ static __forceinline__ void multiply(Sums& d, uint32_t stage, uint32_t first_row, bool fresh) {
        uint32_t words[SLABS][C::UNITS];
        uint64_t a[SLABS];
        const uint64_t b =
            ptx::matrix_descriptor(ptx::descriptor_unit(stage + C::A_BYTES), C::COLUMN_BYTES, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t row = first_row + slab * SLAB_M;
            const uint32_t from = row / SLAB_M * C::SLAB_METADATA_BYTES + threadIdx.x % WARPGROUP * sizeof(uint32_t);
#pragma unroll
            for (int unit = 0; unit < C::UNITS; ++unit) {
                ptx::load_shared(words[slab][unit], stage + C::METADATA_AT + unit * C::UNIT_METADATA_BYTES + from);
            }
            a[slab] = ptx::sparse_descriptor(ptx::descriptor_unit(stage + row * C::ROW_BYTES_A));
        }
        ptx::wgmma_fence();
        multiply_step<0>(d, a, b, words, !fresh);
        multiply_step<1>(d, a, b, words, true);
    }

    // One step of k. A word of 16-bit elements serves both, each of which selects its lanes.
    template <int STEP>
    __device__ static __forceinline__ void multiply_step(Sums& d, const uint64_t (&a)[SLABS], uint64_t b,
                                                         const uint32_t (&words)[SLABS][C::UNITS], bool add) {
        constexpr Major MAJOR_B = C::MAJOR_B;
        // Bytes from one step to the next: along the row, or K rows of 128 bytes further.
        constexpr uint32_t STEP_A = ptx::SPARSE_STEP_A_BYTES;
        constexpr uint32_t STEP_B =
            MAJOR_B == Major::K ? ptx::SPARSE_STEP_B_BYTES : Instruction::K * ptx::SWIZZLE_ROW_BYTES;
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            Instruction::template run<C::BLOCK_N, MAJOR_B, STEP % STEPS_A_WORD>(
                d[slab], a[slab] + (STEP * STEP_A >> 4), b + (STEP * STEP_B >> 4), words[slab][STEP / STEPS_A_WORD], add);
        }
    }
};

}  // namespace polywarp::gemm_wgmma
