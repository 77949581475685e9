//! What a kernel's description says that it uses (`EntryPoint::features`).

use crate::common::shader_of;
use naga_ptx::Feature::{self, CooperativeMatrix, Float16, Float64, FloatAtomics, Int64Atomics, Subgroups};
use naga_ptx::compile;

/// What `main` uses when its body is `body`.
fn features(body: &str) -> Vec<Feature> {
    let source = format!(
        "enable f16;
        enable wgpu_cooperative_matrix;
        struct Places {{ word: atomic<u32>, wide: atomic<u64>, signed: atomic<i64>, real: atomic<f32>, many: array<atomic<u64>, 4> }}
        @group(0) @binding(0) var<storage, read_write> places: Places;
        @group(0) @binding(1) var<storage, read_write> words: array<u32>;
        @group(0) @binding(2) var<storage, read_write> halves: array<f16>;
        @group(0) @binding(3) var<storage, read_write> doubles: array<vec2<f64>>;
        @group(0) @binding(4) var<storage, read_write> reals: array<f32>;
        var<workgroup> shared_wide: atomic<u64>;
        var<workgroup> shared_real: atomic<f32>;
        fn add_wide() {{ atomicAdd(&places.wide, 1lu); }}
        fn through() {{ add_wide(); }}
        @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) {{ {body} }}
        @compute @workgroup_size(32) fn other() {{ atomicAdd(&places.real, f32(subgroupAdd(1u)) + f32(halves[0])); }}"
    );
    let mut shader = shader_of(body.to_owned(), &source);
    shader.options.entry_point = Some("main".to_owned());
    compile(&shader.module, &shader.info, &shader.options)
        .unwrap_or_else(|error| panic!("{body}: {error}"))
        .entry_points[0]
        .features
        .clone()
}

#[test]
fn descriptions_name_what_kernels_use() {
    let cases: &[(&str, &[Feature])] = &[
        ("", &[]),
        ("words[i] = i; reals[i] = 1.0; atomicAdd(&places.word, 1u);", &[]),
        // Of 64 bits: with and without a result, loads, stores, each type and space, in functions.
        ("words[i] = u32(atomicAdd(&places.wide, 1lu));", &[Int64Atomics]),
        ("atomicAdd(&places.wide, 1lu);", &[Int64Atomics]),
        ("atomicMax(&places.many[i & 3u], 1lu);", &[Int64Atomics]),
        ("atomicMin(&places.signed, 1li);", &[Int64Atomics]),
        ("words[i] = u32(atomicLoad(&places.wide));", &[Int64Atomics]),
        ("atomicStore(&places.wide, 1lu);", &[Int64Atomics]),
        ("atomicStore(&shared_wide, 1lu);", &[Int64Atomics]),
        ("if atomicCompareExchangeWeak(&places.wide, 1lu, 2lu).exchanged { words[0] = 1u; }", &[Int64Atomics]),
        ("through();", &[Int64Atomics]),
        // Of floats.
        ("atomicAdd(&places.real, 1.0);", &[FloatAtomics]),
        ("reals[i] = atomicSub(&places.real, 1.0);", &[FloatAtomics]),
        ("reals[i] = atomicLoad(&places.real);", &[FloatAtomics]),
        ("atomicStore(&shared_real, 1.0);", &[FloatAtomics]),
        ("atomicStore(&shared_real, 1.0); through();", &[FloatAtomics, Int64Atomics]),
        // Floats of other widths.
        ("halves[i] = halves[i + 1u];", &[Float16]),
        ("words[i] = u32(f16(reals[i]) + 1.0h);", &[Float16]),
        ("doubles[i] = doubles[i + 1u];", &[Float64]),
        ("reals[i] = f32(doubles[i].x);", &[Float64]),
        // Of the subgroup.
        ("words[i] = subgroupAdd(i);", &[Subgroups]),
        ("words[i] = subgroupBallot(i > 3u).x;", &[Subgroups]),
        ("words[i] = subgroupShuffleXor(i, 1u);", &[Subgroups]),
        ("words[i] = quadSwapX(i);", &[Subgroups]),
        ("if words[0] > 0u { subgroupBarrier(); }", &[Subgroups]),
        ("workgroupBarrier();", &[]),
        (
            "let m = coopLoad<coop_mat16x16<f32, C>>(&reals[0], 16u); coopStore(m, &reals[256], 16u);",
            &[CooperativeMatrix],
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(features(body), *expected, "{body}");
    }
}
