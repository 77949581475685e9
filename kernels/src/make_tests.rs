//! The archive belongs to the sources; and what compilers print is read right.

use super::*;
use crate::archive::{Archive, LastBlock};
use crate::prepared::{self, ARCHIVE};

const STALE: &str = "kernels/prepared is not made from these sources: run `cargo xtask kernels` and commit it";

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn manifest() -> Manifest {
    let text = std::fs::read_to_string(folder("prepared/manifest.json")).unwrap_or_else(|e| panic!("{STALE}: {e}"));
    Manifest::parse(&text).unwrap_or_else(|e| panic!("{STALE}: {e}"))
}

#[test]
fn manifest_agrees_with_the_sources() {
    let manifest = manifest();
    assert_eq!(manifest.compiler, COMPILER, "{STALE}");
    let mut lines = manifest.kernels.iter();
    for (kernel, target) in jobs() {
        let who = format!("{} for {target}", kernel.symbol);
        let line = lines.next().unwrap_or_else(|| panic!("{STALE} ({who} is missing)"));
        assert_eq!(
            (line.symbol.as_str(), line.target.as_str()),
            (kernel.symbol.as_str(), &*target.to_string()),
            "{STALE}"
        );
        assert_eq!(line.family, kernel.family, "{who}");
        let source = source_digest(kernel, target, &folder("cuda")).unwrap();
        assert_eq!(line.source, source, "{STALE} ({who})");
        match (&line.usage, target.form) {
            (Some(usage), Form::Machine) => {
                assert!((1..=255).contains(&usage.registers), "{who}: {usage:?}");
                assert_eq!((usage.spilled_bytes, usage.stack_bytes), (0, 0), "{who}");
                assert_eq!(usage.dynamic_shared_bytes, kernel.dynamic_shared_bytes, "{who}");
                let has = kernel.tensor.iter().any(|&name| usage.tensor.contains_key(name));
                assert!(has || kernel.tensor.is_empty(), "{who}: {usage:?}");
            }
            (None, Form::Ptx) => {}
            _ => panic!("{who}: {line:?}"),
        }
    }
    assert_eq!(lines.next(), None, "{STALE}");
}

#[test]
fn archive_is_what_the_manifest_says() {
    assert!(ARCHIVE.len() <= prepared::MOST_BYTES, "{} bytes", ARCHIVE.len());
    let archive = Archive::parse(ARCHIVE).unwrap();
    let manifest = manifest();
    // Block by block.
    let block = |&(kernel, target): &(&KernelInfo, Target)| {
        let number = archive.targets().position(|number| number == target.number())?;
        Some(archive.find(&prepared::digest(&kernel.symbol), number)?.block)
    };
    let (mut jobs, last): (Vec<_>, _) = (jobs().collect(), LastBlock::default());
    jobs.sort_by_key(block);
    for (kernel, target) in jobs {
        let who = format!("{} for {target}", kernel.symbol);
        let code =
            prepared::code(&archive, &last, kernel, target).unwrap().unwrap_or_else(|| panic!("{STALE} ({who})"));
        let line = manifest.line(&kernel.symbol, target).unwrap();
        assert_eq!((code.bytes.len(), code_digest(&code.bytes)), (line.code_bytes, line.code.clone()), "{who}");
        assert_eq!(code.target, target);
    }
    assert_eq!(archive.kernels(), kernels().len(), "{STALE}");
    for kernel in kernels() {
        for sm in [75, 80, 86, 89, 90, 100, 103, 120, 121] {
            assert_eq!(prepared::target(&archive, kernel, sm), kernel.target(sm), "{} on {sm}", kernel.symbol);
        }
    }
}

fn probe() -> KernelInfo {
    crate::find("probe_tensor_map").unwrap().clone()
}

