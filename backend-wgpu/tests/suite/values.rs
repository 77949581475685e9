//! What users' kernels compute where languages below WGSL leave it open, or lay memory out otherwise: on every adapter the
//! values that WGSL promises. GL is the one that differed.

use crate::common::{bind, download, each, upload};
use polywarp_core::{Backend, Kernel};
use polywarp_wgpu::WgpuBackend;

const EDGES: [i32; 9] = [0, 1, -1, 7, -7, 3, -3, i32::MAX, i32::MIN];

/// Runs `wgsl` in one workgroup with `inputs` at bindings 0, 1, ... and gives the last of them back.
fn ran(backend: &WgpuBackend, kernel: &Kernel, inputs: &[&[u32]]) -> Vec<u32> {
    let buffers: Vec<_> = inputs.iter().map(|input| upload(backend, input)).collect();
    let bindings: Vec<_> = (0..).zip(&buffers).map(|(at, buffer)| bind(at, buffer)).collect();
    backend.launch(kernel, [1, 1, 1], &bindings).unwrap_or_else(|error| panic!("{error}\n{}", kernel.wgsl_text()));
    download(backend, &buffers[buffers.len() - 1])
}

fn words(values: &[i32]) -> Vec<u32> {
    values.iter().map(|&value| value as u32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// WGSL, "Arithmetic Expressions": x / 0 is x, x % 0 is 0, and so for the smallest number by -1.
#[test]
fn integers_divided_by_anything_give_what_wgsl_says() {
    const FORMS: [(&str, bool, &str); 6] = [
        ("x / y", true, "/"),
        ("x % y", true, "%"),
        ("(vec3<i32>(x) / vec3<i32>(1, y, 2)).y", true, "/"),
        ("(vec2<i32>(5, x) % vec2<i32>(y, y)).y", true, "%"),
        ("bitcast<i32>(bitcast<u32>(x) / bitcast<u32>(y))", false, "/"),
        ("bitcast<i32>((vec4<u32>(bitcast<u32>(x)) % bitcast<u32>(y)).w)", false, "%"),
    ];
    each(|backend| {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for x in EDGES {
            for y in EDGES {
                a.push(x);
                b.push(y);
            }
        }
        for (form, signed, op) in FORMS {
            let text = format!(
                "@group(0) @binding(0) var<storage, read> a: array<i32>;
                @group(0) @binding(1) var<storage, read> b: array<i32>;
                @group(0) @binding(2) var<storage, read_write> out: array<i32>;
                @compute @workgroup_size(1) fn main() {{
                    for (var i = 0u; i < arrayLength(&a); i++) {{ let x = a[i]; let y = b[i]; out[i] = {form}; }}
                }}"
            );
            let got = ran(backend, &Kernel::wgsl(text), &[&words(&a), &words(&b), &vec![77; a.len()]]);
            for ((&x, &y), got) in a.iter().zip(&b).zip(got) {
                let want = match (signed, op) {
                    (true, "/") => x.checked_div(y).unwrap_or(x) as u32,
                    (true, _) => x.checked_rem(y).unwrap_or(0) as u32,
                    (false, "/") => (x as u32).checked_div(y as u32).unwrap_or(x as u32),
                    (false, _) => (x as u32).checked_rem(y as u32).unwrap_or(0),
                };
                assert_eq!(got, want, "{form}: x = {x}, y = {y}");
            }
        }
        // By constants too.
        for y in EDGES.into_iter().filter(|&y| y != 0) {
            let y_text = if y == i32::MIN { "i32(-2147483648)".to_owned() } else { y.to_string() };
            let text = format!(
                "const Y = i32({y_text});
                @group(0) @binding(0) var<storage, read_write> x: array<vec2<i32>>;
                @compute @workgroup_size(1) fn main() {{
                    for (var i = 0u; i < arrayLength(&x); i++) {{ x[i] = vec2<i32>(x[i].x / Y, x[i].y % {y_text}); }}
                }}"
            );
            let twice: Vec<u32> = EDGES.iter().flat_map(|&x| [x as u32, x as u32]).collect();
            let got = ran(backend, &Kernel::wgsl(text), &[&twice]);
            let want: Vec<u32> = EDGES
                .iter()
                .flat_map(|x| [x.checked_div(y).unwrap_or(*x) as u32, x.checked_rem(y).unwrap_or(0) as u32])
                .collect();
            assert_eq!(got, want, "by {y}");
        }
    });
}

/// The nearest integer there is, among those that the float type has.
#[test]
fn floats_beyond_an_integers_range_become_the_nearest() {
    const VALUES: [f32; 12] = [
        0.0,
        -0.5,
        3.9,
        -3.9,
        2147483520.0,
        2147483648.0,
        -2147483648.0,
        4294967040.0,
        1e20,
        -1e20,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    let text = "@group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;
        @compute @workgroup_size(1) fn main() {
            for (var i = 0u; i < arrayLength(&x); i++) {
                let v = vec2<f32>(1.0, x[i]);
                out[i] = vec4<u32>(u32(x[i]), bitcast<u32>(i32(x[i])), vec2<u32>(v).y, bitcast<u32>(vec2<i32>(v).y));
            }
        }";
    each(|backend| {
        let got = ran(backend, &Kernel::wgsl(text), &[&bits(&VALUES), &[7; 4 * VALUES.len()]]);
        for (x, got) in VALUES.iter().zip(got.chunks(4)) {
            let unsigned = x.clamp(0.0, 4294967040.0) as u32;
            let signed = x.clamp(-2147483648.0, 2147483520.0) as i32 as u32;
            assert_eq!(got, [unsigned, signed, unsigned, signed], "{x}");
        }
    });
}

#[test]
fn shifts_abs_and_atomics_give_what_wgsl_says() {
    let text = "struct A { s: atomic<i32>, u: atomic<u32> }
        @group(0) @binding(0) var<storage, read_write> a: A;
        @group(0) @binding(1) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() {
            for (var i = 0u; i < 4u; i++) {
                let by = x[i];
                x[i] = 0x80000001u << by;
                x[i + 4u] = bitcast<vec2<u32>>(vec2<i32>(-8) >> vec2<u32>(by)).x;
            }
            x[8] = abs(x[8]); x[9] = abs(vec2<u32>(x[9])).y;
            x[10] = select(0u, 1u, all(x[9] > 5u) && any(x[10] == 1u));
            x[11] = bitcast<u32>(atomicSub(&a.s, -1i)); x[12] = atomicSub(&a.u, 3u); x[13] = atomicLoad(&a.u);
        }";
    each(|backend| {
        let input = [1, 31, 32, 35, 0, 0, 0, 0, 0x8000_0000, u32::MAX, 1, 9, 9, 9];
        let got = ran(backend, &Kernel::wgsl(text), &[&[5, 1], &input]);
        let shifted = [1_u32, 31, 32, 35].map(|by| 0x8000_0001_u32.wrapping_shl(by));
        let right = [1_u32, 31, 32, 35].map(|by| (-8_i32).wrapping_shr(by) as u32);
        assert_eq!(got[..4], shifted);
        assert_eq!(got[4..8], right);
        assert_eq!(got[8..], [0x8000_0000, u32::MAX, 1, 5, 1, (-2_i32) as u32]);
    });
}

/// Members in uniforms, read by known and unknown indices, and as wholes.
#[test]
fn uniforms_lie_where_wgsl_puts_them() {
    let text = "struct Wrap { m: mat2x2<f32> }
        struct Inner { @size(32) a: f32, @align(16) b: vec2<f32> }
        struct U {
            s: f32, m32: mat3x2<f32>, arr: array<Wrap, 2>, bare: array<mat4x2<f32>, 2>, t: vec3<f32>, w: f32,
            @align(64) inner: array<Inner, 2>, m23: mat2x3<f32>, @size(100) last: f32, end: f32,
        }
        @group(0) @binding(0) var<uniform> u: U;
        @group(0) @binding(1) var<storage, read_write> out: array<f32>;
        fn rows(m: mat3x2<f32>) -> vec3<f32> { return m[0].xxx + vec3<f32>(m[1].y, m[2]); }
        @compute @workgroup_size(1) fn main() {
            let whole = u; let copy = u.m32; var n = 0;
            for (var i = 0; i < 3; i++) {
                out[n] = u.m32[i].x; out[n + 1] = u.m32[i][i & 1]; out[n + 2] = whole.m32[i][1]; out[n + 3] = copy[i].y; n += 4;
            }
            for (var i = 0u; i < 4u; i++) {
                out[n] = u.arr[i % 2u].m[(i >> 1u) & 1u].y; out[n + 1] = u.arr[i % 2u].m[1][i & 1u];
                out[n + 2] = u.bare[i & 1u][i].x; out[n + 3] = whole.bare[1][i].y; n += 4;
            }
            out[n] = u.t.z; out[n + 1] = u.w; out[n + 2] = u.inner[1].a; out[n + 3] = u.inner[n & 1].b.y; out[n + 4] = whole.inner[1].b.x;
            out[n + 5] = u.m23[1].z; out[n + 6] = u.last; out[n + 7] = u.end + u.s; out[n + 8] = (u.m32 * vec3<f32>(1.0, 2.0, 3.0)).y;
            out[n + 9] = rows(u.m32).z;
        }";
    // s 0; m32 8..32; arr 32..64; bare 64..128; t 128..140; w 140; inner at 192, of 48 each: a, then b at 32; m23 288..320;
    // last 320, end 420. The element at byte 4 n is n.
    let element = |byte: usize| (byte / 4) as f32;
    let mut want = Vec::new();
    for i in 0..3 {
        want.extend([8 + 8 * i, 8 + 8 * i + 4 * (i & 1), 12 + 8 * i, 12 + 8 * i].map(element));
    }
    for i in 0..4 {
        let arr = 32 + 16 * (i % 2);
        want.extend(
            [arr + 8 * ((i >> 1) & 1) + 4, arr + 8 + 4 * (i & 1), 64 + 32 * (i & 1) + 8 * i, 96 + 8 * i + 4]
                .map(element),
        );
    }
    want.extend([136, 140, 240, 192 + 36, 240 + 32, 288 + 16 + 8, 320].map(element));
    let column = |n: usize| element(12 + 8 * n);
    want.extend([element(420) + element(0), column(0) + 2.0 * column(1) + 3.0 * column(2), element(8) + element(28)]);
    each(|backend| {
        let input: Vec<f32> = (0..112).map(|n| n as f32).collect();
        let got = ran(backend, &Kernel::wgsl(text), &[&bits(&input), &vec![0; want.len()]]);
        assert_eq!(got, bits(&want));
    });
}

/// Padding that attributes and types ask for is neither moved nor written, by stores of parts and of wholes.
#[test]
fn storage_lies_where_wgsl_puts_it_and_padding_stays() {
    let text = "struct Inner { @size(12) a: u32, b: vec2<u32> }
        struct S { @size(16) head: u32, @align(32) inner: array<Inner, 2>, @align(16) tail: u32 }
        struct All { count: u32, @align(64) list: array<S> }
        struct N { n: atomic<u32>, @size(24) v: vec3<u32>, after: u32 }
        @group(0) @binding(0) var<storage, read> given: All;
        @group(0) @binding(1) var<storage, read_write> n: N;
        @group(0) @binding(2) var<storage, read_write> to: All;
        @compute @workgroup_size(1) fn main() {
            let last = arrayLength(&to.list) - 1u;
            var whole = given.list[0]; whole.inner[1].b.y += 1000u;
            to.list[last] = whole; to.list[0].inner = given.list[1].inner; to.list[0].inner[last].a = 7u;
            to.count = atomicAdd(&n.n, last + 1u); n.v = vec3<u32>(1u, 2u, 3u); n.after = n.v.z + 1u;
        }";
    // Inner: a 0, b 16..24, 24 in all. S: head 0, inner 32..80, tail 80, 96 in all. All: count 0, list from 64 on.
    const NOBODYS: u32 = 0x9999_9999;
    let from: Vec<u32> = (0..(64 + 2 * 96) / 4).collect();
    let (first, second) = (16, 16 + 24);
    let mut want = vec![NOBODYS; from.len()];
    want[0] = 40;
    let inner = |want: &mut [u32], to: usize, of: usize, part: usize| {
        let at = |base: usize| base + 8 + 6 * part;
        for word in [0, 4, 5] {
            want[at(to) + word] = from[at(of) + word];
        }
    };
    for part in 0..2 {
        inner(&mut want, second, first, part);
        inner(&mut want, first, second, part);
    }
    want[second] = from[first];
    want[second + 20] = from[first + 20];
    want[second + 8 + 6 + 5] += 1000;
    want[first + 8 + 6] = 7;
    each(|backend| {
        let buffers = [
            upload(backend, &from),
            upload(backend, &[40, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]),
            upload(backend, &vec![NOBODYS; from.len()]),
        ];
        let bindings: Vec<_> = (0..).zip(&buffers).map(|(at, buffer)| bind(at, buffer)).collect();
        backend.launch(&Kernel::wgsl(text), [1, 1, 1], &bindings).unwrap();
        assert_eq!(download(backend, &buffers[2]), want);
        // v at 16..28, of 24 bytes: after at 40.
        assert_eq!(download(backend, &buffers[1]), [42, 9, 9, 9, 1, 2, 3, 9, 9, 9, 4, 9]);
    });
}

/// Overrides that are set reach kernels that are rewritten.
#[test]
fn overrides_size_workgroup_arrays_and_divide() {
    let text = "override N: u32; override BY: i32 = 2; @id(4) override SCALE: f32 = 1.0;
        var<workgroup> w: array<i32, N>;
        @group(0) @binding(0) var<storage, read_write> x: array<i32>;
        @compute @workgroup_size(N) fn main(@builtin(local_invocation_index) i: u32) {
            w[i] = x[i] % BY; workgroupBarrier(); x[i] = w[N - 1u - i] * i32(SCALE);
        }";
    each(|backend| {
        let kernel = Kernel::wgsl(text).define("N", 4.0).define("BY", -3.0).define("4", 1e10);
        let got = ran(backend, &kernel, &[&words(&[-7, 7, 0, 1])]);
        assert_eq!(got, words(&[2_147_483_520, 0, 2_147_483_520, (-2_147_483_520_i32)]));
    });
}
