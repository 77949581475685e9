//! Decoded instructions: what the executor's loop matches on.
//!
//! Operands are slots of a register file. Immediates and special registers are slots too (rows filled before the first
//! instruction), so that an instruction never asks what kind its operand is.

pub(crate) use crate::background::{Bulk, CopyAsync, Mbarrier};
pub(crate) use crate::matrix::{Accumulator, Element, MatrixMove, Mma, Wgmma};
pub(crate) use crate::ops::{Cmp, Convert, FloatMods, FloatOp, IntOp, Logic, Round, WordOp};
pub(crate) use crate::types::{Class, Ty};

/// Row of the register file of the operand's width.
pub(crate) type Slot = u32;

/// Slot of an operand that is not there, or of a result nobody wants (`_`).
pub(crate) const NONE: Slot = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    /// `ld.global.nc`
    NonCoherent,
    Shared,
    /// `shared::cluster`: shared memory of a block of the cluster, by `mapa`'s address.
    Cluster,
    Local,
    Param,
    Const,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global | Space::NonCoherent => "global",
            Space::Shared => "shared",
            Space::Cluster => "shared::cluster",
            Space::Local => "local",
            Space::Param => "param",
            Space::Const => "const",
        }
    }
}

/// `[base + offset]`; `base` is a row of 32 or 64 bits, or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) base: Slot,
    pub(crate) wide: bool,
    pub(crate) offset: u64,
}

/// Whether an access takes part in data races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strength {
    Weak,
    /// `.relaxed`, `.acquire`, `.release`, `.volatile`: two of these do not race.
    Strong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
    Inc,
    Dec,
    Exch,
    Cas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    A,
    B,
    C,
}

/// A `wmma` instruction on 16x16x16; `row` says the layout in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wmma {
    Load { fragment: Fragment, row: bool, space: Space, half: bool, regs: Vec<Slot>, address: Address, stride: Slot },
    Store { row: bool, space: Space, half: bool, regs: Vec<Slot>, address: Address, stride: Slot },
    Mma { rows: [bool; 2], d_half: bool, c_half: bool, d: Vec<Slot>, a: Vec<Slot>, b: Vec<Slot>, c: Vec<Slot> },
}

/// Warp-wide operations; each waits for the threads of its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier,
    Shfl {
        mode: ShflMode,
        d: Slot,
        p: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Vote {
        mode: VoteMode,
        d: Slot,
        p: Slot,
        negated: bool,
    },
    Ballot {
        d: Slot,
        p: Slot,
        negated: bool,
    },
    Redux {
        op: ReduxOp,
        signed: bool,
        d: Slot,
        a: Slot,
    },
    MatchAny {
        wide: bool,
        d: Slot,
        a: Slot,
    },
    MatchAll {
        wide: bool,
        d: Slot,
        p: Slot,
        a: Slot,
    },
    /// One thread of the mask; `d` is its number, `p` is true in it.
    Elect {
        d: Slot,
        p: Slot,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Mov {
        class: Class,
        d: Slot,
        a: Slot,
    },
    /// Two rows of half the width as one, or four of a quarter; low first.
    Pack {
        part: Class,
        d: Slot,
        parts: [Slot; 4],
    },
    Unpack {
        part: Class,
        parts: [Slot; 4],
        a: Slot,
    },
    Int {
        op: IntOp,
        class: Class,
        signed: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Bfi {
        wide: bool,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        e: Slot,
    },
    Word {
        op: WordOp,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Float {
        op: FloatOp,
        ty: Ty,
        mods: FloatMods,
        d: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Logic {
        op: Logic,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Setp {
        cmp: Cmp,
        ty: Ty,
        ftz: bool,
        d: Slot,
        inverse: Slot,
        a: Slot,
        b: Slot,
        with: Option<(Logic, Slot, bool)>,
    },
    Selp {
        class: Class,
        d: Slot,
        a: Slot,
        b: Slot,
        p: Slot,
        negated: bool,
    },
    Cvt {
        convert: Convert,
        to: Class,
        from: Class,
        d: Slot,
        a: Slot,
    },
    /// Two `f32` in one register of type `to`: `a` becomes the high one.
    CvtPack {
        to: Ty,
        round: Round,
        relu: bool,
        sat: bool,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Ld {
        space: Space,
        ty: Ty,
        class: Class,
        count: u8,
        dst: [Slot; 4],
        address: Address,
        strength: Strength,
    },
    St {
        space: Space,
        ty: Ty,
        class: Class,
        count: u8,
        src: [Slot; 4],
        address: Address,
        strength: Strength,
    },
    Atom {
        space: Space,
        op: AtomOp,
        ty: Ty,
        d: Slot,
        address: Address,
        a: Slot,
        b: Slot,
    },
    /// `count` is a row or absent; aligned ones want a whole warp at the same instruction.
    Barrier {
        id: Slot,
        count: Slot,
        arrive: bool,
    },
    Fence,
    ActiveMask {
        d: Slot,
    },
    Collective {
        op: Collective,
        mask: Slot,
    },
    Wmma(Box<Wmma>),
    Matrix(Box<MatrixMove>),
    Mma(Box<Mma>),
    Wgmma(Box<Wgmma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
    },
    Mbarrier(Mbarrier),
    CopyAsync(CopyAsync),
    Bulk(Box<Bulk>),
    /// `fence.proxy.async`: ordinary writes before it are seen by bulk copies and wgmma after it.
    FenceAsync,
    /// `mapa`: the address that `a` has in block `rank` of the cluster.
    MapAddress {
        class: Class,
        d: Slot,
        a: Slot,
        rank: Slot,
    },
    ClusterArrive,
    ClusterWait,
    /// `griddepcontrol.wait`
    WaitForGrid,
    /// What changes no result: prefetches, `griddepcontrol.launch_dependents`, `nanosleep`; and `setmaxnreg`, of which
    /// all that is checked is that the whole warp executes it.
    Hint {
        whole_warp: bool,
    },
    Bra {
        target: u32,
        join: u32,
    },
    /// First instruction of a block where a branch's paths meet again.
    Join,
    Exit,
    Trap,
}

/// Where a guard's predicate is, and which value lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) p: Slot,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inst {
    pub(crate) guard: Option<Guard>,
    pub(crate) op: Op,
    pub(crate) line: u32,
}
