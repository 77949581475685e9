//! The first position at fault: one workgroup of `wgsl/positions.wgsl` for few positions; for many each workgroup finds the first of its
//! part, and one more finds the first of those.
//!
//! Positions of 64 bits are two words, so that no device lacks them.

use crate::ops::Positions;
use crate::plan::looped;
use crate::{DType, Error, Operation, Result};

use crate::ops::Walk;
use crate::ops::elements::{coordinates, extents, place, view, view_words};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("positions.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Positions that an invocation reads at once.
const ITEMS: u32 = 4;
/// Rounds of such reads that a workgroup makes before there are several: 4096 positions.
const ROUNDS: u32 = 4;
/// The most workgroups, whose answers one workgroup reads in 4 rounds.
const MOST_PARTS: u64 = 1024;

/// What a launch makes of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    /// Words of all positions.
    Whole,
    /// The first fault of each part.
    Parts,
    /// Words of the first faults.
    Close,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    way: Way,
    rank: usize,
    /// Words of a position.
    words: u32,
    is_signed: bool,
    threads: u32,
}

impl Kernel {
    fn members(&self) -> Vec<String> {
        let own = PARAMS.map(str::to_owned);
        own.into_iter().chain(extents(self.rank)).chain(view("x", self.rank)).collect()
    }
}

/// The members of `Params` that every rank has.
const PARAMS: [&str; 9] =
    ["count", "step", "parts", "w_offset", "code", "extent", "has_ignored", "ignored_low", "ignored_high"];

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let word = Element::raw(4);
        let threads = self.threads;
        let mut text = format!("const THREADS = {threads}u;\nconst ITEMS = {ITEMS}u;\n");
        text += &format!("const IS_CLOSE = {};\n", self.way == Way::Close);
        text += &uniform(self.members());
        let mut bindings = Vec::new();
        let mut storage = |name: &str, access: Access| {
            bindings.push(access);
            word.storage(bindings.len() as u32, name, Form::Scalar, access)
        };
        text += &storage("x", Access::Read);
        match self.way {
            Way::Whole => text += &storage("w", Access::ReadWrite),
            Way::Parts => text += &storage("parts", Access::ReadWrite),
            Way::Close => {
                text += &storage("parts", Access::Read);
                text += &storage("w", Access::ReadWrite);
            }
        }
        let high = match (self.words, self.is_signed) {
            (2, _) => "load_x(at + 1u)",
            (_, true) => "select(0u, 0xffffffffu, low >= 0x80000000u)",
            (_, false) => "0u",
        };
        let (coordinates, at) = (coordinates("e", self.rank), place("x", "e", self.rank));
        text += "\n";
        text += &TEXT.fill("position", holes!(coordinates, at, high));
        text += TEXT.get(match self.way {
            Way::Parts => "parts",
            Way::Whole => "whole",
            Way::Close => "close",
        });
        if self.way != Way::Parts {
            text += include_str!("../../../wgsl/positions_keep.wgsl");
        }
        text += "\n";
        text += include_str!("../../../wgsl/positions.wgsl");
        let way = match self.way {
            Way::Whole => "",
            Way::Parts => "_parts",
            Way::Close => "_close",
        };
        let sign = if self.is_signed { "i" } else { "u" };
        let name = format!("positions{way}_{}d_{sign}{}", self.rank, 32 * self.words);
        Source { name, wgsl: text, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| params.get(at).map_or(u64::from(u32::MAX), |&word| word.into());
        let (count, step, parts) = (word(0), word(1).max(1), word(2));
        match self.way {
            Way::Close => looped(parts.div_ceil(self.threads.into()), 0),
            Way::Whole | Way::Parts => looped(count.div_ceil(step), looped(ITEMS.into(), 0)),
        }
    }
}

pub(crate) fn plan(op: &Positions, caps: &Caps) -> Result<Plan> {
    let layout = &op.positions.layout;
    let words = if op.positions.dtype.size_bytes() == 8 { 2u32 } else { 1 };
    let reached = layout.required_elements().max(layout.elements()).saturating_mul(words.into());
    // The place behind the last round is counted before it is compared.
    let max = u64::from(u32::MAX) - u64::from(THREADS * ITEMS) * MOST_PARTS;
    if reached > max {
        return Err(Error::IndexWidth { op: op.name(), elements: reached, max });
    }
    let (mut dims, mut strides) = Walk::through(layout.dims(), &[layout.strides().to_vec()]);
    let mut strides: Vec<i64> =
        strides.pop().unwrap_or_default().into_iter().map(|stride| stride * i64::from(words)).collect();
    if dims.is_empty() {
        (dims, strides) = (vec![1], vec![0]);
    }
    let threads = THREADS.min(caps.max_invocations);
    let count = layout.elements();
    let parts = count.div_ceil((threads * ITEMS * ROUNDS).into()).clamp(1, MOST_PARTS);
    let ignored = op.ignored_bits();
    let bits = ignored.unwrap_or_default();
    let mut params = vec![count as u32, threads * ITEMS * parts as u32, parts as u32, op.output.layout.offset() as u32];
    params.extend([op.code(), op.extent as u32, u32::from(ignored.is_some()), bits as u32, (bits >> 32) as u32]);
    params.extend(dims.iter().map(|&dim| dim as u32));
    params.extend(view_words(layout.offset() * u64::from(words), &strides));
    params.resize(params.len().next_multiple_of(4), 0);
    let is_signed = matches!(op.positions.dtype, DType::I32 | DType::I64);
    let launch = |way: Way, groups: u64, bindings: Vec<Slot>| -> Result<Launch> {
        let kernel =
            KernelKey::own(Kernel { way, rank: dims.len(), words, is_signed: is_signed && words == 1, threads });
        Ok(Launch { kernel, grid: [groups as u32, 1, 1], bindings, params: params.clone() })
    };
    if parts == 1 {
        let whole = launch(Way::Whole, 1, vec![Slot::Input(0), Slot::Output(0)])?;
        return Ok(Plan { launches: vec![whole], scratch_bytes: Vec::new() });
    }
    let each = launch(Way::Parts, parts, vec![Slot::Input(0), Slot::Scratch(0)])?;
    let close = launch(Way::Close, 1, vec![Slot::Input(0), Slot::Scratch(0), Slot::Output(0)])?;
    Ok(Plan { launches: vec![each, close], scratch_bytes: vec![4 * parts] })
}

#[cfg(test)]
mod tests {
    use crate::ops::Indexing;
    use crate::{Layout, Op, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_dtype_size_and_view_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in [DType::I32, DType::U32, DType::I64, DType::U64] {
                for (elements, launches) in [(0, 1), (1, 1), (4096, 1), (4097, 2), (1 << 27, 2)] {
                    let dense = Layout::contiguous(Shape::new(&[elements]).unwrap());
                    let transposed =
                        Layout::strided(Shape::new(&[elements, 3]).unwrap(), &[1, elements as i64], 0).unwrap();
                    let op = |layout| -> Op {
                        Positions::new(Indexing::Take, TensorSpec::new(dtype, layout), 9, Some(-1)).unwrap().into()
                    };
                    let plan = crate::ops::plan(&op(dense), &caps).unwrap();
                    assert_eq!(plan.launches.len(), launches, "{elements}");
                    validated.check(&plan.launches, &caps);
                    validated.check(&crate::ops::plan(&op(transposed), &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
