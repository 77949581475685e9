// Taps of a row as channels: copies images into rows in which each window is one run, or such runs of weights back.
//
// Computes: dst[r][j * padded + c] = src[r][j - before][c] for j < columns and c < channels, if 0 <= j - before < width; else 0, as far as
//   `pitch` elements of each of `rows` rows. src: row r at r * row_stride, pixel w at w * pixel_stride (elements), channels neighbours.
//   A convolution then reads `taps * padded` neighbours for all taps of a row: 7 x 3 channels are 28 of 64 that a stage has, in place of
//   seven times 3. `before` makes the padding of the width real, so that a run never reaches into the row before.
// Algorithm: 1 a thread takes VECTOR neighbours of dst, finds pixel and channel of each, and writes them at once.
// Tiling: 64 threads along a row, 4 rows a block. Mapping: grid (rows / 4, units of a row / 64).
// Shared memory: none.
// Traffic: src read once, dst written once; bound by memory, or by instructions where channels are few.
// Numerics: copies, bit for bit.
// Requires: sm_80; dst aligned to VECTOR elements where pitch is a multiple of it.
// Measured: docs/convolution.md.
// References: none.

#include <stdint.h>

#include "ptx/launch.cuh"

namespace polywarp::convolution {

constexpr uint32_t UNITS = 64, ROWS = 4;

struct Fold {
    const uint16_t* src;
    uint16_t* dst;
    uint32_t rows, width, channels, columns, padded, pitch, before;
    int64_t row_stride, pixel_stride;
};

template <int VECTOR>
__device__ __forceinline__ void fold(const Fold& s) {
    struct alignas(2 * VECTOR) Some {
        uint16_t of[VECTOR];
    };
    const uint32_t row = blockIdx.x * ROWS + threadIdx.x / UNITS;
    const uint32_t first = (blockIdx.y * UNITS + threadIdx.x % UNITS) * VECTOR;
    if (row >= s.rows || first >= s.pitch) return;
    const uint16_t* const from = s.src + row * s.row_stride;
    uint32_t column = first / s.padded, channel = first - column * s.padded;
    Some some;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        // Below 0 it is far above the width.
        const uint32_t pixel = column - s.before;
        const bool inside = column < s.columns && channel < s.channels && pixel < s.width;
        some.of[i] = inside ? from[pixel * s.pixel_stride + channel] : uint16_t(0);
        if (++channel == s.padded) {
            channel = 0;
            ++column;
        }
    }
    *reinterpret_cast<Some*>(s.dst + static_cast<int64_t>(row) * s.pitch + first) = some;
}

}  // namespace polywarp::convolution

extern "C" __global__ void __launch_bounds__(polywarp::convolution::UNITS* polywarp::convolution::ROWS)
    convolution_fold(const uint16_t* src, uint16_t* dst, uint32_t rows, uint32_t width, uint32_t channels, uint32_t columns,
                     uint32_t padded, uint32_t pitch, uint32_t before, int64_t row_stride, int64_t pixel_stride) {
    const polywarp::convolution::Fold s = {src, dst, rows, width, channels, columns, padded, pitch, before, row_stride, pixel_stride};
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    if (pitch % 4 == 0) {
        polywarp::convolution::fold<4>(s);
    } else {
        polywarp::convolution::fold<1>(s);
    }
}
