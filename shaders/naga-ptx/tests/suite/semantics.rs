//! `tests/run/semantics.wgsl` and the shaders here, run on an interpreter of PTX, give what WGSL says; with and without
//! checks, for an old and a new target, in any order of threads.

#[path = "../run/expected.rs"]
mod expected;

use crate::common::launch::{Given, bytes, launch};
use crate::common::{folder, shader, shader_of};
use expected::{SIZES, layout, words, wrong};
use naga_ptx::{Bounds, Options, ParamKind, Target, Uniforms, WorkgroupMemory, compile};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

/// The buffers after a run of `entry`.
fn execute(entry: &str, options: &Options, run_options: &RunOptions) -> [Vec<u8>; 4] {
    let shader = shader(&folder("run").join("semantics.wgsl"));
    let options = Options { entry_point: Some(entry.to_owned()), ..options.clone() };
    let ptx = compile(&shader.module, &shader.info, &options).unwrap_or_else(|error| panic!("{error}"));
    let module = Module::parse(&ptx.text).unwrap_or_else(|error| panic!("{error}\n{}", ptx.text));
    let mut memory = Memory::new();
    let buffers = SIZES.map(|bytes| (memory.alloc(bytes, 256), bytes));
    let entry = &ptx.entry_points[0];
    let kernel = module.kernel(&entry.symbol).unwrap();
    let mut params = vec![0; kernel.param_bytes() as usize];
    for param in &entry.params {
        let value = match param.kind {
            ParamKind::Buffer { binding, .. } => buffers[binding as usize].0,
            ParamKind::BufferBytes { binding, .. } => buffers[binding as usize].1 as u64,
            ParamKind::Uniform { .. } | ParamKind::Immediates { .. } => panic!("there are none"),
        };
        params[param.offset_bytes as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
    let launch =
        Launch { grid: [1; 3], block: entry.workgroup_size, params, dynamic_shared_bytes: entry.dynamic_shared_bytes };
    run(kernel, &mut memory, &launch, run_options).unwrap_or_else(|fault| panic!("{options:?}: {fault}\n{}", ptx.text));
    buffers.map(|(address, bytes)| memory.read(address, bytes).unwrap().to_vec())
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    for (major, minor) in [(7, 0), (9, 0)] {
        let target = Target::new(major, minor);
        all.push(Options { target, ..Options::default() });
        all.push(Options { target, loop_limit: Some(1 << 16), uniforms: Uniforms::Parameters, ..Options::default() });
        all.push(Options {
            bounds: Bounds::Trust,
            workgroup_memory: WorkgroupMemory::Undefined,
            target,
            ..Options::default()
        });
        all.push(Options::trusted(target));
    }
    all
}

#[test]
fn wgsl_means_what_it_says() {
    for options in all_options() {
        for shuffle in [None, Some(5)] {
            let [out, ..] = execute("main", &options, &RunOptions { shuffle, ..RunOptions::strict() });
            let wrong = wrong(&words(&out));
            assert!(
                wrong.is_empty(),
                "{options:?}: {} wrong: {}",
                wrong.len(),
                wrong[..wrong.len().min(20)].join("; ")
            );
        }
    }
}

#[test]
fn structures_lie_in_memory_as_wgsl_says() {
    for options in all_options() {
        let [_, _, placed, _] = execute("main", &options, &RunOptions::strict());
        assert_eq!(words(&placed), layout(), "{options:?}");
    }
}

/// The interpreter faults at the first access outside; what is read is some element.
#[test]
fn accesses_out_of_bounds_stay_inside() {
    for options in all_options().into_iter().filter(|options| options.bounds == Bounds::Clamp) {
        let options_run = RunOptions { check_uninitialised: true, ..RunOptions::default() };
        let [out, ..] = execute("outside", &options, &options_run);
        let out = words(&out);
        assert!(out[..32].iter().all(|&read| read < 100), "{:?}", &out[..32]);
    }
    let trusted = std::panic::catch_unwind(|| {
        execute("outside", &Options::trusted(Target::OLDEST), &RunOptions::default());
    });
    assert!(trusted.is_err(), "without checks something lies outside");
}

/// By value, after the buffers; with constant and with dynamic indices, also those out of bounds.
#[test]
fn immediates_and_uniforms_arrive() {
    let source = "
        struct Given { a: u32, v: vec3<f32>, w: array<u32, 3>, f: vec2<f32> }
        struct Same { a: u32, v: vec3<f32>, w: array<vec4<u32>, 3>, f: vec2<f32> }
        var<immediate> given: Given;
        @group(0) @binding(1) var<uniform> same: Same;
        @group(0) @binding(0) var<storage, read_write> out: array<u32, 32>;
        @compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) {
            let whole = given;
            out[i] = given.w[i];
            out[4u + i] = same.w[i].y;
            if i == 0u {
                out[8] = given.a;
                out[9] = u32(given.v.z);
                out[10] = u32(whole.f.y + given.v[1]);
                out[11] = same.a;
                out[12] = u32(same.v.y * 10.0 + same.f.x);
            }
            let in_vector = u32(given.v[min(i, 2u)]);
            out[16u + i] = in_vector;
        }";
    let shader = shader_of("immediates".to_owned(), source);
    let f = f32::to_bits;
    let immediates = bytes(&[9, 0, 0, 0, f(1.0), f(2.0), f(3.0), 40, 41, 42, f(50.0), f(51.0)]);
    let row = |n: u32| [0, n, 0, 0];
    let head = [19, 0, 0, 0, f(4.0), f(5.0), f(6.0), 0];
    let same = [&head[..], &row(60), &row(61), &row(62), &[f(7.0), f(8.0), 0, 0]].concat();
    let given = Given { buffers: vec![vec![0; 128], bytes(&same)], immediates, guard: Some(0) };
    for options in all_options() {
        let out = words(&launch(&shader, &options, &RunOptions::strict(), &given).unwrap()[0]);
        // Invocation 3 is out of bounds.
        let inside = |from: usize| &out[from..from + 3];
        assert_eq!(inside(0), [40, 41, 42], "{options:?}");
        assert_eq!(inside(4), [60, 61, 62], "{options:?}");
        if options.bounds == Bounds::Clamp {
            assert_eq!((out[3], out[7]), (42, 62), "{options:?}");
        }
        assert_eq!(out[8..13], [9, 3, 53, 19, 57], "{options:?}");
        assert_eq!(out[16..20], [1, 2, 3, 3], "{options:?}");
    }
}

/// Loops whose number of rounds is known when they are compiled run as often as they would otherwise: counters that start from
/// themselves, are compared in another type, or are looked at before the loop alone.
#[test]
fn loops_that_are_written_out_run_as_often_as_they_should() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> out: array<u32, 8>;
        @compute @workgroup_size(1) fn main() {
            var n = 0u;
            var i = 3u;
            for (i = i + 1u; i < 8u; i = i + 1u) { n = n + i; }
            out[0] = n;
            n = 0u;
            for (var i = 0u; i32(i) - 5 < 0; i += 1u) { n += 1u; }
            out[1] = n;
            n = 0u;
            for (var i = 0; u32(i) - 5u > 3u; i += 1) { n += 1u; }
            out[2] = n;
            n = 0u;
            for (var i = 0u; (i32(i) - 3) / 2 < 3; i += 1u) { n += 1u; }
            out[3] = n;
            n = 0u;
            var j = 0u;
            let go = j < 4u;
            for (j = 0u; go; j += 1u) { if (j == 6u) { break; } n += 1u; }
            out[4] = n;
            n = 0u;
            var k = 0u;
            let next = k + 1u;
            for (k = 0u; k < 3u; k = next) { n += 1u; if (n >= 9u) { break; } }
            out[5] = n;
            n = 0u;
            for (var i = -8; i < 8; i = i >> 1u) { n += 1u; if (n >= 9u) { break; } }
            out[6] = n;
            n = 0u;
            for (var i = 1u; i != 0u; i <<= 4u) { n += i & 0xffu; }
            out[7] = n;
        }";
    let shader = shader_of("counters".to_owned(), source);
    let given = Given { buffers: vec![vec![0; 32]], guard: Some(0), ..Given::default() };
    for options in all_options() {
        let out = words(&launch(&shader, &options, &RunOptions::strict(), &given).unwrap()[0]);
        assert_eq!(out, [22, 5, 5, 9, 6, 9, 9, 17], "{options:?}");
    }
}

