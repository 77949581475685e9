//! A CUDA driver without a card: the functions of libcuda that the backend uses, with PTX interpreted on the host.
//!
//! Loaded under the driver's name (`libcuda.so.1`) by the backend's tests (`tests/common`), on machines without a driver or
//! in processes of their own. It is as lazy as it may be: work waits in one queue until somebody waits for it, so that memory which is freed, reused or filled again
//! too early shows in results, and a copy from or to page-locked memory that was freed meanwhile ends the process. It is no
//! model of speed, and knows no error that a call with good arguments cannot have, but those that tests ask for:
//!
//! | variable | effect |
//! |---|---|
//! | `INTERPRETED_DEVICES` | number of cards, 1 if unset; 0 is a driver without a card |
//! | `INTERPRETED_INIT` | the status of `cuInit`: 34 is the toolkit's stub |
//! | `INTERPRETED_VERSION` | the CUDA version it claims, 13000 if unset |
//! | `INTERPRETED_PTX` | the newest PTX it reads, any if unset: 74 is 7.4 |
//! | `INTERPRETED_REJECTS` | a text: PTX that has it is refused as invalid |
//! | `INTERPRETED_MEMORY` | bytes of each card, 512 MiB if unset |
//! | `INTERPRETED_SM` | compute capability of each card, 90 if unset: 80 is 8.0 |
//! | `INTERPRETED_PEERS` | 0: no card reaches the memory of another |
//! | `INTERPRETED_ENDLESS` | a text: a launch of a kernel whose PTX has it never ends |
//! | `INTERPRETED_SHUFFLE` | seed of a random order of blocks, warps and stores, and of bulk copies that land late; in order and at once if unset |
//! | `INTERPRETED_UNWRITTEN` | 1: a kernel, or a copy to the host, that reads device memory which nobody has written is at fault; not one of an archive |
//!
//! Its machine code is PTX: what it "links" itself, and what `cargo xtask kernels --ptx` makes of the kernels in CUDA C++.
//! In the latter data races are faults as well.
//!
//! [`interpreted_fail`] makes a call fail, [`interpreted_capture`] is another library's capture and [`interpreted_staged`] counts copies, for
//! tests that load the library themselves.
//!
//! `state.rs` is the driver itself, this file its C functions.

#![allow(non_snake_case)]
#![allow(clippy::missing_safety_doc, reason = "the contracts are those of cuda.h")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every pointer is one that cuda.h lets the caller answer for")]
#![allow(missing_docs)]

mod state;

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use state::{Code, Driver, Work, driver, fails};

type Handle = usize;

thread_local! {
    /// The contexts that are current on this thread, the last one first.
    static CURRENT: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
    /// What this thread does about captures of others: nothing when relaxed, CU_STREAM_CAPTURE_MODE_GLOBAL at first.
    static CAPTURE_MODE: Cell<c_uint> = const { Cell::new(0) };
}

/// CU_STREAM_CAPTURE_MODE_RELAXED.
const RELAXED: c_uint = 2;
/// Another library captures a stream, and a call has spoilt that.
static CAPTURES: AtomicBool = AtomicBool::new(false);
static SPOILT: AtomicBool = AtomicBool::new(false);

/// Refuses what may not be done while somebody captures in the default mode, as the driver does.
macro_rules! not_while_captured {
    () => {
        if CAPTURES.load(Ordering::SeqCst) && CAPTURE_MODE.get() != RELAXED {
            SPOILT.store(true, Ordering::SeqCst);
            return state::STREAM_CAPTURE_UNSUPPORTED;
        }
    };
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $ty:ty),*) $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            pub unsafe extern "system" fn $name($($argument: $ty),*) -> Code {
                if let Some(code) = fails(stringify!($name)) {
                    return code;
                }
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
const COOPERATIVE: c_uint = 2;

/// `CUlaunchConfig`; an attribute is its number, and a union of 64 bytes from the eighth on.
#[repr(C)]
pub struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Handle,
    attributes: *const [c_uint; 18],
    attribute_count: c_uint,
}

/// Writes the 128 bytes of a map.
unsafe fn encoded(tensor: &ptx_interpreter::TensorMap, map: *mut [u8; 128]) -> Code {
    match tensor.encode() {
        Ok(bytes) => {
            unsafe { *map = bytes };
            0
        }
        Err(error) => {
            eprintln!("interpreted driver: {error}");
            state::INVALID_VALUE
        }
    }
}

fn current() -> Option<Handle> {
    CURRENT.with_borrow(|stack| stack.last().copied())
}

/// The status of a call that needs a context, and found the process healthy.
fn ready() -> Code {
    match (current(), driver().poisoned) {
        (None, _) => state::INVALID_CONTEXT,
        (_, Some(code)) => code,
        _ => 0,
    }
}

