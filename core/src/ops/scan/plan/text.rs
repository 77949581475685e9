//! What a scan's kernel says around its loops: how elements are read, combined and written.

use std::fmt::Write;

use crate::DType;
use crate::ops::ScanFn;

use super::{DEPTH, Kernel, MEMBERS, Step, Walk};
use crate::ops::reduce::plan::template::decode;
use crate::ops::softmax::plan::write_exponentials;
use crate::plan::Access;
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::keys;

impl Kernel {
    pub(super) fn write(&self, out: &mut String) -> std::fmt::Result {
        let axes = usize::from(self.axes);
        out.push_str("struct Params {\n");
        MEMBERS.iter().for_each(|member| *out += &format!("    {member}: u32,\n"));
        (0..axes).for_each(|i| *out += &format!("    e{i}: u32,\n"));
        (0..axes).for_each(|i| *out += &format!("    s{i}: u32,\n"));
        writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")?;
        writeln!(out, "const THREADS = {}u;\nconst WIDTH = {}u;", self.threads, self.width())?;
        match self.walk {
            Walk::Rows { lanes, strips } => writeln!(out, "const LANES = {lanes}u;\nconst STRIPS = {strips}u;")?,
            Walk::Columns => writeln!(out, "const DEPTH = {DEPTH}u;\nconst FOLDS = {};", self.step == Step::Folds)?,
        }
        writeln!(out, "const EXCLUSIVE = {};", self.is_exclusive)?;
        *out += &decode("base_of", "params.x_base", 's', axes);
        self.write_accumulator(out)?;
        self.write_reading(out)?;
        self.write_results(out)
    }

    /// `Acc`, `identity` and `combine`, of an earlier total with a later one.
    fn write_accumulator(&self, out: &mut String) -> std::fmt::Result {
        match self.function {
            ScanFn::Max | ScanFn::Min => {
                let (key, lowest) =
                    if self.is_wide() { ("i64", "(-9223372036854775807li - 1li)") } else { ("u32", "0u") };
                writeln!(out, "struct Acc {{ key: {key}, place: u32 }}\nalias Keys = {key};")?;
                // Places are below u32's largest value, so that anything beats nothing.
                writeln!(out, "fn identity() -> Acc {{ return Acc({lowest}, 0xffffffffu); }}")?;
                writeln!(out, "fn combine(a: Acc, b: Acc) -> Acc {{")?;
                writeln!(out, "    if b.key > a.key || (b.key == a.key && b.place < a.place) {{ return b; }}")?;
                writeln!(out, "    return a;\n}}")
            }
            ScanFn::LogSumExp => {
                let (s, u) = if self.is_wide() { ("f64", "u64") } else { ("f32", "u32") };
                writeln!(out, "alias S = {s};\nalias U = {u};\nalias V = S;\nalias K = U;")?;
                write_exponentials(out, self.is_wide(), false)?;
                *out += include_str!("../../../../wgsl/softmax_stats.wgsl");
                writeln!(out, "fn identity() -> Acc {{ return Acc(KEY_LOWEST, S()); }}")
            }
            ScanFn::Prod | ScanFn::Sum => {
                let (identity, sign) = if self.function == ScanFn::Prod { ("Acc(1)", '*') } else { ("Acc()", '+') };
                writeln!(out, "alias Acc = {};", element::compute_type(self.compute()))?;
                writeln!(out, "fn identity() -> Acc {{ return {identity}; }}")?;
                writeln!(out, "fn combine(a: Acc, b: Acc) -> Acc {{ return a {sign} b; }}")
            }
        }
    }

    /// `Read`, `load`, `pick`, `lift` and `carried`.
    fn write_reading(&self, out: &mut String) -> std::fmt::Result {
        if self.step == Step::Carries {
            writeln!(out, "@group(0) @binding(1) var<storage, read> x: array<Acc>;\nalias Read = Acc;")?;
            writeln!(out, "fn load(at: u32) -> Read {{ return x[at]; }}")?;
            writeln!(out, "fn pick(v: Read, w: u32) -> Acc {{ return v; }}")?;
            writeln!(out, "fn lift(x: Acc, p: u32) -> Acc {{ return x; }}")?;
            return writeln!(out, "fn carried(at: u32) -> Acc {{ return identity(); }}");
        }
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        *out += &self.input.storage(1, "x", form, Access::Read);
        let x = self.input.scalar();
        let (read, load) = if self.quad { (self.input.vector(), "load4_x") } else { (x.to_owned(), "load_x") };
        writeln!(out, "alias Read = {read};\nfn load(at: u32) -> Read {{ return {load}(at); }}")?;
        let is_turned = self.is_reversed && matches!(self.walk, Walk::Rows { .. });
        let pick = match (self.quad, is_turned) {
            (false, _) => "v",
            (true, false) => "v[w]",
            (true, true) => "v[3u - w]",
        };
        writeln!(out, "fn pick(v: Read, w: u32) -> {x} {{ return {pick}; }}")?;
        let lifted = match self.function {
            ScanFn::Max | ScanFn::Min => {
                keys::write(out, self.dtype, x, self.function == ScanFn::Min)?;
                "Acc(key_of(x), p)"
            }
            ScanFn::LogSumExp => "Acc(key_of(x), select(S(1), S(), key_of(x) == KEY_LOWEST))",
            _ if self.dtype == DType::Bool => "select(0u, 1u, x)",
            _ => "x",
        };
        writeln!(out, "fn lift(x: {x}, p: u32) -> Acc {{ return {lifted}; }}")?;
        if self.step == Step::Slabs {
            writeln!(out, "@group(0) @binding(2) var<storage, read> carries: array<Acc>;")?;
            return writeln!(out, "fn carried(at: u32) -> Acc {{ return carries[at]; }}");
        }
        writeln!(out, "fn carried(at: u32) -> Acc {{ return identity(); }}")
    }

