//! The machine code of `kernels/`: compiling what is new, checking that what is committed is what comes out.
//!
//! ```text
//! cargo xtask kernels                      compile what is new, write kernels/prepared
//! cargo xtask kernels --only wgmma         the same for one family, or for symbols that contain the word; the rest stays
//! cargo xtask kernels --check [--only F]   compile again, compare, write nothing
//! cargo xtask kernels --check --sample     the same with one kernel of each family
//! cargo xtask kernels --to FOLDER [--lines] [--only F]   an archive elsewhere, for POLYWARP_KERNELS; with line numbers
//! cargo xtask kernels --to FOLDER --ptx[=80] [--only F]  an archive for the interpreted driver, as a card of 9.0 or 8.0
//! ```
//!
//! `F` may be several words with commas between them.
//!
//! What decides a kernel's code is its digest (`kernels/src/make.rs`): code of a known digest is taken from
//! `kernels/prepared` or from `target/kernels`, and only the rest is compiled, on all processors.

mod alike;
mod interpreted;
mod toolchain;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use polywarp_kernels::archive::{Archive, LastBlock, write};
use polywarp_kernels::make::{self, Line, Manifest, SOURCES};
use polywarp_kernels::{Form, KernelInfo, Target, prepared};

use crate::Result;
use toolchain::{Lines, Toolchain};

/// What is committed.
const PREPARED: &str = "kernels/prepared";
/// Where compiled code is kept between runs.
const CACHE: &str = "target/kernels";

/// What is asked for.
#[derive(Default)]
struct Request {
    only: Option<String>,
    check: bool,
    sample: bool,
    lines: bool,
    to: Option<PathBuf>,
    /// PTX for the interpreted driver, as a card of this compute capability.
    ptx: Option<u32>,
}

impl Request {
    fn parse(arguments: &[&str]) -> Result<Request> {
        let mut request = Request::default();
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            let mut value = || rest.next().map(|&value| value.to_owned()).ok_or(format!("{argument} wants a value"));
            match argument {
                "--only" => request.only = Some(value()?),
                "--to" => request.to = Some(value()?.into()),
                "--check" => request.check = true,
                "--sample" => request.sample = true,
                "--lines" => request.lines = true,
                "--ptx" => request.ptx = Some(interpreted::SM),
                _ if argument.starts_with("--ptx=") => {
                    let sm = argument["--ptx=".len()..].parse();
                    request.ptx = Some(sm.map_err(|_| format!("{argument}: a compute capability is 80, 89 or 90"))?);
                }
                _ => return Err(format!("`cargo xtask kernels` does not know {argument}")),
            }
        }
        let elsewhere = request.to.is_some();
        let text = request.ptx.is_some();
        if (request.check && elsewhere)
            || ((request.lines || text) && !elsewhere)
            || (request.sample && !request.check)
            || (request.lines && text)
        {
            let rules = "--check writes nothing, --lines or --ptx wants --to, --sample wants --check";
            return Err(rules.to_owned());
        }
        Ok(request)
    }

    fn wants(&self, kernel: &KernelInfo) -> bool {
        let wants = |only: &str| kernel.family == only || kernel.symbol.contains(only);
        self.only.as_deref().is_none_or(|only| only.split(',').any(wants))
    }
}

/// A kernel for a target, and what is known of its code.
struct Made {
    line: Line,
    code: Vec<u8>,
}

/// Does what `arguments` ask for.
pub fn run(arguments: &[&str]) -> Result {
    let request = Request::parse(arguments)?;
    let Some(toolchain) = Toolchain::fetch()? else {
        return if request.check { Ok(()) } else { Err("kernels are made on x86-64 Linux".to_owned()) };
    };
    match (&request.to, request.ptx) {
        (Some(folder), Some(sm)) => interpreted::make(&request, &toolchain, folder, sm),
        _ if request.check => check(&request, &toolchain),
        _ => make(&request, &toolchain),
    }
}

/// An archive for the interpreted driver with some kernels of each family, for `cargo xtask test`; `None` where there is no
/// compiler.
pub fn interpreted_sample() -> Result<Option<String>> {
    let Some(toolchain) = Toolchain::fetch()? else { return Ok(None) };
    let only = Some(interpreted::SAMPLE.join(","));
    let folder = Path::new(CACHE).join("interpreted");
    interpreted::make(&Request { only, ..Request::default() }, &toolchain, &folder, interpreted::SM)?;
    let archive = folder.join("kernels.bin").canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(Some(archive.display().to_string()))
}

