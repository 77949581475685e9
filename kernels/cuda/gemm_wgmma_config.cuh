// One instance of gemm_wgmma.cuh: its constants, what it keeps where in shared memory, and which block does which tile.
#pragma once
#include "epilogue.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cluster_load.cuh"
#include "ptx/launch.cuh"
#include "ptx/store_shared.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_sparse.cuh"

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

// Who multiplies what.
enum class Schedule {
    // Every tile is shared by all consumers, one below the other.
    COOPERATIVE,
    // Consumers take turns: while one stores its tile, the other multiplies the next.
    PING_PONG,
};

// What a kernel multiplies.
enum class Kind {
    MATRICES,
    // Groups of A's rows, each with a matrix of B (gemm_wgmma_tiles.cuh).
    GROUPS,
    // 8-bit floats with scales that change along K (gemm_wgmma_blocks.cuh).
    SCALED_BLOCKS,
    // B^T and A^T, into D^T (gemm_wgmma_transposed.cuh).
    TRANSPOSED,
    // f32 as high and low parts of f16 (split_f16.cu).
    SPLIT,
    // One number for each row of D, which is not kept (gemm_wgmma_reduced.cuh).
    REDUCED,
};

// x / divisor, for x below 2^31: by its inverse, 2^32 / divisor rounded down (2^32 - 1 for 1), a quotient is at most one too small.
// The hardware's way takes some 150 clocks, and each thread that finds tiles waits for each of them.
__device__ __forceinline__ uint32_t divided(uint32_t x, uint32_t divisor, uint32_t inverse) {
    const uint32_t quotient = __umulhi(x, inverse);
    return quotient + (x - quotient * divisor >= divisor);
}

// What the planner hands over besides tensor maps and the epilogue's operands.
struct Problem {
    uint32_t m, n, k;
    // Tiles of D; of groups, whose tiles are known on the device, `tiles_m` says nothing, and `batches` is their number.
    uint32_t tiles_m, tiles_n, batches;
    // Slabs of k, and tiles of k in each but the last.
    uint32_t slabs, slab_tiles;
    // Tile rows that are walked together before moving along n, so that A and B are found in L2: a band.
    uint32_t raster;
    // Inverses (`divided`) of the clusters in a layer and in a band, of a band's rows, and of those of the last one. Of groups,
    // the first and the last say nothing.
    uint32_t layer_inverse, band_inverse, raster_inverse, last_inverse;
    // 1 when the operand differs from batch to batch, 0 when one serves all.
    uint32_t batched_a, batched_b;
    // D by TMA, or by stores of four results; else one by one.
    uint32_t store_by_tma;
    // A and B stay in the second-level cache while D passes through it.
    uint32_t keeps_operands;
    // Elements from row to row, column to column and batch to batch of D; slabs lie `batches` apart.
    int64_t row_stride, column_stride, batch_stride;
};

// Scales of the rows of A and of the columns of B, each with what leads from one to the next and from batch to batch; null
// stands for 1.
struct Scales {
    const float* m;
    int64_t stride_m, batch_stride_m;
    const float* n;
    int64_t stride_n, batch_stride_n;

    __device__ __forceinline__ float of_row(uint32_t batch, uint32_t row) const {
        return m != nullptr ? m[batch * batch_stride_m + row * stride_m] : 1.0f;
    }
    __device__ __forceinline__ float of_column(uint32_t batch, uint32_t column) const {
        return n != nullptr ? n[batch * batch_stride_n + column * stride_n] : 1.0f;
    }
};

// Scales of blocks of `m` rows of A, of `n` columns of B, and of `stages` of K, each with what leads from block to block along its
// own dimension and along K, and from batch to batch.
struct BlockScales {
    const float* a;
    int64_t a_row, a_k, a_batch;
    const float* b;
    int64_t b_column, b_k, b_batch;
    uint32_t m, n, stages;
};

