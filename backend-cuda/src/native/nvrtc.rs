//! NVRTC, CUDA's compiler of CUDA C++ at run time: opened when first asked for, and not needed by anything else.
//!
//! Its functions are looked up by name, as the driver's are (`driver.rs`): where it is missing there is an error that says what
//! to install. `POLYWARP_NVRTC` names another file. It compiles a user's text, which is not trusted.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, OnceLock};

use libloading::Library;
use polywarp_core::{Error, Result};

use crate::driver::one_line;
use crate::fault::lock;

/// The environment variable that names the library's file.
const VARIABLE: &str = "POLYWARP_NVRTC";
/// Versions of CUDA whose libraries are looked for, the newest first, with the name that Windows knows them by.
const VERSIONS: [(i32, &str, &str); 3] = [
    (13, "libnvrtc.so.13", "nvrtc64_130_0.dll"),
    (12, "libnvrtc.so.12", "nvrtc64_120_0.dll"),
    (11, "libnvrtc.so.11.2", "nvrtc64_112_0.dll"),
];

/// The language.
const STANDARD: &str = "--std=c++17";

/// `nvrtcResult`, as the number it is (nvrtc.h).
type Code = c_int;
const SUCCESS: Code = 0;
const INVALID_OPTION: Code = 5;
const COMPILATION: Code = 6;
const NAME_EXPRESSION_NOT_VALID: Code = 10;

type Program = *mut c_void;
type Size = unsafe extern "C" fn(Program, *mut usize) -> Code;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> Code;

macro_rules! functions {
    ($($name:ident: $ty:ty;)* [optional] $($newer:ident: $of_newer:ty;)*) => {
        /// Its functions in use.
        #[allow(non_snake_case)]
        struct Functions {
            $($name: $ty,)*
            $($newer: Option<$of_newer>,)*
        }

        impl Functions {
            #[allow(non_snake_case)]
            fn look_up(library: &Library) -> std::result::Result<Functions, &'static str> {
                $(
                    // SAFETY: the type is that of the function of this name in nvrtc.h. The library is never closed.
                    let $name = unsafe { library.get::<$ty>(concat!(stringify!($name), "\0").as_bytes()) };
                    let $name = *$name.map_err(|_| stringify!($name))?;
                )*
                $(
                    // SAFETY: as above.
                    let $newer = unsafe { library.get::<$of_newer>(concat!(stringify!($newer), "\0").as_bytes()) };
                    let $newer = $newer.ok().map(|function| *function);
                )*
                Ok(Functions { $($name,)* $($newer,)* })
            }
        }
    };
}

functions! {
    nvrtcVersion: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code;
    nvrtcGetErrorString: unsafe extern "C" fn(Code) -> *const c_char;
    nvrtcCreateProgram: unsafe extern "C" fn(
        *mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> Code;
    nvrtcDestroyProgram: unsafe extern "C" fn(*mut Program) -> Code;
    nvrtcAddNameExpression: unsafe extern "C" fn(Program, *const c_char) -> Code;
    nvrtcGetLoweredName: unsafe extern "C" fn(Program, *const c_char, *mut *const c_char) -> Code;
    nvrtcCompileProgram: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code;
    nvrtcGetProgramLogSize: Size;
    nvrtcGetProgramLog: Text;
    nvrtcGetPTXSize: Size;
    nvrtcGetPTX: Text;
    [optional]
    nvrtcGetCUBINSize: Size;
    nvrtcGetCUBIN: Text;
    nvrtcGetNumSupportedArchs: unsafe extern "C" fn(*mut c_int) -> Code;
    nvrtcGetSupportedArchs: unsafe extern "C" fn(*mut c_int) -> Code;
}

/// The library, opened.
pub(crate) struct Nvrtc {
    functions: Functions,
    file: String,
    version: (i32, i32),
    /// Architectures that it compiles for, `90` for sm_90; none where it does not say.
    architectures: Vec<i32>,
    /// One program is compiled at a time.
    compiling: Mutex<()>,
}

/// What became of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub(crate) ptx: String,
    /// Machine code for the architecture asked for, where this NVRTC knows it.
    pub(crate) cubin: Option<Vec<u8>>,
    /// What the entry point asked for is called in both.
    pub(crate) entry: Option<String>,
}

