//! What ties the archive to the sources: translation units, digests, the manifest, and what compiled code must show.
//!
//! No compiler is called here (`xtask/src/kernels/` does that): these are functions of text, so that every machine can
//! tell whether `prepared/` belongs to `cuda/` and the catalogue. A line of the manifest is one kernel for one target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::in_flight;
use crate::target::EARLY_SM;
use crate::{Form, KernelInfo, Param, Target, kernels};

/// NVIDIA's compiler that everything is made with, as `nvcc --version` says it; its wheels are pinned in
/// `xtask/nvcc-requirements.txt`.
pub const COMPILER: &str = "V13.0.88";

/// What it is called with; the target and the paths are added.
pub const FLAGS: &[&str] = &["-std=c++17", "-O3"];

/// The folder of this crate that has the sources, from the top of the repository.
pub const SOURCES: &str = "kernels/cuda";

/// What the archive was made from, and what came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`COMPILER`] at that time.
    pub compiler: String,
    /// A line per kernel and target, in the catalogue's order.
    pub kernels: Vec<Line>,
}

/// One kernel for one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// [`KernelInfo::symbol`].
    pub symbol: String,
    /// [`KernelInfo::family`].
    pub family: String,
    /// [`Target`], as it is printed.
    pub target: String,
    /// [`source_digest`].
    pub source: String,
    /// SHA-256 of the code, its first 16 bytes.
    pub code: String,
    /// Length of the code.
    pub code_bytes: usize,
    /// What the assembler said of it; nothing for PTX.
    #[serde(flatten)]
    pub usage: Option<Usage>,
}

/// What machine code uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of registers that did not fit and go through memory.
    pub spilled_bytes: u32,
    /// Bytes of local memory per thread.
    pub stack_bytes: u32,
    /// Shared memory that is compiled in.
    pub static_shared_bytes: u32,
    /// Shared memory that a launch asks for.
    pub dynamic_shared_bytes: u32,
    /// Tensor instructions in the disassembly, by name.
    pub tensor: BTreeMap<String, u32>,
}

/// Every kernel with each of its targets.
pub fn jobs() -> impl Iterator<Item = (&'static KernelInfo, Target)> {
    kernels().iter().flat_map(|kernel| kernel.targets.iter().map(move |&target| (kernel, target)))
}

/// The C++ that is compiled for `kernel`.
pub fn translation_unit(kernel: &KernelInfo) -> String {
    format!("#include \"{}\"\n{}\n", kernel.source, kernel.instance)
}

/// What decides the code of `kernel` for `target`: its translation unit, every file that it includes from the folder
/// `sources`, the compiler and its flags.
///
/// # Errors
/// A file cannot be read.
pub fn source_digest(kernel: &KernelInfo, target: Target, sources: &Path) -> Result<String, String> {
    let mut files = BTreeSet::new();
    gather(sources, kernel.source, &mut files)?;
    let mut hasher = Sha256::new();
    let mut add = |text: &[u8]| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    add(COMPILER.as_bytes());
    add(FLAGS.join(" ").as_bytes());
    add(target.to_string().as_bytes());
    add(translation_unit(kernel).as_bytes());
    if kernel.starts_early {
        // Code that was made before this was said must not be taken over: it may not wait.
        add(b"starts early");
    }
    for file in files {
        add(file.as_bytes());
        add(read(sources, &file)?.replace("\r\n", "\n").as_bytes());
    }
    Ok(hex(&hasher.finalize()[..16]))
}

fn read(sources: &Path, file: &str) -> Result<String, String> {
    let path = sources.join(file);
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Adds `file` and what it includes in quotes, which is looked for beside it and in the folder of the sources.
fn gather(sources: &Path, file: &str, files: &mut BTreeSet<String>) -> Result<(), String> {
    if !files.insert(file.to_owned()) {
        return Ok(());
    }
    for line in read(sources, file)?.lines() {
        let Some(name) = line.trim().strip_prefix("#include \"").and_then(|rest| rest.split('"').next()) else {
            continue;
        };
        let beside = Path::new(file).parent().map(|folder| folder.join(name)).unwrap_or_default();
        let beside = beside.to_string_lossy().replace('\\', "/");
        let found = if sources.join(&beside).exists() { beside } else { name.to_owned() };
        gather(sources, &found, files)?;
    }
    Ok(())
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// [`Line::code`] of `code`.
pub fn code_digest(code: &[u8]) -> String {
    hex(&Sha256::digest(code)[..16])
}

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        serde_json::from_str(text).map_err(|error| format!("the manifest cannot be read: {error}"))
    }

    /// As text: one kernel a line, so that a change of one is a change of one line.
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.kernels.iter().map(|line| serde_json::to_string(line).unwrap_or_default()).collect();
        format!("{{\n\"compiler\": {:?},\n\"kernels\": [\n{}\n]\n}}\n", self.compiler, lines.join(",\n"))
    }

    /// The line of a kernel for a target.
    pub fn line(&self, symbol: &str, target: Target) -> Option<&Line> {
        let target = target.to_string();
        self.kernels.iter().find(|line| line.symbol == symbol && line.target == target)
    }
}

