// Quantise: f32, f16 and bf16 matrices to i8 by their largest magnitudes, and sums of i8 products back.
//
// Computes: scale = max|x| / 127 over each row, each column, or everything; q = clamp(nearest(x / scale), -127, 127), 0 where
//   scale is 0. `quantise_rows`: scales and q of rows in one launch. `absmax_columns`, `absmax_all`: largest magnitudes of
//   slabs of rows, [slabs][columns] or [slabs]; `absmax_finish`: scales from them. `quantise_scaled`: q from scales that exist.
//   `dequantise`: D = activation(alpha * scale_m[m] * scale_n[n] * sum + beta C + bias) of dense i32 sums [batches][m][n].
//   Source rows are `pitch` elements apart, their elements neighbours; q rows are `q_pitch` bytes apart, zeros after the last k.
// Algorithm: `quantise_rows`: 1 largest magnitude of the row, by 16 bytes a thread, then shuffles and smem; 2 the row again
//   (it lies in L1 or L2), multiplied with 127 / max and stored by 4 or 8 bytes. The others are one pass each.
// Tiling: 256 threads. LANES threads a row: 32 for short rows, 256 for long ones. `absmax_columns`: 32 columns x 8 rows.
// Mapping: grid x: rows / (256 / LANES); `absmax_columns`: (columns / 32, slabs); `absmax_all`: slabs; the rest flat.
// Shared memory: one f32 a warp; `absmax_columns` [8][32] f32.
// Traffic: source read twice (once from L2 in `quantise_rows`), q written once: bound by memory.
// Numerics: max is exact; x * (127 / max) rounded twice, then to nearest even: at most 0.5 + 2^-16 steps off. NaN is left out of
//   the maximum and becomes 0; an infinite maximum makes everything 0. Bitwise repeatable.
// Requires: sm_80; q_pitch and q multiples of 16 bytes. 16-byte pieces that hold a wanted byte of the source are read whole.
// Measured: not measured.

#include <stdint.h>

#include "epilogue.cuh"
#include "load.cuh"

namespace polywarp::quantise {

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr float STEPS = 127.0f;

// The elements of 16 bytes as f32.
template <class T>
struct Piece {
  static constexpr int COUNT = 16 / sizeof(T);
  float of[COUNT];

  // `count` elements (none when <= 0) from `at` on, then zeros.
  __device__ __forceinline__ Piece(const T* at, int64_t count) {
    const int bytes = static_cast<int>(max(int64_t{0}, min(int64_t{COUNT}, count))) * static_cast<int>(sizeof(T));
    const Words<4> x = load<4, false>(at, bytes);
    T element[COUNT];
    memcpy(element, x.word, 16);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) of[i] = to_compute(element[i]);
  }

  __device__ __forceinline__ float magnitude(float so_far) const {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) so_far = fmaxf(so_far, fabsf(of[i])); // leaves NaN out
    return so_far;
  }
};

__device__ __forceinline__ float largest_of_warp(float x) {
#pragma unroll
  for (int by = 16; by >= 1; by /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, by));
  return x;
}

// What x is multiplied with; 0 for a maximum that is 0 or infinite.
__device__ __forceinline__ float steps_per_unit(float largest) {
  return largest > 0.0f && isfinite(largest) ? STEPS / largest : 0.0f;
}

__device__ __forceinline__ int8_t step_of(float x, float per_unit) {
  const float steps = x * per_unit;
  return from_compute<int8_t>(steps == steps ? fminf(fmaxf(steps, -STEPS), STEPS) : 0.0f);
}

template <class T>
__device__ __forceinline__ void store_steps(int8_t* q, const Piece<T>& x, const float (&per_unit)[Piece<T>::COUNT]) {
  uint32_t word[Piece<T>::COUNT / 4] = {};
#pragma unroll
  for (int i = 0; i < Piece<T>::COUNT; ++i) {
    word[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(step_of(x.of[i], per_unit[i]))) << (8 * (i % 4));
  }
  if constexpr (Piece<T>::COUNT == 4) {
    *reinterpret_cast<uint32_t*>(q) = word[0];
  } else {
    *reinterpret_cast<uint2*>(q) = {word[0], word[1]};
  }
}

template <class T, int LANES>
__device__ __forceinline__ void rows_(const T* src, int8_t* q, float* scales, uint32_t rows, uint32_t k, int64_t pitch, int64_t q_pitch) {
  constexpr int COUNT = Piece<T>::COUNT;
  __shared__ float largest_of[WARPS];
  const uint32_t row = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
  const int lane = threadIdx.x % LANES;
  const T* from = src + min(row, rows - 1) * pitch; // a row beyond the last computes with it, and stores nothing

  // Phase 1.
  float largest = 0.0f;
#pragma unroll 4
  for (int64_t at = lane * COUNT; at < k; at += LANES * COUNT) largest = Piece<T>(from + at, k - at).magnitude(largest);
  largest = largest_of_warp(largest);
  if constexpr (LANES > 32) {
    if (lane % 32 == 0) largest_of[lane / 32] = largest;
    __syncthreads(); // every warp's maximum is written
#pragma unroll
    for (int i = 0; i < WARPS; ++i) largest = fmaxf(largest, largest_of[i]);
  }
  if (row >= rows) return;
  if (lane == 0) scales[row] = largest / STEPS;

  // Phase 2.
  float per_unit[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) per_unit[i] = steps_per_unit(largest);
#pragma unroll 4
  for (int64_t at = lane * COUNT; at < q_pitch; at += LANES * COUNT) {
    store_steps(q + row * q_pitch + at, Piece<T>(from + at, k - at), per_unit);
  }
}

