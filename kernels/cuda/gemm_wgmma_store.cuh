// Phases 3 and 4 of gemm_wgmma.cuh: from sums in registers to D. What is done to a sum is in gemm_wgmma_ending.cuh.
#pragma once
#include "gemm_wgmma_ending.cuh"

namespace polywarp::gemm_wgmma {

// Four results side by side.
template <typename Out>
struct alignas(4 * sizeof(Out)) Four {
    Out of[4];
};

template <typename C>
struct Store {
    using Out = typename C::Out;
    using Out2 = Two<Out>;
    using Compute = typename C::Compute;
    using Accumulator = typename C::Accumulator;
    using Ending = gemm_wgmma::Ending<C>;
    static constexpr int BLOCK_N = C::BLOCK_N, SLABS = C::SLABS, CHUNK_N = C::CHUNK_N, CHUNKS = C::CHUNKS;
    static constexpr int CHUNKS_A_WARP = C::CHUNKS_A_WARP;
    using Sums = Accumulator[SLABS][BLOCK_N / 2];

    // Columns that are ended together. The more there are, the more of what is done to each goes on at once, for two or three warps
    // are not enough to hide how long an instruction takes; but what memory has for them takes registers twice, and each
    // activation's code is as long as they are many. Scales of blocks leave no registers for more than 16.
    static constexpr int ENDED_N = C::BLOCK_SCALED ? 16 : 32, ENDED_SUMS = ENDED_N / 2;
    static constexpr int ENDED_A_SLAB = BLOCK_N / ENDED_N, ENDED_A_CHUNK = CHUNK_N / ENDED_N, GROUPS = SLABS * ENDED_A_SLAB;
    using Beside = typename Ending::template Beside<ENDED_N / 8>;
    static_assert(BLOCK_N % ENDED_N == 0 || C::TRANSPOSED);