fn make(request: &Request, toolchain: &Toolchain) -> Result {
    let folder = request.to.clone().unwrap_or_else(|| PREPARED.into());
    let lines = if request.lines { Lines::Kept } else { Lines::Dropped };
    let jobs: Vec<(&KernelInfo, Target)> = make::jobs().collect();
    // Compiling takes minutes, and goes to the cache; only what follows holds the lock.
    let committed = Committed::read();
    let compiled = AtomicUsize::new(0);
    let compile = |&(kernel, target): &(&KernelInfo, Target)| -> Result<Option<Made>> {
        if !request.wants(kernel) {
            return Ok(None);
        }
        let source = make::source_digest(kernel, target, Path::new(SOURCES))?;
        let known = committed.get(kernel, target).filter(|known| known.line.source == source);
        if let (Some(known), Lines::Dropped) = (known, lines) {
            return Ok(Some(known));
        }
        let (made, fresh) = cached(toolchain, kernel, target, &source, lines)?;
        compiled.fetch_add(usize::from(fresh), Ordering::Relaxed);
        Ok(Some(made))
    };
    let made = make::in_parallel(&jobs, compile);
    let failed: Vec<&str> = made.iter().filter_map(|made| made.as_ref().err()).map(String::as_str).collect();
    if !failed.is_empty() {
        return Err(format!("{} of {} kernels cannot be made:\n{}", failed.len(), jobs.len(), failed.join("\n")));
    }
    let _lock = lock()?;
    // What was not asked for stays as it was made last, be it by a run that ended meanwhile.
    let committed = Committed::read();
    let keep = |(made, &(kernel, target)): (Result<Option<Made>>, &(&KernelInfo, Target))| {
        made.unwrap_or_default().or_else(|| committed.get(kernel, target))
    };
    let made: Vec<Option<Made>> = made.into_iter().zip(&jobs).map(keep).collect();
    let absent = made.iter().filter(|made| made.is_none()).count();
    let total: usize = made.iter().flatten().map(|made| made.code.len()).sum();
    let archive = archive(&jobs, &made, 11);
    let manifest = Manifest {
        compiler: make::COMPILER.to_owned(),
        kernels: made.iter().flatten().map(|made| made.line.clone()).collect(),
    };
    write(&folder.join("kernels.bin"), &archive)?;
    write(&folder.join("manifest.json"), manifest.text().as_bytes())?;
    let compiled = compiled.into_inner();
    println!(
        "{} kernels in {}: {compiled} compiled, {} taken over; {total} bytes of code, {} packed",
        manifest.kernels.len(),
        folder.display(),
        manifest.kernels.len() - compiled,
        archive.len()
    );
    if absent > 0 {
        println!("{absent} of the catalogue are not in it: run `cargo xtask kernels` without --only");
    }
    if archive.len() > prepared::MOST_BYTES {
        return Err(format!("{} bytes are more than the {} that are allowed", archive.len(), prepared::MOST_BYTES));
    }
    Ok(())
}

/// Compiles again, without the cache, and compares with what is committed.
fn check(request: &Request, toolchain: &Toolchain) -> Result {
    let committed = Committed::read();
    let mut jobs: Vec<(&KernelInfo, Target)> = make::jobs().filter(|(kernel, _)| request.wants(kernel)).collect();
    if request.sample {
        jobs.dedup_by_key(|(kernel, _)| kernel.family);
    }
    if jobs.is_empty() {
        return Err("no such kernel".to_owned());
    }
    let wrong = make::in_parallel(&jobs, |&(kernel, target)| {
        let who = format!("{} for {target}", kernel.symbol);
        let known = committed.get(kernel, target).ok_or(format!("{who} is not in {PREPARED}"))?;
        let source = make::source_digest(kernel, target, Path::new(SOURCES))?;
        let again = compile(toolchain, kernel, target, &source, Lines::Dropped)?;
        let same = again.line == known.line && again.code == known.code;
        if same { Ok(()) } else { Err(format!("{who}: committed {:?}, made again {:?}", known.line, again.line)) }
    });
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    println!("{} kernels compiled again, {} as committed", jobs.len(), jobs.len() - wrong.len());
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{PREPARED} is not what its sources give: run `cargo xtask kernels`\n{}", wrong.join("\n")))
    }
}

