// Matrix products on Hopper's tensor cores (sm_90a): tiles arrive by TMA, wgmma multiplies, TMA or plain stores write.
//
// Computes      D = activation(alpha A B + beta C + bias), A [batch, m, k], B [batch, k, n], C and D [batch, m, n],
//               bias [n]; or, for split-K, slabs of A B alone.
// Algorithm     Persistent blocks walk over tiles of D. 1. one thread of the producer warpgroup keeps a ring of STAGES
//               tiles of A and B filled by TMA; 2. consumer warpgroups multiply every stage as it arrives and give it back
//               one step later; 3. epilogue in registers; 4. results go through shared memory to a TMA store, or, where D is not
//               aligned for that, straight to memory.
// Tiling        BLOCK_M x BLOCK_N x 128 bytes of k a stage; CONSUMERS warpgroups stand one below the other, each with
//               WARPGROUP_M = BLOCK_M / CONSUMERS rows, in slabs of 64. CLUSTER_M blocks one below the other share B,
//               CLUSTER_N side by side share A: each loads its part and multicasts it.
// Mapping       Of a slab of 64 rows, warp w of the warpgroup holds rows 16 w to 16 w + 15; lane l holds rows l / 4 and
//               l / 4 + 8, columns 2 (l % 4) and the next, of every 8 columns (PTX ISA, wgmma, fragment of D).
// Shared memory STAGES x (A tile, B tile), each in atoms of 8 rows of 128 bytes, swizzled by 128 bytes; then for each
//               consumer warp two to eight chunks of 16 rows x 128 bytes for results on their way; then two barriers a stage.
// Traffic       2 m n k operations; (BLOCK_M + BLOCK_N) x k elements read a tile, less what the cluster shares.
// Numerics      f32 accumulators (i32 for 8-bit integers), K in ascending order: the same bits on every run. f32 operands
//               are read as tf32: rounded by the load when the tensor map says TFLOAT32.
// Requires      sm_90a; bases and pitches of A and B are multiples of 16 bytes (TMA); 8-bit and tf32 operands K-major.
//               D may lie anywhere; it is written by TMA only where its base and pitch are multiples of 16 bytes.
// References    PTX ISA 8.x, "Asynchronous Warpgroup Level Matrix Instructions", "cp.async.bulk.tensor", "mbarrier".
#pragma once
#include "epilogue.cuh"
#include "ptx/barrier.cuh"
#include "ptx/launch.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"

#include <type_traits>

namespace polywarp::gemm_wgmma {

using ptx::Major;

constexpr int WARPGROUP = 128;
// Rows that one wgmma multiplies.
constexpr int SLAB_M = 64;
// 16 rows of 128 bytes.
constexpr uint32_t CHUNK_BYTES = 16 * ptx::SWIZZLE_ROW_BYTES;
// 227 KiB opt-in shared memory a block, sm_90.
constexpr uint32_t MOST_SHARED_BYTES = 232448;
// Elements from row to row of staged sums: 32 columns, and 8 more so that the rows of a store of pairs use other banks.
constexpr int STAGED_PITCH = 40;
static_assert(16 * STAGED_PITCH * 4 <= 2 * CHUNK_BYTES);
// Registers a thread: the file's 65,536 over three warpgroups, taken from the producer for the consumers.
constexpr uint32_t PRODUCER_REGISTERS = 56;

// Two results side by side.
template <typename Out>
struct alignas(2 * sizeof(Out)) Two {
    Out x, y;
};

// What the planner hands over besides tensor maps and the epilogue's operands.
struct Problem {
    uint32_t m, n, k;
    // Tiles of D.
    uint32_t tiles_m, tiles_n, batches;
    // Slabs of k, and tiles of k in each but the last.
    uint32_t slabs, slab_tiles;
    // Products of planes that are added up: 1, or 3 for operands split into a high and a low plane. In the third dimension of
    // its tensor map an operand has all its high planes, then all its low ones.
    uint32_t terms;
    // Tile rows that are walked together before moving along n, so that A and B are found in L2.
    uint32_t raster;
    // 1 when the operand differs from batch to batch, 0 when one serves all.
    uint32_t batched_a, batched_b;
    // D by TMA; else by plain stores.
    uint32_t store_by_tma;
    // Elements from row to row, column to column and batch to batch of D; slabs lie `batches` apart.
    int64_t row_stride, column_stride, batch_stride;
};

template <typename A, typename B, typename Out, int BLOCK_M, int BLOCK_N, int STAGES, int CONSUMERS, int CLUSTER_M,
          int CLUSTER_N, Major MAJOR_A, Major MAJOR_B>
struct Gemm {
    using Instruction = ptx::Wgmma<A, B>;
    using Accumulator = typename Instruction::Accumulator;
    using Out2 = Two<Out>;
    using Compute = polywarp::Compute<Out>;
    using Epilogue = polywarp::Epilogue<Out>;

