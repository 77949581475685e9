//! `core/src/cpu/parallel/hand_out.rs` with the types of crate loom, which runs a model in every order that its threads' accesses
//! can have, up to a number of preemptions.
//!
//! A crate of its own, so that loom is compiled for its tests alone and core is the same core everywhere. `LOOM_MAX_PREEMPTIONS`
//! chooses how deep it looks: 2 in `cargo xtask test` (seconds), more in `cargo xtask prove`.

#[cfg(test)]
#[allow(clippy::reversed_empty_ranges, reason = "a model looks at nothing before it waits")]
#[path = "../../src/cpu/parallel/hand_out.rs"]
mod hand_out;
#[cfg(test)]
mod models;
#[cfg(test)]
mod platform;
