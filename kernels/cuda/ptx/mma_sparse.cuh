// Warp-wide products of a 2:4 compressed A, D = A B + D (mma.sp). One instruction a function; sm_80.
//
// D and A's registers are those of ptx/mma.cuh, A's bytes of k being those that are kept: 32 of them, for 64 of B. b[i] holds
// column g at bytes 4 c + 16 i of k. Metadata: four bits for each group of four elements, ascending along k from bit 0 on.
#pragma once
#include <cstdint>

namespace ptx {

// m16n8k32. With SELECTOR s lanes c = 2 s and 2 s + 1 give metadata: elements 0 to 15 and 16 to 31 of k; the lower half of each
// word is row g, the upper one row g + 8. PTX ISA 8.5, "Matrix Fragments for sparse mma.m16n8k32 with .f16 and .bf16 types".
template <int SELECTOR>
__device__ __forceinline__ void mma_sparse_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata),
                   "n"(SELECTOR));
}

// The same of bf16.
template <int SELECTOR>
__device__ __forceinline__ void mma_sparse_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata),
                   "n"(SELECTOR));
}

// m16n8k64; sums wrap. All lanes give metadata: c = 0 and 1 elements 0 to 31 of k of rows g and g + 8, c = 2 and 3 elements 32 to 63
// of the same. PTX ISA 8.5, "Matrix Fragments for sparse mma.m16n8k64 with .u8/.s8/.e4m3/.e5m2 type".
__device__ __forceinline__ void mma_sparse_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4], uint32_t metadata) {
    asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(metadata));
}

// One word; ptx/ldmatrix.cuh has the others. PTX ISA, "st.shared".
__device__ __forceinline__ void store_shared(uint32_t address, uint32_t x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}

}  // namespace ptx
