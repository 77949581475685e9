//! The CUDA driver library: opened at run time, every function looked up before the first is called.
//!
//! cudarc gives the types; its own loader is not used, for three reasons. It panics when the library or a symbol is
//! missing, it tries the toolkit's stub (`libcuda.so`) before the driver (`libcuda.so.1`), and it returns status codes as
//! Rust enums, for which a number from a newer driver is undefined behaviour. Here a status is a number ([`Code`]), and
//! what is missing is an error that names it (or, for functions of newer drivers, just not there). The calls themselves are made in `native/`.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUlinkState, CUmodule, CUstream,
    CUuuid,
};
use libloading::Library;
use polywarp_core::{Error, Result};

use crate::status::{self, Code, code};
use crate::versions::{LEAST_CUDA, LEAST_DRIVER, version_text};

#[cfg(windows)]
const LIBRARIES: &[&str] = &["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: &[&str] = &["libcuda.so.1", "libcuda.so"];

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)* [optional] $($newer:ident($($of_newer:ty),*);)*) => {
        /// Every driver function in use.
        #[allow(non_snake_case)]
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "system" fn($($argument),*) -> Code,)*
            $(pub(crate) $newer: Option<unsafe extern "system" fn($($of_newer),*) -> Code>,)*
            /// The file that was opened, as far as the system tells.
            pub(crate) library: String,
            /// The CUDA version it speaks: 12080 is 12.8.
            pub(crate) version: c_int,
        }

        #[allow(non_snake_case)]
        impl Api {
            fn look_up(library: &Library, name: &str) -> Result<Api> {
                $(
                    // SAFETY: the type is that of the function of this name in cuda.h, which NVIDIA keeps for the life
                    // of a symbol: a changed signature gets a new suffix (`_v2`). The library is never closed, so the
                    // pointer stays valid.
                    let $name = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                    let $name = *$name.map_err(|_| missing_symbol(name, stringify!($name)))?;
                )*
                $(
                    // SAFETY: as above; drivers that are older than the function do without it.
                    let $newer = unsafe { library.get(concat!(stringify!($newer), "\0").as_bytes()) };
                    let $newer = $newer.ok().map(|function| *function);
                )*
                Ok(Api { $($name,)* $($newer,)* library: name.to_owned(), version: 0 })
            }
        }
    };
}

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(Code, *mut *const c_char);
    cuGetErrorString(Code, *mut *const c_char);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_int, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxPushCurrent_v2(CUcontext);
    cuCtxPopCurrent_v2(*mut CUcontext);
    cuCtxGetDevice(*mut CUdevice);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuStreamBeginCapture_v2(CUstream, c_uint);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventSynchronize(CUevent);
    cuEventQuery(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncSetAttribute(CUfunction, c_int, c_int);
    cuFuncGetAttribute(*mut c_int, c_int, CUfunction);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
    cuLinkCreate_v2(c_uint, *mut c_uint, *mut *mut c_void, *mut CUlinkState);
    cuLinkAddData_v2(
        CUlinkState, c_uint, *mut c_void, usize, *const c_char, c_uint, *mut c_uint, *mut *mut c_void
    );
    cuLinkComplete(CUlinkState, *mut *mut c_void, *mut usize);
    cuLinkDestroy(CUlinkState);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
    cuGraphLaunch(CUgraphExec, CUstream);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphDestroy(CUgraph);
    [optional]
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuThreadExchangeStreamCaptureMode(*mut c_uint);
    cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
    cuLaunchKernelEx(*const c_void, CUfunction, *mut *mut c_void, *mut *mut c_void);
    cuTensorMapEncodeTiled(
        *mut c_void, c_uint, c_uint, *mut c_void, *const u64, *const u64, *const c_uint, *const c_uint, c_uint, c_uint,
        c_uint, c_uint
    );
    cuTensorMapEncodeIm2col(
        *mut c_void, c_uint, c_uint, *mut c_void, *const u64, *const u64, *const c_int, *const c_int, c_uint, c_uint,
        *const c_uint, c_uint, c_uint, c_uint, c_uint
    );
}

/// The driver, opened and initialised once for the process.
///
/// # Errors
/// [`Error::BackendUnavailable`] saying what is missing and what to install. It is not asked for again: a driver does not
/// appear while a process runs.
pub(crate) fn api() -> Result<&'static Api> {
    static API: OnceLock<Result<Api>> = OnceLock::new();
    match API.get_or_init(|| open(LIBRARIES)) {
        Ok(api) => Ok(api),
        Err(error) => Err(error.clone()),
    }
}

fn open(names: &[&str]) -> Result<Api> {
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: opening runs the library's initialisers. The names are those of NVIDIA's driver, found on the
        // system's own search path: whoever can place a library there controls the process already.
        match unsafe { Library::new(name) } {
            Ok(library) => {
                let api = Api::look_up(&library, name);
                // Never closed: the driver has threads of its own.
                std::mem::forget(library);
                return initialised(api?);
            }
            Err(error) => reasons.push(one_line(&with_cause(&error))),
        }
    }
    // That there is no such file is said already; any other reason helps.
    reasons.retain(|reason| !reason.contains("No such file"));
    let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
    Err(unavailable(format!(
        "{} was not found{why}; install NVIDIA's driver, {LEAST_DRIVER} or newer; in a container, start it with the GPU \
         (docker run --gpus all)",
        names.join(" or ")
    )))
}

