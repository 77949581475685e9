// Pack: copies matrix operands of any strides into rows along K that TMA and 16-byte loads can take, converting on the way. One
// operand or two, which often both need it: a product then waits for one launch.
//
// Computes: dst[b][r][k] = src[b, r, k], converted, for r < rows, k < k_extent; 0 for k in k_extent..pitch; for each operand.
//   src element (b, r, k) lies at b * batch_stride + r * row_stride + k * k_stride (elements; any strides, 0 and negative ones
//   too). "Row" is M of operand A, N of operand B. dst: matrices of `rows` rows of `pitch` elements, one after the other, pitch a
//   multiple of 128 bytes, base aligned to 128 bytes.
// Algorithm, by the operand's form: K and K_WIDE (K is the denser source direction) copy along rows; MN transposes tiles:
//   1 load along the source's dense direction, shifting unaligned words together (load.cuh); 2 convert, and exchange the
//   elements of neighbouring k between registers, so that a word holds neighbours along K; 3 through smem; 4 store.
// Tiling: K, K_WIDE: UNROLL units a thread (16 source bytes in K_WIDE, else a destination word). MN: 32 words of K x ROWS rows.
// Mapping: 256 threads; grid (blocks of the first operand, then of the second, 1, 1). Within an operand blocks lie along x, then
//   y, then the batch. K, K_WIDE: x rows, y K, 2^lanes_log2 threads of a block along K, the rest along rows. MN: x K tiles, y row
//   tiles, so that blocks that run together write neighbouring lines.
// Shared memory: MN: [slot of row][33 words]; rows that one source word holds lie 32 slots apart, so that both the
//   scattered stores (bank = lane + i) and the loads along K (bank = lane + slot) are free of conflicts.
// Traffic: reads the operands once, writes rows * pitch once; bound by memory.
// Numerics: copies are bit for bit. tf32: nearest, ties away from zero, kept as f32. bf16: nearest even. What nearest would make
//   an infinity of is cut off instead.
// Requires: sm_80. K_WIDE: k_stride 1, src, row and batch strides multiples of 16 bytes. 16-byte
//   pieces that hold a wanted byte are read whole, so the source buffer must be allocated in such pieces.
// Measured: H200, 2026-11-21, one operand of 16384 x 16384 elements, a kernel for each form, TB/s read and written: K_WIDE copies
//   4.0, tf32 3.8 to 3.9, bf16 4.2. K 8- and 16-bit 2.5, 32-bit 3.7. MN 8-bit 2.3, 16-bit 2.0, 32-bit and conversions 3.0 to 3.6.
// References: none.

#include <cuda_bf16.h>
#include <stdint.h>

#include "load.cuh"
#include "ptx/launch.cuh"

