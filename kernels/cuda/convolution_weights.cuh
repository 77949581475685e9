// The gradient of a convolution's weights on Hopper's tensor cores (sm_90a): sums of slabs of outputs, which splitk.cu adds up.
//
// Computes      partial[slab, k, t, c] = sum over the slab's outputs o of dy[o, k] x[pixel(o, t), c]: dy [outputs, filters], x [images, h,
//               w, channels], partial [slabs, filters, taps, channels], f32. Of one slab dw [filters, taps, channels], rounded, where that
//               is given.
// Algorithm     Persistent blocks walk over tiles of all slabs. 1. one warp loads dy by TMA, another pixels of x in im2col mode; 2.
//               consumer warpgroups multiply: both operands lie along their rows (MN-major); 3. sums leave from registers.
// Tiling        BLOCK_M filters x BLOCK_N / 64 units x 64 outputs a stage. A unit is 64 channels of one tap; a tile's are of several
//               taps where channels are few, and share dy.
// Mapping       As in gemm_wgmma.cuh.
// Shared memory STAGES x (dy, x), each in columns of 64 that are 64 outputs deep, swizzled by 128 bytes; two barriers a stage.
// Traffic       2 outputs filters taps channels operations; (BLOCK_M + BLOCK_N) x outputs elements read a tile, partial written once.
// Numerics      f32 accumulators, outputs in ascending order; slabs are added in theirs: the same bits on every run.
// Requires      As convolution.cuh; filters and channels multiples of 8.
// Measured      docs/convolution.md, with what repeats it.
// References    PTX ISA 8.x, "Im2col mode".
#pragma once
#include "convolution.cuh"

