// f32 matrix product on the plain cores (`Highest`): one chain of f32 fused multiply-adds per output (and slice of K).
//
// Computes: D[batch, m, n] = activation(alpha A B + beta C + bias), f32; A, B of either layout, D dense row-major. With several
//   slabs of K (grid.y), slab s writes its own D + s * batches * m * n and splitk.cu combines them with the epilogue.
// Algorithm: 1 each block takes one tile of D; 2 cp.async fills a ring of STAGES blocks of BLOCK_K columns of A and rows of B,
//   both as [k][m or n] in smem (an operand that is K-major in memory is transposed by 4-byte copies on the way); 3 each thread
//   reads fragments one k ahead of the multiplications; 4 slices of K within the block are added in order; 5 epilogue.
// Tiling: BLOCK_M x BLOCK_N x BLOCK_K per block; SLICES groups of WARPS_M x WARPS_N warps, each group doing its BLOCK_K / SLICES
//   of every block of K; THREAD_M x THREAD_N outputs a thread. Tiles are numbered in groups of RASTER rows of tiles, for L2.
// Mapping: a warp owns LANES_M * THREAD_M by LANES_N * THREAD_N outputs; a lane four neighbours, then the next four
//   LANES * 4 on, so that a warp's 16-byte fragment loads touch neighbouring banks or the same words.
// Shared memory: [stage][A: BLOCK_K rows of BLOCK_M + pad, B: BLOCK_K rows of BLOCK_N + pad] f32. pad = 4 where the copy
//   transposes: bank 4 k + m for 8 k x 4 m lanes touches each bank once. After the loop: sums of slices, or the staging of
//   activations.
// Traffic: 2 m n k FLOP; (BLOCK_M + BLOCK_N) / (BLOCK_M BLOCK_N) * 4 bytes per multiplication from L2: bound by FMA issue and power.
// Numerics: f32 throughout, k in ascending order within a slice; slices and slabs added in ascending order. Bitwise repeatable.
// Requires: sm_80. Operands with VECTOR 4: base, leading dimension and batch stride are multiples of 4 elements, and rows are
//   readable up to the next multiple of 4. m, n, k > 0.
// Measured: H200 (1980 MHz), 2026-11-21, TFLOP/s (cuBLAS 13.0 in brackets), A M-major and B N-major unless said:
//   128x256x16 8192: 54.1 (51.3), 4096: 53.4 (51.4), K-major A 47.3; 128x128x8 4096: 53.0, K-major A 50.3, both K-major 46.0;
//   64x128x16 1024: 44.0, K-major A 41.2 (38.0), 1000: 41.2, 37.5 (39.3); 64x32x32 512: 23.4, K-major A 19.9 (18.8).
//   Bound by issue: counting two clocks for each multiplication that finds its operands in one register bank, and one for every
//   other instruction, gives these figures to 2 %. To repeat:
//   cargo run --release -p polywarp-cuda --example gemm_candidates -- 4096 4096 4096 f32 tn
// References: S. Boehm, "How to optimize a CUDA matmul kernel" (warp tiles); V. Salykov, sgemm.cu (predicated 4-byte cp.async).
#pragma once

#include <stdint.h>

#include "epilogue.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"

