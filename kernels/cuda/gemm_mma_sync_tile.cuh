// A tile of one operand of a matrix product in shared memory: its swizzled layout, and how it is filled.
//
// Layout        A K-major tile has BLOCK rows of BLOCK_K elements, an MN-major one BLOCK_K rows of BLOCK elements, as they lie in
//               global memory. Within 128 bytes the eight units of 16 bytes change places by XOR with bits of the row, so that
//               the eight addresses of one phase of a fragment load fall into different banks (see `swizzle`).
//               The map (row, byte) -> offset is linear over XOR: the offset of a constant step is a constant, whatever the
//               thread's own part is, as long as the two have no bit in common.
// Filling       Access::BYTES_16, _8, _4: cp.async of that size; what lies outside of the operand arrives as zero.
//               Access::ANY: operands that start or step anywhere. Two aligned 16-byte loads, a shift by the byte distance, one
//               16-byte store; words are read whole when they hold at least one element of the operand, as allocations
//               are multiples of 16 bytes.
// Next          gemm_mma_sync_fragments.cuh reads tiles; gemm_mma_sync.cuh is the kernel.
#pragma once
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"

#include <cstdint>

namespace gemm_mma {

// Along which dimension neighbours in memory lie: K, or the operand's other one (M of A, N of B).
enum class Major { K, MN };

// How many bytes every row start of an operand is aligned to.
enum class Access : int { ANY = 0, BYTES_4 = 4, BYTES_8 = 8, BYTES_16 = 16 };

// How fragments are read, which decides what must not share a bank.
enum class Pattern {
    // 8 consecutive rows, one unit each (ldmatrix).
    ROWS,
    // Rows 0, 1, 4, 5, 8, 9, 12, 13 (or those + 2), one unit each: 8-bit MN-major.
    ROW_PAIRS,
    // Rows 0 to 3, two units each: tf32 MN-major, f64.
    FOUR_ROWS,
};

template <typename Element, Major MAJOR, Pattern PATTERN, int BLOCK, int BLOCK_K, int THREADS, Access ACCESS>
struct Tile {
    static constexpr int ROWS = MAJOR == Major::K ? BLOCK : BLOCK_K;
    static constexpr int ROW_BYTES = (MAJOR == Major::K ? BLOCK_K : BLOCK) * sizeof(Element);
    static constexpr int BYTES = ROWS * ROW_BYTES;
    // Bytes that one thread moves at once, and how often.
    static constexpr int UNIT = ACCESS == Access::ANY ? 16 : static_cast<int>(ACCESS);
    static constexpr int ROW_UNITS = ROW_BYTES / UNIT;
    static constexpr int UNITS = BYTES / UNIT;
    static constexpr int LOADS = (UNITS + THREADS - 1) / THREADS;
    // Bits of an offset that the swizzle mixes: the unit within 128 bytes.
    static constexpr uint32_t MIXED = 0x70;

    static_assert((ROW_BYTES & (ROW_BYTES - 1)) == 0 && (THREADS & (THREADS - 1)) == 0, "the layout is linear over XOR");
    static_assert(ROW_BYTES >= 64 && BYTES % 128 == 0);
    static_assert(PATTERN != Pattern::FOUR_ROWS || ROW_BYTES >= 128);

    // What a row's units are mixed with.
    __host__ __device__ static constexpr uint32_t swizzle(uint32_t row) {
        if (PATTERN == Pattern::ROWS) {
            // Two rows of 64 bytes share 128 bytes; their place there already differs in one bit.
            return ROW_BYTES == 64 ? row >> 1 & 3 : row & 7;
        } else if (PATTERN == Pattern::ROW_PAIRS) {
            return ROW_BYTES == 64 ? row >> 2 & 3 : (row & 1) | (row >> 2 & 3) << 1;
        }
        return (row & 3) << 1;
    }

    __host__ __device__ static constexpr uint32_t offset(uint32_t row, uint32_t byte) {
        return (row * ROW_BYTES + byte) ^ swizzle(row) << 4;
    }

    // The address `step` (an offset of a constant place) further than a thread's `address`.
    __device__ static __forceinline__ uint32_t at(uint32_t address, uint32_t step) {
        return (address ^ (step & MIXED)) + (step & ~MIXED);
    }

    // One thread's share of filling tiles along K.
    struct Loader {
        // First byte of this thread's first unit in the current tile.
        const uint8_t* from;
        int64_t pitch_bytes;
        uint32_t to;
        // This thread's first unit within the tile.
        int row, byte;
        // Rows (K-major) or bytes (MN-major) of the operand from this thread's first unit on.
        int left;
        // The 16-byte words that hold the units of the next tile, and the one after each (ANY only).
        uint4 low[ACCESS == Access::ANY ? LOADS : 1], high[ACCESS == Access::ANY ? LOADS : 1];

