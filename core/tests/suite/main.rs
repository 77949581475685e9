//! The tests of this crate from outside, in one program: linked once, and run side by side.
//!
//! One file per subject. A test that changes its process (its environment, its limits) does so in a child, which is this program
//! again with the test's name.

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
#[cfg(feature = "cpu")]
mod conformance;
#[cfg(feature = "cpu")]
mod contract;
#[cfg(feature = "cpu")]
mod distributions;
mod exact_integers;
#[cfg(feature = "cpu")]
mod fit;
mod harness_can_fail;
mod layout_properties;
mod moves;
#[cfg(feature = "cpu")]
mod numpy_answers;
#[cfg(feature = "cpu")]
mod recording;
#[cfg(all(feature = "cpu", target_os = "linux"))]
mod short_memory;
mod threads;
mod tuner;