namespace polywarp::simt {

enum class Layout { K_MAJOR, MN_MAJOR };

template <int BLOCK_M_, int BLOCK_N_, int BLOCK_K_, int WARPS_M_, int WARPS_N_, int THREAD_M_, int THREAD_N_, int STAGES_,
          int SLICES_, int BLOCKS_PER_SM_>
struct Tile {
  static constexpr int BLOCK_M = BLOCK_M_, BLOCK_N = BLOCK_N_, BLOCK_K = BLOCK_K_;
  static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, THREAD_M = THREAD_M_, THREAD_N = THREAD_N_;
  static constexpr int STAGES = STAGES_, SLICES = SLICES_, BLOCKS_PER_SM = BLOCKS_PER_SM_;
  static constexpr int WARP_M = BLOCK_M / WARPS_M, WARP_N = BLOCK_N / WARPS_N;
  static constexpr int LANES_M = WARP_M / THREAD_M, LANES_N = WARP_N / THREAD_N;
  static constexpr int SLICE_K = BLOCK_K / SLICES;
  static constexpr int SLICE_THREADS = WARPS_M * WARPS_N * 32;
  static constexpr int THREADS = SLICE_THREADS * SLICES;
  static constexpr int RASTER = 8;
  static_assert(LANES_M * LANES_N == 32, "a warp covers its outputs once");
  static_assert(THREAD_M % 4 == 0 && THREAD_N % 4 == 0, "fragments are read by 16 bytes");
  static_assert(BLOCK_K % SLICES == 0 && SLICE_K % 2 == 0, "fragments alternate between two buffers");
};

// ---- Phase 2: from gmem to smem ----

// What one thread copies of an operand: EXTENT (of m or n) x BLOCK_K elements a stage, VECTOR at a time.
template <Layout LAYOUT, int EXTENT, int BLOCK_K, int VECTOR, int THREADS>
struct Loader {
  static constexpr bool TRANSPOSES = LAYOUT == Layout::K_MAJOR;
  static constexpr int PITCH = EXTENT + (TRANSPOSES ? 4 : 0);
  // Threads along the dense direction of memory, rows of threads, and how often they repeat.
  static constexpr int DENSE = TRANSPOSES ? 8 : EXTENT / VECTOR;
  static constexpr int ROWS = THREADS / DENSE;
  static constexpr int REPEAT_MN = TRANSPOSES ? (EXTENT + ROWS - 1) / ROWS : 1;
  static constexpr int REPEAT_K = TRANSPOSES ? BLOCK_K / 8 : (BLOCK_K + ROWS - 1) / ROWS;
  static_assert(!TRANSPOSES || VECTOR == 1, "a transposing copy moves single elements");
  static_assert(THREADS % DENSE == 0, "whole rows of threads");

  const float* from[TRANSPOSES ? REPEAT_MN : REPEAT_K]; // one pointer a row of the thread
  int64_t step;                                         // from one block of K to the next
  uint32_t to;                                          // bytes into the stage
  int k_first;                                          // this thread's first k in a block
  bool inside;                                          // has anything to copy at all

  // `extent` is the operand's m or n, `base` its element (0, k of the slab).
  __device__ __forceinline__ Loader(const float* base, int64_t ld, int64_t first, uint32_t extent) {
    const int dense = threadIdx.x % DENSE, row = threadIdx.x / DENSE;
    // Rows and columns beyond the end repeat the last one; their outputs are never stored.
    if constexpr (TRANSPOSES) {
      k_first = dense;
      inside = EXTENT % ROWS == 0 || row < EXTENT;
#pragma unroll
      for (int r = 0; r < REPEAT_MN; ++r) {
        const int64_t mn = min(first + row + r * ROWS, int64_t{extent} - 1);
        from[r] = base + mn * ld + dense;
      }
      step = BLOCK_K;
      to = (dense * PITCH + row) * 4;
    } else {
      k_first = row;
      inside = BLOCK_K % ROWS == 0 || row < BLOCK_K;
      const int64_t mn = min(first + dense * VECTOR, int64_t{(extent - 1) / VECTOR * VECTOR});
#pragma unroll
      for (int r = 0; r < REPEAT_K; ++r) from[r] = base + (row + r * ROWS) * ld + mn;
      step = BLOCK_K * ld;
      to = (row * PITCH + dense * VECTOR) * 4;
    }
  }