// Where the runs of A's rows end that the matrices of B belong to (`batches` of them): 32-bit integers, signed or not, and what
// leads from one to the next, and from the bias of one to that of the next.
struct Groups {
    const uint32_t* ends;
    int64_t stride;
    uint32_t are_signed;
    int64_t bias_stride;

    // The row after the last of `group`, whatever is before it: a number of rows, up to `rows`.
    __device__ __forceinline__ uint32_t end(uint32_t group, uint32_t rows) const {
        const uint32_t end = ends[group * stride];
        return are_signed && static_cast<int32_t>(end) < 0 ? 0 : min(end, rows);
    }
};

// Words that a compressed A's units of 64 of K take, as sparse24_metadata.cu arranges them, and slabs of 64 rows of each unit; what
// hangs over A's ends is there too.
struct Metadata {
    const uint32_t* words;
    uint32_t slabs;
};

// What the products of operands that were split in f16 parts are to be multiplied with, one factor after the other, two for each
// batch: the operands were scaled into f16's range.
struct Parts {
    const float* factors;
};

// How elements of a row become a number (Function in reduction.cuh), which is divided at the end. D may be a transposed one: what
// leads from column to column of C, and from row to row and column to column of the bias.
struct Reduction {
    int64_t c_column, bias_row, bias_column;
    uint32_t function;
    float divisor;
};

// What some kinds of kernels are given besides.
struct Extras {
    Scales scales;
    BlockScales block_scales;
    Groups groups;
    Metadata metadata;
    Parts parts;
    Reduction reduction;

    __device__ __forceinline__ Extras() : scales{}, block_scales{}, groups{}, metadata{}, parts{}, reduction{} {}
    __device__ __forceinline__ Extras(const Scales& given) : Extras() { scales = given; }
    __device__ __forceinline__ Extras(const BlockScales& given) : Extras() { block_scales = given; }
    __device__ __forceinline__ Extras(const Groups& given) : Extras() { groups = given; }
    __device__ __forceinline__ Extras(const Metadata& given) : Extras() { metadata = given; }
    __device__ __forceinline__ Extras(const Parts& given) : Extras() { parts = given; }
    __device__ __forceinline__ Extras(const Reduction& given) : Extras() { reduction = given; }
    __device__ __forceinline__ Extras(const Scales& given, const Reduction& also) : Extras(given) { reduction = also; }
};

// One tile of D: where it starts, which slab of k, and of which batch, or group.
struct Tile {
    uint32_t m, n, batch, slab;
    // Which matrix of D, counting those of every slab.
    uint32_t layer;
    // The row after the last that may be written.
    uint32_t end;
};

// Tiles of k that one block adds up for a tile of D, counting those of all terms and slabs.
struct Range {
    uint32_t first, count;
};

template <typename A_, typename B_, typename Out_, int BLOCK_M_, int BLOCK_N_, int STAGES_, Schedule SCHEDULE_, int CONSUMERS_,
          int CLUSTER_M_, int CLUSTER_N_, int CLUSTER_K_, Major MAJOR_A_, Major MAJOR_B_,
          Kind KIND_>
struct Config {
    using A = A_;
    using B = B_;
    using Out = Out_;
    using Instruction = ptx::Wgmma<A, B>;
    using Accumulator = typename Instruction::Accumulator;
    using Compute = polywarp::Compute<Out>;
    using Epilogue = polywarp::Epilogue<Out>;

