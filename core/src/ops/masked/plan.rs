//! What a mask is true for: positions, elements chosen, elements put. A launch of `wgsl/masked_count.wgsl`, then one of `wgsl/masked.wgsl`.
//!
//! Elements move as words, halves or bytes, those of 8 bytes as two words. An empty mask chooses nothing, which is a fill.

use crate::ops::{Map, MaskedScatter, MaskedSelect, Nonzero};
use crate::plan::looped;
use crate::{DType, Error, Expr, Operation, Program, Result, Scalar, TensorSpec};

use crate::ops::elements::{words, words_of};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("masked.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Neighbours that an invocation counts: a block of 4096 elements, so that counts of 2^24 elements are read in 16 rounds.
const RUN: u64 = 16;

/// What is made of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    Count,
    Positions,
    Select,
    Scatter,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    way: Way,
    mask: Element,
    /// What moves.
    element: Element,
    /// Words of an element of the operands.
    words: u64,
    threads: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let word = Element::raw(4);
        let mut text = element::prelude(&[self.mask, word, self.element]);
        text += &format!("const THREADS = {}u;\nconst RUN = {RUN}u;\n\n", self.threads);
        text += &uniform(PARAMS);
        let counts = if self.way == Way::Count { Access::ReadWrite } else { Access::Read };
        let mut bindings = Vec::new();
        let mut storage = |element: Element, name: &str, access: Access| {
            bindings.push(access);
            element.storage(bindings.len() as u32, name, Form::Scalar, access)
        };
        text += &storage(self.mask, "mask", Access::Read);
        text += &storage(word, "counts", counts);
        if matches!(self.way, Way::Select | Way::Scatter) {
            text += &storage(self.element, "x", Access::Read);
        }
        if self.way == Way::Scatter {
            text += &storage(self.element, "source", Access::Read);
        }
        if self.way != Way::Count {
            text += &storage(self.element, "y", Access::ReadWrite);
        }
        text += "\n";
        text += &self.holes();
        text += match self.way {
            Way::Count => include_str!("../../../wgsl/masked_count.wgsl"),
            Way::Positions | Way::Select | Way::Scatter => include_str!("../../../wgsl/masked.wgsl"),
        };
        let name = match self.way {
            Way::Count => return Source { name: "masked_count".to_owned(), wgsl: text, bindings },
            Way::Positions => "masked_positions",
            Way::Select => "masked_select",
            Way::Scatter => "masked_scatter",
        };
        let name = format!("{name}_{}bit", 8 * self.words * self.element.dtype().size_bytes());
        Source { name, wgsl: text, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| params.get(at).map_or(u64::from(u32::MAX), |&word| word.into());
        let threads = u64::from(self.threads);
        if self.way == Way::Count {
            return looped(RUN, 0);
        }
        let (blocks, count) = (word(1), word(3));
        let scan = looped(u64::from(self.threads.ilog2()), 0);
        looped(blocks.div_ceil(threads), 0) + 2 * looped(RUN, 0) + scan + looped(count.div_ceil(threads), 0)
    }
}

/// The members of `Params`.
const PARAMS: [&str; 12] = [
    "elements",
    "blocks",
    "mask_offset",
    "count",
    "x_offset",
    "source_offset",
    "y_offset",
    "fill_low",
    "fill_high",
    "unused_0",
    "unused_1",
    "unused_2",
];

/// What an operation has beside its mask.
struct Request<'a> {
    name: &'static str,
    way: Way,
    /// The inputs in order: the mask among them.
    inputs: Vec<&'a TensorSpec>,
    mask: &'a TensorSpec,
    /// Places for what is true.
    count: u64,
    output: &'a TensorSpec,
    /// What stands behind the last one.
    fill: Scalar,
}

pub(crate) fn nonzero(op: &Nonzero, caps: &Caps) -> Result<Plan> {
    let (count, fill) = (op.output.layout.elements(), Scalar::I(u32::MAX.into()));
    let (mask, output) = (&op.mask, &op.output);
    plan(&Request { name: op.name(), way: Way::Positions, inputs: vec![mask], mask, count, output, fill }, caps)
}

pub(crate) fn select(op: &MaskedSelect, caps: &Caps) -> Result<Plan> {
    let (count, fill) = (op.output.layout.elements(), op.missing.scalar(op.output.dtype));
    let (mask, output, inputs) = (&op.mask, &op.output, vec![&op.input, &op.mask]);
    plan(&Request { name: op.name(), way: Way::Select, inputs, mask, count, output, fill }, caps)
}

pub(crate) fn scatter(op: &MaskedScatter, caps: &Caps) -> Result<Plan> {
    let (count, fill) = (op.source.layout.elements(), Scalar::I(0));
    let (mask, output, inputs) = (&op.mask, &op.output, vec![&op.input, &op.mask, &op.source]);
    plan(&Request { name: op.name(), way: Way::Scatter, inputs, mask, count, output, fill }, caps)
}

