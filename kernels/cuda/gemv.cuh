// Skinny products: a large operand W streamed once past at most 16 vectors X; with one vector, GEMV.
//
// Computes: sum[s, l] = sum_k X[s, k] W[l, k], then the epilogue, for S vectors (template; the real count may be less).
//   x_is_a 1: X is A, D[m = s, n = l] (few rows). x_is_a 0: X is B^T, D[m = l, n = s] (few columns). X has rows along K.
//   W "K-major": element (l, k) at l * ldw + k (`dot`); else at k * ldw + l (`columns`). With several slabs of K (grid.y) slab y
//   writes its own D + y * batches * m * n, in the type of the sums (`wide`), and splitk.cu ends the work.
// Algorithm: `dot`: 1 a warp streams ROWS rows of W by 16 bytes a lane, each multiplied with the same piece of X from L1;
//   2 lanes are added by shuffles. `columns`: 1 each thread owns 16 bytes of columns and every so many groups of four k;
//   2 shuffles add lanes of the same columns, smem adds warps, both in a fixed order. 3 epilogue.
// Tiling: `dot`: WARPS * ROWS rows of W a block. `columns`: LANES * 16 bytes of columns a block, WARPS * 32 / LANES threads deep.
// Mapping: grid (l blocks * batches, slabs).
// Shared memory: `columns`: [WARPS][S][columns] sums. `dot`: none.
// Traffic: W once, l k elements; X from L1/L2: bound by memory as long as 2 S multiplications an element are hidden.
// Numerics: 8-bit floats, f16, bf16, f32 in f32, f64 in f64, i8/u8 in wrapping i32 (dp4a). Fixed order: bitwise repeatable.
// Requires: sm_80; ALIGNED: W, X, their pitches and batch strides multiples of 16 bytes. Otherwise whole 16-byte words that hold a
//   wanted byte are read. k_per_slab a multiple of 4.
// Measured: H200, 2026-11-21, W 16384 x 16384 (beyond L2), TB/s of W, aligned / any address (cuBLAS 13.0 in brackets):
//   one vector: `dot` f32 4.34 / 4.15 (4.13), f16 4.30 / 3.99 (4.25), f64 4.04 / 4.16, i8 4.19 / 3.83; `columns` with LANES 8
//   f32 4.33 (4.35), f16 4.34 (4.36), f64 4.31, i8 4.18; with LANES 4 2.8 to 3.5, but better at 4096 x 4096 in f16.
//   4 vectors: `dot` f32 4.34 / 2.51 (2.22), f16 3.80 / 2.78 (4.24); `columns` f32 4.30 (2.99), f16 4.11 (4.36).
//   8: f32 `dot` 3.99, `columns` 3.09. 16: f32 `dot` 1.98 (1.81), `columns` 1.72 (2.43).
//   To repeat: cargo run --release -p polywarp-cuda --example gemm_candidates -- f32 nn 1x16384x16384
#pragma once

#include <cuda_fp8.h>
#include <stdint.h>

#include <type_traits>

#include "epilogue.cuh"
#include "load.cuh"

namespace polywarp::gemv {

// ---- Types ----

template <class T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};
template <>
struct SumOf<int8_t> {
  using Type = int32_t;
};
template <>
struct SumOf<uint8_t> {
  using Type = int32_t;
};
template <class T>
using Sum = typename SumOf<T>::Type;

template <class T>
constexpr bool IS_INTEGER = std::is_integral_v<T>;
template <class T>
constexpr bool IS_FLOAT8 = sizeof(T) == 1 && !IS_INTEGER<T>;

struct Arguments {
  const void *w, *x;
  void* d;
  uint32_t l, s, k;
  int64_t ldw, ldx, batch_stride_w, batch_stride_x;
  uint32_t x_is_a, wide, k_per_slab; // wide: D, C and bias are f32, though Out has 16 bits
};

// Of a product whose W and X are tensor maps. `w_batches`, `x_batches`: 0 where one matrix serves the whole batch.
struct StreamArguments {
  Arguments shape;
  uint32_t w_batches, x_batches;
};

