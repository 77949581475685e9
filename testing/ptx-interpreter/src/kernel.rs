//! A parsed module and its kernels.

use std::sync::Arc;

use crate::error::ParseError;
use crate::inst::{Class, Inst, Slot};

/// Address of the first shared variable. Not zero, so that a forgotten base is noticed; recent hardware keeps 1 KiB for
/// itself as well.
pub(crate) const SHARED_BASE: u32 = 1024;
/// Address of the first local variable.
pub(crate) const LOCAL_BASE: u32 = 4096;
/// Address of the first constant.
pub(crate) const CONST_BASE: u32 = 8192;
/// Address of the parameter block: one that 32 bits do not hold, so that the wrong width is noticed.
pub(crate) const PARAM_BASE: u64 = 3 << 32;

/// Bit from which a `shared::cluster` address says which block: 0 is the block itself, else one more than its rank.
pub(crate) const CLUSTER_SHIFT: u32 = 24;

/// A parsed PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) kernels: Vec<Kernel>,
}

impl Module {
    /// Parses PTX text.
    ///
    /// # Errors
    /// [`ParseError`] for text that is wrong or that this crate cannot execute.
    pub fn parse(text: &str) -> Result<Module, ParseError> {
        crate::parse::module(text)
    }

    /// The entry point of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }

    /// All entry points, in the text's order.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the text.
    pub name: String,
    /// Bytes from the start of the parameter block.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
    /// Its alignment.
    pub align: u32,
}

impl Param {
    /// Its bytes in the parameter block.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.bytes) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    LaneId,
    WarpId,
    NWarpId,
    LaneMaskEq,
    LaneMaskLe,
    LaneMaskLt,
    LaneMaskGe,
    LaneMaskGt,
    DynamicSharedBytes,
    /// Where the dynamically sized shared array begins.
    DynamicShared,
    ClusterId(usize),
    NClusterId(usize),
    /// Of the block within its cluster.
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    ClusterRank,
    ClusterSize,
}

/// One entry point, decoded.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) param_bytes: u32,
    pub(crate) required: Option<[u32; 3]>,
    pub(crate) at_most: Option<[u32; 3]>,
    /// Blocks of a cluster, along x, y, z.
    pub(crate) cluster: [u32; 3],
    /// Rows of each class, those of immediates and special registers included.
    pub(crate) rows: [u32; 4],
    pub(crate) immediates: Vec<(Class, Slot, u64)>,
    pub(crate) specials: Vec<(Special, Slot)>,
    pub(crate) static_shared_bytes: u32,
    pub(crate) dynamic_base: u32,
    pub(crate) uses_dynamic: bool,
    pub(crate) local_bytes: u32,
    pub(crate) uses_nc: bool,
    /// It has barriers in shared memory, bulk copies or wgmma, whose order no count of barriers tells.
    pub(crate) uses_async: bool,
    /// It waits by itself for the kernel before it.
    pub(crate) waits_for_grid: bool,
    pub(crate) code: Vec<Inst>,
    pub(crate) constants_bank: Arc<Vec<u8>>,
    pub(crate) lines: Arc<Vec<String>>,
}

impl Kernel {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Size of the parameter block.
    pub fn param_bytes(&self) -> u32 {
        self.param_bytes
    }

    /// Threads of a block that `.reqntid` demands.
    pub fn required_block(&self) -> Option<[u32; 3]> {
        self.required
    }

    /// Blocks of a cluster that `.reqnctapercluster` demands, along x, y, z.
    pub fn cluster(&self) -> [u32; 3] {
        self.cluster
    }

    /// Shared memory declared with a size.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// Decoded instructions.
    pub fn instructions(&self) -> usize {
        self.code.len()
    }
}
