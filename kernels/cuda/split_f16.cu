// f32 operands of a product as high and low parts of f16, scaled into f16's range.
//
// Computes      maxima: of each matrix of both operands the largest finite magnitude, a part of it a block.
//               parts: y = x 2^s with the matrix's largest in [2^14, 2^15); high = f16(y), low = f16((y - high) 2^11), and what
//               leads back, two factors for each product of the batch: their product is 2^-(s_a + s_b).
// Algorithm     1. maxima; 2. parts: a block first takes the largest of its matrix's maxima.
// Tiling        256 threads; units of 8 elements along a line, in a line 128 bytes of f16 or a multiple of them; the lines of a
//               matrix one after the other, and all blocks of a matrix by turns.
// Mapping       Neighbouring threads have neighbouring units. grid (blocks, operand, matrix of the batch).
// Shared memory A word a warp.
// Traffic       Reads the operands twice, the second time from L2 where both fit; writes as many bytes as it reads once.
// Numerics      |x - (high + low 2^-11) 2^-s| <= 2^-23 |x| + 2^-50 max|x|: high and low round to nearest, and what is below
//               2^-14 of f16's range keeps the distance of its smallest numbers, 2^-24. Products of low parts alone are left out: with
//               p = |x| + 2^-29 max|x| of either operand, a product is off by at most 2^-20 p_a p_b. low of infinities and NaN is 0.
// Requires      sm_90. Fewer than 2^32 units in a matrix. Destinations on the 16-byte grid, lines `pitch` elements, a multiple of
//               64; planes one after the other.
// Measured      H200, 2026-11-23: 4.2 TB/s read for maxima, 3.8 to 3.9 read and written for parts; matrices of 512 x 512 2.2 and 2.5 us.
//               docs/gemm.md has products.
// References    Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical
//               peak performance" (2022): low parts kept 2^11 times as large.
#include <cuda_fp16.h>
#include <stdint.h>

#include "ptx/launch.cuh"

namespace {

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int UNIT = 8;
// Units of a thread that are on their way at once.
constexpr int UNROLL = 4;
// Exponent of 2 that a matrix's largest is brought to, and how much larger low parts are kept.
constexpr int LARGEST = 14;
constexpr float LOW_SCALE = 2048.0f;

// An operand: matrices of lines of elements that lie `step` apart.
struct Source {
    const float* first;
    uint32_t lines, length;
    int64_t line_stride, step;
    uint32_t batches;
    int64_t batch_stride;

    // Whether whole units are two loads of 16 bytes.
    __device__ __forceinline__ bool is_wide() const {
        const bool on_grid = reinterpret_cast<uint64_t>(first) % 16 == 0 && line_stride % 4 == 0 && batch_stride % 4 == 0;
        return on_grid && (step == 1 || length == 1);
    }

    // Units of a line that is `length` long.
    __device__ __forceinline__ static uint32_t units(uint32_t length) { return (length + UNIT - 1) / UNIT; }

