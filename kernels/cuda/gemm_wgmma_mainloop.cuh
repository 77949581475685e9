// Phases 1 and 2 of gemm_wgmma.cuh: loads of one stage, products of one stage, and giving it back.
#pragma once
#include "gemm_wgmma_blocks.cuh"
#include "gemm_wgmma_sparse_stage.cuh"
#include "gemm_wgmma_transposed.cuh"

namespace polywarp::gemm_wgmma {

template <typename C>
struct Mainloop {
    using A = typename C::A;
    using B = typename C::B;
    using Accumulator = typename C::Accumulator;
    static constexpr int BLOCK_M = C::BLOCK_M, BLOCK_N = C::BLOCK_N, CLUSTER_M = C::CLUSTER_M, CLUSTER_N = C::CLUSTER_N;
    static constexpr int SLABS = C::SLABS;
    static constexpr Major MAJOR_A = C::MAJOR_A, MAJOR_B = C::MAJOR_B;
    static constexpr uint32_t COLUMN_BYTES = C::COLUMN_BYTES;
    using Sums = Accumulator[SLABS][BLOCK_N / 2];
    // Sums of a part of the columns.
    using Part = Accumulator[SLABS][C::PART_N / 2];

    // Phase 1, of A or of B. Each block of a cluster loads its share of what it has in common with the others, for all of them.
    template <bool OF_A, bool KEEPS>
    __device__ static __forceinline__ void load_stage(const CUtensorMap* map, uint32_t stage, uint32_t barrier, const Tile& tile,
                                                      int k, int batch, uint32_t rank) {
        const uint32_t at_m = C::MULTICAST ? rank / CLUSTER_N : 0, at_n = C::MULTICAST ? rank % CLUSTER_N : 0;
        if constexpr (OF_A) {
            // The blocks of this block's row share A.
            const uint16_t mask = ((1u << CLUSTER_N) - 1) << (at_m * CLUSTER_N);
            const auto box = [&](uint32_t to, int x, int y) {
                load<CLUSTER_N, KEEPS>(stage + to, map, barrier, mask, x, y, batch);
            };
            if constexpr (MAJOR_A == Major::K) {
                constexpr int PART = BLOCK_M / CLUSTER_N;
                box(at_n * PART * C::ROW_BYTES_A, C::SPARSE ? k / 2 : k, tile.m + at_n * PART);
            } else {
                constexpr int PART = C::BLOCK_K / CLUSTER_N;
#pragma unroll
                for (int i = 0; i < C::COLUMNS_A; ++i) {
                    box(at_n * PART * ptx::SWIZZLE_ROW_BYTES + i * COLUMN_BYTES, tile.m + i * C::COLUMN, k + at_n * PART);
                }
            }
        } else {
            // Those of its column share B.
            uint16_t mask = 0;
#pragma unroll
            for (int i = 0; i < CLUSTER_M; ++i) {
                mask |= 1u << (i * CLUSTER_N + at_n);
            }
            const auto box = [&](uint32_t to, int x, int y) {
                load<CLUSTER_M, KEEPS>(stage + C::A_BYTES + to, map, barrier, mask, x, y, batch);
            };
            if constexpr (MAJOR_B == Major::K) {
                constexpr int PART = BLOCK_N / CLUSTER_M;
                box(at_m * PART * ptx::SWIZZLE_ROW_BYTES, k, tile.n + at_m * PART);
            } else {
                constexpr int PART = C::BLOCK_K / CLUSTER_M;
#pragma unroll
                for (int i = 0; i < C::COLUMNS_B; ++i) {
                    box(at_m * PART * ptx::SWIZZLE_ROW_BYTES + i * COLUMN_BYTES, tile.n + i * C::COLUMN, k + at_m * PART);
                }
            }
        }
    }

    template <int SHARED_BY, bool KEEPS>
    __device__ static __forceinline__ void load(uint32_t to, const CUtensorMap* map, uint32_t barrier, uint16_t blocks, int x,
                                                int y, int z) {
        if constexpr (SHARED_BY == 1 && KEEPS) {
            ptx::load_tile(to, map, barrier, x, y, z, ptx::kept_longest());
        } else if constexpr (SHARED_BY == 1) {
            ptx::load_tile(to, map, barrier, x, y, z);
        } else if constexpr (KEEPS) {
            ptx::load_tile_multicast(to, map, barrier, blocks, x, y, z, ptx::kept_longest());
        } else {
            ptx::load_tile_multicast(to, map, barrier, blocks, x, y, z);
        }
    }

