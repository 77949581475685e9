//! From a thread's sums to the output or to a partial result: the epilogue and the guards of partial tiles.

use std::fmt::Write;

use super::{LANES_M, LANES_N, Target, Tiled};
use crate::wgsl::element::Form;

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
            return self.write_store_loop(out);
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

    /// Writes the stores as a loop, so that the epilogue is compiled once.
    fn write_store_loop(&self, out: &mut String) -> std::fmt::Result {
        let (tm, vectors) = (self.tile.thread_m(), self.tile.thread_n() / 4);
        let own = self.sums();
        let v = if self.epilogue.blocks { self.epilogue.value.vector() } else { "V".to_owned() };
        let sums: Vec<String> = (0..tm).flat_map(|i| (0..vectors).map(move |j| format!("{own}{i}_{j}"))).collect();
        let count = tm * vectors;
        writeln!(out, "    var sums = array<{v}, {count}>({});", sums.join(", "))?;
        writeln!(out, "    for (var i = 0u; i < {count}u; i++) {{\n        let r = i / {vectors}u;")?;
        writeln!(out, "        let row = tile_m + (own_m + r / 4u * {LANES_M}u) * 4u + r % 4u;")?;
        writeln!(out, "        let col = tile_n + (own_n + i % {vectors}u * {LANES_N}u) * 4u;")?;
        writeln!(out, "        if row >= {} || col >= params.n {{ continue; }}", self.row_end())?;
        let end = self.target != Target::Partial;
        let (value, sum) = if end && self.changes_type() {
            (format!("{}()", self.epilogue.value.vector()), "sums[i][e]")
        } else {
            ("sums[i]".to_owned(), "value[e]")
        };
        writeln!(out, "        let at = d_start + row * params.n + col;\n        var value = {value};")?;
        writeln!(out, "        let live = min(params.n - col, 4u);\n        for (var e = 0u; e < live; e++) {{")?;
        if end {
            writeln!(out, "            value[e] = epilogue({sum}, batch, row, col + e);")?;
        }
        if self.target == Target::Output(Form::Quad) {
            writeln!(out, "        }}\n        store4_d(at / 4u, value);\n    }}")
        } else {
            writeln!(out, "            store_d(at + e, value[e]);\n        }}\n    }}")
        }
    }
}
