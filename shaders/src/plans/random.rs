//! (being written)
use polywarp_core::{Result, ops::Random};
use crate::{Caps, Plan, Source};

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {}

impl Kernel {
    pub(crate) fn source(&self) -> Source {
        Source { name: "random".to_owned(), wgsl: String::new(), bindings: Vec::new() }
    }
}

pub(crate) fn plan(_op: &Random, caps: &Caps) -> Result<Plan> {
    Err(caps.unsupported("random", "not written yet"))
}
