//! The gradient of attention of f16 on cooperative matrices: the kernel of dq and that of dk and dv, one text with its holes filled,
//! `wgsl/attention_cooperative_gradient.wgsl`. Delta is the plain kernel's.
//!
//! The decision to know: a workgroup keeps its own rows of two operands in registers, and of the others' rows takes 16 a round, so that both of their
//! operands are staged at once in what forward needs for 32 keys.

use std::fmt::Write;

use super::{
    PAD, Quad, ROWS, SIZE, STAGED, THREADS, fill, pitch_of, place_quads, quads, whole_text, write_mask, write_own,
};
use crate::ops::AttentionGradient;
use crate::ops::attention::plan::text;
use crate::plan::{Access, Caps, KernelText, Source, looped};
use crate::wgsl::element::Element;

/// What this way is called among the candidates.
pub(in super::super) const NAME: &str = "attention_gradient_cooperative";

/// Quads of a row of scores, and of one of shares: two matrices.
const PITCH: u32 = (2 * SIZE + PAD) / 4;
/// The longest heads: sums of dk and dv of 128 take 128 registers of a thread.
const LONGEST: u64 = 128;

/// Whose gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Of {
    /// dq.
    Queries,
    /// dk and dv.
    Keys,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Kernel {
    of: Of,
    /// Of lse.
    sums: Element,
    mask: Element,
    /// Matrices along a head's query and key, and along its value.
    deep: u32,
    across: u32,
    exact: [bool; 2],
    causal: bool,
    masked: bool,
}

/// A product that is added: whose shares, of which staged operand, and where it goes.
struct Sum {
    /// Of its matrices' names.
    name: &'static str,
    matrices: u32,
    /// The first quad of its factors in a row of shares, and the staged operand.
    shares: u32,
    staged: usize,
    /// The result, its length, and what it is multiplied by.
    result: &'static str,
    length: &'static str,
    times: &'static str,
}

/// Whether they serve the operation.
pub(in super::super) fn serves(op: &AttentionGradient, caps: &Caps) -> bool {
    let dims = op.forward.dims();
    let aligned = [&op.dout, &op.dq, &op.dk, &op.dv].into_iter().all(super::super::is_in_quads);
    super::serves(&op.forward, caps)
        && dims.size.max(dims.width) <= LONGEST
        && aligned
        && super::bytes_of(tile(SIZE * 8, SIZE * 8), PITCH * 4) <= caps.max_workgroup_bytes
}

/// Rows of a workgroup.
pub(in super::super) const BLOCK: u64 = ROWS as u64;

/// Elements of the tile, of operands of these lengths.
fn tile(size: u32, width: u32) -> u32 {
    (ROWS * (STAGED + PAD)).max(SIZE * (size + width + 2 * PAD))
}

impl Kernel {
    pub(in super::super) fn new(op: &AttentionGradient, of: Of, [sums, mask]: [Element; 2]) -> Kernel {
        let dims = op.forward.dims();
        let whole = |n: u64| (n as u32).div_ceil(SIZE);
        Kernel {
            of,
            sums,
            mask,
            deep: whole(dims.size),
            across: whole(dims.width),
            exact: [dims.size, dims.width].map(|n| n.is_multiple_of(SIZE.into())),
            causal: op.forward.causal,
            masked: op.forward.mask.is_some(),
        }
    }

    fn hides(&self) -> bool {
        self.causal || self.masked
    }

    /// Matrices of the two operands that are staged, or kept.
    fn matrices(&self) -> [u32; 2] {
        [self.deep, self.across]
    }

