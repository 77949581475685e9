//! Every instruction that naga-ptx is known to write is understood here: its snapshots are parsed.

use ptx_interpreter::Module;

#[test]
fn snapshots_of_the_compiler_are_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../naga-ptx/tests/out");
    let mut kernels = 0;
    for file in std::fs::read_dir(folder).expect("the compiler's snapshots") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let text = std::fs::read_to_string(&path).expect("text");
            let module = Module::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            kernels += module.kernels().len();
        }
    }
    assert!(kernels >= 15, "{kernels} kernels");
}
