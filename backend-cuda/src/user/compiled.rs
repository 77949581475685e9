//! What NVRTC makes of a source, kept on disk beside the kernels (`cache.rs`, whose rules hold here too): a process that has compiled it before
//! only loads it.
//!
//! The key has all that the result depends on: source, entry point, macros, and what NVRTC says of itself for this card. Of files that a
//! source includes nothing is known, so such a source is compiled each time. What is read is machine code and PTX, which are checked
//! as a user's are, whoever wrote them.

use polywarp_core::Result;

use crate::cache::{DiskCache, Key, Kind};
use crate::native::Compiled;

const KIND: Kind = Kind { magic: b"pwnvrtc1", suffix: "nvrtc" };

/// Words of the language by which a text depends on more than itself.
const OUTWARD: [&str; 5] = ["include", "embed", "__DATE__", "__TIME__", "__TIMESTAMP__"];

/// What `compile` makes of `source`, with `entry` and `defines`, or made of it before: an NVRTC that says of itself `nvrtc`.
///
/// # Errors
/// Those of `compile`.
pub(crate) fn kept(
    disk: &DiskCache,
    nvrtc: &str,
    (source, entry, defines): (&str, Option<&str>, &[String]),
    compile: impl FnOnce() -> Result<Compiled>,
) -> Result<Compiled> {
    if depends_on_more(source) || defines.iter().any(|define| depends_on_more(define)) {
        return compile();
    }
    let key = key(nvrtc, source, entry, defines);
    if let Some(compiled) = disk.get_of(&KIND, &key, decode) {
        return Ok(compiled);
    }
    let compiled = compile()?;
    disk.put_of(&KIND, &key, || encode(&compiled));
    Ok(compiled)
}

fn key(nvrtc: &str, source: &str, entry: Option<&str>, defines: &[String]) -> Key {
    let mut parts = vec!["CUDA C++", nvrtc, source, if entry.is_some() { "entry" } else { "" }, entry.unwrap_or("")];
    parts.extend(defines.iter().map(String::as_str));
    Key::of(&parts)
}

/// Whether `text` may mean another thing tomorrow. Lines that a backslash joins are read as one.
fn depends_on_more(text: &str) -> bool {
    let mut joined = String::with_capacity(text.len());
    let mut parts = text.split('\\');
    joined.extend(parts.next());
    parts.for_each(|part| joined.push_str(part.trim_start()));
    OUTWARD.iter().any(|word| joined.contains(word))
}

/// Entry point, PTX, machine code, each behind its length; of what is absent the length is 0.
fn encode(compiled: &Compiled) -> Vec<u8> {
    let Compiled { ptx, cubin, entry } = compiled;
    let parts = [entry.as_deref().unwrap_or("").as_bytes(), ptx.as_bytes(), cubin.as_deref().unwrap_or(&[])];
    parts.iter().flat_map(|part| [&(part.len() as u64).to_le_bytes(), *part].concat()).collect()
}

