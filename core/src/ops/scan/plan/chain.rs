//! Sums and products of few long rows in one pass over memory (`wgsl/scan_chain.wgsl`): zeros for what workgroups publish, then one launch in
//! which each tile takes in what the tiles before it publish.
//!
//! Not here: what does not fit the two half words that travel with their status. 64-bit sums, extrema with positions and logarithms are
//! cut into slabs, as is everything where a driver ends loops before the longest of these could end.

use crate::ops::{Map, ScanFn};
use crate::plan::{Caps, KernelKey, Launch, Plan, Slot, looped};
use crate::{DType, Expr, Layout, Program, Result, Shape, TensorSpec};

use super::{Kernel, Step, Walk, Words};

/// Tiles that are combined apart: about the square root of those of a row of 2^23 elements, and as many as a subgroup mostly has threads.
pub(super) const BLOCK: u32 = 32;
/// How often a workgroup looks for a total before it computes it itself: by estimate a look takes an H100 half a microsecond, and a tile that
/// has started publishes its total within five.
pub(super) const SPINS: u32 = 128;
/// Vectors of a thread: as many as leave four workgroups a multiprocessor's registers, or one where tiles would be few.
const STRIPS: [u32; 2] = [8, 1];
/// Tiles that are enough: two for each of the 132 multiprocessors of an H100.
const ENOUGH_TILES: u64 = 264;
/// Words before the totals: the ticket, and one that keeps pairs even.
const FIRST_WORDS: u64 = 2;

/// How few long rows are cut into tiles.
pub(super) struct Chain {
    kernel: Kernel,
    rows: u64,
    tiles: u64,
    tile: u64,
}

impl Chain {
    /// `None` where rows are cut into slabs instead: see the module's head. `kernel` reads rows of `units` vectors.
    pub(super) fn new(kernel: &Kernel, rows: u64, units: u64, caps: &Caps) -> Option<Chain> {
        let is_word = matches!(kernel.function, ScanFn::Prod | ScanFn::Sum) && !kernel.is_wide();
        if !is_word || kernel.threads < BLOCK {
            return None;
        }
        let lanes = kernel.threads;
        let cut = |strips: u32| {
            let tile = u64::from(lanes) * u64::from(strips);
            let kernel = Kernel { walk: Walk::Rows { lanes, strips }, step: Step::Chained, ..kernel.clone() };
            Chain { kernel, rows, tiles: units.div_ceil(tile), tile }
        };
        let fits = |chain: &Chain| chain.workgroup_bytes() <= u64::from(caps.max_workgroup_bytes);
        let enough = |chain: &Chain| chain.rows * chain.tiles >= ENOUGH_TILES || chain.tile == u64::from(lanes);
        let chain = STRIPS.map(cut).into_iter().find(|chain| fits(chain) && enough(chain))?;
        (chain.kernel.chain_rounds(chain.tiles) <= caps.loop_limit()).then_some(chain)
    }

    /// Totals, ladder, window, sums and prefixes, and three words.
    fn workgroup_bytes(&self) -> u64 {
        let (threads, block) = (u64::from(self.kernel.threads), u64::from(BLOCK));
        4 * (self.tile + self.tile / 8 + 3 * threads + 2 * (threads / block) + block + 3)
    }

    /// The ticket, and two words for each total and for each prefix of a block.
    fn status_words(&self) -> u64 {
        let places = self.rows * (self.tiles + self.tiles.div_ceil(BLOCK.into()));
        (FIRST_WORDS + 2 * places).next_multiple_of(4)
    }

    /// `words` say where operands lie.
    pub(super) fn plan(self, words: Words, caps: &Caps) -> Result<Plan> {
        let zero = Program::compile(&Expr::constant(0).cast(DType::U32), &[])?;
        let status = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[self.status_words()])?));
        let mut plan = crate::ops::map::plan::plan(&Map::new("fill", zero, Vec::new(), status)?, caps)?;
        plan.launches.iter_mut().for_each(|launch| launch.bindings = vec![Slot::Scratch(0)]);
        plan.scratch_bytes = vec![4 * self.status_words()];
        let params = Words { slabs: self.tiles, slab: self.tile, ..words }.params();
        let bindings = vec![Slot::Input(0), Slot::Scratch(0), Slot::Output(0)];
        let grid = caps.fold_grid(self.rows * self.tiles)?;
        plan.launches.push(Launch { kernel: KernelKey::own(self.kernel), grid, bindings, params });
        Ok(plan)
    }
}

impl Kernel {
    /// The most rounds in a row of `tiles`, if every total but its own were missing.
    pub(super) fn chain_rounds(&self, tiles: u64) -> u64 {
        let Walk::Rows { strips, .. } = self.walk else { return u64::MAX };
        let (threads, block, strips) = (u64::from(self.threads), u64::from(BLOCK), u64::from(strips));
        let width = looped(self.width(), 0);
        let scan = 2 * looped(strips, 0) + looped(threads.ilog2().into(), 0);
        let own = looped(strips, 0) + 3 * looped(strips, width) + width + scan;
        let again = looped(strips, width) + scan;
        let window = looped(SPINS.into(), 0) + looped(block, 0) + looped(threads / block, 0) + 1;
        let looks = looped(tiles.div_ceil(block * block), 0);
        let filled = tiles.saturating_mul(again + 1);
        own.saturating_add(looks).saturating_add(looped(tiles.div_ceil(threads), window)).saturating_add(filled)
    }
}
