//! The proof that the measurement can fail: builtins that are slightly wrong, and must all be found to exceed their limits.

use polywarp::Device;

use super::builtins::Builtin;
use super::float::Type;
use super::measure::measure;

/// A builtin's name, the wrong expression in place of its first result, and the fault in words.
const BROKEN: [(&str, &str, &str); 11] = [
    ("exp(x)", "exp(a) * 1.000003814697265625", "64 ULP too large"),
    ("log(x)", "log(a) + 0.0000010", "two absolute errors too large"),
    ("sqrt(x)", "sqrt(a) * 1.00000190734863", "16 to 32 ULP too large"),
    ("cos(x)", "select(cos(a), 1.001, a == 0.0)", "wrong in one place"),
    ("sin(x)", "sin(a) * (1.0 + 0.000001 * f32(abs(a) > 20000.0))", "beyond 4 ULP above 20000"),
    ("round(x)", "floor(a + 0.5)", "ties upwards"),
    ("x + y", "bitcast<f32>(bitcast<u32>(a + b) + 2u)", "two floats too far"),
    ("min(x, y)", "select(min(a, b), max(a, b), a == 2.0)", "wrong for one operand"),
    ("dot(x, y), vec4", "dot(vec3<T>(a, b, c), vec3<T>(e, f, g))", "the last product missing"),
    ("pack4x8unorm(x)", "u32(255.0 * clamp(a, 0.0, 1.0))", "truncated instead of rounded"),
    ("i32(x)", "i32(floor(a))", "rounded down"),
];

/// The wrong builtins that were not found, or could not be run.
pub fn missed(device: &Device, builtins: &[Builtin]) -> Vec<String> {
    let mut missed = Vec::new();
    for (name, result, fault) in BROKEN {
        let Some(builtin) = builtins.iter().find(|builtin| builtin.name == name) else {
            missed.push(format!("{name}: there is no such builtin"));
            continue;
        };
        let mut broken = builtin.clone();
        broken.results[0] = result;
        let lines = measure(device, &broken, Type::F32, 8192);
        let found = lines.iter().any(|line| line.tally.over > 0);
        if let Some(why) = lines.iter().find_map(|line| line.refused.as_ref()) {
            missed.push(format!("{name} as `{result}`: {why}"));
        } else if !found {
            missed.push(format!("{name} as `{result}`: {fault}, and not found"));
        }
    }
    missed
}
