//! `polywarp run`: runs a user's compute shader on any device, from and to .npy files. Kinds of shader files: `kernel.rs`.
//!
//! Files are read and flags are checked before a device is touched; an array may be saved over the file that it was
//! read from. A buffer is as long as its array, rounded up to 4 bytes (the unit that GPUs bind), so an array of an odd
//! number of 8- or 16-bit elements has padding zeros at its end. The shader reads the bytes whatever their dtype; where
//! that is hardly intended (numpy's f64 as f32), a line on standard error says so. A shader that does not end is given
//! up after `--timeout`, and the process ends without it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use polywarp::compiler::{Request, Target, compile};
use polywarp::files::npy::{self, Form, Kind};
use polywarp::{Binding, Buffer, Code, DType, Device, Kernel, Opening};

use super::files::{self, check_distinct, check_writable};
use super::kernel::Launching;
use super::{Fault, Output, Verdict, in_shader, opened_device, parse_define, say_beside};

/// Runs a compute shader from and to .npy files
#[derive(clap::Args)]
pub struct Args {
    /// The file: WGSL, SPIR-V (.spv), or for cuda devices .ptx, .cu (needs NVRTC), .cubin, .fatbin
    file: PathBuf,
    /// The device, such as `wgpu:0`, or its PCI address or UUID; the default one when left out
    #[arg(long, value_name = "D")]
    device: Option<String>,
    /// Workgroups along x, y and z
    #[arg(long, value_name = "X,Y,Z", value_parser = parse_extents, allow_negative_numbers = true)]
    grid: [u32; 3],
    /// Binds a .npy file, or zeros, such as `0=in.npy` or `1.2=zeros:f32:64x64`; may be repeated
    #[arg(long = "bind", value_name = "[GROUP.]BINDING=FILE|zeros:DTYPE:N[xM...]", value_parser = parse_bind)]
    binds: Vec<Bind>,
    /// Saves the bound buffer to a .npy file after the run, in the dtype and shape it was bound with; `-` is standard
    /// output, and messages go to standard error then; may be repeated
    #[arg(long = "save", value_name = "[GROUP.]BINDING=FILE", value_parser = parse_save)]
    saves: Vec<Save>,
    /// The entry point; may be left out when there is one
    #[arg(long, value_name = "E")]
    entry: Option<String>,
    #[command(flatten)]
    launching: Launching,
    /// Sets an `override` of the shader, of a .cu file a macro; may be repeated
    #[arg(long = "define", value_name = "N=V", value_parser = parse_define)]
    defines: Vec<(String, f64)>,
    /// Seconds after which a shader that has not ended is given up, with exit code 124; 0 waits for ever
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_timeout)]
    timeout: Timeout,
}

/// The time that the shader may take, including compiling and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timeout(Option<Duration>);

/// Extra time beyond the patience for waits, for a driver that does not return from its own calls. Giving up by
/// patience is cleaner, so it comes first.
const GRACE: Duration = Duration::from_secs(2);

fn parse_timeout(text: &str) -> Result<Timeout, String> {
    let refused = || format!("`{text}` is not a number of seconds");
    let seconds: f64 = text.parse().map_err(|_| refused())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| refused())?;
    Ok(Timeout(Some(time).filter(|time| !time.is_zero())))
}

/// `[GROUP.]BINDING`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    group: u32,
    binding: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.group, self.binding)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Bind {
    at: Place,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    File(PathBuf),
    Zeros(Form),
}

#[derive(Clone, Debug, PartialEq)]
struct Save {
    at: Place,
    path: PathBuf,
}

pub(super) fn parse_extents(text: &str) -> Result<[u32; 3], String> {
    let mut grid = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("{} extents, at most 3 are possible", parts.len()));
    }
    for (extent, part) in grid.iter_mut().zip(&parts) {
        *extent = part.trim().parse().map_err(|_| format!("`{part}` is not a number (0 to {})", u32::MAX))?;
    }
    Ok(grid)
}

