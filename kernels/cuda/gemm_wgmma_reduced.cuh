// Phases 3 and 4 of gemm_wgmma.cuh where D is not kept: one number of each of a tile's rows, from sums in registers.
//
// Four lanes have a row's sums of a tile, wgmma's layout: each folds its own, and two exchanges fold theirs. No shared memory,
// and where D would be BLOCK_M x BLOCK_N results, BLOCK_M of them leave. Chains of additions are BLOCK_N / 16 + 4 long. A
// column's number is that of a row of D^T = B^T A^T, for which the planner exchanges operands; C and bias then lie the
// other way round, and are read one by one.
#pragma once
#include "gemm_wgmma_ending.cuh"
#include "gemm_wgmma_mainloop.cuh"
#include "reduction.cuh"

namespace polywarp::gemm_wgmma {

template <typename C>
struct Reduced {
    using Out = typename C::Out;
    using Compute = typename C::Compute;
    using Epilogue = typename C::Epilogue;
    using Accumulator = typename C::Accumulator;
    using Sums = typename Mainloop<C>::Sums;
    static_assert(std::is_same_v<Out, Compute>, "numbers leave as they are folded");
    static constexpr int BLOCK_N = C::BLOCK_N, SLABS = C::SLABS, GROUPS_A_SLAB = BLOCK_N / GROUP_N;
    // Numbers of a row that a lane folds side by side.
    static constexpr int CHAINS = 4;

    // A lane's numbers of the rows `row` and `row + 8`, of each CHAINS.
    using Chains = Compute[2][CHAINS];

    // Folds what four lanes have of two rows, and stores it: numbers of tiles of the same columns lie side by side.
    template <typename F>
    __device__ static __forceinline__ void store(const Chains& x, Out* out, const Reduction& reduction, const Problem& problem,
                                                 const Tile& tile, uint32_t row, uint32_t lane) {
        const int64_t part = tile.n / BLOCK_N;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            Compute y = F::folded(F::folded(x[half][0], x[half][1]), F::folded(x[half][2], x[half][3]));
            y = F::folded(y, __shfl_xor_sync(~0u, y, 1));
            y = F::folded(y, __shfl_xor_sync(~0u, y, 2));
            if (lane % 4 == 0 && row + half * 8 < problem.m) {
                out[(part * problem.batches + tile.batch) * problem.m + row + half * 8] =
                    polywarp::reduction::divided(F::given(y), reduction.divisor);
            }
        }
    }

