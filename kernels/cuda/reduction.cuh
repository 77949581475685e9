// Reductions of what products give: one number from many, the same whatever order threads have.
//
// A function is folded over what `taken` makes of each element, by `folded`, from `EMPTY` on; `given` turns the outcome back.
// Extrema are one maximum, which keeps NaN and puts -0 below +0. Integers wrap in sums. Numbers of functions: those that
// kernels/src/catalogue/reduce_parts.rs gives.
#pragma once
#include "epilogue.cuh"
#include "ptx/approximate.cuh"

#include <type_traits>

namespace polywarp::reduction {

enum Function : uint32_t { SUM, MAX, MIN, ABS_MAX };

// Calls `body` with the function as a type, one choice for all threads.
template <class Body>
__device__ __forceinline__ void with(uint32_t function, Body&& body) {
    switch (function) {
        case SUM: body(std::integral_constant<Function, SUM>()); break;
        case MAX: body(std::integral_constant<Function, MAX>()); break;
        case MIN: body(std::integral_constant<Function, MIN>()); break;
        default: body(std::integral_constant<Function, ABS_MAX>()); break;
    }
}

template <Function F>
struct Fold {
    static __device__ __forceinline__ float empty(float) { return F == SUM ? 0.0f : -INFINITY; }
    static __device__ __forceinline__ int32_t empty(int32_t) { return F == SUM ? 0 : INT32_MIN; }

    static __device__ __forceinline__ float taken(float x) { return F == MIN ? -x : F == ABS_MAX ? fabsf(x) : x; }
    // -x would overflow.
    static __device__ __forceinline__ int32_t taken(int32_t x) { return F == MIN ? ~x : x; }

    static __device__ __forceinline__ float given(float x) { return F == MIN ? -x : x; }
    static __device__ __forceinline__ int32_t given(int32_t x) { return F == MIN ? ~x : x; }

    static __device__ __forceinline__ float folded(float x, float y) { return F == SUM ? x + y : ptx::max_or_nan(x, y); }
    static __device__ __forceinline__ int32_t folded(int32_t x, int32_t y) {
        return F == SUM ? Epilogue<int32_t>::add(x, y) : max(x, y);
    }
};

// A sum as a mean of `divisor` elements; 1 leaves it alone.
__device__ __forceinline__ float divided(float x, float divisor) { return divisor == 1.0f ? x : x / divisor; }
__device__ __forceinline__ int32_t divided(int32_t x, float) { return x; }

}  // namespace polywarp::reduction
