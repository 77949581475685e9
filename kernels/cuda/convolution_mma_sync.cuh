// Convolutions on tensor cores by mma.sync and cp.async, as matrix products of pixels and filters: every NVIDIA GPU from sm_80 on.
//
// Computes      D[o, f] = activation(alpha sum + beta C[o, f] + bias[f]), the sum being that of x[pixel(o, t), c] w[f, t, c] over
//               taps t and channels c: x [images, d, h, w, channels], w [filters, taps, channels], D [outputs, filters], an output
//               o = (image, plane, row, column). Or slabs of the sum for split-K: [slab][outputs][filters]. Of i8 the exact sums
//               alone, in i32: splitk.cu scales and ends them.
//               Of the input's gradient: D[i, c] = sum of dy[pixel(i, t), f] w[f, t, c] over taps t, in reverse, and filters f. D's
//               pixels may lie apart: they are the inputs of one remainder of a stride.
// Algorithm     That of gemm_mma_sync.cuh, whose tiles, main loop, epilogue and stores it has: only loads differ. Rows of A are
//               outputs. Each thread copies units of 16 bytes, eight channels of one tap (16 of i8), for LOADS outputs: it knows where each
//               output's first tap lies, and in a mask which taps lie inside of the image along each axis. Units of padding are
//               zero-filled by the copy. No matrix of windows is ever in memory.
// Tiling        As there. K runs over taps, and in each over `span` channels. Weights that lie as they are used are a matrix of
//               dense rows, so that span = channels: a tile of K goes over taps' ends, and few channels waste nothing. Of the
//               input's gradient, span is whole tiles of K: each tile is of one tap, whose filters are its rows of B.
// Mapping, Shared memory   gemm_mma_sync.cuh.
// Traffic       2 outputs filters taps channels operations; a tile reads (BLOCK_M + BLOCK_N) x taps x channels, from the
//               second-level cache but for the first of a pixel's taps.
// Numerics      f32 sums (i32 of i8), taps then channels in ascending order (taps descend for the input's gradient): the same bits on every
//               run. Padding is zeros, which are multiplied: an infinite weight gives NaN there.
// Requires      sm_80; channels of A a multiple of 8 (16 of i8); bases and pixels of A and B at multiples of 16 bytes; less than 2^31 units of
//               16 bytes in A; at most 30 taps, those of all axes with padding added up. Of the input's gradient: channels of D a
//               multiple of 8.
// Measured      not measured.
// References    PTX ISA 8.x, "cp.async"; CUTLASS, media/docs/cpp/implicit_gemm_convolution.md (masks of taps).
// Next          convolution_mma_sync_weights.cuh: the gradient of the weights. convolution.cuh: the same on Hopper's wgmma.
#pragma once
#include "gemm_mma_sync.cuh"

namespace convolution_mma {

using gemm_mma::Access;
using gemm_mma::Gemm;
using gemm_mma::Major;
using gemm_mma::Pace;

// Channels in a unit of 16 bytes.
template <typename G>
constexpr uint32_t UNIT_CHANNELS = 16 / sizeof(typename G::Element);

// One spatial axis: output o under tap t reads pixel `first + o stride + t dilation` of `extent`.
struct Axis {
    uint32_t outputs;
    int32_t first, stride, extent;
    // At least one.
    uint32_t taps;
    int32_t dilation;
    // Units of 16 bytes from tap to tap.
    int32_t step;
    // Taps that may lie in padding: all or none.
    uint32_t masked;
};

// How outputs read pixels.
struct Window {
    // The innermost first.
    Axis w, h, d;
    // Of A: channels, 0 when no tap is read; elements of K from tap to tap; units of 16 bytes from pixel to pixel.
    uint32_t channels, span;
    int32_t pitch;
};

// Where an output stands.
struct Output {
    uint32_t image, d, h, w;

