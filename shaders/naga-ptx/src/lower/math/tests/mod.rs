//! Runs what the lowering emits on the host, and holds it against exact arithmetic.

mod accuracy;
mod assemble;
mod composed;
mod eval;
mod exact;
mod special;

use naga::{MathFunction as Mf, Scalar, VectorSize};

use super::*;
use crate::PtxVersion;
use crate::ir::Reg;
use eval::{Machine, Off};

const F16: Scalar = Scalar::F16;
const F32: Scalar = Scalar::F32;
const F64: Scalar = Scalar::F64;
const I32: Scalar = Scalar::I32;
const U32: Scalar = Scalar::U32;
const I64: Scalar = Scalar::I64;
const U64: Scalar = Scalar::U64;
const I16: Scalar = Scalar { kind: naga::ScalarKind::Sint, width: 2 };
const U16: Scalar = Scalar { kind: naga::ScalarKind::Uint, width: 2 };

fn env() -> Env {
    Env { target: Target::OLDEST, contraction: Contraction::Allowed }
}

fn builder() -> Builder {
    Builder::new(PtxVersion { major: 6, minor: 0 })
}

/// What a call gets: type, shape, and the values of all threads for each leaf.
struct Given {
    scalar: Scalar,
    shape: Shape,
    leaves: Vec<Vec<u64>>,
}

fn scalars(scalar: Scalar, values: Vec<u64>) -> Given {
    Given { scalar, shape: Shape::Scalar, leaves: vec![values] }
}

fn vectors(scalar: Scalar, leaves: Vec<Vec<u64>>) -> Given {
    let size = match leaves.len() {
        2 => VectorSize::Bi,
        3 => VectorSize::Tri,
        _ => VectorSize::Quad,
    };
    Given { scalar, shape: Shape::Vector(size), leaves }
}

/// Lowers with registers for the given leaves, runs it for every thread, and returns the leaves of the result.
fn run(given: &[Given], off: Off, lower: impl FnOnce(&mut Builder, &[Arg]) -> Result<Vec<Operand>>) -> Vec<Vec<u64>> {
    let mut b = builder();
    let registers: Vec<Vec<Reg>> =
        given.iter().map(|g| g.leaves.iter().map(|_| b.reg(ty_of(g.scalar).unwrap())).collect()).collect();
    let operands: Vec<Vec<Operand>> =
        registers.iter().map(|regs| regs.iter().map(|&r| Operand::Reg(r)).collect()).collect();
    let args: Vec<Arg> =
        given.iter().zip(&operands).map(|(g, leaves)| Arg { scalar: g.scalar, shape: g.shape, leaves }).collect();
    let results = lower(&mut b, &args).unwrap();
    let inputs: Vec<(Reg, &[u64])> = given
        .iter()
        .zip(&registers)
        .flat_map(|(g, regs)| regs.iter().copied().zip(g.leaves.iter().map(Vec::as_slice)))
        .collect();
    let threads = given[0].leaves[0].len();
    Machine::run(b.finish(), threads, &inputs, &results, off)
}

fn call(fun: Mf, given: &[Given], off: Off) -> Vec<Vec<u64>> {
    run(given, off, |b, args| math(b, env(), fun, args))
}

/// One result of a function of scalars.
fn call1(fun: Mf, given: &[Given]) -> Vec<u64> {
    call(fun, given, Off::Not).remove(0)
}

fn f32s(values: &[f32]) -> Vec<u64> {
    values.iter().map(|x| u64::from(x.to_bits())).collect()
}

/// xorshift64*: reproducible, and good enough to spread test inputs.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in `low..high`.
    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}