const PTX: &str = "\
.visible .entry probe_tensor_map(
	.param .align 128 .b8 probe_tensor_map_param_0[128],
	.param .u64 probe_tensor_map_param_1,
	.param .u32 probe_tensor_map_param_2,
	.param .u32 probe_tensor_map_param_3
)
.maxntid 256, 1, 1
.explicitcluster
.reqnctapercluster 2, 1, 1
{
";

#[test]
fn check_ptx_holds_the_catalogue_to_the_code() {
    assert_eq!(check_ptx(PTX, &probe()), Ok(()));
    assert_eq!(check_ptx(&PTX.replace("u64", "b64").replace("u32", "b32"), &probe()), Ok(()));
    for (from, to) in [
        ("_map(", "_other("),
        (".u64", ".u32"),
        (".u32 probe_tensor_map_param_2", ".f32 probe_tensor_map_param_2"),
        ("\t.param .u32 probe_tensor_map_param_3", ""),
        ("[128]", "[64]"),
        ("256, 1, 1", "128, 1, 1"),
        (".maxntid 256, 1, 1", ""),
        (".reqnctapercluster 2, 1, 1", ""),
    ] {
        let changed = PTX.replacen(from, to, 1);
        assert!(changed != PTX && check_ptx(&changed, &probe()).is_err(), "{from}");
    }
}

#[test]
fn kernel_that_starts_early_must_wait() {
    let early = KernelInfo { starts_early: true, ..probe() };
    assert!(check_ptx(PTX, &early).is_err());
    assert_eq!(check_ptx(&format!("{PTX}griddepcontrol.wait;\n}}"), &early), Ok(()));
    // Another kernel's waiting is not its own.
    assert!(check_ptx(&format!("{PTX}}}\n.entry other(\n{{\ngriddepcontrol.wait;\n}}"), &early).is_err());
    let digest = |kernel| source_digest(kernel, Target::SM_90, &folder("cuda")).unwrap();
    assert_ne!(digest(&early), digest(&probe()));
}

const SAID: &str = "\
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 1040 bytes smem
";

#[test]
fn usage_reads_what_the_assembler_says_and_refuses_spills() {
    let read = usage(SAID, &probe()).unwrap();
    assert_eq!((read.registers, read.static_shared_bytes, read.spilled_bytes), (168, 1040, 0));
    let refused = |text: String| usage(&text, &probe()).unwrap_err();
    assert!(refused(SAID.replace("0 bytes spill stores", "8 bytes spill stores")).contains("spills"));
    assert!(refused(SAID.replace("0 bytes spill loads", "4 bytes spill loads")).contains("spills"));
    assert!(refused(SAID.replace("0 bytes stack", "24 bytes stack")).contains("spills"));
    let warning = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n";
    assert!(refused(format!("{warning}{SAID}")).contains("C7510"));
    assert!(refused(String::new()).contains("registers"));
}

const DISASSEMBLY: &str = "\
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 HGMMA.64x256x16.F32 R24, gdesc[UR4], RZ, !UPT ;
        /*0020*/                   HGMMA.64x256x16.F32 R24, gdesc[UR8], R24, gsb0 ;
        /*0030*/                   EXIT ;
";

#[test]
fn tensor_instructions_are_counted_and_missing_ones_refused() {
    let kernel = |tensor| KernelInfo { tensor, ..probe() };
    let found = tensor_instructions(DISASSEMBLY, &kernel(&["HGMMA"])).unwrap();
    assert_eq!(found, BTreeMap::from([("HGMMA".to_owned(), 2)]));
    assert!(tensor_instructions(DISASSEMBLY, &kernel(&[])).is_ok());
    assert!(tensor_instructions(DISASSEMBLY, &kernel(&["IMMA", "HGMMA"])).is_ok());
    assert!(tensor_instructions(DISASSEMBLY, &kernel(&["QGMMA"])).unwrap_err().contains("no QGMMA"));
    assert!(tensor_instructions(DISASSEMBLY, &kernel(&["HGMMA.SP"])).unwrap_err().contains("no HGMMA.SP"));
    let sparse = DISASSEMBLY.replace("HGMMA.", "HGMMA.SP.");
    let found = tensor_instructions(&sparse, &kernel(&["HGMMA.SP"])).unwrap();
    assert_eq!(found, BTreeMap::from([("HGMMA.SP".to_owned(), 2)]));
    assert_eq!(tensor_instructions(&sparse, &kernel(&["HGMMA"])).unwrap()["HGMMA"], 2);
    let local = DISASSEMBLY.replace("LDC R1", "STL [R1]");
    assert!(tensor_instructions(&local, &kernel(&["HGMMA"])).unwrap_err().contains("local memory"));
}

#[test]
fn source_digest_follows_every_included_file() {
    let folder = std::env::temp_dir().join(format!("polywarp-digest-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("ptx")).unwrap();
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    put("probe.cu", "#include \"ptx/a.cuh\"\n");
    put("ptx/a.cuh", "#include \"b.cuh\"\n");
    put("ptx/b.cuh", "#include \"ptx/a.cuh\"\n// b\n");
    let digest = |target| source_digest(&probe(), target, &folder).unwrap();
    let before = digest(Target::SM_90);
    assert_eq!(before, digest(Target::SM_90));
    assert_ne!(before, digest(Target::SM_90A));
    put("ptx/b.cuh", "#include \"ptx/a.cuh\"\n// c\n");
    assert_ne!(before, digest(Target::SM_90));
    std::fs::remove_file(folder.join("ptx/b.cuh")).unwrap();
    assert!(source_digest(&probe(), Target::SM_90, &folder).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
