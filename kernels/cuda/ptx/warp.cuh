// What the lanes of a warp have in common. PTX ISA, "shfl.sync" and "elect.sync".
#pragma once
#include <cstdint>

namespace ptx {

// A value that all lanes of a warp have, found from threadIdx: so the compiler knows. What is computed from it stays in uniform registers,
// where wgmma and the tensor memory accelerator look for descriptors, addresses and coordinates; from other registers each is moved there
// beforehand, for the accelerator in a loop over lanes (docs/gemm/warpgroup.md, what decided its shape).
__device__ __forceinline__ uint32_t uniform(uint32_t value) { return __shfl_sync(~0u, value, 0); }

// True in one lane of a whole warp, always the same one.
__device__ __forceinline__ bool elected() {
    uint32_t one;
    asm volatile(
        "{\n\t"
        ".reg .pred leads;\n\t"
        "elect.sync _|leads, 0xffffffff;\n\t"
        "selp.u32 %0, 1, 0, leads;\n\t"
        "}"
        : "=r"(one));
    return one;
}

}  // namespace ptx
