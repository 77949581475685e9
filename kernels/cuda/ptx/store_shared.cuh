// Registers to shared memory: one instruction a function. PTX ISA, "Matrix Store Instruction: stmatrix" and "Data Movement and
// Conversion Instructions: st".
#pragma once
#include <cstdint>

namespace ptx {

// stmatrix.x4: four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

// stmatrix.x4.trans: the same of the transposed matrices; lane l gives the address of column l % 8 of matrix l / 8.
__device__ __forceinline__ void store_matrices_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3)
                 : "memory");
}

// st.shared.v2: two neighbours of 32 bits, 8-byte aligned. Floats stay floats: a sum of wgmma that is looked at as an integer
// makes the compiler serialise wgmma (C7514).
__device__ __forceinline__ void store_pair(uint32_t address, int x, int y) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ void store_pair(uint32_t address, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace ptx
