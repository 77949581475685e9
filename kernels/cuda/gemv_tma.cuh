// Skinny products in 16 bits on sm_90: W streamed once through shared memory by the tensor memory accelerator.
//
// Computes: what gemv.cuh does, for f16 and bf16, for up to 16 vectors X.
// Algorithm: Blocks of a cluster take a tile of ROWS_L rows l and share K, in steps of 64. 1 one warp keeps a ring of steps
//   of W and X under way; 2 each warp multiplies 16 rows l as the columns of mma.sync m16n8k16 with the vectors as its rows;
//   3 each block of the cluster owns a share of the rows l; all send it their sums, and it adds them up in the order of the
//   blocks; 4 epilogue.
// Tiling: ROWS_L rows l (64 or 128), steps of 64 k, STAGES steps on their way: bytes in flight decide, so one block fills a
//   multiprocessor's shared memory.
// Mapping: grid (l tiles * batches, slabs, CLUSTER).
// Shared memory: STAGES * (ROWS_L + 16) * 128 bytes, swizzled by 128 bytes as the accelerator writes it; the barriers; a place
//   for the sums that other blocks send.
// Traffic: W once; X from L2, a quarter of W's bytes.
// Numerics: products exact, sums f32 in the tensor core's order; fixed, so bitwise repeatable.
// Requires: sm_90; W, X, pitches and batch strides multiples of 16 bytes.
// References: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "ldmatrix".
#pragma once

#include <cuda.h>

#include "gemv_mma.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cluster.cuh"
#include "ptx/launch.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/store_shared.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"

namespace polywarp::gemv {

template <class T, class Out, bool K_MAJOR, int ROWS_L, int CLUSTER, int STAGES>
struct Stream {
  static constexpr int STEP = 64, VECTORS = 16, WARPS = ROWS_L / 16, THREADS = (WARPS + 1) * 32;
  // One box of W as it lies along l.
  static constexpr int BOX_L = 64, BOX_BYTES = BOX_L * STEP * 2;
  static constexpr uint32_t W_BYTES = ROWS_L * STEP * 2, STAGE_BYTES = W_BYTES + VECTORS * STEP * 2;
  static constexpr uint32_t RING_BYTES = STAGES * STAGE_BYTES, BARRIER_BYTES = 16 * STAGES;
  // Rows l that a block of the cluster ends.
  static constexpr int OWN_L = ROWS_L / CLUSTER;
  static_assert(OWN_L % 8 == 0, "the rows of a fragment have one owner");

  // Phase 1, by a whole warp.
  static __device__ __forceinline__ void fetch(const CUtensorMap* w, const CUtensorMap* x, const StreamArguments& p, const Place& place,
                                               uint32_t ring, uint32_t filled, uint32_t freed) {
    const int l = place.block * ROWS_L, w_batch = p.w_batches ? place.batch : 0, x_batch = p.x_batches ? place.batch : 0;
    const bool leads = ptx::elected();
    uint32_t stage = 0, parity = 1;
    for (uint32_t k = place.begin; k < place.end; k += STEP) {
      ptx::barrier_wait(freed + 8 * stage, parity);
      const uint32_t to = ring + stage * STAGE_BYTES;
      if (leads) {
        ptx::barrier_arrive_expect(filled + 8 * stage, STAGE_BYTES);
        if constexpr (K_MAJOR) {
          ptx::load_tile(to, w, filled + 8 * stage, k, l, w_batch);
        } else {
#pragma unroll
          for (int box = 0; box < ROWS_L / BOX_L; ++box) {
            ptx::load_tile(to + box * BOX_BYTES, w, filled + 8 * stage, l + box * BOX_L, k, w_batch);
          }
        }
        ptx::load_tile(to + W_BYTES, x, filled + 8 * stage, k, 0, x_batch);
      }
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
  }

  // Phase 2. Sums of 16 vectors and of two times 8 rows l.
  static __device__ __forceinline__ void multiply(float (&sum)[2][4], const Place& place, uint32_t ring, uint32_t filled, uint32_t freed) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Rows that this lane's addresses of ldmatrix point to; the units of 16 bytes of a row are mixed with its low bits.
    const uint32_t x_row = lane % 16, x_unit = lane / 16;
    const uint32_t w_row = K_MAJOR ? warp * 16 + lane % 8 + lane / 16 * 8 : warp / 4 * STEP + lane % 16;
    const uint32_t w_unit = K_MAJOR ? lane / 8 % 2 : warp % 4 * 2 + lane / 16;
    uint32_t stage = 0, parity = 0;
    for (uint32_t k = place.begin; k < place.end; k += STEP) {
      ptx::barrier_wait(filled + 8 * stage, parity);
      const uint32_t w = ring + stage * STAGE_BYTES, x = w + W_BYTES;
      uint32_t left[STEP / 16][4], right[STEP / 16][4];
#pragma unroll
      for (int i = 0; i < STEP / 16; ++i) {
        ptx::load_matrices(left[i], x + x_row * 128 + ((2 * i + x_unit) ^ x_row % 8) * 16);
        if constexpr (K_MAJOR) {
          ptx::load_matrices(right[i], w + w_row * 128 + ((2 * i + w_unit) ^ w_row % 8) * 16);
        } else {
          ptx::load_matrices_transposed(right[i], w + (16 * i + w_row) * 128 + (w_unit ^ w_row % 8) * 16);
        }
      }
#pragma unroll
      for (int i = 0; i < STEP / 16; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          mma<T>(sum[half], left[i][0], left[i][1], left[i][2], left[i][3], right[i][2 * half], right[i][2 * half + 1]);
        }
      }
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(freed + 8 * stage);
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
  }

