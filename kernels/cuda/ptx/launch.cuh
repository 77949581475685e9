// Programmatic dependent launch: a kernel starts while the one before it on the stream still runs. PTX ISA, "Parallel
// Synchronization and Communication Instructions: griddepcontrol". Both do nothing in a kernel that was launched plainly.
#pragma once

namespace ptx {

// griddepcontrol.wait: all that the kernels before this one wrote is visible after it.
__device__ __forceinline__ void wait_for_previous_kernels() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// griddepcontrol.launch_dependents: the next kernel may take what room there is; it waits by itself.
__device__ __forceinline__ void let_next_kernel_start() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace ptx
