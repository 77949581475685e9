// Split K: adds the partial sums of slabs of K, and ends the product; also that of quantised operands by kernels that know no
// scales, from one slab or more.
//
// Computes: D[b, m, n] = activation(alpha * sum_s partial[s, b, m, n] + beta C + bias), rounded to the type of D; SPLITK_SCALED:
//   the sum times the scale of its row of A, then of its column of B, and i32 sums as floats. A scale is `stride` elements from
//   the one before it and `batch` from that of the matrix before; null stands for ones.
//   partial: [slabs][batches][m][n], dense, in the type of the sums; D dense [batches][m][n].
// Algorithm: 1 each thread adds its outputs over the slabs in ascending order; 2 epilogue.
// Tiling: 128 threads of VECTOR neighbouring outputs. Mapping: one-dimensional.
// Shared memory: none.
// Traffic: slabs * outputs * size of a sum read, outputs written; bound by memory, or by L2 where the sums still lie there.
// Numerics: sums added in their own type (f32, f64, wrapping i32) in ascending order of slabs: bitwise repeatable.
// Requires: sm_80; partial and D aligned to 16 bytes.
// Measured: see docs/gemm.md.

#include <stdint.h>

#include "activation.cuh"
#include "ptx/launch.cuh"

namespace polywarp::splitk {

constexpr int THREADS = 128;
constexpr int UNROLL = 16; // slabs in flight

template <class Sum, int VECTOR>
struct alignas(sizeof(Sum) * VECTOR) Sums {
  Sum of[VECTOR];
};

struct Unscaled {
  template <class Sum>
  __device__ __forceinline__ Sum operator()(Sum sum, int64_t, int64_t, int64_t) const {
    return sum;
  }
};

struct Scaled {
  const float* m;
  int64_t stride_m, batch_stride_m;
  const float* n;
  int64_t stride_n, batch_stride_n;

  template <class Sum>
  __device__ __forceinline__ float operator()(Sum sum, int64_t batch, int64_t row, int64_t column) const {
    float x = static_cast<float>(sum);
    if (m != nullptr) x *= m[batch * batch_stride_m + row * stride_m];
    if (n != nullptr) x *= n[batch * batch_stride_n + column * stride_n];
    return x;
  }
};

// Sums of integers wrap: by way of unsigned, where that is defined.
__device__ __forceinline__ float add(float x, float y) { return x + y; }
__device__ __forceinline__ double add(double x, double y) { return x + y; }
__device__ __forceinline__ int32_t add(int32_t x, int32_t y) {
  return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
}

template <class Sum, class Out, int VECTOR, class Scale>
__device__ __forceinline__ void combine(const Sum* partial, Out* d, uint32_t slabs, int64_t outputs, uint32_t m, uint32_t n,
                                        const Epilogue<Out>& epilogue, const Scale& scaled) {
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
        if (s + i < slabs) total.of[j] = add(total.of[j], x[i].of[j]);
      }
    }
  }

  // Phase 2.
  int64_t row = first / n;
  int64_t column = first - row * n, batch = row / m;
  row -= batch * m;
  Compute<Out> x[VECTOR];
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) {
    x[i] = branchless::before_activation(epilogue, scaled(total.of[i], batch, row, column), batch, row, column);
    if (++column == n) {
      column = 0;
      if (++row == m) row = 0, ++batch;
    }
  }
  branchless::activate<Out>(x, epilogue.activation);
  Sums<Out, VECTOR> result;
#pragma unroll
  for (int i = 0; i < VECTOR; ++i) result.of[i] = from_compute<Out>(x[i]);
  *reinterpret_cast<Sums<Out, VECTOR>*>(d + first) = result;
}

} // namespace polywarp::splitk

#define SPLITK_KERNEL(SYMBOL, SUM, OUT, SCALAR, SCALE, MORE)                                                                    \
  extern "C" __global__ void __launch_bounds__(polywarp::splitk::THREADS)                                                       \
      SYMBOL(const SUM* partial, OUT* d, uint32_t slabs, uint32_t batches, uint32_t m, uint32_t n, SCALAR alpha, SCALAR beta,   \
             const OUT* c, int64_t ldc, int64_t batch_stride_c, const OUT* bias, uint32_t activation MORE) {                    \
    using namespace polywarp;                                                                                                   \
    constexpr int VECTOR = 16 / sizeof(SUM);                                                                                    \
    const int64_t outputs = int64_t{batches} * m * n;                                                                           \
    const Epilogue<OUT> epilogue(alpha, beta, c, ldc, batch_stride_c, bias, activation);                                        \
    if (outputs % VECTOR == 0) {                                                                                                \
      splitk::combine<SUM, OUT, VECTOR>(partial, d, slabs, outputs, m, n, epilogue, SCALE);                                     \
    } else {                                                                                                                    \
      splitk::combine<SUM, OUT, 1>(partial, d, slabs, outputs, m, n, epilogue, SCALE);                                          \
    }                                                                                                                           \
  }
#define SPLITK(...) SPLITK_KERNEL(__VA_ARGS__, splitk::Unscaled{}, )
#define SPLITK_COMMA ,
#define SPLITK_SCALED(...)                                                                                                      \
  SPLITK_KERNEL(__VA_ARGS__,                                                                                                    \
                (splitk::Scaled{scale_m, scale_m_stride, scale_m_batch, scale_n, scale_n_stride, scale_n_batch}),               \
                SPLITK_COMMA const float* scale_m SPLITK_COMMA int64_t scale_m_stride SPLITK_COMMA int64_t scale_m_batch        \
                    SPLITK_COMMA const float* scale_n SPLITK_COMMA int64_t scale_n_stride SPLITK_COMMA int64_t scale_n_batch)
