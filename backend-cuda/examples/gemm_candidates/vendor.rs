//! cuBLASLt, opened at run time where the machine has it: what polywarp's kernels are held against. Nothing of polywarp
//! needs it.
//!
//! Types and numbers are those of `cublasLt.h` and `library_types.h` (cuBLAS 12 and 13). It computes column-major: D
//! row-major is D' column-major, and D' = B' A'.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use libloading::Library;
use polywarp_core::{Backend, Buffer, DType, Precision};
use polywarp_cuda::CudaBackend;
use polywarp_cuda::cudarc::driver::sys;

use crate::{Fallible, Problem, Set};

/// What every comparison of ours gives it.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// Heuristics that are tried.
const HEURISTICS: usize = 8;

/// An opaque object of the library.
type Handle = *mut c_void;
type Status = c_int;

/// `cublasLtMatmulHeuristicResult_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! functions {
    ($($field:ident $name:literal($($argument:ty),*);)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            fn look_up(library: &Library) -> Result<Functions, libloading::Error> {
                // SAFETY: the types are those that cublasLt.h declares; the library is never closed.
                unsafe { Ok(Functions { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* }) }
            }
        }
    };
}

functions! {
    create "cublasLtCreate"(*mut Handle);
    desc_create "cublasLtMatmulDescCreate"(*mut Handle, c_int, c_int);
    desc_set "cublasLtMatmulDescSetAttribute"(Handle, c_int, *const c_void, usize);
    layout_create "cublasLtMatrixLayoutCreate"(*mut Handle, c_int, u64, u64, i64);
    layout_set "cublasLtMatrixLayoutSetAttribute"(Handle, c_int, *const c_void, usize);
    preference_create "cublasLtMatmulPreferenceCreate"(*mut Handle);
    preference_set "cublasLtMatmulPreferenceSetAttribute"(Handle, c_int, *const c_void, usize);
    heuristics "cublasLtMatmulAlgoGetHeuristic"(
        Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int
    );
    matmul "cublasLtMatmul"(
        Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle,
        *const [u64; 8], u64, usize, sys::CUstream
    );
}

/// The library, in the backend's context.
pub struct Vendor {
    functions: Functions,
    handle: Handle,
    version: usize,
    workspace: Buffer,
    workspace_address: u64,
}

/// A product as cuBLASLt would compute it: one of its heuristics.
pub struct Plan<'a> {
    vendor: &'a Vendor,
    desc: Handle,
    layouts: [Handle; 3],
    heuristic: Heuristic,
    number: usize,
    /// alpha 1 and beta 0, of the scale's type.
    scales: [[u8; 8]; 2],
}

/// Launches of a plan, captured.
pub struct Graph<'a> {
    exec: sys::CUgraphExec,
    _vendor: &'a Vendor,
}

fn checked(what: &str, status: Status) -> Fallible {
    if status == 0 { Ok(()) } else { Err(format!("{what}: cuBLAS status {status}").into()) }
}

fn driver(what: &str, status: sys::CUresult) -> Fallible {
    if status == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(format!("{what}: {status:?}").into()) }
}

impl Vendor {
    /// Opens it, wherever CUDA or PyTorch put it.
    pub fn open(backend: &CudaBackend) -> Fallible<Vendor> {
        let mut names: Vec<PathBuf> = std::env::var_os("CUBLASLT").map(PathBuf::from).into_iter().collect();
        for version in [".so.13", ".so.12", ".so"] {
            for folder in ["", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/"] {
                names.push(format!("{folder}libcublasLt{version}").into());
            }
        }
        // SAFETY: NVIDIA's library; opening it runs its initialisers alone.
        let library = names.iter().find_map(|name| unsafe { Library::new(name) }.ok());
        let library = library.ok_or("the library is not found (CUBLASLT=/path/to/libcublasLt.so)")?;
        let functions = Functions::look_up(&library)?;
        // SAFETY: takes nothing and returns a number.
        let version = unsafe {
            let version: libloading::Symbol<unsafe extern "C" fn() -> usize> = library.get(b"cublasLtGetVersion\0")?;
            version()
        };
        std::mem::forget(library);
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context lives as long as the backend; the pointer is to a live local.
        unsafe {
            driver("context", sys::cuCtxSetCurrent(backend.context()))?;
            checked("cublasLtCreate", (functions.create)(&mut handle))?;
        }
        let workspace = backend.alloc(WORKSPACE_BYTES)?;
        let workspace_address = backend.device_address(&workspace)?;
        Ok(Vendor { functions, handle, version, workspace, workspace_address })
    }

