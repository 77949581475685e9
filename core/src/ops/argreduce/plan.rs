//! argmax and argmin: the passes of a reduction over pairs of a key and a position.
//!
//! Keys are u32 (i64 for the 64-bit types) that order as the elements do: NaN beyond every number, zeros equal, argmin
//! turned round. The larger key wins and, among equals, the lower position, so the order of folding does not matter.
//! The frame (loops, passes) is that of `reduce/`.

use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, Operation, Result};

use crate::ops::fold::frame::{FOLD, Frame, launch};
use crate::ops::fold::{Partials, Pass, View, Walk, passes};
use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::keys;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("argreduce.wgsl");

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    function: ArgReduceFn,
    /// What the op reads.
    dtype: DType,
    /// As read: floats of a word or two are read as bits.
    input: Element,
    /// Reads pairs of an earlier pass.
    partial: bool,
    /// Writes positions, not pairs.
    last: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let form = if self.frame.quad { Form::Quad } else { Form::Scalar };
        let mut wgsl = element::prelude(&[self.input]);
        wgsl += &self.frame.head(&[]);
        wgsl += &self.functions();
        if !self.partial {
            wgsl += &self.input.storage(1, "x", form, Access::Read);
        }
        wgsl += self.frame.body();
        Source {
            name: format!("{}_{}_{}", self.function.name(), self.frame.suffix(), self.dtype),
            wgsl,
            bindings: vec![Access::Read, Access::ReadWrite],
        }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }
}

pub(crate) fn plan(op: &ArgReduce, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    let dtype = op.input.dtype;
    caps.require(dtype)?;
    let read_as = match dtype {
        DType::F32 => DType::U32,
        DType::F64 => DType::I64,
        other => other,
    };
    let input = Element::new(read_as, caps)?;
    // A pair is a key and a position; WGSL pads the wide one to the key's alignment.
    let pairs = Partials::structs(if input.dtype().size_bytes() == 8 { 16 } else { 8 });
    let (list, scratch_bytes) = passes(View::of_input(&op.input.layout, &op.axes), pairs, caps);
    let launch = |pass: &Pass| {
        let kernel = Kernel {
            frame: Frame::of(pass),
            function: op.function,
            dtype,
            input,
            partial: pass.partial,
            last: pass.last,
        };
        let target = if pass.last { op.output.layout.offset() } else { 0 };
        launch(KernelKey::own(kernel), pass, 0, target, caps)
    };
    Ok(Plan { launches: list.iter().map(launch).collect::<Result<_>>()?, scratch_bytes })
}

impl Kernel {
    fn functions(&self) -> String {
        let quad = self.frame.quad;
        let (key, lowest) = match self.input.dtype().size_bytes() {
            8 => ("i64", keys::I64_MIN),
            _ => ("u32", "0u"),
        };
        let mut out = TEXT.fill("pairs", holes!(key));
        out += &if quad { TEXT.fill("quad", holes!(key, lowest)) } else { TEXT.fill("one", holes!(key)) };
        out += FOLD.get("absorb");
        out += &TEXT.fill("identity", holes!(lowest));
        out += &self.read();
        let item = if self.last { "u32" } else { "Pair" };
        out += &TEXT.fill("results", holes!(item));
        let result = if self.last { "v.place" } else { "v" };
        out + &match (self.frame.walk, quad) {
            (Walk::Rows { .. }, _) => TEXT.fill("write row", holes!(result)),
            (Walk::Columns { .. }, false) => TEXT.fill("write column", holes!(result)),
            (Walk::Columns { .. }, true) => {
                let of = |i: u32| match self.last {
                    true => format!("v.place[{i}]"),
                    false => format!("Pair(v.key[{i}], v.place[{i}])"),
                };
                let results: String = (0..4).map(|i| format!("    y[first + {i}u] = {};\n", of(i))).collect();
                TEXT.fill("write columns", holes!(results))
            }
        }
    }

    /// `read_at`: elements become keys with their positions, pairs move by what this pass adds.
    fn read(&self) -> String {
        if self.partial {
            return TEXT.get("read pairs").to_owned();
        }
        let turned = self.function == ArgReduceFn::ArgMin;
        let quad = self.frame.quad;
        let ty = if quad { self.input.vector() } else { self.input.scalar().to_owned() };
        let load = if quad { "load4_x(at)" } else { "load_x(at)" };
        // The elements of a vector lie along the row, or in four columns at one position.
        let places = match (quad, self.frame.walk) {
            (true, Walk::Rows { .. }) => "Places(place) + Places(0u, 1u, 2u, 3u) * params.position",
            _ => "Places(place)",
        };
        keys::key_of(self.dtype, &ty, turned) + &TEXT.fill("read", holes!(load, places))
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