/// A struct of builtins is uniform where the hardware fills it in, not where a function is given one like it.
#[test]
fn struct_of_builtins_given_to_a_function_may_vary() {
    let source = "
        struct B { @builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32 }
        @group(0) @binding(0) var<storage, read_write> out: array<u32, 32>;
        fn helper(b: B) -> u32 { var r = 0u; if (b.wid.x < 10u) { r = subgroupAdd(b.lid); } return r; }
        @compute @workgroup_size(32) fn main(b: B) { var c = b; c.wid.x = b.lid; out[b.lid] = helper(c); }";
    let shader = shader_of("builtins".to_owned(), source);
    let given = Given { buffers: vec![vec![0; 128]], guard: Some(0), ..Given::default() };
    for options in all_options() {
        let out = words(&launch(&shader, &options, &RunOptions::strict(), &given).unwrap()[0]);
        assert_eq!(out, [[45; 10].as_slice(), &[0; 22]].concat(), "{options:?}");
    }
}

/// Calls are written out, and two calls of a function that makes two are four.
#[test]
fn calls_that_double_from_function_to_function_are_refused() {
    let mut source = "fn a0() {}\n".to_owned();
    for i in 1..40 {
        let before = i - 1;
        source += &format!("fn a{i}() {{ a{before}(); a{before}(); }}\n");
    }
    source += "@compute @workgroup_size(1) fn main() { a39(); }";
    let shader = shader_of("calls".to_owned(), &source);
    let error = naga_ptx::compile(&shader.module, &shader.info, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("calls"), "{error}");
}

