//! The shaders of `tests/device` check themselves when they run, which needs a device; here they are compiled for every
//! architecture, checked and trusted, so that they are ready. Their heads say how to run them.

use crate::common::shaders;
use naga_ptx::{Feature, Options, Target, compile};

#[test]
fn shaders_that_check_themselves_compile_for_every_architecture() {
    let mut entry_points = 0;
    for (major, minor) in [(7, 0), (7, 5), (8, 0), (9, 0), (12, 0)] {
        let target = Target::new(major, minor);
        for shader in shaders("device") {
            for options in [Options { target, ..Options::default() }, Options::trusted(target)] {
                let ptx = compile(&shader.module, &shader.info, &options)
                    .unwrap_or_else(|error| panic!("{} for {target}: {error}", shader.name));
                entry_points += ptx.entry_points.len();
                let tensor = ptx.text.contains("wmma.mma");
                let said = ptx.entry_points.iter().any(|entry| entry.features.contains(&Feature::CooperativeMatrix));
                assert_eq!((tensor, said), (shader.name == "cooperative", tensor), "{}", shader.name);
            }
        }
    }
    assert_eq!(entry_points, 5 * 2 * 5);
}