    static constexpr int BLOCK_M = BLOCK_M_, BLOCK_N = BLOCK_N_, STAGES = STAGES_, CONSUMERS = CONSUMERS_;
    static constexpr int CLUSTER_M = CLUSTER_M_, CLUSTER_N = CLUSTER_N_, CLUSTER_K = CLUSTER_K_;
    static constexpr Major MAJOR_A = MAJOR_A_, MAJOR_B = MAJOR_B_;
    static constexpr bool PING_PONG = SCHEDULE_ == Schedule::PING_PONG;
    static constexpr bool GROUPED = KIND_ == Kind::GROUPS, BLOCK_SCALED = KIND_ == Kind::SCALED_BLOCKS;
    static constexpr bool TRANSPOSED = KIND_ == Kind::TRANSPOSED, SPLIT = KIND_ == Kind::SPLIT;
    static constexpr bool REDUCED = KIND_ == Kind::REDUCED;
    // Products of planes that are added up: 1, or 3 for operands split into a high and a low plane, smallest first: low x high,
    // high x low, high x high. In the third dimension of its tensor map an operand has all its high planes, then all its low
    // ones. Terms that have a low part, which is kept so many times as large.
    static constexpr uint32_t TERMS = SPLIT ? 3 : 1, LOW_TERMS = 2;
    static constexpr float LOW_SCALE = 2048.0f;
    // 32-bit operands, which wgmma takes from shared memory along K alone.
    static constexpr bool A_IN_REGISTERS = TRANSPOSED && sizeof(A) == 4;

    static constexpr int THREADS = WARPGROUP * (CONSUMERS + 1);
    static constexpr int CLUSTER = CLUSTER_M * CLUSTER_N * CLUSTER_K;
    // Blocks that stages are shared with.
    static constexpr bool MULTICAST = CLUSTER_M * CLUSTER_N > 1;
    // Warpgroups that read each stage.
    static constexpr int READERS = PING_PONG ? 1 : CONSUMERS;
    static constexpr int WARPGROUP_M = BLOCK_M / READERS;
    static constexpr int SLABS = WARPGROUP_M / SLAB_M;
    static constexpr int BLOCK_K = ptx::SWIZZLE_ROW_BYTES / sizeof(B);
    // Of a compressed A a stage has rows of half the bytes, and for each 64 of K a word of metadata for each thread and slab.
    static constexpr bool SPARSE = std::is_same_v<A, ptx::Sparse24<B>>;
    static constexpr uint32_t ROW_BYTES_A = SPARSE ? ptx::SPARSE_ROW_BYTES : ptx::SWIZZLE_ROW_BYTES;
    static constexpr int METADATA_K = 64, UNITS = SPARSE ? BLOCK_K / METADATA_K : 0;
    static constexpr uint32_t SLAB_METADATA_BYTES = WARPGROUP * sizeof(uint32_t);
    static constexpr uint32_t UNIT_METADATA_BYTES = BLOCK_M / SLAB_M * SLAB_METADATA_BYTES;
    static constexpr uint32_t METADATA_BYTES = UNITS * UNIT_METADATA_BYTES;
    static constexpr int K_STEPS = BLOCK_K / Instruction::K;
    // Columns that wgmma takes at most, and, of wider tiles, the first of two. Those are whole atoms of an operand of either
    // major: as many bytes of shared memory.
    static constexpr int MOST_WGMMA_N = 256, FIRST_WGMMA_N = 128;
    // 8-bit floats are added up by wgmma with some 14 bits: its sums of a stage are added to others in f32.
    static constexpr bool PROMOTED = sizeof(A) == 1 && std::is_same_v<Accumulator, float>;
    // Registers of a thread for sums; finding groups takes some. Where they hold three sets, stages leave in turns into two of them;
    // else all but a set of sums serves a part of the columns.
    static constexpr int SUM_REGISTERS = GROUPED && PROMOTED && CONSUMERS > 1 ? 160 : 192;
    static constexpr bool TWO_PARTS = PROMOTED && 3 * SLABS * BLOCK_N / 2 <= SUM_REGISTERS;
    static constexpr int MOST_PART_N = 2 * SUM_REGISTERS / SLABS - BLOCK_N;
    static constexpr int PART_N = !PROMOTED || MOST_PART_N > BLOCK_N ? BLOCK_N : MOST_PART_N;
    static constexpr int PARTS = BLOCK_N / PART_N;
    // 8-bit operands whose products leave as floats have scales, but for those of groups.
    static constexpr bool SCALED = sizeof(A) == 1 && !std::is_same_v<Out, int32_t> && !BLOCK_SCALED && !GROUPED;