fn parse_place(text: &str) -> Result<(Place, &str), String> {
    let (place, value) = text.split_once('=').ok_or("expected [GROUP.]BINDING=...")?;
    let number = |part: &str| part.parse().map_err(|_| format!("`{place}` is not [GROUP.]BINDING, such as 0 or 1.2"));
    let (group, binding) = match place.split_once('.') {
        Some((group, binding)) => (number(group)?, number(binding)?),
        None => (0, number(place)?),
    };
    if value.is_empty() {
        return Err(format!("nothing is named for binding {place}"));
    }
    Ok((Place { group, binding }, value))
}

fn parse_bind(text: &str) -> Result<Bind, String> {
    let (at, value) = parse_place(text)?;
    let what = match value.strip_prefix("zeros:") {
        Some(spec) => What::Zeros(parse_zeros(spec)?),
        None => What::File(PathBuf::from(value)),
    };
    Ok(Bind { at, what })
}

fn parse_zeros(spec: &str) -> Result<Form, String> {
    let (dtype, dims) = spec.split_once(':').ok_or("expected zeros:DTYPE:N or zeros:DTYPE:NxM")?;
    let dtype: DType = dtype.parse().map_err(|e: polywarp::Error| e.to_string())?;
    let dims = dims.split('x').map(|dim| dim.parse::<u64>());
    let shape = dims.collect::<Result<Vec<_>, _>>().map_err(|_| format!("`{spec}`: the shape is not N or NxM..."))?;
    let form = Form { kind: Kind::of(dtype), shape };
    if form.size_bytes().is_none() {
        return Err(format!("`{spec}` is larger than any device can hold"));
    }
    Ok(form)
}

fn parse_save(text: &str) -> Result<Save, String> {
    let (at, value) = parse_place(text)?;
    Ok(Save { at, path: PathBuf::from(value) })
}

/// An array on the device.
struct Bound {
    at: Place,
    form: Form,
    size_bytes: u64,
    buffer: Buffer,
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    check_places(args)?;
    let saves: Vec<_> = args.saves.iter().map(|save| (format!("--save {}", save.at), save.path.as_path())).collect();
    check_distinct(&[("the shader".to_owned(), args.file.as_path())], &saves)?;
    let kernel = args.launching.read(&args.file, args.entry.clone(), args.defines.clone())?;
    let arrays = args.binds.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    args.saves.iter().try_for_each(|save| check_writable(&save.path))?;
    let device = opened_device(args.device.as_deref(), Opening::default().patience(args.timeout.0))?;
    if args.device.is_none() && device.id() == "cpu" {
        return Err(no_shaders_by_default(&kernel));
    }
    let output = Output::beside(saves.iter().map(|(_, path)| *path));
    let bound = arrays.into_iter().map(|array| upload(&device, array)).collect::<Result<Vec<_>, Fault>>()?;
    let id = device.id().to_owned();
    let work = Work { device, file: args.file.clone(), kernel, grid: args.grid, bound, saves: args.saves.clone() };
    for (save, form, bytes) in within(args.timeout, &id, move || work.run())? {
        files::save(&save.path, &|out| npy::write(out, &form, &bytes))?;
        say_beside(output, format!("{}: {}", save.path.display(), form))?;
    }
    if args.saves.is_empty() {
        say_beside(output, format!("ran on {id}; --save BINDING=FILE keeps an array"))?;
    }
    Ok(Verdict::Well)
}

/// The result of `work`, done on a thread of its own: a driver may wait inside of a call, where patience does not apply.
fn within<T: Send + 'static>(
    timeout: Timeout,
    device: &str,
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let started = Instant::now();
    let spawned = std::thread::Builder::new().name("polywarp-run".to_owned()).spawn(move || {
        let _ = sender.send(work()); // nobody listens any more when the time is over
    });
    let worker = spawned.map_err(|error| Fault::Machine(format!("no thread can be started: {error}")))?;
    let given_up = |limit: Duration| {
        Fault::TimedOut(format!(
            "{device}: the shader has not ended within {limit:?}; give it longer by --timeout SECONDS (0 waits for ever), or see \
             whether a loop of it ends"
        ))
    };
    let answer = match timeout.0 {
        None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(limit) => receiver.recv_timeout(limit.saturating_add(GRACE)),
    };
    let answer = match (answer, timeout.0) {
        // A device that was waited for longer than the limit counts as lost.
        (Ok(Err(Fault::Machine(_))), Some(limit)) if started.elapsed() >= limit => return Err(given_up(limit)),
        (Err(RecvTimeoutError::Timeout), limit) => return Err(given_up(limit.unwrap_or_default())),
        (Ok(answer), _) => Some(answer),
        (Err(RecvTimeoutError::Disconnected), _) => None,
    };
    // A thread that has answered still runs drivers' code at its end. Beside the C library's handlers at the process's
    // end, which free memory that this code uses, it would abort: so it is joined. A thread that was given up is not
    // waited for: the process then ends without handlers.
    match worker.join() {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(()) => {
            answer.unwrap_or_else(|| Err(Fault::Machine("the shader's thread ended without an answer".to_owned())))
        }
    }
}

