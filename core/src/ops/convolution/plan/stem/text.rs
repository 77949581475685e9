//! The text of the kernel of convolutions of few channels: a prelude before `wgsl/convolution_stem.wgsl`, what an invocation multiplies, and
//! what becomes of a sum.

use crate::plan::{Access, KernelText, Source, looped};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::{Words, uniform_of};
use crate::wgsl::pieces::{Pieces, fill, holes, pieces};

use super::{Kernel, PIXELS, Params, inputs_of};

const TEXT: Pieces = pieces!("convolution_stem.wgsl");

impl Kernel {
    /// For every pixel and vector of filters what `line` gives.
    fn of_sums(&self, line: impl Fn(u64, u64) -> String) -> String {
        (0..PIXELS).flat_map(|p| (0..self.vectors).map(move |v| (p, v))).map(|(p, v)| line(p, v)).collect()
    }

    /// The products of a channel and the taps that are taken at a time: inputs first, then tap by tap.
    fn products(&self) -> String {
        let [stride, dilation] = [self.stride, self.dilation];
        let inputs = inputs_of(self.at_a_time, stride, dilation);
        let mut lines: String =
            inputs.iter().map(|s| TEXT.fill("input", holes!(s, place = s * self.channels))).collect();
        for t in 0..self.at_a_time {
            for v in 0..self.vectors {
                let place = t * self.channels * self.pitch_of_weights() + v * self.lanes;
                lines += &TEXT.fill("weight", holes!(t, v, place));
            }
            lines += &self.of_sums(|p, v| TEXT.fill("product", holes!(p, v, t, s = p * stride + t * dilation)));
        }
        lines
    }

    fn name(&self) -> String {
        format!("convolution_forward_stem_{}", self.element.dtype())
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
            ("TILE_Y", self.tile_y),
            ("TILE_Z", self.tile_z),
            ("PIXELS", PIXELS),
            ("CHANNELS", self.channels),
            ("TAPS", self.taps),
            ("TAPS_AT_A_TIME", self.at_a_time),
            ("TERMS", self.terms()),
            ("STEP", self.stride * self.channels),
            ("TAP_STEP", self.dilation * self.channels),
            ("ROWS", self.rows),
            ("COLUMNS", self.columns * self.channels),
            ("PITCH", self.pitch()),
            ("W_PITCH", self.pitch_of_weights()),
        ];
        numbers.iter().for_each(|(name, number)| head += &format!("const {name} = {number}u;\n"));
        head += "\n";
        head += &uniform_of(Params::WGSL);
        let mut bindings = Vec::new();
        let mut storage = |name: &str, form: Form, access: Access| {
            bindings.push(access);
            self.element.storage(bindings.len() as u32, name, form, access)
        };
        let form = if self.quads { Form::Quad } else { Form::Scalar };
        head += &storage("x", Form::Scalar, Access::Read);
        head += &storage("w", Form::Scalar, Access::Read);
        head += &storage("y", form, Access::ReadWrite);
        for (wanted, name, form) in [(self.end.residual, "residual", form), (self.end.bias, "bias", Form::Scalar)] {
            if wanted {
                head += &storage(name, form, Access::Read);
            }
        }
        let dtype = accumulator.dtype();
        let end = match self.quads {
            true => self.end.finish_quad(dtype) + TEXT.get("ended quad"),
            false => self.end.finish(dtype) + TEXT.get("ended each"),
        };
        let sums = self.of_sums(|p, v| TEXT.fill("sum", holes!(p, v)));
        let ends = self.of_sums(|p, v| TEXT.fill("end", holes!(p, v)));
        let kernel = include_str!("../../../../../wgsl/convolution_stem.wgsl");
        let kernel = fill(kernel, holes!(sums, terms = self.products(), ends));
        let read = include_str!("../../../../../wgsl/convolution_stem_read.wgsl");
        let body = ["\n", &end, read, "\n", &kernel].concat();
        Source { name: self.name(), wgsl: head + &math::library(&body) + &body, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |name: &str| {
            let at = Params::NAMES.iter().position(|member| *member == name);
            at.and_then(|at| params.get(at)).map_or(u64::from(u32::MAX), |&word| word.into())
        };
        let inputs = looped((self.rows * self.columns * self.channels).div_ceil(4 * self.threads), 0);
        let weights = looped((self.terms() * self.lanes * self.vectors).div_ceil(self.threads), 0);
        let products = looped(self.taps / self.at_a_time, looped(self.channels, 0));
        looped(word("taps_x"), inputs.saturating_add(looped(word("taps_y"), weights + products)))
    }
}
