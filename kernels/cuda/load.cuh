// Loads of up to 16 bytes at any address, as whole aligned words that are shifted together.
//
// An unaligned load reads the one or two aligned pieces that hold a wanted byte, so a buffer must be allocated in whole 16-byte
// pieces; the second piece is what the neighbouring lane reads first, and comes from L1. Used by gemv.cuh and pack.cu.
#pragma once

#include <stdint.h>

namespace polywarp {

template <int WORDS>
struct Words {
  uint32_t word[WORDS];
};

template <int WORDS>
__device__ __forceinline__ Words<WORDS> load_aligned(const void* at) {
  Words<WORDS> x;
  if constexpr (WORDS == 4) {
    const uint4 v = __ldg(static_cast<const uint4*>(at));
    x.word[0] = v.x, x.word[1] = v.y, x.word[2] = v.z, x.word[3] = v.w;
  } else if constexpr (WORDS == 2) {
    const uint2 v = __ldg(static_cast<const uint2*>(at));
    x.word[0] = v.x, x.word[1] = v.y;
  } else {
    x.word[0] = __ldg(static_cast<const uint32_t*>(at));
  }
  return x;
}

// `bytes` (at most 4 WORDS; none when <= 0) bytes from `at` on, then zeros. ALIGNED: `at` is a multiple of 4 WORDS.
// GRANULE: `bytes` is a multiple of it.
template <int WORDS, bool ALIGNED, int GRANULE = 1>
__device__ __forceinline__ Words<WORDS> load(const void* at, int bytes) {
  constexpr int BYTES = 4 * WORDS;
  // No branches, only predicated loads and selects: a branch would keep loads from being issued together.
  Words<WORDS> x;
  if constexpr (ALIGNED) {
    x = bytes > 0 ? load_aligned<WORDS>(at) : Words<WORDS>{};
  } else {
    const uintptr_t address = reinterpret_cast<uintptr_t>(at);
    const int skip = static_cast<int>(address % BYTES);
    const char* base = reinterpret_cast<const char*>(address - skip);
    const Words<WORDS> low = bytes > 0 ? load_aligned<WORDS>(base) : Words<WORDS>{};
    const Words<WORDS> high = skip + bytes > BYTES ? load_aligned<WORDS>(base + BYTES) : Words<WORDS>{};
    uint32_t both[2 * WORDS + 1];
    both[2 * WORDS] = 0;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) both[i] = low.word[i], both[WORDS + i] = high.word[i];
#pragma unroll
    for (int by = WORDS / 2; by >= 1; by /= 2) {
#pragma unroll
      for (int i = 0; i + by < 2 * WORDS; ++i) both[i] = (skip & (4 * by)) != 0 ? both[i + by] : both[i];
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) x.word[i] = __funnelshift_r(both[i], both[i + 1], 8 * (skip & 3));
  }
  if constexpr (ALIGNED && GRANULE >= BYTES) return x; // whole or nothing
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    const int left = bytes - 4 * i;
    const uint32_t mask = left <= 0 ? 0 : (1u << (8 * (left & 3))) - 1;
    x.word[i] = left >= 4 ? x.word[i] : x.word[i] & mask;
  }
  return x;
}

} // namespace polywarp
