// Split K: adds the partial sums of slabs of K, and ends the product.
//
// Computes: D[b, m, n] = activation(alpha * sum_s partial[s, b, m, n] + beta C + bias), rounded to the type of D.
//   partial: [slabs][batches][m][n], dense, in the type of the sums; D dense [batches][m][n].
// Algorithm: 1 each thread adds its outputs over the slabs in ascending order; 2 epilogue.
// Tiling: 128 threads of VECTOR neighbouring outputs. Mapping: one-dimensional.
// Shared memory: none.
// Traffic: slabs * outputs * size of a sum read, outputs written; bound by memory, or by L2 where the sums still lie there.
// Numerics: sums added in their own type (f32, f64, wrapping i32) in ascending order of slabs: bitwise repeatable.
// Requires: sm_80; partial and D aligned to 16 bytes.
// Measured: see docs/gemm.md.

#include <stdint.h>

#include "epilogue.cuh"
#include "ptx/launch.cuh"

namespace polywarp::splitk {

constexpr int THREADS = 128;
constexpr int UNROLL = 16; // slabs in flight

template <class Sum, int VECTOR>
struct alignas(sizeof(Sum) * VECTOR) Sums {
  Sum of[VECTOR];
};

template <class Sum, class Out, int VECTOR>
__device__ __forceinline__ void combine(const Sum* partial, Out* d, uint32_t slabs, int64_t outputs, uint32_t m, uint32_t n,
                                        const Epilogue<Out>& epilogue) {
  const int64_t first = (int64_t{blockIdx.x} * THREADS + threadIdx.x) * VECTOR;
  if (first >= outputs) return;

  // Phase 1.
  ptx::wait_for_previous_kernels();
  Sums<Sum, VECTOR> total = {};
  for (uint32_t s = 0; s < slabs; s += UNROLL) {
    // Past the last slab its sums are read again, and not added: loads without a branch are all under way at once.
    Sums<Sum, VECTOR> x[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      x[i] = *reinterpret_cast<const Sums<Sum, VECTOR>*>(partial + min(s + i, slabs - 1) * outputs + first);
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) {
        if (s + i < slabs) total.of[j] = epilogue.add(total.of[j], x[i].of[j]);
      }
    }
  }

  // Phase 2.
  int64_t row = first / n;
  int64_t column = first - row * n, batch = row / m;
  row -= batch * m;
  Sums<Out, VECTOR> result;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) {
    result.of[i] = epilogue.at(total.of[i], batch, row, column);
    if (++column == n) {
      column = 0;
      if (++row == m) row = 0, ++batch;
    }
  }
  *reinterpret_cast<Sums<Out, VECTOR>*>(d + first) = result;
}

} // namespace polywarp::splitk

#define SPLITK(SYMBOL, SUM, OUT, SCALAR)                                                                                        \
  extern "C" __global__ void __launch_bounds__(polywarp::splitk::THREADS)                                                       \
      SYMBOL(const SUM* partial, OUT* d, uint32_t slabs, uint32_t batches, uint32_t m, uint32_t n, SCALAR alpha, SCALAR beta,   \
             const OUT* c, int64_t ldc, int64_t batch_stride_c, const OUT* bias, uint32_t activation) {                         \
    using namespace polywarp;                                                                                                   \
    constexpr int VECTOR = 16 / sizeof(SUM);                                                                                    \
    const int64_t outputs = int64_t{batches} * m * n;                                                                           \
    const Epilogue<OUT> epilogue(alpha, beta, c, ldc, batch_stride_c, bias, activation);                                        \
    if (outputs % VECTOR == 0) {                                                                                                \
      splitk::combine<SUM, OUT, VECTOR>(partial, d, slabs, outputs, m, n, epilogue);                                            \
    } else {                                                                                                                    \
      splitk::combine<SUM, OUT, 1>(partial, d, slabs, outputs, m, n, epilogue);                                                 \
    }                                                                                                                           \
  }