    pub fn version(&self) -> String {
        format!("{}.{}.{}", self.version / 10_000, self.version / 100 % 100, self.version % 100)
    }

    /// Its first heuristics for the product; none where it has none.
    pub fn plans(&self, problem: &Problem) -> Vec<Plan<'_>> {
        self.try_plans(problem).unwrap_or_else(|why| {
            println!("  cuBLASLt does not compute this: {why}");
            Vec::new()
        })
    }

    fn try_plans(&self, problem: &Problem) -> Fallible<Vec<Plan<'_>>> {
        let Problem { m, n, k, batch, input, output, precision, transposed } = *problem;
        // CUDA_R_32F, 64F, 16F, 8I, 16BF, 32I, 8U.
        let data = |dtype| match dtype {
            DType::F32 => Ok(0),
            DType::F64 => Ok(1),
            DType::F16 => Ok(2),
            DType::I8 => Ok(3),
            DType::U8 => Ok(8),
            DType::I32 => Ok(10),
            DType::BF16 => Ok(14),
            other => Err(format!("{other} is not a type of it")),
        };
        // CUBLAS_COMPUTE_32F, 32F_FAST_16BF, 64F, 32I, 32F_FAST_TF32.
        let (compute, scale, one): (c_int, DType, [u8; 8]) = match (input, precision) {
            (DType::F64, _) => (70, DType::F64, 1f64.to_le_bytes()),
            (DType::I8 | DType::U8, _) => (72, DType::I32, 1u64.to_le_bytes()),
            (DType::F32, Precision::Medium) => (77, DType::F32, u64::from(1f32.to_bits()).to_le_bytes()),
            (DType::F32, Precision::Low) => (75, DType::F32, u64::from(1f32.to_bits()).to_le_bytes()),
            _ => (68, DType::F32, u64::from(1f32.to_bits()).to_le_bytes()),
        };
        let f = &self.functions;
        let (mut desc, mut preference) = (std::ptr::null_mut(), std::ptr::null_mut());
        let int = |value: &c_int| (std::ptr::from_ref(value).cast::<c_void>(), size_of::<c_int>());
        // Ours B is its A, ours A its B; a row-major matrix is its own transpose there.
        let ops = [c_int::from(transposed[1]), c_int::from(transposed[0])];
        // SAFETY: objects are created before they are used, attributes have the types and numbers of cublasLt.h, and
        // pointers are to live locals. What is created here lives until the process ends.
        unsafe {
            checked("MatmulDescCreate", (f.desc_create)(&mut desc, compute, data(scale)?))?;
            for (attribute, op) in [3, 4].into_iter().zip(&ops) {
                let (pointer, size) = int(op);
                checked("MatmulDescSetAttribute", (f.desc_set)(desc, attribute, pointer, size))?;
            }
            let layout = |dtype, rows: u64, columns: u64| -> Fallible<Handle> {
                let mut layout = std::ptr::null_mut();
                let made = (f.layout_create)(&mut layout, data(dtype)?, rows, columns, rows as i64);
                checked("MatrixLayoutCreate", made)?;
                let (count, stride) = (batch as i32, (rows * columns) as i64);
                let (pointer, size) = int(&count);
                checked("batch count", (f.layout_set)(layout, 5, pointer, size))?;
                checked("batch stride", (f.layout_set)(layout, 6, (&raw const stride).cast(), 8))?;
                Ok(layout)
            };
            let b = if transposed[1] { layout(input, k, n)? } else { layout(input, n, k)? };
            let a = if transposed[0] { layout(input, m, k)? } else { layout(input, k, m)? };
            let layouts = [b, a, layout(output, n, m)?];
            checked("PreferenceCreate", (f.preference_create)(&mut preference))?;
            checked("workspace", (f.preference_set)(preference, 1, std::ptr::from_ref(&WORKSPACE_BYTES).cast(), 8))?;
            let mut found =
                [Heuristic { algorithm: [0; 8], workspace_bytes: 0, state: 1, waves: 0.0, reserved: [0; 4] };
                    HEURISTICS];
            let mut count = 0;
            let [b, a, d] = layouts;
            checked(
                "AlgoGetHeuristic",
                (f.heuristics)(
                    self.handle,
                    desc,
                    b,
                    a,
                    d,
                    d,
                    preference,
                    HEURISTICS as c_int,
                    found.as_mut_ptr(),
                    &mut count,
                ),
            )?;
            let found = found.into_iter().take(count.max(0) as usize).enumerate();
            let usable = found.filter(|(_, heuristic)| heuristic.state == 0);
            let scales = [one, [0; 8]];
            let plan = |(number, heuristic)| Plan { vendor: self, desc, layouts, heuristic, number, scales };
            Ok(usable.map(plan).collect())
        }
    }
}

