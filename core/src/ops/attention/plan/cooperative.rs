//! Attention of f16 on cooperative matrices: which operations it serves, and the kernel of the forward pass,
//! `wgsl/attention_cooperative.wgsl` with its holes filled. That of the gradient is in `cooperative/gradient.rs`.
//!
//! The decision to know: WGSL cannot look into a matrix, so scores and probabilities pass through workgroup memory, and sums of values stay
//! in registers until a row's mark is raised. Matrices, and the quads that a thread moves, are variables of their own and not arrays.

pub(super) mod gradient;

use std::fmt::Write;

use super::{Frame, Places, text};
use crate::ops::Attention;
use crate::plan::{Access, Caps, Cooperative, KernelKey, KernelText, Launch, Plan, Slot, Source, looped};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::pieces::{Pieces, fill, holes, lines, pieces};
use crate::{DType, Operation, Result};

/// Parts of both kernels that are the same whatever is unrolled.
const TEXT: Pieces = pieces!("attention_cooperative.wgsl");

/// What this way is called among the candidates.
pub(super) const NAME: &str = "attention_cooperative";

/// Rows and columns of a matrix, and rows of scores of a subgroup.
const SIZE: u32 = 16;
/// Threads of a subgroup: two for each row.
const LANES: u32 = 2 * SIZE;
/// Subgroups of a workgroup, and its queries.
const SUBGROUPS: u32 = 4;
const ROWS: u32 = SUBGROUPS * SIZE;
const THREADS: u32 = SUBGROUPS * LANES;
/// Matrices across that a workgroup adds up values in: 64 registers of a thread.
const MOST_ACROSS: u32 = 8;
/// Elements by which rows of workgroup memory are longer than what they hold.
const PAD: u32 = 8;
/// Elements of queries that are staged at a time.
const STAGED: u32 = 32;
/// Beyond this much workgroup memory an H200's driver keeps one workgroup on a processor, not two (docs/gemm/vulkan.md).
const TWO_FIT_BYTES: u32 = 24 << 10;
/// Keys of a round, what is best first.
const KEYS: [u32; 2] = [32, 16];

/// Scales that are served: with them neither the scores of hidden pairs nor scores in base 2 are of another kind than they were.
const SCALES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// What kernels do in a nanosecond on an H100: estimates. Of little work none of them is the better one.
const FLOPS_PER_NS: f64 = 100e3;
const PLAIN_FLOPS_PER_NS: f64 = 12e3;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kernel {
    /// Of lse.
    sums: Element,
    mask: Element,
    /// Keys of a round.
    keys: u32,
    /// Matrices along a head's query and key, and across the values that a workgroup adds up.
    deep: u32,
    across: u32,
    /// Workgroups that share the values of a head.
    parts: u32,
    /// Whether matrices are whole.
    exact: [bool; 2],
    causal: bool,
    masked: bool,
}

/// The plan on cooperative matrices; none where they do not serve.
pub(super) fn forward(op: &Attention, caps: &Caps) -> Result<Option<Plan>> {
    if !serves(op, caps) {
        return Ok(None);
    }
    let frame = match Frame::new(op, NAME, &[&op.out, &op.lse], caps) {
        Err(error) if error.is_unsupported() => return Ok(None),
        frame => frame?,
    };
    let dims = op.dims();
    let whole = |n: u64| (n as u32).div_ceil(SIZE);
    let parts = whole(dims.width).div_ceil(MOST_ACROSS);
    let across = whole(dims.width).div_ceil(parts);
    let kernel = |keys: u32| Kernel {
        sums: frame.sums,
        mask: frame.mask,
        keys,
        deep: whole(dims.size),
        across,
        parts,
        exact: [dims.size.is_multiple_of(SIZE.into()), dims.width.is_multiple_of((across * SIZE).into())],
        causal: op.causal,
        masked: op.mask.is_some(),
    };
    let room = TWO_FIT_BYTES.min(caps.max_workgroup_bytes);
    let Some(kernel) = KEYS.map(kernel).into_iter().find(|kernel| kernel.workgroup_bytes() <= room) else {
        return Ok(None);
    };
    let blocks = dims.queries.div_ceil(ROWS.into());
    let workgroups = dims.batch * dims.heads * u64::from(parts) * blocks;
    let mut launches = Vec::new();
    if workgroups > 0 {
        let places = Places { o: Some(&op.out), lse: Some(&op.lse), ..Places::default() };
        let mut bindings = frame.reads([0, 1, 2].map(Slot::Input).to_vec());
        bindings.extend([Slot::Output(0), Slot::Output(1)]);
        let params = frame.params(&places, [workgroups, blocks]);
        launches.push(Launch { kernel: KernelKey::own(kernel), grid: caps.fold_grid(workgroups)?, bindings, params });
    }
    Ok(Some(Plan { launches, scratch_bytes: Vec::new() }))
}