  // Issues the copies of a whole block.
  __device__ __forceinline__ void copy(uint32_t stage) {
#pragma unroll
    for (int r = 0; r < REPEAT_MN; ++r) {
#pragma unroll
      for (int q = 0; q < REPEAT_K; ++q) {
        const float* at = TRANSPOSES ? from[r] + q * 8 : from[q];
        if (inside) ptx::copy_async<VECTOR * 4>(target(stage, r, q), at, VECTOR * 4);
      }
    }
    advance(step);
  }

  // Issues the copies of the first block, of which `k_count` columns or rows exist; the rest becomes zeros.
  __device__ __forceinline__ void copy_first(uint32_t stage, int k_count, int64_t k_stride) {
#pragma unroll
    for (int r = 0; r < REPEAT_MN; ++r) {
#pragma unroll
      for (int q = 0; q < REPEAT_K; ++q) {
        const float* at = TRANSPOSES ? from[r] + q * 8 : from[q];
        const bool wanted = k_first + q * (TRANSPOSES ? 8 : ROWS) < k_count;
        if (inside) ptx::copy_async<VECTOR * 4>(target(stage, r, q), wanted ? at : from[0], wanted ? VECTOR * 4 : 0);
      }
    }
    advance(k_count * k_stride);
  }

private:
  __device__ __forceinline__ uint32_t target(uint32_t stage, int r, int q) const {
    return stage + to + (TRANSPOSES ? q * 8 * PITCH + r * ROWS : q * ROWS * PITCH) * 4;
  }

  __device__ __forceinline__ void advance(int64_t by) {
#pragma unroll
    for (int i = 0; i < (TRANSPOSES ? REPEAT_MN : REPEAT_K); ++i) from[i] += by;
  }
};

// ---- Phase 5: the epilogue ----

__device__ __forceinline__ void store4(float* to, const float (&x)[4], int count, bool wide) {
  if (wide && count >= 4) {
    *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) to[i] = x[i];
    }
  }
}

// Stores this thread's outputs, four rows at a time; `row`, `column` of its first one. `staging` is its own column of smem.
template <class T>
__device__ __forceinline__ void store(const Epilogue<float>& epilogue, float (&sum)[T::THREAD_M][T::THREAD_N], float* d, uint32_t m,
                                      uint32_t n, int64_t batch, int64_t row, int64_t column, float4* staging) {
  constexpr int QUADS_N = T::THREAD_N / 4, UNITS = 4 * QUADS_N;
  const bool wide = n % 4 == 0 && (reinterpret_cast<uintptr_t>(d) & 15) == 0;
  const bool slow = epilogue.activation > ACTIVATION_RELU;
#pragma unroll 1
  for (int quad = 0; quad < T::THREAD_M / 4; ++quad, row += T::LANES_M * 4) {
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
      const int64_t r = row + unit / QUADS_N, c = column + unit % QUADS_N * (T::LANES_N * 4);
      const int count = r < m ? static_cast<int>(max(int64_t{0}, min(int64_t{4}, n - c))) : 0;
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = epilogue.alpha * sum[unit / QUADS_N][unit % QUADS_N * 4 + i];
        if (epilogue.c != nullptr && i < count) x[i] += epilogue.beta * __ldg(epilogue.c_at(batch, r, c + i));
        if (epilogue.bias != nullptr && i < count) x[i] += __ldg(epilogue.bias + c + i);
        if (epilogue.activation == ACTIVATION_RELU) x[i] = x[i] < 0.0f ? 0.0f : x[i];
      }
      if (slow) {
        staging[unit * T::SLICE_THREADS] = make_float4(x[0], x[1], x[2], x[3]);
      } else {
        store4(d + r * n + c, x, count, wide);
      }
    }
    if (slow) {
#pragma unroll 1
      for (int unit = 0; unit < UNITS; ++unit) {
        const int64_t r = row + unit / QUADS_N, c = column + unit % QUADS_N * (T::LANES_N * 4);
        const int count = r < m ? static_cast<int>(max(int64_t{0}, min(int64_t{4}, n - c))) : 0;
        const float4 staged = staging[unit * T::SLICE_THREADS];
        float x[4] = {staged.x, staged.y, staged.z, staged.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = activate(x[i], epilogue.activation);
        store4(d + r * n + c, x, count, wide);
      }
    }
    // The next four rows move to the front: registers cannot be indexed by the loop.
#pragma unroll
    for (int i = 0; i + 4 < T::THREAD_M; ++i) {
#pragma unroll
      for (int j = 0; j < T::THREAD_N; ++j) sum[i][j] = sum[i + 4][j];
    }
  }
}

