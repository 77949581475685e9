// Skinny products on Hopper: W streamed once through shared memory by TMA, and multiplied by wgmma as it arrives.
//
// Computes      what gemv.cuh does, for f16, bf16, f8e4m3, f8e5m2, i8 and u8, for up to 16 vectors X.
// Algorithm     Blocks of a cluster take 64 rows l and share K, in steps of 128 bytes. 1 one warp keeps a ring of steps of W and X
//               under way; 2 TURNS warpgroups take steps in turns, W as the rows of wgmma m64n16 and the vectors as its columns: what
//               is asked for at once arrives at once, and one warpgroup would be late for it; each stage always has the same one of
//               them for a reader, for its barrier tells rounds apart by one parity bit; 3 each block of the cluster owns a
//               share of the rows l: all warpgroups of all blocks send it their sums, and it adds them up, always in the same order;
//               4 epilogue.
// Tiling        64 rows l, steps of 128 bytes of k, STAGES steps on their way. With about 100 KB of them two blocks fit a
//               multiprocessor; with 200 KB a lone one has twice as much on its way.
// Mapping       grid (l tiles * batches, slabs, CLUSTER). Of the sums, warp w of a warpgroup has rows 16 w to 16 w + 15; lane 4 g + c
//               rows g and g + 8, vectors 2 c, 2 c + 1 and 8 further (PTX ISA, wgmma, fragment of D).
// Shared memory STAGES * 80 * 128 bytes, swizzled by 128 bytes as the accelerator writes it; two barriers a stage; a place for sums.
// Traffic       W once; X from L2, a quarter of W's bytes.
// Numerics      Products exact; sums f32 in the tensor core's order, of 8-bit floats 128 at a time, which plain cores add up; i32 of
//               integers, wrapping. A fixed order: the same bits on every run.
// Requires      sm_90a; W, X, pitches and batch strides multiples of 16 bytes; 8-bit W along k.
// Measured      docs/gemm.md, with what repeats it.
// References    PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include <cuda.h>

#include "gemv.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cluster.cuh"
#include "ptx/launch.cuh"
#include "ptx/store_shared.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"

namespace polywarp::gemv {

template <class T, class Out, bool K_MAJOR, int CLUSTER, int TURNS, int STAGES>
struct Warpgroups {
  using Instruction = ptx::Wgmma<T, T>;
  static constexpr int ROW_BYTES = ptx::SWIZZLE_ROW_BYTES, STEP = ROW_BYTES / sizeof(T);
  static constexpr int ROWS_L = 64, VECTORS = 16, WARPS = 4 * TURNS, THREADS = 32 * (WARPS + 1);
  static constexpr uint32_t W_BYTES = ROWS_L * ROW_BYTES, STAGE_BYTES = W_BYTES + VECTORS * ROW_BYTES;
  static constexpr uint32_t RING_BYTES = STAGES * STAGE_BYTES, BARRIER_BYTES = 16 * STAGES;
  // Rows l that a block of the cluster ends, the sums that it is sent for each, and elements from one such row to the next.
  static constexpr int OWN_L = ROWS_L / CLUSTER, PARTS = CLUSTER * TURNS, PITCH = VECTORS + 4;
  static constexpr uint32_t SHARED_BYTES = 1024 + RING_BYTES + BARRIER_BYTES + PARTS * OWN_L * PITCH * 4;
  using Sums = Sum<T>[VECTORS / 2];
  static_assert(STAGES % TURNS == 0, "a reader of a stage sees all of its rounds, or it takes an old one for its own");
  static_assert(K_MAJOR || sizeof(T) == 2, "wgmma takes 8-bit operands along k");

  // Where in the ring someone stands, and the parity of that round.
  struct Position {
    uint32_t stage, parity;

    __device__ __forceinline__ void advance(uint32_t steps) {
      stage += steps;
      if (stage >= STAGES) {
        stage -= STAGES;
        parity ^= 1;
      }
    }
  };

  struct Ring {
    uint32_t stages, filled, freed;
  };

  struct StreamPlace : Place {
    uint32_t batches;
  };

  // Most launches have one matrix, and divide nothing. Of a slab of K this block has its share, in whole steps.
  static __device__ __forceinline__ StreamPlace place_of(const StreamArguments& p, uint32_t rank) {
    const uint32_t blocks = (p.shape.l + ROWS_L - 1) / ROWS_L, batches = gridDim.x == blocks ? 1 : gridDim.x / blocks;
    const uint32_t batch = batches == 1 ? 0 : blockIdx.x / blocks;
    const uint32_t begin = min(p.shape.k, blockIdx.y * p.shape.k_per_slab), end = begin + min(p.shape.k_per_slab, p.shape.k - begin);
    const uint32_t share = ((end - begin + STEP - 1) / STEP + CLUSTER - 1) / CLUSTER * STEP, first = min(begin + rank * share, end);
    return {{batch, blockIdx.x - batch * blocks, first, min(first + share, end)}, batches};
  }

