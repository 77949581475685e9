//! One step of K: a subgroup's fragments of A and B from workgroup memory, and their products, all written out.

use std::fmt::Write;

use super::stage::Side;
use super::{Coop, Operand, Parts, Tile};

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

    /// Multiplies all sums by `factor`.
    pub(super) fn write_scaling(&self, out: &mut String, factor: &str) -> std::fmt::Result {
        let (rows, columns) = self.fragments();
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            writeln!(out, "    d{i}_{j} = d{i}_{j} * {factor};")?;
        }
        Ok(())
    }

    /// Every fragment has a name of its own, so that all fragments of a step may be loaded before its first product.
    pub(super) fn write_multiply(&self, out: &mut String, sides: &[Side; 2]) -> std::fmt::Result {
        let (rows, columns) = self.fragments();
        let size = self.product.size;
        let steps = self.shape.tile.block_k / size;
        // 302 TFLOP/s instead of 295 (f16, 4096^3). Operands that are converted on the way take the registers that this needs.
        let as_it_lies = |operand: &Operand| operand.element.dtype() == self.product.factors;
        let held = self.parts != Parts::Scaled && as_it_lies(&self.a) && as_it_lies(&self.b);
        let at_once = if held { steps } else { 1 };
        for first in (0..steps).step_by(at_once as usize) {
            for k in first..first + at_once {
                for (side, count) in sides.iter().zip([rows, columns]) {
                    for i in 0..count {
                        let load = self.fragment(side, i, k * size);
                        writeln!(out, "        let {}{i}_{k} = {load};", side.name)?;
                    }
                }
            }
            for k in first..first + at_once {
                for (j, i) in (0..columns).flat_map(|j| (0..rows).map(move |i| (j, i))) {
                    writeln!(out, "        d{i}_{j} = coopMultiplyAdd(a{i}_{k}, b{j}_{k}, d{i}_{j});")?;
                }
            }
        }
        Ok(())
    }

    /// The load of fragment `index` of a side at `k`.
    fn fragment(&self, side: &Side, index: u32, k: u32) -> String {
        let stride = side.stride(self.shape.tile.block_k, self.product.factors);
        let (n, x) = (side.name, index * self.product.size);
        let (role, own, rows_are_matrix_rows) =
            if n == "a" { ("A", "own_m", side.operand.along_k) } else { ("B", "own_n", !side.operand.along_k) };
        let at = if side.operand.along_k {
            format!("{own} * {}u + {}u", stride / 4, (x * stride + k) / 4)
        } else {
            format!("{own} / 4u + {}u", (k * stride + x) / 4)
        };
        let load = if rows_are_matrix_rows { "coopLoadT" } else { "coopLoad" };
        format!("{load}<Factor{role}>(&{n}_tile[{at}], {}u)", stride / 4)
    }
}
