//! Reductions and scans over the lanes of a warp.
//!
//! | lanes            | reduction                                  | inclusive scan                    |
//! |------------------|--------------------------------------------|-----------------------------------|
//! | all 32           | butterfly of 5 steps                       | Hillis and Steele, 5 steps        |
//! | 0 up to a number | scan, then the last lane's value           | Hillis and Steele, 5 steps        |
//! | any set          | scan, then the last lane's value           | pointer jumping, 5 steps          |
//!
//! 32-bit integers on sm_80 and up are reduced by `redux.sync` (9.7.13.10) instead, whatever the lanes, and so are the
//! halves of 64-bit bitwise operations; votes (9.7.13.7) serve bools. An exclusive scan is the inclusive one of the
//! lane before. 16-bit values are widened: f16 is summed in f32 and rounded once. Sums of floats are rounded each by
//! itself, never fused with a product, so that all lanes get the same bits.

use naga::{CollectiveOperation, Scalar, SubgroupOperation};

use super::super::math::ty_of;
use super::lanes::{Kind, Lanes, NOBODY, lanes, lower_neighbour};
use super::shuffle::{Path, carry, votes};
use super::{Convergence, Env};
use crate::Target;
use crate::error::{Error, Result};
use crate::ir::*;

/// First target with `redux.sync`, and the PTX ISA version it came with.
const REDUX: (Target, u32, u32) = (Target::new(8, 0), 7, 0);

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
    let ty = ty_of(scalar)?;
    let lanes = lanes(b, env, convergence);
    if ty == Ty::Pred {
        return leaves.iter().map(|&leaf| of_bools(b, lanes, op, how, leaf)).collect();
    }
    let step = Step::of(op, ty)?;
    let linked = how != CollectiveOperation::Reduce || step.redux(env).is_none();
    let neighbour = (lanes.kind == Kind::Any && linked).then(|| lower_neighbour(b, lanes));
    let over = Over { env, lanes, neighbour, step };
    Ok(leaves.iter().map(|&leaf| over.numbers(b, how, ty, leaf)).collect())
}

fn of_bools(
    b: &mut Builder,
    lanes: Lanes,
    op: SubgroupOperation,
    how: CollectiveOperation,
    value: Operand,
) -> Result<Operand> {
    if how != CollectiveOperation::Reduce {
        return Err(Error::invalid("a scan of bools"));
    }
    let mode = match op {
        SubgroupOperation::All | SubgroupOperation::And => VoteMode::All,
        SubgroupOperation::Any | SubgroupOperation::Or => VoteMode::Any,
        SubgroupOperation::Xor => {
            let bits = votes(b, lanes, value);
            let count = b.unary(UnaryOp::Popc, Ty::B32, bits);
            let odd = b.and(Ty::B32, count, Operand::Imm(1));
            return Ok(b.setp(Compare::Ne, Ty::U32, odd, Operand::Imm(0)));
        }
        SubgroupOperation::Add | SubgroupOperation::Mul | SubgroupOperation::Min | SubgroupOperation::Max => {
            return Err(Error::invalid("arithmetic on bools"));
        }
    };
    if value.imm().is_some() {
        return Ok(value);
    }
    let dst = b.reg(Ty::Pred);
    b.push(Inst::Vote { mode, dst, src: value, mask: lanes.mask });
    Ok(dst.into())
}

/// How two values become one, and in which type.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: BinaryOp,
    ty: Ty,
    /// Changes nothing: what the first lane of an exclusive scan gets.
    identity: Operand,
}

