//! Machine code: assembled by the driver, loaded, launched.

use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys::{CUfunction, CUmodule, CUstream};
use polywarp_core::{Error, Result};

use super::{Context, Stream};
use crate::status::{Code, code};
use crate::versions::first_driver;

/// CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
const LOG_OPTIONS: [u32; 2] = [5, 6];
/// CU_JIT_INPUT_PTX.
const INPUT_PTX: u32 = 1;
/// Most parameters of a kernel that are given one by one.
const MOST_PARAMS: usize = 48;
/// Far above the 32 KiB of parameters that any kernel has.
const MOST_TOLD_PARAMS: usize = 1 << 16;
const LOG_BYTES: usize = 16 << 10;
/// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
const MAX_DYNAMIC_SHARED_BYTES: i32 = 8;
/// CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END.
const BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
const END: *mut c_void = std::ptr::null_mut();

/// Why the driver did not assemble PTX: its status, and its assembler's words, if any.
#[derive(Debug)]
pub(crate) struct NotLinked {
    pub(crate) code: Code,
    pub(crate) log: String,
}

/// Assembles `ptx` for the context's card, by the driver's own assembler.
pub(crate) fn link(context: &Context, ptx: &str) -> Result<Result<Vec<u8>, NotLinked>> {
    let Ok(text) = CString::new(ptx) else {
        return Ok(Err(NotLinked { code: code::INVALID_PTX, log: "the text has a zero byte".to_owned() }));
    };
    let text = text.into_bytes_with_nul();
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = LOG_OPTIONS;
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut cubin = Vec::new();
    let linked = context.attempt(|api| {
        let mut state = std::ptr::null_mut();
        // SAFETY: the arrays have two entries each, and live, with the log, until the state is destroyed below; so does
        // the text. The image that `cuLinkComplete` hands out belongs to the state: it is copied before that.
        unsafe {
            let made = (api.cuLinkCreate_v2)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut state);
            if made != code::SUCCESS {
                return made;
            }
            let data = text.as_ptr().cast_mut().cast::<c_void>();
            let name = c"kernel.ptx".as_ptr();
            let none = (std::ptr::null_mut(), std::ptr::null_mut());
            let mut done = (api.cuLinkAddData_v2)(state, INPUT_PTX, data, text.len(), name, 0, none.0, none.1);
            let (mut image, mut len) = (std::ptr::null_mut(), 0usize);
            if done == code::SUCCESS {
                done = (api.cuLinkComplete)(state, &mut image, &mut len);
            }
            if done == code::SUCCESS && !image.is_null() {
                cubin = std::slice::from_raw_parts(image.cast::<u8>(), len).to_vec();
            }
            (api.cuLinkDestroy)(state);
            done
        }
    })?;
    if linked == code::SUCCESS && !cubin.is_empty() {
        return Ok(Ok(cubin));
    }
    let len = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    Ok(Err(NotLinked { code: linked, log: crate::driver::one_line(&String::from_utf8_lossy(&log[..len])) }))
}

/// Loaded machine code.
pub(crate) struct Loaded {
    context: Arc<Context>,
    module: CUmodule,
}

/// A kernel of loaded machine code, which it keeps loaded.
pub(crate) struct Function {
    loaded: Loaded,
    function: CUfunction,
}

// SAFETY: modules and functions may be used from any thread, by several at once.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Loads `cubin` and finds `symbol` in it, which may use `dynamic_shared_bytes` of workgroup memory.
///
/// # Errors
/// The status as `Ok(Err(..))` when the driver refuses the code; [`Error`] for a fault of the device, and where memory is short, which says
/// nothing about the code.
pub(crate) fn load(
    context: &Arc<Context>,
    cubin: &[u8],
    symbol: &str,
    dynamic_shared_bytes: u32,
) -> Result<Result<Function, Code>> {
    let Ok(name) = CString::new(symbol) else { return Ok(Err(code::INVALID_VALUE)) };
    let mut module = std::ptr::null_mut();
    // SAFETY: the image is complete: it came from `link`, in this process or, with its digest checked, in another, or with
    // its digest checked from the archive of prepared kernels, or it is a user's, who vouches for it, and its headers were checked. The driver copies what it needs. The pointer is to a live
    // local.
    let done = context.attempt(|api| unsafe { (api.cuModuleLoadData)(&mut module, cubin.as_ptr().cast()) })?;
    let refused = |failed| match failed {
        code::OUT_OF_MEMORY => Err(context.error_for(&format!("loading kernel `{symbol}`"), failed, cubin.len())),
        failed => Ok(Err(failed)),
    };
    if done != code::SUCCESS {
        return refused(done);
    }
    let loaded = Loaded { context: Arc::clone(context), module };
    let mut function = std::ptr::null_mut();
    let done = context.attempt(|api| {
        // SAFETY: the module is loaded, the name ends in zero, and the pointer is to a live local.
        let found = unsafe { (api.cuModuleGetFunction)(&mut function, module, name.as_ptr()) };
        if found != code::SUCCESS || dynamic_shared_bytes == 0 {
            return found;
        }
        // SAFETY: the function was found just now.
        unsafe { (api.cuFuncSetAttribute)(function, MAX_DYNAMIC_SHARED_BYTES, dynamic_shared_bytes as i32) }
    })?;
    if done == code::SUCCESS { Ok(Ok(Function { loaded, function })) } else { refused(done) }
}

