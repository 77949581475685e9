// Scales that change along K: what the sums of each stage are multiplied with before they are added up (phase 2 of
// gemm_wgmma.cuh). A stage lies within one block of K, and a tile's columns within one block of B's.
#pragma once
#include "gemm_wgmma_config.cuh"

namespace polywarp::gemm_wgmma {

// A lane's own for one stage: of its two rows in each slab, and of the tile's columns.
template <typename C>
struct Factors {
    float rows[C::SLABS][2], columns;

    // Multiplies `part`, with its row's first, as core orders it, and adds it to `sums`. Both scales multiplied first would be one
    // step less, but that product may overflow or lose bits where this does not.
    template <typename Sums>
    __device__ __forceinline__ void add(Sums& sums, const Sums& part) const {
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
#pragma unroll
            for (int i = 0; i < C::BLOCK_N / 2; ++i) {
                // Of every four sums, two are of one row, and two of the row eight below.
                sums[slab][i] = fmaf(part[slab][i] * rows[slab][i / 2 % 2], columns, sums[slab][i]);
            }
        }
    }
};

// Where a lane finds its factors, stage after stage of a tile.
template <typename C>
struct TileFactors {
    const BlockScales& scales;
    const float *rows[C::SLABS][2], *columns;
    uint32_t first_stage;

    // `row`: of D, the first of this lane's. Rows outside have the last one's scale: they are not stored.
    __device__ __forceinline__ TileFactors(const BlockScales& scales, const Problem& problem, const Tile& tile,
                                           uint32_t first_stage, uint32_t row)
        : scales(scales), first_stage(first_stage) {
#pragma unroll
        for (int i = 0; i < C::SLABS * 2; ++i) {
            const uint32_t at = min(row + i / 2 * SLAB_M + i % 2 * 8, problem.m - 1) / scales.m;
            rows[i / 2][i % 2] = scales.a + tile.batch * scales.a_batch + at * scales.a_row;
        }
        columns = scales.b + tile.batch * scales.b_batch + tile.n / scales.n * scales.b_column;
    }

    // Those of the tile's stage number `stage`. Asked for before the stage is multiplied, which hides memory's latency.
    __device__ __forceinline__ Factors<C> at(uint32_t stage) const {
        const uint32_t block = (first_stage + stage) / scales.stages;
        Factors<C> factors;
#pragma unroll
        for (int i = 0; i < C::SLABS * 2; ++i) {
            factors.rows[i / 2][i % 2] = __ldg(rows[i / 2][i % 2] + block * scales.a_k);
        }
        factors.columns = __ldg(columns + block * scales.b_k);
        return factors;
    }
};

// Sums that have no such scales.
struct Unscaled {
    template <int SLABS, int COUNT>
    __device__ __forceinline__ void add(float (&sums)[SLABS][COUNT], const float (&part)[SLABS][COUNT]) const {
#pragma unroll
        for (int i = 0; i < SLABS * COUNT; ++i) {
            sums[i / COUNT][i % COUNT] += part[i / COUNT][i % COUNT];
        }
    }
    __device__ __forceinline__ Unscaled at(uint32_t) const { return {}; }
};

}  // namespace polywarp::gemm_wgmma
