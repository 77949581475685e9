//! (being written)
use polywarp_core::{Result, ops::Softmax};
use crate::{Caps, Plan, Source};

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {}

impl Kernel {
    pub(crate) fn source(&self) -> Source {
        Source { name: "softmax".to_owned(), wgsl: String::new(), bindings: Vec::new() }
    }
}

pub(crate) fn plan(_op: &Softmax, caps: &Caps) -> Result<Plan> {
    Err(caps.unsupported("softmax", "not written yet"))
}
