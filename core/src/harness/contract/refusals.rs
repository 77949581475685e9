//! Users' kernels that are wrong: refused by a typed error that says where and why.

use super::words::{add_kernel, bind, download, upload};
use super::{Answer, Test, demand};
use crate::harness::ReferenceBackend;
use crate::{Backend, Binding, Device, Error, Kernel, Result};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("text with syntax and type errors", errors_have_a_place),
    ("entry points and defines that are not there", names),
    ("shader nested or sized beyond reason", too_complex),
    ("long and deep shader within reason", long_and_deep),
    ("texture", texture),
    ("bindings that do not fit", bindings),
    ("grid beyond the device", grid),
    ("resources beyond the device", resources),
];

fn refusal(device: &Device, wgsl: &str, bindings: &[Binding]) -> std::result::Result<Error, String> {
    match device.backend().launch(&Kernel::wgsl(wgsl), [1, 1, 1], bindings) {
        Err(error) if error.to_string().contains('\n') => Err(format!("more than one line: {error:?}")),
        Err(error) => Ok(error),
        Ok(()) => Err(format!("accepted: {}", wgsl.chars().take(80).collect::<String>())),
    }
}

macro_rules! refused {
    ($device:expr, $wgsl:expr, $bindings:expr, $want:pat $(if $guard:expr)?) => {
        match refusal($device, $wgsl, $bindings) {
            Ok($want) $(if $guard)? => {}
            Ok(error) => return Ok(Err(format!("wrong error {error:?}"))),
            Err(wrong) => return Ok(Err(wrong)),
        }
    };
}

fn errors_have_a_place(device: &Device) -> Result<Answer> {
    let text = "@compute @workgroup_size(1)\nfn main() {\n  let x = ;\n}";
    refused!(device, text, &[], Error::Shader { line: 3, column: 11, .. });
    let text = "@compute @workgroup_size(1)\nfn main() {\n  var x: f32 = 1u;\n}";
    refused!(device, text, &[], Error::Shader { line: 3, .. });
    Ok(Ok(()))
}

fn names(device: &Device) -> Result<Answer> {
    refused!(device, "fn helper() {}", &[], Error::InvalidArgument { what: "compute entry point", .. });
    let two = "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(1) fn b() {}";
    refused!(device, two, &[], Error::InvalidArgument { what: "compute entry point", .. });
    for (kernel, name) in [(add_kernel(1).define("N", 1.0), "`N`"), (add_kernel(1).entry("nix"), "nix")] {
        match device.backend().launch(&kernel, [1, 1, 1], &[]) {
            Err(Error::InvalidArgument { reason, .. }) => demand!(reason.contains(name), "{reason}"),
            other => demand!(false, "{name}: {other:?}"),
        }
    }
    Ok(Ok(()))
}

fn too_complex(device: &Device) -> Result<Answer> {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let text = format!("@compute @workgroup_size(1) fn main() {{ var x = {deep}; }}");
    refused!(device, &text, &[], Error::ShaderTooComplex { found, limit, .. } if found > limit);
    refused!(device, &" ".repeat(100 << 20), &[], Error::ShaderTooComplex { .. });
    Ok(Ok(()))
}

fn long_and_deep(device: &Device) -> Result<Answer> {
    let long = format!("x{}", " + x".repeat(300));
    let nested = format!("{}x{}", "(".repeat(80), ")".repeat(80));
    let inverted = format!("{}x", "~".repeat(300));
    let text = format!(
        "@group(0) @binding(0) var<storage, read_write> d: array<u32>;
        @compute @workgroup_size(1) fn main() {{ let x = d[0]; d[0] = {long}; d[1] = {nested}; d[2] = {inverted}; }}"
    );
    let x = upload(device.backend(), &[3, 0, 0])?;
    device.backend().launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x)])?;
    let seen = download(device.backend(), &x, 3)?;
    demand!(seen == [3 * 301, 3, 3], "{seen:?}");
    Ok(Ok(()))
}

