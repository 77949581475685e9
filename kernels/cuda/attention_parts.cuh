// What the kernels of attention share: the problem, who sees whom, which probabilities dropout keeps, tiles in shared memory, and
// rows of sums on their way to memory.
//
// Scores lie in registers as wgmma leaves them: of 64 rows, warp w of the warpgroup has rows 16 w to 16 w + 15; lane l has rows l / 4
// and l / 4 + 8, columns 2 (l % 4) and the next, of every 8 columns (PTX ISA, wgmma, fragment of D). Number 4 c + 2 h + e of a thread's is
// column 8 c + 2 (l % 4) + e of row l / 4 + 8 h.
//
// Dropout's number of (batch b, head h, query i, key j) is element ((b heads + h) queries + i) keys + j of a Philox4x32-10 sequence
// (Salmon et al., SC'11): word e % 4 of block e / 4. Four keys share a block, and the threads that have them share the work: each
// makes some blocks, and tells the others by one bit each what is kept.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "ptx/approximate.cuh"
#include "ptx/barrier.cuh"
#include "ptx/launch.cuh"
#include "ptx/tma_4d.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma_registers.cuh"

namespace polywarp::attention {

using ptx::Major;

constexpr int WARPGROUP = 128;
// Rows that one wgmma multiplies.
constexpr int SLAB = 64;
// Columns of 16 bits in a row of a tile in shared memory; wider tiles are several, one behind the other.
constexpr int ATOM_COLUMNS = 64;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

struct Problem {
    uint32_t batches, heads, groups, queries, keys;
    // Elements of a row of q and k, and of v.
    uint32_t size, width;
    // Of scores; positive.
    float scale;
    // Query i sees keys up to i + keys - queries.
    uint32_t causal;
};

// Bytes, true where a query sees a key; null for none. Strides in elements, 0 where it is broadcast.
struct Mask {
    const uint8_t* seen;
    int64_t batch, head, row, column;
};

// Probabilities are kept where 24 random bits are not below `threshold` (0 keeps all), and are then multiplied by `factor`.
struct Dropout {
    // The low words of seed and stream, and their high words.
    const uint32_t *low, *high;
    uint32_t threshold;
    float factor;
};

// Elements from row to row, head to head and batch to batch of a result.
struct Strides {
    int64_t row, head, batch;
};

// Which stage is next, and the parity of its barriers' phase.
template <uint32_t STAGES>
struct Ring {
    uint32_t stage = 0, phase = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

// Which tile a block is at: of the heads in their order, each with `tiles` tiles, every gridDim.x-th. Causal ones differ in length: there
// two tiles of a head, the n-th and the n-th from the end, are one piece of work, and all pieces are as long.
struct Walk {
    // Twice the piece of work, and 1 for its second tile. One number, and the rest made from it: registers are scarce.
    uint32_t at = 2 * blockIdx.x;

    // Pieces of work of a head.
    __device__ static __forceinline__ uint32_t pieces(uint32_t tiles, uint32_t causal) { return causal ? (tiles + 1) / 2 : tiles; }

    __device__ __forceinline__ bool any(uint32_t tiles, uint32_t heads, uint32_t causal) const {
        return at / 2 < pieces(tiles, causal) * heads;
    }

    __device__ __forceinline__ uint32_t head(uint32_t tiles, uint32_t causal) const { return at / 2 / pieces(tiles, causal); }

    __device__ __forceinline__ uint32_t place(uint32_t tiles, uint32_t causal) const {
        const uint32_t first = at / 2 % pieces(tiles, causal);
        return at % 2 ? tiles - 1 - first : first;
    }