/// NVRTC, opened once for the process; where there are several, the one that suits a driver of CUDA `driver` best.
///
/// # Errors
/// [`Error::BackendUnavailable`] saying what is missing and what to install.
pub(crate) fn nvrtc(driver: i32) -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc>> = OnceLock::new();
    NVRTC.get_or_init(|| open(&candidates(driver))).as_ref().map_err(Clone::clone)
}

/// Files to try, in turn.
fn candidates(driver: i32) -> Vec<PathBuf> {
    if let Some(chosen) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return vec![PathBuf::from(chosen)];
    }
    // Machine code of a newer CUDA than the driver's is not taken; of an older one it is.
    let major = driver / 1000;
    let older = VERSIONS.iter().filter(|(version, ..)| *version <= major);
    let newer = VERSIONS.iter().rev().filter(|(version, ..)| *version > major);
    let names: Vec<&str> =
        older.chain(newer).map(|(_, unix, windows)| if cfg!(windows) { *windows } else { *unix }).collect();
    let folders = toolkits().into_iter().map(|root| root.join(if cfg!(windows) { "bin" } else { "lib64" }));
    let mut files: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    if !cfg!(windows) {
        files.push(PathBuf::from("libnvrtc.so"));
    }
    files.extend(folders.flat_map(|folder| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>()));
    files
}

/// Folders in which a toolkit may be installed.
fn toolkits() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).filter(|value| !value.is_empty());
    let mut roots: Vec<PathBuf> = named.map(PathBuf::from).collect();
    if !cfg!(windows) {
        roots.push(PathBuf::from("/usr/local/cuda"));
    }
    roots.retain(|root| root.is_absolute());
    roots
}

fn open(files: &[PathBuf]) -> Result<Nvrtc> {
    for file in files {
        // SAFETY: opening runs the library's initialisers. The names are those of NVIDIA's library, on the system's own search
        // path or where the user's environment says.
        let Ok(library) = (unsafe { Library::new(file) }) else { continue };
        let shown = file.display().to_string();
        let functions = Functions::look_up(&library).map_err(|missing| {
            unavailable(format!("{shown} has no function `{missing}`: it is no NVRTC, or too old"))
        })?;
        // Never closed, so that its functions stay where they are.
        std::mem::forget(library);
        return Ok(started(functions, shown));
    }
    let tried: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Err(unavailable(format!(
        "none of {} was found; install it (pip install nvidia-cuda-nvrtc, or a CUDA toolkit), and put its folder on the path \
         of libraries or its file into {VARIABLE}; or compile the kernel to PTX (nvcc -ptx), which needs only the driver",
        tried.join(", ")
    )))
}

fn started(functions: Functions, file: String) -> Nvrtc {
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: the pointers are to live locals.
    unsafe { (functions.nvrtcVersion)(&mut major, &mut minor) };
    let mut architectures = Vec::new();
    if let (Some(number), Some(list)) = (functions.nvrtcGetNumSupportedArchs, functions.nvrtcGetSupportedArchs) {
        // SAFETY: the pointer is to a live local.
        if unsafe { number(&mut count) } == SUCCESS && (1..=1000).contains(&count) {
            architectures.resize(count as usize, 0);
            // SAFETY: the list has as many places as the library said there are.
            if unsafe { list(architectures.as_mut_ptr()) } != SUCCESS {
                architectures.clear();
            }
        }
    }
    log::info!("NVRTC: {file}, CUDA {major}.{minor}");
    Nvrtc { functions, file, version: (major, minor), architectures, compiling: Mutex::default() }
}