    /// `emit`, from results of a vector to memory; `fold` where totals leave.
    fn write_results(&self, out: &mut String) -> std::fmt::Result {
        let emit = "fn emit(line: u32, at: u32, results: array<Acc, WIDTH>)";
        if !self.gives_results() {
            writeln!(out, "@group(0) @binding(2) var<storage, read_write> y: array<Acc>;")?;
            writeln!(out, "fn fold(at: u32, total: Acc) {{ y[at] = total; }}")?;
            return writeln!(out, "{emit} {{ y[params.y_base + at] = results[0]; }}");
        }
        let binding = if self.step == Step::Slabs { 3 } else { 2 };
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        *out += &self.output.storage(binding, "y", form, Access::ReadWrite);
        writeln!(out, "fn fold(at: u32, total: Acc) {{ }}")?;
        let y = self.output.scalar();
        let is_row = matches!(self.walk, Walk::Rows { .. });
        match self.function {
            ScanFn::Max | ScanFn::Min => {
                // Along a row a vector holds neighbours in place, down columns neighbours at one place.
                let chosen = if is_row {
                    "pick(load(line + place / WIDTH * params.x_stride), place % WIDTH)"
                } else {
                    "pick(load(line + place * params.x_stride), w)"
                };
                writeln!(out, "fn chosen(line: u32, place: u32, w: u32) -> {y} {{ return {chosen}; }}")?;
                let place = if self.is_reversed { "params.count - 1u - place" } else { "place" };
                writeln!(out, "fn place_of(place: u32) -> u32 {{ return {place}; }}")?;
            }
            ScanFn::LogSumExp => {
                writeln!(out, "fn finish(a: Acc) -> {y} {{")?;
                writeln!(out, "    if a.key > KEY_HIGHEST {{ return S(bitcast<f32>(params.nan)); }}")?;
                writeln!(out, "    if a.key == KEY_HIGHEST {{ return S(bitcast<f32>(params.infinity)); }}")?;
                writeln!(out, "    if a.key <= KEY_LOWEST {{ return S(bitcast<f32>(params.lowest)); }}")?;
                writeln!(out, "    return anchor_of(a.key) + log_s(a.sum);\n}}")?;
            }
            ScanFn::Prod | ScanFn::Sum => writeln!(out, "fn finish(a: Acc) -> {y} {{ return a; }}")?,
        }
        let index = Element::raw(4);
        if self.function.chooses() {
            *out += &index.storage(binding + 1, "indices", form, Access::ReadWrite);
        }
        // Elements in memory's order.
        let order: Vec<usize> = match (self.quad, self.is_reversed && is_row) {
            (false, _) => vec![0],
            (true, false) => vec![0, 1, 2, 3],
            (true, true) => vec![3, 2, 1, 0],
        };
        let of = |ty: &str, each: &dyn Fn(usize) -> String| {
            let all: Vec<String> = order.iter().map(|&w| each(w)).collect();
            if self.quad { format!("vec4<{ty}>({})", all.join(", ")) } else { all.concat() }
        };
        let store = if self.quad { "store4" } else { "store" };
        writeln!(out, "{emit} {{")?;
        if self.function.chooses() {
            let value = of(y, &|w| format!("chosen(line, results[{w}].place, {w}u)"));
            let place = of("u32", &|w| format!("place_of(results[{w}].place)"));
            writeln!(out, "    {store}_y(params.y_base + at, {value});")?;
            writeln!(out, "    {store}_indices(params.i_base + at, {place});")?;
        } else {
            let value = of(y, &|w| format!("finish(results[{w}])"));
            writeln!(out, "    {store}_y(params.y_base + at, {value});")?;
        }
        writeln!(out, "}}")
    }
}