    __device__ __forceinline__ Output(const Window& window, uint32_t number) {
        const uint32_t line = number / window.w.outputs, plane = line / window.h.outputs;
        w = number - line * window.w.outputs;
        h = line - plane * window.h.outputs;
        image = plane / window.d.outputs;
        d = plane - image * window.d.outputs;
    }
};

// Loads tiles of A: `G::BLOCK_M` outputs, and units of K.
template <typename G>
struct Pixels {
    using Tile = typename G::TileA;
    static constexpr int LOADS = Tile::LOADS, STEP_ROWS = G::THREADS / Tile::ROW_UNITS;
    static constexpr uint32_t BLOCK_K = Tile::ROW_BYTES / sizeof(typename G::Element);
    // Bits of a mask: the output exists; none has this one; those below are of taps.
    static constexpr uint32_t EXISTS = 1u << 31, NOWHERE = 1u << 30;
    static_assert(Tile::UNIT == 16 && Tile::UNITS % G::THREADS == 0 && G::THREADS % Tile::ROW_UNITS == 0,
                  "units of a thread are of one place in K");

    const Window& window;
    const uint4* x;
    uint32_t to;
    // Of each of this thread's outputs: the unit of its first tap, which may lie in padding, and the taps that lie inside.
    int32_t units[LOADS];
    uint32_t inside[LOADS];
    // Where this thread stands in K: the tap along each axis, and its channel.
    uint32_t w, h, d, channel;

    // Outputs from `first` on, of `outputs`; K from `first_k` on.
    __device__ __forceinline__ Pixels(const void* x_, const Window& window_, uint32_t first, uint32_t outputs, uint32_t first_k)
        : window(window_), x(static_cast<const uint4*>(x_)) {
        const uint32_t row = threadIdx.x / Tile::ROW_UNITS, unit = threadIdx.x % Tile::ROW_UNITS;
        to = Tile::offset(row, unit * Tile::UNIT);
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const uint32_t number = first + row + load * STEP_ROWS;
            const Output output(window, number);
            const int32_t at_w = static_cast<int32_t>(output.w) * window.w.stride + window.w.first;
            const int32_t at_h = static_cast<int32_t>(output.h) * window.h.stride + window.h.first;
            const int32_t at_d = static_cast<int32_t>(output.d) * window.d.stride + window.d.first;
            const int32_t plane = static_cast<int32_t>(output.image) * window.d.extent + at_d;
            units[load] = ((plane * window.h.extent + at_h) * window.w.extent + at_w) * window.pitch;
            uint32_t mask = EXISTS;
            add(mask, window.d, at_d);
            add(mask, window.h, at_h);
            add(mask, window.w, at_w);
            inside[load] = number < outputs ? mask : 0;
        }
        const uint32_t k = first_k + unit * UNIT_CHANNELS<G>, tap = k / window.span;
        const uint32_t line = tap / window.w.taps;
        channel = k - tap * window.span;
        w = tap - line * window.w.taps;
        d = line / window.h.taps;
        h = line - d * window.h.taps;
    }

    // The bits of an axis behind those of `mask` so far: those axes' bits move up.
    __device__ static __forceinline__ void add(uint32_t& mask, const Axis& axis, int32_t at) {
        for (uint32_t tap = axis.masked; tap > 0; --tap) {
            const int32_t pixel = at + static_cast<int32_t>(tap - 1) * axis.dilation;
            const uint32_t bit = static_cast<uint32_t>(pixel) < static_cast<uint32_t>(axis.extent) ? 1 : 0;
            mask = mask & EXISTS | mask << 1 & ~EXISTS | bit;
        }
    }

    // Starts copies of the current tile into `stage`.
    __device__ __forceinline__ void copy(uint32_t stage, uint32_t) const {
        // What leads here from an output's first unit, and the bits of a mask that this takes. Found anew: registers are few.
        const int32_t further = static_cast<int32_t>(w) * window.w.step + static_cast<int32_t>(h) * window.h.step +
                                static_cast<int32_t>(d) * window.d.step + static_cast<int32_t>(channel / UNIT_CHANNELS<G>);
        const auto bit = [](const Axis& axis, uint32_t tap) { return axis.masked != 0 ? 1u << tap : 0; };
        const uint32_t taps = ((bit(window.d, d) << window.h.masked | bit(window.h, h)) << window.w.masked) | bit(window.w, w);
        const uint32_t needed = d < window.d.taps && channel < window.channels ? EXISTS | taps : NOWHERE;
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const int bytes = (inside[load] & needed) == needed ? Tile::UNIT : 0;
            ptx::copy_async<Tile::UNIT>(Tile::at(stage + to, Tile::Loader::step(load)), x + (units[load] + further), bytes);
        }
    }

    __device__ __forceinline__ void advance() {
        channel += BLOCK_K;
        while (channel >= window.span) {
            channel -= window.span;
            if (++w == window.w.taps) {
                w = 0;
                if (++h == window.h.taps) {
                    h = 0;
                    ++d;
                }
            }
        }
    }
};