/// Pointers to parts of private variables and locals, handed on from function to function.
#[test]
fn pointers_lead_to_what_they_were_made_of() {
    let source = "
        struct Pair { count: u32, at: array<u32, 4>, v: vec4<u32> }
        @group(0) @binding(0) var<storage, read_write> out: array<u32, 128>;
        var<private> state: Pair;
        var<private> large: array<u32, 64>;
        fn bump(p: ptr<private, Pair>, by: u32) -> u32 {
            (*p).count += 1u;
            p.at[p.count & 3u] += by;
            return p.count;
        }
        fn raise(p: ptr<function, u32>) { *p = *p * 2u + 1u; }
        fn both(p: ptr<private, u32>, q: ptr<function, vec4<u32>>) {
            var here = *p;
            raise(&here);
            *p = here;
            (*q).y += here;
        }
        fn put(p: ptr<private, array<u32, 64>>, i: u32) { (*p)[i] = 5u * i + 1u; }
        fn swap(p: ptr<function, array<u32, 20>>, i: u32, j: u32) {
            let kept = p[i];
            p[i] = p[j];
            p[j] = kept;
        }
        @compute @workgroup_size(16) fn main(@builtin(local_invocation_index) i: u32) {
            var v = vec4(i, 100u, 0u, 0u);
            let first = bump(&state, i);
            let second = bump(&state, 3u);
            both(&state.at[1], &v);
            put(&large, i);
            put(&large, 63u - i);
            var local: array<u32, 20>;
            for (var k = 0u; k < 20u; k++) { local[k] = k; }
            swap(&local, i, 19u - i);
            out[8u * i] = v.y;
            out[8u * i + 1u] = state.at[first];
            out[8u * i + 2u] = state.at[second & 3u];
            out[8u * i + 3u] = large[i];
            out[8u * i + 4u] = large[63u - i];
            out[8u * i + 5u] = local[i] * 100u + local[19u - i];
            out[8u * i + 6u] = large[16u + i];
            out[8u * i + 7u] = state.count;
        }";
    let shader = shader_of("pointers".to_owned(), source);
    let given = Given { buffers: vec![vec![0; 512]], guard: Some(0), ..Given::default() };
    for options in all_options() {
        let out = words(&launch(&shader, &options, &RunOptions::strict(), &given).unwrap()[0]);
        for (i, found) in (0..16).zip(out.chunks_exact(8)) {
            let raised = 2 * i + 1;
            let ends = [5 * i + 1, 5 * (63 - i) + 1];
            let expected = [100 + raised, raised, 3, ends[0], ends[1], (19 - i) * 100 + i, 0, 2];
            assert_eq!(found, expected, "{options:?} {i}");
        }
    }
}

/// Exact while the quotient is; beyond, and where it overflows, still less than the divisor.
#[test]
fn remainders_of_floats_are_less_than_the_divisor() {
    let source = "
        @group(0) @binding(0) var<storage, read_write> x: array<f64>;
        @group(0) @binding(1) var<storage, read> y: array<f64>;
        @compute @workgroup_size(8) fn main(@builtin(local_invocation_index) i: u32) { x[i] = x[i] % y[i]; }";
    let doubles = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let x = [0.25, -0.25, 7.5, -7.5, 1e300, 3.0, 1e16, 1.0];
    let y = [5e-324, 5e-324, 2.0, 2.0, 3.0, f64::INFINITY, 0.75, 0.0];
    for options in all_options() {
        let shader = shader_of("remainders".to_owned(), source);
        let given = Given { buffers: vec![doubles(&x), doubles(&y)], ..Given::default() };
        let out = launch(&shader, &options, &RunOptions::strict(), &given).unwrap();
        let got: Vec<f64> = out[0].chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(got[..4], [0.0, 0.0, 1.5, -1.5], "{options:?}");
        assert!(got[1].is_sign_negative() && (0.0..3.0).contains(&got[4]) && (0.0..0.75).contains(&got[6]), "{got:?}");
        assert!(got[5] == 3.0 && got[7].is_nan(), "{got:?}");
    }
}
