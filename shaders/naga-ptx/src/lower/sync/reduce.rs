//! Reductions and scans over the lanes of a warp.

use naga::{CollectiveOperation, Scalar, SubgroupOperation};

use super::{Convergence, Env};
use crate::error::{Error, Result};
use crate::ir::{Builder, Operand};

/// `Statement::SubgroupCollectiveOperation`, componentwise: `leaves` are the components of the argument.
pub(crate) fn collective(
    b: &mut Builder,
    env: Env,
    convergence: Convergence,
    op: SubgroupOperation,
    how: CollectiveOperation,
    scalar: Scalar,
    leaves: &[Operand],
) -> Result<Vec<Operand>> {
    let _ = (b, env, convergence, op, how, scalar, leaves);
    Err(Error::unsupported("a subgroup operation", "not written yet"))
}
