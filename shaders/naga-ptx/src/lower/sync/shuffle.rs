//! Values from other lanes, and ballots.

use naga::{Direction, Scalar};

use super::{Convergence, Env};
use crate::error::{Error, Result};
use crate::ir::{Builder, Operand};

/// `naga::GatherMode` with its operand (a u32) in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    BroadcastFirst,
    Broadcast(Operand),
    Shuffle(Operand),
    ShuffleDown(Operand),
    ShuffleUp(Operand),
    ShuffleXor(Operand),
    QuadBroadcast(Operand),
    QuadSwap(Direction),
}

/// `Statement::SubgroupBallot`: the four words of the result. No predicate counts as true.
pub(crate) fn ballot(b: &mut Builder, env: Env, convergence: Convergence, predicate: Option<Operand>) -> [Operand; 4] {
    let _ = (b, env, convergence, predicate);
    [Operand::Imm(0); 4]
}

/// `Statement::SubgroupGather`, componentwise: `leaves` are the components of the argument.
pub(crate) fn gather(
    b: &mut Builder,
    env: Env,
    convergence: Convergence,
    mode: Gather,
    scalar: Scalar,
    leaves: &[Operand],
) -> Result<Vec<Operand>> {
    let _ = (b, env, convergence, mode, scalar, leaves);
    Err(Error::unsupported("a subgroup operation", "not written yet"))
}
