// Which tiles of D a block ends, one after the other: `for (Tiles<C> tiles(...); tiles.any(); tiles.next())`.
//
// Where A's rows are grouped, how many tiles there are is known on the device alone. Every block counts them by the same list:
// the groups in their order, each with tiles that begin at its first row, and behind them the rows that none owns, as a group of
// the number `batches`. A block's tiles ascend, so it reads each end once: a warp looks at 32 groups at a time, one a lane.
#pragma once
#include "gemm_wgmma_config.cuh"

namespace polywarp::gemm_wgmma {

// Every `step`th tile from `index` on, of a number that is known.
template <typename C>
struct AllTiles {
    const Problem& problem;
    uint32_t index, step, rank, count;

    __device__ __forceinline__ AllTiles(const Problem& problem, const Groups&, uint32_t first, uint32_t step, uint32_t rank,
                                        uint32_t count)
        : problem(problem), index(first), step(step), rank(rank), count(count) {}

    __device__ __forceinline__ bool any() const { return index < count; }
    __device__ __forceinline__ Tile at() const { return C::tile_at(problem, index, rank); }
    // Whether there is one after this; call it after `at`.
    __device__ __forceinline__ bool any_next() const { return index + step < count; }
    __device__ __forceinline__ void next() { index += step; }
};

// The same of groups. All lanes of a warp have one, and call each function together.
template <typename C>
struct GroupedTiles {
    static constexpr uint32_t LANES = 32, ALL = ~0u;

    const Problem& problem;
    const Groups& groups;
    uint32_t index, step, lane;
    // What is looked at: groups from `window` on, behind `ahead` tiles, with `tiles` of their own.
    uint32_t window = 0, ahead = 0, tiles;
    // Of this lane's group: its first row, the row after its last, and the window's tiles up to its last.
    uint32_t row, end, tiles_to_end;

    __device__ __forceinline__ GroupedTiles(const Problem& problem, const Groups& groups, uint32_t first, uint32_t step, uint32_t,
                                            uint32_t)
        : problem(problem), groups(groups), index(first), step(step), lane(threadIdx.x % LANES) {
        look(0);
    }

    __device__ __forceinline__ bool any() { return reach(index); }
    __device__ __forceinline__ bool any_next() { return reach(index + step); }
    __device__ __forceinline__ void next() { index += step; }

    __device__ __forceinline__ Tile at() const {
        const uint32_t within = index - ahead;
        const uint32_t owner = __ffs(__ballot_sync(ALL, within < tiles_to_end)) - 1;
        const uint32_t first = __shfl_sync(ALL, row, owner), last = __shfl_sync(ALL, end, owner);
        const uint32_t rows = tile_rows(first, last);
        const uint32_t before = __shfl_sync(ALL, tiles_to_end, owner) - rows * problem.tiles_n;
        const auto cell = C::cell_at(problem, rows, problem.tiles_n, within - before);
        Tile tile;
        tile.m = first + cell.row * C::BLOCK_M;
        tile.n = cell.column * C::BLOCK_N;
        tile.batch = window + owner;
        tile.slab = tile.layer = 0;
        tile.end = last;
        return tile;
    }

  private:
    __device__ static __forceinline__ uint32_t tile_rows(uint32_t first, uint32_t last) {
        return (last - first + C::BLOCK_M - 1) / C::BLOCK_M;
    }

    // Looks on until tile `wanted` is among those of the window; false when there is none. It is never before them.
    __device__ __forceinline__ bool reach(uint32_t wanted) {
        while (wanted - ahead >= tiles) {
            if (problem.batches - window < LANES) {
                return false;
            }
            window += LANES;
            ahead += tiles;
            look(__shfl_sync(ALL, end, LANES - 1));
        }
        return true;
    }

    // Finds the rows and tiles of the window's groups, behind rows that belong to earlier ones.
    __device__ __forceinline__ void look(uint32_t rows_ahead) {
        const uint32_t group = window + lane;
        end = max(rows_ahead, group < problem.batches ? groups.end(group, problem.m) : problem.m);
        // A group whose end is not above those before it owns nothing.
#pragma unroll
        for (uint32_t distance = 1; distance < LANES; distance *= 2) {
            end = max(end, __shfl_up_sync(ALL, end, distance));
        }
        const uint32_t before = __shfl_up_sync(ALL, end, 1);
        row = lane == 0 ? rows_ahead : before;
        tiles_to_end = tile_rows(row, end) * problem.tiles_n;
#pragma unroll
        for (uint32_t distance = 1; distance < LANES; distance *= 2) {
            const uint32_t below = __shfl_up_sync(ALL, tiles_to_end, distance);
            tiles_to_end += lane < distance ? 0 : below;
        }
        tiles = __shfl_sync(ALL, tiles_to_end, LANES - 1);
    }
};

template <typename C>
using Tiles = std::conditional_t<C::GROUPED, GroupedTiles<C>, AllTiles<C>>;

}  // namespace polywarp::gemm_wgmma
