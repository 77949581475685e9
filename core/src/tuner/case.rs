//! The small case that a candidate is checked with before its first use.
//!
//! It is the user's op made small: dtypes, precision, epilogue, order of strides and batching stay, and extents, pitches and
//! offsets keep their remainders by 128, so that kernels take the same paths as on the large one: tails where it has tails,
//! wide loads where its rows are aligned. Values are drawn from -1..1, so that a kernel of too little precision shows. Every
//! element must be written and finite, the bytes behind must stay as they were, and a sample of whole rows is held to the
//! oracle: first, last and those at the edges of tiles, and others. Wrong tiles, wrong tails, wrong columns and wrong
//! precision cannot miss it; the conformance harness remains the full proof.

use crate::case::Values;
use crate::case::values::mix;
use crate::case::{Operand, operand};
use crate::operation::{Content, Operand as Spec, Role};
use crate::oracle::{HostTensor, Subnormals};
use crate::tuned::Effort;
use crate::tuned::Judged;
use crate::{Layout, Op, Result, Scalar, TensorSpec};

/// Bytes after the output that must stay as they were.
const GUARD_BYTES: u64 = 64;
/// Of grouped products one row in this many belongs to no group.
const UNOWNED: u64 = 16;
/// What scales of operands are drawn from: sums of 8-bit products then fit every float.
const SCALES: Values = Values::Uniform(1.0 / 256.0, 1.0 / 64.0);

/// A case: its operation, its operands' contents, and the rows of the results that are judged.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) op: Op,
    /// Operands that are read, then those that are updated.
    held: Vec<Operand>,
    judged: Vec<Judged>,
}

/// The most doublings of a check's inner dimension, for candidates that only serve long ones.
const MOST_DOUBLINGS: u32 = 6;

/// Small ops to check a candidate for `op` with, the smallest first: the first for which its planner offers the
/// candidate is used. A candidate that no small case offers cannot be checked, so it is never chosen; planners test
/// that this does not happen.
pub fn check_cases(op: &Op, effort: Effort) -> impl Iterator<Item = Op> {
    (0..=MOST_DOUBLINGS).map_while(move |longer| reduced(op, effort, longer))
}

/// `op` made small, its inner dimension doubled `longer` times for candidates that only serve long ones. `None` when
/// the result would not be smaller than `op`, and for operations that are not tuned.
pub(super) fn reduced(op: &Op, effort: Effort, longer: u32) -> Option<Op> {
    op.tuned()?.small(effort, longer)
}

impl Trial {
    /// The case of `op` with numbers drawn from `seed`.
    ///
    /// # Errors
    /// Never for an op made by [`reduced`].
    pub(super) fn new(op: Op, seed: u64) -> Result<Trial> {
        let specs = op.held();
        // Integers without scales must be small, so that their sums fit every float, f16 too.
        let is_scaled = (0..specs.len()).any(|i| op.content(i) == Content::Scales);
        let most = if op.output().dtype.is_float() && !is_scaled { 2 } else { 100 };
        let hold = |(i, spec): (usize, &TensorSpec)| {
            let values = match op.content(i) {
                Content::Any => plain(spec, most),
                // Extents of cases are small.
                Content::Ends { rows } => Values::Rising((rows - rows / UNOWNED) as u32),
                Content::Rows { rows } => Values::Integers(0, (rows.max(1) - 1) as i32),
                Content::Places24 { .. } => Values::Places24,
                Content::Scales => SCALES,
            };
            operand(spec, &values, mix(seed, i as u64 + 1))
        };
        let held: Vec<Operand> = specs.iter().enumerate().map(hold).collect();
        let hosts: Vec<HostTensor> = held.iter().map(|operand| operand.host.clone()).collect();
        let judged = op.tuned().map(|tuned| tuned.judged(&hosts)).transpose()?.unwrap_or_default();
        Ok(Trial { op, held, judged })
    }

