// Blocks of a cluster: their shared memory, and a barrier at which they arrive first and wait later. One instruction a
// function; sm_90 and later. (ptx/barrier.cuh has the barrier in one step.)
#pragma once
#include <cstdint>

namespace ptx {

// The address that `address` of this block has in block `rank` of the cluster. PTX ISA, "mapa".
__device__ __forceinline__ uint32_t address_in(uint32_t address, uint32_t rank) {
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

// 8 bytes to an address of the cluster. PTX ISA, "st", .shared::cluster.
__device__ __forceinline__ void store_cluster(uint32_t address, float x, float y) {
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void store_cluster(uint32_t address, int32_t x, int32_t y) {
    asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}

// PTX ISA, "barrier.cluster.arrive": earlier writes of this thread are seen by those that waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

// PTX ISA, "barrier.cluster.wait": all threads of all blocks have arrived.
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

}  // namespace ptx