impl Nvrtc {
    /// All but a source, its entry point and its macros that decides what it becomes for `sm`: version, architectures, options.
    pub(crate) fn identity(&self, sm: u32) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor} {:?} {:?} {STANDARD} {}", self.architectures, self.targets(sm), self.file)
    }

    /// The architectures to compile for on a card of `sm`, those that are tried first in front.
    fn targets(&self, sm: u32) -> Vec<String> {
        let known = self.architectures.iter().filter_map(|&known| u32::try_from(known).ok());
        match known.filter(|&known| known <= sm).max() {
            // Cards newer than this NVRTC run PTX of an older architecture.
            Some(older) if older < sm => vec![format!("compute_{older}")],
            // What one architecture alone has, such as wgmma, goes by a name of its own (from 9.0 on).
            _ if sm >= 90 => vec![format!("sm_{sm}a"), format!("sm_{sm}")],
            _ => vec![format!("sm_{sm}")],
        }
    }

    /// Compiles `source` for cards of compute capability `sm` (90 is 9.0), with `entry` in it, a function or an instance of a
    /// template, and macros `defines` (`N=4`).
    ///
    /// # Errors
    /// [`Error::Shader`] with the compiler's words; [`Error::InvalidArgument`] for an entry point that the source lacks.
    pub(crate) fn compile(&self, source: &str, entry: Option<&str>, defines: &[String], sm: u32) -> Result<Compiled> {
        let _compiling = lock(&self.compiling);
        let targets = self.targets(sm);
        for target in &targets {
            if let Some(compiled) = self.compile_for(source, entry, defines, target)? {
                return Ok(compiled);
            }
        }
        let (file, (major, minor)) = (&self.file, self.version);
        Err(unavailable(format!("{file} (CUDA {major}.{minor}) does not compile for sm_{sm}; install a newer NVRTC")))
    }

    /// `None` where it knows no such architecture.
    fn compile_for(
        &self,
        source: &str,
        entry: Option<&str>,
        defines: &[String],
        architecture: &str,
    ) -> Result<Option<Compiled>> {
        let mut options = vec![format!("--gpu-architecture={architecture}"), STANDARD.to_owned()];
        options.extend(defines.iter().map(|define| format!("-D{define}")));
        let headers = toolkits().into_iter().map(|root| root.join("include")).filter(|folder| folder.is_dir());
        options.extend(headers.filter_map(|folder: PathBuf| Some(format!("--include-path={}", folder.to_str()?))));
        let options: Vec<CString> = options.into_iter().map(|text| c_text(text, "define")).collect::<Result<_>>()?;
        let entry = entry.map(|name| c_text(name.to_owned(), "entry point")).transpose()?;
        let program = OpenProgram::new(self, &c_text(source.to_owned(), "CUDA C++")?)?;
        let functions = &self.functions;
        if let Some(entry) = &entry {
            // SAFETY: the program is open, and the name ends in zero.
            self.check("naming the entry point", unsafe {
                (functions.nvrtcAddNameExpression)(program.raw, entry.as_ptr())
            })?;
        }
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is open; the options end in zero each and are as many as is said.
        let done = unsafe { (functions.nvrtcCompileProgram)(program.raw, pointers.len() as c_int, pointers.as_ptr()) };
        match done {
            SUCCESS => {}
            INVALID_OPTION => return Ok(None),
            COMPILATION | NAME_EXPRESSION_NOT_VALID => return Err(refused(&program.log(), entry.as_deref())),
            failed => self.check("compiling CUDA C++", failed)?,
        }
        let entry = entry.map(|entry| program.lowered(&entry)).transpose()?;
        let ptx = program.bytes("reading the PTX", functions.nvrtcGetPTXSize, functions.nvrtcGetPTX)?;
        let cubin = match (functions.nvrtcGetCUBINSize, functions.nvrtcGetCUBIN) {
            (Some(size), Some(text)) if architecture.starts_with("sm_") => {
                program.bytes("reading the machine code", size, text).ok()
            }
            _ => None,
        };
        let ptx = String::from_utf8_lossy(ptx.strip_suffix(&[0]).unwrap_or(&ptx)).into_owned();
        Ok(Some(Compiled { ptx, cubin: cubin.filter(|code| !code.is_empty()), entry }))
    }

    fn check(&self, op: &str, done: Code) -> Result<()> {
        if done == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for; what comes back, when not null, is a string of the library's own.
        let words = unsafe {
            let words = (self.functions.nvrtcGetErrorString)(done);
            if words.is_null() {
                format!("NVRTC error {done}")
            } else {
                CStr::from_ptr(words).to_string_lossy().into_owned()
            }
        };
        Err(Error::Backend { device: "NVRTC".to_owned(), op: op.to_owned(), message: words })
    }
}

