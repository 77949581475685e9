//! One step of K: a subgroup's fragments of A and B from workgroup memory, and their products, all written out.

use std::fmt::Write;

use super::stage::{LOW_SCALE, Side};
use super::{Coop, Parts, Tile};

impl Coop {
    /// Rows and columns of fragments that a subgroup owns.
    pub(super) fn fragments(&self) -> (u32, u32) {
        let Tile { block_m, block_n, warps_m, warps_n, .. } = self.shape.tile;
        let size = self.product.size;
        (block_m / warps_m / size, block_n / warps_n / size)
    }

    pub(super) fn write_sums(&self, out: &mut String) -> std::fmt::Result {
        let (rows, columns) = self.fragments();
        for i in 0..rows {
            for j in 0..columns {
                writeln!(out, "    var d{i}_{j} = Sum();")?;
            }
        }
        Ok(())
    }

    pub(super) fn write_multiply(&self, out: &mut String, sides: &[Side; 2], copy: &str) -> std::fmt::Result {
        let (rows, columns) = self.fragments();
        let size = self.product.size;
        for k in (0..self.shape.tile.block_k).step_by(size as usize) {
            writeln!(out, "        {{ // k + {k}")?;
            for (part, letter) in self.part_names().iter().zip(["a", "g"]) {
                for i in 0..rows {
                    let load = self.fragment(&sides[0], part, copy, i, k);
                    writeln!(out, "            let {letter}{i} = {load};")?;
                }
            }
            for j in 0..columns {
                for (part, letter) in self.part_names().iter().zip(["b", "h"]) {
                    let load = self.fragment(&sides[1], part, copy, j, k);
                    writeln!(out, "            let {letter}{j} = {load};")?;
                }
                for i in 0..rows {
                    writeln!(out, "            d{i}_{j} = coopMultiplyAdd(a{i}, b{j}, d{i}_{j});")?;
                    if self.parts == Parts::HighLow {
                        // What the low halves add, in units of 2^-11.
                        let cross = format!("coopMultiplyAdd(a{i}, h{j}, coopMultiplyAdd(g{i}, b{j}, Sum()))");
                        writeln!(out, "            d{i}_{j} = d{i}_{j} + {cross} * (1.0 / {LOW_SCALE});")?;
                    }
                }
            }
            writeln!(out, "        }}")?;
        }
        Ok(())
    }

    /// The load of fragment `index` of a side at `k`.
    fn fragment(&self, side: &Side, part: &str, copy: &str, index: u32, k: u32) -> String {
        let stride = side.stride(self.shape.tile.block_k, self.product.factors);
        let (n, x) = (side.name, index * self.product.size);
        let (role, own, rows_are_matrix_rows) =
            if n == "a" { ("A", "own_m", side.factor.along_k) } else { ("B", "own_n", !side.factor.along_k) };
        let at = if side.factor.along_k {
            format!("{own} * {}u + {}u", stride / 4, (x * stride + k) / 4)
        } else {
            format!("{own} / 4u + {}u", (k * stride + x) / 4)
        };
        let load = if rows_are_matrix_rows { "coopLoadT" } else { "coopLoad" };
        format!("{load}<Factor{role}>(&{n}_{part}{copy}[{at}], {}u)", stride / 4)
    }
}
