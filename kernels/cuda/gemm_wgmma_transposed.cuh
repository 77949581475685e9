// The transposed product, D^T = B^T A^T, for 32-bit operands with A along k and B along n (what gemm_wgmma.cuh calls A is B^T
// here, its rows the columns of D). wgmma takes 32-bit operands from shared memory along k alone; the first it also takes from
// registers, which any thread may fill from anywhere. So B needs no launch that turns it around.
//
// Mapping       A stage has B^T as columns of 32 (128 bytes) that are BLOCK_K deep. Two warps have the rows of one: which lane
//               holds which is free, as long as sums are stored so. A lane's 8 bytes at one k are two rows, which fragments
//               have at 8 rows' distance. Half a warp reads 4 k's of 8 rows each: in units 0 and 4 of 16 bytes, which the
//               swizzle (unit u of line k at u ^ (k % 8)) sends to eight units: no two in one bank.
// Traffic       8 KiB of B^T a slab and stage into registers, as many bytes as wgmma would read itself.
#pragma once
#include "gemm_wgmma_ending.cuh"
#include "ptx/ldmatrix.cuh"

namespace polywarp::gemm_wgmma {

// The first of two neighbouring rows that a lane holds, counted like `first_row`, the first of 16 times the warp's number.
__device__ __forceinline__ uint32_t transposed_row(uint32_t first_row, uint32_t lane) {
    const uint32_t of_lane = lane / 4;
    return first_row / 32 * 32 + first_row % 32 / 2 + of_lane % 2 * 2 + of_lane / 4 * 4 + of_lane / 2 % 2 * 16;
}

// Phase 2.
template <typename C>
struct TransposedStage {
    static constexpr int SLABS = C::SLABS;
    // Steps of k in each of a stage's parts, whose fragments registers have. While one comes into them others are multiplied, but
    // a warp waits for loads and at wgmma's fence: another warpgroup fills that time, or longer parts do.
    static constexpr int STEPS = C::CONSUMERS > 1 && C::BLOCK_N >= 128 ? 1 : 2;
    static constexpr int PARTS = C::K_STEPS / STEPS;
    using Sums = float[SLABS][C::BLOCK_N / 2];
    // What wgmma takes as A: of each slab and step, rows `r` and `r + 1` at k, and both at k + 4.
    using Fragments = uint32_t[SLABS][STEPS][4];

    __device__ static __forceinline__ void load(Fragments& a, uint32_t stage, int part, uint32_t first_row, uint32_t lane) {
        const uint32_t row = transposed_row(first_row, lane), k = lane % 4;
        // Steps are whole rounds of the swizzle.
        const uint32_t unit = row % 32 / 4 ^ k, within = row % 4 * 4;
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t column = stage + (row + slab * SLAB_M) / 32 * C::COLUMN_BYTES + k * ptx::SWIZZLE_ROW_BYTES + within;
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const uint32_t line = column + (part * STEPS + step) * 8 * ptx::SWIZZLE_ROW_BYTES;
                ptx::load_shared(a[slab][step][0], a[slab][step][1], line + unit * 16);
                ptx::load_shared(a[slab][step][2], a[slab][step][3], line + 4 * ptx::SWIZZLE_ROW_BYTES + (unit ^ 4) * 16);
            }
        }
    }

    // Starts the products of a part of a stage.
    __device__ static __forceinline__ void start(Sums& sums, const Fragments& a, uint32_t stage, int part, bool fresh) {
        hold(sums);
        ptx::wgmma_fence();
        const uint64_t b = ptx::matrix_descriptor(stage + C::A_BYTES, C::COLUMN_BYTES, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab) {
                ptx::wgmma_tf32_of_registers<C::BLOCK_N>(sums[slab], a[slab][step],
                                                         b + ((part * STEPS + step) * C::Instruction::K * sizeof(float) >> 4),
                                                         step > 0 || !fresh);
            }
        }
        ptx::wgmma_commit();
        hold(sums);
    }

    __device__ static __forceinline__ void hold(Sums& sums) {
#pragma unroll
        for (int i = 0; i < SLABS * C::BLOCK_N / 2; ++i) {
            ptx::keep_in_place(sums[i / (C::BLOCK_N / 2)][i % (C::BLOCK_N / 2)]);
        }
    }

    // Fragments that wgmma reads in the background keep their registers up to here.
    __device__ static __forceinline__ void keep(Fragments& a) {
#pragma unroll
        for (int i = 0; i < SLABS * STEPS * 4; ++i) {
            ptx::keep_in_place(a[i / (STEPS * 4)][i / 4 % STEPS][i % 4]);
        }
    }
};