    static constexpr int THREADS = WARPGROUP * (CONSUMERS + 1);
    // 512 registers for each of the 128 threads of a warpgroup's place, less the producer's; multiples of 8.
    static constexpr uint32_t CONSUMER_REGISTERS = CONSUMERS == 2 ? 224 : 152;
    static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
    static constexpr int WARPGROUP_M = BLOCK_M / CONSUMERS;
    static constexpr int SLABS = WARPGROUP_M / SLAB_M;
    static constexpr int BLOCK_K = ptx::SWIZZLE_ROW_BYTES / sizeof(A);
    static constexpr int K_STEPS = BLOCK_K / Instruction::K;
    // An MN-major tile is made of columns of 64 elements (128 bytes) that are BLOCK_K deep.
    static constexpr int COLUMNS_A = (BLOCK_M + 63) / 64;
    static constexpr int COLUMNS_B = (BLOCK_N + 63) / 64;
    static constexpr uint32_t COLUMN_BYTES = BLOCK_K * ptx::SWIZZLE_ROW_BYTES;
    static constexpr uint32_t A_BYTES =
        MAJOR_A == Major::K ? BLOCK_M * ptx::SWIZZLE_ROW_BYTES : COLUMNS_A * COLUMN_BYTES;
    static constexpr uint32_t B_BYTES =
        MAJOR_B == Major::K ? (BLOCK_N * ptx::SWIZZLE_ROW_BYTES + 1023) / 1024 * 1024 : COLUMNS_B * COLUMN_BYTES;
    // What arrives of B: a K-major tile of an odd number of atoms leaves a gap.
    static constexpr uint32_t B_LOADED_BYTES =
        MAJOR_B == Major::K ? BLOCK_N * ptx::SWIZZLE_ROW_BYTES : COLUMNS_B * COLUMN_BYTES;
    static constexpr uint32_t STAGE_BYTES = A_BYTES + B_BYTES;
    // Columns of D that one TMA store takes: 128 bytes.
    static constexpr int CHUNK_N = ptx::SWIZZLE_ROW_BYTES / sizeof(Out);
    static constexpr int CHUNKS = BLOCK_N / CHUNK_N;
    // Besides stages: two barriers each, and room to align the whole to the swizzle's atoms by hand.
    static constexpr uint32_t PIPELINE_BYTES = STAGES * (STAGE_BYTES + 2 * 8) + ptx::SWIZZLE_ATOM_BYTES;
    // Chunks of results under way, a warp: as many as there are, or as there is room for.
    static constexpr int ROOM = (MOST_SHARED_BYTES - PIPELINE_BYTES) / (CONSUMERS * 4 * CHUNK_BYTES);
    static constexpr int CHUNKS_A_WARP = ROOM >= 8 && SLABS * CHUNKS >= 8 ? 8 : ROOM >= 4 && SLABS * CHUNKS >= 4 ? 4 : 2;
    static constexpr uint32_t STAGING_BYTES = CONSUMERS * 4 * CHUNKS_A_WARP * CHUNK_BYTES;
    static constexpr uint32_t BARRIERS_AT = STAGES * STAGE_BYTES + STAGING_BYTES;
    static constexpr uint32_t SHARED_BYTES = PIPELINE_BYTES + STAGING_BYTES;

