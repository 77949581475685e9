// Convolutions on Hopper's tensor cores (sm_90a) as matrix products of pixels and filters: pixels arrive by TMA in im2col mode.
//
// Computes      D[o, k] = activation(sum + beta C[o, k] + bias[k]), the sum being that of x[pixel(o, t), c] w[k, t, c] over taps t and
//               channels c: x [images, h, w, channels], w [filters, taps, channels], D [outputs, filters], an output o = (image, p, q).
//               OF_FILTERS (weights MN-major): the same with w[c, t, k], which is what the gradient of a convolution's input is: x is
//               the gradient of y there, c its filters, k its channels; D's pixels may lie apart, for the outputs of one remainder of
//               a stride. Of i8 the sum is exact, and multiplied with scale_x[0], then scale_w[k], before what follows.
// Algorithm     That of gemm_wgmma.cuh, whose tiles, main loop, epilogue and stores it has: only loads differ. K runs over taps, and in
//               each tap over blocks of channels. Pixels that lie apart leave by plain stores of 16 bytes, a row of D a time.
// Tiling        BLOCK_M outputs x BLOCK_N filters x 128 bytes of a tap's channels a stage: 64 of 16 bits, 128 of i8. No clusters: two blocks that shared weights took up to
//               a fifth longer (docs/convolution.md).
// Mapping       gemm_wgmma.cuh.
// Shared memory gemm_wgmma.cuh.
// Traffic       2 outputs filters taps channels operations; a tile reads (BLOCK_M + BLOCK_N) x taps x channels, from the
//               second-level cache but for the first of a pixel's taps.
// Numerics      f32 accumulators, taps then channels in ascending order (OF_FILTERS: taps descend): the same bits on every run. Padding
//               is zeros, which are multiplied: an infinite weight gives NaN there. So do infinite weights of channels only. i8: i32
//               accumulators; scales, C, bias and activation in f32, then one rounding.
// Requires      sm_90a; bases of all operands and pitches of pixels and taps multiples of 16 bytes; corners of windows within
//               [-128, 127], taps within 255 pixels of the first, strides up to 8. D is dense, or its pixels lie apart; OF_FILTERS: its
//               base and rows are multiples of 16 bytes. Maps of x and of weights count pairs of bytes, those of i8 too.
// Measured      docs/convolution.md, with what repeats it.
// References    PTX ISA 8.x, "Im2col mode".
// Next          convolution_weights.cuh: the gradient of the weights.
#pragma once
#include "gemm_wgmma_mainloop.cuh"
#include "gemm_wgmma_store.cuh"
#include "gemm_wgmma_tiles.cuh"
#include "ptx/tma_im2col.cuh"

namespace polywarp::convolution {

using namespace gemm_wgmma;

// Warps of the producer warpgroup that load: the first pixels, the second weights.
constexpr uint32_t CONVOLUTION_LOADERS = 2;
// A stage's row as maps of pixels and of weights count it, in pairs of bytes: a channel of 16 bits, or two of i8. So what makes channels of
// taps (convolution_fold.cu) serves both.
constexpr int BLOCK_PAIRS = ptx::SWIZZLE_ROW_BYTES / 2;
// Numbers of barriers among warps: of consumer 0; the next is that of consumer 1.
constexpr uint32_t CONSUMER_TURN = 2;

// Which pixels a tile reads, and which taps.
struct Window {
    // Outputs in a row and in an image, and their inverses (`divided`).
    uint32_t columns, pixels, columns_inverse, pixels_inverse;
    // The first pixel under the first output's first tap, and what leads to that of the next output.
    int32_t first_w, first_h, stride_w, stride_h;
    // Taps in a row, what leads from one to the next, in pixels, and blocks of channels.
    uint32_t taps_w;
    int32_t dilation_w, dilation_h;
    uint32_t blocks;
    // The number of the first tap among the weights', and what leads to the next in a row and to the next row's.
    int32_t tap, tap_w, tap_h;
};

// D's outputs where they lie apart: elements from image to image, row to row and output to output.
struct Places {
    uint32_t apart;
    int64_t image, row, column;
};

struct Output {
    uint32_t image, row, column;
};

__device__ __forceinline__ Output output_at(const Window& window, uint32_t number) {
    const uint32_t image = divided(number, window.pixels, window.pixels_inverse), rest = number - image * window.pixels;
    const uint32_t row = divided(rest, window.columns, window.columns_inverse);
    return {image, row, rest - row * window.columns};
}

// Where a loader stands in K.
struct Step {
    uint32_t block = 0, tap = 0;
    // The first channel, counted as maps do.
    int32_t channel = 0;
    int32_t w = 0, h = 0, number;