fn texture(device: &Device) -> Result<Answer> {
    let text = "@group(0) @binding(0) var t: texture_2d<f32>;
        @compute @workgroup_size(1) fn main() { let x = textureDimensions(t); }";
    refused!(device, text, &[], Error::Unsupported { .. });
    Ok(Ok(()))
}

fn bindings(device: &Device) -> Result<Answer> {
    let text = "
        @group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32, 100>;
        @compute @workgroup_size(1) fn main() { y[0] = x[0].x; }";
    let (x, y) = (device.backend().alloc(16)?, device.backend().alloc(400)?);
    let elsewhere = Binding { group: 3, ..bind(1, &y) };
    let beyond = Binding { range: 0..y.size_bytes() + 4, ..bind(1, &y) };
    let crooked = Binding { range: 4..400, ..bind(0, &y) };
    let wrong: [(&[Binding], (u32, u32), &str); 7] = [
        (&[bind(0, &x)], (0, 1), "`y`"),
        (&[bind(0, &x), elsewhere], (3, 1), ""),
        (&[bind(0, &x), bind(1, &x)], (0, 1), "400"),
        (&[bind(0, &x), bind(0, &x), bind(1, &y)], (0, 0), ""),
        (&[bind(0, &y), bind(1, &y)], (0, 1), "same buffer"),
        (&[bind(0, &x), beyond], (0, 1), "not in a buffer"),
        (&[crooked, bind(1, &y)], (0, 0), "multiples"),
    ];
    for (bindings, place, words) in wrong {
        match refusal(device, text, bindings) {
            Ok(Error::Binding { group, binding, reason }) => {
                demand!((group, binding) == place && reason.contains(words), "{group}.{binding}: {reason}");
            }
            other => demand!(false, "{place:?} {words}: {other:?}"),
        }
    }
    let foreign = ReferenceBackend::default().alloc(400)?;
    refused!(device, text, &[bind(0, &x), bind(1, &foreign)], Error::DeviceMismatch { .. });
    device.backend().launch(&Kernel::wgsl(text), [1, 1, 1], &[bind(0, &x), bind(1, &y)])?;
    Ok(Ok(()))
}

fn grid(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[1])?;
    let max = device.info().limits.max_workgroups;
    for grid in [[max[0].saturating_add(1), 1, 1], [1, u32::MAX, 1], [0, 1, max[2].saturating_add(1)]] {
        if grid.iter().zip(max).all(|(count, max)| *count <= max) {
            continue; // there is no number beyond
        }
        match device.backend().launch(&add_kernel(1), grid, &[bind(0, &x)]) {
            Err(Error::DispatchTooLarge { grid: told, max: limit, .. }) => {
                demand!((told, limit) == (grid, max), "{told:?} of {limit:?}");
            }
            other => demand!(false, "{grid:?}: {other:?}"),
        }
    }
    let seen = download(device.backend(), &x, 1)?;
    demand!(seen == [1], "something ran: {seen:?}");
    Ok(Ok(()))
}

fn resources(device: &Device) -> Result<Answer> {
    let limits = device.info().limits;
    let threads = u64::from(limits.max_invocations_per_workgroup) + 1;
    let text = format!("@compute @workgroup_size({threads}) fn main() {{}}");
    refused!(device, &text, &[], Error::ResourceLimit { kind, requested, .. }
        if kind.contains("invocations") && requested == threads);
    let words = limits.max_workgroup_bytes / 4 + 4;
    let text = format!("var<workgroup> w: array<u32, {words}>; @compute @workgroup_size(1) fn main() {{ w[0] = 1u; }}");
    refused!(device, &text, &[], Error::ResourceLimit { kind, requested, .. }
        if kind.contains("workgroup memory") && requested == u64::from(words) * 4);
    let text = "var<private> p: array<u32, 1000000>; @compute @workgroup_size(1) fn main() { p[1] = 1u; }";
    refused!(device, text, &[], Error::ResourceLimit { kind, .. } if kind.contains("private"));
    Ok(Ok(()))
}
