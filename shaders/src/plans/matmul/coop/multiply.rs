//! One step of K: a subgroup's fragments of A and B from workgroup memory, and their products, all written out.

use std::fmt::Write;

use super::stage::Side;
use super::{Coop, Tile};

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
            for i in 0..rows {
                writeln!(out, "            let a{i} = {};", self.fragment(&sides[0], copy, "own_m", i, k))?;
            }
            for j in 0..columns {
                writeln!(out, "            let b{j} = {};", self.fragment(&sides[1], copy, "own_n", j, k))?;
                for i in 0..rows {
                    writeln!(out, "            d{i}_{j} = coopMultiplyAdd(a{i}, b{j}, d{i}_{j});")?;
                }
            }
            writeln!(out, "        }}")?;
        }
        Ok(())
    }

    /// The load of fragment `index` of a side at `k`; `own` is the first row (column) of the subgroup.
    fn fragment(&self, side: &Side, copy: &str, own: &str, index: u32, k: u32) -> String {
        let stride = side.stride(self.shape.tile.block_k, self.product.factors);
        let (n, x) = (side.name, index * self.product.size);
        let (role, rows_are_matrix_rows) =
            if n == "a" { ("A", side.factor.along_k) } else { ("B", !side.factor.along_k) };
        let at = if side.factor.along_k {
            format!("{own} * {}u + {}u", stride / 4, (x * stride + k) / 4)
        } else {
            format!("{own} / 4u + {}u", (k * stride + x) / 4)
        };
        let load = if rows_are_matrix_rows { "coopLoadT" } else { "coopLoad" };
        format!("{load}<Factor{role}>(&{n}_tile{copy}[{at}], {}u)", stride / 4)
    }
}