    // 16 columns of one chunk of a warp's rows, those from 16 `part` on, swizzled by 128 bytes as its tensor map says: 16-byte
    // unit u of row r stands at u ^ (r % 8).
    template <typename Value>
    __device__ static __forceinline__ void stage(const Value* x, uint32_t buffer, uint32_t part, uint32_t lane) {
        // Buffers are aligned to the atom, so a unit's number is bits 4 to 6 of its address, and two units on is XOR 32.
        if constexpr (sizeof(Out) == 2) {
            // Matrices 0 and 1 of a store are rows 0 and 8 of 8 columns, 2 and 3 those of the next 8.
            const uint32_t matrix = lane / 8, row = lane % 8;
            const uint32_t first = buffer + (matrix % 2 * 8 + row) * ptx::SWIZZLE_ROW_BYTES + (matrix / 2 ^ row) * 16;
            ptx::store_matrices(first ^ part * 32, pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
        } else {
            static_assert(std::is_same_v<Out, Value>);
            const uint32_t row = lane / 4;
            const uint32_t first = buffer + row * ptx::SWIZZLE_ROW_BYTES + (lane % 4 / 2 ^ row) * 16 + lane % 2 * 8;
#pragma unroll
            for (uint32_t eight = 0; eight < 2; ++eight, x += 4) {
                const uint32_t at = first ^ (part * 2 + eight) * 32;
                ptx::store_pair(at, x[0], x[1]);
                ptx::store_pair(at + 8 * ptx::SWIZZLE_ROW_BYTES, x[2], x[3]);
            }
        }
    }

    // Two finished sums as 16-bit neighbours.
    template <typename Value>
    __device__ static __forceinline__ uint32_t pack(Value x, Value y) {
        static_assert(sizeof(Out2) == 4);
        const Out2 both = {polywarp::from_compute<Out>(x), polywarp::from_compute<Out>(y)};
        return *reinterpret_cast<const uint32_t*>(&both);
    }

    // The buffer of chunk number `chunk`, once the store that used it has read it; the last of a tile with an odd number of
    // chunks may have used the first.
    __device__ static __forceinline__ uint32_t take_buffer(uint32_t staging, int chunk, uint32_t lane) {
        if (ptx::elected()) {
            if (chunk == 0 && SLABS * CHUNKS % CHUNKS_A_WARP != 0) {
                ptx::wait_stores_read<0>();
            } else {
                ptx::wait_stores_read<CHUNKS_A_WARP - 1>();
            }
        }
        __syncwarp();
        return staging + chunk % CHUNKS_A_WARP * CHUNK_BYTES;
    }

    // Sends a full buffer on its way to D.
    __device__ static __forceinline__ void send_buffer(const CUtensorMap* map_d, Out* out, uint32_t buffer, const uint8_t* content,
                                                       int chunk, const Problem& problem, const Tile& tile, uint32_t first_row,
                                                       uint32_t lane) {
        if constexpr (C::GROUPED) {
            const uint32_t row = tile.m + first_row + chunk / CHUNKS * SLAB_M, column = tile.n + chunk % CHUNKS * CHUNK_N;
            if (row + 16 > tile.end) {
                __syncwarp();
                copy_rows(out, content, problem, row, column, tile.end, lane);
                // A group of no stores: buffers are counted by groups.
                if (ptx::elected()) {
                    ptx::commit_stores();
                }
                return;
            }
        }
        ptx::fence_async_proxy();
        __syncwarp();
        if (ptx::elected()) {
            ptx::store_tile(map_d, buffer, tile.n + chunk % CHUNKS * CHUNK_N,
                            tile.m + first_row + chunk / CHUNKS * SLAB_M, tile.layer);
            ptx::commit_stores();
        }
    }

    // The rows of a buffer that are before `end`, the others being those of another group: 16 bytes a lane, which are inside or
    // outside of D's columns.
    __device__ static __forceinline__ void copy_rows(Out* d, const uint8_t* buffer, const Problem& problem, uint32_t row,
                                                     uint32_t column, uint32_t end, uint32_t lane) {
        constexpr uint32_t UNIT_N = 16 / sizeof(Out), UNITS = CHUNK_N / UNIT_N;
#pragma unroll 1
        for (uint32_t i = lane; i < 16 * UNITS && row + i / UNITS < end; i += 32) {
            const uint32_t within = i / UNITS, unit = i % UNITS;
            if (column + unit * UNIT_N < problem.n) {
                const uint8_t* from = buffer + within * ptx::SWIZZLE_ROW_BYTES + (unit ^ within % 8) * 16;
                *reinterpret_cast<uint4*>(d + (row + within) * problem.row_stride + column + unit * UNIT_N) =
                    *reinterpret_cast<const uint4*>(from);
            }
        }
    }

    // Zeros for a tile whose rows no group owns.
    __device__ static __forceinline__ void store_zeros(Out* d, const Problem& problem, const Tile& tile, uint32_t first_row,
                                                       uint32_t lane) {
        if (problem.store_by_tma) {
            fill(d, uint4{0, 0, 0, 0}, problem, tile, first_row, lane);
        } else {
            fill(d, polywarp::from_compute<Out>(Compute(0)), problem, tile, first_row, lane);
        }
    }

    template <typename Value>
    __device__ static __forceinline__ void fill(Out* d, Value value, const Problem& problem, const Tile& tile, uint32_t first_row,
                                                uint32_t lane) {
        constexpr uint32_t WIDTH = sizeof(Value) / sizeof(Out), UNITS = BLOCK_N / WIDTH;
#pragma unroll 1
        for (uint32_t i = lane; i < SLABS * 16 * UNITS; i += 32) {
            const uint32_t row = tile.m + first_row + i / UNITS / 16 * SLAB_M + i / UNITS % 16;
            const uint32_t column = tile.n + i % UNITS * WIDTH;
            if (row < tile.end && column < problem.n) {
                *reinterpret_cast<Value*>(d + row * problem.row_stride + column * problem.column_stride) = value;
            }
        }
    }

    // Phase 4 for aligned D that is the sums, of 32 bits, of a small tile: straight from registers. A way through shared memory takes
    // longer than a tile's products.
    __device__ static __forceinline__ void store_pairs(Sums& d, Out* out, const Problem& problem, const Tile& tile,
                                                       uint32_t first_row, uint32_t lane) {
        const uint32_t column = tile.n + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2 * SLABS; ++half) {
            const uint32_t row = tile.m + first_row + lane / 4 + half / 2 * SLAB_M + half % 2 * 8;
            Out* to = out + row * problem.row_stride + column;
            if (row < tile.end) {
#pragma unroll
                for (int eight = 0; eight < BLOCK_N / 8; ++eight) {
                    // D's rows are whole times 16 bytes: two results are inside or outside.
                    if (column + eight * 8 < problem.n) {
                        const Accumulator* x = &d[half / 2][eight * 4 + half % 2 * 2];
                        *reinterpret_cast<Two<Out>*>(to + eight * 8) = {x[0], x[1]};
                    }
                }
            }
        }
    }

    // Phase 4 for aligned D that is the rounded sums: whole chunks of 128 bytes by way of shared memory.
    __device__ static __forceinline__ void store_chunks(Sums& d, const CUtensorMap* map_d, Out* out, const uint8_t* shared,
                                                        uint32_t staging, const Problem& problem, const Tile& tile,
                                                        uint32_t first_row, uint32_t lane) {
#pragma unroll
        for (int chunk = 0; chunk < SLABS * CHUNKS; ++chunk) {
            const uint32_t buffer = take_buffer(staging, chunk, lane);
#pragma unroll
            for (int part = 0; part < CHUNK_N / 16; ++part) {
                stage(&d[chunk / CHUNKS][chunk % CHUNKS * CHUNK_N / 2 + part * 8], buffer, part, lane);
            }
            send_buffer(map_d, out, buffer, shared + (buffer - staging), chunk, problem, tile, first_row, lane);
        }
    }

