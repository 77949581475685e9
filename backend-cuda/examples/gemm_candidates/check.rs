//! Operands, and whether a result is right: a sample of its elements against float64 on the host.

use polywarp_core::{Backend, DType, Op, Scalar};
use polywarp_cuda::CudaBackend;
use polywarp_cuda::vendor::Operands;

use crate::{Fallible, Problem};

/// Elements that are compared, at most and at least, and products that are worth computing for that.
const SAMPLED: (u64, u64) = (3000, 200);
const WORTH_PRODUCTS: u64 = 4_000_000;

/// Random elements that are repeated: a prime, so that no row of a matrix is like the next.
const PERIOD: u64 = 1_048_573;

/// Host copies of A and B, as they lie in memory.
pub struct Data {
    a: Vec<u8>,
    b: Vec<u8>,
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Data {
    pub fn random(problem: &Problem) -> Data {
        let Problem { m, n, k, batch, input, .. } = *problem;
        let fill = |elements: u64, mut seed: u64| {
            let size = input.size_bytes() as usize;
            let mut bytes = Vec::with_capacity(elements as usize * size);
            for _ in 0..elements.min(PERIOD) {
                let bits = random(&mut seed);
                if input.is_float() {
                    let x = (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
                    bytes.extend(Scalar::F(x).to_le_bytes(input));
                } else {
                    bytes.extend(&bits.to_le_bytes()[..size]);
                }
            }
            while bytes.len() < elements as usize * size {
                let more = (elements as usize * size - bytes.len()).min(PERIOD as usize * size);
                bytes.extend_from_within(..more);
            }
            bytes
        };
        Data { a: fill(batch * m * k, 1), b: fill(batch * k * n, 2) }
    }

    pub fn upload(&self, backend: &CudaBackend, op: &Op) -> Fallible<Operands> {
        let put = |bytes: &[u8]| {
            let buffer = backend.alloc(bytes.len() as u64)?;
            backend.write(&buffer, 0, bytes).map(|()| buffer)
        };
        Ok(Operands {
            inputs: vec![put(&self.a)?, put(&self.b)?],
            output: backend.alloc(op.output().required_bytes())?,
        })
    }

    /// The largest error of the sample, as a share of what is allowed: the oracle's bound for products
    /// (`core/src/ops/matmul.rs`) with the chain of a sum that is cut into pieces of 64.
    pub fn error(&self, backend: &CudaBackend, set: &Operands, problem: &Problem) -> Fallible<f64> {
        let Problem { m, n, k, batch, input, output, .. } = *problem;
        let size = output.size_bytes();
        let d = backend.read_blocking(&set.output, 0..batch * m * n * size)?;
        let (mut worst, mut seed) = (0.0f64, 3);
        let u = match output {
            DType::F64 => (-53f64).exp2(),
            _ => (-24f64).exp2(),
        };
        let each = u + problem.op()?.product_roundoff();
        let last = match output {
            DType::F16 => (-11f64).exp2(),
            DType::BF16 => (-8f64).exp2(),
            _ => u,
        };
        for sample in 0..(WORTH_PRODUCTS / k.max(1)).clamp(SAMPLED.1, SAMPLED.0) {
            let at = match sample {
                0 => 0,
                1 => batch * m * n - 1,
                _ => random(&mut seed) % (batch * m * n),
            };
            let (row, column) = (at / n, at % n);
            let (index, row) = (row / m, row % m);
            let (mut sum, mut size_sum) = (0.0f64, 0.0f64);
            for i in 0..k {
                let x = element(&self.a, input, problem.transposed[0], index, [m, k], [row, i]);
                let y = element(&self.b, input, problem.transposed[1], index, [k, n], [i, column]);
                sum += x * y;
                size_sum += (x * y).abs();
            }
            let bytes = &d[(at * size) as usize..((at + 1) * size) as usize];
            let got = Scalar::from_le_bytes(bytes, output).as_f64();
            let chain = 64.0 + k.div_ceil(64) as f64;
            let allowed = if output.is_float() { size_sum * (chain * u + each) + sum.abs() * last } else { 0.5 };
            let share = (got - sum).abs() / allowed.max(f64::MIN_POSITIVE);
            worst = if share.is_nan() { f64::INFINITY } else { worst.max(share) };
        }
        Ok(worst)
    }
}

fn element(
    bytes: &[u8],
    dtype: DType,
    transposed: bool,
    index: u64,
    [rows, columns]: [u64; 2],
    [r, c]: [u64; 2],
) -> f64 {
    let at = index * rows * columns + if transposed { c * rows + r } else { r * columns + c };
    let (at, size) = (at as usize, dtype.size_bytes() as usize);
    Scalar::from_le_bytes(&bytes[at * size..][..size], dtype).as_f64()
}
