// The transposed product, D^T = B^T A^T, with A along k and B along n (what gemm_wgmma.cuh calls A is B^T here, its rows the
// columns of D). wgmma takes 32-bit operands from shared memory along k alone; the first it also takes from registers, which any
// thread may fill from anywhere. So B needs no launch that turns it around. 16-bit operands wgmma takes either way; of those A's
// rows are the columns of a tile, of which there may be any multiple of 16, where rows are multiples of 64: seven times 144 are
// 1000 with little to spare, and 112 tiles few enough for clusters of four, which share those rows.
//
// Mapping       Of 32-bit operands, a stage has B^T as columns of 32 (128 bytes) that are BLOCK_K deep. Two warps have the rows of
//               one: which lane holds which is free, as long as sums are stored so. A lane's 8 bytes at one k are two rows, which
//               fragments have at 8 rows' distance. Half a warp reads 4 k's of 8 rows each: in units 0 and 4 of 16 bytes, which
//               the swizzle (unit u of line k at u ^ (k % 8)) sends to eight units: no two in one bank.
// Traffic       8 KiB of B^T a slab and stage into registers, as many bytes as wgmma would read itself.
#pragma once
#include "gemm_wgmma_store.cuh"
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
        ptx::keep_in_place(sums);
        ptx::wgmma_fence();
        const uint64_t b =
            ptx::matrix_descriptor(ptx::descriptor_unit(stage + C::A_BYTES), C::COLUMN_BYTES, ptx::SWIZZLE_ATOM_BYTES);
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
        ptx::keep_in_place(sums);
    }
};

// Phases 3 and 4: D's rows are the columns of these sums. Of 32 bits they go from registers straight to D: the two rows of a lane
// are eight bytes of D, and what two warps write of it whole lines. Those of 16 bits are turned around on their way to shared
// memory (stmatrix.trans), from where a slab of 64 rows, 128 bytes of D, leaves by one TMA store.
template <typename C>
struct TransposedStore {
    using Out = typename C::Out;
    using Out2 = Two<Out>;
    using Ending = gemm_wgmma::Ending<C>;
    static constexpr int BLOCK_M = C::BLOCK_M, BLOCK_N = C::BLOCK_N, SLABS = C::SLABS;
    static constexpr int GROUPS_A_SLAB = BLOCK_N / GROUP_N, GROUPS = SLABS * GROUPS_A_SLAB;
    static constexpr uint32_t SLAB_BYTES = BLOCK_N * ptx::SWIZZLE_ROW_BYTES;
    // Barriers of consumers whose tile is on its way to D.
    static constexpr uint32_t STORING = 4;
    using Sums = float[SLABS][BLOCK_N / 2];

    // The first of the two rows that a lane holds, and how far below it the other one is.
    __device__ static __forceinline__ uint32_t row_of(uint32_t first_row, uint32_t lane) {
        return C::A_IN_REGISTERS ? transposed_row(first_row, lane) : first_row + lane / 4;
    }
    static constexpr uint32_t OTHER_ROW = C::A_IN_REGISTERS ? 1 : 8;

    // `staging`: this consumer's, for tiles that leave as a whole.
    __device__ static __forceinline__ void finish(Sums& d, const CUtensorMap* map_d, Out* out, uint32_t staging,
                                                  const Ending& ending, const Problem& problem, const Tile& tile,
                                                  uint32_t first_row, uint32_t consumer, uint32_t lane) {
        const uint32_t row = tile.m + row_of(first_row, lane), column = tile.n + lane % 4 * 2;
        Out* const matrix = out + tile.layer * problem.batch_stride;
        if constexpr (C::A_IN_REGISTERS) {
            if (problem.store_by_tma && ending.is_plain()) {
                store_pairs(d, matrix, problem, row, column);
                return;
            }
        } else if (problem.store_by_tma) {
            store_slabs(d, map_d, staging, ending, problem, tile, first_row, consumer, lane);
            return;
        }
        store_ended(d, matrix, ending, problem, tile.batch, row, column);
    }