/// What PTX says of a kernel must be what the catalogue says: parameters, threads, cluster, that it waits when it starts
/// early.
///
/// # Errors
/// What differs.
pub fn check_ptx(ptx: &str, kernel: &KernelInfo) -> Result<(), String> {
    let symbol = &kernel.symbol;
    let start = format!(".entry {symbol}(");
    let (_, rest) = ptx.split_once(&start).ok_or_else(|| format!("no kernel {symbol} was compiled"))?;
    let (head, _) = rest.split_once("\n{").ok_or_else(|| format!("{symbol} has no body"))?;
    let params: Vec<Declared> = head.lines().filter_map(declared).collect();
    let mut end = 0;
    let wanted = kernel.params.iter().map(|&param| {
        let at = crate::param::offset(end, param);
        end = at + param.size_bytes();
        (at, end, matches!(param, Param::F32 | Param::F64))
    });
    let wanted: Vec<_> = wanted.collect();
    let mut end = 0;
    let found = params.iter().map(|param| {
        let at = usize::next_multiple_of(end, param.align_bytes);
        end = at + param.size_bytes;
        (at, end, param.float)
    });
    let found: Vec<_> = found.collect();
    if found != wanted {
        return Err(format!("{symbol} has the parameters {params:?}, the catalogue says {:?}", kernel.params));
    }
    let triple = |name: &str| {
        let line = head.lines().find_map(|line| line.trim().strip_prefix(name))?;
        let mut numbers = line.split(',').filter_map(|n| n.trim().parse::<u32>().ok());
        Some([numbers.next()?, numbers.next().unwrap_or(1), numbers.next().unwrap_or(1)])
    };
    let threads = triple(".maxntid").or_else(|| triple(".reqntid")).map(|n| n.iter().product::<u32>());
    if threads != Some(kernel.threads()) {
        let said = kernel.threads();
        return Err(format!(
            "{symbol} is compiled for {threads:?} threads (__launch_bounds__), the catalogue says {said}"
        ));
    }
    let body = rest.split(".entry ").next().unwrap_or_default();
    // Code for earlier architectures has no such thing, and is started in turn.
    let early = ptx_sm(ptx).is_none_or(|sm| sm >= EARLY_SM);
    if kernel.starts_early && early && !body.contains("griddepcontrol.wait") {
        return Err(format!("{symbol} is to start early, and does not wait for the kernel before it"));
    }
    let cluster = triple(".reqnctapercluster").unwrap_or([1; 3]);
    if cluster != kernel.cluster {
        return Err(format!("{symbol} has clusters of {cluster:?}, the catalogue says {:?}", kernel.cluster));
    }
    Ok(())
}