impl Step {
    /// Steps on values of type `narrow`, or of the 32-bit type that stands for it.
    fn of(op: SubgroupOperation, narrow: Ty) -> Result<Step> {
        let ty = wide(narrow);
        let one = match ty {
            Ty::F32 => Operand::f32(1.0),
            Ty::F64 => Operand::f64(1.0),
            _ => Operand::Imm(1),
        };
        let (op, identity) = match op {
            SubgroupOperation::Add if ty.is_float() => (BinaryOp::AddRn, Operand::Imm(0)),
            SubgroupOperation::Add => (BinaryOp::Add, Operand::Imm(0)),
            SubgroupOperation::Mul if ty.is_float() => (BinaryOp::MulRn, one),
            SubgroupOperation::Mul => (BinaryOp::Mul, one),
            SubgroupOperation::Min => (BinaryOp::Min, Operand::Imm(0)),
            SubgroupOperation::Max => (BinaryOp::Max, Operand::Imm(0)),
            SubgroupOperation::And if !ty.is_float() => (BinaryOp::And, Operand::Imm(0)),
            SubgroupOperation::Or if !ty.is_float() => (BinaryOp::Or, Operand::Imm(0)),
            SubgroupOperation::Xor if !ty.is_float() => (BinaryOp::Xor, Operand::Imm(0)),
            SubgroupOperation::And | SubgroupOperation::Or | SubgroupOperation::Xor => {
                return Err(Error::invalid("a bitwise subgroup operation on floats"));
            }
            SubgroupOperation::All | SubgroupOperation::Any => {
                return Err(Error::invalid("a vote on numbers"));
            }
        };
        Ok(Step { op, ty, identity })
    }

    /// The one instruction that reduces 32 bits of it, if the target has one.
    fn redux(self, env: Env) -> Option<ReduxOp> {
        if env.target < REDUX.0 || self.ty.is_float() {
            return None;
        }
        let whole_word = self.ty.bytes() == 4;
        match self.op {
            BinaryOp::And => Some(ReduxOp::And),
            BinaryOp::Or => Some(ReduxOp::Or),
            BinaryOp::Xor => Some(ReduxOp::Xor),
            BinaryOp::Add if whole_word => Some(ReduxOp::Add),
            BinaryOp::Min if whole_word => Some(ReduxOp::Min),
            BinaryOp::Max if whole_word => Some(ReduxOp::Max),
            _ => None,
        }
    }
}

/// The type in which values of type `ty` are combined.
fn wide(ty: Ty) -> Ty {
    match ty {
        Ty::S16 => Ty::S32,
        Ty::U16 => Ty::U32,
        Ty::F16 => Ty::F32,
        ty => ty,
    }
}

/// `value` in the type it is combined in.
fn widened(b: &mut Builder, narrow: Ty, value: Operand) -> Operand {
    let ty = wide(narrow);
    match (narrow, value) {
        (narrow, value) if narrow == ty => value,
        (Ty::S16, Operand::Imm(bits)) => Operand::i32(i32::from(bits as u16 as i16)),
        (Ty::U16, Operand::Imm(_)) => value,
        _ => b.cvt(ty, narrow, Round::None, value),
    }
}

/// The other way round.
fn narrowed(b: &mut Builder, narrow: Ty, value: Operand) -> Operand {
    let ty = wide(narrow);
    match (narrow, value) {
        (narrow, value) if narrow == ty => value,
        (Ty::F16, value) => b.cvt(narrow, ty, Round::Rn, value),
        (_, Operand::Imm(bits)) => Operand::Imm(bits & 0xffff),
        (_, value) => b.cvt(narrow, ty, Round::None, value),
    }
}

/// Everything that is the same for all components.
struct Over {
    env: Env,
    lanes: Lanes,
    /// Of any set of lanes: the next lower one.
    neighbour: Option<Operand>,
    step: Step,
}

impl Over {
    fn numbers(&self, b: &mut Builder, how: CollectiveOperation, narrow: Ty, value: Operand) -> Operand {
        let value = widened(b, narrow, value);
        let result = match (value, self.step.op, how) {
            (Operand::Imm(_), BinaryOp::Add, how) => self.times_lanes(b, how, value),
            (_, _, CollectiveOperation::Reduce) => self.reduce(b, value),
            (_, _, CollectiveOperation::InclusiveScan) => self.inclusive(b, value).into(),
            (_, _, CollectiveOperation::ExclusiveScan) => self.exclusive(b, value),
        };
        narrowed(b, narrow, result)
    }