/// What `op` is expected to take on these kernels, and on the plain ones.
pub(super) fn expected_ns(op: &dyn Operation) -> [f64; 2] {
    [FLOPS_PER_NS, PLAIN_FLOPS_PER_NS].map(|rate| op.arithmetic().flops as f64 / rate)
}

/// Products of matrices of f16 that add in f32, subgroups of a known size, and heads that are whole quads wherever they lie.
fn serves(op: &Attention, caps: &Caps) -> bool {
    let product = Cooperative { size: SIZE, factors: DType::F16, sum: DType::F32 };
    let dims = op.dims();
    let aligned = [&op.q, &op.k, &op.v, &op.out].into_iter().all(super::is_in_quads);
    op.q.dtype == DType::F16
        && caps.f16
        && caps.cooperative.contains(&product)
        && caps.subgroups == Some((LANES, LANES))
        && caps.max_invocations >= THREADS
        && op.has_short_heads()
        && dims.size.min(dims.width) > 0
        && op.dropout.is_none()
        && SCALES.contains(&op.scale)
        && aligned
}

impl Kernel {
    /// Elements from row to row of keys, or of values.
    fn key_pitch(&self) -> u32 {
        pitch_of(self.deep)
    }

    fn value_pitch(&self) -> u32 {
        pitch_of(self.across)
    }

    /// The same of scores and shares.
    fn pitch(&self) -> u32 {
        self.keys + PAD
    }

    /// Elements of the tile that queries, keys and values have in turn.
    fn tile(&self) -> u32 {
        (ROWS * (STAGED + PAD)).max(self.keys * self.key_pitch().max(self.value_pitch()))
    }

    fn workgroup_bytes(&self) -> u32 {
        bytes_of(self.tile(), self.pitch())
    }

    /// Matrices beside each other in a row of scores.
    fn beside(&self) -> u32 {
        self.keys / SIZE
    }

    /// Matrices of sums that fit into a row of scores, group by group.
    fn groups(&self) -> impl Iterator<Item = std::ops::Range<u32>> + use<> {
        let (beside, across) = (self.beside(), self.across);
        (0..across).step_by(beside as usize).map(move |first| first..across.min(first + beside))
    }

    fn write_head(&self, out: &mut String, bindings: &mut Vec<Access>) -> std::fmt::Result {
        let Kernel { keys, across, parts, causal, masked, .. } = *self;
        writeln!(out, "const THREADS = {THREADS}u;\nconst ROWS = {ROWS}u;\nconst KEYS = {keys}u;")?;
        writeln!(out, "const COLUMNS = {}u;\nconst PARTS = {parts}u;", across * SIZE)?;
        // In quads.
        writeln!(out, "const TILE = {}u;\nconst PITCH = {}u;", self.tile() / 4, self.pitch() / 4)?;
        writeln!(out, "const CAUSAL = {causal};\nconst MASKED = {masked};\nconst HIDES = {};", causal || masked)?;
        let [size, width] = self.exact;
        writeln!(out, "const EXACT_SIZE = {size};\nconst EXACT_WIDTH = {width};")?;
        *out += &text::params("f32");
        for name in ["xq", "xk", "xv"] {
            *out += &quads(bindings, name, Access::Read);
        }
        *out += &shown(bindings, masked.then_some(self.mask));
        *out += &quads(bindings, "xo", Access::ReadWrite);
        bindings.push(Access::ReadWrite);
        *out += &self.sums.storage(bindings.len() as u32, "lse", Form::Scalar, Access::ReadWrite);
        Ok(())
    }

    /// The quads of a block of keys or values that a thread owns.
    fn quads(&self, of_values: bool) -> Vec<Quad> {
        place_quads(self.keys, if of_values { self.across } else { self.deep }, 0)
    }