    __device__ __forceinline__ void next(uint32_t tiles, uint32_t causal) {
        if (causal && at % 2 == 0 && tiles - 1 - place(tiles, causal) != place(tiles, causal)) {
            ++at;
        } else {
            at = (at / 2 + gridDim.x) * 2;
        }
    }
};

// ---- Tiles in shared memory ----

// Bytes of a tile of ROWS x COLUMNS elements of 16 bits.
template <int ROWS, int COLUMNS>
constexpr uint32_t TILE_BYTES = ROWS * COLUMNS * 2;

// Loads a tile of rows from `row` on; what lies outside of the tensor becomes zero. By one thread.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void load(uint32_t to, const CUtensorMap* map, uint32_t barrier, uint32_t row, uint32_t head, uint32_t batch) {
#pragma unroll
    for (int part = 0; part < COLUMNS / ATOM_COLUMNS; ++part) {
        ptx::load_tile_4d(to + part * ROWS * ptx::SWIZZLE_ROW_BYTES, map, barrier, part * ATOM_COLUMNS, row, head, batch);
    }
}

// d (+)= A B^T: A's 64 rows from `row_a` on, B's all; both tiles have K columns. `a`, `b`: where tiles of ROWS_A and N rows begin.
template <typename T, int N, int K, int ROWS_A>
__device__ __forceinline__ void multiply_rows(float (&d)[N / 2], uint32_t a, uint32_t row_a, uint32_t b) {
    constexpr uint32_t UNIT = ptx::DESCRIPTOR_UNIT, ROW = ptx::SWIZZLE_ROW_BYTES / UNIT;
    const uint64_t of_a = ptx::matrix_descriptor(ptx::descriptor_unit(a) + row_a * ROW, 0, ptx::SWIZZLE_ATOM_BYTES);
    const uint64_t of_b = ptx::matrix_descriptor(ptx::descriptor_unit(b), 0, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
        // 16 elements are two units; after 64 the next part begins.
        const uint32_t part = step / 4, in_part = step % 4 * 2;
        ptx::Wgmma<T, T>::template run<N, Major::K, Major::K>(d, of_a + part * ROWS_A * ROW + in_part, of_b + part * N * ROW + in_part,
                                                            step > 0);
    }
}

// d += A B: A [64, K] in registers, B a tile of K rows and N columns.
template <typename T, int N, int K>
__device__ __forceinline__ void multiply_registers(float (&d)[N / 2], const uint32_t (&a)[K / 16][4], uint32_t b) {
    constexpr uint32_t STEP = 16 * ptx::SWIZZLE_ROW_BYTES / ptx::DESCRIPTOR_UNIT;
    const uint64_t of_b = ptx::matrix_descriptor(ptx::descriptor_unit(b), K * ptx::SWIZZLE_ROW_BYTES, ptx::SWIZZLE_ATOM_BYTES);
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
        ptx::wgmma_of_registers<T, N>(d, a[step], of_b + step * STEP, 1);
    }
}

template <typename T>
__device__ __forceinline__ uint32_t pack(float x, float y) {
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(x, y);
        return *reinterpret_cast<const uint32_t*>(&pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
}

// Sums of N columns, rounded, as the A of a product over these columns.
template <typename T, int N>
__device__ __forceinline__ void round_sums(uint32_t (&a)[N / 16][4], const float (&sums)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
        a[i / 4][i % 4] = pack<T>(sums[2 * i], sums[2 * i + 1]);
    }
}

// The same, 0 for negative ones: probabilities that dropout left out.
template <typename T, int N>
__device__ __forceinline__ void round_kept(uint32_t (&a)[N / 16][4], const float (&p)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
        a[i / 4][i % 4] = pack<T>(p[2 * i] < 0 ? 0 : p[2 * i], p[2 * i + 1] < 0 ? 0 : p[2 * i + 1]);
    }
}

template <int N>
__device__ __forceinline__ void clear(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        sums[i] = 0;
    }
}

// ---- Who sees whom ----

// The last key that a query sees, but for the mask; below 0 for none.
__device__ __forceinline__ int last_seen(const Problem& problem, uint32_t query) {
    const int last = static_cast<int>(problem.keys) - 1;
    return problem.causal ? min(last, static_cast<int>(query + problem.keys - problem.queries)) : last;
}

// Calls `hide(number)` for each of a thread's scores of N keys from `key` on whose key its query does not see. `rows`: the thread's
// first query; the second is 8 further.
template <int N, typename Hide>
__device__ __forceinline__ void hide_unseen(const Problem& problem, const Mask& mask, uint32_t batch, uint32_t head, uint32_t row,
                                            uint32_t key, uint32_t lane, Hide hide) {
    const int first = key + 2 * (lane % 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const uint32_t query = row + 8 * h;
        const int last = last_seen(problem, query);
#pragma unroll
        for (int c = 0; c < N / 8; ++c) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                if (first + 8 * c + e > last) {
                    hide(4 * c + 2 * h + e);
                }
            }
        }
        if (mask.seen != nullptr && query < problem.queries) {
            const uint8_t* seen = mask.seen + batch * mask.batch + head * mask.head + query * mask.row;
#pragma unroll
            for (int c = 0; c < N / 8; ++c) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int at = first + 8 * c + e;
                    if (at <= last && seen[at * mask.column] == 0) {
                        hide(4 * c + 2 * h + e);
                    }
                }
            }
        }
    }
}

