// Bulk stores and sums, shared to global memory, and what orders them between blocks: one instruction a function. PTX ISA, "Data Movement
// and Conversion Instructions: cp.async.bulk, cp.reduce.async.bulk", "Parallel Synchronization and Communication Instructions: membar,
// red", "ld". Groups are committed by commit_stores (tma.cuh).
#pragma once
#include <cstdint>

namespace ptx {

// cp.async.bulk, shared to global, in this thread's current bulk group: `bytes`, both ends and the count multiples of 16.
__device__ __forceinline__ void store_bytes(float* to, uint32_t source, uint32_t bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     static_cast<uint64_t>(__cvta_generic_to_global(to))),
                 "r"(source), "r"(bytes)
                 : "memory");
}

// cp.reduce.async.bulk.add.f32: the same, added to what is there.
__device__ __forceinline__ void add_bytes(float* to, uint32_t source, uint32_t bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                     static_cast<uint64_t>(__cvta_generic_to_global(to))),
                 "r"(source), "r"(bytes)
                 : "memory");
}

// cp.async.bulk.wait_group: until at most PENDING of this thread's bulk groups are under way; what the others wrote is visible to it.
template <int PENDING>
__device__ __forceinline__ void wait_stores() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

// fence.proxy.async of global memory: orders ordinary accesses before it and bulk copies after it, and the other way round.
__device__ __forceinline__ void fence_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

// ld.acquire.gpu
__device__ __forceinline__ uint32_t load_acquire(const uint32_t* from) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(__cvta_generic_to_global(from)) : "memory");
    return value;
}

// red.release.gpu.add: who sees the sum, by load_acquire, sees what this thread saw.
__device__ __forceinline__ void add_release(uint32_t* to, uint32_t value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value) : "memory");
}

}  // namespace ptx