fn plan(request: &Request<'_>, caps: &Caps) -> Result<Plan> {
    let &Request { name, way, ref inputs, mask, count, output, fill } = request;
    let (elements, dtype) = (mask.layout.elements(), output.dtype);
    if elements == 0 {
        let all = Program::compile(&Expr::constant(fill).cast(dtype), &[])?;
        return crate::ops::map::plan::plan(&Map::new(name, all, Vec::new(), *output)?, caps);
    }
    let words = words(dtype);
    let operands = inputs.iter().copied().chain([output]);
    let reached = operands.map(|operand| operand.layout.required_elements()).max().unwrap_or(0);
    let reached = reached.saturating_mul(words);
    // The end of the last run is counted.
    let max = u64::from(u32::MAX) - u64::from(THREADS) * RUN;
    if reached > max {
        return Err(Error::IndexWidth { op: name, elements: reached, max });
    }
    let threads = 1 << THREADS.min(caps.max_invocations.max(1)).ilog2();
    let blocks = elements.div_ceil(u64::from(threads) * RUN);
    let offset = |number: usize| inputs.get(number).map_or(0, |input| input.layout.offset() * words);
    let mut params: Vec<u32> =
        [elements, blocks, mask.layout.offset(), count, offset(0), offset(2), output.layout.offset() * words]
            .map(|word| word as u32)
            .to_vec();
    let fill: Vec<u32> = words_of(&fill.to_le_bytes(dtype)).collect();
    params.extend([fill[0], fill[fill.len() - 1]]);
    params.resize(PARAMS.len(), 0);
    let of_mask = Slot::Input(usize::from(way != Way::Positions));
    let counts =
        Kernel { way: Way::Count, mask: Element::new(DType::Bool, caps)?, element: Element::raw(4), words: 1, threads };
    let moves = Kernel { way, element: Element::raw(dtype.size_bytes()), words, ..counts.clone() };
    let mut bindings = vec![of_mask, Slot::Scratch(0)];
    let grid = caps.fold_grid(blocks)?;
    let first = Launch { kernel: KernelKey::own(counts), grid, bindings: bindings.clone(), params: params.clone() };
    bindings.extend((way != Way::Positions).then_some(Slot::Input(0)));
    bindings.extend((way == Way::Scatter).then_some(Slot::Input(2)));
    bindings.push(Slot::Output(0));
    let second = Launch { kernel: KernelKey::own(moves), grid, bindings, params };
    Ok(Plan { launches: vec![first, second], scratch_bytes: vec![4 * blocks] })
}

impl Kernel {
    /// The functions that `masked.wgsl` asks for.
    fn holes(&self) -> String {
        // Element `to` of y becomes element `from` of another buffer.
        let moved = |to: &str, name: &str, from: &str| -> String {
            let one = |word: u64| {
                let at = |offset: &str, i: &str| format!("params.{offset} + {}u * ({i}) + {word}u", self.words);
                let (y, x) = (at("y_offset", to), at(&format!("{name}_offset"), from));
                format!("store_y({y}, load_{name}({x}));")
            };
            (0..self.words).map(one).collect::<Vec<_>>().join(" ")
        };
        let fill = |place: &str| -> String {
            let one = |word: u64| {
                let value = if word == 0 { "params.fill_low" } else { "params.fill_high" };
                format!("store_y(params.y_offset + {}u * ({place}) + {word}u, {value});", self.words)
            };
            (0..self.words).map(one).collect::<Vec<_>>().join(" ")
        };
        let [found, passed, behind] = match self.way {
            Way::Count => return String::new(),
            Way::Positions => [
                "if place < params.count { store_y(params.y_offset + place, i); }".to_owned(),
                String::new(),
                fill("place"),
            ],
            Way::Select => {
                [format!("if place < params.count {{ {} }}", moved("place", "x", "i")), String::new(), fill("place")]
            }
            Way::Scatter => {
                let (put, kept) = (moved("i", "source", "place"), moved("i", "x", "i"));
                [format!("if place < params.count {{ {put} }} else {{ {kept} }}"), kept, String::new()]
            }
        };
        TEXT.fill("functions", holes!(found, passed, behind)) + "\n"
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Missing;
    use crate::{Layout, Shape};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_way_and_size_validates() {
        let mut validated = Validated::default();
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        for caps in [full_caps(), Caps { max_invocations: 100, ..Caps::webgpu_defaults("test") }] {
            let mask = dense(DType::Bool, &[9, 1000]);
            let found = nonzero(&Nonzero::new(mask, 5).unwrap(), &caps).unwrap();
            assert_eq!(found.launches.len(), 2);
            validated.check(&found.launches, &caps);
            for dtype in DType::ALL {
                let (x, source) = (dense(dtype, &[9, 1000]), dense(dtype, &[7]));
                let op = MaskedSelect::new(x, mask, Missing::Nan, 7).unwrap();
                validated.check(&select(&op, &caps).unwrap().launches, &caps);
                let op = MaskedScatter::new(x, mask, source).unwrap();
                validated.check(&scatter(&op, &caps).unwrap().launches, &caps);
            }
        }
    }
}
