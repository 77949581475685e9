//! The shaders of `tests/in` and how they are compiled: a first line `// ptx: sm_90 trusted` chooses target and trust, and
//! `WIDTH=48` in it sets an override.

#![allow(dead_code, reason = "each test binary uses its part")]

pub mod assembler;
pub mod launch;
pub mod turn;

use std::path::{Path, PathBuf};

use naga::back::pipeline_constants::process_overrides;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga_ptx::{Options, Target};

/// A parsed and validated shader.
pub struct Shader {
    pub name: String,
    pub module: naga::Module,
    pub info: ModuleInfo,
    pub options: Options,
}

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub fn shader(path: &Path) -> Shader {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    shader_of(name, &std::fs::read_to_string(path).unwrap())
}

pub fn shader_of(name: String, source: &str) -> Shader {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string_with_path(source, &name)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}", error.emit_to_string_with_path(source, &name)));
    let words = source.lines().next().and_then(|line| line.strip_prefix("// ptx:")).unwrap_or_default();
    let set = words.split_whitespace().filter_map(|word| word.split_once('='));
    let constants = set.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect();
    let (module, info) = process_overrides(&module, &info, None, &constants).unwrap();
    let (module, info) = (module.into_owned(), info.into_owned());
    let target = words.split_whitespace().find_map(Target::parse).unwrap_or(Target::OLDEST);
    let options = match words.split_whitespace().any(|word| word == "trusted") {
        true => Options::trusted(target),
        false => Options { target, loop_limit: Some(1 << 20), ..Options::default() },
    };
    Shader { name, module, info, options }
}

/// Every shader of a folder, by name.
pub fn shaders(folder_name: &str) -> Vec<Shader> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder(folder_name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "wgsl"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no shaders in {folder_name}");
    paths.iter().map(|path| shader(path)).collect()
}
