//! Every shader of `tests/in` gives the text in `tests/out`; `NAGA_PTX_WRITE_SNAPSHOTS=1` writes it anew.

mod common;

use common::{folder, shaders};
use naga_ptx::{Error, compile};

#[test]
fn every_construct_gives_its_snapshot() {
    let write = std::env::var_os("NAGA_PTX_WRITE_SNAPSHOTS").is_some();
    let mut wrong = Vec::new();
    for shader in shaders("in") {
        let ptx = compile(&shader.module, &shader.info, &shader.options)
            .unwrap_or_else(|error| panic!("{}: {error}", shader.name));
        let path = folder("out").join(format!("{}.ptx", shader.name));
        if write {
            std::fs::write(&path, &ptx.text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != ptx.text {
            wrong.push(shader.name);
        }
    }
    assert!(wrong.is_empty(), "these differ from tests/out (NAGA_PTX_WRITE_SNAPSHOTS=1 rewrites them): {wrong:?}");
}

#[test]
fn no_snapshot_without_a_shader() {
    let shaders: Vec<String> = shaders("in").into_iter().map(|shader| shader.name).collect();
    for entry in std::fs::read_dir(folder("out")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(shaders.contains(&name), "{} has no shader", path.display());
    }
}

#[test]
fn compiling_twice_gives_the_same_text() {
    for shader in shaders("in") {
        let texts = [0, 1].map(|_| compile(&shader.module, &shader.info, &shader.options).unwrap());
        assert_eq!(texts[0], texts[1], "{}", shader.name);
    }
}

#[test]
fn what_cuda_lacks_is_unsupported_with_its_place() {
    for shader in shaders("refused") {
        match compile(&shader.module, &shader.info, &shader.options) {
            Err(Error::Unsupported { span: Some(_), .. }) => {}
            other => panic!("{}: {other:?}", shader.name),
        }
    }
}
