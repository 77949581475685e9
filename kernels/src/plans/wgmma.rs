//! Which ops the family wgmma serves, and how.

use polywarp_core::Op;

use crate::{Candidate, Caps};

pub(super) fn candidates(_op: &Op, _caps: &Caps) -> Vec<Candidate> {
    Vec::new()
}