    /// The bytes of each input's buffer.
    pub(super) fn inputs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let inputs = self.op.inputs().len();
        self.held[..inputs].iter().map(|operand| operand.storage.as_slice())
    }

    /// What the outputs' buffers hold before: what is updated, or NaN, or bytes that no small sum has.
    pub(super) fn before(&self) -> Vec<Vec<u8>> {
        let mut updated = self.held[self.op.inputs().len()..].iter();
        let hold = |Spec { role, spec }: Spec| {
            let size = (spec.required_bytes() + GUARD_BYTES) as usize;
            let fill = if spec.dtype.is_float() { 0xFF } else { 0xA5 };
            let mut bytes = match role {
                Role::Update => updated.next().map(|operand| operand.storage.clone()).unwrap_or_default(),
                Role::Read | Role::Write => Vec::new(),
            };
            bytes.resize(size.max(bytes.len()), fill);
            bytes
        };
        self.op.outputs().into_iter().map(hold).collect()
    }

    /// What is wrong with the outputs' buffers `after` the op, if anything.
    pub(super) fn judge(&self, after: &[Vec<u8>], subnormals: Subnormals) -> Option<String> {
        let outputs = self.op.outputs().into_iter().zip(self.before()).zip(after);
        outputs.enumerate().find_map(|(number, ((output, before), after))| {
            let fault = self.judge_output(number, &output.spec, &before, after, subnormals)?;
            Some(if number == 0 { fault } else { format!("output {number}: {fault}") })
        })
    }

    fn judge_output(
        &self,
        number: usize,
        output: &TensorSpec,
        before: &[u8],
        after: &[u8],
        subnormals: Subnormals,
    ) -> Option<String> {
        let (dtype, size) = (output.dtype, output.dtype.size_bytes() as usize);
        let (start, end) = (output.layout.offset() as usize * size, output.required_bytes() as usize);
        if after.len() != before.len() {
            return Some(format!("{} bytes were read of {}", after.len(), before.len()));
        }
        if after[..start] != before[..start] || after[end..] != before[end..] {
            return Some("it writes beside its output".to_owned());
        }
        let results = &after[start..end];
        let value = |at: u64| Scalar::from_le_bytes(&results[at as usize * size..][..size], dtype);
        let count = output.layout.elements();
        if let Some(at) = (0..count).find(|&at| dtype.is_float() && !value(at).as_f64().is_finite()) {
            return Some(format!("element {} is missing or not finite", place(&output.layout, at)));
        }
        // Of an operation that says too little of an output nothing is taken.
        let Some(Judged { positions, expected }) = self.judged.get(number) else {
            return Some("nothing says what its output must be".to_owned());
        };
        let compared = positions.iter().copied().zip(expected);
        let mut wrong = compared.filter(|(at, want)| !want.accepts(value(*at), dtype, subnormals));
        let (at, want) = wrong.next()?;
        let got = value(at).as_f64();
        let share = 1 + wrong.count();
        Some(format!(
            "{share} of {} compared elements are wrong; {} is {got:e}, not {:e} +- {:.1e}",
            expected.len(),
            place(&output.layout, at),
            want.value.as_f64(),
            want.error
        ))
    }
}

/// The indices of element `at`.
fn place(layout: &Layout, at: u64) -> String {
    let mut rest = at;
    let mut index: Vec<u64> = Vec::new();
    for &dim in layout.dims().iter().rev() {
        index.push(rest % dim.max(1));
        rest /= dim.max(1);
    }
    index.reverse();
    format!("{index:?} of {:?}", layout.dims())
}

/// Floats of -1..1, or integers up to `most`, twice that where there are no negative ones.
fn plain(spec: &TensorSpec, most: i32) -> Values {
    if spec.dtype.is_float() {
        Values::Uniform(-1.0, 1.0)
    } else if spec.dtype.is_signed() {
        Values::Integers(-most, most)
    } else {
        Values::Integers(0, 2 * most)
    }
}

#[cfg(test)]
#[path = "case_tests.rs"]
mod tests;
