//! What modules become for GLSL. That the values are right is `backend-wgpu/tests/suite/values.rs`, on a GL driver; that valid
//! modules stay valid, and what is refused, is here.

use naga::valid::Capabilities;
use polywarp_core::Error;

use super::for_glsl;
use crate::wgsl::parse_and_validate;

fn written(source: &str) -> polywarp_core::Result<naga::Module> {
    let (module, info) = parse_and_validate(source, Capabilities::all())?;
    for_glsl(&module, &info, "target glsl", source).map(|(module, _)| module)
}

#[test]
fn statements_and_expressions_of_every_kind_are_kept() {
    let source = "enable f16;
        struct S { a: array<vec4<f32>, 3>, b: u32 }
        @group(0) @binding(0) var<storage, read_write> s: array<S>;
        @group(0) @binding(1) var<storage, read_write> a: atomic<u32>;
        @group(0) @binding(2) var t: texture_2d<f32>;
        @group(0) @binding(3) var by: sampler;
        var<workgroup> w: array<u32, 8>;
        fn f(p: ptr<function, array<i32, 4>>, i: i32) -> i32 { (*p)[i] /= i; return (*p)[i % 4]; }
        @compute @workgroup_size(8) fn main(@builtin(local_invocation_index) i: u32) {
            var p = array<i32, 4>(1, 2, 3, 4); var x = s[i].a[i % 3u]; let c = select(x, x.yxwz, x > vec4(1.0));
            switch i / 3u { case 0u, 1u: { x = c; } case 2u: { x += 1.0; } default: { x = -x; } }
            loop { if x.x > 10.0 { break; } x = fma(x, x, c); continuing { w[i] += u32(x.x); break if w[i] > 9u; } }
            w[i] = atomicAdd(&a, 1u) + u32(f(&p, i32(x.y))); let r = atomicCompareExchangeWeak(&a, 1u, 2u);
            workgroupBarrier(); let all = workgroupUniformLoad(&w[0]) + arrayLength(&s) + r.old_value;
            x += textureSampleLevel(t, by, x.xy, 0.0) + textureLoad(t, vec2(0), 0) + f32(textureDimensions(t).x % i);
            x.x += subgroupAdd(x.x) + subgroupShuffle(x.y, i % 4u); let half = f16(x.x); x.y = f32(half);
            for (var k = 0u; k < all % i; k++) { if k == 3u { continue; } s[k].a[k / i] = x; }
            if any(x < vec4(0.0)) { return; }
            s[i].b = (i << all) | u32(dot(x, c));
        }";
    let (old, _) = parse_and_validate(source, Capabilities::all()).unwrap();
    let new = written(source).unwrap();
    let (old, new) = (&old.entry_points[0].function, &new.entry_points[0].function);
    let names = |function: &naga::Function| function.named_expressions.values().cloned().collect::<Vec<_>>();
    assert_eq!(names(old), names(new));
    let does = |function: &naga::Function| {
        function.body.iter().filter(|statement| !matches!(statement, naga::Statement::Emit(_))).count()
    };
    assert_eq!(does(old), does(new));
}

#[test]
fn large_padded_wholes_are_refused_with_their_place() {
    let source = "struct P { @size(16) a: u32, b: u32 }
        @group(0) @binding(0) var<storage, read_write> x: array<array<P, 3000>, 2>;
        @compute @workgroup_size(1) fn main() {
            x[0] = x[1];
        }";
    match written(source) {
        Err(Error::Unsupported { what, reason, .. }) => {
            assert!(what.contains("padded") && reason.contains("line 4") && reason.contains("in a loop"), "{reason}");
        }
        other => panic!("{:?}", other.map(drop)),
    }
    written(&source.replace("3000", "30")).unwrap();
}

#[test]
fn modules_that_lie_as_glsl_has_them_keep_their_types() {
    let source = "struct V { p: vec3<u32>, q: u32, r: u32 } struct U { n: u32, m: mat3x3<f32>, v: array<vec4<f32>, 2> }
        @group(0) @binding(0) var<storage, read_write> x: array<V>;
        @group(0) @binding(1) var<uniform> u: U;
        @compute @workgroup_size(1) fn main() { x[u.n].r = u32(u.v[1].x + u.m[2].z); }";
    let (module, _) = parse_and_validate(source, Capabilities::all()).unwrap();
    let new = written(source).unwrap();
    for ((_, old), (_, new)) in module.global_variables.iter().zip(new.global_variables.iter()) {
        assert_eq!(old.ty, new.ty);
    }
}
