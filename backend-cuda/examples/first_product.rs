//! What a new process pays until its first product is in its hands, step by step and for each mode of the tuner.
//!
//! `cargo run --release -p polywarp-cuda --example first_product [N] [f32|f16]`: each row is a process of its own, first with empty
//! caches, then with those that the first left. `beyond` is all of the time from the start of the process to the product
//! read back, but for `cuInit` and making the context, which every CUDA program pays. `--steps` prints what the first
//! process of each mode logs, with the time of each line. It needs a card. Not a benchmark of products.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use polywarp_core::{DType, Device, Tensor};
use polywarp_cuda::{CudaBackend, Options, cards};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Set for the processes that are measured: when they were started, in nanoseconds since 1970.
const STARTED: &str = "POLYWARP_LATENCY_STARTED_NS";
/// Set when they are to print what they log.
const STEPS: &str = "POLYWARP_LATENCY_STEPS";

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Prints each line of the log with the time since the start of the process.
struct Steps(Duration);

impl log::Log for Steps {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("polywarp")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let text = record.args().to_string();
            let ms = (since_1970().saturating_sub(self.0)).as_secs_f64() * 1e3;
            println!("    {ms:9.3} ms  {}", text.lines().next().unwrap_or_default());
        }
    }

    fn flush(&self) {}
}

/// What every CUDA program does first: the driver's two slow calls.
fn driver() -> Fallible<(Duration, Duration)> {
    let file = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    // SAFETY: the driver's own library; it is never closed.
    let library = std::mem::ManuallyDrop::new(unsafe { libloading::Library::new(file) }?);
    // SAFETY: the functions have these types in cuda.h; the pointers are to live locals. The context stays retained.
    unsafe {
        let init: libloading::Symbol<'_, unsafe extern "system" fn(u32) -> c_int> = library.get(b"cuInit\0")?;
        type Retain = unsafe extern "system" fn(*mut *mut c_void, c_int) -> c_int;
        let retain: libloading::Symbol<'_, Retain> = library.get(b"cuDevicePrimaryCtxRetain\0")?;
        let start = Instant::now();
        let mut status = init(0);
        let initialised = start.elapsed();
        let mut context = std::ptr::null_mut();
        if status == 0 {
            status = retain(&mut context, 0);
        }
        if status != 0 {
            return Err(format!("the driver says {status}").into());
        }
        Ok((initialised, start.elapsed() - initialised))
    }
}

/// The process that is measured.
fn child(started: Duration, n: u64, dtype: DType) -> Fallible<()> {
    let in_main = since_1970().saturating_sub(started);
    if std::env::var_os(STEPS).is_some() {
        log::set_logger(Box::leak(Box::new(Steps(started)))).map_err(|_| "there is a logger already")?;
        log::set_max_level(log::LevelFilter::Debug);
    }
    let (init, context) = driver()?;
    let mut last = Instant::now();
    let mut lap = || std::mem::replace(&mut last, Instant::now()).elapsed();
    let card = cards()?.into_iter().next().ok_or("no card")?;
    let device = Device::new(card.open(Options::default())?);
    let opened = lap();
    let a = Tensor::full(&device, dtype, [n, n], 0.5)?;
    device.synchronize()?;
    let filled = lap();
    let product = a.matmul(&a)?;
    device.synchronize()?;
    let multiplied = lap();
    let bytes = product.to_bytes()?;
    let read = lap();
    let all = since_1970().saturating_sub(started);
    drop(a.matmul(&a)?);
    device.synchronize()?;
    let again = lap();
    let tuner = device.tuner().ok_or("no tuner")?;
    let timed: usize = tuner.answers().answers().map(|answer| answer.times.len()).sum();
    let first = match dtype {
        DType::F16 => f64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        _ => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
    };
    let wanted = if dtype == DType::F16 { f64::from(0x5c00) } else { n as f64 / 4.0 };
    if n == 1024 && first != wanted {
        return Err(format!("the product is wrong: {first}").into());
    }
    let backend = device.backend_as::<CudaBackend>().ok_or("no CUDA device")?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{:7.1} {:7.1} {:7.1} {:7.1} {:7.1} {:8.1} {:7.1} {:8.1} {:7.1}  {:8.2}  {timed} timed, {} + {} kernels",
        ms(in_main),
        ms(init),
        ms(context),
        ms(opened),
        ms(filled),
        ms(multiplied),
        ms(read),
        ms(all),
        ms(all.saturating_sub(init + context)),
        ms(again),
        backend.loaded_kernels(),
        backend.native_kernels(),
    );
    Ok(())
}

fn parent(arguments: &[String]) -> Fallible<()> {
    let folder = std::env::temp_dir().join(format!("polywarp-latency-{}", std::process::id()));
    println!(
        "                     ms:  main  cuInit context    open    fill  product    read      all  beyond  2nd time"
    );
    for mode in ["off", "cached", "full"] {
        let cache = folder.join(mode);
        std::fs::create_dir_all(&cache)?;
        for process in 1..=4 {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(arguments.iter().filter(|argument| *argument != "--steps"));
            command.env("POLYWARP_TUNE", mode).env("XDG_CACHE_HOME", &cache).env_remove("POLYWARP_CACHE");
            if process == 1 && arguments.iter().any(|argument| argument == "--steps") {
                command.env(STEPS, "1");
            }
            let output = command.env(STARTED, since_1970().as_nanos().to_string()).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            let text = String::from_utf8_lossy(&output.stdout);
            let (steps, row) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
            if !steps.is_empty() {
                println!("{steps}");
            }
            println!("tune={mode:<7}process {process}: {row}");
        }
    }
    remove(&folder);
    Ok(())
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        eprintln!("{} could not be removed: {error}", folder.display());
    }
}

fn run() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let n = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(1024);
    let dtype = if arguments.iter().any(|argument| argument == "f16") { DType::F16 } else { DType::F32 };
    match std::env::var(STARTED) {
        Ok(started) => child(Duration::from_nanos(started.parse()?), n, dtype),
        Err(_) => parent(&arguments),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