    // Unit `unit` of line `line` of a matrix, 0 beyond the line's end.
    __device__ __forceinline__ void load(float (&to)[UNIT], bool wide, uint32_t matrix, uint32_t line, uint32_t unit) const {
        const uint32_t at = unit * UNIT;
        const float* from = first + matrix * batch_stride + line * line_stride + at * step;
        if (wide && at + UNIT <= length) {
            const float4 low = __ldg(reinterpret_cast<const float4*>(from)), high = __ldg(reinterpret_cast<const float4*>(from) + 1);
            to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
            to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
        } else {
#pragma unroll
            for (int i = 0; i < UNIT; ++i) {
                to[i] = at + i < length ? __ldg(from + i * step) : 0.0f;
            }
        }
    }
};

// The largest of all threads' values, in every thread.
__device__ __forceinline__ uint32_t largest_of_block(uint32_t value) {
    __shared__ uint32_t of_warp[WARPS];
    value = __reduce_max_sync(~0u, value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        of_warp[threadIdx.x / 32] = value;
    }
    __syncthreads();
    return __reduce_max_sync(~0u, of_warp[threadIdx.x % WARPS]);
}

// Magnitudes are compared as bits. What is not finite counts as nothing.
__device__ __forceinline__ uint32_t magnitude(float x) {
    const uint32_t bits = __float_as_uint(x) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

// A thread's units from `first` on, `step` apart, of `all` in lines of `units`: all under way at once.
__device__ __forceinline__ void load_units(float (&x)[UNROLL][UNIT], const Source& source, bool wide, uint64_t first,
                                           uint64_t step, uint32_t units, uint32_t all) {
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const uint64_t at = first + u * step;
        if (at < all) {
            const uint32_t line = static_cast<uint32_t>(at) / units;
            source.load(x[u], wide, blockIdx.z, line, static_cast<uint32_t>(at) - line * units);
        }
    }
}

// Phase 1.
__device__ __forceinline__ void find_maxima(const Source& source, uint32_t* maxima) {
    const bool wide = source.is_wide();
    const uint32_t units = Source::units(source.length), all = units * source.lines;
    const uint64_t step = uint64_t{gridDim.x} * THREADS;
    uint32_t largest = 0;
    for (uint64_t first = blockIdx.x * THREADS + threadIdx.x; first < all; first += step * UNROLL) {
        float x[UNROLL][UNIT] = {};
        load_units(x, source, wide, first, step, units, all);
#pragma unroll
        for (int i = 0; i < UNROLL * UNIT; ++i) {
            largest = max(largest, magnitude(x[i / UNIT][i % UNIT]));
        }
    }
    largest = largest_of_block(largest);
    if (threadIdx.x == 0) {
        maxima[(blockIdx.y * gridDim.z + blockIdx.z) * gridDim.x + blockIdx.x] = largest;
    }
}

// What a matrix is scaled by, as an exponent of 2, from its maxima.
__device__ __forceinline__ int scale_exponent(const uint32_t* maxima, uint32_t count) {
    uint32_t largest = 0;
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        largest = max(largest, maxima[i]);
    }
    largest = largest_of_block(largest);
    // Subnormal ones have the exponent of the smallest normal one. Zeros stay what they are.
    const int exponent = max(static_cast<int>(largest >> 23), 1) - 127;
    return largest == 0 ? 0 : LARGEST - exponent;
}

// 2^exponent, from the smallest number on.
__device__ __forceinline__ float power_of_two(int exponent) {
    return exponent < -126 ? __uint_as_float(1u << (exponent + 149)) : __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// Two factors whose product is 2^exponent, which may be out of range.
__device__ __forceinline__ void write_factors(float* factors, int exponent) {
    if (threadIdx.x == 0) {
        factors[0] = power_of_two(exponent / 2);
        factors[1] = power_of_two(exponent - exponent / 2);
    }
}

__device__ __forceinline__ uint32_t pair(__half x, __half y) {
    return __half_as_ushort(x) | static_cast<uint32_t>(__half_as_ushort(y)) << 16;
}

// Phase 2 of one operand; `to` has lines of `pitch` elements.
__device__ __forceinline__ void split(const Source& source, __half* to, uint32_t pitch, int exponent) {
    const bool wide = source.is_wide();
    // By two factors: one may be out of range.
    const float first_factor = power_of_two(exponent / 2), second_factor = power_of_two(exponent - exponent / 2);
    const uint32_t units = pitch / UNIT, all = units * source.lines;
    const uint64_t matrix = uint64_t{source.lines} * pitch;
    __half* high_plane = to + blockIdx.z * matrix;
    __half* low_plane = high_plane + source.batches * matrix;
    const uint64_t step = uint64_t{gridDim.x} * THREADS;
    for (uint64_t first = blockIdx.x * THREADS + threadIdx.x; first < all; first += step * UNROLL) {
        float x[UNROLL][UNIT] = {};
        load_units(x, source, wide, first, step, units, all);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const uint64_t at = first + u * step;
            if (at >= all) {
                break;
            }
            __half high[UNIT], low[UNIT];
#pragma unroll
            for (int i = 0; i < UNIT; ++i) {
                const float y = x[u][i] * first_factor * second_factor;
                high[i] = __float2half_rn(y);
                const bool finite = (__float_as_uint(y) & 0x7f800000u) != 0x7f800000u;
                low[i] = __float2half_rn(finite ? (y - __half2float(high[i])) * LOW_SCALE : 0.0f);
            }
            *reinterpret_cast<uint4*>(high_plane + at * UNIT) =
                {pair(high[0], high[1]), pair(high[2], high[3]), pair(high[4], high[5]), pair(high[6], high[7])};
            *reinterpret_cast<uint4*>(low_plane + at * UNIT) =
                {pair(low[0], low[1]), pair(low[2], low[3]), pair(low[4], low[5]), pair(low[6], low[7])};
        }
    }
}

}  // namespace

