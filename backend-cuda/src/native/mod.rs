//! Every call into the driver, as functions over owned handles.
//!
//! [`Context`] is what all calls need: they act on the context that is current on the calling thread, so [`Context::call`]
//! makes it current, and puts back what an application had there. Handles keep their context alive and are freed in it;
//! after a fault nothing is freed (`fault.rs`). What the driver does later, with memory it was given, is each caller's
//! promise: such functions are `unsafe` here and called from `uploads.rs`, `transfer.rs` and `run.rs`.

mod graph;
mod memory;
mod module;
mod nvrtc;
mod peer;
mod probe;
mod stream;
mod tensor_map;

use std::ffi::c_uint;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUdevice};
use polywarp_core::{Error, Result};

pub(crate) use graph::Graph;
pub(crate) use memory::{Block, Memory, Pinned};
pub(crate) use module::{Function, NotLinked, Start, link, load, not_linked};
pub(crate) use nvrtc::{Compiled, nvrtc};
pub(crate) use probe::{Card, cards, describe};
pub(crate) use stream::{Event, EventKind, Stream};
pub(crate) use tensor_map::encode;

use crate::driver::Api;
use crate::fault::Fault;
use crate::status::{Code, code};
use peer::Peers;

/// A CUDA context, held as long as anything of it is.
pub(crate) struct Context {
    pub(crate) api: &'static Api,
    raw: CUcontext,
    device: CUdevice,
    owner: Owner,
    peers: Peers,
    pub(crate) fault: Fault,
}

/// Who frees the context.
enum Owner {
    /// The device's primary context, retained by us.
    Primary,
    /// An application's, which promised to keep it.
    Application,
    /// cudarc's, kept by its own count.
    Cudarc(#[expect(dead_code, reason = "held, not used")] Arc<CudaContext>),
}

// SAFETY: the driver's contexts may be used from any thread, by several at once (CUDA programming guide, "Context");
// what is thread-bound, being current, is set anew for every call.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Pops the context that a call pushed.
struct Popped(&'static Api);

impl Drop for Popped {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: this thread pushed a context before; the pointer is to a live local.
        unsafe { (self.0.cuCtxPopCurrent_v2)(&mut popped) };
    }
}

/// This thread's way with calls while another thread captures a stream, given back afterwards.
struct Relaxed<'a> {
    api: &'a Api,
    before: Option<c_uint>,
}

/// CU_STREAM_CAPTURE_MODE_RELAXED.
const RELAXED: c_uint = 2;

impl<'a> Relaxed<'a> {
    /// Without it, allocating, waiting and loading are refused while any library captures in the default mode, whose capture they
    /// spoil. It is not concerned: we never touch what it captures.
    fn enter(api: &'a Api) -> Relaxed<'a> {
        let mut mode = RELAXED;
        // SAFETY: the pointer is to a live local.
        let exchanged = api.cuThreadExchangeStreamCaptureMode.map(|exchange| unsafe { exchange(&mut mode) });
        Relaxed { api, before: exchanged.filter(|&status| status == code::SUCCESS).map(|_| mode) }
    }
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        if let (Some(exchange), Some(mut before)) = (self.api.cuThreadExchangeStreamCaptureMode, self.before) {
            // SAFETY: the pointer is to a live local.
            unsafe { exchange(&mut before) };
        }
    }
}

impl Context {
    /// The primary context of device number `device`.
    pub(crate) fn primary(api: &'static Api, device: CUdevice, fault: Fault) -> Result<Arc<Context>> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the driver is initialised, and the pointer is to a live local.
        let code = unsafe { (api.cuDevicePrimaryCtxRetain)(&mut raw, device) };
        if code != code::SUCCESS {
            return Err(fault.error(api, "opening the device", code, 0));
        }
        Ok(Arc::new(Context { api, raw, device, owner: Owner::Primary, peers: Peers::new(), fault }))
    }

    /// cudarc's context.
    pub(crate) fn cudarc(api: &'static Api, context: Arc<CudaContext>, fault: Fault) -> Arc<Context> {
        let (raw, device) = (context.cu_ctx(), context.cu_device());
        Arc::new(Context { api, raw, device, owner: Owner::Cudarc(context), peers: Peers::new(), fault })
    }

