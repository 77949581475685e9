// Pixels of images by the tensor memory accelerator (im2col mode): one instruction a function. PTX ISA, "Data Movement and Conversion
// Instructions: cp.async.bulk.tensor" and "Im2col mode". A copy takes as many pixels as its tensor map says, one after the other along
// a row, then the next row's, then the next image's, all within the map's bounding box, from (w, h, n) on, which is one of them; each read
// (offset_w, offset_h) further on. What lies outside of the images is zero.
#pragma once
#include "tma.cuh"

namespace ptx {

// cp.async.bulk.tensor.4d.im2col, global to shared: completes on `barrier` with pixels times channels of the map.
__device__ __forceinline__ void load_pixels(uint32_t destination, const CUtensorMap* map, uint32_t barrier, int channel, int w, int h,
                                            int n, uint16_t offset_w, uint16_t offset_h) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(destination),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(channel), "r"(w), "r"(h), "r"(n), "h"(offset_w), "h"(offset_h)
        : "memory");
}

}  // namespace ptx