    // Registers a thread: the file's 65,536 over three warpgroups (four: three consumers), taken from the producer for the
    // consumers. Loads of MN-major operands and of metadata take more, and so does finding groups.
    static constexpr bool MN_MAJOR = MAJOR_A == Major::MN || MAJOR_B == Major::MN;
    static constexpr bool LONG_PRODUCER = MN_MAJOR || SPARSE || GROUPED;
    static constexpr uint32_t PRODUCER_REGISTERS = LONG_PRODUCER || CONSUMERS == 3 ? 56 : 40;
    static constexpr uint32_t CONSUMER_REGISTERS = CONSUMERS == 3 ? 152 : LONG_PRODUCER ? 224 : 232;

    // An MN-major tile is made of columns of 128 bytes that are BLOCK_K deep.
    static constexpr int COLUMN = ptx::SWIZZLE_ROW_BYTES / sizeof(B);
    static constexpr int COLUMNS_A = (BLOCK_M + COLUMN - 1) / COLUMN;
    static constexpr int COLUMNS_B = (BLOCK_N + COLUMN - 1) / COLUMN;
    static constexpr uint32_t COLUMN_BYTES = BLOCK_K * ptx::SWIZZLE_ROW_BYTES;
    static constexpr uint32_t A_BYTES =
        MAJOR_A == Major::K ? BLOCK_M * ROW_BYTES_A : COLUMNS_A * COLUMN_BYTES;
    static constexpr uint32_t B_BYTES =
        MAJOR_B == Major::K ? (BLOCK_N * ptx::SWIZZLE_ROW_BYTES + 1023) / 1024 * 1024 : COLUMNS_B * COLUMN_BYTES;
    // What arrives of B: a K-major tile of an odd number of atoms leaves a gap.
    static constexpr uint32_t B_LOADED_BYTES =
        MAJOR_B == Major::K ? BLOCK_N * ptx::SWIZZLE_ROW_BYTES : COLUMNS_B * COLUMN_BYTES;
    static constexpr uint32_t METADATA_AT = A_BYTES + B_BYTES;
    static constexpr uint32_t STAGE_BYTES = (METADATA_AT + METADATA_BYTES + 1023) / 1024 * 1024;

    // Columns of D that one TMA store takes: 128 bytes.
    static constexpr int CHUNK_N = ptx::SWIZZLE_ROW_BYTES / sizeof(Out);
    static constexpr int CHUNKS = BLOCK_N / CHUNK_N;
    // Besides stages: two barriers each, and room to align the whole to the swizzle's atoms by hand.
    static constexpr uint32_t PIPELINE_BYTES = STAGES * (STAGE_BYTES + 2 * 8) + ptx::SWIZZLE_ATOM_BYTES;
    // Chunks of results under way, a warp: as many as there are, or as there is room for.
    static constexpr int ROOM = (MOST_SHARED_BYTES - PIPELINE_BYTES) / (CONSUMERS * 4 * CHUNK_BYTES);
    static constexpr int WARP_CHUNKS = SLABS * CHUNKS;
    static constexpr int CHUNKS_A_WARP =
        ROOM >= 8 && WARP_CHUNKS >= 8 ? 8 : ROOM >= 4 && WARP_CHUNKS >= 4 ? 4 : 2;
    // Sums that are results, of small tiles, leave from registers; of groups, whose tiles are cut, they do not.
    static constexpr bool STORES_PAIRS = sizeof(Out) == 4 && WARP_CHUNKS <= 2 && !GROUPED;
    // Transposed 16-bit results leave as whole tiles.
    static constexpr bool STAGES_TILES = TRANSPOSED && !A_IN_REGISTERS;
    // Of each consumer, or of each of its warps.
    static constexpr uint32_t STAGING_BYTES_EACH =
        STAGES_TILES ? SLABS * BLOCK_N * ptx::SWIZZLE_ROW_BYTES : CHUNKS_A_WARP * CHUNK_BYTES;
    static constexpr uint32_t STAGING_BYTES = CONSUMERS * (STAGES_TILES ? 1 : 4) * STAGING_BYTES_EACH;
    static constexpr uint32_t BARRIERS_AT = STAGES * STAGE_BYTES + STAGING_BYTES;
    static constexpr uint32_t SHARED_BYTES = PIPELINE_BYTES + STAGING_BYTES;
    // Sums that a cluster adds up, rows and columns as D has them, and elements from row to row: as for STAGED_PITCH. They take
    // the place of the stages.
    static constexpr int SHARED_M = TRANSPOSED ? BLOCK_N : BLOCK_M, SHARED_N = TRANSPOSED ? BLOCK_M : BLOCK_N;
    static constexpr int SHARED_PITCH = SHARED_N + (TRANSPOSED ? 4 : 8);