        // The tile at `first` of M or N (of `extent`) and `first_k` of K; `pitch` in elements.
        __device__ __forceinline__ Loader(const Element* operand, int64_t pitch, uint32_t first, uint32_t extent, uint32_t first_k) {
            const uint32_t unit = threadIdx.x;
            row = unit / ROW_UNITS;
            byte = unit % ROW_UNITS * UNIT;
            pitch_bytes = pitch * static_cast<int64_t>(sizeof(Element));
            to = offset(row, byte);
            const int64_t top = MAJOR == Major::K ? first : first_k;
            const int64_t side = MAJOR == Major::K ? first_k : first;
            from = reinterpret_cast<const uint8_t*>(operand) + (top + row) * pitch_bytes + side * sizeof(Element) + byte;
            const int inside = min(extent - first, static_cast<uint32_t>(BLOCK));
            left = MAJOR == Major::K ? inside - row : inside * static_cast<int>(sizeof(Element)) - byte;
        }

        __device__ __forceinline__ void advance() {
            from += MAJOR == Major::K ? BLOCK_K * static_cast<int64_t>(sizeof(Element)) : BLOCK_K * pitch_bytes;
        }

        // Bytes inside of the operand of this thread's unit number `load`; `left_k` elements of K are left from this tile on.
        __device__ __forceinline__ int inside(int load, uint32_t left_k) const {
            const int step_row = load * THREADS / ROW_UNITS, step_byte = load * THREADS % ROW_UNITS * UNIT;
            const int k = min(left_k, static_cast<uint32_t>(BLOCK_K));
            const bool row_inside = MAJOR == Major::K ? step_row < left : row + step_row < k;
            const int bytes = (MAJOR == Major::K ? k * static_cast<int>(sizeof(Element)) - byte : left) - step_byte;
            const bool exists = UNITS % THREADS == 0 || load * THREADS + static_cast<int>(threadIdx.x) < UNITS;
            return row_inside && exists ? max(0, min(bytes, UNIT)) : 0;
        }

        __device__ __forceinline__ const uint8_t* source(int load) const {
            const int step_row = load * THREADS / ROW_UNITS, step_byte = load * THREADS % ROW_UNITS * UNIT;
            return from + step_row * pitch_bytes + step_byte;
        }

        __device__ static __forceinline__ uint32_t step(int load) {
            const int step_byte = load * THREADS % ROW_UNITS * UNIT;
            return offset(load * THREADS / ROW_UNITS, step_byte);
        }

        __device__ __forceinline__ bool owns(int load) const {
            return UNITS % THREADS == 0 || load * THREADS + static_cast<int>(threadIdx.x) < UNITS;
        }

        // Starts copies of the current tile into `stage`.
        __device__ __forceinline__ void copy(uint32_t stage, uint32_t left_k) const {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                if (owns(load)) {
                    ptx::copy_async<UNIT>(at(stage + to, step(load)), source(load), inside(load, left_k));
                }
            }
        }

        // ANY: starts loads of the current tile into registers.
        __device__ __forceinline__ void fetch(uint32_t left_k) {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                const uint64_t address = reinterpret_cast<uint64_t>(source(load));
                const uint4* word = reinterpret_cast<const uint4*>(address & ~static_cast<uint64_t>(15));
                const int bytes = inside(load, left_k), shift = address & 15;
                low[load] = bytes > 0 ? __ldg(word) : make_uint4(0, 0, 0, 0);
                high[load] = shift + bytes > 16 ? __ldg(word + 1) : make_uint4(0, 0, 0, 0);
            }
        }

        // ANY: stores what `fetch` loaded; called before `advance`, with the same `left_k`.
        __device__ __forceinline__ void put(uint32_t stage, uint32_t left_k) const {
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                const uint32_t shift = reinterpret_cast<uint64_t>(source(load)) & 15;
                const uint32_t x[8] = {low[load].x,  low[load].y,  low[load].z,  low[load].w,
                                       high[load].x, high[load].y, high[load].z, high[load].w};
                // By words (4, 8 bytes), then by the bytes that are left.
                uint32_t y[7], z[5], unit[4];
#pragma unroll
                for (int i = 0; i < 7; ++i) {
                    y[i] = shift & 4 ? x[i + 1] : x[i];
                }
#pragma unroll
                for (int i = 0; i < 5; ++i) {
                    z[i] = shift & 8 ? y[i + 2] : y[i];
                }
                const int bytes = inside(load, left_k);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    // Beyond the end of the operand lies something else, which may be NaN.
                    const uint32_t beyond = ptx::shift_left(~0u, 8 * max(bytes - 4 * i, 0));
                    unit[i] = __funnelshift_r(z[i], z[i + 1], 8 * (shift & 3)) & ~beyond;
                }
                if (owns(load)) {
                    ptx::store_shared(at(stage + to, step(load)), unit[0], unit[1], unit[2], unit[3]);
                }
            }
        }
    };
};

}  // namespace gemm_mma