impl Function {
    /// Registers per thread, and bytes of local memory per thread (spilled registers and indexed private arrays).
    pub(crate) fn usage(&self) -> Result<(i32, i32)> {
        // CU_FUNC_ATTRIBUTE_NUM_REGS and CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES.
        let (mut registers, mut local) = (0, 0);
        let (context, function) = (&self.loaded.context, self.function);
        // SAFETY: the function is loaded, and the pointers are to live locals.
        context.call("looking at a kernel", |api| unsafe { (api.cuFuncGetAttribute)(&mut registers, 4, function) })?;
        // SAFETY: as above.
        context.call("looking at a kernel", |api| unsafe { (api.cuFuncGetAttribute)(&mut local, 3, function) })?;
        Ok((registers, local))
    }
}

impl Function {
    /// Most threads of a block that it can run with, and bytes of shared memory that it declares itself; 0 where the driver does
    /// not tell.
    pub(crate) fn demands(&self) -> Result<(u32, u32)> {
        // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK and CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES.
        let (mut threads, mut shared) = (0, 0);
        let (context, function) = (&self.loaded.context, self.function);
        // SAFETY: the function is loaded, and the pointers are to live locals.
        context.call("looking at a kernel", |api| unsafe { (api.cuFuncGetAttribute)(&mut threads, 0, function) })?;
        // SAFETY: as above.
        context.call("looking at a kernel", |api| unsafe { (api.cuFuncGetAttribute)(&mut shared, 1, function) })?;
        Ok((threads.max(0).cast_unsigned(), shared.max(0).cast_unsigned()))
    }

    /// Lets the kernel use `bytes` bytes of dynamic shared memory.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        let (context, function) = (&self.loaded.context, self.function);
        // SAFETY: the function is loaded.
        context.call("giving a kernel shared memory", |api| unsafe {
            (api.cuFuncSetAttribute)(function, MAX_DYNAMIC_SHARED_BYTES, bytes as i32)
        })
    }

    /// Offset and size in bytes of each parameter; `None` with drivers that do not tell (before CUDA 12.4).
    pub(crate) fn params(&self) -> Result<Option<Vec<(usize, usize)>>> {
        let mut found = Vec::new();
        loop {
            let (mut offset, mut bytes) = (0, 0);
            let mut is_told = true;
            let done = self.loaded.context.attempt(|api| match api.cuFuncGetParamInfo {
                // SAFETY: the function is loaded, and the pointers are to live locals.
                Some(info) => unsafe { info(self.function, found.len(), &mut offset, &mut bytes) },
                None => {
                    is_told = false;
                    code::SUCCESS
                }
            })?;
            match done {
                code::SUCCESS if is_told && found.len() < MOST_TOLD_PARAMS => found.push((offset, bytes)),
                // The one behind the last.
                code::INVALID_VALUE => return Ok(Some(found)),
                _ => return Ok(None),
            }
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: loaded by `load`, unloaded once. The driver waits for launches that are under way.
        self.context.free("a module", |api| unsafe { (api.cuModuleUnload)(self.module) });
    }
}

