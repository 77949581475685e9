//! Makes the archive of prepared kernels, and proves that the one that is committed is what would be made today.
//!
//! WGSL to PTX needs nothing but this repository: every run of the tests compiles all kernels again and compares with
//! `prepared/manifest.json`. PTX to machine code needs `ptxas`: where there is one (`PTXAS`, or on the path), a sample is
//! assembled again and compared bit for bit. `cargo xtask prepare` runs the one that writes; it assembles only what is
//! new since the last time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use naga_ptx::Target;
use polywarp_core::plan::Source;
use polywarp_kernels::archive::{self, Archive, KernelDigest};
use polywarp_kernels::make::{hex, in_parallel};
use polywarp_shaders::wgsl::{guarded, parse_and_validate};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Prepared, digest, everyday};
use crate::cache::Entry;
use crate::native::Card;
use crate::options::{CAPABILITIES, own_options};
use crate::params::Metadata;

/// Machine code is made for each; `runs_on` says which cards take which.
const TARGETS: [Target; 5] =
    [Target::new(7, 5), Target::new(8, 0), Target::new(9, 0), Target::new(10, 0), Target::new(12, 0)];
/// Most bytes of the archive: it is in the repository and in every binary.
const MOST_BYTES: usize = 9 << 19;
/// Of so many kernels one is in the sample.
const SAMPLED: usize = 24;
const STALE: &str = "the prepared kernels are not those of today's compiler: run `cargo xtask prepare` and commit \
                     backend-cuda/prepared";

/// What the archive was made from.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// Version of `ptxas`.
    assembler: String,
    targets: Vec<u32>,
    kernels: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    name: String,
    /// Of the WGSL, with how it is compiled.
    wgsl: String,
    /// Of the PTX for all targets.
    ptx: String,
}

/// A kernel as PTX.
struct Compiled {
    digest: KernelDigest,
    line: Line,
    /// Text and layout of parameters per target.
    texts: Vec<(String, Metadata)>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("prepared")
}

/// All kernels, similar ones side by side.
pub(super) fn sources() -> Vec<Source> {
    // What CUDA promises of every card (programming guide, "Technical Specifications per Compute Capability").
    let card = Card {
        compute_capability: (9, 0),
        multiprocessors: 1,
        max_threads_per_block: 1024,
        max_block: [1024, 1024, 64],
        max_grid: [i32::MAX as u32, 65_535, 65_535],
        max_shared_bytes: 48 << 10,
        ..Card::default()
    };
    let mut sources = everyday::sources(&crate::info::caps("cuda", &card)).unwrap();
    sources.sort_by_cached_key(|source| {
        let dtypes = ["bf16", "f16", "f32", "f64", "i32", "u32", "i8", "u8", "bool"];
        let words = source.name.split('_').filter(|word| !dtypes.contains(word));
        (words.collect::<Vec<_>>().join("_"), source.name.clone(), digest(&source.wgsl))
    });
    sources
}

fn compile(source: &Source) -> Compiled {
    let fails = |error: &dyn std::fmt::Display| -> ! { panic!("{}: {error}", source.name) };
    let (module, info) = parse_and_validate(&source.wgsl, CAPABILITIES).unwrap_or_else(|error| fails(&error));
    let mut hasher = Sha256::new();
    let texts = TARGETS.map(|target| {
        let compiled = guarded(|| Ok(naga_ptx::compile(&module, &info, &own_options(target)))).unwrap();
        let ptx = compiled.unwrap_or_else(|error| fails(&error));
        hasher.update((ptx.text.len() as u64).to_le_bytes());
        hasher.update(&ptx.text);
        (ptx.text, Metadata::of(&ptx.entry_points[0]).unwrap())
    });
    let digest = digest(&source.wgsl);
    let line = Line { name: source.name.clone(), wgsl: hex(&digest), ptx: hex(&hasher.finalize()[..16]) };
    Compiled { digest, line, texts: texts.into() }
}

fn compiled() -> Vec<Compiled> {
    in_parallel(&sources(), compile)
}

