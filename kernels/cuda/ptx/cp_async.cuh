// Copies from global to shared memory that do not wait (cp.async), sm_80 and later. One instruction a function.
#pragma once
#include <cstdint>

namespace ptx {

// Copies `bytes` (at most BYTES) and fills the rest of BYTES with zeros; with 0 bytes `from` is not read. `to` and `from` are
// multiples of BYTES. PTX ISA, "Data Movement and Conversion Instructions: cp.async", operand src-size.
template <int BYTES>
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, uint32_t bytes) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16);
    if constexpr (BYTES == 16) {
        // .cg: through L2 only, L1 is left to others.
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else if constexpr (BYTES == 8) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    }
}

// Ends a group of copies. PTX ISA, "cp.async.commit_group".
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's newest groups are still under way. PTX ISA, "cp.async.wait_group".
template <int PENDING>
__device__ __forceinline__ void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

}  // namespace ptx
