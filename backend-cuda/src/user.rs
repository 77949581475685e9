//! Users' kernels, compiled or loaded, and what is read of them before: limits of a card, heads of PTX, images of machine code, and what
//! NVRTC made of a source. They are launched by `launch.rs`.

use std::sync::Arc;

use polywarp_shaders::wgsl::{Bindable, Interface, KnownKernels, LaunchLimits, RangeLimits};

use crate::kernels::Kernel;
use crate::native::{Block, Card};
use ptx::Param;

pub(crate) mod compiled;
pub(crate) mod image;
pub(crate) mod ptx;

/// Most bytes of private variables and locals, per invocation: a card sets this aside for every thread it can run at once.
const MOST_PRIVATE_BYTES: u64 = 64 << 10;
/// Alignment of a binding's start: a four-element load of 32-bit words is one instruction.
const BINDING_ALIGN_BYTES: u64 = 16;
/// Largest uniform: WebGPU's own limit, so that a kernel that runs here runs elsewhere.
const MOST_UNIFORM_BYTES: u64 = 64 << 10;
/// Most buffers: their addresses and sizes fit the block of parameters.
const MOST_BUFFERS: u64 = 128;

/// Users' kernels compiled so far.
pub(crate) type UserKernels = KnownKernels<UserKernel>;

/// A user's kernel ready to run.
#[derive(Debug)]
pub(crate) struct UserKernel {
    pub(crate) interface: Interface,
    pub(crate) kernel: Arc<Kernel>,
}

/// Users' kernels in CUDA's own forms loaded so far.
pub(crate) type ForeignKernels = KnownKernels<ForeignKernel>;

/// A kernel in one of CUDA's own forms, ready to run.
#[derive(Debug)]
pub(crate) struct ForeignKernel {
    pub(crate) kernel: Arc<Kernel>,
    /// Its parameters, where the code or the driver tells.
    pub(crate) params: Option<Vec<Param>>,
}

impl Bindable for Block {
    fn is_same(&self, other: &Block) -> bool {
        self.address() == other.address()
    }
}

/// What a user's kernel may use of `card`.
pub(crate) fn launch_limits(id: &str, card: &Card) -> LaunchLimits {
    LaunchLimits {
        device: id.to_owned(),
        workgroup_size: card.max_block,
        invocations: card.max_threads_per_block,
        workgroups: card.max_grid,
        workgroup_bytes: u64::from(card.workgroup_bytes()),
        private_bytes: MOST_PRIVATE_BYTES,
        buffers: MOST_BUFFERS,
        storage_buffers: MOST_BUFFERS,
        uniform_buffers: MOST_BUFFERS,
        groups: u64::MAX,
        bindings_per_group: u64::MAX,
        uniform: RangeLimits { align_bytes: BINDING_ALIGN_BYTES, max_bytes: MOST_UNIFORM_BYTES },
        storage: RangeLimits { align_bytes: BINDING_ALIGN_BYTES, max_bytes: u64::MAX },
    }
}