    __device__ __forceinline__ explicit Step(const Window& window) : number(window.tap) {}

    __device__ __forceinline__ void next(const Window& window) {
        channel += BLOCK_PAIRS;
        if (++block == window.blocks) {
            block = 0;
            channel = 0;
            w += window.dilation_w;
            number += window.tap_w;
            if (++tap == window.taps_w) {
                tap = 0;
                w = 0;
                h += window.dilation_h;
                number += window.tap_h - static_cast<int32_t>(window.taps_w) * window.tap_w;
            }
        }
    }
};

// Phase 1.
template <typename C>
struct Loads {
    static constexpr bool OF_FILTERS = C::MAJOR_B == Major::MN;
    static_assert(C::CLUSTER == 1 && C::MAJOR_A == Major::K && (sizeof(typename C::A) == 2 || (C::SCALED && !OF_FILTERS)));

    __device__ static __forceinline__ void load_pixels(const CUtensorMap* map, const Window& window, const Tile& tile, uint32_t count,
                                                       uint32_t base, uint32_t full, uint32_t empty, Position<C::STAGES>& at) {
        const bool leads = ptx::elected();
        const Output output = output_at(window, tile.m);
        const int w = static_cast<int>(output.column) * window.stride_w + window.first_w;
        const int h = static_cast<int>(output.row) * window.stride_h + window.first_h;
        Step step(window);
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            ptx::barrier_wait(empty + at.stage * 8, at.phase ^ 1);
            if (leads) {
                const uint32_t barrier = full + at.stage * 8;
                ptx::barrier_arrive_expect(barrier, C::A_BYTES);
                ptx::load_pixels(base + at.stage * C::STAGE_BYTES, map, barrier, step.channel, w, h, output.image, step.w, step.h);
            }
            at.advance();
            step.next(window);
        }
    }

    __device__ static __forceinline__ void load_weights(const CUtensorMap* map, const Window& window, const Tile& tile, uint32_t count,
                                                        uint32_t base, uint32_t full, uint32_t empty, Position<C::STAGES>& at) {
        const bool leads = ptx::elected();
        Step step(window);
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            ptx::barrier_wait(empty + at.stage * 8, at.phase ^ 1);
            if (leads) {
                const uint32_t barrier = full + at.stage * 8, to = base + at.stage * C::STAGE_BYTES + C::A_BYTES;
                ptx::barrier_arrive_expect(barrier, C::B_LOADED_BYTES);
                if constexpr (OF_FILTERS) {
#pragma unroll
                    for (int column = 0; column < C::COLUMNS_B; ++column) {
                        ptx::load_tile(to + column * C::COLUMN_BYTES, map, barrier, tile.n + column * C::COLUMN, step.number,
                                       step.channel);
                    }
                } else {
                    ptx::load_tile(to, map, barrier, step.channel, step.number, tile.n);
                }
            }
            at.advance();
            step.next(window);
        }
    }
};

// Phase 4 for outputs that lie apart: 16 bytes a lane, a warp's chunks of 16 rows one after the other.
template <typename C>
struct Apart {
    using Out = typename C::Out;
    using Sums = typename Mainloop<C>::Sums;
    static constexpr uint32_t UNIT_N = 16 / sizeof(Out), UNITS = C::CHUNK_N / UNIT_N, ROWS = 32 / UNITS;
    // Rows of a chunk that a lane has.
    static constexpr uint32_t OWN = 16 / ROWS;