template <class T>
__device__ __forceinline__ void absmax_columns(const T* src, float* partial, uint32_t rows, uint32_t columns, int64_t pitch,
                                               uint32_t rows_per_slab) {
  __shared__ float largest_of[WARPS][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t column = int64_t{blockIdx.x} * 32 + lane;
  const int64_t begin = int64_t{blockIdx.y} * rows_per_slab, end = min(begin + rows_per_slab, int64_t{rows});
  float largest = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (int64_t row = begin + warp; row < end; row += WARPS) largest = fmaxf(largest, fabsf(to_compute(src[row * pitch + column])));
  }
  largest_of[warp][lane] = largest;
  __syncthreads(); // every warp's maxima are written
  if (warp > 0 || column >= columns) return;
#pragma unroll
  for (int i = 1; i < WARPS; ++i) largest = fmaxf(largest, largest_of[i][lane]);
  partial[blockIdx.y * int64_t{columns} + column] = largest;
}

template <class T>
__device__ __forceinline__ void absmax_all(const T* src, float* partial, uint32_t rows, uint32_t k, int64_t pitch) {
  constexpr int COUNT = Piece<T>::COUNT;
  __shared__ float largest_of[WARPS];
  float largest = 0.0f;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
#pragma unroll 4
    for (int64_t at = threadIdx.x * COUNT; at < k; at += THREADS * COUNT) {
      largest = Piece<T>(src + row * pitch + at, k - at).magnitude(largest);
    }
  }
  largest = largest_of_warp(largest);
  if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = largest;
  __syncthreads(); // every warp's maximum is written
  if (threadIdx.x > 0) return;
#pragma unroll
  for (int i = 1; i < WARPS; ++i) largest = fmaxf(largest, largest_of[i]);
  partial[blockIdx.x] = largest;
}

// `by_row`, `by_column`: 1 where the scale changes with it, else 0.
template <class T>
__device__ __forceinline__ void scaled(const T* src, int8_t* q, const float* scales, uint32_t rows, uint32_t k, int64_t pitch,
                                       int64_t q_pitch, uint32_t by_row, uint32_t by_column) {
  constexpr int COUNT = Piece<T>::COUNT;
  const int64_t units = q_pitch / COUNT, unit = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  const int64_t row = unit / units, at = unit % units * COUNT;
  if (row >= rows) return;
  float per_unit[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    per_unit[i] = at + i < k ? steps_per_unit(scales[row * by_row + (at + i) * by_column] * STEPS) : 0.0f;
  }
  store_steps(q + row * q_pitch + at, Piece<T>(src + row * pitch + at, k - at), per_unit);
}

template <class Out>
__device__ __forceinline__ void dequantise(const int32_t* sums, Out* d, uint32_t batches, uint32_t m, uint32_t n, const Scales& scales,
                                           const Epilogue<Out>& epilogue) {
  const int64_t at = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (at >= int64_t{batches} * m * n) return;
  const int64_t column = at % n, row = at / n % m, batch = at / n / m;
  d[at] = epilogue.at(scales.dequantise(sums[at], row, column), batch, row, column);
}

} // namespace polywarp::quantise

#define QUANTISE_ROWS(SYMBOL, T, LANES)                                                                                         \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const T* src, int8_t* q, float* scales, uint32_t rows, uint32_t k, int64_t pitch, int64_t q_pitch) {               \
    polywarp::quantise::rows_<T, LANES>(src, q, scales, rows, k, pitch, q_pitch);                                               \
  }

#define ABSMAX_COLUMNS(SYMBOL, T)                                                                                               \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const T* src, float* partial, uint32_t rows, uint32_t columns, int64_t pitch, uint32_t rows_per_slab) {            \
    polywarp::quantise::absmax_columns<T>(src, partial, rows, columns, pitch, rows_per_slab);                                   \
  }

#define ABSMAX_ALL(SYMBOL, T)                                                                                                   \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const T* src, float* partial, uint32_t rows, uint32_t k, int64_t pitch) {                                          \
    polywarp::quantise::absmax_all<T>(src, partial, rows, k, pitch);                                                            \
  }

#define ABSMAX_FINISH(SYMBOL)                                                                                                   \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const float* partial, float* scales, uint32_t slabs, uint32_t count) {                                             \
    const int64_t at = int64_t{blockIdx.x} * polywarp::quantise::THREADS + threadIdx.x;                                         \
    if (at >= count) return;                                                                                                    \
    float largest = 0.0f;                                                                                                       \
    _Pragma("unroll 8") for (uint32_t s = 0; s < slabs; ++s) largest = fmaxf(largest, partial[int64_t{s} * count + at]);        \
    scales[at] = largest / polywarp::quantise::STEPS;                                                                           \
  }

#define QUANTISE_SCALED(SYMBOL, T)                                                                                              \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const T* src, int8_t* q, const float* scales, uint32_t rows, uint32_t k, int64_t pitch, int64_t q_pitch,           \
             uint32_t by_row, uint32_t by_column) {                                                                             \
    polywarp::quantise::scaled<T>(src, q, scales, rows, k, pitch, q_pitch, by_row, by_column);                                  \
  }

#define DEQUANTISE(SYMBOL, OUT)                                                                                                 \
  extern "C" __global__ void __launch_bounds__(polywarp::quantise::THREADS)                                                     \
      SYMBOL(const int32_t* sums, OUT* d, uint32_t batches, uint32_t m, uint32_t n, float alpha, float beta, const OUT* c,      \
             int64_t ldc, int64_t batch_stride_c, const OUT* bias, uint32_t activation, const float* scale_m,                   \
             const float* scale_n) {                                                                                            \
    polywarp::quantise::dequantise<OUT>(sums, d, batches, m, n, {scale_m, scale_n},                                             \
                                        polywarp::Epilogue<OUT>(alpha, beta, c, ldc, batch_stride_c, bias, activation));        \
  }
