//! What naga-ptx makes of WGSL against what nvcc makes of the same kernels in CUDA C++, on this machine's card.
//!
//! `cargo run --release -p polywarp-cuda --example against_nvcc [FOLDER]`; FOLDER is `benches/native`. It needs `nvcc`, or a
//! `kernels.cubin` made by it in FOLDER. Both sides run interleaved on the same buffers; results are compared before
//! anything is timed, and the time is the best of many rounds by the card's own clock. Exit code 1 when results differ.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga_ptx::{Options, Target};
use polywarp_cuda::cudarc;

const ROUNDS: usize = 30;
/// Copies of the operands, so that one launch does not find its data in the cache of 50 MiB that the last one left.
const COPIES: usize = 3;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The uniform of a kernel, by value.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Params([u32; 4]);

// SAFETY: four words without padding, which mean the same to the kernel.
unsafe impl DeviceRepr for Params {}

struct Case {
    /// Of the WGSL file, without its extension.
    file: &'static str,
    /// Of the entry point, in both languages.
    entry: &'static str,
    params: [u32; 4],
    grid: [u32; 3],
    /// Words of each operand; the last is the output.
    words: Vec<usize>,
    /// Largest difference of results, relative to the largest result.
    tolerance: f32,
    integers: bool,
}

fn cases() -> Vec<Case> {
    let n = 1_usize << 27;
    let (m, k) = (4096_u32, 4096_u32);
    let square = (m * m) as usize;
    vec![
        Case {
            file: "saxpy",
            entry: "saxpy",
            params: [n as u32, 1.5_f32.to_bits(), 0, 0],
            grid: [n.div_ceil(256) as u32, 1, 1],
            words: vec![n, n],
            tolerance: 0.0,
            integers: false,
        },
        Case {
            file: "copy",
            entry: "copy4",
            params: [n as u32 / 4, 0, 0, 0],
            grid: [n.div_ceil(1024) as u32, 1, 1],
            words: vec![n, n],
            tolerance: 0.0,
            integers: false,
        },
        Case {
            file: "softmax",
            entry: "softmax",
            params: [8192, 0, 0, 0],
            grid: [n as u32 / 8192, 1, 1],
            words: vec![n, n],
            tolerance: 1e-5,
            integers: false,
        },
        Case {
            file: "gemm",
            entry: "gemm",
            params: [m, m, k, 0],
            grid: [m / 128, m / 128, 1],
            words: vec![square, square, square],
            tolerance: 1e-5,
            integers: false,
        },
        Case {
            file: "histogram",
            entry: "histogram",
            params: [n as u32, 0, 0, 0],
            grid: [1056, 1, 1],
            words: vec![n, 256],
            tolerance: 0.0,
            integers: true,
        },
    ]
}

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "benches/native".to_owned());
    match compare(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(folder: &Path) -> Fallible<bool> {
    // The backend looks for the driver library first, which cudarc would panic without.
    polywarp_cuda::cards()?;
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let (major, minor) = context.compute_capability()?;
    let target = Target::new(major as u32, minor as u32);
    let theirs = context.load_module(Ptx::from_file(cubin(folder, target)?))?;
    println!("{}, {target}; best of {ROUNDS} rounds", context.name()?);
    println!("{:<10} {:>12} {:>12} {:>8}", "kernel", "WGSL ms", "CUDA C++ ms", "ratio");
    let mut all_equal = true;
    for case in cases() {
        let ours = context.load_module(Ptx::from_src(ptx(folder, &case, target)?))?.load_function(case.entry)?;
        let theirs = theirs.load_function(case.entry)?;
        let operands: Vec<Vec<CudaSlice<u32>>> =
            (0..COPIES).map(|_| operands(&stream, &case)).collect::<Fallible<_>>()?;
        let mut results = Vec::new();
        for function in [&ours, &theirs] {
            let mut fresh = self::operands(&stream, &case)?;
            launch(&stream, function, &case, &mut fresh)?;
            results.push(stream.clone_dtoh(fresh.last().ok_or("no operands")?)?);
        }
        let difference = difference(&results[0], &results[1], case.integers);
        all_equal &= difference <= case.tolerance;
        let mut best = [f32::INFINITY; 2];
        let mut operands = operands;
        for round in 0..ROUNDS {
            for (side, function) in [&ours, &theirs].into_iter().enumerate() {
                let start = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
                for copy in 0..COPIES {
                    launch(&stream, function, &case, &mut operands[(copy + round) % COPIES])?;
                }
                let end = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
                best[side] = best[side].min(start.elapsed_ms(&end)? / COPIES as f32);
            }
        }
        let verdict = if difference <= case.tolerance { "" } else { "  RESULTS DIFFER" };
        let ratio = best[1] / best[0];
        println!("{:<10} {:>12.4} {:>12.4} {ratio:>8.3}{verdict}", case.file, best[0], best[1]);
    }
    Ok(all_equal)
}

fn ptx(folder: &Path, case: &Case, target: Target) -> Fallible<String> {
    let path = folder.join(format!("{}.wgsl", case.file));
    let source = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let module = naga::front::wgsl::parse_str(&source).map_err(|error| error.emit_to_string(&source))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(&source))?;
    Ok(naga_ptx::compile(&module, &info, &Options::trusted(target))?.text)
}