// The same for scores whose rows are keys, the thread's first `key`, and whose columns are N queries from `row` on.
template <int N, typename Hide>
__device__ __forceinline__ void hide_unseen_columns(const Problem& problem, const Mask& mask, uint32_t batch, uint32_t head, uint32_t row,
                                                    uint32_t key, uint32_t lane, Hide hide) {
    const uint8_t* seen = mask.seen + batch * mask.batch + head * mask.head;
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const uint32_t query = row + 8 * c + 2 * (lane % 4) + e;
            const int last = last_seen(problem, query);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int at = key + 8 * h;
                bool hidden = at > last;
                if (mask.seen != nullptr && !hidden && query < problem.queries) {
                    hidden = seen[query * mask.row + at * mask.column] == 0;
                }
                if (hidden) {
                    hide(4 * c + 2 * h + e);
                }
            }
        }
    }
}

// ---- Dropout ----

// Seed and stream, read where they are needed: between blocks registers are scarce.
struct Key {
    uint32_t seed_low, seed_high, stream_low, stream_high, threshold;

    __device__ __forceinline__ explicit Key(const Dropout& dropout)
        : seed_low(dropout.low[0]),
          seed_high(dropout.high[0]),
          stream_low(dropout.low[1]),
          stream_high(dropout.high[1]),
          threshold(dropout.threshold) {}

    // Bit w: whether element 4 block + w is kept.
    __device__ __forceinline__ uint32_t kept_of_block(uint64_t block) const {
        uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = stream_low, c3 = stream_high;
        uint32_t k0 = seed_low, k1 = seed_high;
#pragma unroll
        for (int round = 0; round < 10; ++round) {
            const uint64_t p0 = static_cast<uint64_t>(0xd2511f53u) * c0, p1 = static_cast<uint64_t>(0xcd9e8d57u) * c2;
            c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
            c1 = static_cast<uint32_t>(p1);
            c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c3 = static_cast<uint32_t>(p0);
            k0 += 0x9e3779b9u;
            k1 += 0xbb67ae85u;
        }
        return (c0 >> 8 >= threshold) | (c1 >> 8 >= threshold) << 1 | (c2 >> 8 >= threshold) << 2 | (c3 >> 8 >= threshold) << 3;
    }

    __device__ __forceinline__ uint32_t kept(uint64_t element) const { return kept_of_block(element / 4) >> element % 4 & 1; }
};

// Which of a thread's probabilities are kept, of N keys from `key` on of the rows from `row` on. Found by a warp together, before the scores
// are there: by arithmetic that the tensor cores have not.
template <int N>
struct Kept {
    // Of each four pairs of eights, bit 4 (2 pair + h) + e: what is kept of the pairs' first eights, and of their second ones.
    static constexpr int GROUPS = (N + 63) / 64;
    uint32_t even[GROUPS] = {}, uneven[GROUPS] = {};

    __device__ static constexpr int pairs(int group) { return group == N / 64 ? N % 64 / 16 : 4; }

    // `first`: number of the element of query 0 and key 0 of this batch and head.
    __device__ __forceinline__ void find(const Key& random, uint64_t first, uint32_t keys, uint32_t row, uint32_t key, uint32_t lane) {
        const uint32_t t = lane % 4, odd = t % 2;
        const uint64_t at[2] = {first + static_cast<uint64_t>(row) * keys + key, first + static_cast<uint64_t>(row + 8) * keys + key};
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            if (keys % 4 == 0) {
                // Two threads have a block's four keys: the first makes the blocks of the pair's first eight, the second the others.
                uint32_t mine = 0;
#pragma unroll 2
                for (int i = 0; i < 2 * pairs(group); ++i) {
                    const uint64_t block = (i % 2 == 0 ? at[0] : at[1]) / 4 + 16 * group + 4 * (i / 2) + 2 * odd + t / 2;
                    mine |= random.kept_of_block(block) << 4 * i;
                }
                const uint32_t other = __shfl_xor_sync(~0u, mine, 1);
                even[group] = (odd ? other : mine) >> 2 * odd;
                uneven[group] = (odd ? mine : other) >> 2 * odd;
            } else {
                uint32_t of_even = 0, of_uneven = 0;
#pragma unroll 1
                for (int i = 0; i < 8 * pairs(group); ++i) {
                    // i: pair, row, which eight, which of two.
                    const int e = i % 2, second = i / 2 % 2, h = i / 4 % 2, pair = i / 8;
                    const uint32_t bit = random.kept((h == 0 ? at[0] : at[1]) + 64 * group + 16 * pair + 8 * second + 2 * t + e)
                                         << (4 * (2 * pair + h) + e);
                    of_even |= second ? 0 : bit;
                    of_uneven |= second ? bit : 0;
                }
                even[group] = of_even;
                uneven[group] = of_uneven;
            }
        }
    }

    // Calls `drop(number)` for each that is dropped.
    template <typename Drop>
    __device__ __forceinline__ void for_dropped(Drop drop) const {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            const int e = i % 2, h = i / 2 % 2, eight = i / 4, group = eight / 8, pair = eight % 8 / 2;
            if (((eight % 2 ? uneven : even)[group] >> (4 * (2 * pair + h) + e) & 1) == 0) {
                drop(i);
            }
        }
    }
};