// ---- The kernel ----

struct Arguments {
  const float *a, *b;
  float* d;
  uint32_t m, n, k;
  int64_t lda, ldb, batch_stride_a, batch_stride_b;
  uint32_t k_per_slab; // multiple of BLOCK_K
};

template <class T, Layout A, Layout B, int VECTOR_A, int VECTOR_B>
struct Kernel {
  using LoadA = Loader<A, T::BLOCK_M, T::BLOCK_K, VECTOR_A, T::THREADS>;
  using LoadB = Loader<B, T::BLOCK_N, T::BLOCK_K, VECTOR_B, T::THREADS>;
  static constexpr int STAGE_A = T::BLOCK_K * LoadA::PITCH * 4;
  static constexpr int STAGE = STAGE_A + T::BLOCK_K * LoadB::PITCH * 4;
  static constexpr int SUMS = (T::SLICES - 1) * T::BLOCK_M * T::BLOCK_N * 4;      // phase 4
  static constexpr int STAGING = T::SLICE_THREADS * T::THREAD_N * 4 * 4;         // phase 5
  static constexpr int SMEM_BYTES = max(T::STAGES * STAGE, max(SUMS, STAGING));

  static constexpr int max(int x, int y) { return x > y ? x : y; }

  static __device__ __forceinline__ void fragment(float (&to)[T::THREAD_M], float (&other)[T::THREAD_N], const char* a, const char* b,
                                                  int k) {
#pragma unroll
    for (int i = 0; i < T::THREAD_M; i += 4) {
      const float4 x = *reinterpret_cast<const float4*>(a + (k * LoadA::PITCH + i * T::LANES_M) * 4);
      to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
    }
#pragma unroll
    for (int j = 0; j < T::THREAD_N; j += 4) {
      const float4 x = *reinterpret_cast<const float4*>(b + (k * LoadB::PITCH + j * T::LANES_N) * 4);
      other[j] = x.x, other[j + 1] = x.y, other[j + 2] = x.z, other[j + 3] = x.w;
    }
  }

