//! Routines of the host that several operations share the parts of.

pub(super) mod along;
pub(super) mod join;
pub(super) mod rows;
