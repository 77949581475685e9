//! Lists the tiles with their rates on one card, and orders them for a product.
//!
//! A candidate is refused, with a reason, where the device cannot run it. A candidate that could run but is not worth
//! compiling for a product of that size is ranked last, so that tests meet every kernel at every size. Pure functions:
//! no GPU needed. Kernels on cooperative matrices stand in the same list (`coop/rank.rs`).

use std::ops::RangeInclusive;

use crate::DType;
use crate::ops::MatmulDims;

use super::tiled::Tile;
use crate::plan::Caps;

/// A tile with its rates on one card, close to a fit to the times of 140 products on an H100 through Vulkan (f32 and
/// bf16, benches/results/h100-2026-11-28b/candidates.txt). Two rates differ from the fit by 2 TFLOP/s, so that products
/// of 48 rows take the faster tile; the largest tile's full rate is an H200's (2026-11-21). Other cards differ in scale
/// more than in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rated {
    pub tile: Tile,
    /// Workgroups that one processor works on at once.
    pub resident: u32,
    /// TFLOP/s of the card with one workgroup on every processor, and with `resident` of them.
    pub alone: f64,
    pub full: f64,
}

const fn tile(block_m: u32, block_n: u32, warps_m: u32, warps_n: u32) -> Tile {
    Tile { block_m, block_n, block_k: 16, warps_m, warps_n }
}

const TILES: [Rated; 5] = [
    Rated { tile: tile(128, 128, 2, 2), resident: 2, alone: 30.0, full: 45.0 },
    Rated { tile: tile(64, 128, 2, 2), resident: 3, alone: 27.0, full: 43.0 },
    Rated { tile: tile(64, 64, 2, 1), resident: 4, alone: 34.0, full: 34.0 },
    Rated { tile: tile(32, 64, 1, 2), resident: 4, alone: 14.5, full: 29.0 },
    Rated { tile: tile(32, 32, 2, 1), resident: 6, alone: 19.0, full: 21.5 },
];

/// Multiprocessors of that card. Shader APIs do not say how many a device has.
const PROCESSORS: u64 = 132;
/// Time of starting and ending a tile, as elements of K.
const TILE_OVERHEAD_K: f64 = 48.0;
/// Below this many multiplications (256^3) the launch takes longer than the product, whatever the tile.
const WORTH_A_LARGE_TILE: u64 = 1 << 24;
/// The most words of sums and of fetched operands that leave a thread enough registers for the multiplication of i64, on
/// CUDA: with 112 the assembler spills a word or two, with 176 up to 384 bytes, with 192 up to 644 (sm_75 to sm_120).
const MOST_I64_WORDS: u32 = 112;
/// Time of compiling a kernel with a large tile, spread over the calls of a small product.
const COMPILE_NS: f64 = 1e5;
/// Numbers of slabs of K to try, and the fewest elements of K that are worth a slab.
const SPLITS: [u64; 6] = [1, 2, 4, 8, 16, 32];
const LEAST_SLAB: u64 = 256;
/// Time of a second launch, and of a byte of partial sums.
const COMBINE_NS: f64 = 2100.0;
const PARTIAL_NS_PER_BYTE: f64 = 1.0 / 665.0;

impl Rated {
    /// TFLOP/s that `groups` workgroups reach together: the processor with the most of them ends last.
    fn rate(&self, groups: u64) -> f64 {
        let most = groups.div_ceil(PROCESSORS);
        let rest = most % u64::from(self.resident);
        let spread = f64::from(self.resident) - 1.0;
        let rest_rate = self.alone + (self.full - self.alone) * (rest as f64 - 1.0).max(0.0) / spread.max(1.0);
        let time = (most - rest) as f64 / self.full + rest as f64 / rest_rate;
        groups as f64 / PROCESSORS as f64 / time
    }
}

/// A way to cut a product into tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cut {
    pub tile: Tile,
    /// Slabs of K.
    pub splits: u64,
    /// Estimated time.
    pub ns: f64,
    /// The reason why the device cannot run it.
    pub refused: Option<&'static str>,
}