    static_assert(sizeof(A) == sizeof(B));
    static_assert(BLOCK_M % (CONSUMERS * SLAB_M) == 0 && BLOCK_N % CHUNK_N == 0 && BLOCK_N <= 256);
    static_assert(sizeof(A) == 2 || (MAJOR_A == Major::K && MAJOR_B == Major::K), "only 16-bit operands may be MN-major");
    static_assert(SHARED_BYTES <= MOST_SHARED_BYTES);
    static_assert(BLOCK_M % CLUSTER_N == 0 && (BLOCK_M / CLUSTER_N) % 8 == 0 && (BLOCK_N / CLUSTER_M) % 8 == 0);
    static_assert(MAJOR_A == Major::K || COLUMNS_A % CLUSTER_N == 0);
    static_assert(MAJOR_B == Major::K || COLUMNS_B % CLUSTER_M == 0);
    static_assert(SLABS * BLOCK_N / 2 <= 160, "accumulators must leave registers for the rest");

    // One tile of D: where it starts, which slab of k, and of which batch.
    struct Tile {
        uint32_t m, n, batch, slab;
        // Which matrix of D, counting those of every slab.
        uint32_t layer;
    };

    __device__ static __forceinline__ uint32_t tile_count(const Problem& problem) {
        const uint32_t rows = (problem.tiles_m + CLUSTER_M - 1) / CLUSTER_M;
        const uint32_t columns = (problem.tiles_n + CLUSTER_N - 1) / CLUSTER_N;
        return rows * columns * problem.batches * problem.slabs;
    }

    // Tile `index` of the cluster: groups of `raster` tile rows, within a group row by row in each column.
    __device__ static __forceinline__ Tile tile_at(const Problem& problem, uint32_t index, uint32_t rank) {
        const uint32_t rows = (problem.tiles_m + CLUSTER_M - 1) / CLUSTER_M;
        const uint32_t columns = (problem.tiles_n + CLUSTER_N - 1) / CLUSTER_N;
        const uint32_t plane = rows * columns;
        const uint32_t layer = index / plane;
        const uint32_t within = index - layer * plane;
        const uint32_t group_tiles = problem.raster * columns;
        const uint32_t group = within / group_tiles;
        const uint32_t first = group * problem.raster;
        const uint32_t height = min(problem.raster, rows - first);
        const uint32_t rest = within - group * group_tiles;
        const uint32_t column = rest / height;
        const uint32_t row = first + rest - column * height;
        Tile tile;
        tile.m = (row * CLUSTER_M + rank / CLUSTER_N) * BLOCK_M;
        tile.n = (column * CLUSTER_N + rank % CLUSTER_N) * BLOCK_N;
        tile.layer = layer;
        tile.slab = layer / problem.batches;
        tile.batch = layer - tile.slab * problem.batches;
        return tile;
    }

    __device__ static __forceinline__ uint32_t k_tiles(const Problem& problem, const Tile& tile) {
        const uint32_t all = term_tiles(problem) * problem.terms;
        return min(problem.slab_tiles, all - tile.slab * problem.slab_tiles);
    }

    // Tiles of k in one term.
    __device__ static __forceinline__ uint32_t term_tiles(const Problem& problem) {
        return (problem.k + BLOCK_K - 1) / BLOCK_K;
    }

    // The plane of A and of B that a term multiplies, smallest term first: low x high, high x low, high x high.
    __device__ static __forceinline__ int plane_a(const Problem& problem, const Tile& tile, uint32_t term) {
        const bool low = problem.terms > 1 && term == 0;
        return problem.batched_a ? tile.batch + (low ? problem.batches : 0) : low;
    }
    __device__ static __forceinline__ int plane_b(const Problem& problem, const Tile& tile, uint32_t term) {
        const bool low = problem.terms > 1 && term == 1;
        return problem.batched_b ? tile.batch + (low ? problem.batches : 0) : low;
    }