// The taps of weights, for the input's gradient: the number of the first, and what leads to the next along each axis.
struct Order {
    int32_t first, w, h, d;
};

// Loads tiles of B for the input's gradient: filters of one tap, by channels.
template <typename G>
struct Taps {
    using Tile = typename G::TileB;
    using Element = typename G::Element;
    static constexpr uint32_t BLOCK_K = Tile::ROWS;

    const Window& window;
    const Order& order;
    const uint8_t* start;
    typename Tile::Loader tile;
    int64_t tap_bytes;
    // Filters of this tap from the current tile on.
    uint32_t left;
    uint32_t w = 0, h = 0, d = 0;

    // Channels from `first` on, of `channels`; `pitch` elements from filter to filter.
    __device__ __forceinline__ Taps(const Element* weights, int64_t pitch, const Window& window_, const Order& order_,
                                    uint32_t first, uint32_t channels)
        : window(window_), order(order_), tile(weights, pitch, first, channels, 0), tap_bytes(channels * sizeof(Element)),
          left(window_.channels) {
        start = tile.from;
        tile.from += order.first * tap_bytes;
    }

    __device__ __forceinline__ void copy(uint32_t stage, uint32_t) const { tile.copy(stage, left); }

    __device__ __forceinline__ void advance() {
        if (left > BLOCK_K) {
            left -= BLOCK_K;
            tile.advance();
            return;
        }
        left = window.channels;
        if (++w == window.w.taps) {
            w = 0;
            if (++h == window.h.taps) {
                h = 0;
                ++d;
            }
        }
        const int32_t number = order.first + static_cast<int32_t>(w) * order.w + static_cast<int32_t>(h) * order.h +
                               static_cast<int32_t>(d) * order.d;
        tile.from = start + number * tap_bytes;
    }
};

// Where the rows of the input's gradient begin: elements from pixel to pixel along each axis, and from image to image.
struct Places {
    const Window& window;
    uint32_t n;
    bool apart;
    int64_t w, h, d, image;

    __device__ __forceinline__ int64_t operator()(uint32_t m) const {
        if (!apart) {
            return static_cast<int64_t>(m) * n;
        }
        const Output output(window, m);
        return output.w * w + output.h * h + output.d * d + output.image * image;
    }
};

template <typename G>
__device__ __forceinline__ void forward(const typename G::Element* x, const typename G::Element* weights, const Window& window,
                                        const typename G::Destination& to, const gemm_mma::Problem& problem) {
    const typename G::Place at = G::place(problem);
    const uint32_t first_k = at.slab * problem.slab_k;
    Pixels<G> load_a(x, window, at.m, problem.m, first_k);
    typename G::TileB::Loader load_b(weights, problem.pitch_b, at.n, problem.n, first_k);
    G::run(load_a, load_b, to, problem, typename G::DenseRows{problem.n}, at);
}

template <typename G>
__device__ __forceinline__ void input(const typename G::Element* gradient, const typename G::Element* weights,
                                      const Window& window, const Order& order, const typename G::Destination& to,
                                      const Places& places, const gemm_mma::Problem& problem) {
    const typename G::Place at = G::place(problem);
    Pixels<G> load_a(gradient, window, at.m, problem.m, 0);
    Taps<G> load_b(weights, problem.pitch_b, window, order, at.n, problem.n);
    G::run(load_a, load_b, to, problem, places, at);
}

}  // namespace convolution_mma

// ---- Instances ----

// Parameters of an axis; words of it that may be negative come as they are.
#define CONVOLUTION_MMA_AXIS(A)                                                                                                 \
    uint32_t outputs_##A, uint32_t first_##A, uint32_t stride_##A, uint32_t extent_##A, uint32_t taps_##A,                      \
        uint32_t dilation_##A, uint32_t step_##A, uint32_t masked_##A
