// Barriers in shared memory: one instruction a function. PTX ISA, "Parallel Synchronization and Communication
// Instructions: mbarrier" and "Asynchronous execution". Shared-memory addresses are 32-bit, as `smem_address` gives them.
#pragma once
#include <cstdint>

namespace ptx {

// The 32-bit address of an object in shared memory.
__device__ __forceinline__ uint32_t smem_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// mbarrier.init: a phase ends after `arrivals` arrivals and all bytes that were announced.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// mbarrier.arrive.expect_tx: one arrival, and `bytes` that bulk copies will bring in this phase.
__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// mbarrier.arrive on this block's barrier.
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// mapa, mbarrier.arrive: on the barrier at the same place in block `rank` of the cluster. Orders nothing beyond this block:
// for readers that are done with a stage that is enough, and a release to the cluster costs a fence (a fifth of a product's
// time, measured).
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile(
        "{\n\t"
        ".reg .b32 remote;\n\t"
        "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t"
        "}" ::"r"(barrier), "r"(rank) : "memory");
}

// mbarrier.try_wait.parity, repeated: returns when the phase of parity `parity` has ended.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@done bra over;\n\t"
        "bra again;\n\t"
        "over:\n\t"
        "}" ::"r"(barrier), "r"(parity) : "memory");
}

// fence.mbarrier_init: other blocks of the cluster see initialised barriers after the next cluster barrier.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.async: ordinary writes to shared memory before it are visible to bulk copies and wgmma after it.
__device__ __forceinline__ void fence_async_proxy() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// barrier.cluster.arrive and barrier.cluster.wait: all threads of all blocks of the cluster.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// %cluster_ctarank: this block's number within its cluster.
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// bar.sync: the `threads` threads that name the same barrier wait for each other.
__device__ __forceinline__ void named_barrier(uint32_t name, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// bar.arrive: counted at the barrier that others wait for with bar.sync; this thread goes on.
__device__ __forceinline__ void named_barrier_arrive(uint32_t name, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// setmaxnreg.inc: this warpgroup takes registers up to REGISTERS a thread, waiting until they are free.
template <uint32_t REGISTERS>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// setmaxnreg.dec: this warpgroup gives registers back.
template <uint32_t REGISTERS>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

}  // namespace ptx