    // Where a stage begins, in the units of descriptors.
    __device__ static __forceinline__ uint32_t unit_of(uint32_t base, uint32_t stage) {
        return ptx::descriptor_unit(base) + stage * (C::STAGE_BYTES / ptx::DESCRIPTOR_UNIT);
    }

    // Phase 2. One stage, which begins at `unit`: every slab of rows and as many columns as `d` has, from `column` on, times every step
    // of k.
    template <int HALF_N>
    __device__ static __forceinline__ void multiply_stage(Accumulator (&d)[SLABS][HALF_N], uint32_t unit, uint32_t first_row,
                                                          uint32_t column, bool fresh) {
        using Instruction = typename C::Instruction;
        static_assert(MAJOR_B == Major::K || 2 * HALF_N == BLOCK_N);
        constexpr uint32_t STRIDE = ptx::SWIZZLE_ATOM_BYTES, UNIT = ptx::DESCRIPTOR_UNIT;
        // Bytes from one step of k to the next: along the row, or K rows of 128 bytes further.
        constexpr uint32_t STEP_A = MAJOR_A == Major::K ? Instruction::K * sizeof(A) : Instruction::K * 128;
        constexpr uint32_t STEP_B = MAJOR_B == Major::K ? Instruction::K * sizeof(B) : Instruction::K * 128;
        const uint32_t unit_b = unit + C::A_BYTES / UNIT + column * (ptx::SWIZZLE_ROW_BYTES / UNIT);
        const uint64_t b = ptx::matrix_descriptor(unit_b, COLUMN_BYTES, STRIDE);
        uint64_t a[SLABS];
#pragma unroll
        for (int slab = 0; slab < SLABS; ++slab) {
            const uint32_t row = first_row + slab * SLAB_M;
            const uint32_t from = MAJOR_A == Major::K ? row * (ptx::SWIZZLE_ROW_BYTES / UNIT) : row / 64 * (COLUMN_BYTES / UNIT);
            a[slab] = ptx::matrix_descriptor(unit + from, COLUMN_BYTES, STRIDE);
        }
#pragma unroll
        for (int step = 0; step < C::K_STEPS; ++step) {
#pragma unroll
            for (int slab = 0; slab < SLABS; ++slab) {
                Instruction::template run<2 * HALF_N, MAJOR_A, MAJOR_B>(d[slab], a[slab] + (step * STEP_A >> 4),
                                                                     b + (step * STEP_B >> 4), step > 0 || !fresh);
            }
        }
    }

    // This warpgroup is done with a stage, in every block that loads a part of it.
    __device__ static __forceinline__ void release(uint32_t empty, uint32_t thread, uint32_t rank) {
        if constexpr (!C::MULTICAST) {
            if (thread == 0) {
                ptx::barrier_arrive(empty);
            }
        } else {
            // The blocks that write into this one's stage: its row and its column of the cluster.
            if (thread < C::CLUSTER &&
                (thread / CLUSTER_N == rank / CLUSTER_N || thread % CLUSTER_N == rank % CLUSTER_N)) {
                ptx::barrier_arrive_at(empty, thread);
            }
        }
    }

    // Phase 1 for one tile of D, by a whole warp: `range` of its tiles of k, each into the next stage that is free.
    // KEEPS: what is loaded, in the second-level cache.
    template <bool OF_A, bool KEEPS>
    __device__ static __forceinline__ void load_tile(const CUtensorMap* map, const Problem& problem, const Metadata& metadata,
                                                     const Tile& tile, Range range, uint32_t base, uint32_t full,
                                                     uint32_t empty, Position<C::STAGES>& at, uint32_t rank) {
        const bool leads = ptx::elected();
        const uint32_t term_length = C::term_tiles(problem);
        // Slabs of split operands may begin in any term.
        uint32_t term = C::TERMS > 1 && range.first >= term_length ? range.first / term_length : 0;
        uint32_t k = range.first - term * term_length;
        // Where results are most of the work, loads are not late.
#pragma unroll(KEEPS ? 1 : 4)
        for (uint32_t i = 0; i < range.count; ++i) {
            ptx::barrier_wait(empty + at.stage * 8, at.phase ^ 1);
            const uint32_t stage = base + at.stage * C::STAGE_BYTES, barrier = full + at.stage * 8;
            const int plane = OF_A ? C::plane_a(problem, tile, term) : C::plane_b(problem, tile, term);
            if (leads) {
                ptx::barrier_arrive_expect(barrier, OF_A ? C::A_BYTES + C::METADATA_BYTES : C::B_LOADED_BYTES);
                load_stage<OF_A, KEEPS>(map, stage, barrier, tile, k * C::BLOCK_K, plane, rank);
                if constexpr (OF_A && C::SPARSE) {
                    SparseStage<C>::load_metadata(metadata, stage, barrier, problem, tile, k, plane);
                }
            }
            at.advance();
            if (++k == term_length && C::TERMS > 1) {
                k = 0;
                ++term;
            }
        }
    }