impl<'a> Plan<'a> {
    pub fn number(&self) -> usize {
        self.number
    }

    /// Enqueues it on the backend's stream.
    pub fn run(&self, backend: &CudaBackend, set: &Set) -> polywarp_core::Result<()> {
        self.enqueue(backend, set, backend.stream()).map_err(|error| polywarp_core::Error::Backend {
            device: backend.info().id.clone(),
            op: "cublasLtMatmul".to_owned(),
            message: error.to_string(),
        })
    }

    fn enqueue(&self, backend: &CudaBackend, set: &Set, stream: sys::CUstream) -> Fallible {
        let address = |buffer| backend.device_address(buffer);
        let (a, b, d) = (address(&set.a)?, address(&set.b)?, address(&set.d)?);
        let [one, zero] = &self.scales;
        let [layout_b, layout_a, layout_d] = self.layouts;
        let vendor = self.vendor;
        debug_assert!(vendor.workspace.size_bytes() >= WORKSPACE_BYTES);
        // SAFETY: layouts describe the buffers, which outlive the work: the caller synchronises before it drops them.
        let status = unsafe {
            (vendor.functions.matmul)(
                vendor.handle,
                self.desc,
                one.as_ptr().cast(),
                b,
                layout_b,
                a,
                layout_a,
                zero.as_ptr().cast(),
                d,
                layout_d,
                d,
                layout_d,
                &self.heuristic.algorithm,
                vendor.workspace_address,
                WORKSPACE_BYTES as usize,
                stream,
            )
        };
        checked("cublasLtMatmul", status)
    }

    /// `launches` launches over `sets` in turn, ready to be enqueued together, as ours are.
    pub fn capture(&self, backend: &CudaBackend, sets: &[Set], launches: usize) -> Fallible<Graph<'a>> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        let (mut stream, mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the context is current since the library was opened; handles are used between making and destroying.
        unsafe {
            driver("context", sys::cuCtxSetCurrent(backend.context()))?;
            driver("stream", sys::cuStreamCreate(&mut stream, 1))?;
            driver("capture", sys::cuStreamBeginCapture_v2(stream, mode))?;
            let enqueued = (0..launches).try_for_each(|i| self.enqueue(backend, &sets[i % sets.len()], stream));
            driver("capture", sys::cuStreamEndCapture(stream, &mut graph))?;
            enqueued?;
            driver("graph", sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0))?;
            driver("graph", sys::cuGraphDestroy(graph))?;
            driver("stream", sys::cuStreamDestroy_v2(stream))?;
        }
        Ok(Graph { exec, _vendor: self.vendor })
    }
}

impl Graph<'_> {
    /// Enqueues all of it on the backend's stream.
    pub fn launch(&self, backend: &CudaBackend) -> polywarp_core::Result<()> {
        // SAFETY: the graph is alive, and so are the buffers it uses.
        let launched = driver("graph", unsafe { sys::cuGraphLaunch(self.exec, backend.stream()) });
        launched.map_err(|error| polywarp_core::Error::Backend {
            device: backend.info().id.clone(),
            op: "replaying cuBLASLt".to_owned(),
            message: error.to_string(),
        })
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `capture`, destroyed once; the driver keeps what still runs.
        unsafe { sys::cuGraphExecDestroy(self.exec) };
    }
}
