// Skinny products in 16 bits for 5..16 vectors: W streamed once through warp-level tensor cores (mma.sync).
//
// Computes: what gemv.cuh does, for f16 and bf16, for as many vectors as SIXTEEN says (8 or 16); the same arguments.
// Algorithm: `DotMma` (W K-major): 1 a warp takes 16 rows of W as the 16 rows of the product and the vectors as its columns.
//   Sums do not care for the order of k, so lane (g, c) loads 16 bytes along K of row g, as 8 neighbours k of its own, and uses
//   them as the pairs (2c, 2c+1), (2c+8, 2c+9) of two products; X is loaded in the same way. `ColumnsMma` (W dense along l): the
//   vectors are the 16 rows; lane (g, c) loads COLUMNS neighbouring columns of four rows k, pairs neighbours k by byte
//   permutes, and uses column q of them as column g of product q. 2 warps split K and are added through smem in order.
//   3 epilogue.
// Tiling: `DotMma` TILES * 16 rows of W a block; `ColumnsMma` 8 * COLUMNS columns; WARPS warps along K.
// Mapping: grid (l blocks * batches, slabs).
// Shared memory: [WARPS][outputs of the block] f32, at most 48 KiB.
// Traffic: W once; X from L1, once a block.
// Numerics: products exact, sums f32 in the tensor core's order; fixed, so bitwise repeatable.
// Requires: sm_80; W, X, pitches and batch strides multiples of 16 bytes where ALIGNED. k_per_slab a multiple of 16.
// Measured: H200, 2026-11-21, f16, W 16384 x 16384, TB/s of W (cuBLAS 13.0 in brackets): `DotMma` 8 vectors 3.42, 16 3.79 (4.31),
//   any address 2.59; `ColumnsMma` with 8 columns 8 vectors 3.58 (4.36), 16 not measured with 8 warps. 4096 x 4096: 15.0 us
//   (13.5), 20.9 us (13.8).
// References: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
#pragma once

#include <type_traits>

#include "gemv.cuh"
#include "ptx/mma.cuh"

namespace polywarp::gemv {

template <class T>
__device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  if constexpr (std::is_same_v<T, __half>) {
    ptx::mma_f16(d, a, b);
  } else {
    ptx::mma_bf16(d, a, b);
  }
}

// Phases 2 and 3: `sums` of all warps are written; adds them and stores output `at` = s * ROWS_L + l of the block.
template <class Out, int WARPS, int VECTORS, int ROWS_L>
__device__ __forceinline__ void finish(const float (&sums)[WARPS][VECTORS][ROWS_L], const Arguments& p,
                                       const Epilogue<Out>& epilogue, const Place& place) {
  __syncthreads(); // every warp's sums are written
  for (int at = threadIdx.x; at < VECTORS * ROWS_L; at += WARPS * 32) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < WARPS; ++i) total += sums[i][at / ROWS_L][at % ROWS_L];
    store(p, epilogue, place, ROWS_L, place.block * ROWS_L + at % ROWS_L, at / ROWS_L, total);
  }
}

template <class T, class Out, bool SIXTEEN, int TILES, int WARPS, bool ALIGNED>
struct DotMma {
  static constexpr int GROUPS = SIXTEEN ? 2 : 1, VECTORS = 8 * GROUPS, ROWS_L = 16 * TILES;
  static constexpr int STEP = 64, UNROLL = STEP / 32; // a warp's k at a time: 128 bytes of each row

  static __device__ __forceinline__ void run(const Arguments& p, const Epilogue<Out>& epilogue) {
    __shared__ float sums[WARPS][VECTORS][ROWS_L];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const Place place = place_of(p, ROWS_L);
    const uint32_t first = place.block * ROWS_L;

    // Rows and vectors beyond the last repeat it; their sums are not stored.
    const T* w[2 * TILES];
    const T* x[GROUPS];
#pragma unroll
    for (int r = 0; r < 2 * TILES; ++r) {
      w[r] = static_cast<const T*>(p.w) + place.batch * p.batch_stride_w + min(first + g + 8 * r, p.l - 1) * p.ldw;
    }
#pragma unroll
    for (int q = 0; q < GROUPS; ++q) {
      x[q] = static_cast<const T*>(p.x) + place.batch * p.batch_stride_x + min(uint32_t(g + 8 * q), p.s - 1) * p.ldx;
    }

    // Phase 1.
    float sum[TILES][GROUPS][4] = {};
#pragma unroll(ALIGNED ? 2 : 1)
    for (uint32_t k = place.begin + warp * STEP; k < place.end; k += WARPS * STEP) {
      Words<4> left[UNROLL][2 * TILES], right[UNROLL][GROUPS];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const uint32_t at = k + u * 32 + c * 8;
        const int bytes = at < place.end ? static_cast<int>(min(place.end - at, 8u)) * 2 : 0;
#pragma unroll
        for (int r = 0; r < 2 * TILES; ++r) left[u][r] = load<4, ALIGNED>(w[r] + at, bytes);
#pragma unroll
        for (int q = 0; q < GROUPS; ++q) right[u][q] = load<4, ALIGNED>(x[q] + at, bytes);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
#pragma unroll
          for (int q = 0; q < GROUPS; ++q) {
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
              mma<T>(sum[t][q], left[u][2 * t].word[half], left[u][2 * t + 1].word[half], left[u][2 * t].word[half + 1],
                     left[u][2 * t + 1].word[half + 1], right[u][q].word[half], right[u][q].word[half + 1]);
            }
          }
        }
      }
    }

