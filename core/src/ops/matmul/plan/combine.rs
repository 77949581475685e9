//! The launch that follows tiles which wrote slabs of the sum: it adds the slabs in order and applies the epilogue.
//!
//! Also the whole product when K is 0, where there is nothing to add.

use crate::Result;
use crate::ops::Matmul;

use super::epilogue::{Epilogue, Places};
use super::key;
use crate::plan::looped;
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::math;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("matmul_combine.wgsl");

const THREADS: u32 = 256;

/// Specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Combine {
    epilogue: Epilogue,
    axes: u8,
    /// There are slabs to add.
    sums: bool,
    /// The output is written four elements at a time.
    quad: bool,
}

/// Adds `splits` slabs from `sums` and writes the output.
pub(crate) fn launch(op: &Matmul, places: &Places, splits: u64, sums: Option<Slot>, caps: &Caps) -> Result<Launch> {
    let dims = op.dims();
    let elements = dims.batch * dims.m * dims.n;
    // Dense outputs: quads may cross rows, every element finds its own place.
    let quad = op.output.layout.offset().is_multiple_of(4);
    let kernel = Combine { epilogue: places.epilogue, axes: places.axes(), sums: sums.is_some(), quad };
    let mut bindings: Vec<Slot> = sums.into_iter().collect();
    bindings.push(Slot::Output(0));
    bindings.extend(&places.slots);
    let threads = if quad { elements.div_ceil(4) } else { elements };
    Ok(Launch {
        kernel: key(super::Shape::Combine(kernel)),
        grid: caps.fold_grid(threads.div_ceil(THREADS.into()))?,
        bindings,
        params: places.params(op, None, &[elements as u32, splits as u32]),
    })
}

impl Combine {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let (_, own) = self.epilogue.words();
        let splits = params.get(own + 1).copied().unwrap_or(u32::MAX);
        let sums = if self.sums { looped(splits.into(), 0) } else { 0 };
        let result = sums + self.epilogue.group_rounds(params);
        if self.quad { looped(4, result) } else { result }
    }

    pub fn source(&self) -> Source {
        let body = self.body();
        let mut bindings = if self.sums { vec![Access::Read] } else { Vec::new() };
        bindings.push(Access::ReadWrite);
        bindings.extend(self.epilogue.accesses());
        Source {
            name: format!("matmul_combine_{}", self.epilogue.output.dtype()),
            wgsl: element::prelude(&[self.epilogue.accumulator, self.epilogue.output]) + &math::library(&body) + &body,
            bindings,
        }
    }

    fn body(&self) -> String {
        let (acc, value) = (self.epilogue.sum().scalar(), self.epilogue.value.scalar());
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        let mut binding = 1;
        let mut out = self.epilogue.params_text(self.axes, &["elements", "splits"]);
        if self.sums {
            out += &self.epilogue.sum().storage(binding, "sums", Form::Scalar, Access::Read);
            binding += 1;
        }
        out += &self.epilogue.output.storage(binding, "d", form, Access::ReadWrite);
        out += &self.epilogue.text(binding + 1, self.axes);
        let slabs = if self.sums { TEXT.get("slabs") } else { "" };
        let batch = if self.epilogue.ends.is_some() { "group_of(row)" } else { "row / params.m" };
        let stores = match self.quad {
            true => TEXT.fill("store quad", holes!(value)),
            false => TEXT.get("store one").to_owned(),
        };
        out + &TEXT.fill("result", holes!(value, acc, slabs, batch, threads = THREADS, stores))
    }
}
