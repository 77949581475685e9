// What becomes of sums before they are stored (phase 3 of gemm_wgmma.cuh): scales, alpha, C, bias, activation; for one sum, or
// for a group of them in a lane's registers.
#pragma once
#include "activation.cuh"
#include "gemm_wgmma_config.cuh"

namespace polywarp::gemm_wgmma {

// Two results side by side.
template <typename Out>
struct alignas(2 * sizeof(Out)) Two {
    Out x, y;
};

// Columns that are ended together, and a lane's sums of them, where D is reduced or transposed.
constexpr int GROUP_N = 16, GROUP_SUMS = GROUP_N / 2;

// The sums of group number `group` of COUNT from FIRST on. A register's number is known when it compiles, so each group has
// code of its own, found by halves: copies under predicates would all be issued.
template <int FIRST, int COUNT, typename Accumulator, int SUMS, int SLABS, int SLAB_SUMS>
__device__ __forceinline__ void pick_group(Accumulator (&to)[SUMS], const Accumulator (&d)[SLABS][SLAB_SUMS], int group) {
    if constexpr (COUNT == 1) {
        constexpr int AT = FIRST * SUMS;
#pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            to[i] = d[AT / SLAB_SUMS][AT % SLAB_SUMS + i];
        }
    } else if (group < FIRST + COUNT / 2) {
        pick_group<FIRST, COUNT / 2>(to, d, group);
    } else {
        pick_group<FIRST + COUNT / 2, COUNT - COUNT / 2>(to, d, group);
    }
}

template <typename C>
struct Ending {
    using Out = typename C::Out;
    using Compute = typename C::Compute;
    using Epilogue = typename C::Epilogue;
    using Accumulator = typename C::Accumulator;

    // Two neighbours of C or of the bias as they are kept until they are used: 16-bit ones in one register.
    using Pair = std::conditional_t<sizeof(Out) == 2, uint32_t, Two<Out>>;

    const Epilogue& epilogue;
    const Scales& scales;

    // Whether D is the rounded sums alone.
    __device__ __forceinline__ bool is_plain() const {
        return epilogue.is_plain() && (!C::SCALED || (scales.m == nullptr && scales.n == nullptr));
    }

    // Whether C and the bias, if there are any, can be read two columns at a time from even ones on.
    __device__ __forceinline__ bool reads_pairs() const {
        const int64_t steps = (epilogue.ldc | epilogue.batch_stride_c) * static_cast<int64_t>(sizeof(Out));
        const uint64_t of_c = reinterpret_cast<uint64_t>(epilogue.c) | static_cast<uint64_t>(steps);
        const uint64_t bits = (epilogue.c == nullptr ? 0 : of_c) | reinterpret_cast<uint64_t>(epilogue.bias);
        return bits % sizeof(Two<Out>) == 0;
    }

    // A sum as the epilogue takes it: multiplied with its row's scale, then its column's, as core orders it.
    __device__ static __forceinline__ Compute scaled(Accumulator sum, float row, float column) {
        if constexpr (C::SCALED) {
            return static_cast<float>(sum) * row * column;
        } else {
            return static_cast<Compute>(sum);
        }
    }

    // One result but for the activation; (batch, row, column) lies inside.
    __device__ __forceinline__ Compute inactive(Accumulator sum, uint32_t batch, uint32_t row, uint32_t column) const {
        const float row_scale = C::SCALED ? scales.of_row(batch, row) : 1.0f;
        const float column_scale = C::SCALED ? scales.of_column(batch, column) : 1.0f;
        return branchless::before_activation(epilogue, scaled(sum, row_scale, column_scale), batch, row, column);
    }

    __device__ __forceinline__ Out at(Accumulator sum, uint32_t batch, uint32_t row, uint32_t column) const {
        Compute x[1] = {inactive(sum, batch, row, column)};
        branchless::activate<Out>(x, epilogue.activation);
        return polywarp::from_compute<Out>(x[0]);
    }

    // What memory has for a lane's sums of EIGHTS times eight columns: rows `row` and `row + 8`, and of every eight columns
    // `column` and the next, as wgmma lays them out. Asked for before the sums ahead of it are ended, which hides memory's latency.
    template <int EIGHTS>
    struct Beside {
        Pair bias[EIGHTS];
        Pair c[EIGHTS][2];
        float rows[2], columns[EIGHTS][2];
    };

    // Rows from `m` and columns from `n` on are outside; both columns of a pair are inside or outside.
    template <int EIGHTS>
    __device__ __forceinline__ void load(Beside<EIGHTS>& to, uint32_t batch, uint32_t row, uint32_t column, uint32_t m,
                                         uint32_t n) const {
        if constexpr (C::SCALED) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                to.rows[half] = row + half * 8 < m ? scales.of_row(batch, row + half * 8) : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < EIGHTS * 2; ++i) {
                const uint32_t at = column + i / 2 * 8 + i % 2;
                to.columns[i / 2][i % 2] = at < n ? scales.of_column(batch, at) : 0.0f;
            }
        }
        if (epilogue.c != nullptr) {
            const Out* c = epilogue.c_at(batch, row, column);
#pragma unroll
            for (int i = 0; i < EIGHTS * 2; ++i) {
                if (row + i % 2 * 8 < m && column + i / 2 * 8 < n) {
                    to.c[i / 2][i % 2] = *reinterpret_cast<const Pair*>(c + i % 2 * 8 * epilogue.ldc + i / 2 * 8);
                }
            }
        }
        if (epilogue.bias != nullptr) {
#pragma unroll
            for (int eight = 0; eight < EIGHTS; ++eight) {
                if (column + eight * 8 < n) {
                    to.bias[eight] = *reinterpret_cast<const Pair*>(epilogue.bias + column + eight * 8);
                }
            }
        }
    }

    // Results before they are rounded, into other registers: sums that change in place would make the compiler serialise
    // wgmma. Of every four, two are columns of one row, and two those of the row eight below.
    template <int EIGHTS>
    __device__ __forceinline__ void finish(Compute (&to)[EIGHTS * 4], const Accumulator (&sums)[EIGHTS * 4],
                                           const Beside<EIGHTS>& with) const {
#pragma unroll
        for (int i = 0; i < EIGHTS * 4; ++i) {
            const float row = C::SCALED ? with.rows[i / 2 % 2] : 1.0f, column = C::SCALED ? with.columns[i / 4][i % 2] : 1.0f;
            to[i] = Epilogue::multiply(epilogue.alpha, scaled(sums[i], row, column));
        }
        if (epilogue.c != nullptr) {
#pragma unroll
            for (int i = 0; i < EIGHTS * 4; i += 2) {
                const Two<Out> c = *reinterpret_cast<const Two<Out>*>(&with.c[i / 4][i / 2 % 2]);
                to[i] = Epilogue::add(to[i], Epilogue::multiply(epilogue.beta, polywarp::to_compute(c.x)));
                to[i + 1] = Epilogue::add(to[i + 1], Epilogue::multiply(epilogue.beta, polywarp::to_compute(c.y)));
            }
        }
        if (epilogue.bias != nullptr) {
#pragma unroll
            for (int i = 0; i < EIGHTS * 4; i += 2) {
                const Two<Out> bias = *reinterpret_cast<const Two<Out>*>(&with.bias[i / 4]);
                to[i] = Epilogue::add(to[i], polywarp::to_compute(bias.x));
                to[i + 1] = Epilogue::add(to[i + 1], polywarp::to_compute(bias.y));
            }
        }
        branchless::activate<Out>(to, epilogue.activation);
    }
};

}  // namespace polywarp::gemm_wgmma