#pragma unroll
    for (int t = 0; t < TILES; ++t) {
#pragma unroll
      for (int q = 0; q < GROUPS; ++q) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[warp][8 * q + 2 * c + i % 2][16 * t + g + i / 2 * 8] = sum[t][q][i];
      }
    }
    finish<Out, WARPS, VECTORS, ROWS_L>(sums, p, epilogue, place);
  }
};

template <class T, class Out, bool SIXTEEN, int COLUMNS, int WARPS, bool ALIGNED>
struct ColumnsMma {
  static constexpr int VECTORS = SIXTEEN ? 16 : 8, ROWS_L = 8 * COLUMNS, WORDS = COLUMNS / 2;
  static constexpr int STEP = 16;

  static __device__ __forceinline__ void run(const Arguments& p, const Epilogue<Out>& epilogue) {
    __shared__ float sums[WARPS][VECTORS][ROWS_L];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const Place place = place_of(p, ROWS_L);
    const uint32_t column = place.block * ROWS_L + g * COLUMNS;
    const int bytes = column < p.l ? static_cast<int>(min(p.l - column, uint32_t{COLUMNS})) * 2 : 0;
    const T* w = static_cast<const T*>(p.w) + place.batch * p.batch_stride_w + column;
    const T* x[2];
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      x[q] = static_cast<const T*>(p.x) + place.batch * p.batch_stride_x + min(uint32_t(g + 8 * q), p.s - 1) * p.ldx;
    }

    // Phase 1.
    float sum[COLUMNS][4] = {};
#pragma unroll(ALIGNED ? 2 : 1)
    for (uint32_t k = place.begin + warp * STEP; k < place.end; k += WARPS * STEP) {
      const uint32_t at = k + c * 4;
      const int count = at < place.end ? static_cast<int>(min(place.end - at, 4u)) : 0;
      Words<WORDS> row[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) row[i] = load<WORDS, ALIGNED>(w + (at + i) * p.ldw, i < count ? bytes : 0);
      Words<2> vector[2] = {load<2, ALIGNED>(x[0] + at, 2 * count), {}};
      if constexpr (SIXTEEN) vector[1] = load<2, ALIGNED>(x[1] + at, 2 * count);
#pragma unroll
      for (int q = 0; q < COLUMNS; ++q) {
        const uint32_t selector = q % 2 == 0 ? 0x5410 : 0x7632; // element q of two rows
        const uint32_t low = __byte_perm(row[0].word[q / 2], row[1].word[q / 2], selector);
        const uint32_t high = __byte_perm(row[2].word[q / 2], row[3].word[q / 2], selector);
        mma<T>(sum[q], vector[0].word[0], vector[1].word[0], vector[0].word[1], vector[1].word[1], low, high);
      }
    }

#pragma unroll
    for (int q = 0; q < COLUMNS; ++q) {
#pragma unroll
      for (int i = 0; i < (SIXTEEN ? 4 : 2); ++i) sums[warp][g + i / 2 * 8][(2 * c + i % 2) * COLUMNS + q] = sum[q][i];
    }
    finish<Out, WARPS, VECTORS, ROWS_L>(sums, p, epilogue, place);
  }
};

} // namespace polywarp::gemv

#define GEMV_DOT_MMA(NAME, T, OUT, SCALAR, SIXTEEN, TILES, WARPS, ALIGNED)                                                             \
  using NAME##_kernel = polywarp::gemv::DotMma<T, OUT, SIXTEEN, TILES, WARPS, ALIGNED>;                                          \
  extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) NAME(GEMV_ARGUMENTS(T, OUT, SCALAR)) { GEMV_RUN(NAME##_kernel, OUT); }

#define GEMV_COLUMNS_MMA(NAME, T, OUT, SCALAR, SIXTEEN, COLUMNS, WARPS, ALIGNED)                                                \
  using NAME##_kernel = polywarp::gemv::ColumnsMma<T, OUT, SIXTEEN, COLUMNS, WARPS, ALIGNED>;                                   \
  extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) NAME(GEMV_ARGUMENTS(T, OUT, SCALAR)) { GEMV_RUN(NAME##_kernel, OUT); }