#define CONVOLUTION_MMA_AXIS_OF(A)                                                                                              \
    {outputs_##A, int32_t(first_##A),    int32_t(stride_##A), int32_t(extent_##A),                                              \
     taps_##A,    int32_t(dilation_##A), int32_t(step_##A),   masked_##A}
#define CONVOLUTION_MMA_GEMM(T, MAJOR_A, MAJOR_B, ...)                                                                          \
    gemm_mma::Gemm<gemm_mma::T, __VA_ARGS__, gemm_mma::Major::MAJOR_A, gemm_mma::Major::MAJOR_B, gemm_mma::Access::BYTES_16,    \
                   gemm_mma::Pace::TOGETHER>

// Defines kernel NAME, a convolution; further arguments are Gemm's from BLOCK_M to STAGES. `wide`: D is f32.
#define CONVOLUTION_MMA(NAME, T, MIN_BLOCKS, ...)                                                                               \
    using NAME##_t = CONVOLUTION_MMA_GEMM(T, K, K, __VA_ARGS__);                                                                \
    extern "C" __global__ void __launch_bounds__(NAME##_t::THREADS, MIN_BLOCKS)                                                 \
        NAME(const gemm_mma::T::Element* x, const gemm_mma::T::Element* weights, void* d, uint32_t wide, uint32_t m,            \
             uint32_t n, uint32_t k, uint32_t slab_k, CONVOLUTION_MMA_AXIS(w), CONVOLUTION_MMA_AXIS(h),                         \
             CONVOLUTION_MMA_AXIS(d), uint32_t channels, uint32_t span, uint32_t pitch, float alpha, float beta,                \
             const void* c, int64_t ldc, int64_t batch_stride_c, const void* bias, uint32_t activation) {                       \
        const gemm_mma::Problem problem = {0, 0, k, 0, m, n, k, 1, slab_k};                                                     \
        const convolution_mma::Window window = {CONVOLUTION_MMA_AXIS_OF(w), CONVOLUTION_MMA_AXIS_OF(h),                         \
                                                CONVOLUTION_MMA_AXIS_OF(d), channels, span, int32_t(pitch)};                    \
        convolution_mma::forward<NAME##_t>(x, weights, window,                                                                  \
                                           {d, wide, alpha, beta, c, ldc, batch_stride_c, bias, activation}, problem);          \
    }

// Defines kernel NAME, the gradient of an input, or of those of one remainder of the stride.
#define CONVOLUTION_INPUT_MMA(NAME, T, MIN_BLOCKS, ...)                                                                         \
    using NAME##_t = CONVOLUTION_MMA_GEMM(T, K, MN, __VA_ARGS__);                                                               \
    extern "C" __global__ void __launch_bounds__(NAME##_t::THREADS, MIN_BLOCKS)                                                 \
        NAME(const gemm_mma::T::Element* gradient, const gemm_mma::T::Element* weights, void* d, uint32_t m, uint32_t n,        \
             uint32_t k, CONVOLUTION_MMA_AXIS(w), CONVOLUTION_MMA_AXIS(h), CONVOLUTION_MMA_AXIS(d), uint32_t filters,           \
             uint32_t span, uint32_t pitch, int64_t filter_pitch, uint32_t tap, uint32_t tap_w, uint32_t tap_h,                 \
             uint32_t tap_d, uint32_t apart, int64_t place_w, int64_t place_h, int64_t place_d, int64_t place_image) {          \
        const gemm_mma::Problem problem = {0, 0, filter_pitch, 0, m, n, k, 1, k};                                               \
        const convolution_mma::Window window = {CONVOLUTION_MMA_AXIS_OF(w), CONVOLUTION_MMA_AXIS_OF(h),                         \
                                                CONVOLUTION_MMA_AXIS_OF(d), filters, span, int32_t(pitch)};                     \
        const convolution_mma::Order order = {int32_t(tap), int32_t(tap_w), int32_t(tap_h), int32_t(tap_d)};                    \
        const convolution_mma::Places places = {window, n, apart != 0, place_w, place_h, place_d, place_image};                 \
        convolution_mma::input<NAME##_t>(gradient, weights, window, order, {d, 0, 1.0f, 0.0f, nullptr, 0, 0, nullptr, 0},       \
                                         places, problem);                                                                      \
    }