/// The machine code of `kernels.cu`.
fn cubin(folder: &Path, target: Target) -> Fallible<PathBuf> {
    let path = folder.join("kernels.cubin");
    if path.exists() {
        return Ok(path);
    }
    let output = std::env::temp_dir().join(format!("polywarp-kernels-{}.cubin", std::process::id()));
    let run = Command::new("nvcc")
        .args(["-O3", "-cubin", &format!("-arch={target}"), "-o"])
        .arg(&output)
        .arg(folder.join("kernels.cu"))
        .output()
        .map_err(|error| format!("nvcc: {error}; this comparison needs NVIDIA's compiler"))?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into());
    }
    Ok(output)
}

/// Inputs of small numbers, an output of zeros.
fn operands(stream: &Arc<CudaStream>, case: &Case) -> Fallible<Vec<CudaSlice<u32>>> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let last = case.words.len() - 1;
    let mut buffers = Vec::new();
    for (index, &words) in case.words.iter().enumerate() {
        if index == last {
            buffers.push(stream.alloc_zeros::<u32>(words)?);
            continue;
        }
        let data: Vec<u32> = match case.integers {
            true => (0..words).map(|_| next()).collect(),
            false => (0..words).map(|_| ((next() >> 8) as f32 / 8_388_608.0 - 1.0).to_bits()).collect(),
        };
        buffers.push(stream.clone_htod(&data)?);
    }
    Ok(buffers)
}

fn launch(
    stream: &Arc<CudaStream>,
    function: &CudaFunction,
    case: &Case,
    operands: &mut [CudaSlice<u32>],
) -> Fallible<()> {
    let params = Params(case.params);
    let (output, inputs) = operands.split_last_mut().ok_or("no operands")?;
    let mut guards = Vec::new();
    let mut addresses: Vec<u64> = Vec::new();
    for input in inputs.iter() {
        let (address, guard) = input.device_ptr(stream);
        addresses.push(address);
        guards.push(guard);
    }
    let (address, guard) = output.device_ptr_mut(stream);
    addresses.push(address);
    guards.push(guard);
    let mut arguments = stream.launch_builder(function);
    arguments.arg(&params);
    for address in &addresses {
        arguments.arg(address);
    }
    let [x, y, z] = case.grid;
    let config = LaunchConfig { grid_dim: (x, y, z), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: both kernels take these parameters, stay inside operands of these sizes, and are of this block size.
    unsafe { arguments.launch(config)? };
    Ok(())
}

/// The largest difference, relative to the largest magnitude; of integers 0 or 1.
fn difference(a: &[u32], b: &[u32], integers: bool) -> f32 {
    if integers {
        return f32::from(u8::from(a != b));
    }
    let largest = b.iter().map(|&x| f32::from_bits(x).abs()).fold(f32::MIN_POSITIVE, f32::max);
    let apart = |(&x, &y): (&u32, &u32)| {
        let apart = (f32::from_bits(x) - f32::from_bits(y)).abs() / largest;
        if apart.is_nan() { f32::INFINITY } else { apart }
    };
    a.iter().zip(b).map(apart).fold(0.0, f32::max)
}