    /// Keys, or values, that begin at row `from`, to registers.
    fn fetch(&self, out: &mut String, of_values: bool, from: &str, pad: &str) -> std::fmt::Result {
        for (n, Quad { row, column, .. }) in self.quads(of_values).into_iter().enumerate() {
            let value = if of_values {
                format!("value(v_at, {from} + {row}, column0 + {column})")
            } else {
                format!("key(k_at, {from} + {row}, {column})")
            };
            writeln!(out, "{pad}let {}{n} = {value};", if of_values { "value" } else { "next" })?;
        }
        Ok(())
    }

    /// What was fetched to the tile.
    fn put(&self, out: &mut String, of_values: bool, pad: &str) -> std::fmt::Result {
        let name = if of_values { "value" } else { "next" };
        let places = self.quads(of_values);
        let write = |out: &mut String, is_tame: bool, pad: &str| -> std::fmt::Result {
            places.iter().enumerate().try_for_each(|(n, quad)| {
                let value = if is_tame { format!("tame({name}{n})") } else { format!("{name}{n}") };
                quad.write(out, &value, pad)
            })
        };
        if !(of_values && (self.causal || self.masked)) {
            return write(out, false, pad);
        }
        let deeper = format!("{pad}    ");
        writeln!(out, "{pad}if careful {{")?;
        write(out, true, &deeper)?;
        writeln!(out, "{pad}}} else {{")?;
        write(out, false, &deeper)?;
        writeln!(out, "{pad}}}")
    }

    fn scores(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        let pitch = self.key_pitch();
        for f in 0..self.beside() {
            writeln!(out, "{PAD}var score{f} = Sum();")?;
        }
        for k in 0..self.deep {
            for f in 0..self.beside() {
                let at = (f * SIZE * pitch + k * SIZE) / 4;
                writeln!(out, "{PAD}let key{f}_{k} = coopLoad<Right>(&tile[{at}u], {}u);", pitch / 4)?;
                writeln!(out, "{PAD}score{f} = coopMultiplyAdd(query{k}, key{f}_{k}, score{f});")?;
            }
        }
        for f in 0..self.beside() {
            writeln!(out, "{PAD}coopStoreT(score{f}, &scores[own_at + {}u], PITCH);", f * SIZE / 4)?;
        }
        Ok(())
    }

    fn softmax(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        let quads = self.keys / 8;
        for n in 0..quads {
            writeln!(out, "{PAD}var score_{n} = scores[at + {}u];", 2 * n)?;
        }
        let mut whole = "key0 + KEYS <= params.keys".to_owned();
        if self.causal {
            whole += " && i32(key0 + KEYS) <= i32(row0) + params.shift + 1";
        }
        if self.masked {
            whole = "false".to_owned();
        }
        let scores = (0..quads).map(|n| TEXT.fill("scores where seen", holes!(n, first = 8 * n)));
        *out += &TEXT.fill("seen", holes!(whole, scores = scores.collect::<String>()));
        let fold = |name: &str, join: &dyn Fn(&str, &str) -> String| {
            let mut terms: Vec<String> = (0..quads).map(|n| format!("{name}_{n}")).collect();
            while terms.len() > 1 {
                let pairs = terms.chunks(2).map(|pair| match pair {
                    [a, b] => join(a, b),
                    rest => rest.concat(),
                });
                terms = pairs.collect();
            }
            terms.concat()
        };
        *out += &TEXT.fill("mark", holes!(high = fold("score", &|a, b| format!("max({a}, {b})"))));
        for n in 0..quads {
            *out += &TEXT.fill("share", holes!(n, at = 2 * n));
        }
        *out += &TEXT.fill("total", holes!(whole = fold("share", &|a, b| format!("({a} + {b})"))));
        Ok(())
    }

    /// All sums by way of the rows of scores, which nobody needs any more, each row times its factor.
    fn rescale(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "                ";
        for (number, group) in self.groups().enumerate() {
            if number > 0 {
                writeln!(out, "{PAD}workgroupBarrier(); // the sums before have been read")?;
            }
            self.store_sums(out, group.clone(), PAD)?;
            writeln!(out, "{PAD}workgroupBarrier(); // sums are written")?;
            for n in 0..2 * group.len() as u32 {
                let place = format!("at + {}u", 2 * n);
                writeln!(out, "{PAD}scores[{place}] *= shrink;")?;
                if self.causal || self.masked {
                    let column = format!("column0 + {}u + half", group.start * SIZE / 4 + 2 * n);
                    writeln!(out, "{PAD}if careful {{ scores[{place}] += wild_sum(row, v_at, key0, {column}); }}")?;
                }
            }
            writeln!(out, "{PAD}workgroupBarrier(); // sums are changed")?;
            for f in group.clone() {
                let at = (f - group.start) * SIZE / 4;
                writeln!(out, "{PAD}sum{f} = coopLoadT<Sum>(&scores[own_at + {at}u], PITCH);")?;
            }
        }
        Ok(())
    }

