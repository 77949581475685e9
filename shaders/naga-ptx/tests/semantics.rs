//! `tests/run/semantics.wgsl` and the shaders here, run on an interpreter of PTX, give what WGSL says; with and without
//! checks, for an old and a new target, in any order of threads.

mod common;

use common::launch::{Given, bytes, launch, words};
use common::{folder, shader, shader_of};
use naga_ptx::{Bounds, Options, ParamKind, Target, Uniforms, WorkgroupMemory, compile};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

const PLACES: usize = 64;
const SIZES: [usize; 4] = [64 * PLACES * 4, 16, 352, 32];

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

/// What invocation `i` must leave at each place.
fn expected(i: u32) -> Vec<(usize, u32)> {
    let f = i as f32;
    let mut out = vec![
        (0, 7 + i),
        (1, 0),
        (2, 0x8000_0000),
        (3, 0),
        (4, (-3_i32) as u32),
        (5, (-3_i32) as u32),
        (6, 1 << (i % 32)),
        (7, (-1024_i32 >> (i % 8)) as u32),
        (8, 0xf000_000f >> (i % 32)),
        (9, 0),
        (10, (-1_i32) as u32),
        (11, (f * 1.25) as u32),
        (12, (f - 32.0).to_bits()),
        (13, 11 + i % 4),
        (14, 50 - (11 + (i * 7) % 4) + 99),
        (15, 10 * (i % 5 + 1)),
    ];
    let mut v = [1, 2, 3, 4];
    v[i as usize % 4] += 10;
    out.push((16, v[0] * 1000 + v[1] * 100 + v[2] * 10 + v[3]));
    v.reverse();
    out.push((17, v[(i as usize + 1) % 4]));
    let mut m = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    m[i as usize % 3][i as usize % 2] = 50.0_f32;
    let mv = |row: usize| m[0][row] + 2.0 * m[1][row] + 3.0 * m[2][row];
    out.extend([(18, mv(0) as u32), (19, mv(1) as u32), (20, 4 + 8)]);
    let mut counter = 4;
    out.push((21, 2 * i + counter + 2 * i));
    if i.is_multiple_of(2) {
        counter += 5;
    }
    out.extend([(22, u32::from(i.is_multiple_of(2))), (23, counter)]);
    if !i.is_multiple_of(3) {
        counter += 7;
    }
    out.extend([(24, 1), (25, counter)]);
    let found = matches!(i % 10, 1 | 2) && i / 10 < 6;
    out.push((26, if found { i / 10 * 100 + i % 10 } else { 9999 }));
    out.push((
        27,
        match i {
            0 => 5,
            3 | 4 => 7 + i,
            5 => 55,
            1..=6 => 101 + i,
            _ => 1 + i,
        },
    ));
    let (mut sum, mut k) = (0, 0);
    loop {
        if k % 3 != 1 {
            if k > i {
                break;
            }
            sum += k;
        }
        k += 1;
        if k == 20 {
            break;
        }
    }
    out.push((28, sum * 100 + k));
    let (mut n, mut steps) = (i + 1, 0);
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    out.extend([(29, steps), (30, (63 - i) * (63 - i)), (31, 21 * 21 + 37 * 37)]);
    out.push((32, (3.0 * 10000.0 + (2.0 + f) * 100.0 + f) as u32 + i));
    out.push((33, 2 * (i % 3 + 1) * 1000 + 12 - 2 * (i % 3 + 1) + 100));
    out.push((34, i.count_ones() * 100 + i.leading_zeros() + i.trailing_zeros()));
    let first = |found: u32| if i == 0 { u32::MAX } else { found };
    out.push((35, first(31_u32.wrapping_sub(i.leading_zeros())).wrapping_add(first(i.trailing_zeros()))));
    out.push((36, first(31_u32.wrapping_sub(i.leading_zeros()))));
    let field = |from: u32, count: u32| {
        let from = from.min(32);
        (u64::from(from), u64::from(count.min(32 - from)))
    };
    let (from, count) = field(i % 40, 7);
    out.push((37, ((0x1234_5678_u64 >> from) & ((1 << count) - 1)) as u32));
    let (from, count) = field(i % 33, i % 9);
    let bits = (0x9234_5678_u64 >> from) & ((1 << count) - 1);
    let negative = count > 0 && bits >> (count - 1) & 1 == 1;
    out.push((38, if negative { (bits | !((1 << count) - 1)) as u32 } else { bits as u32 }));
    let (from, count) = field(i % 33, (i * 5) % 34);
    let mask = ((1_u64 << count) - 1) << from;
    out.push((39, ((0xffff_ffff & !mask) | (u64::from(i) << from & mask)) as u32));
    out.push((40, i.reverse_bits()));
    let bytes = (0x0102_0304 + i).to_le_bytes();
    out.push((41, bytes.iter().zip([8, 7, 6, 5]).map(|(&a, b)| u32::from(a) * b).sum()));
    out.push((42, u32::from_le_bytes([i as u8, i as u8 + 1, 44, 4])));
    out.push((43, (f * 0.5).round_ties_even().to_bits()));
    let x = f * 0.25 - 3.0;
    out.push((44, (x - x.floor()).to_bits()));
    out.push((45, (f - 32.0).clamp(-5.0, 7.0).to_bits()));
    out.push((46, if i == 32 { 0 } else { (f - 32.0).signum().to_bits() }));
    let x = f * 0.75 - 10.0;
    out.extend([(47, x.trunc().to_bits()), (48, (x - x.trunc()).to_bits()), (49, (f * 3.0).to_bits())]);
    out.push((50, ((f - 20.5) % 3.0).to_bits()));
    out.push((51, (f * 0.3 - 8.0).trunc().to_bits()));
    let step = f32::from(u8::from(f >= 10.0));
    out.push((52, (step + (f * -0.5).floor() + (f * 0.5).ceil()).to_bits()));
    let s = i as i32;
    out.push((53, ((s - 40).abs() + (s - 40).max(-3) + s.min(9) + 3) as u32));
    out.push((54, if [3, 5, 7].contains(&i) { 2 } else { 1 } + if i < 9 { 4 } else { 0 }));
    out.extend([(55, i + 4 * i), (56, 2 * i + 11)]);
    out.push((58, i));
    out
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
            let out = words(&out);
            let mut wrong = Vec::new();
            for i in 0..64 {
                for (place, value) in expected(i) {
                    let got = out[i as usize * PLACES + place];
                    // Zeros of either sign are equal where floats are.
                    let zeros = (43..=52).contains(&place) && (got | value) << 1 == 0;
                    if got != value && !zeros {
                        wrong.push(format!("r[{place}] of {i}: {got:#x}, not {value:#x}"));
                    }
                }
            }
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
        let [_, _, layout, _] = execute("main", &options, &RunOptions::strict());
        let layout = words(&layout);
        let f = f32::to_bits;
        let mut expected = vec![0; 88];
        let mut put = |at: usize, values: &[u32]| expected[at / 4..at / 4 + values.len()].copy_from_slice(values);
        put(0, &[1]);
        put(16, &[f(2.0), f(3.0), f(4.0), f(5.0)]);
        put(48, &[6, 7, 8]);
        put(64, &[f(1.0), f(2.0), f(3.0), 0, f(4.0), f(5.0), f(6.0), 0, f(7.0), f(8.0), f(9.0)]);
        put(112, &[9, 10]);
        put(128, &[11, 0, 0, 0, f(12.0), f(13.0), f(14.0), f(15.0)]);
        put(192, &[16, 0, 0, 0, f(17.0), f(18.0), f(19.0), f(20.0)]);
        put(224, &[21]);
        assert_eq!(layout, expected, "{options:?}");
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