    // Phase 2 for one tile of D: one group of wgmma stays under way, so a stage is given back one step later. Sums that are
    // not `fresh` are added to.
    __device__ static __forceinline__ void multiply_tile(Sums& sums, bool fresh, uint32_t count, uint32_t base, uint32_t full,
                                                         uint32_t empty, Position<C::STAGES>& at, uint32_t first_row,
                                                         uint32_t thread, uint32_t rank) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < count; ++i) {
            ptx::barrier_wait(full + at.stage * 8, at.phase);
            ptx::keep_in_place(sums);
            if constexpr (C::SPARSE) {
                SparseStage<C>::multiply(sums, base + at.stage * C::STAGE_BYTES, first_row, fresh && i == 0);
            } else {
                ptx::wgmma_fence();
                multiply_stage(sums, unit_of(base, at.stage), first_row, 0, fresh && i == 0);
            }
            ptx::wgmma_commit();
            ptx::keep_in_place(sums);
            // The stage before this one has been read.
            ptx::wgmma_wait<1>();
            if (i > 0) {
                release(empty + before * 8, thread, rank);
            }
            before = at.stage;
            at.advance();
        }
        ptx::wgmma_wait<0>();
        ptx::keep_in_place(sums);
        if (count > 0) {
            release(empty + before * 8, thread, rank);
        }
    }

    // The same of operands that were split: terms with a low part first, whose sums are brought down to what they are before those of
    // the high parts are added.
    __device__ static __forceinline__ void multiply_tile_of_parts(Sums& sums, const Parts& parts, const Problem& problem,
                                                                  const Tile& tile, Range range, uint32_t base, uint32_t full,
                                                                  uint32_t empty, Position<C::STAGES>& at, uint32_t first_row,
                                                                  uint32_t thread, uint32_t rank) {
        const float first_factor = parts.factors[2 * tile.batch], second_factor = parts.factors[2 * tile.batch + 1];
        const uint32_t low_tiles = C::LOW_TERMS * C::term_tiles(problem);
        const uint32_t low = range.first < low_tiles ? min(range.count, low_tiles - range.first) : 0;
#pragma unroll 1
        for (int high = 0; high < 2; ++high) {
            multiply_tile(sums, !high || low == 0, high ? range.count - low : low, base, full, empty, at, first_row, thread, rank);
            multiply_sums(sums, high ? first_factor : 1 / C::LOW_SCALE);
        }
        // Not one factor for both: it may be out of range where the product is not.
        multiply_sums(sums, second_factor);
    }

    __device__ static __forceinline__ void multiply_sums(Sums& sums, float factor) {
#pragma unroll
        for (int i = 0; i < SLABS * BLOCK_N / 2; ++i) {
            sums[i / (BLOCK_N / 2)][i % (BLOCK_N / 2)] *= factor;
        }
    }

    // The same with A in registers: each part of a stage is a group of wgmma, and comes into its registers while the groups of the
    // other parts are under way. In one line without branches: behind one the assembler was seen to load into registers that
    // wgmma still read, which the build looks for.
    __device__ static __forceinline__ void multiply_tile_of_registers(Sums& sums, uint32_t count, uint32_t base, uint32_t full,
                                                                      uint32_t empty, Position<C::STAGES>& at,
                                                                      uint32_t first_row, uint32_t thread, uint32_t rank) {
        using Stage = TransposedStage<C>;
        constexpr int PARTS = Stage::PARTS;
        typename Stage::Fragments parts[PARTS] = {};
        const uint32_t warp_row = first_row + thread / 32 * 16, lane = thread % 32;
        uint32_t before = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t stage = base + at.stage * C::STAGE_BYTES;
#pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                // This part of the stage before has been multiplied.
                ptx::wgmma_wait<PARTS - 1>();
                ptx::keep_in_place(sums);
                ptx::keep_in_place(parts[part]);
                if (part == 0) {
                    ptx::barrier_wait(full + at.stage * 8, at.phase);
                }
                if (part == PARTS - 1 && i > 0) {
                    release(empty + before * 8, thread, rank);
                }
                Stage::load(parts[part], stage, part, warp_row, lane);
                Stage::start(sums, parts[part], stage, part, i == 0 && part == 0);
            }
            before = at.stage;
            at.advance();
        }
        ptx::wgmma_wait<0>();
        ptx::keep_in_place(sums);
        ptx::keep_in_place(parts);
        if (count > 0) {
            release(empty + before * 8, thread, rank);
        }
    }

    // The same with sums of each stage multiplied with its factors, and added to others in f32: sums of wgmma are short ones.
    template <typename OfTile>
    __device__ static __forceinline__ void multiply_tile_promoted(Sums& sums, const OfTile& factors, uint32_t count,
                                                                  uint32_t base, uint32_t full, uint32_t empty,
                                                                  Position<C::STAGES>& at, uint32_t first_row,
                                                                  uint32_t thread, uint32_t rank) {
        if constexpr (C::TWO_PARTS) {
            multiply_tile_in_turns(sums, factors, count, base, full, empty, at, first_row, thread, rank);
        } else {
            multiply_tile_by_parts(sums, factors, count, base, full, empty, at, first_row, thread, rank);
        }
    }

    // Wide tiles: one part of the columns after the other. While its sums are added, the other warpgroup multiplies.
    template <typename OfTile>
    __device__ static __forceinline__ void multiply_tile_by_parts(Sums& sums, const OfTile& factors, uint32_t count,
                                                                  uint32_t base, uint32_t full, uint32_t empty,
                                                                  Position<C::STAGES>& at, uint32_t first_row,
                                                                  uint32_t thread, uint32_t rank) {
        // See multiply_tile_in_turns.
        Part part;
        clear(sums);
        clear(part);
        for (uint32_t i = 0; i < count; ++i) {
            const auto of_stage = factors.at(i);
            ptx::barrier_wait(full + at.stage * 8, at.phase);
            const uint32_t unit = unit_of(base, at.stage);
#pragma unroll
            for (int number = 0; number < C::PARTS; ++number) {
                start_part(part, unit, first_row, number * C::PART_N);
                ptx::wgmma_wait<0>();
                ptx::keep_in_place(part);
                if (number == C::PARTS - 1) {
                    release(empty + at.stage * 8, thread, rank);
                }
                of_stage.add(sums, part, number);
            }
            at.advance();
        }
    }

    // While one stage's sums are added, the next is multiplied into other registers.
    template <typename OfTile>
    __device__ static __forceinline__ void multiply_tile_in_turns(Sums& sums, const OfTile& factors, uint32_t count,
                                                                  uint32_t base, uint32_t full, uint32_t empty,
                                                                  Position<C::STAGES>& at, uint32_t first_row,
                                                                  uint32_t thread, uint32_t rank) {
        // Parts are overwritten; zeros say that nothing of them lives from tile to tile, which would keep their registers.
        Part even, odd;
        clear(sums);
        clear(even);
        clear(odd);
        uint32_t before = 0;
        auto of_even = factors.at(0), of_odd = of_even;
        for (uint32_t i = 0; i < count; i += 2) {
            of_even = factors.at(i);
            ptx::barrier_wait(full + at.stage * 8, at.phase);
            start_part(even, unit_of(base, at.stage), first_row, 0);
            if (i > 0) {
                add_part<1>(sums, odd, of_odd);
                release(empty + before * 8, thread, rank);
            }
            before = at.stage;
            at.advance();
            if (i + 1 < count) {
                of_odd = factors.at(i + 1);
                ptx::barrier_wait(full + at.stage * 8, at.phase);
                start_part(odd, unit_of(base, at.stage), first_row, 0);
                add_part<1>(sums, even, of_even);
                release(empty + before * 8, thread, rank);
                before = at.stage;
                at.advance();
            }
        }
        if (count % 2 == 0) {
            add_part<0>(sums, odd, of_odd);
        } else {
            add_part<0>(sums, even, of_even);
        }
        if (count > 0) {
            release(empty + before * 8, thread, rank);
        }
    }

    // Starts the products of a stage that is there, for a part of its columns.
    __device__ static __forceinline__ void start_part(Part& part, uint32_t unit, uint32_t first_row, uint32_t column) {
        ptx::keep_in_place(part);
        ptx::wgmma_fence();
        multiply_stage(part, unit, first_row, column, true);
        ptx::wgmma_commit();
        ptx::keep_in_place(part);
    }

    // Adds up what was started before the last PENDING stages.
    template <int PENDING, typename OfStage>
    __device__ static __forceinline__ void add_part(Sums& sums, Part& part, const OfStage& factors) {
        ptx::wgmma_wait<PENDING>();
        ptx::keep_in_place(part);
        factors.add(sums, part, 0);
    }

    template <int HALF_N>
    __device__ static __forceinline__ void clear(Accumulator (&d)[SLABS][HALF_N]) {
#pragma unroll
        for (int i = 0; i < SLABS * HALF_N; ++i) {
            d[i / HALF_N][i % HALF_N] = 0;
        }
    }
};

}  // namespace polywarp::gemm_wgmma
