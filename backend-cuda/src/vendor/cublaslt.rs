//! cuBLASLt, opened at run time where the machine has it. Its heuristics and launches are in `plan.rs`.
//!
//! Types and numbers are those of `cublasLt.h` (cuBLAS 12 and 13). Opened by hand for the reason that `driver.rs` gives: cudarc's
//! loader panics where a library or a function is missing, and knows only the library of the CUDA version it is built for.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use cudarc::driver::sys;
use libloading::Library;
use polywarp_core::{Backend, Buffer};

use crate::state::CudaBackend;

/// Scratch space that every comparison gives it.
pub const WORKSPACE_BYTES: u64 = 32 << 20;
/// Names the library's file, where it is not found by itself.
const PATH_VARIABLE: &str = "CUBLASLT";

/// An opaque object of the library.
pub(super) type Handle = *mut c_void;
type Status = c_int;
pub(super) type Said<T = ()> = std::result::Result<T, String>;

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Heuristic {
    pub(super) algorithm: [u64; 8],
    pub(super) workspace_bytes: usize,
    pub(super) state: Status,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

macro_rules! functions {
    ($($field:ident $name:literal($($argument:ty),*);)*) => {
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            fn look_up(library: &Library) -> std::result::Result<Functions, libloading::Error> {
                // SAFETY: the types are those that cublasLt.h declares; the library is never closed.
                unsafe { Ok(Functions { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    create "cublasLtCreate"(*mut Handle);
    destroy "cublasLtDestroy"(Handle);
    desc_create "cublasLtMatmulDescCreate"(*mut Handle, c_int, c_int);
    desc_destroy "cublasLtMatmulDescDestroy"(Handle);
    desc_set "cublasLtMatmulDescSetAttribute"(Handle, c_int, *const c_void, usize);
    layout_create "cublasLtMatrixLayoutCreate"(*mut Handle, c_int, u64, u64, i64);
    layout_destroy "cublasLtMatrixLayoutDestroy"(Handle);
    layout_set "cublasLtMatrixLayoutSetAttribute"(Handle, c_int, *const c_void, usize);
    preference_create "cublasLtMatmulPreferenceCreate"(*mut Handle);
    preference_destroy "cublasLtMatmulPreferenceDestroy"(Handle);
    preference_set "cublasLtMatmulPreferenceSetAttribute"(Handle, c_int, *const c_void, usize);
    heuristics "cublasLtMatmulAlgoGetHeuristic"(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int
    );
    matmul "cublasLtMatmul"(
        Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle,
        *const [u64; 8], u64, usize, sys::CUstream
    );
}

/// The library, in a backend's context.
#[derive(Debug)]
pub struct CublasLt {
    pub(super) functions: Functions,
    pub(super) handle: Handle,
    version: usize,
    /// Kept for its address.
    _workspace: Buffer,
    pub(super) workspace_address: u64,
}

// SAFETY: the library is thread-safe (cuBLAS manual, "Thread Safety"); the handle is destroyed once.
unsafe impl Send for CublasLt {}
// SAFETY: as above; heuristics and launches may be asked for from several threads.
unsafe impl Sync for CublasLt {}

pub(super) fn checked(what: &str, status: Status) -> Said {
    // `cublasStatus_t` (cuBLAS manual).
    let name = match status {
        0 => return Ok(()),
        1 => "not initialized",
        3 => "allocation failed",
        7 => "invalid value",
        8 => "architecture mismatch",
        11 => "mapping error",
        13 => "execution failed",
        14 => "internal error",
        15 => "not supported",
        16 => "license error",
        _ => "unknown",
    };
    Err(format!("{what}: cuBLAS status {status}, {name}"))
}

pub(super) fn driver(what: &str, status: sys::CUresult) -> Said {
    if status == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(format!("{what}: {status:?}")) }
}

impl CublasLt {
    /// Opens it, wherever CUDA or PyTorch put it.
    ///
    /// # Errors
    /// Why it cannot be had, in words.
    pub fn open(backend: &CudaBackend) -> Said<CublasLt> {
        let mut names: Vec<PathBuf> = std::env::var_os(PATH_VARIABLE).map(PathBuf::from).into_iter().collect();
        for version in [".so.13", ".so.12", ".so"] {
            for folder in ["", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"] {
                names.push(format!("{folder}libcublasLt{version}").into());
            }
        }
        // SAFETY: NVIDIA's library; opening it runs its initialisers alone.
        let library = names.iter().find_map(|name| unsafe { Library::new(name) }.ok());
        let library =
            library.ok_or_else(|| format!("the library is not found ({PATH_VARIABLE}=/path/to/libcublasLt.so)"))?;
        let functions = Functions::look_up(&library).map_err(|error| error.to_string())?;
        // SAFETY: takes nothing and returns a number.
        let version = unsafe {
            library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion\0").map_err(|e| e.to_string())?()
        };
        std::mem::forget(library);
        let workspace = backend.alloc(WORKSPACE_BYTES).map_err(|error| error.to_string())?;
        let workspace_address = backend.device_address(&workspace).map_err(|error| error.to_string())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context lives as long as the backend; the pointer is to a live local.
        unsafe {
            driver("context", sys::cuCtxSetCurrent(backend.context()))?;
            checked("cublasLtCreate", (functions.create)(&mut handle))?;
        }
        Ok(CublasLt { functions, handle, version, _workspace: workspace, workspace_address })
    }

    /// `13.1.0`
    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 10_000, self.version / 100 % 100, self.version % 100)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: made by `open`, destroyed once; it waits for what it launched.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// An object of the library, destroyed when dropped.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) raw: Handle,
    pub(super) destroy: unsafe extern "C" fn(Handle) -> Status,
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: made by the function that belongs to `destroy`, and destroyed once.
        unsafe { (self.destroy)(self.raw) };
    }
}