namespace polywarp::convolution {

// Where units and slabs lie.
struct Units {
    // Channels, blocks of 64 of them, its inverse, taps in a row and its inverse.
    uint32_t channels, blocks, blocks_inverse, taps_w, taps_w_inverse;
    // Units of all taps.
    uint32_t count;
};

struct Unit {
    uint32_t tap, channel;
};

__device__ __forceinline__ Unit unit_at(const Units& units, uint32_t number) {
    const uint32_t tap = divided(number, units.blocks, units.blocks_inverse);
    return {tap, (number - tap * units.blocks) * 64};
}

template <typename C>
__device__ __forceinline__ void run_weights(const CUtensorMap* map_a, const CUtensorMap* map_b, float* partial, typename C::A* dw,
                                            const Problem& problem, const Window& window, const Units& units) {
    using T = typename C::A;
    using Multiply = Mainloop<C>;
    constexpr uint32_t PRODUCER = 56, CONSUMER = C::CONSUMERS == 3 ? 152 : 224;
    static_assert(C::CLUSTER == 1 && !C::PING_PONG && C::BLOCK_K == 64);
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
    const uint32_t all = C::tile_count(problem);
    ptx::wait_for_previous_kernels();
    Position<C::STAGES> at;
    if (warpgroup == 0) {
        if constexpr (C::CONSUMERS > 1) {
            ptx::give_registers<PRODUCER>();
        }
        if (warp < CONVOLUTION_LOADERS) {
            const bool leads = ptx::elected();
            for (Tiles<C> tiles(problem, no_groups, blockIdx.x, gridDim.x, 0, all); tiles.any(); tiles.next()) {
                const Tile tile = tiles.at();
                const Range range = C::k_tiles(problem, tile, 0);
                // This tile's units; those behind the last are the last again, and not stored.
                uint32_t channels[C::COLUMNS_B], offsets_w[C::COLUMNS_B], offsets_h[C::COLUMNS_B];
#pragma unroll
                for (int i = 0; i < C::COLUMNS_B; ++i) {
                    const Unit unit = unit_at(units, min(tile.n / C::COLUMN + i, units.count - 1));
                    const uint32_t row = divided(unit.tap, units.taps_w, units.taps_w_inverse);
                    channels[i] = unit.channel;
                    offsets_w[i] = (unit.tap - row * units.taps_w) * window.dilation_w;
                    offsets_h[i] = row * window.dilation_h;
                }
#pragma unroll 1
                for (uint32_t i = range.first; i < range.first + range.count; ++i) {
                    const uint32_t stage = base + at.stage * C::STAGE_BYTES, barrier = full + at.stage * 8;
                    ptx::barrier_wait(empty + at.stage * 8, at.phase ^ 1);
                    if (leads && warp == 0) {
                        ptx::barrier_arrive_expect(barrier, C::A_BYTES);
#pragma unroll
                        for (int column = 0; column < C::COLUMNS_A; ++column) {
                            ptx::load_tile(stage + column * C::COLUMN_BYTES, map_a, barrier, tile.m + column * C::COLUMN,
                                           i * C::BLOCK_K, 0);
                        }
                    } else if (leads) {
                        const Output output = output_at(window, i * C::BLOCK_K);
                        const int w = static_cast<int>(output.column) * window.stride_w + window.first_w;
                        const int h = static_cast<int>(output.row) * window.stride_h + window.first_h;
                        ptx::barrier_arrive_expect(barrier, C::B_LOADED_BYTES);
#pragma unroll
                        for (int column = 0; column < C::COLUMNS_B; ++column) {
                            ptx::load_pixels(stage + C::A_BYTES + column * C::COLUMN_BYTES, map_b, barrier, channels[column], w, h,
                                             output.image, offsets_w[column], offsets_h[column]);
                        }
                    }
                    at.advance();
                }
            }
        }
        __syncwarp();
    } else {
        if constexpr (C::CONSUMERS > 1) {
            ptx::take_registers<CONSUMER>();
        }
        const uint32_t consumer = warpgroup - 1, lane = thread % 32;
        const uint32_t warpgroup_row = consumer * C::WARPGROUP_M;
        for (Tiles<C> tiles(problem, no_groups, blockIdx.x, gridDim.x, 0, all); tiles.any(); tiles.next()) {
            const Tile tile = tiles.at();
            typename Multiply::Sums sums;
            Multiply::multiply_tile(sums, true, C::k_tiles(problem, tile, 0).count, base, full, empty, at, warpgroup_row, thread, 0);
#pragma unroll
            for (int half = 0; half < 2 * C::SLABS; ++half) {
                const uint32_t row = tile.m + warpgroup_row + warp * 16 + lane / 4 + half / 2 * SLAB_M + half % 2 * 8;
#pragma unroll
                for (int i = 0; i < C::COLUMNS_B; ++i) {
                    const uint32_t number = tile.n / C::COLUMN + i;
                    const Unit unit = unit_at(units, number);
                    const uint32_t channel = unit.channel + lane % 4 * 2;
                    const int64_t at = tile.layer * problem.batch_stride + row * problem.row_stride + unit.tap * units.channels + channel;
                    if (row < problem.m && number < units.count) {
#pragma unroll
                        for (int eight = 0; eight < 8; ++eight) {
                            if (channel + eight * 8 < units.channels) {
                                const float* x = &sums[half / 2][(i * 8 + eight) * 4 + half % 2 * 2];
                                if (dw != nullptr) {
                                    *reinterpret_cast<Two<T>*>(dw + at + eight * 8) = {polywarp::from_compute<T>(x[0]),
                                                                                       polywarp::from_compute<T>(x[1])};
                                } else {
                                    *reinterpret_cast<Two<float>*>(partial + at + eight * 8) = {x[0], x[1]};
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

}  // namespace polywarp::convolution

// One kernel. `row_stride`, `slab_stride`: elements of a filter and of a slab.
#define CONVOLUTION_WEIGHTS(SYMBOL, T, BLOCK_M, BLOCK_N, STAGES, CONSUMERS)                                               \
    using SYMBOL##_t =                                                                                                    \
        polywarp::gemm_wgmma::Config<T, T, float, BLOCK_M, BLOCK_N, STAGES, polywarp::gemm_wgmma::Schedule::COOPERATIVE,  \
                                     CONSUMERS, 1, 1, 1, ptx::Major::MN, ptx::Major::MN,                                  \
                                     polywarp::gemm_wgmma::Kind::MATRICES>;                                               \
    extern "C" __global__ void __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                                          \
        const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float* partial, T* dw,     \
        uint32_t m, uint32_t k, uint32_t tiles_m, uint32_t tiles_n, uint32_t slabs, uint32_t slab_tiles, uint32_t raster,             \
        uint32_t layer_inverse, uint32_t band_inverse, uint32_t raster_inverse, uint32_t last_inverse, uint32_t columns,  \
        uint32_t pixels, uint32_t columns_inverse, uint32_t pixels_inverse, uint32_t first_w, uint32_t first_h,           \
        uint32_t stride_w, uint32_t stride_h, uint32_t dilation_w, uint32_t dilation_h, uint32_t channels,                \
        uint32_t blocks, uint32_t blocks_inverse, uint32_t taps_w, uint32_t taps_w_inverse, uint32_t units,               \
        int64_t row_stride, int64_t slab_stride) {                                                                        \
        const polywarp::gemm_wgmma::Problem problem = {                                                                   \
            m, units * 64, k, tiles_m, tiles_n, 1, slabs, slab_tiles, raster, layer_inverse, band_inverse,                \
            raster_inverse, last_inverse, 0, 0, 0, 0, row_stride, 1, slab_stride};                                        \
        const auto number = [](uint32_t word) { return static_cast<int32_t>(word); };                                     \
        const polywarp::convolution::Window window = {                                                                    \
            columns, pixels, columns_inverse, pixels_inverse, number(first_w), number(first_h), number(stride_w),         \
            number(stride_h), taps_w, number(dilation_w), number(dilation_h), blocks, 0, 1, 0};                           \
        const polywarp::convolution::Units all = {channels, blocks, blocks_inverse, taps_w, taps_w_inverse, units};       \
        polywarp::convolution::run_weights<SYMBOL##_t>(&map_a, &map_b, partial, dw, problem, window, all);                \
    }