fn initialised(mut api: Api) -> Result<Api> {
    api.library = resolved(&api.library);
    // SAFETY: both functions may be called at any time; the pointer is to a live local.
    let started = unsafe {
        (api.cuDriverGetVersion)(&mut api.version);
        (api.cuInit)(0)
    };
    let hidden = visible_devices().map(|value| format!(" (CUDA_VISIBLE_DEVICES={value} is set)")).unwrap_or_default();
    match started {
        _ if api.version < LEAST_CUDA && api.version > 0 => {
            let driver = format!("CUDA {}", version_text(api.version));
            Err(unavailable(format!("{} speaks {driver}; driver {LEAST_DRIVER} or newer is needed", api.library)))
        }
        code::SUCCESS => {
            log::info!("CUDA driver: {}, CUDA {}", api.library, version_text(api.version));
            Ok(api)
        }
        code::NO_DEVICE => Err(unavailable(format!("{} finds no NVIDIA GPU{hidden}", api.library))),
        code::STUB_LIBRARY => {
            let library = &api.library;
            Err(unavailable(format!("{library} is the toolkit's stub, not a driver; install NVIDIA's driver")))
        }
        failed => {
            let words = api.words(failed);
            Err(unavailable(format!(
                "{} does not start: {words}{hidden}; see whether nvidia-smi works, and whether driver and kernel module \
                 are of one version",
                api.library
            )))
        }
    }
}

impl Api {
    /// A status in the driver's words.
    pub(crate) fn words(&self, failed: Code) -> String {
        let text = |get: unsafe extern "system" fn(Code, *mut *const c_char) -> Code| {
            let mut found = std::ptr::null();
            // SAFETY: any number may be asked for; the pointer is to a live local, and what is stored there, when not
            // null, is a string of the driver that lives as long as the library.
            unsafe {
                let known = get(failed, &mut found) == code::SUCCESS && !found.is_null();
                known.then(|| std::ffi::CStr::from_ptr(found).to_string_lossy().into_owned())
            }
        };
        match (text(self.cuGetErrorName), text(self.cuGetErrorString)) {
            (Some(name), Some(words)) => format!("{name} ({words})"),
            (Some(name), None) => name,
            _ => match status::name(failed) {
                Some(name) => format!("{name} ({failed})"),
                None => format!("CUDA error {failed}"),
            },
        }
    }

    /// What tells this driver from others: its version, or the little that is known of it.
    pub(crate) fn identity(&self) -> String {
        let file = self.library.rsplit(['/', '\\']).next().unwrap_or_default();
        format!("{file} CUDA {}", version_text(self.version))
    }

    /// The driver as people know it: `570.86.15 (CUDA 12.8)`.
    pub(crate) fn display(&self) -> String {
        let cuda = version_text(self.version);
        match self.library.rsplit_once(".so.").filter(|(_, version)| version.contains('.')) {
            Some((_, version)) => format!("NVIDIA {version} (CUDA {cuda})"),
            None => format!("NVIDIA (CUDA {cuda})"),
        }
    }
}

/// What CUDA_VISIBLE_DEVICES is set to; the driver itself obeys it.
pub(crate) fn visible_devices() -> Option<String> {
    std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned())
}

/// [`Error::BackendUnavailable`] of this backend.
pub(crate) fn unavailable(reason: String) -> Error {
    Error::BackendUnavailable { backend: "cuda", reason }
}

/// Runs of white space become one space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn missing_symbol(library: &str, symbol: &str) -> Error {
    let library = resolved(library);
    unavailable(format!("{library} has no function `{symbol}`: driver {LEAST_DRIVER} or newer is needed"))
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// The file behind an opened library's name, where the system lists what it mapped.
fn resolved(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let stem = name.split(".so").next().unwrap_or(name);
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut named = paths.filter(|path| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so"))
    });
    named.next().unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason<T>(result: Result<T>) -> String {
        match result {
            Err(Error::BackendUnavailable { backend: "cuda", reason }) => reason,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("a driver was found"),
        }
    }

    #[test]
    fn open_without_the_library_names_it_and_what_to_install() {
        let reason = reason(open(&["libpolywarp-no-such.so.1"]));
        assert!(reason.contains("libpolywarp-no-such.so.1 was not found") && reason.contains("470"), "{reason}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_says_why_a_library_does_not_load_and_not_twice_that_it_is_missing() {
        assert!(!reason(open(&["libpolywarp-no-such.so.1", "libpolywarp-no-such.so"])).contains("No such file"));
        let reason = reason(open(&["libpolywarp-no-such.so.1", "/dev/null"]));
        assert!(reason.contains("was not found (/dev/null: ") && !reason.contains("No such file"), "{reason}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn open_of_a_library_that_is_no_driver_names_the_missing_function() {
        // The C library stands for a driver too old to have a function.
        let reason = reason(open(&["libc.so.6"]));
        assert!(reason.contains("no function `cuInit`") && reason.contains("470"), "{reason}");
        assert!(reason.starts_with('/'), "the file itself is named: {reason}");
    }
}