/// The architecture that PTX is for.
fn ptx_sm(ptx: &str) -> Option<u32> {
    let line = ptx.lines().find_map(|line| line.trim().strip_prefix(".target sm_"))?;
    line.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// A parameter as PTX declares it.
#[derive(Clone, Copy, Debug)]
struct Declared {
    align_bytes: usize,
    size_bytes: usize,
    float: bool,
}

/// `.param .u64 name,` or `.param .align 64 .b8 name[128]`.
fn declared(line: &str) -> Option<Declared> {
    let mut words = line.trim().strip_prefix(".param")?.split_whitespace();
    let first = words.next()?;
    if first == ".align" {
        let align_bytes = words.next()?.parse().ok()?;
        let name = words.nth(1)?;
        let size_bytes = name.split_once('[')?.1.split(']').next()?.parse().ok()?;
        return Some(Declared { align_bytes, size_bytes, float: false });
    }
    let digits = first.trim_start_matches(|c: char| !c.is_ascii_digit());
    let size_bytes = digits.parse::<usize>().ok()? / 8;
    // Newer compilers write every pointer and integer as bits.
    Some(Declared { align_bytes: size_bytes, size_bytes, float: first.starts_with(".f") })
}

/// Reads what `ptxas -v` prints of one kernel.
///
/// # Errors
/// A warning that means serialised wgmma or the like (C75xx), a spill, local memory, or nothing readable.
pub fn usage(said: &str, kernel: &KernelInfo) -> Result<Usage, String> {
    let symbol = &kernel.symbol;
    if let Some(line) = said.lines().find(|line| line.contains("C75")) {
        return Err(format!("{symbol}: {line}"));
    }
    let before = |word: &str| {
        let line = said.lines().find(|line| line.contains(word))?;
        line.split(word).next()?.split_whitespace().last()?.parse::<u32>().ok()
    };
    let used = Usage {
        registers: before(" registers").ok_or_else(|| format!("{symbol}: the assembler said nothing of registers"))?,
        spilled_bytes: before(" bytes spill stores").unwrap_or(0) + before(" bytes spill loads").unwrap_or(0),
        stack_bytes: before(" bytes stack frame").unwrap_or(0),
        static_shared_bytes: before(" bytes smem").unwrap_or(0),
        dynamic_shared_bytes: kernel.dynamic_shared_bytes,
        tensor: BTreeMap::new(),
    };
    if used.spilled_bytes + used.stack_bytes > 0 {
        let Usage { registers, spilled_bytes, stack_bytes, .. } = used;
        return Err(format!(
            "{symbol} spills: {spilled_bytes} bytes spilled, {stack_bytes} bytes of local memory, {registers} registers"
        ));
    }
    Ok(used)
}

/// Counts the tensor instructions of a disassembly: by the name up to the first dot, or by the longer one that the kernel's own
/// has (`HGMMA.SP`).
///
/// # Errors
/// The kernel has none of those that it is there for, or touches local memory, or writes registers that wgmma still reads.
pub fn tensor_instructions(disassembly: &str, kernel: &KernelInfo) -> Result<BTreeMap<String, u32>, String> {
    let symbol = &kernel.symbol;
    let mut found = BTreeMap::new();
    for line in disassembly.lines() {
        // `/*0a30*/  @P0 HGMMA.64x256x16.F32 R24, ...`
        let Some((_, code)) = line.split_once("*/") else { continue };
        let Some(word) = code.split_whitespace().find(|word| !word.starts_with('@')) else { continue };
        let name = word.split('.').next().unwrap_or(word);
        if name == "LDL" || name == "STL" {
            return Err(format!("{symbol} uses local memory: {}", code.trim()));
        }
        if name.ends_with("MMA") {
            let is = |wanted: &&&str| word.strip_prefix(**wanted).is_some_and(|rest| rest.starts_with('.'));
            let name = kernel.tensor.iter().find(is).map_or(name, |wanted| wanted);
            *found.entry(name.to_owned()).or_default() += 1;
        }
    }
    if !kernel.tensor.is_empty() && !kernel.tensor.iter().any(|&name| found.contains_key(name)) {
        return Err(format!("{symbol} has no {}, only {found:?}", kernel.tensor.join(" and no ")));
    }
    in_flight::check(disassembly).map_err(|line| format!("{symbol} writes what wgmma still reads: {line}"))?;
    Ok(found)
}

/// What is kept of code: machine code as it is, PTX ended by a zero as the driver wants it.
pub fn stored(code: Vec<u8>, form: Form) -> Vec<u8> {
    match form {
        Form::Machine => code,
        Form::Ptx => code.into_iter().filter(|&byte| byte != 0).chain([0]).collect(),
    }
}

/// PTX as the interpreted driver's machine code (`testing/interpreted-driver`): it begins as an ELF file does, is none,
/// and ends in a zero. A real driver refuses it.
pub fn interpreted(ptx: &str) -> Vec<u8> {
    let text = ptx.bytes().filter(|&byte| byte != 0);
    b"\x7fELF: no machine code, PTX to be interpreted\n".iter().copied().chain(text).chain([0]).collect()
}

/// `f` of each item, on all processors, in order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(i)
                {
                    let result = f(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|&(i, _)| i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
#[path = "make_tests.rs"]
mod tests;