/// What is committed, as far as it can be read.
struct Committed {
    bytes: Vec<u8>,
    manifest: Option<Manifest>,
    last: LastBlock,
}

impl Committed {
    fn read() -> Committed {
        let folder = Path::new(PREPARED);
        let bytes = fs::read(folder.join("kernels.bin")).unwrap_or_default();
        let manifest = fs::read_to_string(folder.join("manifest.json")).ok();
        let manifest = manifest.and_then(|text| Manifest::parse(&text).ok());
        Committed {
            bytes,
            manifest: manifest.filter(|manifest| manifest.compiler == make::COMPILER),
            last: LastBlock::default(),
        }
    }

    /// A kernel whose code is the one that its line tells of.
    fn get(&self, kernel: &KernelInfo, target: Target) -> Option<Made> {
        let line = self.manifest.as_ref()?.line(&kernel.symbol, target)?.clone();
        let code = prepared::code(&Archive::parse(&self.bytes).ok()?, &self.last, kernel, target).ok()??.bytes;
        (make::code_digest(&code) == line.code).then_some(Made { line, code })
    }
}

/// The kernel from the cache, or compiled and put there; whether it was compiled.
fn cached(
    toolchain: &Toolchain,
    kernel: &KernelInfo,
    target: Target,
    source: &str,
    lines: Lines,
) -> Result<(Made, bool)> {
    let name = format!("{source}{}", if lines == Lines::Kept { "-lines" } else { "" });
    let (code, line) = (Path::new(CACHE).join(format!("{name}.code")), Path::new(CACHE).join(format!("{name}.json")));
    let known = fs::read_to_string(&line).ok().and_then(|text| Manifest::parse(&text).ok());
    if let (Ok(code), Some(line)) = (fs::read(&code), known.and_then(|mut manifest| manifest.kernels.pop()))
        && make::code_digest(&code) == line.code
    {
        // What the catalogue says may have changed where the code did not.
        let mut line = Line { family: kernel.family.to_owned(), ..line };
        if let Some(usage) = &mut line.usage {
            usage.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
        }
        return Ok((Made { line, code }, false));
    }
    let made = compile(toolchain, kernel, target, source, lines)?;
    if make::source_digest(kernel, target, Path::new(SOURCES))? != source {
        return Err(format!("{}: its sources changed while it was compiled; run this again", kernel.symbol));
    }
    let manifest = Manifest { compiler: make::COMPILER.to_owned(), kernels: vec![made.line.clone()] };
    write(&code, &made.code)?;
    write(&line, manifest.text().as_bytes())?;
    Ok((made, true))
}

