// The second launch of a reduced product whose reduced dimension has several tiles: one number from those of all tiles.
//
// Computes      out[i] = given(fold of parts[p][i] over p) / divisor, with the functions of reduction.cuh.
// Algorithm     1. each of LINES threads of a result folds every LINES-th part, in ascending order; 2. one of them folds theirs.
// Tiling        256 threads: 32 results x 8 lines.
// Mapping       Neighbouring threads read neighbouring results of a part.
// Shared memory 8 x 32 numbers; a warp reads and writes a row of them.
// Traffic       Parts read once, results written once: 1/64 of D, or less.
// Numerics      The same order on every run. Chains of parts / 8 + 8 additions.
// Requires      sm_90.
// Measured      docs/gemm.md, with what repeats it.
#include "ptx/launch.cuh"
#include "reduction.cuh"

namespace polywarp::reduction {

constexpr uint32_t COLUMNS = 32, LINES = 8;

template <class T>
__device__ __forceinline__ void reduce_parts(const T* parts, T* out, uint32_t count, uint32_t results, uint32_t function,
                                             float divisor) {
    __shared__ T folded[LINES][COLUMNS];
    const uint32_t column = threadIdx.x % COLUMNS, line = threadIdx.x / COLUMNS;
    const uint32_t i = blockIdx.x * COLUMNS + column;
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    with(function, [&](auto f) {
        using F = Fold<decltype(f)::value>;
        T x = F::empty(T());
        if (i < results) {
            for (uint32_t part = line; part < count; part += LINES) {
                x = F::folded(x, F::taken(parts[static_cast<int64_t>(part) * results + i]));
            }
        }
        folded[line][column] = x;
        __syncthreads();
        if (line == 0 && i < results) {
#pragma unroll
            for (uint32_t other = 1; other < LINES; ++other) {
                x = F::folded(x, folded[other][column]);
            }
            out[i] = divided(F::given(x), divisor);
        }
    });
}

}  // namespace polywarp::reduction

#define REDUCE_PARTS(SYMBOL, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(polywarp::reduction::COLUMNS * polywarp::reduction::LINES)                   \
        SYMBOL(const T* parts, T* out, uint32_t count, uint32_t results, uint32_t function, float divisor) {                  \
        polywarp::reduction::reduce_parts<T>(parts, out, count, results, function, divisor);                                  \
    }