/// The shader with everything that it works on.
struct Work {
    device: Device,
    file: PathBuf,
    kernel: Kernel,
    grid: [u32; 3],
    bound: Vec<Bound>,
    saves: Vec<Save>,
}

impl Work {
    /// Runs the shader and returns the arrays to save.
    fn run(self) -> Result<Vec<(Save, Form, Vec<u8>)>, Fault> {
        let bindings: Vec<Binding> = self
            .bound
            .iter()
            .map(|array| Binding {
                group: array.at.group,
                binding: array.at.binding,
                buffer: array.buffer.clone(),
                range: 0..padded(array.size_bytes),
            })
            .collect();
        let backend = self.device.backend();
        backend.launch(&self.kernel, self.grid, &bindings).map_err(|e| in_shader(&self.file, e))?;
        for line in misread(&self.kernel, &self.bound) {
            // Ignored, because nobody can be told when standard error is closed.
            let _ = writeln!(std::io::stderr(), "warning: {line}");
        }
        self.device.synchronize()?;
        let mut arrays = Vec::new();
        for save in self.saves {
            let Some(array) = self.bound.iter().find(|array| array.at == save.at) else { continue }; // refused above
            let bytes = backend.read_blocking(&array.buffer, 0..array.size_bytes)?;
            arrays.push((save, array.form.clone(), bytes));
        }
        Ok(arrays)
    }
}

/// The fault where the default device is the CPU, which runs no shaders: it names a device that does. (A software GPU
/// is never the default.)
fn no_shaders_by_default(kernel: &Kernel) -> Fault {
    let needs_cuda = matches!(kernel.code, Code::Cuda { .. });
    let runs = |entry: &polywarp::DeviceEntry| {
        entry.unusable.is_none() && if needs_cuda { entry.id.starts_with("cuda:") } else { entry.id != "cpu" }
    };
    Fault::usage(match polywarp::devices().into_iter().find(runs) {
        Some(entry) => format!(
            "the default device, cpu, does not support shaders; name one that does: --device {} ({})",
            entry.id, entry.name
        ),
        None if needs_cuda => {
            format!(
                "{} runs on cuda devices alone, and there is none here; `polywarp doctor` says what is missing",
                kernel.form()
            )
        }
        None => "the default device, cpu, does not support shaders, and there is no other here, not even a GPU in \
                 software; `polywarp doctor` says what is missing"
            .to_owned(),
    })
}

/// A warning for each array whose elements have another type than `kernel`, which is valid, declares for it.
fn misread(kernel: &Kernel, bound: &[Bound]) -> Vec<String> {
    let request = Request {
        source: kernel.wgsl_text(),
        target: Target::Wgsl,
        entry: kernel.entry.as_deref(),
        defines: &kernel.defines,
        arch: None,
    };
    // The device judges kernels, and it accepted this one; a kernel that the compiler refuses gets no warning here.
    let Ok(compiled) = compile(&request) else { return Vec::new() };
    let lines = bound.iter().filter_map(|array| {
        let place = (array.at.group, array.at.binding);
        let declared = compiled.reflection.bindings.iter().find(|b| (b.group, b.binding) == place)?;
        let kind = array.form.kind.to_string();
        (!may_be_read_as(&kind, &declared.ty)).then(|| {
            let (at, name, ty) = (array.at, &declared.name, &declared.ty);
            format!("binding {at} has elements of type {kind}, which `{name}`, {ty}, reads as they lie; convert them if that is not meant")
        })
    });
    lines.collect()
}