    // Aligned D of 16 bits.
    __device__ static __forceinline__ void store_slabs(Sums& d, const CUtensorMap* map_d, uint32_t staging,
                                                       const Ending& ending, const Problem& problem, const Tile& tile,
                                                       uint32_t first_row, uint32_t consumer, uint32_t lane) {
        const bool leads = first_row % SLAB_M == 0 && ptx::elected();
        if (leads) {
            ptx::wait_stores_read<0>();
        }
        ptx::named_barrier(STORING + consumer, WARPGROUP);
        if (ending.is_plain()) {
#pragma unroll
            for (int group = 0; group < GROUPS; ++group) {
                const float* x = &d[group / GROUPS_A_SLAB][group % GROUPS_A_SLAB * GROUP_SUMS];
                stage(x, staging, group, first_row, lane);
            }
        } else {
            const uint32_t row = tile.m + row_of(first_row, lane), column = tile.n + lane % 4 * 2;
#pragma unroll 1
            for (int group = 0; group < GROUPS; ++group) {
                float x[GROUP_SUMS];
                end_group(x, d, ending, problem, tile.batch, row, column, group);
                stage(x, staging, group, first_row, lane);
            }
        }
        ptx::fence_async_proxy();
        ptx::named_barrier(STORING + consumer, WARPGROUP);
        if (leads) {
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab) {
                ptx::store_tile(map_d, staging + slab * SLAB_BYTES, tile.m + consumer * C::WARPGROUP_M + slab * SLAB_M, tile.n,
                                tile.layer);
            }
            ptx::commit_stores();
        }
    }

    // 16 columns of a warp's 16 rows, as 16 rows of 32 bytes: unit u of line k stands at u ^ (k % 8).
    __device__ static __forceinline__ void stage(const float* x, uint32_t staging, int group, uint32_t first_row, uint32_t lane) {
        using Straight = Store<C>;
        const uint32_t matrix = lane / 8, within = lane % 8;
        const uint32_t unit = first_row % SLAB_M / 8 + matrix % 2, line = matrix / 2 * 8 + within;
        const uint32_t slab = group / GROUPS_A_SLAB, first = group % GROUPS_A_SLAB * GROUP_N;
        ptx::store_matrices_transposed(
            staging + slab * SLAB_BYTES + (first + line) * ptx::SWIZZLE_ROW_BYTES + (unit ^ within) * 16,
            Straight::pack(x[0], x[1]), Straight::pack(x[2], x[3]), Straight::pack(x[4], x[5]), Straight::pack(x[6], x[7]));
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
#pragma unroll 1
        for (int group = 0; group < GROUPS; ++group) {
            float x[GROUP_SUMS];
            end_group(x, d, ending, problem, batch, row, column, group);
#pragma unroll
            for (int i = 0; i < GROUP_SUMS; ++i) {
                const uint32_t at_row = row_in(row, group, i), at = column_in(column, group, i);
                if (at_row < problem.m && at < problem.n) {
                    matrix[at_row * problem.row_stride + at * problem.column_stride] = polywarp::from_compute<Out>(x[i]);
                }
            }
        }
    }

    // Where sum `i` of a group stands, of a lane whose first sum stands at (row, column).
    __device__ static __forceinline__ uint32_t row_in(uint32_t row, int group, int i) {
        return row + group / GROUPS_A_SLAB * SLAB_M + i / 2 % 2 * OTHER_ROW;
    }
    __device__ static __forceinline__ uint32_t column_in(uint32_t column, int group, int i) {
        return column + group % GROUPS_A_SLAB * GROUP_N + i / 4 * 8 + i % 2;
    }

    // The results of a group of sums, before they are rounded.
    __device__ static __forceinline__ void end_group(float (&x)[GROUP_SUMS], const Sums& d, const Ending& ending,
                                                     const Problem& problem, uint32_t batch, uint32_t row, uint32_t column,
                                                     int group) {
        pick_group<0, GROUPS>(x, d, group);
#pragma unroll
        for (int i = 0; i < GROUP_SUMS; ++i) {
            const uint32_t at_row = row_in(row, group, i), at = column_in(column, group, i);
            if (at_row < problem.m && at < problem.n) {
                x[i] = ending.inactive(x[i], batch, at, at_row);
            }
        }
        branchless::activate<Out>(x, ending.epilogue.activation);
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