    // Phase 1. Each block of a cluster loads its share of what it has in common with the others, for all of them.
    __device__ static __forceinline__ void load_stage(const CUtensorMap* map_a, const CUtensorMap* map_b, uint32_t stage,
                                                      uint32_t barrier, const Tile& tile, int k, int batch_a, int batch_b,
                                                      uint32_t rank) {
        const uint32_t at_m = rank / CLUSTER_N, at_n = rank % CLUSTER_N;
        // The blocks of this block's row (they share A) and of its column (they share B).
        const uint16_t row_mask = ((1u << CLUSTER_N) - 1) << (at_m * CLUSTER_N);
        uint16_t column_mask = 0;
#pragma unroll
        for (int i = 0; i < CLUSTER_M; ++i) {
            column_mask |= 1u << (i * CLUSTER_N + at_n);
        }
        const uint32_t stage_b = stage + A_BYTES;
        if constexpr (MAJOR_A == Major::K) {
            constexpr int PART = BLOCK_M / CLUSTER_N;
            const uint32_t to = stage + at_n * PART * ptx::SWIZZLE_ROW_BYTES;
            load<CLUSTER_N>(to, map_a, barrier, row_mask, k, tile.m + at_n * PART, batch_a);
        } else {
            constexpr int PART = COLUMNS_A / CLUSTER_N;
#pragma unroll
            for (int i = 0; i < PART; ++i) {
                const uint32_t column = at_n * PART + i;
                load<CLUSTER_N>(stage + column * COLUMN_BYTES, map_a, barrier, row_mask, tile.m + column * 64, k, batch_a);
            }
        }
        if constexpr (MAJOR_B == Major::K) {
            constexpr int PART = BLOCK_N / CLUSTER_M;
            const uint32_t to = stage_b + at_m * PART * ptx::SWIZZLE_ROW_BYTES;
            load<CLUSTER_M>(to, map_b, barrier, column_mask, k, tile.n + at_m * PART, batch_b);
        } else {
            constexpr int PART = COLUMNS_B / CLUSTER_M;
#pragma unroll
            for (int i = 0; i < PART; ++i) {
                const uint32_t column = at_m * PART + i;
                load<CLUSTER_M>(stage_b + column * COLUMN_BYTES, map_b, barrier, column_mask, tile.n + column * 64, k, batch_b);
            }
        }
    }

    template <int SHARED_BY>
    __device__ static __forceinline__ void load(uint32_t to, const CUtensorMap* map, uint32_t barrier, uint16_t blocks, int x,
                                                int y, int z) {
        if constexpr (SHARED_BY == 1) {
            ptx::load_tile(to, map, barrier, x, y, z);
        } else {
            ptx::load_tile_multicast(to, map, barrier, blocks, x, y, z);
        }
    }

