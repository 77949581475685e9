//! What is written last stays, and what is read is what was written before: random stores to the parts of vectors, the whole of
//! them, and reads between, in storage, workgroup and local memory, run on an interpreter of PTX. The compiler makes one access
//! of neighbours, and must not change their order where it matters.

use crate::common::launch::{Given, bytes, launch, words};
use crate::common::shader_of;
use naga_ptx::{Bounds, Options, Target};
use ptx_interpreter::RunOptions;

/// Vectors of memory that each shader writes, each by a sequence of its own.
const VECTORS: usize = 160;
/// Statements of a sequence.
const STEPS: usize = 7;

/// The statements of one vector as WGSL, and what they leave in it.
fn sequence(at: usize, ty: &str, random: &mut impl FnMut(usize) -> usize) -> (String, [u32; 4]) {
    let (mut text, mut left) = (String::new(), [0; 4]);
    let letters = ["x", "y", "z", "w"];
    for step in 0..STEPS {
        let (i, from) = (random(4), random(16));
        match random(10) {
            // The whole, of values that differ.
            0 => {
                text += &format!("    m[{at}] = vec4<{ty}>(vec4(x[{from}], 50u, x[{i}], 60u));\n");
                left = [value(from), 50, value(i), 60];
            }
            // What was written is read, and written elsewhere.
            1 => {
                let to = random(4);
                text += &format!(
                    "    let a{at}_{step} = m[{at}].{};\n    m[{at}].{} = a{at}_{step};\n",
                    letters[i], letters[to]
                );
                left[to] = left[i];
            }
            _ => {
                text += &format!("    m[{at}].{} = {ty}(x[{from}]);\n", letters[i]);
                left[i] = value(from);
            }
        }
    }
    (text, left)
}

/// The element `at` of `x`.
fn value(at: usize) -> u32 {
    100 + 3 * at as u32
}

/// A shader for memory declared as `memory` in the module or the function, and what must be in `out`.
fn program(memory: &str, in_function: bool, ty: &str, seed: u64) -> (String, Vec<u32>) {
    let mut state = seed;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut text, mut expected) = (String::new(), Vec::new());
    for at in 0..VECTORS {
        let (statements, left) = sequence(at, ty, &mut random);
        text += &statements;
        expected.extend(left);
    }
    let declared = format!("{memory} m: array<vec4<{ty}>, {VECTORS}>;");
    let (outside, inside) = if in_function { ("", declared.as_str()) } else { (declared.as_str(), "") };
    let enable = if ty == "f16" { "enable f16;" } else { "" };
    let source = format!(
        "{enable}
@group(0) @binding(0) var<storage, read_write> out: array<vec4<u32>, {VECTORS}>;
@group(0) @binding(1) var<storage, read> x: array<u32, 16>;
{outside}
@compute @workgroup_size(1) fn main() {{
    {inside}
{text}
    for (var i = 0u; i < {VECTORS}u; i++) {{ out[i] = vec4<u32>(m[i]); }}
}}"
    );
    (source, expected)
}

#[test]
fn the_last_store_to_a_place_stays() {
    let spaces = [
        ("@group(0) @binding(2) var<storage, read_write>", false),
        ("var<workgroup>", false),
        ("var<private>", false),
        ("var", true),
    ];
    let given = Given {
        buffers: vec![vec![0; 16 * VECTORS], bytes(&(0..16).map(value).collect::<Vec<_>>()), vec![0; 32 * VECTORS]],
        ..Given::default()
    };
    let mut compared = 0;
    for (number, (memory, in_function)) in spaces.into_iter().enumerate() {
        for ty in ["u32", "f32", "f16", "u64", "f64"] {
            let (source, expected) = program(memory, in_function, ty, number as u64);
            let shader = shader_of(format!("{memory} {ty}"), &source);
            for bounds in [Bounds::Clamp, Bounds::Trust] {
                let options = Options { bounds, target: Target::new(9, 0), ..Options::default() };
                let after = launch(&shader, &options, &RunOptions::strict(), &given).unwrap();
                let out = words(&after[0]);
                let wrong: Vec<usize> = (0..VECTORS).filter(|i| out[4 * i..][..4] != expected[4 * i..][..4]).collect();
                assert!(wrong.is_empty(), "{memory} {ty}: {} of {VECTORS} vectors wrong: {wrong:?}", wrong.len());
                compared += VECTORS;
            }
        }
    }
    assert_eq!(compared, 4 * 5 * 2 * VECTORS);
}

/// A variable in a loop starts as zero in every round, however large it is; and a value of zero leaves the padding alone.
#[test]
fn large_variables_in_loops_are_zero_again() {
    let source = "
struct Padded { v: array<vec3<u32>, 20>, last: u32 }
@group(0) @binding(0) var<storage, read_write> a: array<u32, 4>;
@group(0) @binding(1) var<storage, read_write> p: Padded;
@compute @workgroup_size(1) fn main() {
    for (var r = 0u; r < a[0]; r++) {
        var big: array<u32, 20000>;
        big[a[1] + r] += 1u;
        big[19999u - r] += 1u;
        a[2] += big[a[1]] + big[19999];
    }
    p = Padded();
}";
    let shader = shader_of("large".to_owned(), source);
    let options = Options { target: Target::new(9, 0), ..Options::default() };
    let given = Given { buffers: vec![bytes(&[3, 5, 0, 0]), vec![0xab; 336]], ..Given::default() };
    let after = launch(&shader, &options, &RunOptions::strict(), &given).unwrap();
    assert_eq!(words(&after[0]), [3, 5, 2, 0]);
    let padded = words(&after[1]);
    assert!((0..80).all(|i| padded[i] == if i % 4 == 3 { 0xabab_abab } else { 0 }), "{padded:?}");
    assert_eq!(padded[80..], [0, 0xabab_abab, 0xabab_abab, 0xabab_abab]);
}