    // Phases 3 and 4 for aligned D: the same, group by group in a rolled loop, so that each activation's code exists once.
    __device__ static __forceinline__ void store_ended(Sums& d, const CUtensorMap* map_d, Out* out, const uint8_t* shared,
                                                       uint32_t staging, const Ending& ending, const Problem& problem,
                                                       const Tile& tile, uint32_t first_row, uint32_t lane) {
        const uint32_t row = tile.m + first_row + lane / 4, column = tile.n + lane % 4 * 2;
        const auto load = [&](Beside& to, int group) {
            ending.load(to, tile.batch, row + group / ENDED_A_SLAB * SLAB_M, column + group % ENDED_A_SLAB * ENDED_N,
                        tile.end, problem.n);
        };
        Beside next;
        load(next, 0);
        uint32_t buffer = staging;
#pragma unroll 1
        for (int group = 0; group < GROUPS; ++group) {
            const Beside with = next;
            if (group + 1 < GROUPS) {
                load(next, group + 1);
            }
            Accumulator sums[ENDED_SUMS];
            pick_group<0, GROUPS>(sums, d, group);
            Compute ended[ENDED_SUMS];
            ending.finish(ended, sums, with);
            const int chunk = group / ENDED_A_CHUNK, within = group % ENDED_A_CHUNK;
            if (within == 0) {
                buffer = take_buffer(staging, chunk, lane);
            }
#pragma unroll
            for (int part = 0; part < ENDED_N / 16; ++part) {
                stage(ended + part * 8, buffer, within * (ENDED_N / 16) + part, lane);
            }
            if (within == ENDED_A_CHUNK - 1) {
                send_buffer(map_d, out, buffer, shared + (buffer - staging), chunk, problem, tile, first_row, lane);
            }
        }
    }

    // Phases 3 and 4 for all else: sums go through shared memory, so that neighbouring lanes have neighbouring columns
    // and the whole epilogue is compiled once. 16 rows x 32 columns at a time.
    __device__ static __forceinline__ void store_staged(Sums& d, Out* matrix, uint8_t* staging, const Ending& ending,
                                                        const Problem& problem, const Tile& tile, uint32_t first_row,
                                                        uint32_t lane) {
        constexpr int PARTS = (BLOCK_N + 31) / 32;
        Accumulator* sums = reinterpret_cast<Accumulator*>(staging);
#pragma unroll 1
        for (int part = 0; part < SLABS * PARTS; ++part) {
#pragma unroll
            for (int i = 0; i < SLABS * PARTS; ++i) {
                // A register's number is known when it compiles.
                if (part == i) {
#pragma unroll
                    for (int eight = i % PARTS * 4; eight < i % PARTS * 4 + 4 && eight < BLOCK_N / 8; ++eight) {
#pragma unroll
                        for (int half = 0; half < 2; ++half) {
                            Accumulator* to = sums + (lane / 4 + half * 8) * STAGED_PITCH + eight % 4 * 8 + lane % 4 * 2;
                            *reinterpret_cast<Two<Accumulator>*>(to) = {d[i / PARTS][eight * 4 + half * 2],
                                                                        d[i / PARTS][eight * 4 + half * 2 + 1]};
                        }
                    }
                }
            }
            __syncwarp();
            const uint32_t within = part % PARTS * 32 + lane, column = tile.n + within;
            if (within < BLOCK_N && column < problem.n) {
                const uint32_t top = tile.m + first_row + part / PARTS * SLAB_M;
                const uint32_t rows = top < tile.end ? min(tile.end - top, 16u) : 0;
#pragma unroll 1
                for (uint32_t row = 0; row < rows; ++row) {
                    matrix[(top + row) * problem.row_stride + column * problem.column_stride] =
                        ending.at(sums[row * STAGED_PITCH + lane], tile.batch, top + row, column);
                }
            }
            __syncwarp();
        }
    }