    // Phase 2. One stage: every slab of rows times every step of k.
    __device__ static __forceinline__ void multiply_stage(Accumulator (&d)[SLABS][BLOCK_N / 2], uint32_t stage,
                                                          uint32_t first_row, bool fresh) {
        constexpr uint32_t STRIDE = ptx::SWIZZLE_ATOM_BYTES;
        const uint32_t stage_b = stage + A_BYTES;
        // Bytes from one step of k to the next: along the row, or K rows of 128 bytes further.
        constexpr uint32_t STEP_A = MAJOR_A == Major::K ? Instruction::K * sizeof(A) : Instruction::K * 128;
        constexpr uint32_t STEP_B = MAJOR_B == Major::K ? Instruction::K * sizeof(B) : Instruction::K * 128;
        const uint64_t b = ptx::matrix_descriptor(stage_b, COLUMN_BYTES, STRIDE);
        uint64_t a[SLABS];
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t row = first_row + slab * SLAB_M;
            const uint32_t from = MAJOR_A == Major::K ? row * ptx::SWIZZLE_ROW_BYTES : row / 64 * COLUMN_BYTES;
            a[slab] = ptx::matrix_descriptor(stage + from, COLUMN_BYTES, STRIDE);
        }
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab) {
                Instruction::template run<BLOCK_N, MAJOR_A, MAJOR_B>(d[slab], a[slab] + (step * STEP_A >> 4),
                                                                     b + (step * STEP_B >> 4), step > 0 || !fresh);
            }
        }
    }

    // This warpgroup is done with a stage, in every block that loads a part of it.
    __device__ static __forceinline__ void release(uint32_t empty, uint32_t thread, uint32_t rank) {
        if constexpr (CLUSTER == 1) {
            if (thread == 0) {
                ptx::barrier_arrive(empty);
            }
        } else {
            // The blocks that write into this one's stage: its row and its column of the cluster.
            if (thread < CLUSTER && (thread / CLUSTER_N == rank / CLUSTER_N || thread % CLUSTER_N == rank % CLUSTER_N)) {
                ptx::barrier_arrive_at(empty, thread);
            }
        }
    }

    // Phase 3 where it takes a few instructions: alpha, bias and relu, on a chunk of columns from `column` on. Into other
    // registers: sums that change in place would make the compiler serialise wgmma.
    __device__ static __forceinline__ void finish_chunk(Accumulator (&to)[CHUNK_N / 2], const Accumulator* x,
                                                        const Epilogue& epilogue, uint32_t column, uint32_t n) {
#pragma unroll
        for (int eight = 0; eight < CHUNK_N / 8; ++eight) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint32_t at = column + eight * 8 + i;
                const Compute bias =
                    epilogue.bias != nullptr && at < n ? polywarp::to_compute(epilogue.bias[at]) : Compute(0);
                to[eight * 4 + i] = epilogue.light(x[eight * 4 + i], bias);
                to[eight * 4 + 2 + i] = epilogue.light(x[eight * 4 + 2 + i], bias);
            }
        }
    }

    // One chunk of a warp's rows, swizzled by 128 bytes as its tensor map says: 16-byte unit u of row r stands at u ^ (r % 8).
    __device__ static __forceinline__ void stage_chunk(const Accumulator* x, uint32_t buffer, uint32_t lane) {
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
            static_assert(std::is_same_v<Out, Accumulator>);
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
    __device__ static __forceinline__ void store_chunks(Accumulator (&d)[SLABS][BLOCK_N / 2], const CUtensorMap* map_d,
                                                        uint32_t staging, const Epilogue& epilogue, const Problem& problem,
                                                        const Tile& tile, uint32_t first_row, uint32_t lane) {
        const bool plain = epilogue.is_plain();
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
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
                    stage_chunk(x, buffer, lane);
                } else {
                    Accumulator finished[CHUNK_N / 2];
                    finish_chunk(finished, x, epilogue, tile.n + chunk * CHUNK_N + lane % 4 * 2, problem.n);
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

    // Two finished sums as 16-bit neighbours.
    __device__ static __forceinline__ uint32_t pack(Accumulator x, Accumulator y) {
        static_assert(sizeof(Out2) == 4);
        const Out2 both = {polywarp::from_compute<Out>(static_cast<Compute>(x)),
                           polywarp::from_compute<Out>(static_cast<Compute>(y))};
        return *reinterpret_cast<const uint32_t*>(&both);
    }

    // Phases 3 and 4 for all else: sums go through shared memory, so that neighbouring lanes have neighbouring columns
    // and the whole epilogue is compiled once. 16 rows x 32 columns at a time.
    __device__ static __forceinline__ void store_staged(Accumulator (&d)[SLABS][BLOCK_N / 2], Out* matrix,
                                                        uint8_t* staging, const Epilogue& epilogue, const Problem& problem,
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
                    const Accumulator sum = sums[row * STAGED_PITCH + lane];
                    matrix[(top + row) * problem.row_stride + column * problem.column_stride] =
                        epilogue.at(sum, tile.batch, top + row, column);
                }
            }
            __syncwarp();
        }
    }

    // Phases 3 and 4, by the shortest way that this epilogue and this D allow.
    __device__ static __forceinline__ void finish(Accumulator (&d)[SLABS][BLOCK_N / 2], const CUtensorMap* map_d, Out* out,
                                                  uint8_t* shared, uint32_t staging, const Epilogue& epilogue,
                                                  const Problem& problem, const Tile& tile, uint32_t first_row, uint32_t lane) {
        if (problem.store_by_tma && epilogue.is_light()) {
            store_chunks(d, map_d, staging, epilogue, problem, tile, first_row, lane);
        } else {
            Out* matrix = out + tile.layer * problem.batch_stride;
            store_staged(d, matrix, shared, epilogue, problem, tile, first_row, lane);
        }
    }

    __device__ static __forceinline__ void run(const CUtensorMap* map_a, const CUtensorMap* map_b, const CUtensorMap* map_d,
                                               Out* d, const Problem& problem, const Epilogue& epilogue) {
        extern __shared__ uint8_t shared[];
        const uint32_t base = (ptx::smem_address(shared) + 1023) / 1024 * 1024;
        const uint32_t full = base + BARRIERS_AT, empty = full + STAGES * 8;
        const uint32_t warpgroup = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
        const uint32_t rank = CLUSTER == 1 ? 0 : ptx::cluster_rank();
        const uint32_t cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
        if (threadIdx.x == 0) {
            for (uint32_t stage = 0; stage < STAGES; ++stage) {
                ptx::barrier_init(full + stage * 8, 1);
                ptx::barrier_init(empty + stage * 8, CONSUMERS * (CLUSTER_M + CLUSTER_N - 1));
            }
            ptx::fence_barrier_init();
            ptx::prefetch_map(map_a);
            ptx::prefetch_map(map_b);
        }
        // Nobody loads into a block or arrives at its barriers before they are initialised.
        if constexpr (CLUSTER == 1) {
            __syncthreads();
        } else {
            ptx::cluster_barrier();
        }
        ptx::let_next_kernel_start();
        ptx::wait_for_previous_kernels();
        const uint32_t tiles = tile_count(problem);
        uint32_t stage = 0, phase = 0;
        const auto advance = [&] {
            stage = stage + 1 == STAGES ? 0 : stage + 1;
            phase ^= stage == 0;
        };
        if (warpgroup == 0) {
            if constexpr (CONSUMERS > 1) {
                ptx::give_registers<PRODUCER_REGISTERS>();
            }
            if (thread == 0) {
                for (uint32_t index = cluster; index < tiles; index += clusters) {
                    const Tile tile = tile_at(problem, index, rank);
                    const uint32_t count = k_tiles(problem, tile);
                    const uint32_t first = tile.slab * problem.slab_tiles, term_length = term_tiles(problem);
                    uint32_t term = first / term_length, k = first % term_length;
                    for (uint32_t i = 0; i < count; ++i) {
                        ptx::barrier_wait(empty + stage * 8, phase ^ 1);
                        ptx::barrier_arrive_expect(full + stage * 8, A_BYTES + B_LOADED_BYTES);
                        load_stage(map_a, map_b, base + stage * STAGE_BYTES, full + stage * 8, tile, k * BLOCK_K,
                                   plane_a(problem, tile, term), plane_b(problem, tile, term), rank);
                        advance();
                        if (++k == term_length) {
                            k = 0;
                            ++term;
                        }
                    }
                }
            }
            __syncwarp();
        } else {
            if constexpr (CONSUMERS > 1) {
                ptx::take_registers<CONSUMER_REGISTERS>();
            }
            const uint32_t consumer = warpgroup - 1, warp = thread / 32, lane = thread % 32;
            const uint32_t staging = base + STAGES * STAGE_BYTES + (consumer * 4 + warp) * CHUNKS_A_WARP * CHUNK_BYTES;
            const uint32_t warpgroup_row = consumer * WARPGROUP_M;
            for (uint32_t index = cluster; index < tiles; index += clusters) {
                const Tile tile = tile_at(problem, index, rank);
                const uint32_t count = k_tiles(problem, tile);
                Accumulator sums[SLABS][BLOCK_N / 2];
                uint32_t before = 0;
                for (uint32_t i = 0; i < count; ++i) {
                    ptx::barrier_wait(full + stage * 8, phase);
                    hold(sums);
                    ptx::wgmma_fence();
                    multiply_stage(sums, base + stage * STAGE_BYTES, warpgroup_row, i == 0);
                    ptx::wgmma_commit();
                    hold(sums);
                    // The stage before this one has been read.
                    ptx::wgmma_wait<1>();
                    if (i > 0) {
                        release(empty + before * 8, thread, rank);
                    }
                    before = stage;
                    advance();
                }
                ptx::wgmma_wait<0>();
                hold(sums);
                release(empty + before * 8, thread, rank);
                const uint32_t first_row = warpgroup_row + warp * 16;
                finish(sums, map_d, d, shared + (staging - ptx::smem_address(shared)), staging, epilogue, problem, tile,
                       first_row, lane);
            }
            if (lane == 0) {
                ptx::wait_stores_read<0>();
            }
            __syncwarp();
        }
        // A block stays while others of its cluster may still arrive at its barriers.
        if constexpr (CLUSTER > 1) {
            ptx::cluster_barrier();
        }
    }

    __device__ static __forceinline__ void hold(Accumulator (&d)[SLABS][BLOCK_N / 2]) {
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
#pragma unroll
            for (int i = 0; i < BLOCK_N / 2; ++i) {
                ptx::keep_in_place(d[slab][i]);
            }
        }
    }
};

}  // namespace polywarp::gemm_wgmma