    // Of a tile within D whose elements are the sums: all from registers whose numbers are known.
    template <typename F>
    __device__ static __forceinline__ void fold_sums(Sums& d, Out* out, const Reduction& reduction, const Problem& problem,
                                                     const Tile& tile, uint32_t first_row, uint32_t lane) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            Chains x;
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; ++i) {
                // Two columns of a row, two of the one eight below, then those eight columns on.
                Compute& y = x[i / 2 % 2][i / 4 % 2 * 2 + i % 2];
                y = i < 8 ? F::taken(d[slab][i]) : F::folded(y, F::taken(d[slab][i]));
            }
            store<F>(x, out, reduction, problem, tile, tile.m + first_row + slab * SLAB_M + lane / 4, lane);
        }
    }

    // A group of elements of D but for rounding; those outside of D are not used.
    __device__ static __forceinline__ void finish(Compute (&to)[GROUP_SUMS], const Accumulator (&sums)[GROUP_SUMS],
                                                  const Ending<C>& ending, const Reduction& reduction, const Problem& problem,
                                                  const Tile& tile, uint32_t row, uint32_t column) {
        const Epilogue& epilogue = ending.epilogue;
#pragma unroll
        for (int i = 0; i < GROUP_SUMS; ++i) {
            const uint32_t at_row = row + i / 2 % 2 * 8, at_column = column + i / 4 * 8 + i % 2;
            const bool inside = at_row < problem.m && at_column < problem.n;
            const float row_scale = C::SCALED && inside ? ending.scales.of_row(tile.batch, at_row) : 1.0f;
            const float column_scale = C::SCALED && inside ? ending.scales.of_column(tile.batch, at_column) : 1.0f;
            // Core multiplies with its A's scale first, which is that of a column where D is a transposed one: steps along rows of
            // the bias then, instead of along columns.
            const bool turned = reduction.bias_row != 0;
            const float first = turned ? column_scale : row_scale, second = turned ? row_scale : column_scale;
            Compute x = Epilogue::multiply(epilogue.alpha, ending.scaled(sums[i], first, second));
            if (epilogue.c != nullptr && inside) {
                const Out c = epilogue.c_at(tile.batch, at_row, 0)[at_column * reduction.c_column];
                x = Epilogue::add(x, Epilogue::multiply(epilogue.beta, c));
            }
            if (epilogue.bias != nullptr && inside) {
                x = Epilogue::add(x, epilogue.bias[at_row * reduction.bias_row + at_column * reduction.bias_column]);
            }
            to[i] = x;
        }
        branchless::activate<Out>(to, epilogue.activation);
    }

    // Of any tile and epilogue: group by group in a rolled loop, so that each activation's code exists once.
    __device__ static __forceinline__ void fold_ended(Sums& d, Out* out, const Ending<C>& ending, const Reduction& reduction,
                                                      const Problem& problem, const Tile& tile, uint32_t first_row,
                                                      uint32_t lane) {
#pragma unroll 1
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t row = tile.m + first_row + slab * SLAB_M + lane / 4;
            Chains x;
            polywarp::reduction::with(reduction.function, [&](auto f) {
#pragma unroll
                for (int i = 0; i < 2 * CHAINS; ++i) {
                    x[i / CHAINS][i % CHAINS] = polywarp::reduction::Fold<decltype(f)::value>::empty(Compute());
                }
            });
#pragma unroll 1
            for (int group = 0; group < GROUPS_A_SLAB; ++group) {
                const uint32_t column = tile.n + group * GROUP_N + lane % 4 * 2;
                Accumulator sums[GROUP_SUMS];
                pick_group<0, SLABS * GROUPS_A_SLAB>(sums, d, slab * GROUPS_A_SLAB + group);
                Compute ended[GROUP_SUMS];
                finish(ended, sums, ending, reduction, problem, tile, row, column);
                polywarp::reduction::with(reduction.function, [&](auto f) {
                    using F = polywarp::reduction::Fold<decltype(f)::value>;
#pragma unroll
                    for (int i = 0; i < GROUP_SUMS; ++i) {
                        Compute& y = x[i / 2 % 2][i / 4 * 2 + i % 2];
                        y = column + i / 4 * 8 + i % 2 < problem.n ? F::folded(y, F::taken(ended[i])) : y;
                    }
                });
            }
            polywarp::reduction::with(reduction.function, [&](auto f) {
                using F = polywarp::reduction::Fold<decltype(f)::value>;
                store<F>(x, out, reduction, problem, tile, row, lane);
            });
        }
    }

    __device__ static __forceinline__ void finish_tile(Sums& d, Out* out, const Ending<C>& ending, const Reduction& reduction,
                                                       const Problem& problem, const Tile& tile, uint32_t first_row,
                                                       uint32_t lane) {
        if constexpr (std::is_same_v<Accumulator, Compute>) {
            if (ending.is_plain() && tile.n + BLOCK_N <= problem.n) {
                polywarp::reduction::with(reduction.function, [&](auto f) {
                    using F = polywarp::reduction::Fold<decltype(f)::value>;
                    fold_sums<F>(d, out, reduction, problem, tile, first_row, lane);
                });
                return;
            }
        }
        fold_ended(d, out, ending, reduction, problem, tile, first_row, lane);
    }
};

}  // namespace polywarp::gemm_wgmma