  static __device__ __forceinline__ void run(const CUtensorMap* w, const CUtensorMap* x, const StreamArguments& p, const Epilogue<Out>& epilogue) {
    extern __shared__ uint8_t memory[];
    // Swizzled tiles start on 1024 bytes.
    const uint32_t begin = ptx::smem_address(memory), ring = (begin + 1023) & ~1023u;
    const uint32_t filled = ring + RING_BYTES, freed = filled + 8 * STAGES, inbox = filled + BARRIER_BYTES;
    const uint32_t warp = ptx::uniform(threadIdx.x / 32), rank = CLUSTER == 1 ? 0 : ptx::cluster_rank();
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; ++i) {
        ptx::barrier_init(filled + 8 * i, 1);
        ptx::barrier_init(freed + 8 * i, WARPS);
      }
      ptx::fence_barrier_init();
      ptx::prefetch_map(w);
      ptx::prefetch_map(x);
    }
    __syncthreads(); // the barriers are there
    if constexpr (CLUSTER > 1) ptx::cluster_arrive();
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernels();

    Place place = place_of(p.shape, ROWS_L);
    // This block's share of the slab, in whole steps.
    const uint32_t steps = (place.end - place.begin + STEP - 1) / STEP, share = (steps + CLUSTER - 1) / CLUSTER * STEP;
    place.begin = min(place.begin + rank * share, place.end);
    place.end = min(place.begin + share, place.end);

    float sum[2][4] = {};
    if (warp == WARPS) {
      fetch(w, x, p, place, ring, filled, freed);
    } else {
      multiply(sum, place, ring, filled, freed);
    }
    if constexpr (CLUSTER > 1) ptx::cluster_wait(); // every block of the cluster has begun: it can be written to
    // Phase 3. An inbox has the sums [block][vector][own l].
    if (warp < WARPS) {
      const uint32_t g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t l = warp * 16 + half * 8 + 2 * c, to = inbox + ((rank * VECTORS + g) * OWN_L + l % OWN_L) * 4;
        const uint32_t address = CLUSTER == 1 ? to : ptx::address_in(to, l / OWN_L);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t at = address + i * 8 * OWN_L * 4;
          if constexpr (CLUSTER == 1) {
            ptx::store_pair(at, sum[half][2 * i], sum[half][2 * i + 1]);
          } else {
            ptx::store_cluster(at, sum[half][2 * i], sum[half][2 * i + 1]);
          }
        }
      }
    }
    if constexpr (CLUSTER == 1) {
      __syncthreads(); // all sums are there
    } else {
      ptx::cluster_arrive();
      ptx::cluster_wait(); // those of all blocks; from here on none touches another
    }
    const float* sums = reinterpret_cast<const float*>(memory + (inbox - begin));
    const uint32_t outputs = p.shape.s * OWN_L;
#pragma unroll 1
    for (uint32_t at = threadIdx.x; at < outputs; at += THREADS) {
      // Neighbouring threads, neighbouring outputs.
      const uint32_t l = p.shape.x_is_a ? at % OWN_L : at / p.shape.s, s = p.shape.x_is_a ? at / OWN_L : at % p.shape.s;
      float total = 0;
#pragma unroll
      for (int block = 0; block < CLUSTER; ++block) total += sums[(block * VECTORS + s) * OWN_L + l];
      store(p.shape, epilogue, place, ROWS_L, place.block * ROWS_L + rank * OWN_L + l, s, total);
    }
  }
};

} // namespace polywarp::gemv

#define GEMV_STREAM(NAME, T, OUT, K_MAJOR, ROWS_L, CLUSTER, STAGES)                                                                   \
  using NAME##_kernel = polywarp::gemv::Stream<T, OUT, K_MAJOR, ROWS_L, CLUSTER, STAGES>;                                             \
  extern "C" __global__ void __cluster_dims__(1, 1, CLUSTER) __launch_bounds__(NAME##_kernel::THREADS, 1)                                       \
      NAME(GEMV_STREAM_ARGUMENTS(OUT)) { GEMV_STREAM_RUN(NAME##_kernel, OUT); }
