//! Users' kernels on CUDA: what cards have more of, or count otherwise. The rest is the harness's (`tests/conformance.rs`).

use crate::common::{bind, download, on_card, upload};
use polywarp_core::{Backend, Error, Kernel};

#[test]
fn workgroup_memory_beyond_48_kib_is_there_and_starts_at_zero() {
    on_card(|backend| {
        let most = backend.info().limits.max_workgroup_bytes;
        assert!(most > 48 << 10, "{most}");
        let words = most / 4;
        let text = format!(
            "var<workgroup> w: array<u32, {words}>;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(256) fn main(@builtin(local_invocation_index) i: u32) {{
                for (var j = i; j < {words}u; j += 256u) {{ if w[j] != 0u {{ x[1] = 1u; }} w[j] = 3u * j; }}
                workgroupBarrier();
                var sum = 0u;
                for (var j = i; j < {words}u; j += 256u) {{ sum += w[{words}u - 1u - j]; }}
                if i == 0u {{ x[0] = sum; }}
            }}"
        );
        let x = upload(backend, &[0; 4]);
        for _ in 0..2 {
            backend.launch(&Kernel::wgsl(&text), [1, 1, 1], &[bind(0, &x)]).unwrap();
            let expected = (0..words).step_by(256).fold(0u32, |sum, j| sum.wrapping_add(3 * (words - 1 - j)));
            assert_eq!(download(backend, &x)[..2], [expected, 0]);
        }
    });
}

#[test]
fn grid_of_more_than_65535_workgroups_along_x_runs_whole() {
    on_card(|backend| {
        let count = 70_000u32;
        let x = upload(backend, &vec![1; count as usize]);
        let text = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { x[id.x] += id.x; }";
        backend.launch(&Kernel::wgsl(text), [count, 1, 1], &[bind(0, &x)]).unwrap();
        assert_eq!(download(backend, &x), (1..=count).collect::<Vec<u32>>());
    });
}

#[test]
fn coherent_and_volatile_buffers_are_read_again() {
    on_card(|backend| {
        let text = "@group(0) @binding(0) @coherent var<storage, read_write> x: array<u32>;
            @group(0) @binding(1) @volatile var<storage, read_write> y: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
                x[i] = i * i;
                storageBarrier();
                y[i] = x[63u - i] + x[63u - i];
            }";
        let (x, y) = (upload(backend, &[0; 64]), upload(backend, &[0; 64]));
        backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x), bind(1, &y)]).unwrap();
        assert_eq!(download(backend, &y), (0..64).map(|i| 2 * (63 - i) * (63 - i)).collect::<Vec<u32>>());
    });
}

#[test]
fn workgroup_beyond_the_card_is_refused_dimension_by_dimension() {
    on_card(|backend| {
        for (size, along) in
            [("1025", "along x"), ("1, 1025", "along y"), ("1, 1, 65", "along z"), ("64, 32", "workgroup")]
        {
            let text = format!("@compute @workgroup_size({size}) fn main() {{}}");
            match backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[]) {
                Err(Error::ResourceLimit { kind, requested, max, .. }) => {
                    assert!(kind.ends_with(along) && requested > max, "{size}: {kind} {requested} {max}");
                }
                other => panic!("{size}: {other:?}"),
            }
        }
    });
}

#[test]
fn what_cards_lack_is_unsupported_with_its_place() {
    on_card(|backend| {
        let x = upload(backend, &[0; 128]);
        let text = "enable wgpu_cooperative_matrix;
            @group(0) @binding(0) var<storage, read_write> x: array<f32>;
            @compute @workgroup_size(32) fn main() {
                let a = coopLoad<coop_mat8x8<f32, C>>(&x[0], 8u);
                coopStore(a, &x[64], 8u);
            }";
        match backend.launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x)]) {
            Err(Error::Unsupported { what, .. }) => {
                assert!(what.contains("8 rows") && what.ends_with("(line 4, column 25 of the kernel)"), "{what}");
            }
            other => panic!("{other:?}"),
        }
    });
}