  // Back and forth along the longer side: each multiplication but the first of a run takes one factor from the register file
  // and one from the operand cache. Three factors from the two banks of the file take two clocks.
  static __device__ __forceinline__ void multiply(float (&sum)[T::THREAD_M][T::THREAD_N], const float (&a)[T::THREAD_M],
                                                  const float (&b)[T::THREAD_N]) {
    constexpr bool ALONG_M = T::THREAD_M >= T::THREAD_N;
    constexpr int RUNS = ALONG_M ? T::THREAD_N : T::THREAD_M, LENGTH = ALONG_M ? T::THREAD_M : T::THREAD_N;
#pragma unroll
    for (int run = 0; run < RUNS; ++run) {
#pragma unroll
      for (int at = 0; at < LENGTH; ++at) {
        const int snake = run % 2 == 0 ? at : LENGTH - 1 - at;
        const int i = ALONG_M ? snake : run, j = ALONG_M ? run : snake;
        sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
  }

  static __device__ __forceinline__ void run(const Arguments& p, const Epilogue<float>& epilogue) {
    extern __shared__ __align__(128) char smem[];

    // Phase 1: which tile, which batch, which slab.
    const uint32_t tiles_m = (p.m + T::BLOCK_M - 1) / T::BLOCK_M, tiles_n = (p.n + T::BLOCK_N - 1) / T::BLOCK_N;
    const uint32_t batch = blockIdx.x / (tiles_m * tiles_n), tile = blockIdx.x % (tiles_m * tiles_n);
    const uint32_t group = tile / (T::RASTER * tiles_n), within = tile % (T::RASTER * tiles_n);
    const uint32_t group_rows = min(uint32_t{T::RASTER}, tiles_m - group * T::RASTER);
    const int64_t tile_m = int64_t{group * T::RASTER + within % group_rows} * T::BLOCK_M;
    const int64_t tile_n = int64_t{within / group_rows} * T::BLOCK_N;
    const uint32_t k_begin = blockIdx.y * p.k_per_slab;
    const uint32_t k_extent = k_begin < p.k ? min(p.k_per_slab, p.k - k_begin) : 0;
    const int blocks = static_cast<int>((k_extent + T::BLOCK_K - 1) / T::BLOCK_K);

    const int64_t k_stride_a = A == Layout::K_MAJOR ? 1 : p.lda, k_stride_b = B == Layout::K_MAJOR ? 1 : p.ldb;
    LoadA load_a(p.a + batch * p.batch_stride_a + k_begin * k_stride_a, p.lda, tile_m, p.m);
    LoadB load_b(p.b + batch * p.batch_stride_b + k_begin * k_stride_b, p.ldb, tile_n, p.n);
    const uint32_t smem_base = ptx::smem_address(smem);

    // The first block takes what does not fill a block, so that the loop copies whole ones. A group is committed each time,
    // empty ones at the end too, so that the count of pending groups stays fixed.
    if (blocks > 0) {
      const int first = static_cast<int>(k_extent) - (blocks - 1) * T::BLOCK_K;
      load_a.copy_first(smem_base, first, k_stride_a);
      load_b.copy_first(smem_base + STAGE_A, first, k_stride_b);
    }
    ptx::copy_async_commit();
    auto copy = [&](int block, uint32_t stage) {
      if (block < blocks) {
        load_a.copy(stage);
        load_b.copy(stage + STAGE_A);
      }
      ptx::copy_async_commit();
    };
#pragma unroll
    for (int s = 1; s < T::STAGES - 1; ++s) copy(s, smem_base + s * STAGE);

    const int slice = threadIdx.x / T::SLICE_THREADS, thread = threadIdx.x % T::SLICE_THREADS;
    const int warp = thread / 32, lane = thread % 32;
    const int warp_m = warp / T::WARPS_N * T::WARP_M, warp_n = warp % T::WARPS_N * T::WARP_N;
    // Where copies transpose, lanes are interleaved: half a warp's 16-byte loads then touch at most 128 different bytes of either
    // operand, which leaves time for the copies; without them the plain order is 1 % faster (H200).
    constexpr int LONG = T::LANES_M > T::LANES_N ? T::LANES_M : T::LANES_N;
    constexpr bool INTERLEAVED = LoadA::TRANSPOSES || LoadB::TRANSPOSES;
    const int along = INTERLEAVED ? lane / 2 % LONG : lane % LONG;
    const int across = INTERLEAVED ? lane % 2 + lane / (2 * LONG) * 2 : lane / LONG;
    const int lane_m = (T::LANES_M > T::LANES_N ? along : across) * 4, lane_n = (T::LANES_M > T::LANES_N ? across : along) * 4;
    const char* from_a = smem + (slice * T::SLICE_K * LoadA::PITCH + warp_m + lane_m) * 4;
    const char* from_b = smem + STAGE_A + (slice * T::SLICE_K * LoadB::PITCH + warp_n + lane_n) * 4;

    float sum[T::THREAD_M][T::THREAD_N] = {};
    float a[2][T::THREAD_M], b[2][T::THREAD_N];

    ptx::copy_async_wait<T::STAGES - 2>();
    __syncthreads(); // stage 0 is whole
    fragment(a[0], b[0], from_a, from_b, 0);

    int read = 0, write = (T::STAGES - 1) * STAGE;
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
      for (int k = 0; k < T::SLICE_K; ++k) {
        if (k == T::SLICE_K - 1) {
          ptx::copy_async_wait<T::STAGES - 2>();
          __syncthreads(); // the next stage is whole; everybody has read all of this one into registers
          read = read == (T::STAGES - 1) * STAGE ? 0 : read + STAGE;
        }
        fragment(a[(k + 1) % 2], b[(k + 1) % 2], from_a + read, from_b + read, (k + 1) % T::SLICE_K);
        if (k == 0) {
          copy(block + T::STAGES - 1, smem_base + write); // over the stage that the last barrier freed
          write = write == (T::STAGES - 1) * STAGE ? 0 : write + STAGE;
        }
        multiply(sum, a[k % 2], b[k % 2]);
      }
    }
    ptx::copy_async_wait<0>();
    __syncthreads(); // smem is free for the phases below

    // Phase 4. By single words: 16-byte accesses would fix the sums to aligned quads of registers, and that their banks are the
    // fragments' banks, which costs each multiplication of the loop a clock.
    if constexpr (T::SLICES > 1) {
      float* sums = reinterpret_cast<float*>(smem) + thread;
      constexpr int OUTPUTS = T::THREAD_M * T::THREAD_N;
      if (slice > 0) {
#pragma unroll
        for (int u = 0; u < OUTPUTS; ++u) {
          sums[((slice - 1) * OUTPUTS + u) * T::SLICE_THREADS] = sum[u / T::THREAD_N][u % T::THREAD_N];
        }
      }
      __syncthreads(); // the other slices' sums are written
      if (slice > 0) return;
#pragma unroll
      for (int s = 0; s < T::SLICES - 1; ++s) {
#pragma unroll
        for (int u = 0; u < OUTPUTS; ++u) sum[u / T::THREAD_N][u % T::THREAD_N] += sums[(s * OUTPUTS + u) * T::SLICE_THREADS];
      }
    }

    // Phase 5. Sums of other threads may still lie where this one stages: only whole warps of slice 0 are left, so wait for them.
    if constexpr (T::SLICES > 1) {
      if (epilogue.activation > ACTIVATION_RELU) ptx::named_barrier(1, T::SLICE_THREADS);
    }
    float* d = p.d + (int64_t{blockIdx.y} * (gridDim.x / (tiles_m * tiles_n)) + batch) * p.m * p.n;
    store<T>(epilogue, sum, d, p.m, p.n, batch, tile_m + warp_m + lane_m, tile_n + warp_n + lane_n,
             reinterpret_cast<float4*>(smem) + thread);
  }
};

} // namespace polywarp::simt

// ---- An entry point ----

#define GEMM_SIMT(NAME, TILE, A, B, VECTOR_A, VECTOR_B)                                                                         \
  extern "C" __global__ void __launch_bounds__(TILE::THREADS, TILE::BLOCKS_PER_SM)                                              \
      NAME(const float* a, const float* b, float* d, uint32_t m, uint32_t n, uint32_t k, int64_t lda, int64_t ldb,              \
           int64_t batch_stride_a, int64_t batch_stride_b, uint32_t k_per_slab, float alpha, float beta, const float* c,        \
           int64_t ldc, int64_t batch_stride_c, const float* bias, uint32_t activation) {                                       \
    using namespace polywarp;                                                                                                   \
    simt::Kernel<TILE, simt::Layout::A, simt::Layout::B, VECTOR_A, VECTOR_B>::run(                                              \
        {a, b, d, m, n, k, lda, ldb, batch_stride_a, batch_stride_b, k_per_slab},                                               \
        Epilogue<float>(alpha, beta, c, ldc, batch_stride_c, bias, activation));                                                \
  }
