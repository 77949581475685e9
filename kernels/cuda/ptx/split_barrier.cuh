// Barriers in shared memory at which threads arrive first and wait later, from sm_80 on. One instruction a function.
// (ptx/barrier.cuh has what sm_90 adds: bytes that bulk copies announce, clusters.)
#pragma once
#include <cstdint>

namespace ptx {

// A phase ends after `arrivals` arrivals. PTX ISA, "mbarrier.init".
__device__ __forceinline__ void split_barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// One arrival; earlier reads and writes of this thread are before it. PTX ISA, "mbarrier.arrive".
__device__ __forceinline__ void split_barrier_arrive(uint32_t barrier) {
    asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(barrier) : "memory");
}

// Returns when the phase of parity `parity` has ended: mbarrier.test_wait.parity, repeated, or from sm_90 on
// mbarrier.try_wait.parity, which sleeps. PTX ISA, "mbarrier.test_wait, mbarrier.try_wait".
__device__ __forceinline__ void split_barrier_wait(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t"
        "}" ::"r"(barrier), "r"(parity) : "memory");
#else
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n\t"
        "@!done bra again;\n\t"
        "}" ::"r"(barrier), "r"(parity) : "memory");
#endif
}

}  // namespace ptx
