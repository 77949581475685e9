// Epilogue: what every matrix product does with its sum before it is stored.
//
// D[m,n] = activation(alpha * (sum * scale_m[m] * scale_n[n]) + beta * C[m,n] + bias[n]), rounded once to the type of D.
// C, bias and the scales are absent when null; C is not read then. Sums are float, double or int; an f16, bf16 or i8 D is
// computed in float, an i32 D in wrapping integers (alpha, beta exact integers; only relu), an f64 D in double.
//
// Kernel arguments, in this order in every GEMM: alpha, beta (double for f64, else float), const Out* c, int64 ldc,
// int64 batch_stride_c, const Out* bias, uint32 activation; quantised products append const float* scale_m, const float*
// scale_n. Numerics: each activation keeps within the ULPs that core promises (tanh, sigmoid, silu 6; gelu 8); no fast
// math. Infinities: silu(-inf) and gelu(-inf) are -0; relu keeps NaN. Next: the GEMM kernels include this; splitk.cu too.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace polywarp {

enum Activation : uint32_t { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_SILU, ACTIVATION_TANH, ACTIVATION_SIGMOID };

// ---- Element types: the type that an output's epilogue computes in, and conversions ----

template <class Out>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};
template <>
struct ComputeOf<int32_t> {
  using Type = int32_t;
};
template <class Out>
using Compute = typename ComputeOf<Out>::Type;