/// Whether it can be intended that elements of type `kind` are read as the WGSL type `ty`: as the same type, as the
/// other kind of integer of that size, as the two parts of a complex number, or as words (u32). Always true for structs.
fn may_be_read_as(kind: &str, ty: &str) -> bool {
    const SCALARS: [&str; 7] = ["f16", "f32", "f64", "i32", "i64", "u32", "u64"];
    let mut scalars = ty.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| SCALARS.contains(word)).peekable();
    scalars.peek().is_none()
        || scalars.any(|scalar| {
            let integers = kind.starts_with(['i', 'u']) && scalar.starts_with(['i', 'u']) && kind[1..] == scalar[1..];
            let parts = matches!((kind, scalar), ("c64", "f32") | ("c128", "f64"));
            kind == scalar || scalar == "u32" || integers || parts
        })
}

fn check_places(args: &Args) -> Result<(), Fault> {
    for (i, bind) in args.binds.iter().enumerate() {
        if args.binds[..i].iter().any(|other| other.at == bind.at) {
            return Err(Fault::usage(format!("--bind names binding {} twice", bind.at)));
        }
    }
    for save in &args.saves {
        if args.binds.iter().all(|bind| bind.at != save.at) {
            return Err(Fault::usage(format!(
                "--save {}: nothing is bound there; add --bind {}=...",
                save.at, save.at
            )));
        }
    }
    Ok(())
}

/// An array on the host; `None` for zeros, which need no memory here.
struct Loaded {
    at: Place,
    form: Form,
    bytes: Option<Vec<u8>>,
}

fn load(bind: &Bind) -> Result<Loaded, Fault> {
    let (form, bytes) = match &bind.what {
        What::Zeros(form) => (form.clone(), None),
        What::File(path) => {
            let (form, bytes) = read_array(path)?;
            (form, Some(bytes))
        }
    };
    if form.size_bytes() == Some(0) {
        return Err(Fault::usage(format!("--bind {}: the array has no elements, and a shader needs some", bind.at)));
    }
    Ok(Loaded { at: bind.at, form, bytes })
}

fn read_array(path: &Path) -> Result<(Form, Vec<u8>), Fault> {
    files::check_regular(path)
        .and_then(|()| npy::read(path))
        .map_err(|e| Fault::usage(format!("{}: {e}", path.display())))
}

fn padded(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(4)
}

