// Products of 8-bit floats by mma.sync: the kernel of gemm_mma_sync.cuh on e4m3 and e5m2, also one of each.
//
// Computes      As gemm_mma_sync.cuh; D, C and bias are f32, f16 or bf16, as the launch says.
// Algorithm, Tiling, Mapping, Shared memory, Traffic   as there: bytes are bytes.
// Numerics      Products are exact. An instruction's 32 products are added by the tensor core with 14 bits (Ada), to a sum of
//               zero; what it gives is added to the f32 sum by plain cores. So nothing is cut off of the sum itself, and the
//               bound that core states for a promotion every 128 products holds with room. K in a fixed order: the same bits on
//               every run.
// Requires      sm_89. Hopper's assembler makes f16 instructions of them: there the wgmma kernels are the ones to use.
// Measured      not measured on Ada.
// References    OCP 8-bit Floating Point Specification (OFP8), 1.0; PTX ISA 8.4, "mma.sync".
#pragma once
#include "gemm_mma_sync.cuh"
#include "ptx/mma_float8.cuh"

namespace gemm_mma {

// One 8-bit float times another: which instruction MULTIPLY is decides.
template <void (*MULTIPLY)(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2])>
struct Float8 : Words<uint8_t, float> {
    using Result = __half;
    using OtherResult = __nv_bfloat16;
    __device__ static __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        float products[4];
        MULTIPLY(products, a, b);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            d[i] += products[i];
        }
    }
};

using E4m3 = Float8<ptx::mma_e4m3_e4m3>;
using E4m3E5m2 = Float8<ptx::mma_e4m3_e5m2>;
using E5m2E4m3 = Float8<ptx::mma_e5m2_e4m3>;
using E5m2 = Float8<ptx::mma_e5m2_e5m2>;

}  // namespace gemm_mma