    // Phases 3 and 4, by the shortest way that this epilogue and this D allow.
    __device__ static __forceinline__ void finish(Sums& d, const CUtensorMap* map_d, Out* out, uint8_t* shared,
                                                  uint32_t staging, const Ending& ending, const Problem& problem,
                                                  const Tile& tile, uint32_t first_row, uint32_t lane) {
        if (!problem.store_by_tma || !ending.reads_pairs()) {
            store_staged(d, out + tile.layer * problem.batch_stride, shared, ending, problem, tile, first_row, lane);
            return;
        }
        // Sums of integers that leave as floats are converted at least.
        if constexpr (std::is_same_v<Accumulator, Compute>) {
            if (ending.is_plain()) {
                if constexpr (C::STORES_PAIRS) {
                    store_pairs(d, out + tile.layer * problem.batch_stride, problem, tile, first_row, lane);
                    return;
                }
                store_chunks(d, map_d, out, shared, staging, problem, tile, first_row, lane);
                return;
            }
        }
        store_ended(d, map_d, out, shared, staging, ending, problem, tile, first_row, lane);
    }

    // ---- Sums that the blocks of a cluster share along k ----

    // Leaves this warp's sums in its block's shared memory; zeros where it had no tile of k.
    __device__ static __forceinline__ void share(Sums& d, bool any, uint32_t shared, uint32_t first_row, uint32_t lane) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t row = first_row + slab * SLAB_M + lane / 4;
            const uint32_t to = shared + (row * C::SHARED_PITCH + lane % 4 * 2) * 4;
#pragma unroll
            for (int eight = 0; eight < BLOCK_N / 8; ++eight) {
                const Accumulator* x = &d[slab][eight * 4];
                const Accumulator zero = 0;
                ptx::store_pair(to + eight * 32, any ? x[0] : zero, any ? x[1] : zero);
                ptx::store_pair(to + eight * 32 + 8 * C::SHARED_PITCH * 4, any ? x[2] : zero, any ? x[3] : zero);
            }
        }
    }

    // Adds up what the blocks left, in their order, and ends this block's share of the tile: `thread` of all consumers takes
    // four columns at a time where D is aligned, else one.
    __device__ static __forceinline__ void finish_shared(Out* matrix, uint32_t shared, const Ending& ending,
                                                         const Problem& problem, const Tile& tile, uint32_t rank,
                                                         uint32_t thread) {
        constexpr uint32_t STEP = C::CLUSTER_K * C::CONSUMERS * WARPGROUP;
        constexpr uint32_t SHARED_N = C::SHARED_N;
        const uint32_t top = C::TRANSPOSED ? tile.n : tile.m, left = C::TRANSPOSED ? tile.m : tile.n;
        const uint32_t rows = min((C::TRANSPOSED ? problem.n : problem.m) - top, static_cast<uint32_t>(C::SHARED_M));
        const uint32_t columns = min((C::TRANSPOSED ? problem.m : problem.n) - left, SHARED_N);
        const int64_t row_stride = C::TRANSPOSED ? problem.column_stride : problem.row_stride;
        const int64_t column_stride = C::TRANSPOSED ? problem.row_stride : problem.column_stride;
        const uint32_t first = rank * C::CONSUMERS * WARPGROUP + thread;
        if (problem.store_by_tma) {
#pragma unroll 1
            for (uint32_t i = first; i < rows * (SHARED_N / 4); i += STEP) {
                const uint32_t row = i / (SHARED_N / 4), column = i % (SHARED_N / 4) * 4;
                const uint32_t from = shared + (row * C::SHARED_PITCH + column) * 4;
                Accumulator parts[C::CLUSTER_K][4];
#pragma unroll
                for (int part = 0; part < C::CLUSTER_K; ++part) {
                    ptx::load_four_of(from, part, parts[part]);
                }
                // D's rows are whole times 16 bytes: four results are inside or outside.
                if (column < columns) {
                    Compute x[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        Accumulator sum = parts[0][j];
#pragma unroll
                        for (int part = 1; part < C::CLUSTER_K; ++part) {
                            sum += parts[part][j];
                        }
                        x[j] = ending.inactive(sum, tile.batch, top + row, left + column + j);
                    }
                    branchless::activate<Out>(x, ending.epilogue.activation);
                    Four<Out> result;
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        result.of[j] = polywarp::from_compute<Out>(x[j]);
                    }
                    *reinterpret_cast<Four<Out>*>(matrix + (top + row) * row_stride + left + column) = result;
                }
            }
        } else {
#pragma unroll 1
            for (uint32_t i = first; i < rows * SHARED_N; i += STEP) {
                const uint32_t row = i / SHARED_N, column = i % SHARED_N;
                const uint32_t from = shared + (row * C::SHARED_PITCH + column) * 4;
                Accumulator sum = 0;
#pragma unroll
                for (int part = 0; part < C::CLUSTER_K; ++part) {
                    Accumulator x;
                    ptx::load_one_of(from, part, x);
                    sum = part == 0 ? x : sum + x;
                }
                if (column < columns) {
                    matrix[(top + row) * row_stride + (left + column) * column_stride] =
                        ending.at(sum, tile.batch, top + row, left + column);
                }
            }
        }
    }
};

}  // namespace polywarp::gemm_wgmma
