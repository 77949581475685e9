// For kernels whose registers are all taken: what is found again instead of kept, and floats to and from shared memory by address. One
// instruction a function. PTX ISA, "Special Registers: %tid", "ld", "st".
#pragma once
#include <cstdint>

namespace ptx {

// %tid.x, read anew, not kept.
__device__ __forceinline__ uint32_t thread_again() {
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// ld.shared.v2
__device__ __forceinline__ float2 load_pair(uint32_t from) {
    float2 pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from) : "memory");
    return pair;
}

// st.shared.v4
__device__ __forceinline__ void store_four(uint32_t to, float x, float y, float z, float w) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

}  // namespace ptx