/// When a kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// When all that is before it on the stream is done.
    InTurn,
    /// While the kernel before it still runs, as soon as there is room: it waits by itself before it touches memory
    /// (programmatic dependent launch; CUDA programming guide). Where the driver has no such launch, in turn.
    Early,
    /// In turn, all of its blocks or none, for they wait for each other (cooperative launch; CUDA programming guide, "Grid
    /// synchronization"). More than fit on the card at a time are an error.
    Together,
}

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    stream: CUstream,
    attributes: *mut LaunchAttribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute` of cuda.h: which attribute, and a union of 64 bytes.
#[repr(C, align(8))]
struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

/// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; its value is 0 or 1.
const STREAM_SERIALIZATION: u32 = 6;
/// The first driver that keeps such launches apart when a stream is captured.
const EARLY_STARTS_FROM: i32 = 12_030;
/// CU_LAUNCH_ATTRIBUTE_COOPERATIVE; its value is 0 or 1.
const COOPERATIVE: u32 = 2;

impl Stream {
    /// Enqueues `grid` blocks of `block` threads of `function`, with `params` as the block of its parameters; or, when there
    /// are `offsets`, with the parameters that start there.
    ///
    /// # Safety
    /// `params` is what the function declares (a parameter that starts at an offset lies in it whole), every address in it
    /// is of device memory that is large enough for what the function does there, and stays allocated until it is done.
    /// A function that starts early waits by itself before it touches memory.
    #[expect(clippy::too_many_arguments, reason = "the driver's own list")]
    pub(crate) unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared_bytes: u32,
        params: &[u8],
        offsets: &[usize],
        start: Start,
    ) -> Result<Code> {
        let first = params.as_ptr().cast_mut();
        let mut each = [std::ptr::null_mut(); MOST_PARAMS];
        for (pointer, &offset) in each.iter_mut().zip(offsets) {
            *pointer = first.wrapping_add(offset).cast::<c_void>();
        }
        if offsets.len() > MOST_PARAMS {
            return Ok(code::INVALID_VALUE);
        }
        let mut len = params.len();
        let mut extra = [BUFFER_POINTER, first.cast::<c_void>(), BUFFER_SIZE, (&raw mut len).cast::<c_void>(), END];
        let none = std::ptr::null_mut();
        let lists = if offsets.is_empty() { (none, extra.as_mut_ptr()) } else { (each.as_mut_ptr(), none) };
        let function = function.function;
        self.context().attempt_enqueuing(|api| {
            let attribute = match start {
                Start::InTurn => None,
                Start::Early => Some(STREAM_SERIALIZATION).filter(|_| api.version >= EARLY_STARTS_FROM),
                // Launched any other way it might wait for ever.
                Start::Together if api.cuLaunchKernelEx.is_none() => return code::NOT_SUPPORTED,
                Start::Together => Some(COOPERATIVE),
            };
            if let (Some(id), Some(launch_ex)) = (attribute, api.cuLaunchKernelEx) {
                let mut attribute = LaunchAttribute { id, padding: 0, value: [0; 16] };
                attribute.value[0] = 1;
                let stream = self.raw();
                let config = LaunchConfig {
                    grid,
                    block,
                    dynamic_shared_bytes,
                    stream,
                    attributes: &mut attribute,
                    attribute_count: 1,
                };
                // SAFETY: the configuration and its one attribute are laid out as cuda.h has them and live during the
                // call; the parameters as below.
                return unsafe { launch_ex((&raw const config).cast(), function, lists.0, lists.1) };
            }
            let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
            // SAFETY: the driver copies the parameters during the call, as many as the function has from the first list; the
            // second ends in END; the rest the caller promised.
            unsafe {
                let stream = self.raw();
                (api.cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, dynamic_shared_bytes, stream, lists.0, lists.1)
            }
        })
    }
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({})", self.context.fault.device())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.loaded.context.fault.device())
    }
}

/// The [`Error`] of PTX that was not assembled, of the kernel `kernel`.
pub(crate) fn not_linked(context: &Context, kernel: &str, ptx_version: &str, failed: NotLinked) -> Error {
    let device = context.fault.device().to_owned();
    match failed.code {
        code::UNSUPPORTED_PTX_VERSION => Error::DriverTooOld {
            device,
            what: format!("kernel `{kernel}` (PTX {ptx_version})"),
            driver: context.api.display(),
            needed: first_driver_for(ptx_version),
        },
        code::INVALID_PTX | code::INVALID_IMAGE | code::NO_BINARY_FOR_GPU | code::UNKNOWN => {
            let log = if failed.log.is_empty() { context.api.words(failed.code) } else { failed.log };
            Error::PtxRejected { device, kernel: kernel.to_owned(), log }
        }
        code::JIT_COMPILER_NOT_FOUND => Error::Backend {
            device,
            op: format!("compiling kernel `{kernel}`"),
            message:
                "the driver's assembler, libnvidia-ptxjitcompiler.so.1, was not found; install the driver whole (in a \
                      container: the capability `compute`)"
                    .to_owned(),
        },
        other if failed.log.is_empty() => context.error(&format!("compiling kernel `{kernel}`"), other),
        other => match context.error(&format!("compiling kernel `{kernel}`"), other) {
            Error::Backend { device, op, message } => {
                Error::Backend { device, op, message: format!("{message}: {}", failed.log) }
            }
            error => error,
        },
    }
}

/// The first driver that reads PTX of the version `text`: `8.0`.
fn first_driver_for(text: &str) -> String {
    let version = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    first_driver(version.unwrap_or((u32::MAX, 0)))
}