/// Works until `done`, which may be never: others have the driver in between.
fn wait(done: impl Fn(&Driver) -> bool) -> Code {
    loop {
        if let Some(code) = driver().finish(&done) {
            return code;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

macro_rules! need_context {
    () => {
        let code = ready();
        if code != 0 {
            return code;
        }
    };
}

functions! {
    cuInit(_flags: c_uint) {
        match state::number("INTERPRETED_INIT", 0) as Code {
            0 if state::number("INTERPRETED_DEVICES", 1) == 0 => state::NO_DEVICE,
            code => code,
        }
    }
    cuDriverGetVersion(version: *mut c_int) {
        *version = state::number("INTERPRETED_VERSION", 13_000) as c_int;
        0
    }
    cuGetErrorName(code: Code, name: *mut *const c_char) {
        *name = state::name_of(code).as_ptr();
        0
    }
    cuGetErrorString(_code: Code, text: *mut *const c_char) {
        *text = c"as interpreted".as_ptr();
        0
    }
    cuDeviceGetCount(count: *mut c_int) {
        *count = state::number("INTERPRETED_DEVICES", 1) as c_int;
        0
    }
    cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        *device = ordinal;
        0
    }
    cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let text = format!("Interpreted {device}\0");
        for (at, byte) in text.bytes().take(len as usize).enumerate() {
            *name.add(at) = byte as c_char;
        }
        0
    }
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        *uuid = [0x10 + device as u8; 16];
        0
    }
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        *value = match attribute {
            1..=3 => 1024,
            4 => 64,
            5 => c_int::MAX,
            6 | 7 => 65_535,
            8 => state::SHARED_BYTES_UNASKED.cast_signed(),
            16 => 2,
            33 => 0x3b + device,
            75 => state::compute_capability() / 10,
            76 => state::compute_capability() % 10,
            97 => state::most_shared_bytes().cast_signed(),
            _ => 0,
        };
        0
    }
    cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) {
        *bytes = state::total_bytes() as usize;
        0
    }
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        *can = c_int::from(device != peer && state::number("INTERPRETED_PEERS", 1) != 0);
        0
    }
    cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) {
        need_context!();
        match current() {
            Some(own) if flags == 0 => driver().enable_peer(own, peer),
            _ => state::INVALID_VALUE,
        }
    }
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        *context = state::FIRST_CONTEXT + device as usize;
        driver().poisoned.unwrap_or(0)
    }
    cuDevicePrimaryCtxRelease_v2(_device: c_int) {
        0
    }
    cuCtxGetCurrent(context: *mut Handle) {
        *context = current().unwrap_or(0);
        0
    }
    cuCtxPushCurrent_v2(context: Handle) {
        CURRENT.with_borrow_mut(|stack| stack.push(context));
        0
    }
    cuCtxPopCurrent_v2(context: *mut Handle) {
        *context = CURRENT.with_borrow_mut(Vec::pop).unwrap_or(0);
        0
    }
    cuCtxGetDevice(device: *mut c_int) {
        need_context!();
        *device = (current().unwrap_or(0) - state::FIRST_CONTEXT) as c_int;
        0
    }
    cuStreamCreate(stream: *mut Handle, _flags: c_uint) {
        need_context!();
        *stream = driver().new_stream();
        0
    }
    cuStreamDestroy_v2(stream: Handle) {
        need_context!();
        driver().destroy_stream(stream)
    }
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        *mode = CAPTURE_MODE.replace(*mode);
        0
    }
    cuStreamSynchronize(stream: Handle) {
        not_while_captured!();
        need_context!();
        wait(|driver| driver.idle(stream))
    }
    cuStreamQuery(stream: Handle) {
        need_context!();
        driver().look(|driver| driver.idle(stream))
    }
    cuStreamWaitEvent(stream: Handle, event: Handle, _flags: c_uint) {
        need_context!();
        driver().wait_for(stream, event)
    }
    cuStreamBeginCapture_v2(stream: Handle, _mode: c_uint) {
        need_context!();
        driver().begin_capture(stream)
    }
    cuStreamEndCapture(stream: Handle, graph: *mut Handle) {
        need_context!();
        match driver().end_capture(stream) {
            Ok(handle) => {
                *graph = handle;
                0
            }
            Err(code) => code,
        }
    }
    cuEventCreate(event: *mut Handle, _flags: c_uint) {
        need_context!();
        *event = driver().new_event();
        0
    }
    cuEventDestroy_v2(event: Handle) {
        need_context!();
        driver().destroy_event(event)
    }
    cuEventRecord(event: Handle, stream: Handle) {
        need_context!();
        driver().record(event, stream)
    }
    cuEventSynchronize(event: Handle) {
        need_context!();
        wait(|driver| driver.passed(event))
    }
    cuEventQuery(event: Handle) {
        not_while_captured!();
        need_context!();
        driver().look(|driver| driver.passed(event))
    }
    cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) {
        need_context!();
        match driver().elapsed(start, end) {
            Some(seconds) => {
                *milliseconds = seconds as f32 * 1e3;
                0
            }
            None => state::NOT_READY,
        }
    }
    cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        not_while_captured!();
        need_context!();
        match driver().allocate(bytes) {
            Some(found) => {
                *address = found;
                0
            }
            None => state::OUT_OF_MEMORY,
        }
    }
    cuMemFree_v2(address: u64) {
        need_context!();
        match wait(Driver::is_idle) {
            0 => driver().free(address),
            code => code,
        }
    }
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        need_context!();
        *total = state::total_bytes() as usize;
        *free = (state::total_bytes() - driver().allocated_bytes) as usize;
        0
    }
    cuMemHostAlloc(start: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        not_while_captured!();
        need_context!();
        *start = driver().allocate_host(bytes).cast();
        0
    }
    cuMemFreeHost(start: *mut c_void) {
        need_context!();
        driver().free_host(start as usize)
    }
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) {
        need_context!();
        driver().give(stream, Work::Upload { to, from: from as usize, bytes })
    }
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) {
        need_context!();
        driver().give(stream, Work::Download { to: to as usize, from, bytes })
    }
    cuMemcpyPeerAsync(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle) {
        need_context!();
        let mut driver = driver();
        driver.count_copy(from_context, to_context);
        driver.give(stream, Work::Copy { to, from, bytes })
    }
    cuModuleLoadData(module: *mut Handle, image: *const c_char) {
        need_context!();
        match driver().load(CStr::from_ptr(image).to_bytes()) {
            Ok(handle) => {
                *module = handle;
                0
            }
            Err(code) => code,
        }
    }
    cuModuleUnload(module: Handle) {
        need_context!();
        driver().unload(module)
    }
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        need_context!();
        match driver().function(module, &CStr::from_ptr(name).to_string_lossy()) {
            Some(handle) => {
                *function = handle;
                0
            }
            None => state::NOT_FOUND,
        }
    }
    cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) {
        need_context!();
        match attribute {
            8 => driver().allow_shared(function, value.cast_unsigned()),
            _ => state::INVALID_VALUE,
        }
    }
    cuFuncGetAttribute(value: *mut c_int, _attribute: c_int, _function: Handle) {
        need_context!();
        *value = 0;
        0
    }
    cuLaunchKernel(
        function: Handle, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
        stream: Handle, each: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        need_context!();
        let mut params = Vec::new();
        if !each.is_null() {
            for (at, param) in driver().params(function).iter().enumerate() {
                params.resize(param.offset as usize, 0);
                let start = (*each.add(at)).cast::<u8>();
                params.extend_from_slice(std::slice::from_raw_parts(start, param.bytes as usize));
            }
            let launch = ptx_interpreter::Launch {
                grid: [gx, gy, gz],
                block: [bx, by, bz],
                params,
                dynamic_shared_bytes: shared,
            };
            return driver().launch(stream, function, launch);
        }
        let (mut start, mut len) = (std::ptr::null::<u8>(), 0);
        let mut at = extra;
        while !(*at).is_null() {
            match *at as usize {
                1 => start = (*at.add(1)).cast(),
                2 => len = *(*at.add(1)).cast::<usize>(),
                _ => return state::INVALID_VALUE,
            }
            at = at.add(2);
        }
        if len > 0 {
            params.extend_from_slice(std::slice::from_raw_parts(start, len));
        }
        let launch = ptx_interpreter::Launch {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            params,
            dynamic_shared_bytes: shared,
        };
        driver().launch(stream, function, launch)
    }
    cuLaunchKernelEx(
        config: *const LaunchConfig, function: Handle, each: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        // A kernel that may start early starts in turn all the same. One whose blocks wait for each other would wait for ever: here
        // they run one after the other.
        let LaunchConfig { grid: [gx, gy, gz], block: [bx, by, bz], shared, stream, attributes, attribute_count } = *config;
        let attributes = (0..attribute_count as usize).map(|at| (*attributes.add(at))[0]);
        if attributes.into_iter().any(|id| id == COOPERATIVE) {
            return state::NOT_SUPPORTED;
        }
        cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, each, extra)
    }
    cuTensorMapEncodeTiled(
        map: *mut [u8; 128], data_type: c_uint, rank: c_uint, address: *mut c_void, dims: *const u64,
        strides: *const u64, box_dims: *const c_uint, steps: *const c_uint, interleave: c_uint, swizzle: c_uint,
        _promotion: c_uint, fill: c_uint
    ) {
        need_context!();
        let rank = rank as usize;
        if !(1..=5).contains(&rank) || !(map as usize).is_multiple_of(64) {
            return state::INVALID_VALUE;
        }
        // Steps other than 1, interleaved channels and a fill other than zero are in nobody's use.
        let steps = std::slice::from_raw_parts(steps, rank);
        if steps.iter().any(|&step| step != 1) || interleave != 0 || fill != 0 {
            return state::INVALID_VALUE;
        }
        let tensor = ptx_interpreter::TensorMap {
            address: address as u64,
            data_type,
            dims: std::slice::from_raw_parts(dims, rank).to_vec(),
            strides_bytes: std::slice::from_raw_parts(strides, rank - 1).to_vec(),
            box_dims: std::slice::from_raw_parts(box_dims, rank).to_vec(),
            pixels: None,
            swizzle,
        };
        encoded(&tensor, map)
    }
    cuTensorMapEncodeIm2col(
        map: *mut [u8; 128], data_type: c_uint, rank: c_uint, address: *mut c_void, dims: *const u64,
        strides: *const u64, lower: *const c_int, upper: *const c_int, channels: c_uint, pixels: c_uint,
        steps: *const c_uint, interleave: c_uint, swizzle: c_uint, _promotion: c_uint, fill: c_uint
    ) {
        need_context!();
        // Images of two axes alone are in use.
        if rank != 4 || !(map as usize).is_multiple_of(64) || interleave != 0 || fill != 0 {
            return state::INVALID_VALUE;
        }
        let walk = ptx_interpreter::Pixels {
            lower: [*lower, *lower.add(1)],
            upper: [*upper, *upper.add(1)],
            steps: [*steps.add(1), *steps.add(2)],
        };
        let tensor = ptx_interpreter::TensorMap {
            address: address as u64,
            data_type,
            dims: std::slice::from_raw_parts(dims, 4).to_vec(),
            strides_bytes: std::slice::from_raw_parts(strides, 3).to_vec(),
            box_dims: vec![channels, pixels],
            pixels: Some(walk),
            swizzle,
        };
        encoded(&tensor, map)
    }
    cuLinkCreate_v2(count: c_uint, options: *mut c_uint, values: *mut *mut c_void, link: *mut Handle) {
        need_context!();
        let (mut log, mut len) = (0, 0);
        for at in 0..count as usize {
            match *options.add(at) {
                5 => log = *values.add(at) as usize,
                6 => len = *values.add(at) as usize,
                _ => {}
            }
        }
        *link = driver().new_link(log, len);
        0
    }
    cuLinkAddData_v2(
        link: Handle, _kind: c_uint, data: *mut c_void, bytes: usize, _name: *const c_char, _count: c_uint,
        _options: *mut c_uint, _values: *mut *mut c_void
    ) {
        need_context!();
        driver().add_ptx(link, std::slice::from_raw_parts(data.cast::<u8>(), bytes))
    }
    cuLinkComplete(link: Handle, image: *mut *mut c_void, bytes: *mut usize) {
        need_context!();
        let (start, len) = driver().image(link);
        *image = start as *mut c_void;
        *bytes = len;
        0
    }
    cuLinkDestroy(link: Handle) {
        need_context!();
        driver().destroy_link(link)
    }
    cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: c_ulonglong) {
        need_context!();
        *exec = driver().instantiate(graph);
        0
    }
    cuGraphLaunch(exec: Handle, stream: Handle) {
        need_context!();
        driver().replay(exec, stream)
    }
    cuGraphExecDestroy(exec: Handle) {
        need_context!();
        driver().destroy_graph(exec)
    }
    cuGraphDestroy(graph: Handle) {
        need_context!();
        driver().destroy_graph(graph)
    }
}

/// Lets the `at`-th call (from 0) of the function `name`, counted from now, return `code`; for tests in this process.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn interpreted_fail(name: *const c_char, code: Code, at: u64) {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    state::plan_failure(Some((name, code, at)));
}

/// How often the function to fail was called since [`interpreted_fail`].
#[unsafe(no_mangle)]
pub extern "system" fn interpreted_calls() -> u64 {
    state::planned_calls()
}

/// Begins (1) or ends (0) another library's capture in the default mode; whether a call has spoilt the last one.
#[unsafe(no_mangle)]
pub extern "system" fn interpreted_capture(begins: u32) -> u32 {
    CAPTURES.store(begins != 0, Ordering::SeqCst);
    u32::from(SPOILT.swap(false, Ordering::SeqCst))
}

/// Copies so far from a context to the memory of another that it has no access to.
#[unsafe(no_mangle)]
pub extern "system" fn interpreted_staged() -> u64 {
    driver().staged_copies
}
