//! Barriers (9.7.13.1 `bar`, 9.7.13.2 `bar.warp.sync`, 9.7.13.4 `fence`); the table in the folder's head says why
//! these.

use naga::Barrier;

use super::lanes::{Lanes, lanes};
use super::{Convergence, Env};
use crate::error::Result;
use crate::ir::{Builder, Inst, Scope};

/// `Statement::ControlBarrier`.
pub(crate) fn control_barrier(b: &mut Builder, env: Env, convergence: Convergence, flags: Barrier) {
    let across_blocks = flags.contains(Barrier::STORAGE);
    if across_blocks {
        b.push(Inst::Fence { scope: Scope::Gpu });
    }
    if flags.contains(Barrier::SUB_GROUP) && !flags.intersects(Barrier::WORK_GROUP | Barrier::TEXTURE) {
        let Lanes { mask, .. } = lanes(b, env, convergence);
        b.push(Inst::WarpBarrier { mask });
    } else {
        b.push(Inst::Barrier);
    }
    if across_blocks {
        b.push(Inst::Fence { scope: Scope::Gpu });
    }
}

/// `Statement::MemoryBarrier`: orders memory, waits for nobody.
pub(crate) fn memory_barrier(b: &mut Builder, flags: Barrier) {
    if flags.contains(Barrier::STORAGE) {
        b.push(Inst::Fence { scope: Scope::Gpu });
    } else if !flags.is_empty() {
        b.push(Inst::Fence { scope: Scope::Cta });
    }
}

/// `workgroupUniformLoad`: `load` between two barriers, so that everybody reads what was written before and nobody
/// overwrites it before everybody has.
pub(crate) fn uniform_load<T>(b: &mut Builder, load: impl FnOnce(&mut Builder) -> Result<T>) -> Result<T> {
    b.push(Inst::Barrier);
    let value = load(b)?;
    b.push(Inst::Barrier);
    Ok(value)
}