    fn store_sums(&self, out: &mut String, group: std::ops::Range<u32>, pad: &str) -> std::fmt::Result {
        let first = group.start;
        group.into_iter().try_for_each(|f| {
            writeln!(out, "{pad}coopStoreT(sum{f}, &scores[own_at + {}u], PITCH);", (f - first) * SIZE / 4)
        })
    }

    fn add(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "            ";
        let pitch = self.value_pitch();
        for k in 0..self.beside() {
            writeln!(out, "{PAD}let shares{k} = coopLoadT<Left>(&shares[own_at + {}u], PITCH);", k * SIZE / 4)?;
            for f in 0..self.across {
                let at = (k * SIZE * pitch + f * SIZE) / 4;
                writeln!(out, "{PAD}let values{k}_{f} = coopLoadT<Right>(&tile[{at}u], {}u);", pitch / 4)?;
                writeln!(out, "{PAD}sum{f} = coopMultiplyAdd(shares{k}, values{k}_{f}, sum{f});")?;
            }
        }
        Ok(())
    }

    fn store(&self, out: &mut String) -> std::fmt::Result {
        const PAD: &str = "        ";
        for group in self.groups() {
            self.store_sums(out, group.clone(), PAD)?;
            writeln!(out, "{PAD}workgroupBarrier(); // sums are written\n{PAD}if i < params.queries {{")?;
            for n in 0..2 * group.len() as u32 {
                let column = format!("column0 + {}u + half", group.start * SIZE / 4 + 2 * n);
                let inside = if self.exact[1] { String::new() } else { format!("if 4u * ({column}) < params.width ") };
                let (at, target, place, times) = (2 * n, "xo", "out_at", " * inverse");
                *out += &TEXT.fill("store quad", holes!(inside, at, target, place, column, times));
            }
            writeln!(out, "{PAD}}}\n{PAD}workgroupBarrier(); // sums have been read")?;
        }
        Ok(())
    }

    /// The entry point with its holes filled.
    fn main_text(&self) -> String {
        fill(
            include_str!("../../../../wgsl/attention_cooperative.wgsl"),
            holes!(
                LOAD_QUERIES = lines(|out| write_own(out, ["query", "q_at", "row0", "query"], self.deep)),
                FIRST_KEYS = lines(|out| {
                    self.fetch(out, false, "0u", "        ")?;
                    self.put(out, false, "        ")
                }),
                SUMS = (0..self.across).map(|f| format!("        var sum{f} = Sum();\n")).collect::<String>(),
                FETCH_VALUES = lines(|out| self.fetch(out, true, "key0", "            ")),
                SCORES = lines(|out| self.scores(out)),
                PUT_VALUES = lines(|out| self.put(out, true, "            ")),
                SOFTMAX = lines(|out| self.softmax(out)),
                RESCALE = lines(|out| self.rescale(out)),
                FETCH_KEYS = lines(|out| self.fetch(out, false, "key0 + KEYS", "            ")),
                ADD = lines(|out| self.add(out)),
                PUT_KEYS = lines(|out| self.put(out, false, "            ")),
                STORE = lines(|out| self.store(out)),
            ),
        )
    }
}

/// Bytes of a tile of so many elements, rows of scores and shares so many elements apart, and the flags.
fn bytes_of(tile: u32, pitch: u32) -> u32 {
    2 * tile + (4 + 2) * ROWS * pitch + 4 * 4
}

/// A quad of a block of rows that a thread moves: its place in the tile, its row and column.
struct Quad {
    to: String,
    row: String,
    column: String,
    /// The number of the first quad of this pass and that of all, where they are fewer than threads.
    guard: Option<(u32, u32)>,
}

impl Quad {
    /// Puts `value` there.
    fn write(&self, out: &mut String, value: &str, pad: &str) -> std::fmt::Result {
        let to = &self.to;
        match self.guard {
            None => writeln!(out, "{pad}tile[{to}] = {value};"),
            Some((first, units)) => writeln!(out, "{pad}if thread + {first}u < {units}u {{ tile[{to}] = {value}; }}"),
        }
    }
}