fn manifest() -> Result<Manifest, String> {
    let text = std::fs::read_to_string(folder().join("manifest.json")).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// One kernel a line, so that a change of one is a change of one line.
fn manifest_text(manifest: &Manifest) -> String {
    let lines: Vec<String> = manifest.kernels.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
    let (assembler, targets) = (&manifest.assembler, &manifest.targets);
    format!(
        "{{\n\"assembler\": {assembler:?},\n\"targets\": {targets:?},\n\"kernels\": [\n{}\n]\n}}\n",
        lines.join(",\n")
    )
}

/// NVIDIA's assembler with its version.
struct Assembler {
    path: PathBuf,
    version: String,
    folder: PathBuf,
    used: AtomicUsize,
}

impl Assembler {
    fn find() -> Option<Assembler> {
        let path = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
        let output = Command::new(&path).arg("--version").output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find(|line| line.contains("release"))?.to_owned();
        let folder = std::env::temp_dir().join(format!("polywarp-prepare-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Some(Assembler { path, version, folder, used: AtomicUsize::new(0) })
    }

    fn assemble(&self, text: &str, target: Target) -> Vec<u8> {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let at = |extension: &str| self.folder.join(format!("{number}.{extension}"));
        let (input, output) = (at("ptx"), at("cubin"));
        std::fs::write(&input, text).unwrap();
        let arguments = ["--gpu-name", &target.to_string(), "-o"];
        let result = Command::new(&self.path).args(arguments).args([&output, &input]).output().unwrap();
        assert!(result.status.success(), "{}\n{text}", String::from_utf8_lossy(&result.stderr));
        let cubin = std::fs::read(&output).unwrap();
        assert!(cubin.starts_with(b"\x7fELF"));
        [input, output].iter().for_each(|file| std::fs::remove_file(file).unwrap());
        cubin
    }
}

impl Drop for Assembler {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder); // empty, or a failed test's
    }
}

/// A kernel's bytes in the archive. Spaces behind the metadata put every instruction at a multiple of eight bytes: the archive is
/// a hundredth smaller.
fn stored(metadata: &Metadata, cubin: &[u8]) -> Vec<u8> {
    let mut metadata = serde_json::to_vec(metadata).unwrap();
    metadata.resize((4 + metadata.len()).next_multiple_of(8) - 4, b' ');
    [&(metadata.len() as u32).to_le_bytes()[..], &metadata, cubin].concat()
}

/// Every kernel of `archive`, by digest and target.
fn unpacked(archive: &Archive<'_>, wanted: &[Compiled]) -> HashMap<(KernelDigest, usize), Entry> {
    let (mut blocks, mut entries) = (HashMap::new(), HashMap::new());
    for kernel in wanted {
        for target in 0..TARGETS.len() {
            let Some(place) = archive.find(&kernel.digest, target) else { continue };
            let block: &Vec<u8> =
                blocks.entry(place.block).or_insert_with(|| archive.unpack(place.block).unwrap_or_default());
            if let Ok(entry) = archive::kernel(block, place).and_then(super::entry) {
                entries.insert((kernel.digest, target), entry);
            }
        }
    }
    entries
}

#[test]
fn archive_is_what_this_compiler_makes() {
    let manifest = manifest().unwrap_or_else(|error| panic!("{STALE} (manifest.json: {error})"));
    assert_eq!(manifest.targets, TARGETS.map(Target::sm), "{STALE}");
    let kernels = compiled();
    let lines: HashMap<&str, &Line> = manifest.kernels.iter().map(|line| (line.wgsl.as_str(), line)).collect();
    let differs = |kernel: &&Compiled| lines.get(kernel.line.wgsl.as_str()) != Some(&&kernel.line);
    let stale: Vec<&str> = kernels.iter().filter(differs).map(|kernel| kernel.line.name.as_str()).collect();
    let (count, first) = (stale.len(), &stale[..stale.len().min(5)]);
    assert!(stale.is_empty(), "{STALE} ({count} of {} differ, such as {first:?})", kernels.len());
    assert_eq!(manifest.kernels.len(), kernels.len(), "{STALE}");

    assert!(super::ARCHIVE.len() <= MOST_BYTES, "{} bytes", super::ARCHIVE.len());
    let archive = Archive::parse(super::ARCHIVE).unwrap();
    assert_eq!(archive.targets().collect::<Vec<_>>(), manifest.targets);
    assert_eq!(archive.kernels(), kernels.len());
    let entries = unpacked(&archive, &kernels);
    for kernel in &kernels {
        for (target, (_, metadata)) in kernel.texts.iter().enumerate() {
            let entry = entries.get(&(kernel.digest, target)).unwrap_or_else(|| panic!("{}", kernel.line.name));
            assert_eq!(entry.metadata, *metadata, "{}", kernel.line.name);
            assert!(entry.cubin.starts_with(b"\x7fELF"), "{}", kernel.line.name);
        }
    }
}

#[test]
fn a_sample_assembles_to_the_same_code() {
    let required = std::env::var_os("POLYWARP_REQUIRE_PTXAS").is_some();
    let Some(assembler) = Assembler::find() else {
        assert!(!required, "ptxas is required and not found");
        eprintln!("NOT RUN: no ptxas; set PTXAS to its path");
        return;
    };
    let manifest = manifest().unwrap();
    if manifest.assembler != assembler.version {
        assert!(!required, "{STALE}: it was made with {}, this is {}", manifest.assembler, assembler.version);
        eprintln!("NOT RUN: the archive was made with {}, this is {}", manifest.assembler, assembler.version);
        return;
    }
    let sources: Vec<Source> = sources().into_iter().step_by(SAMPLED).collect();
    let kernels = in_parallel(&sources, compile);
    assert!(kernels.len() > 5);
    let entries = unpacked(&Archive::parse(super::ARCHIVE).unwrap(), &kernels);
    let jobs: Vec<(usize, usize)> = (0..kernels.len()).flat_map(|i| [(i, i % TARGETS.len()), (i, 2)]).collect();
    let same = in_parallel(&jobs, |&(kernel, target)| {
        let kernel = &kernels[kernel];
        let cubin = assembler.assemble(&kernel.texts[target].0, TARGETS[target]);
        entries.get(&(kernel.digest, target)).is_some_and(|entry| entry.cubin == cubin)
    });
    for (&(kernel, target), same) in jobs.iter().zip(same) {
        assert!(same, "{STALE} ({} for {})", kernels[kernel].line.name, TARGETS[target]);
    }
}

#[test]
#[ignore = "writes the archive: run by `cargo xtask prepare`"]
fn prepare() {
    let assembler = Assembler::find().expect("ptxas is needed: set PTXAS to its path");
    let kernels = compiled();
    println!("{} kernels compiled to PTX for {} targets", kernels.len(), TARGETS.len());

    // What has the same PTX and was assembled by the same program is taken over.
    let before = manifest().ok().filter(|manifest| manifest.assembler == assembler.version);
    let before: HashMap<String, Line> =
        before.into_iter().flat_map(|manifest| manifest.kernels).map(|line| (line.wgsl.clone(), line)).collect();
    let file = std::fs::read(folder().join("kernels.bin")).unwrap_or_default();
    let known = Archive::parse(&file).ok().filter(|archive| archive.targets().eq(TARGETS.map(Target::sm)));
    let known = known.map(|archive| unpacked(&archive, &kernels)).unwrap_or_default();
    let reused = AtomicUsize::new(0);
    let jobs: Vec<(usize, usize)> = (0..kernels.len()).flat_map(|i| (0..TARGETS.len()).map(move |t| (i, t))).collect();
    let cubins = in_parallel(&jobs, |&(i, target)| {
        let kernel = &kernels[i];
        if before.get(&kernel.line.wgsl) == Some(&kernel.line)
            && let Some(entry) = known.get(&(kernel.digest, target))
        {
            reused.fetch_add(1, Ordering::Relaxed);
            return entry.cubin.clone();
        }
        assembler.assemble(&kernel.texts[target].0, TARGETS[target])
    });
    let reused = reused.into_inner();
    println!("{} assembled, {reused} taken over", cubins.len() - reused);

    let raw: usize = cubins.iter().map(Vec::len).sum();
    let mut cubins = cubins.into_iter();
    let packed: Vec<archive::write::Kernel> = kernels
        .iter()
        .map(|kernel| archive::write::Kernel {
            digest: kernel.digest,
            entries: kernel
                .texts
                .iter()
                .zip(cubins.by_ref())
                .map(|((_, metadata), cubin)| stored(metadata, &cubin))
                .collect(),
        })
        .collect();
    let bytes = archive::write::archive(&TARGETS.map(Target::sm), &packed, 11);
    println!("{} bytes of machine code in an archive of {}", raw, bytes.len());
    let size = bytes.len();
    let lines = kernels.into_iter().map(|kernel| kernel.line).collect();
    let manifest =
        Manifest { assembler: assembler.version.clone(), targets: TARGETS.map(Target::sm).into(), kernels: lines };
    std::fs::write(folder().join("kernels.bin"), bytes).unwrap();
    std::fs::write(folder().join("manifest.json"), manifest_text(&manifest)).unwrap();
    assert!(size <= MOST_BYTES, "{size} bytes are too many: prepare fewer kernels");
}

#[test]
#[ignore = "measures: run it in release with --nocapture"]
fn what_a_prepared_kernel_saves() {
    let clock = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    let open = clock(&mut || assert!(Archive::parse(super::ARCHIVE).is_ok()));
    println!("opening the archive: {open:.3} ms; per kernel, ms:");
    println!("{:>8} {:>8} {:>8} {:>8} {:>8}  kernel", "WGSL KiB", "prepared", "parse", "compile", "PTX KiB");
    let (mut gains, mut shown) = (Vec::new(), "");
    let sources = sources();
    for source in &sources {
        let prepared = Prepared::new(Target::new(9, 0));
        let find = clock(&mut || assert!(prepared.get(&source.wgsl).is_some()));
        let mut parsed = None;
        let parse = clock(&mut || parsed = parse_and_validate(&source.wgsl, CAPABILITIES).ok());
        let (module, info) = parsed.unwrap();
        let mut ptx = None;
        let options = own_options(Target::new(9, 0));
        let compile = clock(&mut || ptx = guarded(|| Ok(naga_ptx::compile(&module, &info, &options))).ok());
        let bytes = ptx.unwrap().unwrap().text.len() as f64;
        gains.push(parse + compile - find);
        let stem = source.name.split('_').next().unwrap_or_default();
        if stem != shown || source.name == "matmul_f32_128x128x16" {
            shown = stem;
            let (text, kib) = (source.wgsl.len() as f64 / 1024.0, bytes / 1024.0);
            println!("{text:>8.1} {find:>8.3} {parse:>8.3} {compile:>8.3} {kib:>8.1}  {}", source.name);
        }
    }
    gains.sort_by(f64::total_cmp);
    let total: f64 = gains.iter().sum();
    println!(
        "saved before the driver's assembler: median {:.3} ms, all {} kernels {total:.0} ms",
        gains[gains.len() / 2],
        gains.len()
    );
    assert!(gains[gains.len() / 2] > 0.0);
}
