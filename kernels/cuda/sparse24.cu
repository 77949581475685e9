// 2:4 decompression: the dense matrix of values and metadata.
//
// Computes      dense[row][4 g + place] = values[row][2 g + i] for both i of each group g, at the places that metadata names; 0
//               elsewhere. Rows of `words` words of metadata, four bits a group, ascending from bit 0. Where both places are
//               one the second value is there.
// Algorithm     A thread: 8 bytes of values, the bits of their groups, 16 bytes of the result.
// Tiling        256 threads; thread i makes unit i of all rows, in order.
// Mapping       Neighbouring threads write neighbouring units.
// Shared memory none.
// Traffic       Values and metadata read once, the result written once: bound by memory.
// Numerics      Bits move.
// Requires      sm_80; rows of the result are whole units of 16 bytes, values lie on an 8-byte grid, units fit 32 bits.
// Measured      not measured.
// References    PTX ISA 8.5, "Warp-level matrix instructions: mma.sp", sparse metadata.
#include <stdint.h>
#include <string.h>

namespace {

constexpr int THREADS = 256;

// T: an unsigned integer of the element's size.
template <typename T>
__device__ __forceinline__ void decompress(const uint2* values, const uint32_t* metadata, uint4* dense, uint32_t row_units,
                                           uint32_t words, uint32_t units) {
    constexpr uint32_t GROUPS = 4 / sizeof(T);
    const uint32_t unit = blockIdx.x * THREADS + threadIdx.x;
    if (unit >= units) {
        return;
    }
    const uint32_t row = unit / row_units, group = (unit - row * row_units) * GROUPS;
    const uint32_t places = metadata[static_cast<int64_t>(row) * words + group / 8] >> (4 * (group % 8));
    const uint2 packed = values[unit];
    T kept[2 * GROUPS], result[4 * GROUPS];
    memcpy(kept, &packed, sizeof kept);
#pragma unroll
    for (uint32_t i = 0; i < 4 * GROUPS; ++i) {
        const uint32_t pair = places >> (4 * (i / 4));
        const T first = (pair & 3) == i % 4 ? kept[i / 4 * 2] : T(0);
        result[i] = (pair >> 2 & 3) == i % 4 ? kept[i / 4 * 2 + 1] : first;
    }
    memcpy(&dense[unit], result, sizeof result);
}

}  // namespace

// Defines kernel NAME for elements whose bits are a T.
#define SPARSE24_DECOMPRESS(NAME, T)                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                     \
        NAME(const uint2* values, const uint32_t* metadata, uint4* dense, uint32_t row_units, uint32_t words, uint32_t units) { \
        decompress<T>(values, metadata, dense, row_units, words, units);                                                      \
    }
