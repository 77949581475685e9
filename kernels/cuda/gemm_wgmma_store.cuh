// Phases 3 and 4 of gemm_wgmma.cuh: from sums in registers to D.
#pragma once
#include "gemm_wgmma_config.cuh"

namespace polywarp::gemm_wgmma {

// Two results side by side.
template <typename Out>
struct alignas(2 * sizeof(Out)) Two {
    Out x, y;
};

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
    using Epilogue = typename C::Epilogue;
    using Accumulator = typename C::Accumulator;
    static constexpr int BLOCK_N = C::BLOCK_N, SLABS = C::SLABS, CHUNK_N = C::CHUNK_N, CHUNKS = C::CHUNKS;
    static constexpr int CHUNKS_A_WARP = C::CHUNKS_A_WARP;
    using Sums = Accumulator[SLABS][BLOCK_N / 2];

    // Phase 3 where it takes a few instructions: scales, alpha, bias and relu, on a chunk of columns from `column` on. Into
    // other registers: sums that change in place would make the compiler serialise wgmma.
    __device__ static __forceinline__ void finish_chunk(Compute (&to)[CHUNK_N / 2], const Accumulator* x,
                                                        const Epilogue& epilogue, const Scales& scales, const float (&rows)[2],
                                                        uint32_t batch, uint32_t column, uint32_t n) {
#pragma unroll
        for (int eight = 0; eight < CHUNK_N / 8; ++eight) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint32_t at = column + eight * 8 + i;
                const Compute bias =
                    epilogue.bias != nullptr && at < n ? polywarp::to_compute(epilogue.bias[at]) : Compute(0);
                const float scale = C::SCALED && at < n ? scales.of_column(batch, at) : 1.0f;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const Compute sum = scaled(x[eight * 4 + half * 2 + i], rows[half], scale);
                    to[eight * 4 + half * 2 + i] = epilogue.light(sum, bias);
                }
            }
        }
    }

    // A sum as the epilogue takes it.
    __device__ static __forceinline__ Compute scaled(Accumulator sum, float row, float column) {
        if constexpr (C::SCALED) {
            return static_cast<float>(sum) * row * column;
        } else {
            return static_cast<Compute>(sum);
        }
    }
    __device__ static __forceinline__ Compute scaled(Accumulator sum, const Scales& scales, uint32_t batch, uint32_t row,
                                                     uint32_t column) {
        if constexpr (C::SCALED) {
            return scaled(sum, scales.of_row(batch, row), scales.of_column(batch, column));
        } else {
            return static_cast<Compute>(sum);
        }
    }

    // One chunk of a warp's rows, swizzled by 128 bytes as its tensor map says: 16-byte unit u of row r stands at u ^ (r % 8).
    template <typename Value>
    __device__ static __forceinline__ void stage_chunk(const Value* x, uint32_t buffer, uint32_t lane) {
        // Buffers are aligned to the atom, so a unit's number is bits 4 to 6 of its address, and two units on is XOR 32.
        if constexpr (sizeof(Out) == 2) {
            // Matrices 0 and 1 of a store are rows 0 and 8 of 8 columns, 2 and 3 those of the next 8.
            const uint32_t matrix = lane / 8, row = lane % 8;
            const uint32_t first = buffer + (matrix % 2 * 8 + row) * ptx::SWIZZLE_ROW_BYTES + (matrix / 2 ^ row) * 16;
#pragma unroll
            for (uint32_t pair = 0; pair < CHUNK_N / 16; ++pair, x += 8) {
                ptx::store_matrices(first ^ pair * 32, pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]),
                                    pack(x[6], x[7]));
            }
        } else {
            static_assert(std::is_same_v<Out, Value>);
            const uint32_t row = lane / 4;
            const uint32_t first = buffer + row * ptx::SWIZZLE_ROW_BYTES + (lane % 4 / 2 ^ row) * 16 + lane % 2 * 8;
#pragma unroll
            for (uint32_t eight = 0; eight < CHUNK_N / 8; ++eight, x += 4) {
                ptx::store_pair(first ^ eight * 32, x[0], x[1]);
                ptx::store_pair((first ^ eight * 32) + 8 * ptx::SWIZZLE_ROW_BYTES, x[2], x[3]);
            }
        }
    }

    // Phases 3 and 4 for aligned D: whole chunks of 128 bytes by way of shared memory.
    __device__ static __forceinline__ void store_chunks(Sums& d, const CUtensorMap* map_d,
                                                        uint32_t staging, const Epilogue& epilogue, const Scales& scales, const Problem& problem,
                                                        const Tile& tile, uint32_t first_row, uint32_t lane) {
        // Sums of scaled operands are never plain: no null scales are looked for.
        const bool plain = !C::SCALED && epilogue.is_plain();
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            float rows[2] = {1.0f, 1.0f};
            if constexpr (C::SCALED) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t row = tile.m + first_row + slab * SLAB_M + half * 8 + lane / 4;
                    rows[half] = row < problem.m ? scales.of_row(tile.batch, row) : 0.0f;
                }
            }
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const uint32_t buffer = staging + (slab * CHUNKS + chunk) % CHUNKS_A_WARP * CHUNK_BYTES;
                // The store that used this buffer has read it; the last of a tile with an odd number may have used the first.
                if (lane == 0) {
                    if (slab == 0 && chunk == 0 && SLABS * CHUNKS % CHUNKS_A_WARP != 0) {
                        ptx::wait_stores_read<0>();
                    } else {
                        ptx::wait_stores_read<CHUNKS_A_WARP - 1>();
                    }
                }
                __syncwarp();
                const Accumulator* x = &d[slab][chunk * CHUNK_N / 2];
                if (plain) {
                    if constexpr (!C::SCALED) {
                        stage_chunk(x, buffer, lane);
                    }
                } else {
                    Compute finished[CHUNK_N / 2];
                    finish_chunk(finished, x, epilogue, scales, rows, tile.batch, tile.n + chunk * CHUNK_N + lane % 4 * 2,
                                 problem.n);
                    stage_chunk(finished, buffer, lane);
                }
                ptx::fence_async_proxy();
                __syncwarp();
                if (lane == 0) {
                    ptx::store_tile(map_d, buffer, tile.n + chunk * CHUNK_N, tile.m + first_row + slab * SLAB_M,
                                    tile.layer);
                    ptx::commit_stores();
                }
            }
        }
    }

    // Phases 3 and 4 where tiles are no whole number of chunks: neighbours in pairs, straight from registers.
    __device__ static __forceinline__ void store_direct(Sums& d, Out* matrix, const Epilogue& epilogue, const Scales& scales,
                                                        const Problem& problem, const Tile& tile, uint32_t first_row,
                                                        uint32_t lane) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t top = tile.m + first_row + slab * SLAB_M + lane / 4;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint32_t row = top + half * 8;
                if (row >= problem.m) {
                    continue;
                }
                Out* to = matrix + row * problem.row_stride;
                const float row_scale = C::SCALED ? scales.of_row(tile.batch, row) : 1.0f;
