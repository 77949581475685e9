// Loads of matrix fragments from shared memory, and what goes with them. One instruction a function.
#pragma once
#include <cstdint>

namespace ptx {

// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 (16 bytes) of matrix l / 8 and receives of each
// matrix row l / 4, elements 2 (l % 4) and the next. PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix".
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed: lane l receives of column l / 4 the rows 2 (l % 4) and the next. PTX ISA, "ldmatrix", .trans.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&to)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// 4 bytes. PTX ISA, "ld".
__device__ __forceinline__ void load_shared(uint32_t& to, uint32_t address) {
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to) : "r"(address) : "memory");
}

// 8 bytes as two words. PTX ISA, "ld", .v2.
__device__ __forceinline__ void load_shared(uint32_t& to0, uint32_t& to1, uint32_t address) {
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to0), "=r"(to1) : "r"(address) : "memory");
}

// 8 bytes. PTX ISA, "ld".
__device__ __forceinline__ void load_shared(double& to, uint32_t address) {
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(to) : "r"(address) : "memory");
}

// 16 bytes from four words. PTX ISA, "st", .v4.
__device__ __forceinline__ void store_shared(uint32_t address, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// x << by, 0 for 32 and more. PTX ISA, "shl" (in C++ undefined from 32 on).
__device__ __forceinline__ uint32_t shift_left(uint32_t x, uint32_t by) {
    uint32_t shifted;
    asm("shl.b32 %0, %1, %2;" : "=r"(shifted) : "r"(x), "r"(by));
    return shifted;
}

}  // namespace ptx
