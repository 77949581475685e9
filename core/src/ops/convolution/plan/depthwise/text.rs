//! The texts of the kernels of depthwise convolutions: a prelude before `wgsl/convolution_depthwise*.wgsl`, and what becomes of a sum.

use crate::plan::{Access, KernelText, Source, looped};
use crate::wgsl::element::{self, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::holes;

use super::super::text::TEXT;
use super::{Kernel, NUMBERS, OF_AXES, Way};

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
        let residual = if self.residual { TEXT.get("residual quad") } else { "" };
        let each = (0..4).map(|lane| format!("load_bias(at + {lane}u * params.bias_step)")).collect::<Vec<_>>();
        let bias = if self.bias { TEXT.fill("bias quad", holes!(each = each.join(", "))) } else { String::new() };
        let activation = if self.activation.is_some() { TEXT.get("activated quad") } else { "" };
        let value = self.activation.map(|f| math::unary(f, self.accumulator.dtype(), "value"));
        let activated = value.map_or(String::new(), |value| TEXT.fill("activated", holes!(value)));
        activated + &TEXT.fill("finish quad", holes!(residual, bias, activation))
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
                let row = looped(run.pixels, looped(run.taps, 0)) + looped(run.span(), 0);
                let run = looped(run.pixels, 0) + looped(self.taps, row);
                let halves = looped(u64::from(self.lanes().ilog2()), 0) + looped(4, 0);
                looped(number("rounds"), run).saturating_add(looped(self.taps, looped(self.run.taps, halves)))
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
        let [step, tap_step] = self.run.steps.unwrap_or([0; 2]);
        let is_weights = self.way == Way::Weights;
        let mut numbers = vec![
            ("THREADS", self.threads.into()),
            ("QUADS", self.quads),
            ("LANES", self.lanes()),
            ("PIXELS", self.run.pixels),
            ("TAPS", self.run.taps),
            ("STEP", step),
            ("TAP_STEP", tap_step),
            ("SPAN", self.run.span()),
        ];
        let mut facts = vec![("SHARED", self.run.steps.is_some())];
        if is_weights {
            numbers.push(("ROWS", self.taps));
        } else {
            numbers.extend([("PITCH", self.pitch()), ("WEIGHTS", self.weights())]);
            facts.extend([("FORWARD", self.way == Way::Forward), ("WHOLE", self.whole)]);
        }
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
            include_str!("../../../../../wgsl/convolution_depthwise_weights.wgsl")
        } else {
            include_str!("../../../../../wgsl/convolution_depthwise.wgsl")
        };
        let read = include_str!("../../../../../wgsl/convolution_depthwise_read.wgsl");
        let body = ["\n", &self.finish(), read, "\n", kernel].concat();
        Source { name: self.name(), wgsl: head + &math::library(&body) + &body, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.rounds(params)
    }
}
