// Tiles of tensors of four dimensions by the tensor memory accelerator: one instruction a function. PTX ISA, "Data Movement and
// Conversion Instructions: cp.async.bulk.tensor". What tma.cuh says of coordinates holds; kernels of three dimensions include that alone.
#pragma once
#include "tma.cuh"

namespace ptx {

// cp.async.bulk.tensor.4d, global to shared: completes on `barrier` with as many bytes as the box has.
__device__ __forceinline__ void load_tile_4d(uint32_t destination, const CUtensorMap* map, uint32_t barrier, int x, int y, int z, int w) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
            destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
}

}  // namespace ptx