  // Phase 1, by a whole warp.
  static __device__ __forceinline__ void fetch(const CUtensorMap* w, const CUtensorMap* x, const StreamArguments& p,
                                               const StreamPlace& place, const Ring& ring) {
    const int l = place.block * ROWS_L, w_batch = p.w_batches ? place.batch : 0, x_batch = p.x_batches ? place.batch : 0;
    Position at = {0, 1};
    const bool leads = ptx::elected();
    for (uint32_t k = place.begin; k < place.end; k += STEP) {
      const uint32_t to = ring.stages + at.stage * STAGE_BYTES, filled = ring.filled + 8 * at.stage;
      ptx::barrier_wait(ring.freed + 8 * at.stage, at.parity);
      if (leads) {
        ptx::barrier_arrive_expect(filled, STAGE_BYTES);
        ptx::load_tile(to, w, filled, K_MAJOR ? k : l, K_MAJOR ? l : k, w_batch);
        ptx::load_tile(to + W_BYTES, x, filled, k, 0, x_batch);
      }
      at.advance(1);
    }
  }

  // Phase 2 for one step, which begins at `unit` of shared memory: `sums` become its products, or have them added.
  static __device__ __forceinline__ void start(Sums& sums, uint32_t unit, bool fresh) {
    // wgmma's K takes 32 bytes of a row along k, else so many rows.
    constexpr uint32_t STEP_W = K_MAJOR ? 32 : Instruction::K * ROW_BYTES;
    constexpr ptx::Major MAJOR = K_MAJOR ? ptx::Major::K : ptx::Major::MN;
    ptx::keep_in_place(sums);
    ptx::wgmma_fence();
    const uint64_t w = ptx::matrix_descriptor(unit, W_BYTES, ptx::SWIZZLE_ATOM_BYTES);
    const uint64_t x = ptx::matrix_descriptor(unit + W_BYTES / ptx::DESCRIPTOR_UNIT, 0, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
    for (int i = 0; i < ROW_BYTES / 32; ++i) {
      Instruction::template run<VECTORS, MAJOR, ptx::Major::K>(sums, w + (i * STEP_W >> 4), x + (i * 32 >> 4), i > 0 || !fresh);
    }
    ptx::wgmma_commit();
    ptx::keep_in_place(sums);
  }

  // Phase 2, of every TURNS-th step from `turn` on. One step's products stay under way, so it is given back one later.
  static __device__ __forceinline__ void multiply(Sums& sums, const StreamPlace& place, const Ring& ring, uint32_t turn) {
    const uint32_t steps = (place.end - place.begin + STEP - 1) / STEP, count = steps > turn ? (steps - turn + TURNS - 1) / TURNS : 0;
    Position at = {turn, 0};
    uint32_t before = 0;
    const auto wait = [&] {
      ptx::barrier_wait(ring.filled + 8 * at.stage, at.parity);
      return ptx::descriptor_unit(ring.stages) + at.stage * (STAGE_BYTES / ptx::DESCRIPTOR_UNIT);
    };
    const auto free_before = [&] {
      if (threadIdx.x % 128 == 0) ptx::barrier_arrive(ring.freed + 8 * before);
    };
    const auto advance = [&] {
      before = at.stage;
      at.advance(TURNS);
    };
    clear(sums);
    if constexpr (IS_FLOAT8<T>) {
      // wgmma adds with some 14 bits: what it makes of a step is added by plain cores, while the next one is multiplied. Each way out
      // waits by itself: behind one wait for both the assembler serialises wgmma (C7514).
      Sums even, odd;
      clear(even);
      clear(odd);
      // Unrolled it would be serialised too.
#pragma unroll 1
      for (uint32_t i = 0; i < count; i += 2) {
        start(even, wait(), true);
        if (i > 0) {
          add<1>(sums, odd);
          free_before();
        }
        advance();
        if (i + 1 < count) {
          start(odd, wait(), true);
          add<1>(sums, even);
          free_before();
          advance();
        }
      }
      if (count % 2 == 0) {
        add<0>(sums, odd);
      } else {
        add<0>(sums, even);
      }
    } else {
      for (uint32_t i = 0; i < count; ++i) {
        start(sums, wait(), false);
        ptx::wgmma_wait<1>();
        if (i > 0) free_before();
        advance();
      }
      ptx::wgmma_wait<0>();
      ptx::keep_in_place(sums);
    }
  }

  static __device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < VECTORS / 2; ++i) sums[i] = 0;
  }

  // Adds what was started before the last PENDING steps.
  template <int PENDING>
  static __device__ __forceinline__ void add(Sums& sums, Sums& more) {
    ptx::wgmma_wait<PENDING>();
    ptx::keep_in_place(more);
#pragma unroll
    for (int i = 0; i < VECTORS / 2; ++i) sums[i] += more[i];
  }

