//! Kernels whose elements follow from their positions alone: one launch of `wgsl/elements.wgsl` around the text of a [`ElementRule`].
//!
//! Padding, joining, gathering and searching differ in what an element is made of, and in nothing else. Elements that only
//! move are words, halves or bytes, so that every bit survives; those of 8 bytes are two words, each with a position of its own.

use crate::{DType, Error, Result, TensorSpec};

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, pieces};

/// What an element of each result is, and how quads of them are stored.
pub(crate) const TEXT: Pieces = pieces!("elements.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;

/// What an element is made of: part of a kernel's key.
pub(crate) trait ElementRule: Clone + std::fmt::Debug + Eq + std::hash::Hash + Send + Sync + 'static {
    /// The kernel's name, without that of its elements.
    fn name(&self) -> String;
    /// The members of `Params` that are its own, in order.
    fn members(&self) -> Vec<String>;
    /// What it reads beside elements: the name of each buffer and how it is stored, in the order of the operands.
    fn reads(&self) -> Vec<(String, Element)>;
    /// `element_at(i)`, and the functions that it calls.
    fn text(&self) -> String;
    /// Rounds that the loops of one element make.
    fn rounds(&self, word: &dyn Fn(&str) -> u64) -> u64;
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kernel<R> {
    rule: R,
    element: Element,
    /// Quads, but for 8-byte elements that are computed with and start in the middle of one.
    form: Form,
    threads: u32,
}

impl<R: ElementRule> KernelText for Kernel<R> {
    fn source(&self) -> Source {
        let rule = &self.rule;
        let reads = rule.reads();
        let elements: Vec<Element> = reads.iter().map(|(_, element)| *element).chain([self.element]).collect();
        let mut head = element::prelude(&elements);
        head += &format!("const THREADS = {}u;\nalias Value = {};\n\n", self.threads, self.element.scalar());
        head += &uniform(OWN.map(str::to_owned).into_iter().chain(rule.members()));
        let mut bindings = Vec::new();
        for (name, element) in &reads {
            bindings.push(Access::Read);
            head += &element.storage(bindings.len() as u32, name, Form::Scalar, Access::Read);
        }
        bindings.push(Access::ReadWrite);
        head += &self.element.storage(bindings.len() as u32, "y", self.form, Access::ReadWrite);
        let put = TEXT.get(if self.form == Form::Quad { "put quads" } else { "put elements" });
        let body = ["\n", put, &rule.text(), "\n", include_str!("../../wgsl/elements.wgsl")].concat();
        let form = if self.form == Form::Quad { "" } else { "_from_half_a_quad" };
        let name = format!("{}_{}{form}", rule.name(), self.element.dtype());
        Source { name, wgsl: head + &math::library(&body) + &body, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let members = self.rule.members();
        let word = |name: &str| {
            let at = members.iter().position(|member| member == name);
            at.and_then(|at| params.get(OWN.len() + at)).map_or(u64::from(u32::MAX), |&word| word.into())
        };
        self.rule.rounds(&word).saturating_mul(4)
    }
}

/// What comes before a rule's members in `Params`.
const OWN: [&str; 4] = ["quads", "tail", "last", "y_offset"];

/// Words of an element of this size that is moved and not computed with.
pub(crate) fn words(dtype: DType) -> u64 {
    dtype.size_bytes().div_ceil(4)
}

/// Of `extent` places those that a word of `dtype` may name where kernels read it as unsigned: a negative i32 is a number from 2^31 on, and
/// names none.
pub(crate) fn named(dtype: DType, extent: u64) -> u64 {
    if dtype == DType::I32 { extent.min(1 << 31) } else { extent }
}

/// The words of an element's bytes, low word first, where it is moved: as many as [`words`] says.
pub(crate) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(4).map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)))
}

/// The plan that writes `output` in units of `element` (two for elements that are moved as two words), by `rule` with `params`.
/// `reached` is the largest number of units that an index counts, of every operand.
pub(crate) fn plan(
    name: &'static str,
    rule: impl ElementRule,
    (output, element): (&TensorSpec, Element),
    params: &[u32],
    reached: u64,
    caps: &Caps,
) -> Result<Plan> {
    let units = output.dtype.size_bytes() / element.dtype().size_bytes();
    let (total, offset) = (output.layout.elements() * units, output.layout.offset() * units);
    let reached = reached.max(total.saturating_add(offset));
    // The last quad's places are counted before they are limited.
    if reached > u64::from(u32::MAX) - 3 {
        return Err(Error::IndexWidth { op: name, elements: reached, max: u64::from(u32::MAX) - 3 });
    }
    let inputs = rule.reads().len();
    if inputs + 1 > caps.max_storage_buffers as usize {
        let reason = format!("it takes {} buffers, {} fit one kernel", inputs + 1, caps.max_storage_buffers);
        return Err(caps.unsupported(name, reason));
    }
    let form = if offset.is_multiple_of(4) { Form::Quad } else { Form::Scalar };
    let kernel = Kernel { rule, element, form, threads: THREADS.min(caps.max_invocations) };
    let quads = total.div_ceil(4);
    let mut all = vec![quads as u32, (total % 4) as u32, total.saturating_sub(1) as u32, offset as u32];
    all.extend(params);
    all.resize(all.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(quads.div_ceil(kernel.threads.into()))?;
    let bindings = (0..inputs).map(Slot::Input).chain([Slot::Output(0)]).collect();
    let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params: all };
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

/// `let {prefix}0 = ...`: the coordinates of number `{prefix}` in the dimensions `params.d0`, `params.d1`, ...
pub(crate) fn coordinates(prefix: &str, rank: usize) -> String {
    let (mut text, mut rest) = (String::new(), prefix.to_owned());
    for dim in (1..rank).rev() {
        text += &format!("    let {prefix}r{dim} = {rest} / params.d{dim};\n");
        text += &format!("    let {prefix}{dim} = {rest} - {prefix}r{dim} * params.d{dim};\n");
        rest = format!("{prefix}r{dim}");
    }
    text + &format!("    let {prefix}0 = {rest};\n")
}

/// The members `d0`, `d1`, ...
pub(crate) fn extents(rank: usize) -> impl Iterator<Item = String> {
    (0..rank).map(|dim| format!("d{dim}"))
}

/// The members of one view: its offset, then its strides, by this name.
pub(crate) fn view(name: &str, rank: usize) -> Vec<String> {
    [format!("{name}_offset")].into_iter().chain((0..rank).map(|dim| format!("{name}_s{dim}"))).collect()
}

/// Where the coordinates `{prefix}0`, ... lead in that view.
pub(crate) fn place(name: &str, prefix: &str, rank: usize) -> String {
    let steps = (0..rank).map(|dim| format!(" + {prefix}{dim} * params.{name}_s{dim}"));
    format!("params.{name}_offset") + &steps.collect::<String>()
}

/// The words of a view: strides may be negative, offsets wrap, sums do not.
pub(crate) fn view_words(offset: u64, strides: &[i64]) -> impl Iterator<Item = u32> {
    [offset as u32].into_iter().chain(strides.iter().map(|&stride| stride as u32))
}