/// Compiles, and demands what the catalogue promises.
fn compile(toolchain: &Toolchain, kernel: &KernelInfo, target: Target, source: &str, lines: Lines) -> Result<Made> {
    let words = |error: String| format!("{} for {target}: {error}", kernel.symbol);
    let base = Path::new(CACHE).join(format!("{source}-{}", std::process::id()));
    let [unit, ptx, cubin] = ["cu", "ptx", "cubin"].map(|extension| base.with_extension(extension));
    let started = Instant::now();
    write(&unit, make::translation_unit(kernel).as_bytes())?;
    toolchain.compile(&unit, target, lines, &ptx).map_err(words)?;
    let text = fs::read_to_string(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?;
    make::check_ptx(&text, kernel).map_err(words)?;
    let (code, usage) = match target.form {
        Form::Ptx => (text.into_bytes(), None),
        Form::Machine => {
            let said = toolchain.assemble(&ptx, target, lines, &cubin).map_err(words)?;
            let mut usage = make::usage(&said, kernel).map_err(words)?;
            usage.tensor = make::tensor_instructions(&toolchain.disassemble(&cubin)?, kernel).map_err(words)?;
            let (seconds, registers) = (started.elapsed().as_secs_f64(), usage.registers);
            println!("{} for {target}: {registers} registers, {:?}, {seconds:.1} s", kernel.symbol, usage.tensor);
            (fs::read(&cubin).map_err(|e| format!("{}: {e}", cubin.display()))?, Some(usage))
        }
    };
    for file in [unit, ptx, cubin] {
        let _ = fs::remove_file(file); // what a failure left is there to be looked at
    }
    let code = make::stored(code, target.form);
    let line = Line {
        symbol: kernel.symbol.clone(),
        family: kernel.family.to_owned(),
        target: target.to_string(),
        source: source.to_owned(),
        code: make::code_digest(&code),
        code_bytes: code.len(),
        usage,
    };
    Ok(Made { line, code })
}

/// The archive of all that was made; `made` belongs to `jobs` one by one, and `quality` is Brotli's.
fn archive(jobs: &[(&KernelInfo, Target)], made: &[Option<Made>], quality: i32) -> Vec<u8> {
    let with_code = jobs.iter().zip(made).filter(|(_, made)| made.is_some());
    let mut targets: Vec<u32> = with_code.map(|((_, target), _)| target.number()).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut order: Vec<&str> = jobs.iter().map(|(kernel, _)| kernel.symbol.as_str()).collect();
    order.dedup();
    let mut entries: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for ((kernel, target), made) in jobs.iter().zip(made) {
        let of = entries.entry(&kernel.symbol).or_insert_with(|| vec![Vec::new(); targets.len()]);
        if let (Some(made), Ok(at)) = (made, targets.binary_search(&target.number())) {
            of[at] = made.code.clone();
        }
    }
    let kernel = |&symbol: &&str| {
        let entries = entries.remove(symbol).filter(|entries| entries.iter().any(|code| !code.is_empty()))?;
        Some(write::Kernel { digest: prepared::digest(symbol), entries })
    };
    let kernels: Vec<write::Kernel> = order.iter().filter_map(kernel).collect();
    let codes: Vec<&[Vec<u8>]> = kernels.iter().map(|kernel| kernel.entries.as_slice()).collect();
    let order = alike::order(&codes);
    let mut kernels: Vec<Option<write::Kernel>> = kernels.into_iter().map(Some).collect();
    let kernels: Vec<write::Kernel> = order.into_iter().filter_map(|i| kernels[i].take()).collect();
    write::archive(&targets, &kernels, quality)
}

/// Held while the archive is put together: two runs at once would lose each other's kernels. Given back when dropped.
fn lock() -> Result<fs::File> {
    let words = |e: std::io::Error| format!("{CACHE}: {e}");
    fs::create_dir_all(CACHE).map_err(words)?;
    let file = fs::File::create(Path::new(CACHE).join("lock")).map_err(words)?;
    file.lock().map_err(words)?;
    Ok(file)
}

/// Writes a file in one step, so that nobody reads half of it.
fn write(path: &Path, bytes: &[u8]) -> Result {
    let folder = path.parent().unwrap_or(Path::new("."));
    let words = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(folder).map_err(words)?;
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path)).map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_contradict_themselves_are_refused() {
        for good in [
            &["--only", "wgmma"][..],
            &["--check", "--sample"],
            &["--to", "x", "--lines"],
            &["--to", "x", "--ptx=80"],
            &[],
        ] {
            assert!(Request::parse(good).is_ok(), "{good:?}");
        }
        let unknown = [&["--only"][..], &["wgmma"], &["--to", "x", "--ptx=nine"]];
        for bad in [&["--check", "--to", "x"][..], &["--lines"], &["--ptx"], &["--sample"]].into_iter().chain(unknown) {
            assert!(Request::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn archive_keeps_every_kernel_where_it_belongs() {
        let jobs: Vec<(&KernelInfo, Target)> = make::jobs().collect();
        let made: Vec<Option<Made>> = jobs
            .iter()
            .enumerate()
            .map(|(i, (kernel, target))| {
                let mut code = if target.form == Form::Machine { b"\x7fELF".to_vec() } else { b"//".to_vec() };
                code.extend([(i % 250 + 1) as u8, 0]);
                let (symbol, family) = (kernel.symbol.clone(), kernel.family.to_owned());
                let (target, source) = (target.to_string(), String::new());
                let line = Line { symbol, family, target, source, code: String::new(), code_bytes: 0, usage: None };
                (i != 1).then_some(Made { line, code })
            })
            .collect();
        let bytes = archive(&jobs, &made, 1);
        let archive = Archive::parse(&bytes).unwrap();
        for ((kernel, target), made) in jobs.iter().zip(&made) {
            let code = prepared::code(&archive, &LastBlock::default(), kernel, *target).unwrap().map(|code| code.bytes);
            assert_eq!(code, made.as_ref().map(|made| made.code.clone()), "{} for {target}", kernel.symbol);
        }
    }
}
