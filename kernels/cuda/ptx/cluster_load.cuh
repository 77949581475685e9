// Reads from the shared memory of other blocks of the cluster: what block `rank` has where this block has `address`. PTX ISA,
// "mapa", "ld" with .shared::cluster.
#pragma once
#include <cstdint>

namespace ptx {

// Four neighbours of 32 bits, 16-byte aligned. Floats stay floats, see store_pair.
__device__ __forceinline__ void load_four_of(uint32_t address, uint32_t rank, float (&x)[4]) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %4, %5;\n\t"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n\t"
        "}" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(address), "r"(rank) : "memory");
}
__device__ __forceinline__ void load_four_of(uint32_t address, uint32_t rank, int (&x)[4]) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %4, %5;\n\t"
        "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [remote];\n\t"
        "}" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address), "r"(rank) : "memory");
}

// One of 32 bits.
__device__ __forceinline__ void load_one_of(uint32_t address, uint32_t rank, float& x) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %1, %2;\n\t"
        "ld.shared::cluster.f32 %0, [remote];\n\t"
        "}" : "=f"(x) : "r"(address), "r"(rank) : "memory");
}
__device__ __forceinline__ void load_one_of(uint32_t address, uint32_t rank, int& x) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %1, %2;\n\t"
        "ld.shared::cluster.b32 %0, [remote];\n\t"
        "}" : "=r"(x) : "r"(address), "r"(rank) : "memory");
}

}  // namespace ptx
