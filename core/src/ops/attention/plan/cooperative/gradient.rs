//! The gradient of attention of f16 on cooperative matrices: the kernel of dq and that of dk and dv, one text with its holes filled,
//! `wgsl/attention_cooperative_gradient.wgsl`. Delta is the plain kernel's.
//!
//! The decision to know: a workgroup keeps its own rows of two operands in registers, and of the others' rows takes 16 a round, so that both of their
//! operands are staged at once in what forward needs for 32 keys.

use std::fmt::Write;

use super::{PAD, Quad, ROWS, SIZE, STAGED, TEXT, THREADS, pitch_of, place_quads, quads, shown, whole_text, write_own};
use crate::ops::AttentionGradient;
use crate::ops::attention::plan::text;
use crate::plan::{Access, Caps, KernelText, Source, looped};
use crate::wgsl::element::Element;
use crate::wgsl::pieces::{fill, holes, lines};

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
        *out += &text::params("f32");
        for name in ["xq", "xk", "xv", "xd"] {
            *out += &quads(bindings, name, Access::Read);
        }
        *out += &shown(bindings, masked.then_some(self.mask));
        // lse and delta of each query, behind four pairs that hold the key of dropout.
        bindings.push(Access::Read);
        writeln!(out, "@group(0) @binding({}) var<storage, read> stats: array<vec2<f32>>;", bindings.len())?;
        for sum in self.sums() {
            *out += &quads(bindings, &format!("x{}", sum.result), Access::ReadWrite);
        }
        Ok(())
    }

    /// What a row of shares gives of staged elements that are not finite.
    fn of_wild(&self) -> String {
        let wild = |Sum { name, shares, staged, .. }: Sum| {
            let [load, _] = self.loads()[1][staged];
            TEXT.fill("wild", holes!(name, shares, load))
        };
        let all: String = self.sums().into_iter().map(wild).collect();
        if self.of == Of::Keys { all + TEXT.get("sees") } else { all }
    }

    fn place(&self) -> String {
        let place = |name: &str, head: &str| TEXT.fill("place", holes!(name, head));
        let when_causal = |piece: &str| if self.causal { TEXT.get(piece) } else { "" };
        match self.of {
            Of::Queries => {
                let places = place("q", "h") + &place("d", "h") + &place("k", "group") + &place("v", "group");
                TEXT.fill("place of queries", holes!(places, causal = when_causal("causal reach")))
            }
            Of::Keys => {
                let places = place("k", "group") + &place("v", "group");
                TEXT.fill("place of keys", holes!(places, causal = when_causal("causal begin")))
            }
        }
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

    fn pairs(&self) -> String {
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
        let pair = |n: u32| {
            let (place, column) = (format!("at + {}u", 2 * n), format!("first + 4u * half + {}u", 8 * n));
            let piece = if self.of == Of::Keys { "pair of keys" } else { "pair of queries" };
            TEXT.fill(piece, holes!(n, column, whole, place))
        };
        (0..SIZE / 8).map(pair).collect()
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
                    let (inside, at) = (format!("if 4u * ({column}) < params.{length} "), 2 * n);
                    let (target, place) = (format!("x{result}"), format!("{result}_at"));
                    *out += &TEXT.fill("store quad", holes!(inside, at, target, place, column, times));
                }
                writeln!(out, "{PAD}}}")?;
            }
        }
        Ok(())
    }

    /// The entry point with its holes filled.
    fn main_text(&self) -> String {
        let mut own = self.loads()[0].into_iter().zip(self.matrices()).zip(["own0_", "own1_"]);
        let sums = self.sums().into_iter().flat_map(|sum| (0..sum.matrices).map(move |f| (sum.name, f)));
        let when_keys = |piece: &str| if self.of == Of::Keys { TEXT.get(piece) } else { "" };
        fill(
            include_str!("../../../../../wgsl/attention_cooperative_gradient.wgsl"),
            holes!(
                OF_WILD = self.of_wild(),
                PLACE = self.place(),
                LOAD_OWN = lines(|out| {
                    own.try_for_each(|(([load, at], matrices), name)| {
                        write_own(out, [load, at, "row0", name], matrices)
                    })
                }),
                SUMS = sums.map(|(name, f)| format!("        var {name}{f} = Sum();\n")).collect::<String>(),
                OPEN = when_keys("heads of group"),
                FIRST = lines(|out| {
                    self.fetch(out, "begin", "        ")?;
                    self.put(out, "        ")
                }),
                SCORES = lines(|out| self.scores(out)),
                PAIRS = self.pairs(),
                TAME = lines(|out| self.tame(out)),
                RESCALE = lines(|out| self.rescale(out)),
                FETCH = lines(|out| self.fetch(out, "first + STREAMED", "            ")),
                ADD = lines(|out| self.add(out)),
                PUT = lines(|out| self.put(out, "            ")),
                CLOSE = when_keys("end of heads"),
                STORE = lines(|out| self.store(out)),
            ),
        )
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
