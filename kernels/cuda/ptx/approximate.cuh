// Approximations by the special function unit, and the maximum that keeps NaN: one instruction a function. PTX ISA,
// "Floating Point Instructions": ex2, rcp, max.
#pragma once
#include <cstdint>

namespace ptx {

// ex2.approx: 2^x, at most 2 units in the last place off; subnormal results become 0.
__device__ __forceinline__ float exp2_approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// rcp.approx: 1/x, at most 1 unit in the last place off; for x of 1 and more, whose results are no subnormal numbers but for
// those beyond 2^126, which become 0.
__device__ __forceinline__ float reciprocal_approximate(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// max.NaN: the larger one, -0 below +0; NaN when either is. sm_80 and later.
__device__ __forceinline__ float max_or_nan(float x, float y) {
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

}  // namespace ptx
