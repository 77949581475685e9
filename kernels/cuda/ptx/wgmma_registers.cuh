// wgmma of 16-bit operands with A in registers and B in shared memory, along whose rows neighbours of n lie. PTX ISA, "Asynchronous
// Warpgroup Level Matrix Instructions: wgmma.mma_async"; A's registers are in its figure "WGMMA .m64nNk16 register fragment layout for
// matrix A": rows `lane / 4` and 8 further at k = 2 (lane % 4) and the next, then both 8 of k further. That is how two neighbouring
// eights of columns of sums lie: sums, rounded in pairs, are the next product's A.
#pragma once
#include "wgmma.cuh"

#include <type_traits>

namespace ptx {

#define WGMMA_REGISTER_A_ROWS_OF_B(N, NAME, EIGHTS, A0, A1, A2, A3, B, ADD)                                               \
    if constexpr (N_ == N)                                                                                                \
    asm volatile(WGMMA_OPEN(ADD) #N NAME " {" WGMMA_TEXT_##EIGHTS "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B     \
                                        ", add, 1, 1, 1;\n\t}"                                                            \
                 : WGMMA_REGISTERS_##EIGHTS("+f", d)                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))

// d += a b, or d = a b where `add` is 0. A's registers must stay as they are until the group of this instruction has ended.
template <typename T, int N_>
__device__ __forceinline__ void wgmma_of_registers(float (&d)[N_ / 2], const uint32_t (&a)[4], uint64_t b, int add) {
    static_assert(N_ % 16 == 0 && N_ >= 16 && N_ <= 256);
    static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
    if constexpr (std::is_same_v<T, __half>) {
        WGMMA_WIDTHS(WGMMA_REGISTER_A_ROWS_OF_B, "k16.f32.f16.f16")
    } else {
        WGMMA_WIDTHS(WGMMA_REGISTER_A_ROWS_OF_B, "k16.f32.bf16.bf16")
    }
}

}  // namespace ptx
