// Tiles by the tensor memory accelerator: one instruction a function. PTX ISA, "Data Movement and Conversion
// Instructions: cp.async.bulk.tensor". A tile's coordinates are in elements, innermost first; what lies outside of the
// tensor is read as zero and is not written.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace ptx {

// prefetch.tensormap
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// createpolicy.fractional: lines that the second-level cache lets go of last. (A load with the policy L2::evict_normal is no load
// without one: it was up to 1.84 times as slow, docs/gemm/warpgroup.md.)
__device__ __forceinline__ uint64_t kept_longest() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// cp.async.bulk.tensor.3d, global to shared: completes on `barrier` with as many bytes as the box has.
__device__ __forceinline__ void load_tile(uint32_t destination, const CUtensorMap* map, uint32_t barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// load_tile with .L2::cache_hint.
__device__ __forceinline__ void load_tile(uint32_t destination, const CUtensorMap* map, uint32_t barrier, int x, int y, int z,
                                          uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
        : "memory");
}

// load_tile with .multicast::cluster: to the same place in every block whose bit in `blocks` is set, each counting on its own
// barrier.
__device__ __forceinline__ void load_tile_multicast(uint32_t destination, const CUtensorMap* map, uint32_t barrier, uint16_t blocks,
                                                    int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "h"(blocks), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// The same with .L2::cache_hint.
__device__ __forceinline__ void load_tile_multicast(uint32_t destination, const CUtensorMap* map, uint32_t barrier, uint16_t blocks,
                                                    int x, int y, int z, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%4, %5, %6}], [%2], %3, %7;" ::"r"(destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "h"(blocks), "r"(x), "r"(y), "r"(z), "l"(policy)
        : "memory");
}

// cp.async.bulk, global to shared: `bytes` in a row, both ends and the count multiples of 16. PTX ISA, "Data Movement and
// Conversion Instructions: cp.async.bulk".
__device__ __forceinline__ void load_bytes(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
        "l"(static_cast<uint64_t>(__cvta_generic_to_global(source))), "r"(bytes), "r"(barrier)
        : "memory");
}

// cp.async.bulk.tensor.3d, shared to global, in this thread's current bulk group.
__device__ __forceinline__ void store_tile(const CUtensorMap* map, uint32_t source, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                     reinterpret_cast<uint64_t>(map)),
                 "r"(source), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// cp.async.bulk.commit_group: ends this thread's current bulk group.
__device__ __forceinline__ void commit_stores() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group.read: until at most PENDING of this thread's bulk groups still read shared memory.
template <int PENDING>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

}  // namespace ptx