    // This lane's rows in D, from the tile's first column on; null outside.
    struct Rows {
        Out* at[OWN];

        __device__ __forceinline__ Rows(Out* d, const Problem& problem, const Window& window, const Places& places, const Tile& tile,
                                        uint32_t row, uint32_t lane) {
#pragma unroll
            for (uint32_t i = 0; i < OWN; ++i) {
                const uint32_t number = row + lane / UNITS + i * ROWS;
                const Output output = output_at(window, number);
                Out* const to = d + output.image * places.image + output.row * places.row + output.column * places.column;
                at[i] = number < problem.m ? to + tile.n : nullptr;
            }
        }
    };

    // Sums by way of shared memory.
    __device__ static __forceinline__ void store(const Sums& sums, Out* d, uint8_t* staged, uint32_t staging, const Problem& problem,
                                                 const Window& window, const Places& places, const Tile& tile, uint32_t first_row,
                                                 uint32_t lane) {
        const uint32_t unit = lane % UNITS;
#pragma unroll
        for (int slab = 0; slab < C::SLABS; ++slab) {
            const Rows rows(d, problem, window, places, tile, tile.m + first_row + slab * SLAB_M, lane);
#pragma unroll
            for (int chunk = 0; chunk < C::CHUNKS; ++chunk) {
                __syncwarp();
#pragma unroll
                for (int part = 0; part < C::CHUNK_N / 16; ++part) {
                    Store<C>::stage(&sums[slab][chunk * C::CHUNK_N / 2 + part * 8], staging, part, lane);
                }
                __syncwarp();
                const uint32_t column = chunk * C::CHUNK_N + unit * UNIT_N;
#pragma unroll
                for (uint32_t i = 0; i < OWN; ++i) {
                    const uint32_t within = lane / UNITS + i * ROWS;
                    const uint8_t* from = staged + within * ptx::SWIZZLE_ROW_BYTES + (unit ^ within % 8) * 16;
                    if (rows.at[i] != nullptr && tile.n + column < problem.n) {
                        *reinterpret_cast<uint4*>(rows.at[i] + column) = *reinterpret_cast<const uint4*>(from);
                    }
                }
            }
        }
        __syncwarp();
    }

    // Zeros, of outputs that no tap reaches.
    __device__ static __forceinline__ void clear(Out* d, const Problem& problem, const Window& window, const Places& places,
                                                 const Tile& tile, uint32_t first_row, uint32_t lane) {
#pragma unroll 1
        for (int slab = 0; slab < C::SLABS; ++slab) {
            const Rows rows(d, problem, window, places, tile, tile.m + first_row + slab * SLAB_M, lane);
#pragma unroll 1
            for (uint32_t column = lane % UNITS * UNIT_N; column < C::BLOCK_N; column += C::CHUNK_N) {
#pragma unroll
                for (uint32_t i = 0; i < OWN; ++i) {
                    if (rows.at[i] != nullptr && tile.n + column < problem.n) {
                        *reinterpret_cast<uint4*>(rows.at[i] + column) = uint4{0, 0, 0, 0};
                    }
                }
            }
        }
    }
};

