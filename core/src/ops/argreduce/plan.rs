//! argmax and argmin: folds of pairs of a key and a position.
//!
//! Keys are u32 (i64 for the 64-bit types) that order as the elements do: NaN beyond every number, zeros equal, argmin
//! turned round. The larger key wins and, among equals, the lower position, so the order of folding does not matter.

use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, Operation, Result};

use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::{self, Fold, Partials, Text, View};
use crate::plan::{Access, Caps, Plan};
use crate::wgsl::element::Element;
use crate::wgsl::index::check_index;
use crate::wgsl::keys;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("argreduce.wgsl");

/// An argmax or argmin, as one pass of it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Positions {
    function: ArgReduceFn,
    /// What the op reads.
    dtype: DType,
    /// As read: floats of a word or two are read as bits.
    input: Element,
    /// Writes positions, not pairs.
    last: bool,
}

pub(crate) fn plan(op: &ArgReduce, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    let dtype = op.input.dtype;
    caps.require(dtype)?;
    let input = Element::new(keys::read_as(dtype), caps)?;
    // A pair is a key and a position; WGSL pads the wide one to the key's alignment.
    let pairs = Partials::structs(if dtype.size_bytes() == 8 { 16 } else { 8 });
    fold::plan(View::of_input(&op.input.layout, &op.axes), pairs, caps, |pass| {
        let fold = Positions { function: op.function, dtype, input, last: pass.last };
        pass.launch(fold, 0, pass.target_base(&op.output), caps)
    })
}

impl Fold for Positions {
    fn text(&self, frame: &Frame) -> Text {
        let source = if frame.partial { String::new() } else { frame.source(self.input) };
        Text {
            name: format!("{}_{}_{}", self.function.name(), frame.suffix(), self.dtype),
            elements: vec![self.input],
            bindings: vec![Access::Read, Access::ReadWrite],
            state: self.state(frame),
            read: self.read(frame),
            finish: self.finish(frame),
            body: source + &frame.body(),
            ..Text::default()
        }
    }
}

impl Positions {
    fn state(&self, frame: &Frame) -> String {
        let (key, lowest) = keys::key_type(self.dtype);
        let mut out = TEXT.fill("pairs", holes!(key));
        out += &if frame.quad { TEXT.fill("quad", holes!(key, lowest)) } else { TEXT.fill("one", holes!(key)) };
        out += FOLD.get("absorb");
        out + &TEXT.fill("identity", holes!(lowest))
    }

    /// Elements become keys with their positions; pairs move by what this pass adds.
    fn read(&self, frame: &Frame) -> String {
        if frame.partial {
            return TEXT.get("read pairs").to_owned();
        }
        // The elements of a vector lie along the row, or in four columns at one position.
        let places = match frame.quad && frame.walk.is_rows() {
            true => "Places(place) + Places(0u, 1u, 2u, 3u) * params.position",
            false => "Places(place)",
        };
        let is_turned = self.function == ArgReduceFn::ArgMin;
        let key_of = keys::key_of(self.dtype, &frame.wide(self.input), is_turned);
        key_of + &TEXT.fill("read", holes!(load = frame.load(), places))
    }

    fn finish(&self, frame: &Frame) -> String {
        let write = |at: &str, v: &str| format!("y[{at}] = {v}");
        if self.last {
            let positions = TEXT.fill("results", holes!(item = "u32"));
            return positions + &frame.stores(write, "v.place", |i| format!("v.place[{i}]"));
        }
        let pairs = TEXT.fill("results", holes!(item = "Pair"));
        pairs + &frame.stores(write, "v", |i| format!("Pair(v.key[{i}], v.place[{i}])"))
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
