//! An archive for the interpreted driver (`testing/interpreted-driver`): PTX where machine code would be.
//!
//! The catalogue's targets keep their meaning. Each kernel stands under the number of the machine code that a card of the
//! chosen compute capability would run, compiled from the same translation unit to the same PTX; what is left out is
//! `ptxas` alone. [`make::interpreted`] wraps the text as the machine code of that driver, which no card takes. The texts
//! lie beside the archive as well: faults name their lines.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use polywarp_kernels::make::{self, Line, Manifest, SOURCES};
use polywarp_kernels::{Form, KernelInfo, Target};

use super::toolchain::{Lines, Toolchain};
use super::{CACHE, Made, Request, archive, write};
use crate::Result;

/// Compute capability of the interpreted card, unless another is asked for.
pub(super) const SM: u32 = 90;

/// Kernels that `cargo xtask test` runs: of each family, type and way to load operands one, as few as that takes.
pub(super) const SAMPLE: &[&str] = &[
    "probe_",
    "gemm_f32_f32_simt_64x64x16_tt",
    "gemm_f16_mma_64x64x64_tn",
    "gemm_f8e4m3_mma_64x64x128_tn",
    "gemm_f64_f64_dmma_64x64_tn",
    "gemm_f64_f64_dmma_64x64x2_tt",
    "gemm_f16_f16_wgmma_128x128x64_2x1_pingpong_tn",
    "gemm_f16_f16_wgmma_grouped_128x128x64_1x1_pingpong_tt",
    "gemm_bf16_f32_wgmma_64x128x64_1x1_tt",
    "gemm_f16_f32_wgmma_64x64x64_1x1x8_tn",
    "gemm_f16_f32_wgmma_split_64x64x64_1x1_tt",
    "gemm_f16_f32_wgmma_reduced_64x128x64_1x1_tt",
    "gemm_i8_i32_wgmma_64x128x128_1x1_tn",
    "gemm_f16_f32_wgmma_reduced_128x128x64_1x1_pingpong_nn",
    "gemm_f8e4m3_f32_wgmma_64x128x128_1x1_tn",
    "gemm_f8e4m3_f32_wgmma_128x160x128_2x1_tn",
    "gemm_bf16_bf16_wgmma_64x64x64_1x2_tt",
    "gemm_bf16_bf16_wgmma_64x128x64_2x1_tt",
    "gemm_f16_f16_wgmma_transposed_64x144x64_4x1_nn",
    "gemm_tf32_f32_wgmma_transposed_64x128x32_1x1x2_nn",
    "gemm_tf32_f32_wgmma_transposed_128x64x32_1x1_nn",
    "gemm_f16_mma_sparse_256x128x64_tn",
    "gemm_f16_f16_wgmma_sparse_64x128x64_1x1_tn",
    "sparse24_metadata_wgmma_2",
    "gemv_f32_columns4_x1",
    "gemv_f16_dot_mma2_x8",
    "gemv_f16_tma_dot64_c2",
    "gemv_f16_wgmma_columns64_c1_s10",
    "gemv_f8e4m3_wgmma_dot64_c2_s10",
    "gemv_i8_wgmma_dot64_c4_s10",
    "attention_f16_d64_128x128",
    "attention_f16_gradient_d64_128x128",
    "convolution_f16_128x64",
    "convolution_f16_input_128x64",
    "convolution_f16_weights_64x192",
    "convolution_i8_f16_128x64",
    "convolution_fold",
    "convolution_mma_f16_64x64x64",
    "convolution_mma_f16_input_64x64x64",
    "convolution_mma_f16_weights_64x64x64",
    "convolution_mma_i8_64x64x128",
    "pack_b16",
    "pack_b8",
    "reduce_parts_f32",
    "split_f16_",
    "splitk_f32_f16",
    "splitk_f32_f32",
    "splitk_scaled_i32_f32",
];

/// The machine code that a card of compute capability `sm` runs.
fn target(kernel: &KernelInfo, sm: u32) -> Option<Target> {
    Target::best(kernel.targets.iter().copied().filter(|target| target.form == Form::Machine), sm)
}

