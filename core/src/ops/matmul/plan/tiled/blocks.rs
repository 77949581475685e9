//! The loop over K where every block of K has scales of its own, and the scaling at the end of a block.
//!
//! Steps begin at the start of every block and never reach into the next one, so that the products of a step have one
//! scale. The next block's first step travels while the last one of this block is multiplied. Every thread holds two
//! sets of sums: that of the block, in the accumulator's type, and the scaled total of the blocks before, in f32.

use std::fmt::Write;

use super::operands::Side;
use super::{LANES_M, LANES_N, TEXT, Target, Tiled};
use crate::wgsl::pieces::{holes, lines};

impl Tiled {
    /// Declares the sums over all blocks, and the places of the first scales of a thread's rows and columns.
    pub(super) fn write_scale_places(&self, out: &mut String) -> std::fmt::Result {
        let (tm, tn) = (self.tile.thread_m(), self.tile.thread_n());
        let total = self.epilogue.value.vector();
        for (i, j) in (0..tm).flat_map(|i| (0..tn / 4).map(move |j| (i, j))) {
            writeln!(out, "    var t{i}_{j} = {total}();")?;
        }
        // Results beyond the last row or column are never stored: any scale will do there.
        if self.epilogue.scale_a {
            writeln!(out, "    let rows_at = batch_of_rows(batch);")?;
            for i in 0..tm {
                let row = format!("tile_m + (own_m + {}u) * 4u + {}u", i / 4 * LANES_M, i % 4);
                writeln!(
                    out,
                    "    let row_at{i} = rows_at + min({row}, params.m - 1u) / params.block_m * params.rows_step;"
                )?;
            }
        }
        if self.epilogue.scale_b {
            writeln!(out, "    let cols_at = batch_of_cols(batch);")?;
            for j in 0..tn / 4 {
                let col = format!("vec4<u32>(tile_n + (own_n + {}u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u)", j * LANES_N);
                writeln!(out, "    let cols{j} = min({col}, vec4<u32>(params.n - 1u)) / params.block_n;")?;
                writeln!(out, "    let col_at{j} = vec4<u32>(cols_at) + cols{j} * params.cols_step;")?;
            }
        }
        Ok(())
    }

    /// The loop over K; the first step has been fetched before it.
    pub(super) fn block_loop(&self, sides: &[Side; 2]) -> String {
        let (first, end, block) = match self.target {
            Target::Output(_) => ("0u", "params.k", "0u"),
            Target::Partial => ("k_first", "slab_end", "k_first / params.block_k"),
        };
        let fetch = lines(|out| self.write_fetch(out, sides, "next", "        "));
        let multiply = lines(|out| self.write_multiply(out));
        let scaling = lines(|out| self.write_scaling(out));
        let put = lines(|out| self.write_put(out, sides, "        "));
        let stores = lines(|out| self.write_stores(out));
        let block_k = self.tile.block_k;
        TEXT.fill("steps of blocks", holes!(block, first, end, block_k, fetch, multiply, scaling, put, stores))
    }

    /// Adds the scaled sums of a block to those over all blocks.
    fn write_scaling(&self, out: &mut String) -> std::fmt::Result {
        let (tm, vectors) = (self.tile.thread_m(), self.tile.thread_n() / 4);
        let total = self.epilogue.value.vector();
        let mut of_column = String::new();
        if self.epilogue.scale_b {
            of_column += " * col_scales";
            for j in 0..vectors {
                let one = |e: &str| format!("load_col_scale(col_at{j}.{e} + block * params.cols_k)");
                let all = ["x", "y", "z", "w"].map(one).join(", ");
                writeln!(out, "            let col_scales{j} = {total}({all});")?;
            }
        }
        for i in 0..tm {
            let mut of_row = String::new();
            if self.epilogue.scale_a {
                of_row = format!(" * row_scale{i}");
                writeln!(out, "            let row_scale{i} = load_row_scale(row_at{i} + block * params.rows_k);")?;
            }
            for j in 0..vectors {
                let of_column = if of_column.is_empty() { String::new() } else { format!("{of_column}{j}") };
                writeln!(
                    out,
                    "            t{i}_{j} += {total}(d{i}_{j}){of_row}{of_column};\n            d{i}_{j} = V();"
                )?;
            }
        }
        Ok(())
    }
}
