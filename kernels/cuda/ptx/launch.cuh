// Programmatic dependent launch: a kernel starts while the one before it on the stream still runs. PTX ISA, "Parallel
// Synchronization and Communication Instructions: griddepcontrol", sm_90 and later; before that kernels start in turn anyway,
// and nothing is to be done. Both do nothing in a kernel that was launched plainly.
#pragma once

namespace ptx {

// griddepcontrol.wait: all that the kernels before this one wrote is visible after it.
__device__ __forceinline__ void wait_for_previous_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// griddepcontrol.launch_dependents: the next kernel may take what room there is; it waits by itself.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ptx
