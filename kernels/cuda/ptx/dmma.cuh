// f64 products of a whole warp, and the loads that feed them. One instruction a function; sm_90 and later.
// (ptx/mma.cuh has the shapes that sm_80 has, and where lane l = 4 g + c holds D.)
#pragma once
#include <cstdint>

namespace ptx {

// a[2 i], a[2 i + 1] rows g, g + 8 at k = c + 4 i; b[i] column g at k = c + 4 i. sm_90 and later.
// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", f64.
__device__ __forceinline__ void mma_f64_16x8x16(double (&d)[4], const double (&a)[8], const double (&b)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
}

// 8 bytes. PTX ISA, "ld".
__device__ __forceinline__ void load_double(double& to, uint32_t address) {
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(to) : "r"(address) : "memory");
}

// 16 bytes. PTX ISA, "ld", .v2.
__device__ __forceinline__ void load_doubles(double& to0, double& to1, uint32_t address) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(to0), "=d"(to1) : "r"(address) : "memory");
}

// PTX ISA, "st", .v2.
__device__ __forceinline__ void store_doubles(uint32_t address, double x, double y) {
    asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(address), "d"(x), "d"(y) : "memory");
}

// 16 bytes of what block `rank` of the cluster has where this block has `address`. PTX ISA, "mapa", "ld", .shared::cluster.
__device__ __forceinline__ void load_doubles_of(uint32_t address, uint32_t rank, double& to0, double& to1) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %2, %3;\n\t"
        "ld.shared::cluster.v2.f64 {%0, %1}, [remote];\n\t"
        "}" : "=d"(to0), "=d"(to1) : "r"(address), "r"(rank) : "memory");
}

}  // namespace ptx
