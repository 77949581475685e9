// Warp-wide products of register fragments, D = A B + D (mma.sync). One instruction a function; sm_80 where nothing else is said.
//
// Lane l = 4 g + c. Of D (m16n8) it holds rows g and g + 8, columns 2 c and 2 c + 1: d[0..1] of row g, d[2..3] of row g + 8.
// 32-bit registers of A and B hold 4 bytes of k: a[0], a[1] rows g, g + 8 at bytes 4 c of k; a[2], a[3] the same 16 bytes of k
// further; b[0], b[1] column g at bytes 4 c of k and 16 further.
#pragma once
#include <cstdint>

namespace ptx {

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", f16.
__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", bf16.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k8", tf32; the low 13 bits of the operands are ignored.
__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k32", s8; sums wrap.
__device__ __forceinline__ void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// PTX ISA, "Matrix Fragments for mma.m16n8k32", u8; sums wrap.
__device__ __forceinline__ void mma_u8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// m8n8k4: row g of A and column g of B at k = c; row g of D, columns 2 c and 2 c + 1.
// PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type".
__device__ __forceinline__ void mma_f64_8x8x4(double& d0, double& d1, double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d0), "+d"(d1)
                 : "d"(a), "d"(b));
}

// a[0], a[1] rows g, g + 8 at k = c, a[2], a[3] at k = c + 4; b[0], b[1] column g at k = c, c + 4. sm_90 and later.
// PTX ISA, "Matrix Fragments for mma.m16n8k8", f64.
__device__ __forceinline__ void mma_f64_16x8x8(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

// f32 to tf32, to nearest, ties away from zero; the largest become infinite. PTX ISA, "cvt", .rna.tf32.
__device__ __forceinline__ uint32_t round_tf32(uint32_t bits) {
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

// Bytes of {high, low} chosen by the nibbles of `selector`. PTX ISA, "prmt".
__device__ __forceinline__ uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
    uint32_t picked;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(low), "r"(high), "r"(selector));
    return picked;
}

}  // namespace ptx