// ---- Instances ----

// What a kernel declares beside its bounds, by the number of blocks in its cluster.
#define GEMM_WGMMA_CLUSTER_1
#define GEMM_WGMMA_CLUSTER_2 __cluster_dims__(2, 1, 1)
#define GEMM_WGMMA_CLUSTER_4 __cluster_dims__(4, 1, 1)

// One kernel: operands A and B of IN, D of OUT; SIZE is CLUSTER_M times CLUSTER_N.
#define GEMM_WGMMA(SYMBOL, IN, OUT, BLOCK_M, BLOCK_N, STAGES, CONSUMERS, CLUSTER_M, CLUSTER_N, SIZE, A_MAJOR, B_MAJOR)     \
    using SYMBOL##_t = polywarp::gemm_wgmma::Gemm<IN, IN, OUT, BLOCK_M, BLOCK_N, STAGES, CONSUMERS, CLUSTER_M, CLUSTER_N,  \
                                                  ptx::Major::A_MAJOR, ptx::Major::B_MAJOR>;                               \
    static_assert(SYMBOL##_t::CLUSTER == SIZE);                                                                            \
    extern "C" __global__ void GEMM_WGMMA_CLUSTER_##SIZE __launch_bounds__(SYMBOL##_t::THREADS, 1) SYMBOL(                 \
        const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,                              \
        const __grid_constant__ CUtensorMap map_d, OUT* d, uint32_t m, uint32_t n, uint32_t k, uint32_t tiles_m,           \
        uint32_t tiles_n, uint32_t batches, uint32_t slabs, uint32_t slab_tiles, uint32_t terms, uint32_t raster,          \
        uint32_t batched_a, uint32_t batched_b, uint32_t store_by_tma, int64_t row_stride, int64_t column_stride,          \
        int64_t batch_stride, float alpha, float beta, const OUT* c, int64_t ldc, int64_t batch_stride_c, const OUT* bias, \
        uint32_t activation) {                                                                                             \
        const polywarp::gemm_wgmma::Problem problem = {                                                                    \
            m,      n,         k,         tiles_m,      tiles_n,    batches,       slabs,       slab_tiles, terms,         \
            raster, batched_a, batched_b, store_by_tma, row_stride, column_stride, batch_stride};                          \
        const SYMBOL##_t::Epilogue epilogue(alpha, beta, c, ldc, batch_stride_c, bias, activation);                        \
        SYMBOL##_t::run(&map_a, &map_b, &map_d, d, problem, epilogue);                                                     \
    }