fn upload(device: &Device, array: Loaded) -> Result<Bound, Fault> {
    /// Zeros are sent in pieces of this size.
    const CHUNK_BYTES: u64 = 16 << 20;
    let size_bytes = array.form.size_bytes().unwrap_or(u64::MAX);
    let backend = device.backend();
    let buffer = backend.alloc(padded(size_bytes))?;
    match &array.bytes {
        Some(bytes) => {
            backend.write(&buffer, 0, bytes)?;
            let padding = padded(size_bytes) - size_bytes;
            if padding > 0 {
                backend.write(&buffer, size_bytes, &[0; 3][..padding as usize])?;
            }
        }
        None => {
            let total = padded(size_bytes);
            let zeros = vec![0; total.min(CHUNK_BYTES) as usize];
            let mut at = 0;
            while at < total {
                let count = (total - at).min(CHUNK_BYTES);
                backend.write(&buffer, at, &zeros[..count as usize])?;
                at += count;
            }
        }
    }
    Ok(Bound { at: array.at, form: array.form, size_bytes, buffer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_is_in_seconds_and_zero_is_none() {
        assert_eq!(parse_timeout("0"), Ok(Timeout(None)));
        assert_eq!(parse_timeout("1.5"), Ok(Timeout(Some(Duration::from_millis(1500)))));
        for bad in ["-1", "", "nan", "inf", "1e300", "2s"] {
            assert!(parse_timeout(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn work_that_does_not_end_in_time_is_given_up() {
        let limit = |milliseconds| Timeout(Some(Duration::from_millis(milliseconds)));
        let stuck = within(limit(10), "wgpu:7", || {
            std::thread::sleep(Duration::from_secs(60));
            Ok(())
        });
        assert!(
            matches!(&stuck, Err(Fault::TimedOut(why)) if why.contains("wgpu:7") && why.contains("--timeout")),
            "{stuck:?}"
        );
        let lost = within(limit(10), "wgpu:7", || -> Result<(), Fault> {
            std::thread::sleep(Duration::from_millis(30));
            Err(Fault::Machine("the device was lost".to_owned()))
        });
        assert!(matches!(lost, Err(Fault::TimedOut(_))), "{lost:?}");
        let failed =
            within(limit(60_000), "wgpu:7", || -> Result<(), Fault> { Err(Fault::Machine("lost".to_owned())) });
        assert!(matches!(failed, Err(Fault::Machine(_))), "a fault before the time is over is itself: {failed:?}");
        assert!(matches!(within(Timeout(None), "wgpu:7", || Ok(7)), Ok(7)));
    }

    #[test]
    fn the_thread_that_answered_has_ended() {
        use std::sync::atomic::{AtomicBool, Ordering};
        static ENDED: AtomicBool = AtomicBool::new(false);
        /// The work of a driver when one of its threads ends.
        struct AtEnd;
        impl Drop for AtEnd {
            fn drop(&mut self) {
                std::thread::sleep(Duration::from_millis(100));
                ENDED.store(true, Ordering::SeqCst);
            }
        }
        thread_local!(static AT_END: AtEnd = const { AtEnd });
        let answer = within(Timeout(Some(Duration::from_secs(60))), "wgpu:7", || {
            AT_END.with(|_| ());
            Ok(7)
        });
        assert!(matches!(answer, Ok(7)) && ENDED.load(Ordering::SeqCst));
    }

    #[test]
    fn grid_missing_extents_are_one() {
        assert_eq!(parse_extents("4"), Ok([4, 1, 1]));
        assert_eq!(parse_extents("4,2"), Ok([4, 2, 1]));
        assert_eq!(parse_extents("4, 2, 0"), Ok([4, 2, 0]));
        for bad in ["", "1,2,3,4", "-1", "1,,2", "4294967296", "x"] {
            assert!(parse_extents(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn elements_of_another_type_are_noticed() {
        let fine = [
            ("f32", "array<f32>"),
            ("f32", "array<mat4x4<f32>, 20>"),
            ("u32", "array<atomic<i32>>"),
            ("u64", "array<vec2<i64>>"),
            ("c64", "array<vec2<f32>>"),
            ("bf16", "array<u32>"),
            ("f64", "array<vec2<u32>>"),
            ("f64", "Particle"),
            ("f16", "array<f16, 8>"),
        ];
        assert!(fine.iter().all(|(kind, ty)| may_be_read_as(kind, ty)));
        for (kind, ty) in [("f64", "array<f32>"), ("i64", "array<i32>"), ("i32", "f32"), ("f16", "array<vec4<f32>>")] {
            assert!(!may_be_read_as(kind, ty), "{kind} as {ty}");
        }
    }

    #[test]
    fn bind_names_a_file_or_zeros() {
        let at = |group, binding| Place { group, binding };
        let file = Bind { at: at(0, 3), what: What::File("a=b.npy".into()) };
        assert_eq!(parse_bind("3=a=b.npy"), Ok(file));
        let zeros = parse_bind("1.2=zeros:f16:4x5").unwrap();
        assert_eq!(zeros.at, at(1, 2));
        let What::Zeros(form) = zeros.what else { panic!("not zeros") };
        assert_eq!((form.to_string().as_str(), form.size_bytes()), ("f16 4x5", Some(40)));
        let bad =
            ["a=x", "1", "1=", "=x", "1.=x", "-1=x", "0=zeros:f32", "0=zeros:f31:4", "0=zeros:f32:", "0=zeros:f32:4x"];
        for text in bad.into_iter().chain(["0=zeros:f32:4294967296x4294967296", "0=zeros:u8:1152921504606846977"]) {
            assert!(parse_bind(text).is_err(), "{text}");
        }
    }
}
