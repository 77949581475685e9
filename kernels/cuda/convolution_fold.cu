// Taps as channels: copies images into pixels that are rows of a window's height, so that each window's row is one run; and weights
// likewise; and the gradient of such weights back.
//
// Computes: convolution_fold: dst[image][j][w][g][c] = src[image][j * step + g - before_h][w - before_w][c] for w < columns, g < group and
//   c < channels, where that lies inside of height and width; else 0: `rows` rows of `pitch` elements an image, g of a pixel after the
//   other, each with `padded` channels. src: images, rows and pixels at any distance (elements), channels neighbours. A convolution
//   of stride 2 by 7 x 7 taps of 3 channels so reads 4 times 7 x 2 x 4 neighbours, 56 of a stage's 64, in place of 49 times 3.
//   Padding becomes real, so that a run never reaches into the row before.
//   convolution_unfold: dst[k][r][t][c] = src[k][r / group][t][r % group][c] for r < taps_h, c < channels; src has `padded` channels and
//   `rows` rows of taps; dst dense.
// Algorithm: 1 a thread takes eight neighbours of dst (unfold: one), finds where they come from, and writes them at once. `whole`: they
//   are neighbours of src too, and read at once.
// Tiling: fold: 64 threads along a row, 4 rows a block; unfold: 256 elements a block. Mapping: fold: grid (rows / 4, units of a row / 64).
// Shared memory: none.
// Traffic: src read once, dst written once; bound by memory, or by instructions where channels are few.
// Numerics: copies, bit for bit.
// Requires: sm_80; fold: dst aligned to 16 bytes, pitch a multiple of 8, inverses of `quotient`; `whole`: src, its strides, channels
//   and padded channels too.
// Measured: docs/convolution.md.
// References: none.

#include <stdint.h>

#include "ptx/launch.cuh"

namespace polywarp::convolution {

constexpr uint32_t UNITS = 64, ROWS = 4, VECTOR = 8;

struct alignas(2 * VECTOR) Some {
    uint16_t of[VECTOR];
};

// x / divisor, for x below 2^31, by 2^32 / divisor rounded down (2^32 - 1 for 1).
__device__ __forceinline__ uint32_t quotient(uint32_t x, uint32_t divisor, uint32_t inverse) {
    const uint32_t least = __umulhi(x, inverse);
    return least + (x - least * divisor >= divisor);
}

__device__ __forceinline__ void fold(const uint16_t* src, uint16_t* dst, uint32_t images, uint32_t height, uint32_t width,
                                     uint32_t channels, uint32_t rows, uint32_t columns, uint32_t padded, uint32_t group,
                                     uint32_t step, uint32_t pitch, uint32_t before_h, uint32_t before_w, uint32_t rows_inverse,
                                     uint32_t padded_inverse, uint32_t group_inverse, uint32_t whole, int64_t image_stride,
                                     int64_t row_stride, int64_t pixel_stride) {
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t number = blockIdx.x * ROWS + threadIdx.x / UNITS, first = (blockIdx.y * UNITS + threadIdx.x % UNITS) * VECTOR;
    if (number >= images * rows || first >= pitch) return;
    const uint32_t image = quotient(number, rows, rows_inverse), top = (number - image * rows) * step - before_h;
    const uint16_t* const from = src + image * image_stride;
    const uint32_t part = quotient(first, padded, padded_inverse);
    uint32_t column = quotient(part, group, group_inverse), g = part - column * group, channel = first - part * padded;
    Some* const to = reinterpret_cast<Some*>(dst + static_cast<int64_t>(number) * pitch + first);
    if (whole) {
        const uint32_t row = top + g, pixel = column - before_w;
        const bool inside = column < columns && row < height && pixel < width;
        *to = inside ? *reinterpret_cast<const Some*>(from + row * row_stride + pixel * pixel_stride + channel) : Some{};
        return;
    }
    Some some;
#pragma unroll
    for (uint32_t i = 0; i < VECTOR; ++i) {
        // Below 0 they are far above height and width.
        const uint32_t row = top + g, pixel = column - before_w;
        const bool inside = column < columns && channel < channels && row < height && pixel < width;
        some.of[i] = inside ? from[row * row_stride + pixel * pixel_stride + channel] : uint16_t(0);
        if (++channel == padded) {
            channel = 0;
            if (++g == group) {
                g = 0;
                ++column;
            }
        }
    }
    *to = some;
}

__device__ __forceinline__ void unfold(const uint16_t* src, uint16_t* dst, uint32_t filters, uint32_t rows, uint32_t taps_h,
                                       uint32_t taps_w, uint32_t channels, uint32_t padded, uint32_t group) {
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();
    const uint32_t number = blockIdx.x * 256 + threadIdx.x;
    if (number >= filters * taps_h * taps_w * channels) return;
    const uint32_t tap = number / channels, channel = number - tap * channels;
    const uint32_t line = tap / taps_w, column = tap - line * taps_w;
    const uint32_t filter = line / taps_h, row = line - filter * taps_h;
    const uint32_t from = ((filter * rows + row / group) * taps_w + column) * group + row % group;
    dst[number] = src[static_cast<int64_t>(from) * padded + channel];
}

}  // namespace polywarp::convolution

// ---- Instances ----

#define CONVOLUTION_FOLD(SYMBOL)                                                                                          \
    extern "C" __global__ void __launch_bounds__(polywarp::convolution::UNITS* polywarp::convolution::ROWS) SYMBOL(       \
        const uint16_t* src, uint16_t* dst, uint32_t images, uint32_t height, uint32_t width, uint32_t channels,          \
        uint32_t rows, uint32_t columns, uint32_t padded, uint32_t group, uint32_t step, uint32_t pitch,                  \
        uint32_t before_h, uint32_t before_w, uint32_t rows_inverse, uint32_t padded_inverse, uint32_t group_inverse,     \
        uint32_t whole, int64_t image_stride, int64_t row_stride, int64_t pixel_stride) {                                 \
        polywarp::convolution::fold(src, dst, images, height, width, channels, rows, columns, padded, group, step, pitch, \
                                    before_h, before_w, rows_inverse, padded_inverse, group_inverse, whole, image_stride, \
                                    row_stride, pixel_stride);                                                            \
    }
#define CONVOLUTION_UNFOLD(SYMBOL)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) SYMBOL(                                                             \
        const uint16_t* src, uint16_t* dst, uint32_t filters, uint32_t rows, uint32_t taps_h, uint32_t taps_w,            \
        uint32_t channels, uint32_t padded, uint32_t group) {                                                             \
        polywarp::convolution::unfold(src, dst, filters, rows, taps_h, taps_w, channels, padded, group);                  \
    }
