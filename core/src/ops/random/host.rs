//! Random numbers: Philox words, converted in f32 and rounded to the output's dtype.

use crate::cpu::elements::dense_mut;
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel;
use crate::cpu::philox::{self, Stream};
use crate::cpu::scratch::{self, Done, Short};
use crate::ops::{Distribution, Random};
use crate::{DType, F8E4M3, F8E5M2};

pub(crate) fn execute(op: &Random, output: &mut [u8]) -> Done {
    let at = Stream { seed: op.seed, stream: op.stream };
    match op.output.dtype {
        DType::U32 => philox::fill_u32(at, dense_mut(&op.output, output)),
        DType::F32 => fill(op.distribution, at, dense_mut(&op.output, output)),
        DType::F8E4M3 => parallel::map1(F8E4M3::from_f32, &filled(op, at)?, dense_mut(&op.output, output)),
        DType::F8E5M2 => parallel::map1(F8E5M2::from_f32, &filled(op, at)?, dense_mut(&op.output, output)),
        DType::F16 => parallel::map1(narrow_f16, &filled(op, at)?, dense_mut(&op.output, output)),
        _ => parallel::map1(narrow_bf16, &filled(op, at)?, dense_mut(&op.output, output)),
    }
    Ok(())
}

fn filled(op: &Random, at: Stream) -> Result<Vec<f32>, Short> {
    let mut values = scratch::zeroed(op.output.layout.elements() as usize)?;
    fill(op.distribution, at, &mut values);
    Ok(values)
}

fn fill(distribution: Distribution, at: Stream, out: &mut [f32]) {
    match distribution {
        Distribution::Bits => {} // u32 only
        Distribution::Uniform { low, high } => {
            philox::fill_uniform(at, out);
            if (low, high) != (0.0, 1.0) {
                let width = high - low;
                parallel::map1_in_place(move |x: f32| low + width * x, out);
            }
        }
        Distribution::Normal { mean, std } => {
            philox::fill_normal(at, out);
            if (mean, std) != (0.0, 1.0) {
                parallel::map1_in_place(move |x: f32| mean + std * x, out);
            }
        }
    }
}