// The same where rows are keys, the warp's 16 from `key` on, and columns are N queries from `row` on.
template <int N>
struct KeptColumns {
    static_assert(N % 64 == 0);
    // Of each eight eights, bit 4 c: what is kept of query 2 (l % 4) + e of eight c, for h = 0, e = 0, 1, then h = 1.
    uint32_t kept[N / 64][4] = {};

    __device__ __forceinline__ void find(const Key& random, uint64_t first, uint32_t keys, uint32_t row, uint32_t key, uint32_t lane) {
        const uint32_t t = lane % 4, word = lane / 4 % 4, half = lane / 16;
#pragma unroll
        for (int group = 0; group < N / 64; ++group) {
            const uint32_t column = row + 64 * group + 2 * t;
            if (keys % 4 == 0) {
                // Four threads have a block's four keys, and each of them four blocks of an eight: each makes one.
                uint32_t mine = 0;
                const uint64_t at = first + static_cast<uint64_t>(column + word % 2) * keys + key + 8 * (word / 2) + 4 * half;
#pragma unroll 2
                for (int c = 0; c < 8; ++c) {
                    mine |= random.kept_of_block((at + static_cast<uint64_t>(8 * c) * keys) / 4) << 4 * c;
                }
#pragma unroll
                for (int of = 0; of < 4; ++of) {
                    kept[group][of] = __shfl_sync(~0u, mine, 16 * half + 4 * of + t) >> word;
                }
            } else {
#pragma unroll
                for (int of = 0; of < 4; ++of) {
                    uint32_t found = 0;
#pragma unroll 1
                    for (int c = 0; c < 8; ++c) {
                        const uint64_t at = first + static_cast<uint64_t>(column + 8 * c + of % 2) * keys + key + 8 * (of / 2) + lane / 4;
                        found |= random.kept(at) << 4 * c;
                    }
                    kept[group][of] = found;
                }
            }
        }
    }

    template <typename Drop>
    __device__ __forceinline__ void for_dropped(Drop drop) const {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            if ((kept[i / 32][i % 4] >> 4 * (i / 4 % 8) & 1) == 0) {
                drop(i);
            }
        }
    }
};

// ---- Results ----

// Four words of each of four threads: word i of thread t becomes word t of thread i. Of four eights of a row, each thread so gets one.
__device__ __forceinline__ void transpose(uint32_t (&words)[4], uint32_t t) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(~0u, t % 2 ? words[i] : words[i + 1], 1);
        words[i] = t % 2 ? got : words[i];
        words[i + 1] = t % 2 ? words[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t got = __shfl_xor_sync(~0u, t / 2 ? words[i] : words[i + 2], 2);
        words[i] = t / 2 ? got : words[i];
        words[i + 2] = t / 2 ? words[i + 2] : got;
    }
}

// Writes a warp's 16 rows of N columns, row l / 4 + 8 h times factors[h], as `rows` and `columns` allow: 16 bytes a thread. `to`: the
// warp's first row; `row`: its number; rows from `rows` on and columns from `columns` on are left out.
template <typename T, int N>
__device__ __forceinline__ void store(T* to, int64_t pitch, const float (&sums)[N / 2], const float (&factors)[2], uint32_t row,
                                      uint32_t rows, uint32_t columns, uint32_t lane) {
    const uint32_t t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const uint32_t below = lane / 4 + 8 * h;
#pragma unroll
        for (int group = 0; group < N / 32; ++group) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = 4 * (4 * group + i) + 2 * h;
                words[i] = pack<T>(sums[at] * factors[h], sums[at + 1] * factors[h]);
            }
            transpose(words, t);
            const uint32_t column = 32 * group + 8 * t;
            if (row + below < rows && column < columns) {
                *reinterpret_cast<uint4*>(to + below * pitch + column) = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

// Sum, and maximum, of a row over the four threads that have it.
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float row_maximum(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace polywarp::attention
