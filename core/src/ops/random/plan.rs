//! Random numbers: one launch of `wgsl/random.wgsl` per tensor.
//!
//! A quad of the output is one Philox block, so the numbers depend on seed, stream and position only, never on the grid.
//! Where shaders have 64-bit integers the wide products are native: integer arithmetic, not memory, is the bound.

use crate::ops::Random;
use crate::{Distribution, Error, Operation, Result};

use crate::plan::KernelKey;
use crate::plan::looped;
use crate::plan::{Access, Caps, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::pieces::{Pieces, fill, holes, pieces};
use crate::wgsl::rounds::PHILOX_ROUNDS;

/// Invocations of a workgroup.
const THREADS: u32 = 256;
const TEXT: Pieces = pieces!("random.wgsl");

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    shape: Shape,
    element: Element,
    /// Whether u64 products are used.
    wide: bool,
    threads: u32,
    /// Quads an invocation makes.
    items: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let (name, value) = match self.shape {
            Shape::Bits => ("random_bits", "bits"),
            Shape::Uniform => ("random_uniform", "params.a + params.b * unit_interval(bits)"),
            Shape::Normal => ("random_normal", "params.a + params.b * normal(bits)"),
        };
        let mut text = format!("const THREADS = {}u;\nconst ITEMS = {}u;\n\n", self.threads, self.items);
        text += &self.element.storage(1, "y", Form::Quad, Access::ReadWrite);
        text.push('\n');
        text += wide_product(self.wide);
        text += &TEXT.fill("sample", holes!(vector = self.element.vector(), value));
        text += &fill(include_str!("../../../wgsl/random.wgsl"), holes!(philox = TEXT.get("philox")));
        let library = math::library(&text);
        Source {
            name: format!("{name}_{}", self.element.dtype()),
            wgsl: element::prelude(&[self.element]) + &text + "\n" + &library,
            bindings: vec![Access::ReadWrite],
        }
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        looped(self.items.into(), looped(PHILOX_ROUNDS, 0))
    }
}

/// A distribution without its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Bits,
    Uniform,
    Normal,
}

pub(crate) fn plan(op: &Random, caps: &Caps) -> Result<Plan> {
    let (elements, offset) = (op.output.layout.elements(), op.output.layout.offset());
    if offset + elements > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op: op.name(), elements: offset + elements, max: u64::from(u32::MAX) });
    }
    let (shape, a, b) = match op.distribution {
        Distribution::Bits => (Shape::Bits, 0.0, 0.0),
        Distribution::Uniform { low, high } => (Shape::Uniform, low, high - low),
        Distribution::Normal { mean, std } => (Shape::Normal, mean, std),
    };
    let kernel = Kernel {
        shape,
        element: Element::new(op.output.dtype, caps)?,
        wide: caps.i64,
        threads: THREADS.min(caps.max_invocations),
        items: 4,
    };
    let quads = elements.div_ceil(4);
    let ([seed_low, seed_high], [_, _, stream_low, stream_high]) = (op.key(), op.counter(0));
    // Dense outputs of up to 32 bits start on a multiple of 16 bytes: always on a whole quad.
    let mut params = vec![quads as u32, (elements % 4) as u32, (offset / 4) as u32];
    params.extend([seed_low, seed_high, stream_low, stream_high, a.to_bits(), b.to_bits()]);
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(quads.div_ceil(u64::from(kernel.threads * kernel.items)))?;
    let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings: vec![Slot::Output(0)], params };
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

/// The product of two words, by one u64 product where `is_wide`.
fn wide_product(is_wide: bool) -> &'static str {
    TEXT.get(if is_wide { "native product" } else { "product" })
}

/// `random_word`, of an element by its own key.
pub(crate) fn random_word() -> String {
    TEXT.get("word").to_owned() + "\n"
}

/// `philox` and what it calls, for kernels of other kinds; by u64 products where `is_wide`.
pub(crate) fn philox(is_wide: bool) -> String {
    [wide_product(is_wide), TEXT.get("philox"), "\n"].concat()
}

#[cfg(test)]
mod tests {
    use crate::{DType, Layout, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_distribution_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in [DType::U32, DType::F32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
                for distribution in [
                    Distribution::Bits,
                    Distribution::Uniform { low: -1.0, high: 2.0 },
                    Distribution::Normal { mean: 0.0, std: 1.0 },
                ] {
                    let layout = Layout::contiguous(crate::Shape::new(&[7]).unwrap());
                    let Ok(op) = Random::new(distribution, 1, 2, TensorSpec::new(dtype, layout)) else { continue };
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }

    #[test]
    fn numbers_of_a_distribution_are_parameters() {
        let layout = Layout::contiguous(crate::Shape::new(&[7]).unwrap());
        let launch = |seed, high| {
            let distribution = Distribution::Uniform { low: 0.0, high };
            let op = Random::new(distribution, seed, 5 << 32, TensorSpec::new(DType::F32, layout)).unwrap();
            plan(&op, &full_caps()).unwrap().launches.remove(0)
        };
        let (one, other) = (launch(3 << 32 | 4, 1.0), launch(9, 2.0));
        assert_eq!(one.kernel, other.kernel);
        assert_eq!(one.params[..9], [2, 3, 0, 4, 3, 0, 5, 0, 1f32.to_bits()]);
    }
}