#pragma unroll
                for (int eight = 0; eight < BLOCK_N / 8; ++eight) {
                    const uint32_t column = tile.n + eight * 8 + lane % 4 * 2;
                    // D's rows are whole times 16 bytes: a pair is inside or outside.
                    if (column >= problem.n) {
                        continue;
                    }
                    Compute x[2];
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const float scale = C::SCALED ? scales.of_column(tile.batch, column + i) : 1.0f;
                        const Compute bias =
                            epilogue.bias != nullptr ? polywarp::to_compute(epilogue.bias[column + i]) : Compute(0);
                        x[i] = epilogue.light(scaled(d[slab][eight * 4 + half * 2 + i], row_scale, scale), bias);
                    }
                    *reinterpret_cast<Out2*>(to + column) = {polywarp::from_compute<Out>(x[0]),
                                                             polywarp::from_compute<Out>(x[1])};
                }
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

    // Phases 3 and 4 for all else: sums go through shared memory, so that neighbouring lanes have neighbouring columns
    // and the whole epilogue is compiled once. 16 rows x 32 columns at a time.
    __device__ static __forceinline__ void store_staged(Sums& d, Out* matrix,
                                                        uint8_t* staging, const Epilogue& epilogue, const Scales& scales, const Problem& problem,
                                                        const Tile& tile, uint32_t first_row, uint32_t lane) {
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
                const uint32_t rows = top < problem.m ? min(problem.m - top, 16u) : 0;
#pragma unroll 1
                for (uint32_t row = 0; row < rows; ++row) {
                    const Compute sum = scaled(sums[row * STAGED_PITCH + lane], scales, tile.batch, top + row, column);
                    matrix[(top + row) * problem.row_stride + column * problem.column_stride] =
                        epilogue.at(sum, tile.batch, top + row, column);
                }
            }
            __syncwarp();
        }
    }

    // Phases 3 and 4, by the shortest way that this epilogue and this D allow.
    __device__ static __forceinline__ void finish(Sums& d, const CUtensorMap* map_d, Out* out,
                                                  uint8_t* shared, uint32_t staging, const Epilogue& epilogue,
                                                  const Scales& scales, const Problem& problem, const Tile& tile, uint32_t first_row, uint32_t lane) {
        if (problem.store_by_tma && epilogue.is_light()) {
            if constexpr (C::DIRECT) {
                store_direct(d, out + tile.layer * problem.batch_stride, epilogue, scales, problem, tile, first_row, lane);
            } else {
                store_chunks(d, map_d, staging, epilogue, scales, problem, tile, first_row, lane);
            }
        } else {
            Out* matrix = out + tile.layer * problem.batch_stride;
            store_staged(d, matrix, shared, epilogue, scales, problem, tile, first_row, lane);
        }
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
    // four columns at a time where nothing but a light epilogue is to do, else one.
    __device__ static __forceinline__ void finish_shared(Out* matrix, uint32_t shared, const Epilogue& epilogue,
                                                         const Scales& scales, const Problem& problem, const Tile& tile, uint32_t rank,
                                                         uint32_t thread) {
        constexpr uint32_t STEP = C::CLUSTER_K * C::CONSUMERS * WARPGROUP;
        const uint32_t rows = min(problem.m - tile.m, static_cast<uint32_t>(C::BLOCK_M));
        const uint32_t columns = min(problem.n - tile.n, static_cast<uint32_t>(BLOCK_N));
        const uint32_t first = rank * C::CONSUMERS * WARPGROUP + thread;
        if (problem.store_by_tma && epilogue.is_light()) {
            for (uint32_t i = first; i < rows * (BLOCK_N / 4); i += STEP) {
                const uint32_t row = i / (BLOCK_N / 4), column = i % (BLOCK_N / 4) * 4;
                const uint32_t from = shared + (row * C::SHARED_PITCH + column) * 4;
                Accumulator parts[C::CLUSTER_K][4];
#pragma unroll
                for (int part = 0; part < C::CLUSTER_K; ++part) {
                    ptx::load_four_of(from, part, parts[part]);
                }
                Four<Out> result;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    Accumulator sum = parts[0][j];
#pragma unroll
                    for (int part = 1; part < C::CLUSTER_K; ++part) {
                        sum += parts[part][j];
                    }
                    const uint32_t at = tile.n + column + j;
                    const Compute bias = epilogue.bias != nullptr && column < columns
                                             ? polywarp::to_compute(epilogue.bias[at])
                                             : Compute(0);
                    const Compute x = column < columns ? scaled(sum, scales, tile.batch, tile.m + row, at) : Compute(0);
                    result.of[j] = polywarp::from_compute<Out>(epilogue.light(x, bias));
                }
                if (column < columns) {
                    *reinterpret_cast<Four<Out>*>(matrix + (tile.m + row) * problem.row_stride + tile.n + column) = result;
                }
            }
        } else {
#pragma unroll 1
            for (uint32_t i = first; i < rows * BLOCK_N; i += STEP) {
                const uint32_t row = i / BLOCK_N, column = i % BLOCK_N;
                const uint32_t from = shared + (row * C::SHARED_PITCH + column) * 4;
                Accumulator sum = 0;
#pragma unroll
                for (int part = 0; part < C::CLUSTER_K; ++part) {
                    Accumulator x;
                    ptx::load_one_of(from, part, x);
                    sum = part == 0 ? x : sum + x;
                }
                if (column < columns) {
                    matrix[(tile.m + row) * problem.row_stride + (tile.n + column) * problem.column_stride] =
                        epilogue.at(scaled(sum, scales, tile.batch, tile.m + row, tile.n + column), tile.batch, tile.m + row,
                                    tile.n + column);
                }
            }
        }
    }
};

}  // namespace polywarp::gemm_wgmma
