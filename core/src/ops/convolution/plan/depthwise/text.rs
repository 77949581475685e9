//! The texts of the kernels of depthwise convolutions: a prelude before `wgsl/convolution_depthwise*.wgsl`, and what becomes of a sum.

use crate::plan::{Access, KernelText, Source, looped};
use crate::wgsl::element::{self, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::{Pieces, fill, holes, pieces};

use super::super::End;
use super::super::text::TEXT;
use super::{Kernel, NUMBERS, OF_AXES, Run, Way};

/// What is written out for pixels and taps.
const WRITTEN: Pieces = pieces!("convolution_depthwise.wgsl");

impl Kernel {
    /// From a tap's weights to those of the next one, in vectors.
    fn pitch(&self) -> u64 {
        self.quads | 1
    }

    /// Vectors of weights in workgroup memory.
    pub(super) fn weights(&self) -> u64 {
        self.taps.saturating_mul(self.pitch())
    }

    fn name(&self) -> String {
        let way = match self.way {
            Way::Forward => "forward",
            Way::Input => "input",
            Way::Weights => "weights",
        };
        let partial = if self.partial { "_slabs" } else { "" };
        format!("convolution_{way}_depthwise{partial}_{}", self.element.dtype())
    }

    /// `finish(pixel, quad, sum)`, or of weights' gradients `finish(slab, element, sum)`: the end of a sum.
    fn finish(&self) -> String {
        if self.way == Way::Weights {
            let place = if self.partial { "slab * params.total" } else { "params.y_base" };
            return TEXT.fill("finish weights", holes!(place));
        }
        let end = End { residual: self.residual, bias: self.bias, activation: self.activation };
        end.finish_quad(self.accumulator.dtype())
    }

    /// The kernel of weights' gradients.
    fn written_out(&self) -> String {
        let Run { pixels, taps, steps } = self.run;
        let all = || (0..self.taps).flat_map(|r| (0..taps).map(move |t| (r, t)));
        let sums: String = all().map(|(r, t)| WRITTEN.fill("sum", holes!(r, t))).collect();
        let gradients: String = (0..pixels).map(|p| WRITTEN.fill("gradient", holes!(p))).collect();
        let mut rows = String::new();
        for r in 0..self.taps {
            rows += &WRITTEN.fill("row", holes!(r));
            for s in 0..steps.map_or(0, |_| self.run.span()) {
                rows += &WRITTEN.fill("input", holes!(r, s, place = format!("{s}u")));
            }
            for p in 0..pixels {
                let mut products = String::new();
                for t in 0..taps {
                    let s = steps.map_or(p * taps + t, |[step, tap_step]| p * step + t * tap_step);
                    if steps.is_none() {
                        let place = format!("{p}u * params.stride_z + {t}u * params.dilation_z");
                        rows += &WRITTEN.fill("input", holes!(r, s, place));
                    }
                    products += &WRITTEN.fill("product", holes!(r, t, s, p));
                }
                rows += &WRITTEN.fill("pixel", holes!(p, products));
            }
        }
        let mut folds = String::new();
        let numbered: Vec<(u64, u64)> = all().collect();
        for (first, part) in (0u64..).step_by(self.folded() as usize).zip(numbered.chunks(self.folded() as usize)) {
            for (row, (r, t)) in part.iter().enumerate() {
                folds += &WRITTEN.fill("partial", holes!(row, r, t));
            }
            let count = part.len();
            folds += &WRITTEN.fill("fold", holes!(first, count));
        }
        let text = include_str!("../../../../../wgsl/convolution_depthwise_weights.wgsl");
        fill(text, holes!(sums, gradients, rows, folds))
    }

    /// [`KernelText::loop_rounds`].
    pub(super) fn rounds(&self, params: &[u32]) -> u64 {
        let word =
            |at: Option<usize>| at.and_then(|at| params.get(at)).map_or(u64::from(u32::MAX), |&word| word.into());
        let number = |name: &str| word(NUMBERS.iter().position(|number| *number == name));
        let of_axis = |name: &str, axis: usize| {
            word(OF_AXES.iter().position(|of| *of == name).map(|at| NUMBERS.len() + 3 * at + axis))
        };
        let (run, threads) = (self.run, u64::from(self.threads));
        let row = match run.steps {
            Some(_) => looped(run.span(), 0) + looped(run.taps, looped(run.pixels, 0)),
            None => looped(run.taps, looped(run.pixels, 0)),
        };
        match self.way {
            Way::Weights => {
                let halves = looped(self.lanes().ilog2().into(), looped(self.folded(), 0));
                let folds = self.sums().div_ceil(self.folded());
                looped(number("rounds"), 0).saturating_add(folds * halves)
            }
            Way::Forward | Way::Input => {
                let met = |axis: usize| of_axis("taps", axis).div_ceil(of_axis("gap", axis).max(1));
                let taps = looped(met(0), looped(met(1), looped(met(2).div_ceil(run.taps), row)));
                let staged = looped((self.taps * self.quads).div_ceil(threads), 0);
                looped(number("rounds"), taps.saturating_add(looped(run.pixels, 0))).saturating_add(staged)
            }
        }
    }
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut head = element::prelude(&[self.accumulator, self.element]);
        head += &format!("alias Acc = {};\n", self.accumulator.scalar());
        let is_weights = self.way == Way::Weights;
        let mut numbers = vec![
            ("THREADS", self.threads.into()),
            ("QUADS", self.quads),
            ("LANES", self.lanes()),
            ("PIXELS", self.run.pixels),
            ("TAPS", self.run.taps),
        ];
        let mut facts = Vec::new();
        if is_weights {
            numbers.extend([("ROWS", self.taps), ("SUMS", self.folded())]);
        } else {
            let [step, tap_step] = self.run.steps.unwrap_or([0; 2]);
            numbers.extend([("STEP", step), ("TAP_STEP", tap_step), ("SPAN", self.run.span())]);
            numbers.extend([("PITCH", self.pitch()), ("WEIGHTS", self.weights())]);
            facts.extend([("SHARED", self.run.steps.is_some()), ("FORWARD", self.way == Way::Forward)]);
        }
        facts.push(("WHOLE", self.whole));
        numbers.iter().for_each(|(name, number)| head += &format!("const {name} = {number}u;\n"));
        facts.iter().for_each(|(name, fact)| head += &format!("const {name} = {fact};\n"));
        head += "\n";
        let numbers: String = NUMBERS.iter().map(|member| format!("    {member}: u32,\n")).collect();
        let of_axes = OF_AXES.iter().map(|of| format!("    {of}_x: u32, {of}_y: u32, {of}_z: u32,\n"));
        head += &uniform_of(&(numbers + &of_axes.collect::<String>()));
        let mut bindings = Vec::new();
        let mut storage = |element: element::Element, name: &str, form: Form, access: Access| {
            bindings.push(access);
            element.storage(bindings.len() as u32, name, form, access)
        };
        let [of_w, of_y] = if is_weights { [Form::Quad, Form::Scalar] } else { [Form::Scalar, Form::Quad] };
        head += &storage(self.element, "x", Form::Quad, Access::Read);
        head += &storage(self.element, "w", of_w, Access::Read);
        let target = if self.partial { self.accumulator } else { self.element };
        head += &storage(target, "y", of_y, Access::ReadWrite);
        for (wanted, name, form) in [(self.residual, "residual", Form::Quad), (self.bias, "bias", Form::Scalar)] {
            if wanted {
                head += &storage(self.element, name, form, Access::Read);
            }
        }
        let kernel = if is_weights {
            self.written_out()
        } else {
            include_str!("../../../../../wgsl/convolution_depthwise.wgsl").to_owned()
        };
        let read = include_str!("../../../../../wgsl/convolution_depthwise_read.wgsl");
        let body = ["\n", &self.finish(), read, "\n", &kernel].concat();
        Source { name: self.name(), wgsl: head + &math::library(&body) + &body, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.rounds(params)
    }
}