// Two neighbours of 8 bits.
template <class T>
__device__ __forceinline__ float2 unpack_pair(uint16_t bits) {
  constexpr __nv_fp8_interpretation_t KIND = std::is_same_v<T, __nv_fp8_e5m2> ? __NV_E5M2 : __NV_E4M3;
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(bits, KIND)));
}

// The elements of some words, in the type of the sums (not for integers).
template <class T, int WORDS>
__device__ __forceinline__ void unpack(const Words<WORDS>& x, Sum<T> (&to)[4 * WORDS / sizeof(T)]) {
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < WORDS / 2; ++i) to[i] = __hiloint2double(x.word[2 * i + 1], x.word[2 * i]);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) to[i] = __uint_as_float(x.word[i]);
  } else if constexpr (IS_FLOAT8<T>) {
#pragma unroll
    for (int i = 0; i < 2 * WORDS; ++i) {
      const float2 pair = unpack_pair<T>(static_cast<uint16_t>(x.word[i / 2] >> i % 2 * 16));
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      to[2 * i] = to_compute(*reinterpret_cast<const T*>(&x.word[i]));
      to[2 * i + 1] = to_compute(*(reinterpret_cast<const T*>(&x.word[i]) + 1));
    }
  }
}

// Four products of bytes added to `sum`, wrapping.
template <class T>
__device__ __forceinline__ int32_t dot_bytes(uint32_t x, uint32_t y, int32_t sum) {
  if constexpr (T(-1) < T(0)) {
    return __dp4a(static_cast<int>(x), static_cast<int>(y), sum);
  } else {
    return static_cast<int32_t>(__dp4a(x, y, static_cast<uint32_t>(sum)));
  }
}

__device__ __forceinline__ float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ double multiply_add(double x, double y, double z) { return fma(x, y, z); }
__device__ __forceinline__ int32_t multiply_add(int32_t x, int32_t y, int32_t z) { return x * y + z; }

// ---- Where a block works, and phase 3 ----

struct Place {
  uint32_t batch, block; // of the batch
  uint32_t begin, end;   // of K
};

__device__ __forceinline__ Place place_of(const Arguments& p, uint32_t rows_per_block) {
  const uint32_t blocks = (p.l + rows_per_block - 1) / rows_per_block;
  const uint32_t begin = min(p.k, blockIdx.y * p.k_per_slab);
  return {blockIdx.x / blocks, blockIdx.x % blocks, begin, begin + min(p.k_per_slab, p.k - begin)};
}

// Ends `sum` as element m, n, which lies at `at`.
template <class Out, class S>
__device__ __forceinline__ void store_at(const Arguments& p, const Epilogue<Out>& epilogue, const Place& place, int64_t m, int64_t n,
                                         int64_t at, S sum) {
  if constexpr (sizeof(Out) == 2) {
    if (p.wide) {
      const Epilogue<float> other(epilogue.alpha, epilogue.beta, reinterpret_cast<const float*>(epilogue.c), epilogue.ldc,
                                  epilogue.batch_stride_c, reinterpret_cast<const float*>(epilogue.bias), epilogue.activation);
      static_cast<float*>(p.d)[at] = other.at(sum, place.batch, m, n);
      return;
    }
  }
  static_cast<Out*>(p.d)[at] = epilogue.at(sum, place.batch, m, n);
}

template <class Out, class S>
__device__ __forceinline__ void store(const Arguments& p, const Epilogue<Out>& epilogue, const Place& place, uint32_t rows_per_block,
                                      uint32_t l, uint32_t s, S sum) {
  if (l >= p.l || s >= p.s) return;
  const int64_t m = p.x_is_a ? s : l, n = p.x_is_a ? l : s, pitch = p.x_is_a ? p.l : p.s;
  const uint32_t blocks = (p.l + rows_per_block - 1) / rows_per_block;
  const int64_t matrix = int64_t{blockIdx.y} * (gridDim.x / blocks) + place.batch;
  store_at(p, epilogue, place, m, n, matrix * p.l * p.s + m * pitch + n, sum);
}

