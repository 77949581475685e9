//! Grouped products: the tiles of `matmul.rs`, each workgroup of which finds its group from the ends on the device.
//!
//! How many tiles a group needs is not known here, so the grid has as many as there can be: every row is in one tile, and
//! a group leaves at most one partial tile; what is too many ends at once. To the kernel a group is a matrix of a batch
//! that has a run of A's rows instead of rows of its own. The sum is never cut into slabs. Next: `wgsl/grouped_matmul.wgsl`
//! finds the group, `matmul/tiled.rs` multiplies.

use crate::ops::{GroupedMatmul, GroupedMatmulDims, Map, Matmul, MatmulDims};
use crate::{Error, Expr, Operation, Program, Result, Scalar, TensorSpec};

use crate::ops::matmul::plan::epilogue::Places;
use crate::ops::matmul::plan::rank::{self, Cut};
use crate::ops::matmul::plan::tiled::{Gate, Load, Tiled};
use crate::ops::matmul::plan::{TileGrid, combine, index, operand};
use crate::plan::{Candidate, Caps, Plan, Slot};
use crate::wgsl::index::check_index;

/// Groups that every tile goes through by itself; of more a table is made first, which takes a launch.
const MOST_LISTED: u64 = 256;

pub(crate) fn plan(op: &GroupedMatmul, caps: &Caps) -> Result<Plan> {
    if let Some(plan) = empty(op, caps)? {
        return Ok(plan);
    }
    let grouped = Grouped::of(op, caps)?;
    let cut = grouped.cuts(caps).next().ok_or_else(|| no_tile(caps))?;
    grouped.plan(cut, caps)
}

pub(crate) fn candidates(op: &GroupedMatmul, caps: &Caps) -> Result<Vec<Candidate>> {
    if let Some(plan) = empty(op, caps)? {
        return Ok(vec![Candidate { name: "grouped_matmul_empty".to_owned(), plan, estimate_ns: 0.0 }]);
    }
    let grouped = Grouped::of(op, caps)?;
    let one = |cut: Cut| {
        let (dtype, tile) = (op.a.dtype, cut.tile);
        let name = format!("grouped_matmul_{dtype}_tiled_{}x{}x{}", tile.block_m, tile.block_n, tile.block_k);
        Ok(Candidate { name, plan: grouped.plan(cut, caps)?, estimate_ns: cut.ns })
    };
    let list = grouped.cuts(caps).map(one).collect::<Result<Vec<_>>>()?;
    if list.is_empty() { Err(no_tile(caps)) } else { Ok(list) }
}

fn no_tile(caps: &Caps) -> Error {
    caps.unsupported("grouped_matmul", "no tile fits the device's workgroups")
}

/// The plan where there is nothing to add up: without groups all is 0, with K = 0 only the epilogue is left.
fn empty(op: &GroupedMatmul, caps: &Caps) -> Result<Option<Plan>> {
    let GroupedMatmulDims { groups, k, .. } = op.dims();
    if groups == 0 {
        let zero = Program::compile(&Expr::constant(Scalar::I(0)).cast(op.output.dtype), &[])?;
        return crate::ops::map::plan::plan(&Map::new(op.name(), zero, Vec::new(), op.output)?, caps).map(Some);
    }
    if k > 0 {
        return Ok(None);
    }
    let mut grouped = Grouped::of(op, caps)?;
    let mut plan = Plan::default();
    grouped.index(&mut plan, 1, caps)?;
    plan.launches.push(combine::launch(&grouped.product, &grouped.places, 0, None, caps)?);
    Ok(Some(plan))
}

/// A grouped product as the tiled kernel sees it.
#[derive(Clone)]
struct Grouped {
    /// Which input the ends are, and how they lie.
    ends: (usize, TensorSpec),
    /// All rows times the matrix of the first group.
    product: Matmul,
    places: Places,
    groups: u64,
    /// The last element of all matrices.
    last: u32,
}