// What both kernels take first: the operands, one of which is this block's.
#define SPLIT_F16_OPERANDS                                                                                                    \
    const float *a, uint32_t lines_a, uint32_t length_a, int64_t line_stride_a, int64_t step_a, uint32_t batches_a,           \
        int64_t batch_stride_a, const float *b, uint32_t lines_b, uint32_t length_b, int64_t line_stride_b, int64_t step_b,   \
        uint32_t batches_b, int64_t batch_stride_b
#define SPLIT_F16_SOURCE                                                                                                      \
    (is_a ? Source{a, lines_a, length_a, line_stride_a, step_a, batches_a, batch_stride_a}                                    \
          : Source{b, lines_b, length_b, line_stride_b, step_b, batches_b, batch_stride_b})

// `maxima` gets `gridDim.x` numbers for each matrix of the batch, of A, then of B. An operand of one matrix has the first's alone.
#define SPLIT_F16_MAXIMA(NAME)                                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(SPLIT_F16_OPERANDS, uint32_t* maxima) {                        \
        ptx::let_next_kernel_start();                                                                                         \
        ptx::wait_for_previous_kernels();                                                                                     \
        const bool is_a = blockIdx.y == 0;                                                                                    \
        const Source source = SPLIT_F16_SOURCE;                                                                               \
        if (blockIdx.z < source.batches) {                                                                                    \
            find_maxima(source, maxima);                                                                                      \
        }                                                                                                                     \
    }

// `blocks` of the launch before left maxima. `factors` gets two numbers for each product.
#define SPLIT_F16_PARTS(NAME)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                     \
        NAME(SPLIT_F16_OPERANDS, const uint32_t* maxima, uint32_t blocks, __half* parts_a, uint32_t pitch_a, __half* parts_b, \
             uint32_t pitch_b, float* factors) {                                                                              \
        ptx::let_next_kernel_start();                                                                                         \
        ptx::wait_for_previous_kernels();                                                                                     \
        const bool is_a = blockIdx.y == 0;                                                                                    \
        const Source source = SPLIT_F16_SOURCE;                                                                               \
        const uint32_t* maxima_a = maxima + (batches_a > 1 ? blockIdx.z : 0) * blocks;                                        \
        const uint32_t* maxima_b = maxima + (gridDim.z + (batches_b > 1 ? blockIdx.z : 0)) * blocks;                          \
        const int exponent = scale_exponent(is_a ? maxima_a : maxima_b, blocks);                                              \
        if (is_a && blockIdx.x == 0) {                                                                                        \
            write_factors(factors + 2 * blockIdx.z, -(exponent + scale_exponent(maxima_b, blocks)));                          \
        }                                                                                                                     \
        if (blockIdx.z < source.batches) {                                                                                    \
            split(source, is_a ? parts_a : parts_b, is_a ? pitch_a : pitch_b, exponent);                                      \
        }                                                                                                                     \
    }
