//! Random WGSL compute programs that have one right result, for differential tests of shader compilers.
//!
//! [`generate`] writes a program, the buffers it runs on and the grid. Programs are valid by construction and
//! deterministic by construction: whatever WGSL leaves open is avoided, or made to not matter ("reconditioned":
//! Lecoeur, Mohsin and Donaldson, "Program Reconditioning: Avoiding Undefined Behaviour When Finding and Reducing
//! Compiler Bugs", PLDI 2023). Results on two implementations are equal bit for bit, after [`BufferSpec::canonical`].
//!
//! | left open by WGSL | what is done | where |
//! |---|---|---|
//! | rounding, contraction, reassociation of floats | every operation is exact: values are multiples of a fraction, and bounded | `float.rs` |
//! | precision of roots, sines, quotients | few arguments, results cut into steps away from the edges | `masked.rs` |
//! | sign of zero | never observed | `see`, `canonical` |
//! | overflow in constant expressions (an error) | one operand of every operation changes | `expression.rs` |
//! | elements out of bounds | read only where the value is then not used | `integer.rs` |
//! | order of atomics and invocations | commutative operations, results ignored; or one invocation per atomic | `entry.rs` |
//! | subgroup size | operations within eight neighbours, on request ([`Settings::subgroups`]) | `entry.rs` |
//!
//! Also avoided, being faults elsewhere that tests of one compiler would only find again: `i64(x)` of a `u32` (naga's
//! SPIR-V extends the sign) and of an `i32` (Mesa 22.3 compares it without one), loops of many rounds.
//!
//! Read next: `generator.rs` (the state), `expression.rs`, `statement.rs`, `entry.rs` (the program around them).
#![forbid(unsafe_code)]

mod entry;
mod expression;
mod float;
mod generator;
mod integer;
mod masked;
mod overwrite;
mod place;
mod random;
mod statement;
mod types;

pub use random::Random;
pub use types::{Field, Scalar};

/// Words of output that each invocation has.
pub(crate) const SLOTS: usize = 4;

/// What a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// 16-bit floats (`enable f16`).
    pub f16: bool,
    /// 64-bit floats, of naga.
    pub f64: bool,
    /// 64-bit integers, of naga.
    pub i64: bool,
    /// Subgroup operations; the workgroup is then a multiple of 32 in one dimension.
    pub subgroups: bool,
    /// Size of the program, in percent of the usual.
    pub size: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { f16: false, f64: false, i64: false, subgroups: false, size: 100 }
    }
}

impl Settings {
    /// Settings that vary with the seed: a quarter of the programs use each optional feature, an eighth subgroups.
    pub fn varied(seed: u64) -> Settings {
        let mut random = Random::new(seed ^ 0x5E77_1465);
        let [f16, f64, i64] = [0; 3].map(|_| random.chance(25));
        let size = random.pick(&[5, 15, 30, 60]);
        Settings { f16, f64, i64, subgroups: random.chance(12), size }
    }
}

/// How a buffer is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferUse {
    /// `var<uniform>`
    Uniform,
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    ReadWrite,
}

/// A buffer of a program, at group 0.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferSpec {
    /// `@binding`
    pub binding: u32,
    /// How it is bound.
    pub usage: BufferUse,
    /// Its content before the launch.
    pub initial: Vec<u8>,
    /// The scalars in it, by offset; the rest is padding.
    pub fields: Vec<Field>,
}

impl BufferSpec {
    /// `content` without what no program defines: padding, and which zero a zero is.
    pub fn canonical(&self, content: &[u8]) -> Vec<u8> {
        let mut canonical = vec![0; content.len()];
        for field in &self.fields {
            let range = field.offset..field.offset + field.scalar.bytes();
            let (Some(from), Some(to)) = (content.get(range.clone()), canonical.get_mut(range)) else { continue };
            let negative_zero = field.scalar.is_float()
                && from.split_last().is_some_and(|(top, rest)| *top == 0x80 && rest.iter().all(|byte| *byte == 0));
            if !negative_zero {
                to.copy_from_slice(from);
            }
        }
        canonical
    }
}

/// A program and what it runs on. Its entry point is `main`.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The text.
    pub wgsl: String,
    /// Its buffers, by binding.
    pub buffers: Vec<BufferSpec>,
    /// Workgroups along x, y, z.
    pub grid: [u32; 3],
    /// Features of [`Settings`] that it may use.
    pub settings: Settings,
}

/// The program of `seed`.
pub fn generate(seed: u64, settings: &Settings) -> Program {
    entry::program(seed, settings)
}