fn decode(mut payload: &[u8]) -> std::result::Result<Compiled, &'static str> {
    let mut part = || {
        let (length, rest) = payload.split_first_chunk::<8>().ok_or("it is cut short")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| "it is cut short")?;
        let (part, rest) = rest.split_at_checked(length).ok_or("it is cut short")?;
        payload = rest;
        Ok::<_, &'static str>(part.to_vec())
    };
    let (entry, ptx, cubin) = (part()?, part()?, part()?);
    if !payload.is_empty() {
        return Err("its length is wrong");
    }
    let text = |bytes| String::from_utf8(bytes).map_err(|_| "its text cannot be read");
    let entry = text(entry)?;
    Ok(Compiled {
        ptx: text(ptx)?,
        cubin: Some(cubin).filter(|code| !code.is_empty()),
        entry: Some(entry).filter(|name| !name.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::PathBuf;

    use super::*;

    const SOURCE: &str = "extern \"C\" __global__ void f(float *x) { x[0] = N; }";

    fn result() -> Compiled {
        Compiled { ptx: ".version 8.0".to_owned(), cubin: Some(vec![127, 69, 76, 70]), entry: Some("f".to_owned()) }
    }

    /// A cache in a folder of one test, which is gone afterwards.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("polywarp-nvrtc-test-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            Folder(path)
        }

        fn file(&self) -> PathBuf {
            let mut files = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
            let file = files.next().unwrap();
            assert!(files.next().is_none() && file.extension().is_some_and(|suffix| suffix == "nvrtc"), "{file:?}");
            file
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_source_is_compiled_once_and_again_where_its_file_is_not_sound() {
        let (folder, compilations) = (Folder::new("once"), Cell::new(0));
        let compiled = |source| {
            let compile = || {
                compilations.set(compilations.get() + 1);
                Ok(result())
            };
            // Opened anew each time, as another process would.
            kept(&DiskCache::at(folder.0.clone()), "NVRTC 13.0", (source, Some("f"), &["N=1".to_owned()]), compile)
                .unwrap()
        };
        assert_eq!((compiled(SOURCE), compilations.get()), (result(), 1));
        assert_eq!((compiled(SOURCE), compilations.get()), (result(), 1));
        let whole = std::fs::read(folder.file()).unwrap();
        for at in [0, 20, 60, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(folder.file(), damaged).unwrap();
            let before = compilations.get();
            assert_eq!((compiled(SOURCE), compilations.get()), (result(), before + 1), "byte {at}");
            assert_eq!(std::fs::read(folder.file()).unwrap(), whole, "it is not written anew");
        }
        let before = compilations.get();
        (0..2).for_each(|_| drop(compiled("#include <cuda_fp16.h>")));
        assert_eq!(compilations.get(), before + 2, "what it includes may change");
        assert_eq!(std::fs::read(folder.file()).unwrap(), whole);
    }

    #[test]
    fn nothing_is_kept_without_a_folder_and_no_failure() {
        let off = DiskCache::default();
        let kept = |compile: &dyn Fn() -> Result<Compiled>| kept(&off, "", (SOURCE, None, &[]), compile);
        assert_eq!(kept(&|| Ok(result())).unwrap(), result());
        let failed = || Err(polywarp_core::Error::Shader { line: 3, column: 0, message: "no".to_owned() });
        assert!(kept(&failed).is_err());
        let folder = Folder::new("failure");
        let disk = DiskCache::at(folder.0.clone());
        assert!(super::kept(&disk, "", (SOURCE, None, &[]), failed).is_err());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let defines = |all: &[&str]| all.iter().map(|&define| define.to_owned()).collect::<Vec<_>>();
        let keys = [
            key("NVRTC 13.0", SOURCE, None, &defines(&["N=1"])),
            key("NVRTC 13.1", SOURCE, None, &defines(&["N=1"])),
            key("NVRTC 13.0", "", None, &defines(&["N=1"])),
            key("NVRTC 13.0", SOURCE, Some(""), &defines(&["N=1"])),
            key("NVRTC 13.0", SOURCE, Some("f"), &defines(&["N=1"])),
            key("NVRTC 13.0", SOURCE, None, &defines(&["N=2"])),
            key("NVRTC 13.0", SOURCE, None, &defines(&["N=1", "M"])),
            key("NVRTC 13.0", SOURCE, None, &[]),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(!keys[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn a_text_that_reads_files_is_known_however_it_is_written() {
        for text in [
            "#include <a>",
            "# \t include \"a\"",
            "%:include <a>",
            "#inc\\\nlude <a>",
            "#inc\\ \r\nlude <a>",
            "__has_include(<a>)",
        ] {
            assert!(depends_on_more(text), "{text}");
        }
        assert!(!depends_on_more(SOURCE));
    }

    #[test]
    fn a_payload_is_read_whole_or_not_at_all() {
        for compiled in [result(), Compiled { cubin: None, entry: None, ..result() }] {
            let payload = encode(&compiled);
            assert_eq!(decode(&payload).unwrap(), compiled);
            assert!((0..payload.len()).all(|length| decode(&payload[..length]).is_err()));
            assert!(decode(&[payload.as_slice(), &[0]].concat()).is_err());
        }
        assert!(decode(&[0xff; 32]).is_err());
    }
}
