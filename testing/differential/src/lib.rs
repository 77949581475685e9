//! Random programs through every route from WGSL to results, compared bit for bit.
//!
//! | route | compiler | machine |
//! |---|---|---|
//! | [`Route::Wgpu`] | naga's SPIR-V and the driver's own | a Vulkan device, software where there is no card |
//! | [`Route::Interpreter`] | naga-ptx | `ptx-interpreter`, on the host, with every check |
//! | [`Route::Cuda`] | naga-ptx and NVIDIA's assembler | an NVIDIA card |
//!
//! Programs come from `wgsl-generator` and have one right result each. Where two routes are not on one machine, results
//! are carried as digests (`main.rs`, `write` and `compare`). `README.md` lists the differences that are known and why.
//!
//! Read next: `routes.rs`, `reduce.rs` (from a program that differs to the few lines that matter), `main.rs`.
#![forbid(unsafe_code)]

mod reduce;
mod routes;

pub use reduce::reduce;
pub use routes::{Devices, Route, compile, interpret, validate};

use wgsl_generator::{Program, Settings, generate};

/// The program of `seed` as all tools here generate it.
pub fn program(seed: u64) -> Program {
    generate(seed, &Settings::varied(seed))
}

/// What a program left in its buffers, one after the other, without what WGSL leaves open.
pub fn digest(outputs: &[Vec<u8>]) -> u64 {
    // FNV-1a, 64 bits.
    let bytes = outputs.iter().flatten();
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The first words in which two results differ, for people.
pub fn difference(program: &Program, left: &[Vec<u8>], right: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for ((spec, left), right) in program.buffers.iter().zip(left).zip(right) {
        let words = left.chunks(4).zip(right.chunks(4)).enumerate().filter(|(_, (l, r))| l != r);
        let words: Vec<String> =
            words.take(4).map(|(i, (l, r))| format!("byte {}: {} / {}", i * 4, hex(l), hex(r))).collect();
        if !words.is_empty() {
            text += &format!("binding {}: {}\n", spec.binding, words.join(", "));
        }
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