    static_assert(sizeof(A) == sizeof(B));
    static_assert(BLOCK_M % (READERS * SLAB_M) == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= MOST_WGMMA_N + FIRST_WGMMA_N);
    static_assert(!PING_PONG || CONSUMERS == 2);
    static_assert(BLOCK_N % CHUNK_N == 0 || STAGES_TILES, "tiles are stored in whole chunks");
    static_assert(sizeof(A) == 2 || !MN_MAJOR || TRANSPOSED, "only 16-bit operands may be MN-major");
    static_assert(!TRANSPOSED || (sizeof(A) > 1 && MAJOR_A == Major::MN && MAJOR_B == Major::K));
    static_assert(!STAGES_TILES || (sizeof(Out) == 2 && CLUSTER_K == 1));
    static_assert(!SPARSE || (MAJOR_A == Major::K && K_STEPS == 2));
    static_assert(!SPLIT || (std::is_same_v<A, __half> && std::is_same_v<Out, float>));
    static_assert(!REDUCED || CLUSTER_K == 1);
    static_assert(SHARED_BYTES <= MOST_SHARED_BYTES);
    // Parts that the blocks of a cluster load for each other: rows of K-major tiles, which the swizzle finds by their address, else
    // of k.
    static_assert(MAJOR_A == Major::K ? BLOCK_M % CLUSTER_N == 0 : BLOCK_K % (8 * CLUSTER_N) == 0);
    static_assert(MAJOR_B == Major::K ? BLOCK_N % CLUSTER_M == 0 : BLOCK_K % (8 * CLUSTER_M) == 0);
    static_assert(SLABS * BLOCK_N / 2 <= SUM_REGISTERS, "accumulators must leave registers for the rest");
    static_assert((PART_N == BLOCK_N || PART_N >= 64) && PART_N % 16 == 0 && BLOCK_N % PART_N == 0);
    static_assert(CLUSTER_K == 1 || (!MULTICAST && !PING_PONG && BLOCK_N % 32 == 0));
    static_assert(CLUSTER_K == 1 || SHARED_M * SHARED_PITCH * 4 <= STAGES * STAGE_BYTES);
    static_assert(!GROUPED || (CLUSTER == 1 && MAJOR_A == Major::K), "groups begin at any row of A");
    // Scales of B's columns are those of 128 or more.
    static_assert(!BLOCK_SCALED || (PROMOTED && CLUSTER_K == 1 && (PARTS == 1 ? BLOCK_N <= 128 : PART_N == 128)));

    __device__ static __forceinline__ uint32_t cluster_rows(const Problem& problem) {
        return (problem.tiles_m + CLUSTER_M - 1) / CLUSTER_M;
    }
    __device__ static __forceinline__ uint32_t cluster_columns(const Problem& problem) {
        return (problem.tiles_n + CLUSTER_N - 1) / CLUSTER_N;
    }
    __device__ static __forceinline__ uint32_t tile_count(const Problem& problem) {
        return cluster_rows(problem) * cluster_columns(problem) * problem.batches * problem.slabs;
    }

