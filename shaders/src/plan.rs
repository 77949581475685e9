//! How an operation becomes launches of kernels in WGSL.

use polywarp_core::plan::{Candidate, Caps, Plan};
use polywarp_core::{Op, Result};

use crate::plans;

/// How `op` is computed on a device with `caps`: the first of its [`candidates`], without the work of making the others.
///
/// # Errors
/// [`polywarp_core::Error::UnsupportedDType`], [`polywarp_core::Error::Unsupported`] when these kernels cannot;
/// [`polywarp_core::Error::IndexWidth`] when a tensor has more elements than kernels can index,
/// [`polywarp_core::Error::DispatchTooLarge`].
pub fn plan(op: &Op, caps: &Caps) -> Result<Plan> {
    plans::plan(op, caps)
}

/// All the ways to compute `op` on a device with `caps`, what is expected to be fastest first; never none.
///
/// Each is right by its own: conformance tests run every one. On kernels that lean on what a driver may get wrong
/// ([`polywarp_core::plan::Source::cooperative`]) a backend should compare a first result before it trusts them.
///
/// # Errors
/// As [`plan`].
pub fn candidates(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    plans::candidates(op, caps)
}
