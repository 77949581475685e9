//! From a thread's sums to the output or to a partial result: the epilogue and the guards of partial tiles.

use std::fmt::Write;

use super::{LANES_M, LANES_N, TEXT, Target, Tiled};
use crate::wgsl::element::Form;
use crate::wgsl::pieces::holes;

impl Tiled {
    /// Applies the epilogue and stores the results inside of the output.
    pub(super) fn write_stores(&self, out: &mut String) -> std::fmt::Result {
        let (tm, tn) = (self.tile.thread_m(), self.tile.thread_n());
        let partial = self.target == Target::Partial;
        let layer = if partial { "(split * params.batches + batch)" } else { "batch" };
        let base = if partial { "" } else { "params.target_base + " };
        if self.is_grouped() && partial {
            writeln!(out, "    let d_start = split * params.m * params.n;")?;
        } else if self.is_grouped() {
            writeln!(out, "    let d_start = params.target_base;")?;
        } else {
            writeln!(out, "    let d_start = {base}{layer} * params.m * params.n;")?;
        }
        if !self.unroll {
            *out += &self.store_loop();
            return Ok(());
        }
        let sums = self.sums();
        for i in 0..tm {
            writeln!(out, "    {{\n        let row = tile_m + (own_m + {}u) * 4u + {}u;", i / 4 * LANES_M, i % 4)?;
            let row_guard = if self.tail_m { format!("row < {}", self.row_end()) } else { "true".to_owned() };
            writeln!(out, "        if {row_guard} {{\n            let at = d_start + row * params.n;")?;
            for j in 0..tn / 4 {
                writeln!(out, "            {{\n                let col = tile_n + (own_n + {}u) * 4u;", j * LANES_N)?;
                let value = |e: usize| {
                    let sum = format!("{sums}{i}_{j}.{}", ["x", "y", "z", "w"][e]);
                    if partial { sum } else { format!("epilogue({sum}, batch, row, col + {e}u)") }
                };
                if self.target == Target::Output(Form::Quad) {
                    let guard = if self.tail_n { "if col < params.n " } else { "" };
                    let values = [value(0), value(1), value(2), value(3)].join(", ");
                    let v = if self.changes_type() { self.epilogue.value.vector() } else { "V".to_owned() };
                    writeln!(out, "                {guard}{{ store4_d((at + col) / 4u, {v}({values})); }}")?;
                } else {
                    for e in 0..4 {
                        let guard = if self.tail_n { format!("if col + {e}u < params.n ") } else { String::new() };
                        writeln!(out, "                {guard}{{ store_d(at + col + {e}u, {}); }}", value(e))?;
                    }
                }
                writeln!(out, "            }}")?;
            }
            writeln!(out, "        }}\n    }}")?;
        }
        Ok(())
    }

    /// The row after the last one that a tile may write.
    fn row_end(&self) -> &'static str {
        if self.is_grouped() { "part.end" } else { "params.m" }
    }

    /// The first letter of the variables that hold a thread's sums.
    fn sums(&self) -> &'static str {
        if self.epilogue.blocks { "t" } else { "d" }
    }

    /// Whether results have another type than sums.
    fn changes_type(&self) -> bool {
        self.epilogue.value != self.epilogue.accumulator
    }

    /// The stores as a loop, so that the epilogue is compiled once.
    fn store_loop(&self) -> String {
        let (tm, vectors) = (self.tile.thread_m(), self.tile.thread_n() / 4);
        let own = self.sums();
        let v = if self.epilogue.blocks { self.epilogue.value.vector() } else { "V".to_owned() };
        let sums: Vec<String> = (0..tm).flat_map(|i| (0..vectors).map(move |j| format!("{own}{i}_{j}"))).collect();
        let count = tm * vectors;
        let end = self.target != Target::Partial;
        let (value, sum) = if end && self.changes_type() {
            (format!("{}()", self.epilogue.value.vector()), "sums[i][e]")
        } else {
            ("sums[i]".to_owned(), "value[e]")
        };
        let mut each = String::new();
        if end {
            each += &format!("            value[e] = epilogue({sum}, batch, row, col + e);\n");
        }
        let whole = if self.target == Target::Output(Form::Quad) {
            "        store4_d(at / 4u, value);\n"
        } else {
            each += "            store_d(at + e, value[e]);\n";
            ""
        };
        let (sums, row_end, [lanes_m, lanes_n]) = (sums.join(", "), self.row_end(), [LANES_M, LANES_N]);
        let all = holes!(v, count, sums, vectors, lanes_m, lanes_n, row_end, value, each, whole);
        TEXT.fill("store loop", all)
    }
}