    // Cell `index` of a table: bands of `raster` rows, within a band row by row in each column.
    struct Cell {
        uint32_t row, column;
    };
    __device__ static __forceinline__ Cell cell_at(const Problem& problem, uint32_t rows, uint32_t columns, uint32_t index) {
        const uint32_t band_tiles = problem.raster * columns;
        const uint32_t band = divided(index, band_tiles, problem.band_inverse);
        const uint32_t first = band * problem.raster, height = min(problem.raster, rows - first);
        const uint32_t rest = index - band * band_tiles;
        uint32_t column;
        if (GROUPED && height < problem.raster) {
            column = rest / height;
        } else {
            column = divided(rest, height, height < problem.raster ? problem.last_inverse : problem.raster_inverse);
        }
        return {first + rest - column * height, column};
    }

    // Tile `index` of the cluster.
    __device__ static __forceinline__ Tile tile_at(const Problem& problem, uint32_t index, uint32_t rank) {
        const uint32_t rows = cluster_rows(problem), columns = cluster_columns(problem);
        const uint32_t plane = rows * columns;
        const uint32_t layer = divided(index, plane, problem.layer_inverse);
        const Cell cell = cell_at(problem, rows, columns, index - layer * plane);
        Tile tile;
        tile.m = (cell.row * CLUSTER_M + (MULTICAST ? rank / CLUSTER_N : 0)) * BLOCK_M;
        tile.n = (cell.column * CLUSTER_N + (MULTICAST ? rank % CLUSTER_N : 0)) * BLOCK_N;
        tile.layer = layer;
        tile.slab = problem.slabs == 1 ? 0 : layer / problem.batches;
        tile.batch = layer - tile.slab * problem.batches;
        tile.end = problem.m;
        return tile;
    }

    // Whether a tile's rows belong to no group.
    __device__ static __forceinline__ bool is_unowned(const Problem& problem, const Tile& tile) {
        return GROUPED && tile.batch == problem.batches;
    }

    // Tiles of k in one term.
    __device__ static __forceinline__ uint32_t term_tiles(const Problem& problem) {
        return (problem.k + BLOCK_K - 1) / BLOCK_K;
    }

    // A slab's tiles of k, or this block's part of them where the cluster shares them.
    __device__ static __forceinline__ Range k_tiles(const Problem& problem, const Tile& tile, uint32_t rank) {
        if (is_unowned(problem, tile)) {
            return {0, 0};
        }
        const uint32_t first = tile.slab * problem.slab_tiles;
        const uint32_t count = min(problem.slab_tiles, term_tiles(problem) * TERMS - first);
        if constexpr (CLUSTER_K == 1) {
            return {first, count};
        } else {
            const uint32_t begin = count * rank / CLUSTER_K;
            return {first + begin, count * (rank + 1) / CLUSTER_K - begin};
        }
    }

    // The plane of A and of B that a term multiplies.
    __device__ static __forceinline__ int plane_a(const Problem& problem, const Tile& tile, uint32_t term) {
        const bool low = TERMS > 1 && term == 0;
        return problem.batched_a ? tile.batch + (low ? problem.batches : 0) : low;
    }
    __device__ static __forceinline__ int plane_b(const Problem& problem, const Tile& tile, uint32_t term) {
        const bool low = TERMS > 1 && term == 1;
        return problem.batched_b ? tile.batch + (low ? problem.batches : 0) : low;
    }
};

// Where in the ring of stages a warpgroup stands, and the parity of that round.
template <int STAGES>
struct Position {
    uint32_t stage = 0, phase = 0;

    __device__ __forceinline__ void advance() {
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        phase ^= stage == 0;
    }
    // Past `count` stages that another warpgroup reads.
    __device__ __forceinline__ void skip(uint32_t count) {
        stage += count;
        phase ^= stage / STAGES & 1;
        stage %= STAGES;
    }
};

}  // namespace polywarp::gemm_wgmma
