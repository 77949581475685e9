//! The text of the gradient of the weights of few channels: a prelude before `wgsl/convolution_stem_weights.wgsl`, and what an invocation
//! multiplies.

use crate::plan::{Access, KernelText, Source, looped};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::params::{Words, uniform_of};
use crate::wgsl::pieces::{Pieces, fill, holes, pieces};

use super::super::super::End;
use super::super::super::text::TEXT as ENDS;
use super::{Kernel, Params};

const TEXT: Pieces = pieces!("convolution_stem_weights.wgsl");

impl Kernel {
    /// For every term what `line` gives.
    fn of_terms(&self, line: impl Fn(u64) -> String) -> String {
        (0..self.each).map(line).collect()
    }

    /// For every term and vector of filters what `line` gives.
    fn of_sums(&self, line: impl Fn(u64, u64) -> String) -> String {
        (0..self.each).flat_map(|j| (0..self.vectors).map(move |v| (j, v))).map(|(j, v)| line(j, v)).collect()
    }

    /// The products of a pixel.
    fn products(&self) -> String {
        let gradients: String = (0..self.vectors).map(|v| TEXT.fill("gradient", holes!(v))).collect();
        let inputs = self.of_terms(|j| TEXT.fill("input", holes!(j)));
        gradients + &inputs + &self.of_sums(|j, v| TEXT.fill("product", holes!(j, v)))
    }

    fn name(&self) -> String {
        let partial = if self.partial { "_slabs" } else { "" };
        format!("convolution_weights_stem{partial}_{}", self.element.dtype())
    }
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let accumulator = Element::plain(crate::DType::F32);
        let mut head = element::prelude(&[accumulator, self.element]);
        head += "alias Acc = f32;\n";
        let numbers = [
            ("THREADS", self.threads),
            ("LANES", self.lanes),
            ("QUADS", self.lanes * self.vectors),
            ("GROUPS", self.groups()),
            ("EACH", self.each),
            ("TILE_Y", self.tile_y),
            ("TILE_Z", self.tile_z),
            ("CHANNELS", self.channels),
            ("LINE", self.taps[1] * self.channels),
            ("TERMS", self.terms()),
            ("STEP", self.stride * self.channels),
            ("TAP_STEP", self.dilation * self.channels),
            ("ROWS", self.rows),
            ("COLUMNS", self.columns * self.channels),
            ("PITCH", self.pitch()),
        ];
        numbers.iter().for_each(|(name, number)| head += &format!("const {name} = {number}u;\n"));
        head += "\n";
        head += &uniform_of(Params::WGSL);
        let form = if self.quads { Form::Quad } else { Form::Scalar };
        let target = if self.partial { accumulator } else { self.element };
        head += &self.element.storage(1, "x", Form::Scalar, Access::Read);
        head += &self.element.storage(2, "w", form, Access::Read);
        head += &target.storage(3, "y", Form::Scalar, Access::ReadWrite);
        let end = match self.partial {
            true => ENDS.get("finish slab").to_owned(),
            false => End { residual: false, bias: false, activation: None }.finish(accumulator.dtype()),
        };
        let gradient = TEXT.get(if self.quads { "gradient quad" } else { "gradient each" });
        let read = include_str!("../../../../../../wgsl/convolution_stem_read.wgsl");
        let terms = self.of_terms(|j| TEXT.fill("term", holes!(j)));
        let sums = self.of_sums(|j, v| TEXT.fill("sum", holes!(j, v)));
        let ends = self.of_sums(|j, v| TEXT.fill("end", holes!(j, v)));
        let kernel = include_str!("../../../../../../wgsl/convolution_stem_weights.wgsl");
        let kernel = fill(kernel, holes!(terms, sums, products = self.products(), ends));
        let wgsl = [&head, "\n", &end, gradient, read, "\n", &kernel].concat();
        Source { name: self.name(), wgsl, bindings: vec![Access::Read, Access::Read, Access::ReadWrite] }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let tiles = Params::NAMES.iter().position(|member| *member == "tiles").and_then(|at| params.get(at));
        let inputs = looped((self.rows * self.columns * self.channels).div_ceil(4 * self.threads), 0);
        let gradients = looped(self.gradients().div_ceil(self.threads), 0);
        let products = looped(self.tile_y, looped(self.tile_z, 0));
        looped(tiles.map_or(u64::from(u32::MAX), |&tiles| tiles.into()), inputs + gradients + products)
    }
}