impl Grouped {
    fn of(op: &GroupedMatmul, caps: &Caps) -> Result<Grouped> {
        for spec in op.inputs().iter().chain([&op.output]) {
            check_index(op.name(), spec)?;
        }
        let GroupedMatmulDims { groups, rows, .. } = op.dims();
        let product = Matmul { output: op.output, ..op.of_group(0, 0..rows)? };
        let places = Places::of_groups(op, &product, caps)?;
        let last = op.b.layout.required_elements().saturating_sub(1) as u32;
        let ends = (op.inputs().len() - 1, op.ends);
        Ok(Grouped { ends, product, places, groups, last })
    }

    /// Tiles that the device can run, in order of preference, for groups that own as many rows each.
    fn cuts(&self, caps: &Caps) -> impl Iterator<Item = Cut> {
        let MatmulDims { m: rows, n, k, .. } = self.product.dims();
        let batch = self.groups.clamp(1, rows.max(1));
        let dims = MatmulDims { batch, m: rows.div_ceil(batch), n, k };
        let cuts = rank::whole(dims, u64::MAX, self.places.epilogue.accumulator.dtype(), caps);
        cuts.into_iter().filter(|cut| cut.refused.is_none())
    }

    /// Where there are many groups, adds to `plan` what makes the table that they are found in, for tiles of `height` rows.
    fn index(&mut self, plan: &mut Plan, height: u32, caps: &Caps) -> Result<()> {
        if self.groups <= MOST_LISTED {
            return Ok(());
        }
        let table = Slot::Scratch(plan.scratch_bytes.len());
        plan.scratch_bytes.push(index::table_bytes(self.groups).next_multiple_of(16));
        let (slot, ends) = &self.ends;
        plan.launches.push(index::launch((*slot, ends), self.product.dims().m, height, table, caps)?);
        self.places.indexed(table);
        Ok(())
    }

    fn plan(&self, cut: Cut, caps: &Caps) -> Result<Plan> {
        let (mut with_index, mut grouped) = (Plan::default(), self.clone());
        grouped.index(&mut with_index, cut.tile.block_m, caps)?;
        let mut plan = grouped.tiles(cut, caps)?;
        // The table stands first among the scratch buffers.
        let before = with_index.scratch_bytes.len();
        let table = Slot::Scratch(0);
        for launch in &mut plan.launches {
            let tables = launch.bindings.len() - usize::from(before > 0 && launch.bindings.last() == Some(&table));
            for slot in &mut launch.bindings[..tables] {
                if let Slot::Scratch(number) = slot {
                    *number += before;
                }
            }
        }
        with_index.launches.append(&mut plan.launches);
        with_index.scratch_bytes.append(&mut plan.scratch_bytes);
        Ok(with_index)
    }

    fn tiles(&self, cut: Cut, caps: &Caps) -> Result<Plan> {
        let Grouped { product, places, groups, last, .. } = self;
        let (rows, block_m) = (product.dims().m, u64::from(cut.tile.block_m));
        // As many partial tiles as there are groups, and one of the rows that none owns; but none without a row.
        let most_tiles = rows.min((rows + (groups + 1) * (block_m - 1)) / block_m);
        let mut grid = TileGrid::of(product, cut, cut.tile.block_k);
        grid.tiles_m = most_tiles;
        let (mut a, a_ends) = operand(product, places, 0, caps)?;
        let (b, [base, along_n, along_k, _]) = operand(product, places, 1, caps)?;
        // Groups begin at any row: quads along M would not.
        if !a.along_k && a.load == Load::Quad {
            a.load = Load::Unit;
        }
        let [_, tail_n, tail_k] = grid.tails(product);
        let kernel = Tiled {
            tile: cut.tile,
            a,
            b,
            tail_m: true,
            tail_n,
            tail_k,
            unroll: grid.unrolls(product, caps),
            epilogue: places.epilogue,
            target: grid.target,
            gate: Gate::Open,
            axes: places.axes(),
        };
        grid.plan_tiled(product, places, kernel, [a_ends, [base, along_n, along_k, *last]], caps)
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
