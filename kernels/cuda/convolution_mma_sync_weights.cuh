// Gradients of convolutions' weights on tensor cores by mma.sync and cp.async: every NVIDIA GPU from sm_80 on.
//
// Computes      D[f, (t, c)] = sum of dy[o, f] x[pixel(o, t), c] over outputs o: dy [outputs, filters], x [images, d, h, w,
//               channels], D [filters, taps, channels]. Or slabs of the sum for split-K: [slab][filters][taps][channels].
// Algorithm     That of gemm_mma_sync.cuh, both operands along their rows, which are outputs: only loads of x differ. A thread
//               copies units of 16 bytes, eight channels of one tap, which stay the same from tile to tile; it walks over outputs,
//               and finds the pixel of each under its tap by addition and carries. Units of padding are zero-filled by the copy.
// Tiling        As there: a tile of D is of BLOCK_N channels of one tap or several. Outputs are cut into slabs that fill the card.
// Mapping, Shared memory   gemm_mma_sync.cuh.
// Traffic       2 outputs filters taps channels operations; a tile reads (BLOCK_M + BLOCK_N) x outputs, from the second-level
//               cache but for the first of a pixel's taps.
// Numerics      f32 sums, outputs in ascending order; a second launch adds slabs in order: the same bits on every run.
// Requires      sm_80; channels a multiple of 8; bases and pixels of dy and x at multiples of 16 bytes; less than 2^31 units of 16
//               bytes in x.
// Measured      not measured.
// References    convolution_mma_sync.cuh.
#pragma once
#include "convolution_mma_sync.cuh"

namespace convolution_mma {

// Loads tiles of B: BLOCK_K outputs by channels of taps.
template <typename G>
struct PixelsOfTaps {
    using Tile = typename G::TileB;
    static constexpr int LOADS = Tile::LOADS, STEP_ROWS = G::THREADS / Tile::ROW_UNITS;
    static_assert(Tile::UNIT == 16 && LOADS * STEP_ROWS == Tile::ROWS, "a thread's loads go over all rows of a tile");

    const Window& window;
    const uint4* x;
    uint32_t to, row;
    // The first pixel under this thread's tap, and its unit; whether there is such a tap.
    int32_t tap_w, tap_h, tap_d, unit;
    bool exists;
    // The output of the next load, and what leads to the one after it.
    Output output;
    const Output step;

    // Channels of taps from `first` on, of `columns`; outputs from `first_k` on.
    __device__ __forceinline__ PixelsOfTaps(const void* x_, const Window& window_, uint32_t first, uint32_t columns, uint32_t first_k)
        : window(window_), x(static_cast<const uint4*>(x_)), row(threadIdx.x / Tile::ROW_UNITS), output(window_, first_k + row),
          step(window_, STEP_ROWS) {
        const uint32_t byte = threadIdx.x % Tile::ROW_UNITS * Tile::UNIT;
        to = Tile::offset(row, byte);
        const uint32_t column = first + byte / sizeof(typename G::Element);
        exists = column < columns;
        const uint32_t tap = column / window.channels, line = tap / window.w.taps, plane = line / window.h.taps;
        tap_w = window.w.first + static_cast<int32_t>(tap - line * window.w.taps) * window.w.dilation;
        tap_h = window.h.first + static_cast<int32_t>(line - plane * window.h.taps) * window.h.dilation;
        tap_d = window.d.first + static_cast<int32_t>(plane) * window.d.dilation;
        unit = static_cast<int32_t>((column - tap * window.channels) / UNIT_CHANNELS<G>);
    }

    // Starts copies of the current tile into `stage`. All of them are STEP_ROWS outputs apart, the first of the next tile too.
    __device__ __forceinline__ void copy(uint32_t stage, uint32_t left) {
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const int32_t w = static_cast<int32_t>(output.w) * window.w.stride + tap_w;
            const int32_t h = static_cast<int32_t>(output.h) * window.h.stride + tap_h;
            const int32_t d = static_cast<int32_t>(output.d) * window.d.stride + tap_d;
            const bool inside = exists && row + load * STEP_ROWS < left && is_inside(w, window.w) && is_inside(h, window.h) &&
                                is_inside(d, window.d);
            const int32_t plane = static_cast<int32_t>(output.image) * window.d.extent + d;
            const int32_t at = ((plane * window.h.extent + h) * window.w.extent + w) * window.pitch + unit;
            ptx::copy_async<Tile::UNIT>(Tile::at(stage + to, Tile::Loader::step(load)), x + at, inside ? Tile::UNIT : 0);
            next();
        }
    }

    // `copy` has gone on already.
    __device__ __forceinline__ void advance() const {}

    __device__ static __forceinline__ bool is_inside(int32_t pixel, const Axis& axis) {
        return static_cast<uint32_t>(pixel) < static_cast<uint32_t>(axis.extent);
    }

    // Adds `step` digit by digit.
    __device__ __forceinline__ void next() {
        output.w += step.w;
        output.h += step.h;
        output.d += step.d;
        output.image += step.image;
        if (output.w >= window.w.outputs) {
            output.w -= window.w.outputs;
            ++output.h;
        }
        if (output.h >= window.h.outputs) {
            output.h -= window.h.outputs;
            ++output.d;
        }
        if (output.d >= window.d.outputs) {
            output.d -= window.d.outputs;
            ++output.image;
        }
    }
};

template <typename G>
__device__ __forceinline__ void weights(const typename G::Element* gradient, const typename G::Element* x, const Window& window,
                                        const typename G::Destination& to, const gemm_mma::Problem& problem) {
    const typename G::Place at = G::place(problem);
    const uint32_t first_k = at.slab * problem.slab_k;
    typename G::TileA::Loader load_a(gradient, problem.pitch_a, at.m, problem.m, first_k);
    PixelsOfTaps<G> load_b(x, window, at.n, problem.n, first_k);
    G::run(load_a, load_b, to, problem, typename G::DenseRows{problem.n}, at);
}

}  // namespace convolution_mma

// ---- Instances ----

// Defines kernel NAME; further arguments are Gemm's from BLOCK_M to STAGES. `wide`: D is f32.
#define CONVOLUTION_WEIGHTS_MMA(NAME, T, MIN_BLOCKS, ...)                                                                       \
    using NAME##_t = CONVOLUTION_MMA_GEMM(T, MN, MN, __VA_ARGS__);                                                              \
    extern "C" __global__ void __launch_bounds__(NAME##_t::THREADS, MIN_BLOCKS)                                                 \
        NAME(const gemm_mma::T::Element* gradient, const gemm_mma::T::Element* x, void* d, uint32_t wide, uint32_t m,           \
             uint32_t n, uint32_t k, uint32_t slab_k, CONVOLUTION_MMA_AXIS(w), CONVOLUTION_MMA_AXIS(h),                         \
             CONVOLUTION_MMA_AXIS(d), uint32_t channels, uint32_t span, uint32_t pitch, int64_t gradient_pitch) {               \
        const gemm_mma::Problem problem = {gradient_pitch, 0, 0, 0, m, n, k, 1, slab_k};                                        \
        const convolution_mma::Window window = {CONVOLUTION_MMA_AXIS_OF(w), CONVOLUTION_MMA_AXIS_OF(h),                         \
                                                CONVOLUTION_MMA_AXIS_OF(d), channels, span, int32_t(pitch)};                    \
        convolution_mma::weights<NAME##_t>(gradient, x, window, {d, wide, 1.0f, 0.0f, nullptr, 0, 0, nullptr, 0}, problem);     \
    }
