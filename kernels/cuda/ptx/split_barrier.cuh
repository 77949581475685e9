// Waiting on barriers in shared memory where the card may be older than sm_90. One instruction a function.
#pragma once
#include "barrier.cuh"

namespace ptx {

// mbarrier.test_wait.parity (sm_80), repeated, or from sm_90 on mbarrier.try_wait.parity, which sleeps: returns when the phase of
// parity `parity` has ended. PTX ISA, "mbarrier.test_wait, mbarrier.try_wait".
__device__ __forceinline__ void split_barrier_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    barrier_wait(barrier, parity);
#else
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t"
        "}" ::"r"(barrier), "r"(parity) : "memory");
#endif
}

}  // namespace ptx