template <typename C>
__device__ __forceinline__ void run(const CUtensorMap* map_a, const CUtensorMap* map_b, const CUtensorMap* map_d,
                                    typename C::Out* d, const Problem& problem, const typename C::Epilogue& epilogue,
                                    const gemm_wgmma::Scales& scales, const Window& window, const Places& places) {
    using Load = Loads<C>;
    using Multiply = Mainloop<C>;
    using End = Store<C>;
    // Loads of pixels take more than those of matrices.
    constexpr uint32_t PRODUCER = 56, CONSUMER = C::CONSUMERS == 3 ? 152 : 224;
    const Ending<C> ending = {epilogue, scales};
    const Groups no_groups = {};
    extern __shared__ uint8_t shared[];
    const uint32_t base = (ptx::smem_address(shared) + 1023) / 1024 * 1024;
    const uint32_t full = base + C::BARRIERS_AT, empty = full + C::STAGES * 8;
    const uint32_t warpgroup = ptx::uniform(threadIdx.x / WARPGROUP), thread = threadIdx.x % WARPGROUP;
    const uint32_t warp = ptx::uniform(thread / 32);
    if (threadIdx.x == 0) {
        for (uint32_t stage = 0; stage < C::STAGES; ++stage) {
            ptx::barrier_init(full + stage * 8, CONVOLUTION_LOADERS);
            ptx::barrier_init(empty + stage * 8, C::READERS);
        }
        ptx::fence_barrier_init();
    } else if (threadIdx.x == 32) {
        ptx::prefetch_map(map_a);
    } else if (threadIdx.x == 64) {
        ptx::prefetch_map(map_b);
    }
    __syncthreads();
    ptx::let_next_kernel_start();
    const uint32_t all = C::tile_count(problem), count = problem.slab_tiles;
    ptx::wait_for_previous_kernels();
    Position<C::STAGES> at;
    if (warpgroup == 0) {
        if constexpr (C::CONSUMERS > 1) {
            ptx::give_registers<PRODUCER>();
        }
        if (warp == 0) {
            for (Tiles<C> tiles(problem, no_groups, blockIdx.x, gridDim.x, 0, all); tiles.any(); tiles.next()) {
                Load::load_pixels(map_a, window, tiles.at(), count, base, full, empty, at);
            }
        } else if (warp == 1) {
            for (Tiles<C> tiles(problem, no_groups, blockIdx.x, gridDim.x, 0, all); tiles.any(); tiles.next()) {
                Load::load_weights(map_b, window, tiles.at(), count, base, full, empty, at);
            }
        }
        __syncwarp();
    } else {
        if constexpr (C::CONSUMERS > 1) {
            ptx::take_registers<CONSUMER>();
        }
        const uint32_t consumer = warpgroup - 1, lane = thread % 32;
        const uint32_t staging = base + C::STAGES * C::STAGE_BYTES + (consumer * 4 + warp) * C::STAGING_BYTES_EACH;
        uint8_t* const staged = shared + (staging - ptx::smem_address(shared));
        const uint32_t warpgroup_row = C::PING_PONG ? 0 : consumer * C::WARPGROUP_M;
        const uint32_t first_row = warpgroup_row + warp * 16;
        uint32_t number = 0;
        for (Tiles<C> tiles(problem, no_groups, blockIdx.x, gridDim.x, 0, all); tiles.any(); tiles.next(), ++number) {
            const Tile tile = tiles.at();
            if constexpr (Load::OF_FILTERS) {
                if (count == 0) {
                    if (!C::PING_PONG || number % 2 == consumer) {
                        Apart<C>::clear(d, problem, window, places, tile, first_row, lane);
                    }
                    continue;
                }
            }
            // Found before the other consumer waits for it.
            const bool any_next = C::PING_PONG && tiles.any_next();
            if constexpr (C::PING_PONG) {
                if (number % 2 != consumer) {
                    at.skip(count);
                    continue;
                }
                // Until the other consumer has seen all of its stages full.
                if (number > 0) {
                    ptx::named_barrier(CONSUMER_TURN + consumer, 2 * WARPGROUP);
                }
            }
            typename Multiply::Sums sums;
            Multiply::multiply_tile(sums, true, count, base, full, empty, at, warpgroup_row, thread, 0);
            if constexpr (C::PING_PONG) {
                if (any_next) {
                    ptx::named_barrier_arrive(CONSUMER_TURN + (consumer ^ 1), 2 * WARPGROUP);
                }
            }
            if constexpr (!Load::OF_FILTERS) {
                End::finish(sums, map_d, d, staged, staging, ending, problem, tile, first_row, lane);
            } else if (places.apart) {
                Apart<C>::store(sums, d, staged, staging, problem, window, places, tile, first_row, lane);
            } else {
                End::store_chunks(sums, map_d, d, staged, staging, problem, tile, first_row, lane);
            }
        }
        if (ptx::elected()) {
            ptx::wait_stores_read<0>();
        }
        __syncwarp();
    }
}

}  // namespace polywarp::convolution

