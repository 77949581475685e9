//! Stores the subgroups' sums to the output or to a partial result.
//!
//! WGSL cannot read a matrix element by element, so sums go to workgroup memory, a few fragments of each subgroup at a
//! time. All threads read them back in rows, apply the epilogue and store the results inside of the output.

use std::fmt::Write;

use super::{Coop, Lanes, Parts, TEXT, Target, Tile};
use crate::plan::looped;
use crate::wgsl::element::Form;
use crate::wgsl::pieces::holes;

impl Coop {
    pub(super) fn write_stores(&self, out: &mut String) -> std::fmt::Result {
        let (rows, columns) = self.fragments();
        let size = self.product.size;
        let back = if self.parts == Parts::Scaled { " * back" } else { "" };
        if self.direct {
            // Every argument has a name: naga 30 forgets to emit expressions that stand in the statement itself.
            writeln!(out, "    let d_first = d_start + (tile_m + own_m) * params.n + tile_n + own_n;")?;
            writeln!(out, "    let d_stride = params.n;")?;
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                writeln!(out, "    let d_at{i}_{j} = d_first + {}u * d_stride + {}u;", i * size, j * size)?;
                writeln!(out, "    let d_sum{i}_{j} = d{i}_{j}{back};")?;
                writeln!(out, "    coopStoreT(d_sum{i}_{j}, &d[d_at{i}_{j}], d_stride);")?;
            }
            return Ok(());
        }
        let (group, stride) = (self.shape.end_fragments, self.slab_stride());
        let first = if let Lanes::About(_) = self.lanes { "(warp - first)" } else { "warp" };
        writeln!(out, "    let slab = {first} * {}u;", size * stride / 4)?;
        for i in 0..rows {
            for j in (0..columns).step_by(group as usize) {
                if i + j > 0 {
                    writeln!(out, "    workgroupBarrier(); // everyone has read the sums before")?;
                }
                let live = group.min(columns - j);
                for f in 0..live {
                    writeln!(out, "    coopStoreT(d{i}_{}, &sums[slab + {}u], {}u);", j + f, f * size / 4, stride / 4)?;
                }
                writeln!(out, "    workgroupBarrier(); // the sums are complete")?;
                *out += &self.rows(i * size, j * size, live * size / 4);
            }
        }
        Ok(())
    }

    /// The most rounds of its loops.
    pub(super) fn store_rounds(&self) -> u64 {
        let (rows, columns) = self.fragments();
        let units = self.warps() * self.product.size * self.shape.end_fragments * self.product.size / 4;
        let loops = rows * columns.div_ceil(self.shape.end_fragments);
        u64::from(loops) * looped(units.div_ceil(self.threads()).into(), 0)
    }

    /// Reads the sums that the subgroups wrote: the fragments at row `i` and column `j` of their rectangles, `quads` a row.
    fn rows(&self, i: u32, j: u32, quads: u32) -> String {
        let Tile { block_m, block_n, warps_m, warps_n, .. } = self.shape.tile;
        let (size, stride, warps) = (self.product.size, self.slab_stride() / 4, self.warps());
        let (skip, owner) = match self.lanes {
            Lanes::Exactly(_) => (String::new(), "whose"),
            Lanes::About(_) => (TEXT.fill("skip", holes!(warps)), "(first + whose)"),
        };
        let acc = self.epilogue.accumulator.scalar();
        let value = |e: usize| {
            let sum = format!("v.{}", ["x", "y", "z", "w"][e]);
            let sum = if acc == "f32" { sum } else { format!("{acc}({sum})") };
            if self.target == Target::Partial { sum } else { format!("epilogue({sum}, batch, row, col + {e}u)") }
        };
        let stores: String = if self.target == Target::Output(Form::Quad) {
            let values = [value(0), value(1), value(2), value(3)].join(", ");
            format!("        store4_d(at / 4u, {}({values}));\n", self.epilogue.value.vector())
        } else {
            let store = |e: usize| {
                let guard = if self.tail_n { format!("if col + {e}u < params.n ") } else { String::new() };
                format!("        {guard}{{ store_d(at + {e}u, {}); }}\n", value(e))
            };
            (0..4).map(store).collect()
        };
        TEXT.fill(
            "rows",
            holes!(
                total = warps * size * quads,
                threads = self.threads(),
                units = size * quads,
                quads,
                size,
                skip,
                slab = size * stride,
                stride,
                back = if self.parts == Parts::Scaled { " * back" } else { "" },
                owner,
                warps_m,
                own_m = block_m / warps_m,
                i,
                own_n = block_n / warps_n,
                j,
                tail = if self.tail_m || self.tail_n { TEXT.get("tail") } else { "" },
                stores,
            ),
        )
    }
}
