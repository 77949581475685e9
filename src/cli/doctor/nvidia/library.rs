//! Opens and starts the CUDA library and keeps the numbers that it returns.
//!
//! The backend does the same and reports a failure in words; here the status itself matters, since each status has its
//! own fix. Only `cuInit`, `cuDriverGetVersion` and the names of statuses are called.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libloading::Library as Opened;
use serde::Serialize;

/// The outcome of opening and starting the library.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Library {
    /// The file that was opened.
    pub path: Option<String>,
    /// Why no file could be opened.
    pub fault: Option<String>,
    /// The CUDA version that it supports: 12080 is 12.8.
    pub cuda_version: Option<i32>,
    /// The result of `cuInit` (cuda.h, `CUresult`).
    pub status: Option<u32>,
    /// The library's text for that status.
    pub words: String,
    /// Why the backend does not use it.
    pub refusal: Option<String>,
}

impl Library {
    /// Whether it is the stub of CUDA's toolkit for linking, which is no driver.
    pub fn is_stub(&self) -> bool {
        const STUB_LIBRARY: u32 = 34;
        self.status == Some(STUB_LIBRARY) || self.path.as_ref().is_some_and(|path| path.contains("/stubs/"))
    }

    /// The driver version in the file's name, `570.86.15`.
    pub fn driver_version(&self) -> Option<&str> {
        let version = self.path.as_ref()?.rsplit_once("libcuda.so.")?.1;
        (version.contains('.') && version.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())).then_some(version)
    }

    /// Whether it belongs to the compatibility package, which runs on an older kernel driver.
    pub fn is_compat(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.contains("/compat/"))
    }
}

#[cfg(windows)]
const LIBRARIES: &[&str] = &["nvcuda.dll"];
#[cfg(not(windows))]
const LIBRARIES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// Opens and starts it.
pub fn probe() -> Library {
    let mut faults = Vec::new();
    for name in LIBRARIES {
        // SAFETY: opening runs the library's initialisers. It is NVIDIA's driver from the system's own search path,
        // which the backend opens in the same way.
        match unsafe { Opened::new(name) } {
            Ok(library) => {
                let started = start(&library, name);
                // Never closed: the driver has threads of its own.
                std::mem::forget(library);
                return started;
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
    Library { fault: Some(faults.join("; ")), ..Library::default() }
}

type Init = unsafe extern "system" fn(c_uint) -> c_uint;
type Version = unsafe extern "system" fn(*mut c_int) -> c_uint;
type Words = unsafe extern "system" fn(c_uint, *mut *const c_char) -> c_uint;

fn start(library: &Opened, name: &str) -> Library {
    let mut seen = Library { path: Some(mapped(name)), ..Library::default() };
    // SAFETY: the types are those of the functions of these names in cuda.h.
    let functions = unsafe { (library.get::<Init>(b"cuInit\0"), library.get::<Version>(b"cuDriverGetVersion\0")) };
    let (Ok(init), Ok(version)) = functions else {
        seen.fault = Some("it lacks cuInit or cuDriverGetVersion, so it is no CUDA driver".to_owned());
        return seen;
    };
    let mut number = 0;
    // SAFETY: both may be called at any time; the pointer is to a live local.
    let (version_status, status) = unsafe { (version(&mut number), init(0)) };
    seen.cuda_version = Some(number).filter(|_| version_status == 0 && number > 0);
    seen.status = Some(status);
    let words = |symbol: &[u8]| {
        let mut text = std::ptr::null();
        // SAFETY: the type is that of both functions in cuda.h; any number may be asked for, the pointer is to a live
        // local, and a string that is stored there is the library's own and lives as long as it does.
        unsafe {
            let function = library.get::<Words>(symbol).ok()?;
            let known = function(status, &mut text) == 0 && !text.is_null();
            known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    };
    if status != 0 {
        let name = words(b"cuGetErrorName\0").unwrap_or_else(|| format!("CUDA error {status}"));
        seen.words = match words(b"cuGetErrorString\0") {
            Some(text) => format!("{name}, {text}"),
            None => name,
        };
    }
    seen
}

/// The file behind a library's name, where the system lists mapped files.
fn mapped(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.find(|path| path.contains("/libcuda.so")).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_tells_stub_version_and_compatibility() {
        let at = |path: &str| Library { path: Some(path.to_owned()), ..Library::default() };
        assert!(at("/usr/local/cuda/lib64/stubs/libcuda.so").is_stub());
        assert!(Library { status: Some(34), ..Library::default() }.is_stub());
        let real = at("/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15");
        assert!(!real.is_stub() && !real.is_compat());
        assert_eq!(real.driver_version(), Some("570.86.15"));
        assert_eq!(at("/usr/lib/libcuda.so.1").driver_version(), None);
        assert!(at("/usr/local/cuda-12.8/compat/libcuda.so.570.86.15").is_compat());
    }

    #[test]
    fn probe_says_what_came_of_it() {
        let seen = probe();
        assert_eq!(seen.path.is_none(), seen.fault.is_some() && seen.status.is_none(), "{seen:?}");
        assert!(seen.path.is_some() || seen.fault.as_ref().is_some_and(|fault| fault.contains("cuda")), "{seen:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn start_of_another_library_is_a_fault() {
        // SAFETY: the C library is loaded already.
        let library = unsafe { Opened::new("libc.so.6") }.unwrap();
        let seen = start(&library, "libc.so.6");
        assert!(seen.fault.is_some_and(|fault| fault.contains("cuInit")) && seen.status.is_none());
    }
}
