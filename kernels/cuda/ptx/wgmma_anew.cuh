// wgmma of 16-bit operands whose sums begin: d = a b. `Wgmma::run` with `add` 0 computes the same, but reads d as far as the compiler knows,
// which so keeps registers for a d before it. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async".
#pragma once
#include "wgmma.cuh"

#include <type_traits>

namespace ptx {

#define WGMMA_16BIT_ANEW(N, NAME, EIGHTS, A, B, ADD, TA, TB, LAST)                                                        \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) WGMMA_BODY(N, NAME, EIGHTS, A, B) ", 1, 1, %" #TA ", %" #TB ";\n\t}"                     \
                 : WGMMA_REGISTERS_##EIGHTS("=f", d)                                                                      \
                 : "l"(a), "l"(b), "r"(0), "n"(static_cast<int>(A_)), "n"(static_cast<int>(B_)))

// d = a b; a, b: descriptors.
template <typename T, int N_, Major A_, Major B_>
__device__ __forceinline__ void wgmma_anew(float (&d)[N_ / 2], uint64_t a, uint64_t b) {
    static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256);
    static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
    if constexpr (std::is_same_v<T, __half>) {
        WGMMA_WIDTHS(WGMMA_16BIT_ANEW, "k16.f32.f16.f16")
    } else {
        WGMMA_WIDTHS(WGMMA_16BIT_ANEW, "k16.f32.bf16.bf16")
    }
}

}  // namespace ptx