    /// An application's context.
    ///
    /// # Safety
    /// `raw` is a context of this process, and stays so until everything made from this is dropped.
    pub(crate) unsafe fn application(api: &'static Api, raw: CUcontext, fault: Fault) -> Result<Arc<Context>> {
        let mut context = Context { api, raw, device: 0, owner: Owner::Application, peers: Peers::new(), fault };
        let mut device = 0;
        // SAFETY: the context is current inside of `call`; the pointer is to a live local.
        context.call("looking at the context", |api| unsafe { (api.cuCtxGetDevice)(&mut device) })?;
        context.device = device;
        Ok(Arc::new(context))
    }

    pub(crate) fn raw(&self) -> CUcontext {
        self.raw
    }

    pub(crate) fn device(&self) -> CUdevice {
        self.device
    }

    /// Makes the context current on this thread, until the guard is dropped. `None` when it is already.
    fn enter(&self) -> Result<Option<Popped>, Code> {
        let api = self.api;
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver is initialised, and the pointer is to a live local.
        let asked = unsafe { (api.cuCtxGetCurrent)(&mut current) };
        if asked == code::SUCCESS && current == self.raw {
            return Ok(None);
        }
        // SAFETY: the context is alive: we hold it, or its owner promised so.
        match unsafe { (api.cuCtxPushCurrent_v2)(self.raw) } {
            code::SUCCESS => Ok(Some(Popped(api))),
            failed => Err(failed),
        }
    }

    /// The status of `work`, done with the context current.
    ///
    /// # Errors
    /// The fault that the device has, when it has one.
    pub(crate) fn attempt(&self, work: impl FnOnce(&Api) -> Code) -> Result<Code> {
        self.attempt_enqueuing(|api| {
            let _relaxed = Relaxed::enter(api);
            work(api)
        })
    }

    /// The same of work that only enqueues, which no capture of another thread minds.
    ///
    /// # Errors
    /// As [`Context::attempt`].
    pub(crate) fn attempt_enqueuing(&self, work: impl FnOnce(&Api) -> Code) -> Result<Code> {
        self.fault.check()?;
        Ok(match self.enter() {
            Ok(_entered) => work(self.api),
            Err(failed) => failed,
        })
    }

    /// Does `work`, known to people as `op`, with the context current.
    ///
    /// # Errors
    /// What the status of `work` means.
    pub(crate) fn call(&self, op: &str, work: impl FnOnce(&Api) -> Code) -> Result<()> {
        self.call_for(op, 0, work)
    }

    /// [`Context::call`] of work that is to have `requested` bytes of memory.
    ///
    /// # Errors
    /// As [`Context::call`].
    pub(crate) fn call_for(&self, op: &str, requested: usize, work: impl FnOnce(&Api) -> Code) -> Result<()> {
        match self.attempt(work)? {
            code::SUCCESS => Ok(()),
            failed => Err(self.error_for(op, failed, requested)),
        }
    }

    /// Frees something, unless the device has a fault.
    fn free(&self, what: &str, work: impl FnOnce(&Api) -> Code) {
        match self.attempt(work) {
            Ok(code::SUCCESS) | Err(_) => {}
            Ok(failed) => log::debug!("{}: {what} was not freed: {}", self.fault.device(), self.api.words(failed)),
        }
    }

    /// What a status means.
    pub(crate) fn error(&self, op: &str, failed: Code) -> Error {
        self.error_for(op, failed, 0)
    }

    /// What a status means of work that was to have `requested` bytes of memory.
    pub(crate) fn error_for(&self, op: &str, failed: Code, requested: usize) -> Error {
        self.fault.error(self.api, op, failed, requested as u64)
    }

    /// Waits until `done` says so: by `block`, or by asking now and then when patience is limited.
    fn wait(&self, op: &str, done: impl Fn(&Api) -> Code, block: impl Fn(&Api) -> Code) -> Result<()> {
        let Some(patience) = self.fault.patience() else { return self.call(op, block) };
        if self.poll(op, patience, done)? { Ok(()) } else { Err(self.fault.give_up()) }
    }

    /// Asks now and then whether it is `done`, for at most `patience`.
    fn poll(&self, op: &str, patience: Duration, done: impl Fn(&Api) -> Code) -> Result<bool> {
        let (started, mut pause) = (Instant::now(), Duration::from_micros(20));
        loop {
            match self.attempt(&done)? {
                code::SUCCESS => return Ok(true),
                code::NOT_READY if started.elapsed() >= patience => return Ok(false),
                code::NOT_READY => std::thread::sleep(pause),
                failed => return Err(self.error(op, failed)),
            }
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Primary) && !self.fault.is_set() {
            // SAFETY: retained once by `primary`, and nothing of it is left: handles hold the context.
            unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.fault.device())
    }
}
