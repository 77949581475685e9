// Scales that change along K: what the sums of each stage are multiplied with before they are added up (phase 2 of
// gemm_wgmma.cuh). A stage lies within one block of K, and a tile's columns within one block of B's.
#pragma once
#include "gemm_wgmma_config.cuh"

namespace polywarp::gemm_wgmma {

// A lane's own for one stage: of its two rows in each slab, and of each part of the tile's columns.
template <typename C>
struct Factors {
    float rows[C::SLABS][2], columns[C::PARTS];

    // Multiplies part `number`, with its row's first, as core orders it, and adds it to its `sums`. Both scales multiplied first would be one
    // step less, but that product may overflow or lose bits where this does not.
    template <typename Sums, typename Part>
    __device__ __forceinline__ void add(Sums& sums, const Part& part, int number) const {
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
#pragma unroll
            for (int i = 0; i < C::PART_N / 2; ++i) {
                // Of every four sums, two are of one row, and two of the row eight below.
                float& sum = sums[slab][number * C::PART_N / 2 + i];
                sum = fmaf(part[slab][i] * rows[slab][i / 2 % 2], columns[number], sum);
            }
        }
    }
};

// Where a lane finds its factors, stage after stage of a tile.
template <typename C>
struct TileFactors {
    const BlockScales& scales;
    const float *rows[C::SLABS][2], *columns[C::PARTS];
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
        // A part outside has the last one's.
#pragma unroll
        for (int part = 0; part < C::PARTS; ++part) {
            const uint32_t at = min(tile.n + part * C::PART_N, problem.n - 1) / scales.n;
            columns[part] = scales.b + tile.batch * scales.b_batch + at * scales.b_column;
        }
    }

    // Those of the tile's stage number `stage`. Asked for before the stage is multiplied, which hides memory's latency.
    __device__ __forceinline__ Factors<C> at(uint32_t stage) const {
        const uint32_t block = (first_stage + stage) / scales.stages;
        Factors<C> factors;
#pragma unroll
        for (int i = 0; i < C::SLABS * 2; ++i) {
            factors.rows[i / 2][i % 2] = __ldg(rows[i / 2][i % 2] + block * scales.a_k);
        }
#pragma unroll
        for (int part = 0; part < C::PARTS; ++part) {
            factors.columns[part] = __ldg(columns[part] + block * scales.b_k);
        }
        return factors;
    }
};

// Sums that have no such scales.
struct Unscaled {
    template <int SLABS, int COUNT, int PART>
    __device__ __forceinline__ void add(float (&sums)[SLABS][COUNT], const float (&part)[SLABS][PART], int number) const {
#pragma unroll
        for (int i = 0; i < SLABS * PART; ++i) {
            sums[i / PART][number * PART + i % PART] += part[i / PART][i % PART];
        }
    }
    __device__ __forceinline__ Unscaled at(uint32_t) const { return {}; }
};

}  // namespace polywarp::gemm_wgmma
