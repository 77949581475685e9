// Activations without branches, some 8 to 25 instructions each (gelu to 16 bits: 19), for sums that lie in registers side by
// side; and what comes before them. The same functions as in epilogue.cuh, within the same errors, but those cost 30 to 200.
//
// Errors are core's (`UnaryFn::error`): 8 ULPs of f32 for gelu, 6 for the others, with ex2 and rcp as far off as PTX allows;
// the test kernels/tests/activation.rs computes these steps on the host with the constants of this file. Where the result is
// rounded to 16 bits, `EXACT` is false: exponents then carry two roundings, relative 2^-17 in gelu's far tail, which
// disappears in the rounding of the result. NaN stays NaN; silu(-inf) and gelu(-inf) are -0.
// Requires sm_80 (max.NaN). Next: gemm_wgmma_ending.cuh and splitk.cu include this.
#pragma once
#include "epilogue.cuh"
#include "ptx/approximate.cuh"

#include <type_traits>

namespace polywarp::branchless {

// Constants ending in _LOW are what the one before them leaves out.
constexpr float LOG2_E = 1.44269502f, LOG2_E_LOW = 1.92596303e-8f;
constexpr float HALF_LOG2_E = 0.721347511f, HALF_LOG2_E_LOW = 9.62981517e-9f;
constexpr float LN_2 = 0.693147182f;

// 2^x for the rounded x, and `rest` more: to first order.
__device__ __forceinline__ float corrected(float power, float rest) {
    return fmaf(power, rest * LN_2, power);
}

// e^-t for t >= 0. FLUSHING: subnormal results may be 0; others are 2^64 times as large until they are rounded, once.
template <bool EXACT, bool FLUSHING>
__device__ __forceinline__ float exp_of_minus(float t) {
    const float x = -t * LOG2_E;
    const bool tiny = !FLUSHING && x < -100.0f;
    float power = ptx::exp2_approximate(tiny ? x + 64.0f : x);
    if constexpr (EXACT) {
        // Infinite t: the rest would be NaN.
        const float rest = fmaf(-t, LOG2_E_LOW, fmaf(-t, LOG2_E, -x));
        power = t < 256.0f ? corrected(power, rest) : power;
    }
    return tiny ? power * 0x1p-64f : power;
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|), with Phi(-t) = e^(-t^2/2) q P(q) and q = 1 / (t + 2.5): P is a minimax polynomial on
// t in [0, 15], 2^-25.9 off. Beyond 15 nothing is left of Phi(-t) in f32.
constexpr float GELU_SHIFT = 2.5f, GELU_MOST = 15.0f, GELU_LINEAR = 1e-30f;

template <bool EXACT>
__device__ __forceinline__ float gelu(float x) {
    constexpr float P[] = {0.39893952f, 0.99768573f, 2.07995224f, 3.57275414f, -2.66321111f,
                           29.3940201f, -229.026688f, 584.835266f, -676.153198f, 308.013916f};
    const float t = fminf(fabsf(x), GELU_MOST);
    const float q = ptx::reciprocal_approximate(t + GELU_SHIFT);
    const float square = t * t;
    const float exponent = -square * HALF_LOG2_E;
    float power = ptx::exp2_approximate(exponent);
    if constexpr (EXACT) {
        float rest = fmaf(-square, HALF_LOG2_E_LOW, fmaf(-square, HALF_LOG2_E, -exponent));
        rest = fmaf(-fmaf(t, t, -square), HALF_LOG2_E, rest);
        power = corrected(power, rest);
    }
    float p = P[9];
#pragma unroll
    for (int i = 8; i >= 0; --i) {
        p = fmaf(p, q, P[i]);
    }
    const float y = fmaf(-(t * q * power), p, ptx::max_or_nan(x, -0.0f));
    // Subnormal numbers would be rounded more than once.
    return EXACT && t < GELU_LINEAR ? 0.5f * x : y;
}

// 1 / (1 + e^-x), by e^-|x| <= 1.
template <bool EXACT, bool FLUSHING>
__device__ __forceinline__ float sigmoid(float x) {
    const float e = exp_of_minus<EXACT, FLUSHING>(fabsf(x));
    return ptx::reciprocal_approximate(1.0f + e) * (x < 0.0f ? e : 1.0f);
}

// x sigmoid(x). Below -150 the sigmoid is 0, and -inf times 0 would be NaN.
template <bool EXACT>
__device__ __forceinline__ float silu(float x) {
    return ptx::max_or_nan(x, -150.0f) * sigmoid<EXACT, true>(x);
}

// 1 - 2 / (e^2|x| + 1) with the sign of x; below 0.55, where that cancels, x + x^3 P(x^2), 2^-24.7 off.
constexpr float TANH_SMALL = 0.55f;

__device__ __forceinline__ float tanh(float x) {
    constexpr float P[] = {-0.333329469f, 0.133207276f, -0.052671995f, 0.0164379422f};
    const float t = fabsf(x), square = x * x;
    const float e = ptx::exp2_approximate(t * (2.0f * LOG2_E));
    const float large = fmaf(-2.0f, ptx::reciprocal_approximate(e + 1.0f), 1.0f);
    const float p = fmaf(fmaf(fmaf(P[3], square, P[2]), square, P[1]), square, P[0]);
    return copysignf(t < TANH_SMALL ? fmaf(t, square * p, t) : large, x);
}

// Applies one activation to COUNT values in place: one choice for all of them, the same in every thread.
template <class Out, int COUNT>
__device__ __forceinline__ void activate(float (&x)[COUNT], uint32_t activation) {
    constexpr bool EXACT = sizeof(Out) == 4, FLUSHING = std::is_same_v<Out, __half>;
    switch (activation) {
        case ACTIVATION_RELU:
#pragma unroll
            for (int i = 0; i < COUNT; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
            break;
        case ACTIVATION_GELU:
#pragma unroll
            for (int i = 0; i < COUNT; ++i) x[i] = gelu<EXACT>(x[i]);
            break;
        case ACTIVATION_SILU:
#pragma unroll
            for (int i = 0; i < COUNT; ++i) x[i] = silu<EXACT>(x[i]);
            break;
        case ACTIVATION_TANH:
#pragma unroll
            for (int i = 0; i < COUNT; ++i) x[i] = tanh(x[i]);
            break;
        case ACTIVATION_SIGMOID:
#pragma unroll
            for (int i = 0; i < COUNT; ++i) x[i] = sigmoid<EXACT, FLUSHING>(x[i]);
            break;
        default: break;
    }
}
// Integers and double: one by one.
template <class Out, class T, int COUNT>
__device__ __forceinline__ void activate(T (&x)[COUNT], uint32_t activation) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        x[i] = polywarp::activate(x[i], activation);
    }
}

// What one sum is before its activation; (batch, m, n) must lie inside.
template <class Out>
__device__ __forceinline__ Compute<Out> before_activation(const Epilogue<Out>& epilogue, Compute<Out> sum, int64_t batch,
                                                          int64_t m, int64_t n) {
    using E = Epilogue<Out>;
    Compute<Out> x = E::multiply(epilogue.alpha, sum);
    if (epilogue.c != nullptr) x = E::add(x, E::multiply(epilogue.beta, to_compute(*epilogue.c_at(batch, m, n))));
    return epilogue.bias != nullptr ? E::add(x, to_compute(epilogue.bias[n])) : x;
}

}  // namespace polywarp::branchless
