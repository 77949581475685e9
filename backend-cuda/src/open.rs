//! Making a backend of a context: a card's own ([`CardEntry::open`]), or an application's (`interop.rs`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use naga_ptx::Target;
use polywarp_core::pool::{Pool, PoolOptions, Reuse};
use polywarp_core::{Error, Profiler, Requests, Result};

use crate::candidates::chooser;
use crate::cards::CardEntry;
use crate::driver::{api, unavailable};
use crate::fault::Fault;
use crate::info::{caps, device_info, max_buffer_bytes, native_caps};
use crate::kernels::{Compiler, Kernels};
use crate::machine::Machine;
use crate::native::{Card, Context, EventKind, Memory, Stream};
use crate::staging::StagingCache;
use crate::state::CudaBackend;
use crate::user::{ForeignKernels, UserKernels, launch_limits};
use crate::versions::OLDEST_CARD;
use crate::waiter::Waiter;

/// The environment variable that turns the pool off (`off`): every allocation is then the driver's own, of the size asked
/// for, so that compute-sanitizer sees where each one ends.
const POOL_VARIABLE: &str = "POLYWARP_CUDA_POOL";

/// How to open a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes the pool may hold, in use and cached.
    pub memory_limit_bytes: Option<u64>,
    /// How long one wait may take before the device counts as lost; `None` waits for ever.
    pub patience: Option<Duration>,
    /// How long dropping the backend waits for work that is under way (5 s; or `patience`, when that is shorter). What is
    /// not done by then, such as a kernel that never ends, keeps what it uses: memory, modules, stream and context are left
    /// to the process, and the log (level warn) says so. What outlives the backend, such as an event, is then lost.
    pub drop_patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory_limit_bytes: None, patience: None, drop_patience: Duration::from_secs(5) }
    }
}

impl CardEntry {
    /// Opens a device on this card, in its primary context, which other CUDA libraries of the process share.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when it cannot compute or the driver refuses; [`Error::DevicePoisoned`] when work of
    /// this process has faulted on it before.
    pub fn open(&self, options: Options) -> Result<CudaBackend> {
        if let Some(reason) = &self.unusable {
            return Err(unavailable(format!("{} ({}) cannot be used: {reason}", self.id, self.name)));
        }
        let fault = Fault::new(self.id.clone(), options.patience);
        let opened = Context::primary(api()?, self.card.device, fault)
            .and_then(|context| CudaBackend::assemble(&context, &self.card, options));
        opened.map_err(|error| not_opened(error, &self.id, &self.card))
    }
}

impl CudaBackend {
    /// A backend in `context`, which is on `card`.
    pub(crate) fn assemble(context: &Arc<Context>, card: &Card, options: Options) -> Result<CudaBackend> {
        let id = context.fault.device().to_owned();
        if card.compute_capability < OLDEST_CARD {
            let ((major, minor), (least, _)) = (card.compute_capability, OLDEST_CARD);
            let name = &card.name;
            return Err(unavailable(format!(
                "{id} ({name}) has compute capability {major}.{minor}; kernels need {least}.0 (Volta) or newer: use it \
                 through Vulkan"
            )));
        }
        let caps = caps(&id, card);
        let native_caps = native_caps(&id, card, context.api);
        let info = device_info(&caps, card, context.api.display());
        let launch_limits = launch_limits(&id, card);
        let stream = Arc::new(Stream::new(context)?);
        let pool = Pool::new(
            Memory::new(&stream),
            PoolOptions {
                device: id,
                max_block_bytes: max_buffer_bytes(card),
                limit_bytes: options.memory_limit_bytes,
                reuse: if std::env::var_os(POOL_VARIABLE).is_some_and(|v| v == "off") {
                    Reuse::Off
                } else {
                    Reuse::Cached
                },
            },
        );
        let pool = Arc::new(pool);
        let held = Arc::downgrade(&pool);
        context.fault.tell_held(move || held.upgrade().map(|pool| pool.stats()).unwrap_or_default());
        let (major, minor) = card.compute_capability;
        Ok(CudaBackend {
            chooser: chooser(&info, &caps, &native_caps),
            info,
            caps,
            machine: Machine::new(context, native_caps.sm),
            native_caps,
            pool,
            kernels: Kernels::new(Compiler::new(context, Target::new(major, minor))),
            user_kernels: UserKernels::default(),
            foreign_kernels: ForeignKernels::default(),
            launch_limits,
            uploads: Mutex::default(),
            upload_pieces: StagingCache::new(context, EventKind::Quick),
            quick_pieces: StagingCache::new(context, EventKind::Quick),
            sleeping_pieces: StagingCache::new(context, EventKind::Sleeping),
            waiter: Waiter::default(),
            recorders: Arc::default(),
            profiler: Profiler::default(),
            requests: Requests::default(),
            drop_patience: options.patience.map_or(options.drop_patience, |most| most.min(options.drop_patience)),
            stream,
        })
    }
}

/// The error of a device that cannot be made a context on.
fn not_opened(error: Error, id: &str, card: &Card) -> Error {
    match error {
        Error::Backend { message, .. } => unavailable(format!("{id} ({}) does not open: {message}", card.name)),
        Error::OutOfMemory { .. } => {
            unavailable(format!("{id} ({}) does not open: no memory is left on it; see nvidia-smi", card.name))
        }
        other => other,
    }
}