/// Writes the archive, its manifest and a folder of texts to `folder`.
pub(super) fn make(request: &Request, toolchain: &Toolchain, folder: &Path, sm: u32) -> Result {
    let wanted = polywarp_kernels::kernels().iter().filter(|kernel| request.wants(kernel));
    let jobs: Vec<_> = wanted.filter_map(|kernel| target(kernel, sm).map(|target| (kernel, target))).collect();
    if jobs.is_empty() {
        return Err(format!("no such kernel for compute capability {}.{}", sm / 10, sm % 10));
    }
    let compiled = AtomicUsize::new(0);
    let made = make::in_parallel(&jobs, |&(kernel, target)| {
        let text = text(toolchain, kernel, target, &compiled)?;
        write(&folder.join("ptx").join(format!("{}.ptx", kernel.symbol)), text.as_bytes())?;
        let code = make::interpreted(&text);
        let line = Line {
            symbol: kernel.symbol.clone(),
            family: kernel.family.to_owned(),
            target: target.to_string(),
            source: make::source_digest(kernel, target, Path::new(SOURCES))?,
            code: make::code_digest(&code),
            code_bytes: code.len(),
            usage: None,
        };
        Ok(Some(Made { line, code }))
    });
    let made = made.into_iter().collect::<Result<Vec<_>>>()?;
    let lines = made.iter().flatten().map(|made: &Made| made.line.clone()).collect();
    let manifest = Manifest { compiler: make::COMPILER.to_owned(), kernels: lines };
    // Read by nobody but this machine, and soon: packing well would take longer than it saves.
    write(&folder.join("kernels.bin"), &archive(&jobs, &made, 3))?;
    write(&folder.join("manifest.json"), manifest.text().as_bytes())?;
    let compiled = compiled.into_inner();
    println!("{} kernels as PTX in {}: {compiled} compiled", jobs.len(), folder.display());
    Ok(())
}

/// The PTX of a kernel, from the cache or compiled and put there.
fn text(toolchain: &Toolchain, kernel: &KernelInfo, target: Target, compiled: &AtomicUsize) -> Result<String> {
    let words = |error: String| format!("{} for {target}: {error}", kernel.symbol);
    let source = make::source_digest(kernel, target, Path::new(SOURCES))?;
    let kept = Path::new(CACHE).join(format!("{source}-text.ptx"));
    if let Ok(text) = std::fs::read_to_string(&kept) {
        return Ok(text);
    }
    let base = Path::new(CACHE).join(format!("{source}-text-{}", std::process::id()));
    let [unit, ptx] = ["cu", "ptx"].map(|extension| base.with_extension(extension));
    write(&unit, make::translation_unit(kernel).as_bytes())?;
    toolchain.compile(&unit, target, Lines::Dropped, &ptx).map_err(words)?;
    let text = std::fs::read_to_string(&ptx).map_err(|e| format!("{}: {e}", ptx.display()))?;
    make::check_ptx(&text, kernel).map_err(words)?;
    for file in [unit, ptx] {
        let _ = std::fs::remove_file(file); // what a failure left is there to be looked at
    }
    write(&kept, text.as_bytes())?;
    compiled.fetch_add(1, Ordering::Relaxed);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sample_names_kernels_of_every_family() {
        let all = polywarp_kernels::kernels();
        for name in SAMPLE {
            let named = |kernel: &&KernelInfo| kernel.symbol.contains(name) && target(kernel, SM).is_some();
            assert!(all.iter().any(|kernel| named(&kernel)), "{name}");
        }
        let sampled = |kernel: &&KernelInfo| SAMPLE.iter().any(|name| kernel.symbol.contains(name));
        let families: BTreeSet<_> = all.iter().filter(sampled).map(|kernel| kernel.family).collect();
        let all: BTreeSet<_> = all.iter().map(|kernel| kernel.family).collect();
        assert_eq!(families, all);
    }

    #[test]
    fn target_is_what_a_card_would_run() {
        let of = |symbol: &str, sm| {
            let kernel = polywarp_kernels::find(symbol).expect("a kernel");
            target(kernel, sm).map(|target| target.to_string())
        };
        assert_eq!(of("gemm_f16_f16_wgmma_128x128x64_1x1_pingpong_tn", 90).as_deref(), Some("sm_90a"));
        assert_eq!(of("gemm_f16_f16_wgmma_128x128x64_1x1_pingpong_tn", 80), None);
        assert_eq!(of("gemm_f16_mma_64x64x64_tn", 89).as_deref(), Some("sm_80"));
    }
}