// ---- Instances ----

// One kernel: operands of IN, D of OUT, SCALES of MORE, which are parameters behind those that all have. Words of `Window`, which may be
// negative, come as they are.
#define CONVOLUTION_KERNEL(SYMBOL, IN, OUT, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS, B_MAJOR, SCALES, MORE)         \
    using SYMBOL##_t =                                                                                                    \
        polywarp::gemm_wgmma::Config<IN, IN, OUT, BLOCK_M, BLOCK_N, STAGES, polywarp::gemm_wgmma::Schedule::SCHEDULE,     \
                                     CONSUMERS, 1, 1, 1, ptx::Major::K, ptx::Major::B_MAJOR,                              \
                                     polywarp::gemm_wgmma::Kind::MATRICES>;                                               \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,                             \
        const __grid_constant__ CUtensorMap map_d, OUT* d, uint32_t m, uint32_t n, uint32_t tiles_m, uint32_t tiles_n,    \
        uint32_t steps, uint32_t raster, uint32_t layer_inverse, uint32_t band_inverse, uint32_t raster_inverse,          \
        uint32_t last_inverse, uint32_t columns, uint32_t pixels, uint32_t columns_inverse, uint32_t pixels_inverse,      \
        uint32_t first_w, uint32_t first_h, uint32_t stride_w, uint32_t stride_h, uint32_t taps_w, uint32_t dilation_w,   \
        uint32_t dilation_h, uint32_t blocks, uint32_t tap, uint32_t tap_w, uint32_t tap_h, uint32_t store_by_tma,        \
        uint32_t apart, int64_t image_stride, int64_t row_stride, int64_t column_stride, float beta, const OUT* c,        \
        int64_t ldc, const OUT* bias, uint32_t activation MORE) {                                                         \
        const polywarp::gemm_wgmma::Problem problem = {                                                                   \
            m, n, steps * SYMBOL##_t::BLOCK_K, tiles_m, tiles_n, 1, 1, steps, raster, layer_inverse, band_inverse,        \
            raster_inverse, last_inverse, 0, 0, store_by_tma, 0, n, 1, 0};                                                \
        const auto number = [](uint32_t word) { return static_cast<int32_t>(word); };                                     \
        const polywarp::convolution::Window window = {                                                                    \
            columns, pixels, columns_inverse, pixels_inverse, number(first_w), number(first_h), number(stride_w),         \
            number(stride_h), taps_w, number(dilation_w), number(dilation_h), blocks, number(tap), number(tap_w),         \
            number(tap_h)};                                                                                               \
        const polywarp::convolution::Places places = {apart, image_stride, row_stride, column_stride};                    \
        const SYMBOL##_t::Epilogue epilogue(1.0f, beta, c, ldc, 0, bias, activation);                                     \
        const polywarp::gemm_wgmma::Scales scales = SCALES;                                                               \
        polywarp::convolution::run<SYMBOL##_t>(&map_a, &map_b, &map_d, d, problem, epilogue, scales, window, places);     \
    }

#define CONVOLUTION(SYMBOL, T, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS, B_MAJOR) \
    CONVOLUTION_KERNEL(SYMBOL, T, T, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS, B_MAJOR, {}, )
// A convolution of i8: what a step of x is worth, and one of each filter.
#define CONVOLUTION_COMMA ,
#define CONVOLUTION_SCALED(SYMBOL, OUT, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS)                                    \
    CONVOLUTION_KERNEL(SYMBOL, int8_t, OUT, BLOCK_M, BLOCK_N, STAGES, SCHEDULE, CONSUMERS, K,                             \
                       (polywarp::gemm_wgmma::Scales{scale_x, 0, 0, scale_w, scale_w_stride, 0}),                         \
                       CONVOLUTION_COMMA const float* scale_x CONVOLUTION_COMMA const float* scale_w CONVOLUTION_COMMA    \
                           int64_t scale_w_stride)
