//! (being written)
use polywarp_core::{Result, ops::ArgReduce};
use crate::{Caps, Plan, Source};

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {}

impl Kernel {
    pub(crate) fn source(&self) -> Source {
        Source { name: "argreduce".to_owned(), wgsl: String::new(), bindings: Vec::new() }
    }
}

pub(crate) fn plan(_op: &ArgReduce, caps: &Caps) -> Result<Plan> {
    Err(caps.unsupported("argreduce", "not written yet"))
}