// ---- `dot`: W K-major ----

template <class T, class Out, int S, int ROWS, int WARPS, bool ALIGNED>
struct Dot {
  static constexpr int PER_LOAD = 16 / sizeof(T), UNROLL = 2;
  static_assert(S * ROWS <= 32, "each sum has a lane that stores it");

  static __device__ __forceinline__ void run(const Arguments& p, const Epilogue<Out>& epilogue) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Place place = place_of(p, WARPS * ROWS);
    const uint32_t first = place.block * (WARPS * ROWS) + warp * ROWS;
    if (first >= p.l) return;

    // Rows and vectors beyond the last repeat it; their sums are not stored.
    const T* w[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      w[r] = static_cast<const T*>(p.w) + place.batch * p.batch_stride_w + min(first + r, p.l - 1) * p.ldw;
    }
    const T* x = static_cast<const T*>(p.x) + place.batch * p.batch_stride_x;

    // Phase 1.
    Sum<T> sum[ROWS][S] = {};
    auto step = [&](uint32_t k) {
      const int bytes = static_cast<int>(place.end - k) * static_cast<int>(sizeof(T));
      multiply(sum, w, x, p, k, min(bytes, 16));
    };
    uint32_t k = place.begin + lane * PER_LOAD;
    const uint32_t stride = 32 * PER_LOAD;
    for (; uint64_t{k} + (UNROLL - 1) * stride + PER_LOAD <= place.end; k += UNROLL * stride) {
      Words<4> piece[UNROLL][ROWS];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) piece[u][r] = load<4, ALIGNED>(w[r] + k + u * stride, 16);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) multiply(sum, piece[u], x, p, k + u * stride, 16);
    }
    for (; k < place.end; k += stride) step(k);

    // Phase 2.
    Sum<T> mine = 0;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int s = 0; s < S; ++s) {
        Sum<T> total = sum[r][s];
#pragma unroll
        for (int by = 16; by >= 1; by /= 2) total += __shfl_xor_sync(0xffffffffu, total, by);
        if (lane == r * S + s) mine = total;
      }
    }
    if (lane < ROWS * S) store(p, epilogue, place, WARPS * ROWS, first + lane / S, lane % S, mine);
  }

  static __device__ __forceinline__ void multiply(Sum<T> (&sum)[ROWS][S], const T* const (&w)[ROWS], const T* x, const Arguments& p,
                                                  uint32_t k, int bytes) {
    Words<4> piece[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) piece[r] = load<4, ALIGNED>(w[r] + k, bytes);
    multiply(sum, piece, x, p, k, bytes);
  }

  static __device__ __forceinline__ void multiply(Sum<T> (&sum)[ROWS][S], const Words<4> (&w)[ROWS], const T* x, const Arguments& p,
                                                  uint32_t k, int bytes) {
#pragma unroll
    for (int s = 0; s < S; ++s) {
      const Words<4> vector = load<4, ALIGNED>(x + min(static_cast<uint32_t>(s), p.s - 1) * p.ldx + k, bytes);
      if constexpr (IS_INTEGER<T>) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[r][s] = dot_bytes<T>(w[r].word[i], vector.word[i], sum[r][s]);
        }
      } else {
        Sum<T> right[PER_LOAD];
        unpack<T>(vector, right);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          Sum<T> left[PER_LOAD];
          unpack<T>(w[r], left);
#pragma unroll
          for (int i = 0; i < PER_LOAD; ++i) sum[r][s] = multiply_add(left[i], right[i], sum[r][s]);
        }
      }
    }
  }
};

// ---- `columns`: W dense along l ----

template <class T, class Out, int S, int LANES, int WARPS, bool ALIGNED>
struct Columns {
  static constexpr int PER_LOAD = 16 / sizeof(T), BLOCK_L = LANES * PER_LOAD, DEEP = 32 / LANES;
  static constexpr int K_STEP = WARPS * DEEP * 4; // four neighbours along K for each thread
  static constexpr int UNROLL = ALIGNED && S <= 4 ? 2 : 1; // such groups in flight

