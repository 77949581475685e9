//! The texts of the kernels of convolutions: a prelude before `wgsl/convolution_*.wgsl`, and what becomes of a sum.

use crate::DType;
use crate::ops::Geometry;
use crate::plan::{Access, KernelText, Source, looped};

use super::{End, Kernel, PARAMS, Shape, THREADS, Way};
use crate::wgsl::element::{self, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, holes, pieces};

/// What becomes of a sum, in all kernels of convolutions.
pub(super) const TEXT: Pieces = pieces!("convolution.wgsl");

impl Shape {
    /// Workgroup memory of tiles, in elements of `size` bytes.
    pub(super) fn workgroup_bytes(self, size: u64) -> u64 {
        match self {
            Shape::Tiles { threads, block_k } => 2 * u64::from(block_k) * u64::from(pitch(threads, block_k)) * size,
            Shape::Direct | Shape::Combine { .. } => 0,
        }
    }
}

/// From a term's rows to the next term's: odd where that fits what WebGPU guarantees.
fn pitch(threads: u32, block_k: u32) -> u32 {
    4 * threads + u32::from(block_k == 16)
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let (acc, combines) = (self.accumulator.scalar(), matches!(self.shape, Shape::Combine { .. }));
        let mut head = element::prelude(&[self.accumulator, self.element]);
        head += &format!("alias Acc = {acc};\nconst THREADS = {}u;\n", self.threads());
        if let Shape::Tiles { threads, block_k } = self.shape {
            let [a_along_k, b_along_k] =
                [self.way != Way::Weights, self.way == Way::Forward].map(|along| if along { "true" } else { "false" });
            head += &format!("const T = {threads}u;\nconst BLOCK = {}u;\nconst BLOCK_K = {block_k}u;\n", 4 * threads);
            head += &format!("const PITCH = {}u;\nconst LOADS = {}u;\n", pitch(threads, block_k), self.loads());
            head += &format!("const A_ALONG_K = {a_along_k};\nconst B_ALONG_K = {b_along_k};\n");
            head += &format!("const N_FIRST = {};\n", self.way != Way::Weights);
        }
        head += "\n";
        head += &uniform(PARAMS);
        let mut bindings = Vec::new();
        let mut storage = |element: element::Element, name: &str, access: Access| {
            bindings.push(access);
            element.storage(bindings.len() as u32, name, Form::Scalar, access)
        };
        if !combines {
            head += &storage(self.element, "x", Access::Read);
            head += &storage(self.element, "w", Access::Read);
        } else if self.shape == (Shape::Combine { sums: true }) {
            head += &storage(self.accumulator, "sums", Access::Read);
        }
        let target = if self.partial { self.accumulator } else { self.element };
        head += &storage(target, "y", Access::ReadWrite);
        for (wanted, name) in [(self.residual, "residual"), (self.bias, "bias")] {
            if wanted {
                head += &storage(self.element, name, Access::Read);
            }
        }
        let mut body = String::from("\n");
        body += &self.finish();
        if !combines {
            body += include_str!("../../../../wgsl/convolution_gather.wgsl");
            body += "\n";
        }
        body += match (self.shape, self.way) {
            (Shape::Combine { sums: true }, _) => TEXT.get("sum of slabs"),
            (Shape::Combine { sums: false }, _) => TEXT.get("no slabs"),
            (_, Way::Forward) => {
                concat!(
                    include_str!("../../../../wgsl/convolution_rows.wgsl"),
                    "\n",
                    include_str!("../../../../wgsl/convolution_forward.wgsl")
                )
            }
            (_, Way::Input) => {
                concat!(
                    include_str!("../../../../wgsl/convolution_rows.wgsl"),
                    "\n",
                    include_str!("../../../../wgsl/convolution_input.wgsl")
                )
            }
            (_, Way::Weights) => include_str!("../../../../wgsl/convolution_weights.wgsl"),
        };
        body += "\n";
        body += match (self.shape, self.way) {
            (Shape::Tiles { .. }, _) => include_str!("../../../../wgsl/convolution_tiles.wgsl"),
            (Shape::Direct, Way::Weights) => include_str!("../../../../wgsl/convolution_direct_weights.wgsl"),
            (Shape::Direct, _) => include_str!("../../../../wgsl/convolution_direct.wgsl"),
            (Shape::Combine { .. }, _) => include_str!("../../../../wgsl/convolution_combine.wgsl"),
        };
        let wgsl = head + &math::library(&body) + &body;
        Source { name: self.name(), wgsl, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |name: &str| {
            let at = PARAMS.iter().position(|member| *member == name);
            at.and_then(|at| params.get(at)).map_or(u64::from(u32::MAX), |&word| word.into())
        };
        let three = |name: &str| ["x", "y", "z"].map(|axis| word(&format!("{name}_{axis}")));
        self.most_rounds(word("slab"), word("slabs"), three("stride"), three("taps"), word("read"))
    }
}

