//! Values from other lanes (9.7.9.6 `shfl.sync`) and ballots (9.7.13.7 `vote.sync`).
//!
//! A shuffle moves 32 bits. Narrower values are widened for the way and wider ones go in two halves. What WGSL leaves
//! open (a lane out of range, or one that does not take part) is some lane's value here; it is never an error.

use naga::{Direction, Scalar};

use super::super::math::ty_of;
use super::lanes::{Lanes, first_lane, lanes};
use super::{Convergence, Env, WARP};
use crate::error::Result;
use crate::ir::*;

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
    let lanes = lanes(b, env, convergence);
    let word = votes(b, lanes, predicate.unwrap_or(Operand::bool(true)));
    [word, Operand::Imm(0), Operand::Imm(0), Operand::Imm(0)]
}

/// The lanes whose `predicate` holds, as bits.
pub(super) fn votes(b: &mut Builder, lanes: Lanes, predicate: Operand) -> Operand {
    match predicate {
        Operand::Imm(0) => Operand::Imm(0),
        Operand::Imm(_) => lanes.mask,
        Operand::Reg(_) => {
            let dst = b.reg(Ty::B32);
            b.push(Inst::Ballot { dst, src: predicate, mask: lanes.mask });
            dst.into()
        }
    }
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
    let ty = ty_of(scalar)?;
    // A constant is the same in every lane.
    if leaves.iter().all(|leaf| leaf.imm().is_some()) {
        return Ok(leaves.to_vec());
    }
    let lanes = lanes(b, env, convergence);
    let path = match mode {
        Gather::BroadcastFirst => Path::from_lane(first_lane(b, lanes)),
        Gather::Broadcast(lane) | Gather::Shuffle(lane) => Path::from_lane(lane),
        Gather::ShuffleDown(distance) => Path { mode: ShflMode::Down, lane: distance, clamp: LAST },
        Gather::ShuffleUp(distance) => Path::up(distance),
        Gather::ShuffleXor(bits) => Path::across(bits),
        Gather::QuadBroadcast(lane) => Path { mode: ShflMode::Idx, lane, clamp: QUAD },
        Gather::QuadSwap(Direction::X) => Path::across(Operand::u32(1)),
        Gather::QuadSwap(Direction::Y) => Path::across(Operand::u32(2)),
        Gather::QuadSwap(Direction::Diagonal) => Path::across(Operand::u32(3)),
    };
    Ok(leaves.iter().map(|&leaf| if leaf.imm().is_some() { leaf } else { carry(b, lanes, path, ty, leaf).0 }).collect())
}

/// Operand `c` of `shfl`: sources go up to lane 31 of the whole warp.
const LAST: u32 = WARP - 1;
/// The same within segments of four lanes: the bits of a lane's number that stay (28) in bits 8 to 12.
const QUAD: u32 = (WARP - 4) << 8 | LAST;

/// Which lane to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    mode: ShflMode,
    lane: Operand,
    clamp: u32,
}

impl Path {
    /// The lane of that number, modulo 32.
    pub(super) fn from_lane(lane: Operand) -> Path {
        Path { mode: ShflMode::Idx, lane, clamp: LAST }
    }

    /// The lane so many below; the own one where there is none.
    pub(super) fn up(distance: Operand) -> Path {
        Path { mode: ShflMode::Up, lane: distance, clamp: 0 }
    }

    /// The lane whose number differs in these bits.
    pub(super) fn across(bits: Operand) -> Path {
        Path { mode: ShflMode::Bfly, lane: bits, clamp: LAST }
    }
}

/// The value of another lane, and for [`Path::up`] the predicate whether there was such a lane.
pub(super) fn carry(b: &mut Builder, lanes: Lanes, path: Path, ty: Ty, value: Operand) -> (Operand, Operand) {
    match ty.class() {
        Class::Pred => {
            let word = b.selp(Ty::U32, value, Operand::Imm(1), Operand::Imm(0));
            let (word, found) = word_from(b, lanes, path, word);
            (b.setp(Compare::Ne, Ty::U32, word, Operand::Imm(0)), found)
        }
        Class::B16 => {
            let word = b.cvt(Ty::U32, Ty::U16, Round::None, value);
            let (word, found) = word_from(b, lanes, path, word);
            (b.cvt(Ty::U16, Ty::U32, Round::None, word), found)
        }
        Class::B32 => word_from(b, lanes, path, value),
        Class::B64 => {
            let (low, high) = b.unpack(Ty::B32, value);
            let (low, found) = word_from(b, lanes, path, low);
            let (high, _) = word_from(b, lanes, path, high);
            (b.pack(Ty::B32, low, high), found)
        }
    }
}

fn word_from(b: &mut Builder, lanes: Lanes, path: Path, word: Operand) -> (Operand, Operand) {
    let src = b.in_reg(Ty::B32, word).into();
    // The hardware takes five bits; say no more than these in a constant.
    let lane = match path.lane {
        Operand::Imm(lane) => Operand::Imm(lane & u64::from(LAST)),
        lane => lane,
    };
    let in_range = (path.mode == ShflMode::Up).then(|| b.reg(Ty::Pred));
    let (dst, clamp) = (b.reg(Ty::B32), Operand::u32(path.clamp));
    b.push(Inst::Shfl { mode: path.mode, dst, in_range, src, lane, clamp, mask: lanes.mask });
    (dst.into(), in_range.map_or(Operand::bool(true), Operand::from))
}