/// The cuts of a product into plain tiles, each with its best number of slabs, in order of preference.
pub(super) fn plain(dims: MatmulDims, sum: DType, caps: &Caps) -> Vec<Cut> {
    plain_in(dims, u64::MAX, sum, caps, u64::MAX)
}

/// `block`: elements of K that share scales. At most `most_slabs`, or more where drivers limit loops and K needs more slabs.
fn plain_in(dims: MatmulDims, block: u64, sum: DType, caps: &Caps, most_slabs: u64) -> Vec<Cut> {
    let element_bytes = sum.size_bytes() as u32;
    let mut list: Vec<Cut> = TILES
        .iter()
        .map(|rated| {
            let tile = rated.tile;
            let refused = if tile.threads() > caps.max_invocations {
                Some("more invocations than a workgroup may have")
            } else if tile.workgroup_bytes(element_bytes) > caps.max_workgroup_bytes {
                Some("more workgroup memory than a workgroup may have")
            } else if element_bytes == 8 && tile.thread_m() * tile.thread_n() > 64 {
                Some("too many registers for 64-bit sums")
            } else if sum == DType::I64 && 2 * (tile.thread_m() * tile.thread_n() + tile.fetched()) > MOST_I64_WORDS {
                Some("too many registers for sums of i64, whose products take some of their own")
            } else {
                None
            };
            let least = dims.k.div_ceil(tile.longest_slab(block, true, caps.loop_limit())).max(1);
            Cut { refused, ..rated.cut(dims, element_bytes, tile.block_n > 32, least..=most_slabs.max(least)) }
        })
        .collect();
    order(&mut list);
    list
}

/// The cuts of a product into plain tiles with one slab of K, or the fewest slabs where drivers limit loops, in order
/// of preference. `block`: elements of K that share scales.
pub(crate) fn whole(dims: MatmulDims, block: u64, sum: DType, caps: &Caps) -> Vec<Cut> {
    plain_in(dims, block, sum, caps, 1)
}

/// Sorts usable cuts before refused ones, then by estimated time.
pub(super) fn order(list: &mut [Cut]) {
    list.sort_by(|x, y| x.refused.is_some().cmp(&y.refused.is_some()).then(x.ns.total_cmp(&y.ns)));
}

impl Rated {
    /// The best number of slabs of K for this tile within `range`. `large`: the kernel takes long to compile.
    pub fn cut(&self, dims: MatmulDims, sum_bytes: u32, large: bool, range: RangeInclusive<u64>) -> Cut {
        let Tile { block_m, block_n, block_k, .. } = self.tile;
        let tiles = dims.m.div_ceil(block_m.into()) * dims.n.div_ceil(block_n.into()) * dims.batch;
        let cut = |splits: u64| {
            let slab = dims.k.div_ceil(splits).next_multiple_of(block_k.into());
            if splits > *range.start() && slab < LEAST_SLAB {
                return None;
            }
            let groups = tiles * splits;
            // Work in a partial tile costs as much as in a whole one.
            let flops = 2.0 * groups as f64 * f64::from(block_m * block_n) * (slab as f64 + TILE_OVERHEAD_K);
            let mut ns = flops / self.rate(groups) / 1e3;
            if splits > 1 {
                let partial_bytes = (dims.m * dims.n * dims.batch * splits) as f64 * f64::from(sum_bytes);
                ns += COMBINE_NS + partial_bytes * PARTIAL_NS_PER_BYTE;
            }
            if large && dims.m * dims.n * dims.k * dims.batch < WORTH_A_LARGE_TILE {
                ns += COMPILE_NS;
            }
            Some(Cut { tile: self.tile, splits, ns, refused: None })
        };
        let least = *range.start();
        let whole = Cut { tile: self.tile, splits: least, ns: f64::INFINITY, refused: None };
        let tried = SPLITS.into_iter().filter(|splits| range.contains(splits) && *splits != least);
        std::iter::once(least)
            .chain(tried)
            .filter_map(cut)
            .fold(whole, |best, next| if next.ns < best.ns { next } else { best })
    }
}