impl Kernel {
    /// Invocations of a workgroup.
    pub(super) fn threads(&self) -> u32 {
        match self.shape {
            Shape::Tiles { threads, .. } => threads * threads,
            Shape::Direct | Shape::Combine { .. } => THREADS,
        }
    }

    /// Elements of either tile that an invocation loads.
    fn loads(&self) -> u64 {
        match self.shape {
            Shape::Tiles { threads, block_k } => u64::from(4 * block_k / threads),
            Shape::Direct | Shape::Combine { .. } => 0,
        }
    }

    /// The most rounds for slabs of `slab` terms of `geometry`.
    pub(super) fn rounds(&self, slab: u64, geometry: &Geometry) -> u64 {
        let windows = geometry.windows;
        self.most_rounds(slab, 0, windows.map(|window| window.stride), windows.map(|window| window.taps), u64::MAX)
    }

    fn most_rounds(&self, slab: u64, slabs: u64, stride: [u64; 3], taps: [u64; 3], read: u64) -> u64 {
        // What finds the first tap of a phase tries no more than a stride of them.
        let walk = match self.way {
            Way::Input => stride.iter().map(|&stride| looped(stride, 0)).fold(0, u64::saturating_add),
            Way::Forward | Way::Weights => 0,
        };
        match (self.shape, self.way) {
            (Shape::Tiles { block_k, .. }, _) => {
                let step = 2 * looped(self.loads(), 0) + looped(block_k.into(), 0);
                let steps = looped(slab.div_ceil(block_k.into()), step);
                (walk + looped(self.loads(), 0) + looped(4, looped(4, 0))).saturating_add(steps)
            }
            (Shape::Direct, Way::Weights) => looped(slab, 0),
            (Shape::Direct, Way::Forward | Way::Input) => {
                walk + taps.iter().rev().fold(looped(read, 0), |inner, &taps| looped(taps, inner))
            }
            (Shape::Combine { .. }, _) => looped(slabs / 8, 0).saturating_add(looped(7, 0)),
        }
    }

    fn name(&self) -> String {
        let way = match self.way {
            Way::Forward => "forward",
            Way::Input => "input",
            Way::Weights => "weights",
        };
        let shape = match self.shape {
            Shape::Tiles { threads, .. } => format!("tiles{}", 4 * threads),
            Shape::Direct => "direct".to_owned(),
            Shape::Combine { .. } => "combine".to_owned(),
        };
        let partial = if self.partial { "_slabs" } else { "" };
        format!("convolution_{way}_{shape}{partial}_{}", self.element.dtype())
    }

    /// `finish(slab, place, sum)`: the end of a sum, of which `place` names pixel and channel.
    fn finish(&self) -> String {
        if self.partial {
            return TEXT.get("finish slab").to_owned();
        }
        self.end().finish(self.accumulator.dtype())
    }

    fn end(&self) -> End {
        End { residual: self.residual, bias: self.bias, activation: self.activation }
    }
}

impl End {
    /// `finish(slab, place, sum)` of sums in `dtype`.
    pub(super) fn finish(&self, dtype: DType) -> String {
        let residual = if self.residual { TEXT.get("residual") } else { "" };
        let bias = if self.bias { TEXT.get("bias") } else { "" };
        let value = self.activation.map(|f| math::unary(f, dtype, "value"));
        let activation = value.map_or(String::new(), |value| TEXT.fill("activation", holes!(value)));
        TEXT.fill("finish", holes!(residual, bias, activation))
    }

    /// `finish(pixel, quad, sum)` of four sums in `dtype`.
    pub(super) fn finish_quad(&self, dtype: DType) -> String {
        let residual = if self.residual { TEXT.get("residual quad") } else { "" };
        let each = (0..4).map(|lane| format!("load_bias(at + {lane}u * params.bias_step)")).collect::<Vec<_>>();
        let bias = if self.bias { TEXT.fill("bias quad", holes!(each = each.join(", "))) } else { String::new() };
        let activation = if self.activation.is_some() { TEXT.get("activated quad") } else { "" };
        let value = self.activation.map(|f| math::unary(f, dtype, "value"));
        let activated = value.map_or(String::new(), |value| TEXT.fill("activated", holes!(value)));
        activated + &TEXT.fill("finish quad", holes!(residual, bias, activation))
    }
}