__device__ __forceinline__ float to_compute(float x) { return x; }
__device__ __forceinline__ double to_compute(double x) { return x; }
__device__ __forceinline__ int32_t to_compute(int32_t x) { return x; }
__device__ __forceinline__ float to_compute(int8_t x) { return x; }
__device__ __forceinline__ float to_compute(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_compute(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class Out>
__device__ __forceinline__ Out from_compute(Compute<Out> x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_compute<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_compute<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
// Nearest even, clamped to the range; NaN gives 0.
template <>
__device__ __forceinline__ int8_t from_compute<int8_t>(float x) {
  return x == x ? static_cast<int8_t>(__float2int_rn(fminf(fmaxf(x, -128.0f), 127.0f))) : 0;
}

// ---- Activations ----

// By e^-|x| <= 1, so that nothing overflows.
template <class T>
__device__ __forceinline__ T sigmoid(T x) {
  const T e = exp(-fabs(x));
  const T r = T(1) / (T(1) + e);
  return x >= T(0) ? r : e * r;
}

template <class T>
__device__ __forceinline__ T silu(T x) {
  return x == -T(INFINITY) ? -T(0) : x * sigmoid(x);
}

// x/2 erfc(t) at t = -x / sqrt 2 rounded, and one Newton step to the exact argument: in the negative tail the rounding of
// t alone is worth x^2/2 units in the last place.
__device__ __forceinline__ float gelu(float x) {
  constexpr float SQRT_HALF = 0.707106769f, SQRT_HALF_LOW = 1.21016175e-8f; // the sum is sqrt 1/2 to 48 bits
  constexpr float TWO_OVER_SQRT_PI = 1.12837917f;
  if (!isfinite(x)) return x == -INFINITY ? -0.0f : x;
  const float t = -x * SQRT_HALF;
  const float rest = fmaf(-x, SQRT_HALF, -t) - x * SQRT_HALF_LOW;
  return 0.5f * x * (erfcf(t) - TWO_OVER_SQRT_PI * expf(-t * t) * rest);
}
__device__ __forceinline__ double gelu(double x) {
  constexpr double SQRT_HALF = 0.70710678118654757, SQRT_HALF_LOW = -4.833646656726457e-17;
  constexpr double TWO_OVER_SQRT_PI = 1.1283791670955126;
  if (!isfinite(x)) return x == -INFINITY ? -0.0 : x;
  const double t = -x * SQRT_HALF;
  const double rest = fma(-x, SQRT_HALF, -t) - x * SQRT_HALF_LOW;
  return 0.5 * x * (erfc(t) - TWO_OVER_SQRT_PI * exp(-t * t) * rest);
}

// About 200 instructions: call it from a rolled loop (`#pragma unroll 1`, over what lies in smem, say), not once for each
// accumulator. Not a function call either, which would spill live accumulators and serialise wgmma.
template <class T>
__device__ __forceinline__ T activate(T x, uint32_t activation) {
  switch (activation) {
    case ACTIVATION_RELU: return x < T(0) ? T(0) : x;
    case ACTIVATION_GELU: return gelu(x);
    case ACTIVATION_SILU: return silu(x);
    case ACTIVATION_TANH: return tanh(x);
    case ACTIVATION_SIGMOID: return sigmoid(x);
    default: return x;
  }
}
__device__ __forceinline__ int32_t activate(int32_t x, uint32_t activation) {
  return activation == ACTIVATION_RELU && x < 0 ? 0 : x;
}

// ---- The whole epilogue of one output ----

// `Scalar`: float, or double when Out is double.
template <class Out>
struct Epilogue {
  using T = Compute<Out>;
  T alpha, beta;
  const Out* c;
  int64_t ldc, batch_stride_c;
  const Out* bias;
  uint32_t activation;

  // From kernel arguments; a float alpha is exact for the integers that the planner lets through.
  template <class Scalar>
  __device__ __forceinline__ Epilogue(Scalar alpha_, Scalar beta_, const Out* c_, int64_t ldc_, int64_t batch_stride_c_,
                                      const Out* bias_, uint32_t activation_)
      : alpha(static_cast<T>(alpha_)), beta(static_cast<T>(beta_)), c(c_), ldc(ldc_), batch_stride_c(batch_stride_c_),
        bias(bias_), activation(activation_) {}

  // Where C[batch, m, n] lies; call only when c is not null.
  __device__ __forceinline__ const Out* c_at(int64_t batch, int64_t m, int64_t n) const {
    return c + batch * batch_stride_c + m * ldc + n;
  }

  // With what was loaded: `c_value` is not used when C is absent, `bias_value` is 0 then.
  __device__ __forceinline__ Out finish(T sum, T c_value, T bias_value) const {
    T x = multiply(alpha, sum);
    if (c != nullptr) x = add(x, multiply(beta, c_value));
    return from_compute<Out>(activate(add(x, bias_value), activation));
  }

  // Loads what it needs; (batch, m, n) must lie inside.
  template <class Sum>
  __device__ __forceinline__ Out at(Sum sum, int64_t batch, int64_t m, int64_t n) const {
    const T c_value = c != nullptr ? to_compute(*c_at(batch, m, n)) : T(0);
    const T bias_value = bias != nullptr ? to_compute(bias[n]) : T(0);
    return finish(static_cast<T>(sum), c_value, bias_value);
  }

  // True when `light` is all there is to do: no C, and at most relu.
  __device__ __forceinline__ bool is_light() const { return c == nullptr && activation <= ACTIVATION_RELU; }

  // The epilogue of a few instructions, before rounding; `bias_value` is 0 when there is none.
  __device__ __forceinline__ T light(T sum, T bias_value) const {
    const T x = add(multiply(alpha, sum), bias_value);
    return activation == ACTIVATION_RELU && x < T(0) ? T(0) : x;
  }

  // True when D is the rounded sum alone.
  __device__ __forceinline__ bool is_plain() const {
    return alpha == T(1) && c == nullptr && bias == nullptr && activation == ACTIVATION_NONE;
  }

  // Integers wrap; written by way of unsigned, where that is defined.
  static __device__ __forceinline__ float multiply(float x, float y) { return x * y; }
  static __device__ __forceinline__ double multiply(double x, double y) { return x * y; }
  static __device__ __forceinline__ int32_t multiply(int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
  }
  static __device__ __forceinline__ float add(float x, float y) { return x + y; }
  static __device__ __forceinline__ double add(double x, double y) { return x + y; }
  static __device__ __forceinline__ int32_t add(int32_t x, int32_t y) {
    return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
  }
};

// ---- Scales of quantised operands ----

// Real value of A[m,k] is scale_m[m] * A[m,k], of B[k,n] scale_n[n] * B[k,n]; null stands for 1 (a scale of the whole
// tensor belongs into alpha).
struct Scales {
  const float* m;
  const float* n;

  // The sum of products of the real values.
  __device__ __forceinline__ float dequantise(int32_t sum, int64_t row, int64_t column) const {
    float x = static_cast<float>(sum);
    if (m != nullptr) x *= m[row];
    if (n != nullptr) x *= n[column];
    return x;
  }
};

} // namespace polywarp