  static __device__ __forceinline__ void run(const Arguments& p, const Epilogue<Out>& epilogue) {
    __shared__ Sum<T> sums[WARPS][S][BLOCK_L];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const Place place = place_of(p, BLOCK_L);
    const uint32_t column = place.block * BLOCK_L + lane % LANES * PER_LOAD;
    const int bytes = static_cast<int>(min(int64_t{16}, (int64_t{p.l} - column) * static_cast<int64_t>(sizeof(T))));
    const T* w = static_cast<const T*>(p.w) + place.batch * p.batch_stride_w + column;
    const T* x = static_cast<const T*>(p.x) + place.batch * p.batch_stride_x;

    // Phase 1.
    Sum<T> sum[S][PER_LOAD] = {};
    uint32_t k = place.begin + (warp * DEEP + lane / LANES) * 4;
    for (; uint64_t{k} + (UNROLL - 1) * K_STEP + 4 <= place.end; k += UNROLL * K_STEP) {
      Words<4> row[UNROLL][4];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
        for (int i = 0; i < 4; ++i) row[u][i] = load<4, ALIGNED>(w + (k + u * K_STEP + i) * p.ldw, bytes);
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) multiply(sum, row[u], x, p, k + u * K_STEP, 4);
    }
#pragma unroll 1
    for (; uint64_t{k} + 4 <= place.end; k += K_STEP) {
      Words<4> row[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) row[i] = load<4, ALIGNED>(w + (k + i) * p.ldw, bytes);
      multiply(sum, row, x, p, k, 4);
    }
    if (k < place.end) {
      Words<4> row[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) row[i] = load<4, ALIGNED>(w + (k + i) * p.ldw, k + i < place.end ? bytes : 0);
      multiply(sum, row, x, p, k, place.end - k);
    }

    // Phase 2.
#pragma unroll
    for (int s = 0; s < S; ++s) {
#pragma unroll
      for (int i = 0; i < PER_LOAD; ++i) {
#pragma unroll
        for (int by = LANES; by < 32; by *= 2) sum[s][i] += __shfl_xor_sync(0xffffffffu, sum[s][i], by);
        if (lane < LANES) sums[warp][s][lane * PER_LOAD + i] = sum[s][i];
      }
    }
    __syncthreads(); // every warp's sums are written
    for (int at = threadIdx.x; at < S * BLOCK_L; at += WARPS * 32) {
      Sum<T> total = 0;
#pragma unroll
      for (int i = 0; i < WARPS; ++i) total += sums[i][at / BLOCK_L][at % BLOCK_L];
      store(p, epilogue, place, BLOCK_L, place.block * BLOCK_L + at % BLOCK_L, at / BLOCK_L, total);
    }
  }

  static __device__ __forceinline__ void multiply(Sum<T> (&sum)[S][PER_LOAD], const Words<4> (&row)[4], const T* x,
                                                  const Arguments& p, uint32_t k, int count) {
    constexpr int X_WORDS = sizeof(T); // of four elements
#pragma unroll
    for (int s = 0; s < S; ++s) {
      const T* from = x + min(static_cast<uint32_t>(s), p.s - 1) * p.ldx + k;
      if constexpr (IS_INTEGER<T>) {
        const uint32_t vector = load<1, ALIGNED>(from, count).word[0];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          // Bytes of four rows become four bytes along K of one column.
          const uint32_t low01 = __byte_perm(row[0].word[i], row[1].word[i], 0x5140), low23 = __byte_perm(row[2].word[i], row[3].word[i], 0x5140);
          const uint32_t high01 = __byte_perm(row[0].word[i], row[1].word[i], 0x7362), high23 = __byte_perm(row[2].word[i], row[3].word[i], 0x7362);
          sum[s][4 * i] = dot_bytes<T>(__byte_perm(low01, low23, 0x5410), vector, sum[s][4 * i]);
          sum[s][4 * i + 1] = dot_bytes<T>(__byte_perm(low01, low23, 0x7632), vector, sum[s][4 * i + 1]);
          sum[s][4 * i + 2] = dot_bytes<T>(__byte_perm(high01, high23, 0x5410), vector, sum[s][4 * i + 2]);
          sum[s][4 * i + 3] = dot_bytes<T>(__byte_perm(high01, high23, 0x7632), vector, sum[s][4 * i + 3]);
        }
      } else {
        Sum<T> vector[4];
        if constexpr (X_WORDS == 8) {
          Sum<T> half[2];
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            unpack<T>(load<4, ALIGNED>(from + 2 * h, min(16, (count - 2 * h) * 8)), half);
            vector[2 * h] = half[0], vector[2 * h + 1] = half[1];
          }
        } else {
          unpack<T>(load<X_WORDS, ALIGNED>(from, count * static_cast<int>(sizeof(T))), vector);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          Sum<T> left[PER_LOAD];
          unpack<T>(row[i], left);
#pragma unroll
          for (int j = 0; j < PER_LOAD; ++j) sum[s][j] = multiply_add(left[j], vector[i], sum[s][j]);
        }
      }
    }
  }
};

} // namespace polywarp::gemv