/// The quads that a thread owns of `rows` rows of so many matrices, which begin at quad `base` of the tile.
fn place_quads(rows: u32, matrices: u32, base: u32) -> Vec<Quad> {
    let (quads, pitch) = (matrices * SIZE / 4, pitch_of(matrices) / 4);
    let units = rows * quads;
    let base = if base > 0 { format!("{base}u + ") } else { String::new() };
    let pass = |pass: u32| {
        let first = pass * THREADS;
        let (row, column) = if THREADS.is_multiple_of(quads) {
            (format!("(thread / {quads}u + {}u)", first / quads), format!("thread % {quads}u"))
        } else {
            (format!("((thread + {first}u) / {quads}u)"), format!("(thread + {first}u) % {quads}u"))
        };
        let guard = (first + THREADS > units).then_some((first, units));
        Quad { to: format!("{base}{row} * {pitch}u + {column}"), row, column, guard }
    };
    (0..units.div_ceil(THREADS)).map(pass).collect()
}

/// Elements from row to row of the tile, of rows of so many matrices.
fn pitch_of(matrices: u32) -> u32 {
    matrices * SIZE + PAD
}

/// The workgroup's own rows, which begin at `row0`, by way of the tile to matrices `name`n, which stay in registers.
fn write_own(out: &mut String, [load, at, row0, name]: [&str; 4], matrices: u32) -> std::fmt::Result {
    let (quads, pitch) = (STAGED / 4, (STAGED + PAD) / 4);
    for first in (0..matrices).step_by((STAGED / SIZE) as usize) {
        writeln!(out, "    workgroupBarrier(); // the tile is free")?;
        for pass in 0..ROWS * quads / THREADS {
            let row = format!("(thread / {quads}u + {}u)", pass * THREADS / quads);
            let quad = format!("{load}({at}, {row0} + {row}, {}u + thread % {quads}u)", first * SIZE / 4);
            writeln!(out, "    tile[{row} * {pitch}u + thread % {quads}u] = {quad};")?;
        }
        writeln!(out, "    workgroupBarrier(); // own rows are there")?;
        for n in first..matrices.min(first + STAGED / SIZE) {
            let at = (n - first) * SIZE / 4;
            writeln!(out, "    let {name}{n} = coopLoadT<Left>(&tile[own * {pitch}u + {at}u], {pitch}u);")?;
        }
    }
    Ok(())
}

/// A buffer of f16 as it is: not by way of f32.
fn quads(bindings: &mut Vec<Access>, name: &str, access: Access) -> String {
    bindings.push(access);
    let mode = if access == Access::Read { "read" } else { "read_write" };
    format!("@group(0) @binding({}) var<storage, {mode}> {name}: array<vec4<f16>>;\n", bindings.len())
}

/// The mask, where there is one, and `is_shown`.
fn shown(bindings: &mut Vec<Access>, mask: Option<Element>) -> String {
    let storage = mask.map_or(String::new(), |mask| {
        bindings.push(Access::Read);
        mask.storage(bindings.len() as u32, "xm", Form::Scalar, Access::Read)
    });
    storage + text::shown(mask.is_some())
}

/// A kernel of this body behind its features, and what it calls.
fn whole_text(elements: &[Element], body: &str) -> String {
    let parts = include_str!("../../../../wgsl/attention_cooperative_parts.wgsl");
    let (prelude, library) = (element::prelude(elements), math::library(body));
    format!("enable f16;\nenable wgpu_cooperative_matrix;\n{prelude}{library}{parts}\n{body}")
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut body = String::new();
        let mut bindings = Vec::new();
        // Formatting into a String cannot fail.
        let _ = self.write_head(&mut body, &mut bindings);
        body += &self.main_text();
        let name = format!("{NAME}_f16_{}x{}", self.deep * SIZE, self.across * SIZE);
        Source { name, wgsl: whole_text(&[self.sums, self.mask], &body), bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let rounds = super::word(&self.sums, params, "keys").div_ceil(self.keys.into());
        // With care, each value is looked at.
        let wild = u64::from(self.across * SIZE / 8) * looped(self.keys.into(), 0);
        looped(2, looped(rounds, looped(1, wild)))
    }
}

#[cfg(test)]
mod tests;
