//! Who a lane is, and which lanes take part.

use super::{Convergence, Env, WARP};
use crate::ir::*;

/// `local_invocation_index`: the linear index, x fastest, which is also the order in which warps are formed.
pub(crate) fn linear_index(b: &mut Builder, env: Env) -> Operand {
    let [x, y, z] = env.workgroup_size;
    let mut index = Operand::Imm(0);
    // z * (y_size * x_size) + y * x_size + x, without the dimensions of size 1.
    for (axis, size, stride) in [(2, z, x.saturating_mul(y)), (1, y, x), (0, x, 1)] {
        if size > 1 {
            let id = b.special(Special::Tid(axis)).into();
            index = match (index, stride) {
                (Operand::Imm(0), 1) => id,
                (index, 1) => b.add(Ty::U32, index, id),
                (Operand::Imm(0), stride) => b.mul(Ty::U32, id, Operand::u32(stride)),
                (index, stride) => b.ternary(TernaryOp::MadLo, Ty::U32, id, Operand::u32(stride), index),
            };
        }
    }
    index
}

/// `subgroup_size`.
pub(crate) fn subgroup_size() -> Operand {
    Operand::u32(WARP)
}

/// `subgroup_invocation_id`.
pub(crate) fn subgroup_invocation_id(b: &mut Builder) -> Operand {
    b.special(Special::LaneId).into()
}

/// `subgroup_id`. Not `%warpid`, which may change while a thread runs.
pub(crate) fn subgroup_id(b: &mut Builder, env: Env) -> Operand {
    if env.invocations() <= WARP {
        return Operand::Imm(0);
    }
    let index = linear_index(b, env);
    b.binary(BinaryOp::Shr, Ty::U32, index, Operand::u32(WARP.ilog2()))
}

/// `num_subgroups`.
pub(crate) fn num_subgroups(env: Env) -> Operand {
    Operand::u32(env.invocations().div_ceil(WARP))
}

/// The lanes that an operation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// One bit per lane; has the own lane's.
    pub(super) mask: Operand,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The whole warp.
    All,
    /// Lanes 0 up to some number.
    Head,
    /// Any.
    Any,
}

/// The lanes that take part in an operation here.
pub(super) fn lanes(b: &mut Builder, env: Env, convergence: Convergence) -> Lanes {
    let (total, rest) = (env.invocations(), env.invocations() % WARP);
    match convergence {
        Convergence::Uniform if rest == 0 => Lanes { mask: Operand::u32(u32::MAX), kind: Kind::All },
        Convergence::Uniform => {
            let head = Operand::u32((1 << rest) - 1);
            if total < WARP {
                return Lanes { mask: head, kind: Kind::Head };
            }
            let index = linear_index(b, env);
            let in_last = b.setp(Compare::Ge, Ty::U32, index, Operand::u32(total - rest));
            let mask = b.selp(Ty::U32, in_last, head, Operand::u32(u32::MAX));
            Lanes { mask, kind: Kind::Head }
        }
        Convergence::Partial => {
            b.require(6, 2);
            let dst = b.reg(Ty::B32);
            b.push(Inst::ActiveMask { dst });
            Lanes { mask: dst.into(), kind: Kind::Any }
        }
    }
}

/// The own lane's number.
pub(super) fn own_lane(b: &mut Builder) -> Operand {
    b.special(Special::LaneId).into()
}

/// The lowest lane that takes part.
pub(super) fn first_lane(b: &mut Builder, lanes: Lanes) -> Operand {
    match lanes.kind {
        Kind::All | Kind::Head => Operand::Imm(0),
        Kind::Any => {
            let reversed = b.unary(UnaryOp::Brev, Ty::B32, lanes.mask);
            b.unary(UnaryOp::Clz, Ty::B32, reversed)
        }
    }
}

/// Who holds what a lane needs next: the lane number, with [`NOBODY`] set when there is no such lane (the lane is then
/// the own one, so that reading from it is harmless).
pub(super) const NOBODY: u32 = 32;

/// The next lower lane that takes part.
pub(super) fn lower_neighbour(b: &mut Builder, lanes: Lanes) -> Operand {
    let below = b.special(Special::LaneMaskLt).into();
    let candidates = b.and(Ty::B32, lanes.mask, below);
    let found = b.unary(UnaryOp::Bfind, Ty::U32, candidates);
    let none = b.setp(Compare::Eq, Ty::U32, candidates, Operand::Imm(0));
    let own = own_lane(b);
    let nobody = b.or(Ty::B32, own, Operand::u32(NOBODY));
    b.selp(Ty::U32, none, nobody, found)
}
