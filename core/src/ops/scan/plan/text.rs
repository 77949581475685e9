//! What a scan's kernel says around its loops: how elements are read, combined and written.

use crate::DType;
use crate::ops::ScanFn;

use super::{DEPTH, Kernel, MEMBERS, Step, Walk};
use crate::ops::softmax::plan::exponentials;
use crate::plan::Access;
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::decode;
use crate::wgsl::keys;
use crate::wgsl::params::{axis_names, uniform};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("scan.wgsl");

impl Kernel {
    pub(super) fn text(&self) -> String {
        let axes = usize::from(self.axes);
        let mut out = uniform(MEMBERS.iter().map(|&member| member.to_owned()).chain(axis_names("es", axes)));
        out += &format!("const THREADS = {}u;\nconst WIDTH = {}u;\n", self.threads, self.width());
        out += &match self.walk {
            Walk::Rows { lanes, strips } => format!("const LANES = {lanes}u;\nconst STRIPS = {strips}u;\n"),
            Walk::Columns => format!("const DEPTH = {DEPTH}u;\nconst FOLDS = {};\n", self.step == Step::Folds),
        };
        out += &format!("const EXCLUSIVE = {};\n", self.is_exclusive);
        out += &decode("base_of", "params.x_base", 's', axes);
        out += &self.accumulator();
        out += &self.reading();
        out + &self.results()
    }

    /// `Acc`, `identity` and `combine`, of an earlier total with a later one.
    fn accumulator(&self) -> String {
        match self.function {
            ScanFn::Max | ScanFn::Min => {
                let (key, lowest) = keys::key_type(self.dtype);
                TEXT.fill("extrema", holes!(key, lowest))
            }
            ScanFn::LogSumExp => {
                let (s, u) = if self.is_wide() { ("f64", "u64") } else { ("f32", "u32") };
                let types = TEXT.fill("exponential types", holes!(s, u)) + &exponentials(self.is_wide(), false);
                types + include_str!("../../../../wgsl/softmax_stats.wgsl") + TEXT.get("exponential identity")
            }
            ScanFn::Prod | ScanFn::Sum => {
                let (identity, sign) = if self.function == ScanFn::Prod { ("Acc(1)", '*') } else { ("Acc()", '+') };
                TEXT.fill("arithmetic", holes!(acc = element::compute_type(self.compute()), identity, sign))
            }
        }
    }

    /// `Read`, `load`, `pick`, `lift` and `carried`.
    fn reading(&self) -> String {
        if self.step == Step::Carries {
            return TEXT.get("read carries").to_owned() + TEXT.get("nothing carried");
        }
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        let x = self.input.scalar();
        let (read, load) = if self.quad { (self.input.vector(), "load4_x") } else { (x.to_owned(), "load_x") };
        let is_turned = self.is_reversed && matches!(self.walk, Walk::Rows { .. });
        let pick = match (self.quad, is_turned) {
            (false, _) => "v",
            (true, false) => "v[w]",
            (true, true) => "v[3u - w]",
        };
        let mut out = self.input.storage(1, "x", form, Access::Read);
        out += &TEXT.fill("read", holes!(read, load, x, pick));
        let lifted = match self.function {
            ScanFn::Max | ScanFn::Min => {
                out += &keys::key_of(self.dtype, x, self.function == ScanFn::Min);
                "Acc(key_of(x), p)"
            }
            ScanFn::LogSumExp => "Acc(key_of(x), select(S(1), S(), key_of(x) == KEY_LOWEST))",
            _ if self.dtype == DType::Bool => "select(0u, 1u, x)",
            _ => "x",
        };
        out += &TEXT.fill("lift", holes!(x, lifted));
        out + TEXT.get(if self.step == Step::Slabs { "carried" } else { "nothing carried" })
    }

    /// `emit`, from results of a vector to memory; `fold` where totals leave.
    fn results(&self) -> String {
        if !self.gives_results() {
            return TEXT.get("give totals").to_owned();
        }
        let binding = if self.step == Step::Slabs { 3 } else { 2 };
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        let mut out = self.output.storage(binding, "y", form, Access::ReadWrite);
        out += TEXT.get("fold nothing");
        let y = self.output.scalar();
        let is_row = matches!(self.walk, Walk::Rows { .. });
        out += &match self.function {
            ScanFn::Max | ScanFn::Min => {
                let chosen = if is_row {
                    "pick(load(line + place / WIDTH * params.x_stride), place % WIDTH)"
                } else {
                    "pick(load(line + place * params.x_stride), w)"
                };
                let place = if self.is_reversed { "params.count - 1u - place" } else { "place" };
                TEXT.fill("chosen", holes!(y, chosen, place))
            }
            ScanFn::LogSumExp => TEXT.fill("finish exponentials", holes!(y)),
            ScanFn::Prod | ScanFn::Sum => TEXT.fill("finish", holes!(y)),
        };
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
        if !self.function.chooses() {
            let value = of(y, &|w| format!("finish(results[{w}])"));
            return out + &TEXT.fill("emit", holes!(store, value));
        }
        out += &Element::raw(4).storage(binding + 1, "indices", form, Access::ReadWrite);
        let value = of(y, &|w| format!("chosen(line, results[{w}].place, {w}u)"));
        let place = of("u32", &|w| format!("place_of(results[{w}].place)"));
        out + &TEXT.fill("emit both", holes!(store, value, place))
    }
}