// Phases 3 and 4: from registers straight to D, whose rows are the columns of these sums. The two rows of a lane are eight bytes
// of D, and what two warps write of it whole lines.
template <typename C>
struct TransposedStore {
    using Out = typename C::Out;
    using Out2 = Two<Out>;
    using Ending = gemm_wgmma::Ending<C>;
    static constexpr int BLOCK_M = C::BLOCK_M, BLOCK_N = C::BLOCK_N, SLABS = C::SLABS;
    using Sums = float[SLABS][BLOCK_N / 2];
    static_assert(std::is_same_v<Out, float>);

    __device__ static __forceinline__ void finish(Sums& d, Out* out, const Ending& ending, const Problem& problem,
                                                  const Tile& tile, uint32_t first_row, uint32_t lane) {
        const uint32_t row = tile.m + transposed_row(first_row, lane), column = tile.n + lane % 4 * 2;
        Out* const matrix = out + tile.layer * problem.batch_stride;
        if (problem.store_by_tma && ending.is_plain()) {
            store_pairs(d, matrix, problem, row, column);
        } else {
            store_ended(d, matrix, ending, problem, tile.batch, row, column);
        }
    }

    // D is the sums: pairs are inside or outside, and aligned.
    __device__ static __forceinline__ void store_pairs(const Sums& d, Out* matrix, const Problem& problem, uint32_t row,
                                                       uint32_t column) {
        Out* at = matrix + row + column * problem.column_stride;
#pragma unroll
        for (int i = 0; i < BLOCK_N / 4; ++i) {
            const uint32_t within = i / 2 * 8 + i % 2;
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab) {
                if (row + slab * SLAB_M < problem.m && column + within < problem.n) {
                    const float* x = &d[slab][i / 2 * 4 + i % 2];
                    *reinterpret_cast<Out2*>(at + slab * SLAB_M) = {x[0], x[2]};
                }
            }
            at += (i % 2 == 0 ? 1 : 7) * problem.column_stride;
        }
    }

    // All else, one by one: eight sums at a time in a rolled loop, so that each activation's code exists once.
    __device__ static __forceinline__ void store_ended(const Sums& d, Out* matrix, const Ending& ending, const Problem& problem,
                                                       uint32_t batch, uint32_t row, uint32_t column) {
        constexpr int GROUPS_A_SLAB = BLOCK_N / GROUP_N;
#pragma unroll 1
        for (int group = 0; group < SLABS * GROUPS_A_SLAB; ++group) {
            const uint32_t top = row + group / GROUPS_A_SLAB * SLAB_M, left = column + group % GROUPS_A_SLAB * GROUP_N;
            float x[GROUP_SUMS];
            pick_group<0, SLABS * GROUPS_A_SLAB>(x, d, group);
#pragma unroll
            for (int i = 0; i < GROUP_SUMS; ++i) {
                const uint32_t at_row = top + i / 2 % 2, at = left + i / 4 * 8 + i % 2;
                if (at_row < problem.m && at < problem.n) {
                    x[i] = ending.inactive(x[i], batch, at, at_row);
                }
            }
            branchless::activate<Out>(x, ending.epilogue.activation);
#pragma unroll
            for (int i = 0; i < GROUP_SUMS; ++i) {
                const uint32_t at_row = top + i / 2 % 2, at = left + i / 4 * 8 + i % 2;
                if (at_row < problem.m && at < problem.n) {
                    matrix[at_row * problem.row_stride + at * problem.column_stride] = polywarp::from_compute<Out>(x[i]);
                }
            }
        }
    }

    // Leaves this warp's sums in its block's shared memory as D has them, in rows of SHARED_PITCH; zeros where it had no tile of k.
    __device__ static __forceinline__ void share(const Sums& d, bool any, uint32_t shared, uint32_t first_row, uint32_t lane) {
        const uint32_t row = transposed_row(first_row, lane), column = lane % 4 * 2;
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
#pragma unroll
            for (int i = 0; i < BLOCK_N / 4; ++i) {
                const uint32_t to = shared + ((column + i / 2 * 8 + i % 2) * C::SHARED_PITCH + row + slab * SLAB_M) * 4;
                const float* x = &d[slab][i / 2 * 4 + i % 2];
                ptx::store_pair(to, any ? x[0] : 0.0f, any ? x[2] : 0.0f);
            }
        }
    }
};

}  // namespace polywarp::gemm_wgmma