    /// Sums of one constant are counts of lanes: `subgroupAdd(1)` and the like.
    fn times_lanes(&self, b: &mut Builder, how: CollectiveOperation, value: Operand) -> Operand {
        let counted = match how {
            CollectiveOperation::Reduce => self.lanes.mask,
            CollectiveOperation::InclusiveScan => {
                let up_to_here = b.special(Special::LaneMaskLe).into();
                b.and(Ty::B32, self.lanes.mask, up_to_here)
            }
            CollectiveOperation::ExclusiveScan => {
                let before = b.special(Special::LaneMaskLt).into();
                b.and(Ty::B32, self.lanes.mask, before)
            }
        };
        let count = match counted {
            Operand::Imm(mask) => Operand::Imm(u64::from(mask.count_ones())),
            counted => b.unary(UnaryOp::Popc, Ty::B32, counted),
        };
        let count = match (count, self.step.ty.class()) {
            (Operand::Reg(_), Class::B64) => b.cvt(Ty::U64, Ty::U32, Round::None, count),
            _ => count,
        };
        b.mul(self.step.ty, count, value)
    }

    fn reduce(&self, b: &mut Builder, value: Operand) -> Operand {
        let Step { op, ty, .. } = self.step;
        if let Some(redux) = self.step.redux(self.env) {
            b.require(REDUX.1, REDUX.2);
            if ty.bytes() == 4 {
                return self.redux(b, redux, ty, value);
            }
            let (low, high) = b.unpack(Ty::B32, value);
            let (low, high) = (self.redux(b, redux, Ty::B32, low), self.redux(b, redux, Ty::B32, high));
            return b.pack(Ty::B32, low, high);
        }
        if self.lanes.kind == Kind::All {
            return [16, 8, 4, 2, 1].into_iter().fold(value, |sum, distance| {
                let (other, _) = carry(b, self.lanes, Path::across(Operand::u32(distance)), ty, sum);
                b.binary(op, ty, sum, other)
            });
        }
        let sums = self.inclusive(b, value).into();
        let last = match self.lanes.mask {
            Operand::Imm(mask) => Operand::u32((mask as u32).checked_ilog2().unwrap_or(0)),
            mask => b.unary(UnaryOp::Bfind, Ty::U32, mask),
        };
        carry(b, self.lanes, Path::from_lane(last), ty, sums).0
    }

    fn redux(&self, b: &mut Builder, op: ReduxOp, ty: Ty, value: Operand) -> Operand {
        let src = b.in_reg(ty, value).into();
        let dst = b.reg(ty);
        b.push(Inst::Redux { op, ty, dst, src, mask: self.lanes.mask });
        dst.into()
    }

    fn inclusive(&self, b: &mut Builder, value: Operand) -> Reg {
        let ty = self.step.ty;
        let sum = b.copy(ty, value);
        match self.neighbour {
            None => {
                for distance in [1, 2, 4, 8, 16] {
                    let (other, found) = carry(b, self.lanes, Path::up(Operand::u32(distance)), ty, sum.into());
                    self.accumulate(b, sum, other, found);
                }
            }
            Some(neighbour) => {
                // `link` is the highest lane that `sum` does not cover yet.
                let mut link = neighbour;
                for round in 0..5 {
                    let path = Path::from_lane(link);
                    let found = b.setp(Compare::Lt, Ty::U32, link, Operand::u32(NOBODY));
                    let (other, _) = carry(b, self.lanes, path, ty, sum.into());
                    if round < 4 {
                        link = carry(b, self.lanes, path, Ty::U32, link).0;
                    }
                    self.accumulate(b, sum, other, found);
                }
            }
        }
        sum
    }

    /// `sum = other + sum` where `found`.
    fn accumulate(&self, b: &mut Builder, sum: Reg, other: Operand, found: Operand) {
        let pred = b.in_reg(Ty::Pred, found);
        let Step { op, ty, .. } = self.step;
        let inst = Inst::Binary { op, ty, dst: sum, a: other, b: sum.into() };
        b.push_guarded(Guard { pred, negated: false }, inst);
    }

    fn exclusive(&self, b: &mut Builder, value: Operand) -> Operand {
        let Step { op, ty, identity } = self.step;
        let sum = self.inclusive(b, value).into();
        if op == BinaryOp::Add {
            return b.sub(ty, sum, value);
        }
        let (before, found) = match self.neighbour {
            None => carry(b, self.lanes, Path::up(Operand::u32(1)), ty, sum),
            Some(neighbour) => {
                let found = b.setp(Compare::Lt, Ty::U32, neighbour, Operand::u32(NOBODY));
                (carry(b, self.lanes, Path::from_lane(neighbour), ty, sum).0, found)
            }
        };
        b.selp(ty, found, before, identity)
    }
}
