//! Users' kernels that are right: entry points, overrides, groups and uniforms; and what keeps a wrong index harmless.

use super::words::{add_kernel, bind, download, launch, upload};
use super::{Answer, Test, demand};
use crate::{Binding, Device, Kernel, Result};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("entry point, overrides, groups and a uniform", entry_and_overrides),
    ("kernel that reaches beyond its range", beyond_its_range),
    ("kernel on fewer bytes than a word", part_of_a_word),
    ("workgroup memory starts at zero", workgroup_memory),
    ("one kernel under other defines", other_defines),
    ("empty grid", empty_grid),
];

/// WebGPU's largest alignment of a binding.
const ALIGN_BYTES: u64 = 256;

fn entry_and_overrides(device: &Device) -> Result<Answer> {
    let text = "
        struct Scale { by: u32, plus: u32 }
        override WIDTH: u32 = 1;
        @id(3) override TWICE: bool = false;
        @group(0) @binding(0) var<uniform> scale: Scale;
        @group(0) @binding(1) var<storage, read> x: array<u32>;
        @group(2) @binding(5) var<storage, read_write> y: array<u32>;
        var<workgroup> tile: array<u32, WIDTH>;
        @compute @workgroup_size(1) fn other() {}
        @compute @workgroup_size(WIDTH) fn scaled(
            @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) local: u32
        ) {
            tile[local] = x[min(id.x, arrayLength(&x) - 1u)];
            workgroupBarrier();
            let v = tile[WIDTH - 1u - local] * scale.by + scale.plus;
            if id.x < arrayLength(&y) { y[id.x] = select(v, 2u * v, TWICE); }
        }";
    let x = upload(device.backend(), &(0..32).collect::<Vec<u32>>())?;
    let (y, scale) = (upload(device.backend(), &[0; 33])?, upload(device.backend(), &[10, 3, 0, 0])?);
    let to = Binding { group: 2, ..bind(5, &y) };
    let kernel = Kernel::wgsl(text).entry("scaled").define("WIDTH", 16.0).define("3", 1.0);
    launch(device.backend(), &kernel, &[bind(0, &scale), to, bind(1, &x)])?;
    let expected: Vec<u32> = (0..32u32).map(|i| 2 * (10 * (i / 16 * 16 + 15 - i % 16) + 3)).chain([0]).collect();
    let seen = download(device.backend(), &y, 33)?;
    demand!(seen == expected, "{seen:?}");
    Ok(Ok(()))
}

fn beyond_its_range(device: &Device) -> Result<Answer> {
    let third = ALIGN_BYTES as usize / 4;
    let buffer = upload(device.backend(), &vec![7; 3 * third])?;
    let text = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            x[id.x] = 9u;
            x[id.x * 0x1000000u + arrayLength(&x)] = 13u;
            x[0xffffffffu - id.x] = 13u;
        }";
    let binding = Binding { range: ALIGN_BYTES..2 * ALIGN_BYTES, ..bind(0, &buffer) };
    device.backend().launch(&Kernel::wgsl(text), [16, 1, 1], &[binding])?;
    let seen = download(device.backend(), &buffer, 3 * third)?;
    demand!(seen[..third].iter().chain(&seen[2 * third..]).all(|&word| word == 7), "neighbours: {seen:?}");
    demand!(seen[third..2 * third].iter().all(|&word| word == 9 || word == 13), "inside: {seen:?}");
    Ok(Ok(()))
}

fn part_of_a_word(device: &Device) -> Result<Answer> {
    let buffer = device.backend().alloc(6)?;
    device.backend().write(&buffer, 0, &[1, 2, 3, 4, 5, 6])?;
    launch(device.backend(), &add_kernel(0x0101_0101), &[bind(0, &buffer)])?;
    let seen = device.backend().read_blocking(&buffer, 0..6)?;
    demand!(seen == [2, 3, 4, 5, 6, 7], "{seen:?}");
    Ok(Ok(()))
}

/// Small: software drivers write zeros out one by one.
fn workgroup_memory(device: &Device) -> Result<Answer> {
    let fill = "
        var<workgroup> w: array<u32, 256>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
            for (var j = i; j < 256u; j += 64u) { w[j] = 0xdeadbeefu; }
            workgroupBarrier();
            if w[i] == 1u { x[0] = 1u; }
        }";
    let look = "
        var<workgroup> w: array<u32, 256>;
        @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
            for (var j = i; j < 256u; j += 64u) { if w[j] != 0u { atomicAdd(&x[0], 1u); } }
        }";
    let x = upload(device.backend(), &[0; 4])?;
    for text in [fill, look] {
        device.backend().launch(&Kernel::wgsl(text), [100, 1, 1], &[bind(0, &x)])?;
    }
    let found = download(device.backend(), &x, 1)?[0];
    demand!(found == 0, "{found} words were not zero");
    Ok(Ok(()))
}

fn other_defines(device: &Device) -> Result<Answer> {
    let text = "override BY: u32; @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { x[0] += BY; }";
    let x = upload(device.backend(), &[0])?;
    for by in [1.0, 10.0, 100.0, 10.0] {
        device.backend().launch(&Kernel::wgsl(text).define("BY", by), [1, 1, 1], &[bind(0, &x)])?;
    }
    let seen = download(device.backend(), &x, 1)?;
    demand!(seen == [121], "{seen:?}");
    Ok(Ok(()))
}

fn empty_grid(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[1])?;
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        device.backend().launch(&add_kernel(1), grid, &[bind(0, &x)])?;
    }
    let seen = download(device.backend(), &x, 1)?;
    demand!(seen == [1], "{seen:?}");
    Ok(Ok(()))
}