  // Phase 3, sending: an inbox has the sums [block, warpgroup][own l][vector].
  static __device__ __forceinline__ void send(const Sums& sums, uint32_t inbox, uint32_t rank) {
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, c = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t l = warp % 4 * 16 + half * 8 + g, row = (rank * TURNS + warp / 4) * OWN_L + l % OWN_L;
      const uint32_t to = inbox + (row * PITCH + 2 * c) * 4, there = CLUSTER == 1 ? to : ptx::address_in(to, l / OWN_L);
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const Sum<T>*pair = sums + 4 * eight + 2 * half;
        if constexpr (CLUSTER == 1) {
          ptx::store_pair(there + eight * 32, pair[0], pair[1]);
        } else {
          ptx::store_cluster(there + eight * 32, pair[0], pair[1]);
        }
      }
    }
  }

  // Phases 3 and 4: adds up what was sent, and ends it. Neighbouring threads, neighbouring outputs.
  static __device__ __forceinline__ void finish(const Sum<T>* inbox, const StreamArguments& p, const Epilogue<Out>& epilogue,
                                                const StreamPlace& place, uint32_t rank) {
    const Arguments& shape = p.shape;
    const int64_t matrix = blockIdx.y * int64_t{place.batches} + place.batch;
    const uint32_t first = place.block * ROWS_L + rank * OWN_L;
    for (uint32_t i = threadIdx.x; i < VECTORS * OWN_L; i += THREADS) {
      const uint32_t own = shape.x_is_a ? i % OWN_L : i / VECTORS, s = shape.x_is_a ? i / OWN_L : i % VECTORS, l = first + own;
      if (s >= shape.s || l >= shape.l) continue;
      Sum<T> sum = 0;
#pragma unroll
      for (int part = 0; part < PARTS; ++part) sum += inbox[(part * OWN_L + own) * PITCH + s];
      const uint32_t m = shape.x_is_a ? s : l, n = shape.x_is_a ? l : s;
      store_at(shape, epilogue, place, m, n, matrix * shape.l * shape.s + int64_t{m} * (shape.x_is_a ? shape.l : shape.s) + n, sum);
    }
  }

  static __device__ __forceinline__ void run(const CUtensorMap* w, const CUtensorMap* x, const StreamArguments& p,
                                             const Epilogue<Out>& epilogue) {
    extern __shared__ uint8_t memory[];
    // Swizzled tiles start on 1024 bytes.
    const uint32_t begin = ptx::smem_address(memory), stages = (begin + 1023) & ~1023u;
    const Ring ring = {stages, stages + RING_BYTES, stages + RING_BYTES + 8 * STAGES};
    const uint32_t inbox = ring.filled + BARRIER_BYTES, warp = ptx::uniform(threadIdx.x / 32), rank = CLUSTER == 1 ? 0 : ptx::cluster_rank();
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; ++i) {
        ptx::barrier_init(ring.filled + 8 * i, 1);
        ptx::barrier_init(ring.freed + 8 * i, 1);
      }
      ptx::fence_barrier_init();
    } else if (threadIdx.x == 32) {
      ptx::prefetch_map(w);
    } else if (threadIdx.x == 64) {
      ptx::prefetch_map(x);
    }
    __syncthreads(); // the barriers are there
    if constexpr (CLUSTER > 1) ptx::cluster_arrive();
    ptx::let_next_kernel_start();

    const StreamPlace place = place_of(p, rank);
    ptx::wait_for_previous_kernels();

    Sums sums;
    if (warp == WARPS) {
      fetch(w, x, p, place, ring);
    } else {
      multiply(sums, place, ring, warp / 4);
    }
    if constexpr (CLUSTER > 1) ptx::cluster_wait(); // every block of the cluster has begun: it can be written to
    if (warp < WARPS) send(sums, inbox, rank);
    if constexpr (CLUSTER == 1) {
      __syncthreads(); // all sums are there
    } else {
      ptx::cluster_arrive();
      ptx::cluster_wait(); // those of all blocks; from here on none touches another
    }
    finish(reinterpret_cast<const Sum<T>*>(memory + (inbox - begin)), p, epilogue, place, rank);
  }
};

} // namespace polywarp::gemv

#define GEMV_WARPGROUPS(NAME, T, OUT, K_MAJOR, CLUSTER, TURNS, STAGES)                                                                  \
  using NAME##_kernel = polywarp::gemv::Warpgroups<T, OUT, K_MAJOR, CLUSTER, TURNS, STAGES>;                                            \
  extern "C" __global__ void __cluster_dims__(1, 1, CLUSTER) __launch_bounds__(NAME##_kernel::THREADS, 1)                               \
      NAME(GEMV_STREAM_ARGUMENTS(OUT)) { GEMV_STREAM_RUN(NAME##_kernel, OUT); }