// ---- Entry points ----

#define GEMV_ARGUMENTS(T, OUT, SCALAR)                                                                                          \
  const T *w, const T *x, OUT *d, uint32_t l, uint32_t s, uint32_t k, int64_t ldw, int64_t ldx, int64_t batch_stride_w,         \
      int64_t batch_stride_x, uint32_t x_is_a, uint32_t wide, uint32_t k_per_slab, SCALAR alpha, SCALAR beta, const OUT *c, int64_t ldc,       \
      int64_t batch_stride_c, const OUT *bias, uint32_t activation

#define GEMV_RUN(KERNEL, OUT)                                                                                                   \
  KERNEL::run({w, x, d, l, s, k, ldw, ldx, batch_stride_w, batch_stride_x, x_is_a, wide, k_per_slab},                                 \
              polywarp::Epilogue<OUT>(alpha, beta, c, ldc, batch_stride_c, bias, activation))

// Those of kernels that read W and X by tensor maps (gemv_tma.cuh, gemv_wgmma.cuh).
#define GEMV_STREAM_ARGUMENTS(OUT)                                                                                              \
  const __grid_constant__ CUtensorMap w, const __grid_constant__ CUtensorMap x, OUT *d, uint32_t l, uint32_t s, uint32_t k,     \
      uint32_t w_batches, uint32_t x_batches, uint32_t x_is_a, uint32_t wide, uint32_t k_per_slab, float alpha, float beta,     \
      const OUT *c, int64_t ldc, int64_t batch_stride_c, const OUT *bias, uint32_t activation

#define GEMV_STREAM_RUN(KERNEL, OUT)                                                                                            \
  KERNEL::run(&w, &x, {{nullptr, nullptr, d, l, s, k, 0, 0, 0, 0, x_is_a, wide, k_per_slab}, w_batches, x_batches},             \
              polywarp::Epilogue<OUT>(alpha, beta, c, ldc, batch_stride_c, bias, activation))

#define GEMV_DOT(NAME, T, OUT, SCALAR, S, ROWS, WARPS, ALIGNED)                                                                 \
  using NAME##_kernel = polywarp::gemv::Dot<T, OUT, S, ROWS, WARPS, ALIGNED>;                                                   \
  extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) NAME(GEMV_ARGUMENTS(T, OUT, SCALAR)) { GEMV_RUN(NAME##_kernel, OUT); }

#define GEMV_COLUMNS(NAME, T, OUT, SCALAR, S, LANES, WARPS, ALIGNED)                                                            \
  using NAME##_kernel = polywarp::gemv::Columns<T, OUT, S, LANES, WARPS, ALIGNED>;                                              \
  extern "C" __global__ void __launch_bounds__(WARPS * 32, 1) NAME(GEMV_ARGUMENTS(T, OUT, SCALAR)) { GEMV_RUN(NAME##_kernel, OUT); }