    /// What quads of the own and of the staged operands are read by, and from where.
    fn loads(&self) -> [[[&'static str; 2]; 2]; 2] {
        let (queries, keys) = ([["query", "q_at"], ["slope", "d_at"]], [["key", "k_at"], ["value", "v_at"]]);
        match self.of {
            Of::Queries => [queries, keys],
            Of::Keys => [keys, queries],
        }
    }

    fn sums(&self) -> Vec<Sum> {
        let sum = |name, result, length| {
            let is_value = length == "width";
            Sum {
                name,
                matrices: if is_value { self.across } else { self.deep },
                shares: if is_value { 0 } else { SIZE / 4 },
                staged: usize::from(is_value),
                result,
                length,
                times: if is_value { "" } else { " * params.scale" },
            }
        };
        match self.of {
            Of::Queries => vec![sum("of_q", "dq", "size")],
            Of::Keys => vec![sum("of_k", "dk", "size"), sum("of_v", "dv", "width")],
        }
    }

    /// Quads of the tile before the second operand.
    fn second(&self) -> u32 {
        SIZE * pitch_of(self.deep) / 4
    }

    /// The quads of both staged operands that a thread owns.
    fn places(&self) -> [Vec<Quad>; 2] {
        [place_quads(SIZE, self.deep, 0), place_quads(SIZE, self.across, self.second())]
    }

    fn write_head(&self, out: &mut String, bindings: &mut Vec<Access>) -> std::fmt::Result {
        let Kernel { causal, masked, exact: [size, width], .. } = *self;
        writeln!(out, "const THREADS = {THREADS}u;\nconst ROWS = {ROWS}u;\nconst STREAMED = {SIZE}u;")?;
        writeln!(out, "const TILE = {}u;\nconst PITCH = {PITCH}u;", tile(self.deep * SIZE, self.across * SIZE) / 4)?;
        writeln!(out, "const CAUSAL = {causal};\nconst MASKED = {masked};\nconst HIDES = {};", self.hides())?;
        writeln!(out, "const EXACT_SIZE = {size};\nconst EXACT_WIDTH = {width};")?;
        text::write_params(out, "f32")?;
        for name in ["xq", "xk", "xv", "xd"] {
            quads(out, bindings, name, Access::Read)?;
        }
        write_mask(out, bindings, masked.then_some(self.mask))?;
        // lse and delta of each query, behind four pairs that hold the key of dropout.
        bindings.push(Access::Read);
        writeln!(out, "@group(0) @binding({}) var<storage, read> stats: array<vec2<f32>>;", bindings.len())?;
        for sum in self.sums() {
            quads(out, bindings, &format!("x{}", sum.result), Access::ReadWrite)?;
        }
        Ok(())
    }

    /// What a row of shares gives of staged elements that are not finite.
    fn of_wild(&self, out: &mut String) -> std::fmt::Result {
        for Sum { name, shares, staged, .. } in self.sums() {
            let [load, _] = self.loads()[1][staged];
            writeln!(out, "fn wild_{name}(row: u32, at: u32, first: u32, column: u32) -> vec4<f32> {{")?;
            writeln!(out, "    var sum = vec4<f32>();\n    for (var n = 0u; n < STREAMED; n++) {{")?;
            writeln!(out, "        let p = f32(shares[row * PITCH + {shares}u + n / 4u][n % 4u]);")?;
            writeln!(out, "        let x = vec4<f32>({load}(at, first + n, column));")?;
            writeln!(out, "        if !(p == 0.0) {{ sum += select(vec4<f32>(), p * x, is_wild(x)); }}")?;
            writeln!(out, "    }}\n    return sum;\n}}\n")?;
        }
        if self.of == Of::Keys {
            writeln!(out, "// Whether the queries i .. i + 3 of head h see key j.")?;
            writeln!(out, "fn seen_by(b: u32, h: u32, i: u32, j: u32) -> vec4<bool> {{")?;
            writeln!(
                out,
                "    return vec4<bool>(sees(b, h, i, j), sees(b, h, i + 1u, j), sees(b, h, i + 2u, j), sees(b, h, i + 3u, j));\n}}\n"
            )?;
            writeln!(out, "fn sees(b: u32, h: u32, i: u32, j: u32) -> bool {{")?;
            writeln!(out, "    if i >= params.queries || j >= params.keys {{ return false; }}")?;
            writeln!(out, "    if CAUSAL && i32(j) > i32(i) + params.shift {{ return false; }}")?;
            writeln!(out, "    if MASKED {{ return is_shown(b, h, i, j); }}\n    return true;\n}}\n")?;
        }
        Ok(())
    }

    fn place(&self, out: &mut String) -> std::fmt::Result {
        let place = |name: &str, head: &str| {
            format!(
                "    let {name}_at = (params.{name}_offset + b * params.{name}_batch + {head} * params.{name}_head) / 4u;\n"
            )
        };
        match self.of {
            Of::Queries => {
                writeln!(out, "    // The last queries first: where attention is causal they see most.")?;
                writeln!(out, "    let row0 = (params.blocks - 1u - number % params.blocks) * ROWS;")?;
                writeln!(out, "    let head = number / params.blocks;\n    let b = head / params.heads;")?;
                writeln!(out, "    let h = head - b * params.heads;\n    let group = h / params.shared_heads;")?;
                *out += &(place("q", "h") + &place("d", "h") + &place("k", "group") + &place("v", "group"));
                writeln!(out, "    let i = row0 + row;\n    let begin = 0u;\n    var reach = params.keys;")?;
                if self.causal {
                    writeln!(out, "    let last = i32(min(row0 + ROWS, params.queries)) + params.shift;")?;
                    writeln!(out, "    reach = min(reach, u32(max(last, 0)));")?;
                }
                writeln!(out, "    let stat = stats[4u + head * params.queries + min(i, params.queries - 1u)];")?;
                writeln!(out, "    let lse = vec4<f32>(stat.x);\n    let delta = vec4<f32>(stat.y);")?;
                writeln!(out, "    let shows = vec4<bool>(!(bitcast<u32>(stat.x) == params.lowest));")
            }
            Of::Keys => {
                writeln!(out, "    // The first keys first: where attention is causal most queries see them.")?;
                writeln!(out, "    let row0 = number % params.blocks * ROWS;\n    let rest = number / params.blocks;")?;
                writeln!(out, "    let groups = params.heads / params.shared_heads;")?;
                writeln!(out, "    let b = rest / groups;\n    let group = rest - b * groups;")?;
                *out += &(place("k", "group") + &place("v", "group"));
                writeln!(out, "    let j = row0 + row;\n    let reach = params.queries;\n    var begin = 0u;")?;
                if self.causal {
                    writeln!(out, "    begin = u32(max(i32(row0) - params.shift, 0));")?;
                }
                Ok(())
            }
        }
    }

    fn open(&self, out: &mut String) -> std::fmt::Result {
        if self.of == Of::Queries {
            return Ok(());
        }
        writeln!(
            out,
            "        for (var h = group * params.shared_heads; h < (group + 1u) * params.shared_heads; h++) {{"
        )?;
        writeln!(out, "        let head = b * params.heads + h;")?;
        for name in ["q", "d"] {
            writeln!(
                out,
                "        let {name}_at = (params.{name}_offset + b * params.{name}_batch + h * params.{name}_head) / 4u;"
            )?;
        }
        Ok(())
    }

    /// Both staged operands from row `from`, to registers.
    fn fetch(&self, out: &mut String, from: &str, pad: &str) -> std::fmt::Result {
        for (which, places) in self.places().into_iter().enumerate() {
            let [load, at] = self.loads()[1][which];
            for (n, Quad { row, column, .. }) in places.into_iter().enumerate() {
                writeln!(out, "{pad}let next{which}_{n} = {load}({at}, {from} + {row}, {column});")?;
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut String, pad: &str) -> std::fmt::Result {
        for (which, places) in self.places().into_iter().enumerate() {
            for (n, quad) in places.into_iter().enumerate() {
                quad.write(out, &format!("next{which}_{n}"), pad)?;
            }
        }
        Ok(())
    }

    fn scores(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        for (which, matrices) in self.matrices().into_iter().enumerate() {
            let pitch = pitch_of(matrices) / 4;
            writeln!(out, "{PAD}var score{which} = Sum();")?;
            for k in 0..matrices {
                let at = which as u32 * self.second() + k * SIZE / 4;
                writeln!(out, "{PAD}let right{which}_{k} = coopLoad<Right>(&tile[{at}u], {pitch}u);")?;
                writeln!(out, "{PAD}score{which} = coopMultiplyAdd(own{which}_{k}, right{which}_{k}, score{which});")?;
            }
            writeln!(out, "{PAD}coopStoreT(score{which}, &scores[own_at + {}u], PITCH);", which as u32 * SIZE / 4)?;
        }
        Ok(())
    }

    fn pairs(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        let mut whole = match self.of {
            Of::Queries => "first + STREAMED <= params.keys",
            Of::Keys => "first + STREAMED <= params.queries",
        }
        .to_owned();
        if self.causal {
            whole += match self.of {
                Of::Queries => " && i32(first + STREAMED) <= i32(row0) + params.shift + 1",
                Of::Keys => " && i32(row0 + ROWS) <= i32(first) + params.shift + 1",
            };
        }
        if self.masked {
            whole = "false".to_owned();
        }
        for n in 0..SIZE / 8 {
            let (place, column) = (format!("at + {}u", 2 * n), format!("first + 4u * half + {}u", 8 * n));
            let (lse, delta) = match self.of {
                Of::Queries => {
                    writeln!(out, "{PAD}var shown{n} = shows;")?;
                    ("lse".to_owned(), "delta".to_owned())
                }
                Of::Keys => {
                    for c in 0..4 {
                        let query = format!("min({column} + {c}u, params.queries - 1u)");
                        writeln!(out, "{PAD}let stat{n}_{c} = stats[4u + head * params.queries + {query}];")?;
                    }
                    for (name, lane) in [("lse", "x"), ("delta", "y")] {
                        let each = [0, 1, 2, 3].map(|c| format!("stat{n}_{c}.{lane}")).join(", ");
                        writeln!(out, "{PAD}let {name}{n} = vec4<f32>({each});")?;
                    }
                    writeln!(out, "{PAD}var shown{n} = bitcast<vec4<u32>>(lse{n}) != vec4<u32>(params.lowest);")?;
                    (format!("lse{n}"), format!("delta{n}"))
                }
            };
            let seen = match self.of {
                Of::Queries => format!("seen(b, h, i, {column})"),
                Of::Keys => format!("seen_by(b, h, {column}, j)"),
            };
            writeln!(out, "{PAD}if !({whole}) {{ shown{n} = shown{n} & {seen}; }}")?;
            writeln!(out, "{PAD}let share{n} = share_of(scores[{place}], {lse}, shown{n});")?;
            if self.of == Of::Keys {
                writeln!(out, "{PAD}shares[{place}] = V(share{n});")?;
            }
            let slope = format!("share{n} * (scores[{place} + 4u] - {delta})");
            writeln!(out, "{PAD}shares[{place} + 4u] = V(select({slope}, vec4<f32>(), share{n} == vec4<f32>()));")?;
        }
        Ok(())
    }

    /// With care, staged elements that are not finite are others in products: each thread changes those that it put.
    fn tame(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "                ";
        if !self.hides() {
            return Ok(());
        }
        writeln!(out, "            if careful {{")?;
        for (which, places) in self.places().iter().enumerate() {
            if self.sums().iter().any(|sum| sum.staged == which) {
                places.iter().try_for_each(|quad| quad.write(out, &format!("tame(tile[{}])", quad.to), PAD))?;
            }
        }
        writeln!(out, "            }}")
    }

    /// Matrices of a sum that fit into a row of scores, group by group.
    fn groups(matrices: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
        (0..matrices).step_by(2).map(move |first| first..matrices.min(first + 2))
    }

    fn store_sums(out: &mut String, name: &str, group: std::ops::Range<u32>, pad: &str) -> std::fmt::Result {
        let first = group.start;
        group.into_iter().try_for_each(|f| {
            writeln!(out, "{pad}coopStoreT({name}{f}, &scores[own_at + {}u], PITCH);", (f - first) * SIZE / 4)
        })
    }

    /// What such elements give is added by way of the rows of scores, which nobody needs any more.
    fn rescale(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "                ";
        if !self.hides() {
            return Ok(());
        }
        writeln!(out, "            for (var round = 0u; round < u32(careful); round++) {{")?;
        for Sum { name, matrices, staged, .. } in self.sums() {
            let [_, from] = self.loads()[1][staged];
            for group in Kernel::groups(matrices) {
                writeln!(out, "{PAD}workgroupBarrier(); // the sums before have been read")?;
                Kernel::store_sums(out, name, group.clone(), PAD)?;
                writeln!(out, "{PAD}workgroupBarrier(); // sums are written")?;
                for n in 0..2 * group.len() as u32 {
                    let column = format!("{}u + half", group.start * SIZE / 4 + 2 * n);
                    writeln!(out, "{PAD}scores[at + {}u] += wild_{name}(row, {from}, first, {column});", 2 * n)?;
                }
                writeln!(out, "{PAD}workgroupBarrier(); // sums are changed")?;
                for f in group.clone() {
                    let at = (f - group.start) * SIZE / 4;
                    writeln!(out, "{PAD}{name}{f} = coopLoadT<Sum>(&scores[own_at + {at}u], PITCH);")?;
                }
            }
        }
        writeln!(out, "            }}")
    }

    fn add(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        for Sum { name, matrices, shares, staged, .. } in self.sums() {
            let pitch = pitch_of(matrices) / 4;
            writeln!(out, "{PAD}let left_{name} = coopLoadT<Left>(&shares[own_at + {shares}u], PITCH);")?;
            for f in 0..matrices {
                let at = staged as u32 * self.second() + f * SIZE / 4;
                writeln!(out, "{PAD}let right_{name}{f} = coopLoadT<Right>(&tile[{at}u], {pitch}u);")?;
                writeln!(out, "{PAD}{name}{f} = coopMultiplyAdd(left_{name}, right_{name}{f}, {name}{f});")?;
            }
        }
        Ok(())
    }

    fn store(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "        ";
        let (place, inside) = match self.of {
            Of::Queries => ("((b * params.queries + i) * params.heads + h)", "i < params.queries"),
            Of::Keys => ("((b * params.keys + j) * groups + group)", "j < params.keys"),
        };
        for Sum { name, matrices, result, length, times, .. } in self.sums() {
            writeln!(out, "{PAD}let {result}_at = (params.{result}_offset + {place} * params.{length}) / 4u;")?;
            for group in Kernel::groups(matrices) {
                writeln!(out, "{PAD}workgroupBarrier(); // what was there has been read")?;
                Kernel::store_sums(out, name, group.clone(), PAD)?;
                writeln!(out, "{PAD}workgroupBarrier(); // sums are written\n{PAD}if {inside} {{")?;
                for n in 0..2 * group.len() as u32 {
                    let column = format!("{}u + half", group.start * SIZE / 4 + 2 * n);
                    writeln!(out, "{PAD}    if 4u * ({column}) < params.{length} {{")?;
                    writeln!(out, "{PAD}        let sum = scores[at + {}u];", 2 * n)?;
                    writeln!(out, "{PAD}        x{result}[{result}_at + {column}] = V(sum{times});")?;
                    writeln!(out, "{PAD}        is_strange = is_strange || any(is_wild(sum));\n{PAD}    }}")?;
                }
                writeln!(out, "{PAD}}}")?;
            }
        }
        Ok(())
    }

    /// The entry point with its holes filled.
    fn main_text(&self) -> String {
        let mut text = include_str!("../../../../../wgsl/attention_cooperative_gradient.wgsl").to_owned();
        let mut fill = |hole: &str, write: &dyn Fn(&mut String) -> std::fmt::Result| fill(&mut text, hole, write);
        fill("OF_WILD", &|out| self.of_wild(out));
        fill("PLACE", &|out| self.place(out));
        fill("LOAD_OWN", &|out| {
            self.loads()[0]
                .iter()
                .zip(self.matrices())
                .zip(["own0_", "own1_"])
                .try_for_each(|(([load, at], matrices), name)| write_own(out, [*load, *at, "row0", name], matrices))
        });
        fill("SUMS", &|out| {
            let all = self.sums().into_iter().flat_map(|sum| (0..sum.matrices).map(move |f| (sum.name, f)));
            all.into_iter().try_for_each(|(name, f)| writeln!(out, "        var {name}{f} = Sum();"))
        });
        fill("OPEN", &|out| self.open(out));
        fill("FIRST", &|out| {
            self.fetch(out, "begin", "        ")?;
            self.put(out, "        ")
        });
        fill("SCORES", &|out| self.scores(out));
        fill("PAIRS", &|out| self.pairs(out));
        fill("TAME", &|out| self.tame(out));
        fill("RESCALE", &|out| self.rescale(out));
        fill("FETCH", &|out| self.fetch(out, "first + STREAMED", "            "));
        fill("ADD", &|out| self.add(out));
        fill("PUT", &|out| self.put(out, "            "));
        fill("CLOSE", &|out| if self.of == Of::Keys { writeln!(out, "        }}") } else { Ok(()) });
        fill("STORE", &|out| self.store(out));
        text
    }
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut body = String::new();
        let mut bindings = Vec::new();
        // Formatting into a String cannot fail.
        let _ = self.write_head(&mut body, &mut bindings);
        body += &self.main_text();
        let of = if self.of == Of::Queries { "queries" } else { "keys" };
        let name = format!("attention_{of}_cooperative_f16_{}x{}", self.deep * SIZE, self.across * SIZE);
        Source { name, wgsl: whole_text(&[self.mask], &body), bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        // With care, each staged element is looked at.
        let quads: u32 = self.sums().iter().map(|sum| sum.matrices * SIZE / 8).sum();
        let wild = looped(1, u64::from(quads) * looped(SIZE.into(), 0));
        let word = |name: &str| super::super::word(&self.sums, params, name);
        let rounds = |name: &str| looped(word(name).div_ceil(SIZE.into()), wild);
        match self.of {
            Of::Queries => looped(2, rounds("keys")),
            Of::Keys => looped(2, looped(word("shared_heads"), rounds("queries"))),
        }
    }
}