/// A program of the library, destroyed when dropped.
struct OpenProgram<'a> {
    nvrtc: &'a Nvrtc,
    raw: Program,
}

impl OpenProgram<'_> {
    fn new<'a>(nvrtc: &'a Nvrtc, source: &CStr) -> Result<OpenProgram<'a>> {
        let mut raw = null_mut();
        let (name, none) = (c"kernel.cu".as_ptr(), null());
        // SAFETY: both texts end in zero and there are no headers; the pointer is to a live local.
        let made = unsafe { (nvrtc.functions.nvrtcCreateProgram)(&mut raw, source.as_ptr(), name, 0, none, none) };
        nvrtc.check("reading CUDA C++", made)?;
        Ok(OpenProgram { nvrtc, raw })
    }

    /// What `text` writes, as many bytes as `size` says.
    fn bytes(&self, op: &str, size: Size, text: Text) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: the program is open; the pointer is to a live local.
        self.nvrtc.check(op, unsafe { size(self.raw, &mut len) })?;
        let mut bytes = vec![0u8; len];
        if len > 0 {
            // SAFETY: the program is open, and there is room for as many bytes as the library said.
            self.nvrtc.check(op, unsafe { text(self.raw, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }

    fn log(&self) -> String {
        let functions = &self.nvrtc.functions;
        let log = self.bytes("reading the log", functions.nvrtcGetProgramLogSize, functions.nvrtcGetProgramLog);
        log.map_or_else(|error| error.to_string(), |log| String::from_utf8_lossy(&log).replace('\0', ""))
    }

    /// What the entry point `name` of the source is called in its code.
    fn lowered(&self, name: &CStr) -> Result<String> {
        let mut found = null();
        // SAFETY: the program is compiled, the name ends in zero, and the pointer is to a live local; what is stored there lives as
        // long as the program.
        unsafe {
            let done = (self.nvrtc.functions.nvrtcGetLoweredName)(self.raw, name.as_ptr(), &mut found);
            self.nvrtc.check("looking for the entry point", done)?;
            Ok(CStr::from_ptr(found).to_string_lossy().into_owned())
        }
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { (self.nvrtc.functions.nvrtcDestroyProgram)(&mut self.raw) };
    }
}

/// The error of a source that does not compile, or lacks `entry`, by the compiler's log: `kernel.cu(3): error: ...`.
fn refused(log: &str, entry: Option<&CStr>) -> Error {
    let is_error = |line: &&str| line.contains("error");
    let line =
        log.lines().filter(is_error).find_map(|line| line.strip_prefix("kernel.cu(")?.split_once(')')?.0.parse().ok());
    if let (None, Some(entry), true) = (line, entry, log.contains("__nv_name_map")) {
        let reason = format!("`{}` is no kernel of the source", entry.to_string_lossy());
        return Error::InvalidArgument { what: "entry point", reason };
    }
    // Warnings may come first.
    let start = log.lines().take_while(|line| !is_error(line)).map(|line| line.len() + 1).sum::<usize>();
    let mut message = one_line(log.get(start..).unwrap_or(log));
    if message.contains("could not open source file") {
        message += " NVRTC has no headers of its own: CUDA_HOME names the folder of a toolkit.";
    }
    Error::Shader { line: line.unwrap_or(0), column: 0, message }
}

fn c_text(text: String, what: &'static str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::InvalidArgument { what, reason: "the text has a zero byte".to_owned() })
}

fn unavailable(reason: String) -> Error {
    Error::BackendUnavailable { backend: "NVRTC", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVRTC, where this machine has one.
    fn found() -> Option<Nvrtc> {
        match open(&candidates(13_000)) {
            Ok(nvrtc) => Some(nvrtc),
            Err(error) => {
                println!("NOT RUN: {error}");
                None
            }
        }
    }

    #[test]
    fn missing_library_is_told_with_what_to_install() {
        match open(&[PathBuf::from("libpolywarp-no-such.so.1")]) {
            Err(Error::BackendUnavailable { backend: "NVRTC", reason }) => {
                for word in ["libpolywarp-no-such.so.1", "install", "POLYWARP_NVRTC", "PTX"] {
                    assert!(reason.contains(word), "{reason}");
                }
            }
            _ => panic!("it was found"),
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn library_that_is_no_nvrtc_is_told_by_its_missing_function() {
        match open(&[PathBuf::from("libc.so.6")]) {
            Err(Error::BackendUnavailable { reason, .. }) => assert!(reason.contains("`nvrtcVersion`"), "{reason}"),
            _ => panic!("the C library is NVRTC"),
        }
    }

    #[test]
    fn library_of_the_drivers_own_version_comes_first_and_newer_ones_last() {
        if std::env::var_os(VARIABLE).is_some() {
            return;
        }
        let first = |driver| candidates(driver)[0].clone();
        let last_named = |driver| candidates(driver)[2].clone();
        let name = |unix: &str, windows: &str| PathBuf::from(if cfg!(windows) { windows } else { unix });
        assert_eq!(first(12_080), name("libnvrtc.so.12", "nvrtc64_120_0.dll"));
        assert_eq!(last_named(12_080), name("libnvrtc.so.13", "nvrtc64_130_0.dll"));
        assert_eq!(first(13_010), name("libnvrtc.so.13", "nvrtc64_130_0.dll"));
        assert_eq!(first(99_000), name("libnvrtc.so.13", "nvrtc64_130_0.dll"));
    }

    #[test]
    fn log_gives_the_line_of_the_first_error() {
        let log = "kernel.cu(2): warning #177-D: unused\n\nkernel.cu(7): error: expected a \";\"\n      }\n\n1 error detected";
        match refused(log, None) {
            Error::Shader { line: 7, message, .. } => {
                assert!(message.starts_with("kernel.cu(7)") && !message.contains('\n'))
            }
            other => panic!("{other:?}"),
        }
    }

    const SCALE: &str =
        "template <typename T> __global__ void scale(T *y, T factor) { y[threadIdx.x] *= factor * WIDE; }";

    #[test]
    fn source_becomes_ptx_and_machine_code() {
        let Some(nvrtc) = found() else { return };
        let compiled = nvrtc.compile(SCALE, Some("scale<float>"), &["WIDE=2".to_owned()], 80).unwrap();
        let entry = compiled.entry.unwrap();
        assert!(
            entry.starts_with("_Z") && compiled.ptx.contains(&format!(".entry {entry}")),
            "{entry}: {}",
            compiled.ptx
        );
        assert!(compiled.cubin.unwrap().starts_with(b"\x7fELF"));
        // Newer than any NVRTC that knows its architectures: text alone, of the newest that it knows.
        let compiled = nvrtc.compile("__global__ void f() {}", Some("f"), &[], 999).unwrap();
        assert!(compiled.cubin.is_none() && compiled.ptx.contains(".entry _Z1fv"));
    }

    #[test]
    fn source_with_a_fault_is_refused_with_line_and_words() {
        let Some(nvrtc) = found() else { return };
        let error = nvrtc.compile("__global__ void f() {\n  int x = ;\n}", Some("f"), &[], 80).unwrap_err();
        assert!(
            matches!(&error, Error::Shader { line: 2, message, .. } if message.contains("expected an expression")),
            "{error}"
        );
        let error = nvrtc.compile("__global__ void f() {}", Some("g"), &[], 80).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { what: "entry point", .. }), "{error}");
        let error = nvrtc.compile("#include <nowhere.h>", None, &[], 80).unwrap_err();
        assert!(matches!(&error, Error::Shader { message, .. } if message.contains("CUDA_HOME")), "{error}");
        let error = nvrtc.compile("a\0b", None, &[], 80).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { what: "CUDA C++", .. }), "{error}");
    }
}