namespace {

using polywarp::load;
using polywarp::Words;

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
constexpr int TILE_UNITS = 32;              // along K: one warp's store, 128 bytes of 4-byte units
constexpr int PITCH_UNITS = TILE_UNITS + 1; // odd, so that a column of units touches every bank

// `Form` in catalogue/pack.rs.
enum Form : uint32_t { K, K_WIDE, MN };

// An operand: where it comes from and goes, and how its blocks lie.
struct Operand {
  const void* src;
  void* dst;
  uint32_t rows, k;
  int64_t row_stride, k_stride, batch_stride, pitch;
  uint32_t form, blocks_x, blocks_y, lanes_log2;
};

// Which of its blocks this is.
struct Block {
  uint32_t x, y, batch;
};

__device__ __forceinline__ Block block_of(const Operand& s, uint32_t number) {
  const uint32_t rest = number / s.blocks_x;
  return {number % s.blocks_x, rest % s.blocks_y, rest / s.blocks_y};
}

// ---- Conversions: what happens to one element ----

// tf32 (10 explicit bits of mantissa), ties away from zero; from the largest on, where nearest would overflow, toward zero.
// Infinities stay, NaN becomes quiet, so that it still is one when low bits are dropped.
__device__ __forceinline__ uint32_t round_tf32(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t add = magnitude >= 0x7f7ff000u ? 0u : 0x1000u;
  const uint32_t quiet = magnitude > 0x7f800000u ? 0x400000u : 0u;
  return ((bits + add) | quiet) & 0xffffe000u;
}

// A mode: bytes of a source and a destination element, and what one f32 becomes, in the low bits.
template <int BYTES>
struct Copy {
  static constexpr int SRC = BYTES, DST = BYTES;
  static constexpr bool CONVERTS = false;
};

struct F32ToTf32 {
  static constexpr int SRC = 4, DST = 4;
  static constexpr bool CONVERTS = true;
  static __device__ uint32_t convert(uint32_t bits) { return round_tf32(bits); }
};

struct F32ToBf16 {
  static constexpr int SRC = 4, DST = 2;
  static constexpr bool CONVERTS = true;
  static __device__ uint32_t convert(uint32_t bits) {
    // The largest bf16 instead of the numbers above it; infinities are left as they are, and so is NaN, which compares as false.
    const float x = __uint_as_float(bits);
    const bool between = fabsf(x) > __uint_as_float(0x7f7f0000u) && fabsf(x) < __uint_as_float(0x7f800000u);
    return between ? bits >> 16 : __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
};

// ---- Phase 1: loads ----

// The unit that smem and the destination are handled in: a word, or one 8-byte element.
template <int DST>
struct UnitOf {
  using Type = uint32_t;
};
template <>
struct UnitOf<8> {
  using Type = uint64_t;
};

// How the elements of a unit lie: neighbours on a 16-byte grid, neighbours anywhere, or apart.
enum class Access { ALIGNED, UNALIGNED, STRIDED };

// Elements 0..count from `at` on, packed into words, zeros beyond.
template <int BYTES, int WORDS, Access ACCESS>
__device__ __forceinline__ Words<WORDS> load_elements(const uint8_t* at, int64_t stride, int count) {
  if constexpr (ACCESS != Access::STRIDED) {
    if constexpr (BYTES == 4 && WORDS == 2 && ACCESS == Access::UNALIGNED) {
      const Words<1> low = load<1, true, 4>(at, 4 * count), high = load<1, true, 4>(at + 4, 4 * count - 4);
      return {low.word[0], high.word[0]};
    } else {
      return load<WORDS, ACCESS == Access::ALIGNED || 4 * WORDS == BYTES, BYTES>(at, count * BYTES);
    }
  } else {
    Words<WORDS> x = {};
#pragma unroll
    for (int i = 0; i < 4 * WORDS / BYTES; ++i) {
      if (i < count) {
        const uint8_t* element = at + i * stride * BYTES;
        if constexpr (BYTES == 8) {
          const uint64_t bits = __ldg(reinterpret_cast<const unsigned long long*>(element));
          x.word[2 * i] = static_cast<uint32_t>(bits), x.word[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
        } else {
          const uint32_t bits = BYTES == 4   ? __ldg(reinterpret_cast<const uint32_t*>(element))
                                : BYTES == 2 ? __ldg(reinterpret_cast<const uint16_t*>(element))
                                             : __ldg(element);
          x.word[i * BYTES / 4] |= bits << (8 * (i * BYTES % 4));
        }
      }
    }
    return x;
  }
}

// ---- K, K_WIDE: the source is denser along K ----

constexpr int UNROLL = 4;

// Where a thread's units lie: `first`, `first + step`, ... of `row`.
struct Lane {
  uint32_t row;
  int64_t first, step;
};

__device__ __forceinline__ Lane lane_of(const Block& block, uint32_t lanes_log2) {
  const uint32_t lanes = 1u << lanes_log2;
  return {block.x * (THREADS >> lanes_log2) + (threadIdx.x >> lanes_log2),
          int64_t{block.y} * UNROLL * lanes + (threadIdx.x & (lanes - 1)), lanes};
}

// How many of `per_unit` elements from `at` on lie before `end`.
__device__ __forceinline__ int count_from(int64_t at, int64_t end, int per_unit) {
  return static_cast<int>(max(int64_t{0}, min(int64_t{per_unit}, end - at)));
}

// A unit is so many words of the source: four where they lie on a 16-byte grid, else what makes a word of the destination
// (two words for elements of 8 bytes).
template <class Mode, Access ACCESS>
constexpr int UNIT_WORDS = ACCESS == Access::ALIGNED ? 4 : Mode::SRC == 8 ? 2 : Mode::SRC > Mode::DST ? Mode::SRC / Mode::DST : 1;

template <class Mode, Access ACCESS>
__device__ __forceinline__ void pack_k(const Operand& s, const Block& block) {
  constexpr int SOURCE_WORDS = UNIT_WORDS<Mode, ACCESS>, PER_UNIT = 4 * SOURCE_WORDS / Mode::SRC;
  constexpr int WORDS = PER_UNIT * Mode::DST / 4; // of the destination
  const Lane lane = lane_of(block, s.lanes_log2);
  if (lane.row >= s.rows) return;
  const uint8_t* from = static_cast<const uint8_t*>(s.src) + (block.batch * s.batch_stride + lane.row * s.row_stride) * Mode::SRC;
  uint8_t* to = static_cast<uint8_t*>(s.dst) + (int64_t{block.batch} * s.rows + lane.row) * s.pitch * Mode::DST;
  Words<SOURCE_WORDS> raw[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const int64_t k = (lane.first + u * lane.step) * PER_UNIT;
    raw[u] = load_elements<Mode::SRC, SOURCE_WORDS, ACCESS>(from + k * s.k_stride * Mode::SRC, s.k_stride, count_from(k, s.k, PER_UNIT));
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const int64_t k = (lane.first + u * lane.step) * PER_UNIT;
    if (k >= s.pitch) break;
    uint32_t unit[WORDS] = {};
#pragma unroll
    for (int i = 0; i < SOURCE_WORDS; ++i) {
      if constexpr (Mode::CONVERTS) {
        unit[i * Mode::DST / 4] |= Mode::convert(raw[u].word[i]) << (8 * (i * Mode::DST % 4));
      } else {
        unit[i] = raw[u].word[i];
      }
    }
    uint8_t* at = to + k * Mode::DST;
    if constexpr (WORDS == 4) {
      *reinterpret_cast<uint4*>(at) = {unit[0], unit[1], unit[2], unit[3]};
    } else if constexpr (WORDS == 2) {
      *reinterpret_cast<uint2*>(at) = {unit[0], unit[1]};
    } else {
      *reinterpret_cast<uint32_t*>(at) = unit[0];
    }
  }
}

// ---- MN: the source is denser along its rows ----

// Source elements of one word (neighbours along rows), and rows of a tile.
template <class Mode>
constexpr int PER_WORD = Mode::SRC >= 4 ? 1 : 4 / Mode::SRC;
template <class Mode>
constexpr int TILE_ROWS = Mode::SRC == 4 ? 64 : 32 * PER_WORD<Mode>;

// Words of the source that make the units of the rows of one word.
template <class Mode>
constexpr int WORDS_ACROSS = Mode::SRC == 8 ? 2 : Mode::SRC == 4 ? 4 / Mode::DST : PER_WORD<Mode>;

// Phase 1: those words, at `count` neighbours along K.
template <class Mode, Access ACCESS>
__device__ __forceinline__ Words<WORDS_ACROSS<Mode>> load_across(const uint8_t* at, const Operand& s, int rows, int count) {
  if constexpr (Mode::SRC == 8) {
    return load_elements<8, 2, ACCESS>(at, 1, rows > 0 ? count : 0);
  } else {
    Words<WORDS_ACROSS<Mode>> x;
#pragma unroll
    for (int j = 0; j < WORDS_ACROSS<Mode>; ++j) {
      x.word[j] = load_elements<Mode::SRC, 1, ACCESS>(at + j * s.k_stride * Mode::SRC, s.row_stride, j < count ? rows : 0).word[0];
    }
    return x;
  }
}

// Phase 2: the units.
template <class Mode>
__device__ __forceinline__ void exchange(const Words<WORDS_ACROSS<Mode>>& x,
                                         typename UnitOf<Mode::DST>::Type (&unit)[PER_WORD<Mode>]) {
  if constexpr (Mode::SRC == 8) {
    unit[0] = x.word[0] | static_cast<uint64_t>(x.word[1]) << 32;
  } else if constexpr (Mode::SRC == 4) {
    unit[0] = 0;
#pragma unroll
    for (int j = 0; j < 4 / Mode::DST; ++j) {
      uint32_t element = x.word[j];
      if constexpr (Mode::CONVERTS) element = Mode::convert(element);
      unit[0] |= element << (8 * Mode::DST * j);
    }
  } else if constexpr (Mode::SRC == 2) {
    unit[0] = __byte_perm(x.word[0], x.word[1], 0x5410);
    unit[1] = __byte_perm(x.word[0], x.word[1], 0x7632);
  } else {
    const uint32_t low01 = __byte_perm(x.word[0], x.word[1], 0x5140), low23 = __byte_perm(x.word[2], x.word[3], 0x5140);
    const uint32_t high01 = __byte_perm(x.word[0], x.word[1], 0x7362), high23 = __byte_perm(x.word[2], x.word[3], 0x7362);
    unit[0] = __byte_perm(low01, low23, 0x5410);
    unit[1] = __byte_perm(low01, low23, 0x7632);
    unit[2] = __byte_perm(high01, high23, 0x5410);
    unit[3] = __byte_perm(high01, high23, 0x7632);
  }
}

template <class Mode>
using SmemTile = typename UnitOf<Mode::DST>::Type[TILE_ROWS<Mode>][PITCH_UNITS];

template <class Mode, Access ACCESS>
__device__ __forceinline__ void pack_tile(SmemTile<Mode>& tile, const Operand& s, const Block& block) {
  using Unit = typename UnitOf<Mode::DST>::Type;
  constexpr int PER_UNIT = sizeof(Unit) / Mode::DST, WORD_ROWS = PER_WORD<Mode>, ROWS = TILE_ROWS<Mode>;
  constexpr int GROUPS = ROWS / (32 * WORD_ROWS); // of rows that a warp loads at a time

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first_k = int64_t{block.x} * TILE_UNITS * PER_UNIT, first_row = int64_t{block.y} * ROWS;
  const uint8_t* from = static_cast<const uint8_t*>(s.src) + block.batch * s.batch_stride * Mode::SRC;

  // Phase 1: all loads of the tile before the first use of one.
  constexpr int UNITS = TILE_UNITS / WARPS;
  Words<WORDS_ACROSS<Mode>> raw[GROUPS][UNITS];
#pragma unroll
  for (int group = 0; group < GROUPS; ++group) {
    const int64_t row = first_row + (group * 32 + lane) * WORD_ROWS;
    const int rows = count_from(row, s.rows, WORD_ROWS);
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
      const int64_t k = first_k + (u * WARPS + warp) * PER_UNIT;
      raw[group][u] = load_across<Mode, ACCESS>(from + (row * s.row_stride + k * s.k_stride) * Mode::SRC, s, rows,
                                                count_from(k, s.k, PER_UNIT));
    }
  }
  // Phase 2. Slot of row (group, lane, i): group * 32 * WORD_ROWS + i * 32 + lane.
#pragma unroll
  for (int group = 0; group < GROUPS; ++group) {
#pragma unroll
    for (int u = 0; u < UNITS; ++u) {
      Unit unit[WORD_ROWS];
      exchange<Mode>(raw[group][u], unit);
#pragma unroll
      for (int i = 0; i < WORD_ROWS; ++i) tile[(group * WORD_ROWS + i) * 32 + lane][u * WARPS + warp] = unit[i];
    }
  }
  __syncthreads(); // the tile is whole before any warp stores from it

  // Phases 3 and 4.
  const int64_t k = first_k + lane * PER_UNIT;
#pragma unroll
  for (int r = 0; r < ROWS / WARPS; ++r) {
    const int slot = r * WARPS + warp;
    const int64_t row = first_row + slot / (32 * WORD_ROWS) * (32 * WORD_ROWS) + slot % 32 * WORD_ROWS + slot / 32 % WORD_ROWS;
    if (row < s.rows && k < s.pitch) {
      uint8_t* to = static_cast<uint8_t*>(s.dst) + ((int64_t{block.batch} * s.rows + row) * s.pitch + k) * Mode::DST;
      *reinterpret_cast<Unit*>(to) = tile[slot][lane];
    }
  }
}

// The branches hold for the whole block: inside the loops they would keep loads from being issued together.
template <class Mode>
__device__ __forceinline__ void pack(const Operand& s, uint32_t number) {
  __shared__ SmemTile<Mode> tile;
  const Block block = block_of(s, number);
  if (s.form == K_WIDE) {
    pack_k<Mode, Access::ALIGNED>(s, block);
  } else if (s.form == K) {
    if (s.k_stride == 1) {
      pack_k<Mode, Access::UNALIGNED>(s, block);
    } else {
      pack_k<Mode, Access::STRIDED>(s, block);
    }
  } else if (Mode::SRC >= 4 || s.row_stride == 1) {
    pack_tile<Mode, Access::UNALIGNED>(tile, s, block);
  } else {
    pack_tile<Mode, Access::STRIDED>(tile, s, block);
  }
}

} // namespace

// ---- Entry points. Arguments: both operands, the second of zeros where there is one alone; blocks of the first ----

#define OPERAND_ARGUMENTS(X)                                                                                            \
  const void *src##X, void *dst##X, uint32_t rows##X, uint32_t k##X, int64_t row_stride##X, int64_t k_stride##X,        \
      int64_t batch_stride##X, int64_t pitch##X, uint32_t form##X, uint32_t blocks_x##X, uint32_t blocks_y##X,          \
      uint32_t lanes_log2##X

// Each field by itself, so that none goes through memory.
#define EITHER(FIELD) (first ? FIELD##0 : FIELD##1)

#define PACK(SYMBOL, ...)                                                                                               \
  extern "C" __global__ void __launch_bounds__(THREADS)                                                                 \
      SYMBOL(OPERAND_ARGUMENTS(0), OPERAND_ARGUMENTS(1), uint32_t blocks) {                                             \
    ptx::let_next_kernel_start();                                                                                       \
    ptx::wait_for_previous_kernels();                                                                                   \
    const bool first = blockIdx.x < blocks;                                                                             \
    const Operand operand{EITHER(src),      EITHER(dst),          EITHER(rows),  EITHER(k),    EITHER(row_stride),      \
                          EITHER(k_stride), EITHER(batch_stride), EITHER(pitch), EITHER(form), EITHER(blocks_x),        \
                          EITHER(blocks_y), EITHER(lanes_log2)};                                                        \
    pack<__VA_ARGS__>(operand, blockIdx.x - (first ? 0 : blocks));                                                      \
  }
