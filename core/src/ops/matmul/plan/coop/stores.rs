//! Stores the subgroups' sums to the output or to a partial result.
//!
//! WGSL cannot read a matrix element by element, so sums go to workgroup memory, a few fragments of each subgroup at a
//! time. All threads read them back in rows, apply the epilogue and store the results inside of the output.

use std::fmt::Write;

use super::{Coop, Lanes, Parts, Target, Tile};
use crate::plan::looped;
use crate::wgsl::element::Form;

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
                self.write_rows(out, i * size, j * size, live * size / 4)?;
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
    fn write_rows(&self, out: &mut String, i: u32, j: u32, quads: u32) -> std::fmt::Result {
        let Tile { block_m, block_n, warps_m, warps_n, .. } = self.shape.tile;
        let (size, stride) = (self.product.size, self.slab_stride());
        let total = self.warps() * size * quads;
        writeln!(out, "    for (var unit = thread; unit < {total}u; unit += {}u) {{", self.threads())?;
        writeln!(out, "        let whose = unit / {}u;\n        let line = unit / {quads}u % {size}u;", size * quads)?;
        let owner = match self.lanes {
            Lanes::Exactly(_) => "whose",
            Lanes::About(_) => {
                writeln!(out, "        if whose >= subgroups || first + whose >= {}u {{ continue; }}", self.warps())?;
                "(first + whose)"
            }
        };
        let back = if self.parts == Parts::Scaled { " * back" } else { "" };
        writeln!(
            out,
            "        let v = sums[whose * {}u + line * {}u + unit % {quads}u]{back};",
            size * stride / 4,
            stride / 4
        )?;
        writeln!(out, "        let row = tile_m + {owner} % {warps_m}u * {}u + {i}u + line;", block_m / warps_m)?;
        writeln!(
            out,
            "        let col = tile_n + {owner} / {warps_m}u * {}u + {j}u + unit % {quads}u * 4u;",
            block_n / warps_n
        )?;
        if self.tail_m || self.tail_n {
            writeln!(out, "        if row >= params.m || col >= params.n {{ continue; }}")?;
        }
        writeln!(out, "        let at = d_start + row * params.n + col;")?;
        let acc = self.epilogue.accumulator.scalar();
        let value = |e: usize| {
            let sum = format!("v.{}", ["x", "y", "z", "w"][e]);
            let sum = if acc == "f32" { sum } else { format!("{acc}({sum})") };
            if self.target == Target::Partial { sum } else { format!("epilogue({sum}, batch, row, col + {e}u)") }
        };
        if self.target == Target::Output(Form::Quad) {
            let values = [value(0), value(1), value(2), value(3)].join(", ");
            let vector = self.epilogue.value.vector();
            return writeln!(out, "        store4_d(at / 4u, {vector}({values}));\n    }}");
        }
        for e in 0..4 {
            let guard = if self.tail_n { format!("if col + {e}u < params.n ") } else { String::new() };
            writeln!(out, "        {guard}{{ store_d(at + {e}u, {}); }}", value(e))?;
        }
        writeln!(out, "    }}")
    }
}
