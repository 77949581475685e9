//! What fuzzers call with a text or a module (`fuzz/`), and the tests with the corpora of them: whatever somebody's WGSL or SPIR-V says, the
//! answer is a module, a description, a text in another language or an error.

use naga::valid::Capabilities;
use polywarp_core::{Error, Kernel};

use crate::compiler::{Request, Target, compile};
use crate::wgsl::{parse_and_validate, read_kernel, reflect};

/// Bytes that a text may become for each of its own, beside [`LEAST_OUTPUT_BYTES`].
const MOST_GROWTH: usize = 4096;
/// What a text of any length may become.
const LEAST_OUTPUT_BYTES: usize = 4 << 20;

/// Reads `bytes` as WGSL, as a user's kernel, and compiles it to every language; whether it is valid.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Ok(source) = std::str::from_utf8(bytes) else { return false };
    let read = match parse_and_validate(source, Capabilities::all()) {
        Ok(read) => read,
        Err(error) => {
            explains(source, &error);
            return false;
        }
    };
    reflect(&read.0, &read.1);
    for capabilities in [Capabilities::empty(), Capabilities::all()] {
        if let Err(error) = read_kernel("fuzz", &Kernel::wgsl(source), capabilities) {
            explains(source, &error);
        }
    }
    for target in Target::ALL {
        match compile(&Request { source, target, entry: None, defines: &[], arch: None }) {
            Ok(output) => {
                let (bytes, most) = (output.bytes.len(), LEAST_OUTPUT_BYTES + MOST_GROWTH * source.len());
                assert!(bytes <= most, "{bytes} bytes of {target} from {}", source.len());
            }
            Err(error) => explains(source, &error),
        }
    }
    true
}

/// Reads `bytes` as SPIR-V, as a user's kernel, for devices that have every feature and none, in both orders of bytes, which mean the same;
/// whether it is valid.
pub fn fuzz_spirv(bytes: &[u8]) -> bool {
    let read = |bytes: &[u8], capabilities| {
        let read = read_kernel("fuzz", &Kernel::spirv(bytes), capabilities);
        read.map(|read| format!("{:?}", read.interface)).map_err(|error| {
            explains("", &error);
            error.to_string()
        })
    };
    read(bytes, Capabilities::empty()).ok();
    let found = read(bytes, Capabilities::all());
    if bytes.len().is_multiple_of(4) {
        let mut swapped = bytes.to_vec();
        swapped.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        assert_eq!(read(&swapped, Capabilities::all()), found);
    }
    found.is_ok()
}

/// An error is one line, and a place in it is one of the text.
fn explains(source: &str, error: &Error) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.contains('\n'), "{text:?}");
    if let Error::Shader { line, .. } = error {
        assert!(*line as usize <= source.matches('\n').count() + 1, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_shaders_is_compiled_or_refused() {
        let valid: Vec<bool> = corpus("wgsl").iter().map(|bytes| fuzz(bytes)).collect();
        assert!(valid.contains(&true) && valid.contains(&false), "{valid:?}");
    }

    #[test]
    fn corpus_of_modules_is_read_or_refused() {
        let valid: Vec<bool> = corpus("spirv").iter().map(|bytes| fuzz_spirv(bytes)).collect();
        assert!(valid.contains(&true) && valid.contains(&false), "{valid:?}");
    }

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let folder = format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
    }
}
