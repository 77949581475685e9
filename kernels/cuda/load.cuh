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
template <int WORDS, bool ALIGNED>
__device__ __forceinline__ Words<WORDS> load(const void* at, int bytes) {
  constexpr int BYTES = 4 * WORDS;
  Words<WORDS> x = {};
  if (bytes <= 0) return x;
  if constexpr (ALIGNED) {
    x = load_aligned<WORDS>(at);
  } else {
    const uintptr_t address = reinterpret_cast<uintptr_t>(at);
    const int skip = static_cast<int>(address % BYTES);
    const char* base = reinterpret_cast<const char*>(address - skip);
    uint32_t both[2 * WORDS + 1] = {};
    const Words<WORDS> low = load_aligned<WORDS>(base);
    Words<WORDS> high = {};
    if (skip + bytes > BYTES) high = load_aligned<WORDS>(base + BYTES);
#pragma unroll
    for (int i = 0; i < WORDS; ++i) both[i] = low.word[i], both[WORDS + i] = high.word[i];
#pragma unroll
    for (int by = WORDS / 2; by >= 1; by /= 2) {
      if (skip & (4 * by)) {
#pragma unroll
        for (int i = 0; i + by < 2 * WORDS; ++i) both[i] = both[i + by];
      }
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) x.word[i] = __funnelshift_r(both[i], both[i + 1], 8 * (skip & 3));
  }
  if (bytes < BYTES) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const int left = bytes - 4 * i;
      x.word[i] = left >= 4 ? x.word[i] : left <= 0 ? 0 : x.word[i] & ((1u << (8 * left)) - 1);
    }
  }
  return x;
}

} // namespace polywarp
