//! For tests: what naga says of a kernel's text, given the features a device has.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::harness::Part;
use naga::valid::{Capabilities, FunctionInfo, ValidationFlags, Validator};
use naga::{BinaryOperator, Expression, Function, Module, ScalarKind};

use crate::plan::{Caps, Cooperative};
use crate::plan::{KernelKey, Launch};

/// A device with every optional feature.
pub(crate) fn full_caps() -> Caps {
    Caps {
        f16: true,
        f64: true,
        i64: true,
        subgroups: Some((32, 32)),
        max_workgroup_bytes: 48 << 10,
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        ..Caps::webgpu_defaults("test")
    }
}

/// What naga may find in kernels of a device with `caps`.
fn allowed(caps: &Caps) -> Capabilities {
    let mut allowed = Capabilities::empty();
    allowed.set(Capabilities::SHADER_FLOAT16, caps.f16);
    // Every backend has it; kernels use it where conversions are the device's own.
    allowed.set(Capabilities::SHADER_FLOAT16_IN_FLOAT32, caps.f16);
    allowed.set(Capabilities::FLOAT64, caps.f64);
    allowed.set(Capabilities::SHADER_INT64, caps.i64);
    allowed.set(Capabilities::SUBGROUP, caps.subgroups.is_some());
    allowed.set(Capabilities::COOPERATIVE_MATRIX, !caps.cooperative.is_empty());
    allowed
}

/// Parses and validates `wgsl` with the capabilities that `caps` implies and no others. `!=` between floats is refused as
/// well: naga 30 makes `OpFOrdNotEqual` of it, which is false with a NaN.
pub(crate) fn validate(wgsl: &str, caps: &Caps) -> Result<Module, String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| e.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), allowed(caps));
    let info = validator.validate(&module).map_err(|e| e.emit_to_string(wgsl))?;
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    let entries = module.entry_points.iter().enumerate().map(|(i, entry)| (&entry.function, info.get_entry_point(i)));
    let unequal = functions.chain(entries).find_map(|(function, info)| float_inequality(&module, function, info));
    match unequal {
        Some(span) => {
            let (line, text) = (span.location(wgsl).line_number, &wgsl[span.to_range().unwrap_or(0..0)]);
            Err(format!("line {line}: `{text}` is false with a NaN on Vulkan: write !(a == b)"))
        }
        None => Ok(module),
    }
}

/// Where floats are compared by `!=`.
fn float_inequality(module: &Module, function: &Function, info: &FunctionInfo) -> Option<naga::Span> {
    let is_float =
        |of: naga::Handle<Expression>| info[of].ty.inner_with(&module.types).scalar_kind() == Some(ScalarKind::Float);
    function.expressions.iter().find_map(|(handle, expression)| match *expression {
        Expression::Binary { op: BinaryOperator::NotEqual, left, .. } if is_float(left) => {
            Some(function.expressions.get_span(handle))
        }
        _ => None,
    })
}

/// Texts that some test of this process found valid, each with the features that were enough.
static VALID: LazyLock<Mutex<HashMap<String, Vec<Capabilities>>>> = LazyLock::new(Mutex::default);

/// Whether a kernel is looked at today: a fifth of all are, so that each meets every device that takes turns of two or three days. Every kernel
/// that changes is, with `POLYWARP_TEST_PART=all`.
fn is_of_today(kernel: &KernelKey) -> bool {
    static TODAY: LazyLock<Part> = LazyLock::new(|| Part::today(5));
    let mut hasher = DefaultHasher::new();
    kernel.hash(&mut hasher);
    TODAY.takes(hasher.finish())
}

fn lock() -> MutexGuard<'static, HashMap<String, Vec<Capabilities>>> {
    VALID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kernels that were found valid, each looked at once for devices of the same features.
#[derive(Default)]
pub(crate) struct Validated {
    seen: HashSet<(KernelKey, u64)>,
}

impl Validated {
    /// Panics where a kernel of `launches` is not valid on a device with `caps`, is not given what it binds, or makes more rounds of
    /// loops than it says.
    pub(crate) fn check<'l>(&mut self, launches: impl IntoIterator<Item = &'l Launch>, caps: &Caps) {
        let features = allowed(caps);
        for launch in launches {
            if !self.seen.insert((launch.kernel.clone(), features.bits())) || !is_of_today(&launch.kernel) {
                continue;
            }
            let source = launch.kernel.source();
            assert_eq!(source.bindings.len(), launch.bindings.len(), "{}", source.name);
            // What is valid with fewer features is valid with more.
            let known = |list: &Vec<Capabilities>| list.iter().any(|enough| features.contains(*enough));
            if lock().get(&source.wgsl).is_some_and(known) {
                continue;
            }
            let module = validate(&source.wgsl, caps);
            let module = module.unwrap_or_else(|message| panic!("{}: {message}\n{}", source.name, source.wgsl));
            let found = naga_loops::of_entry(&module, 0);
            let counted = launch.kernel.loop_rounds(&launch.params);
            assert!(counted >= found.certain, "{}: {counted} of {found:?}\n{}", source.name, source.wgsl);
            let any = found.certain > 0 || found.unknown.is_some();
            assert!(counted > 0 || !any, "{}: loops that are not counted\n{}", source.name, source.wgsl);
            lock().entry(source.wgsl).or_default().push(features);
        }
    }

    /// How many different ones there were.
    pub(crate) fn kernels(&self) -> usize {
        self.seen.iter().map(|(kernel, _)| kernel).collect::<HashSet<_>>().len()
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{BenchSize, Level};
    use crate::ops::REGISTRY;

    use super::*;
    use crate::ops::candidates;

    #[test]
    fn inequality_of_floats_is_found_wherever_it_stands() {
        let caps = full_caps();
        let main = |body: &str| {
            format!(
                "var<private> v: vec4<f64>;\n@compute @workgroup_size(1)\nfn main() {{\n    let x = v.x;\n    {body}\n}}"
            )
        };
        for fault in
            ["let y = x != 1.0lf;", "if any(v != vec4<f64>(0.0lf)) { v.y = x; }", "let y = f32(x) != f32(v.y);"]
        {
            let message = validate(&main(fault), &caps).unwrap_err();
            assert!(message.starts_with("line 5: `") && message.contains("write !(a == b)"), "{message}");
        }
        let function = format!("fn f(a: f32) -> bool {{ return a != 0.0; }}\n{}", main("let y = f(f32(x));"));
        assert!(validate(&function, &caps).unwrap_err().starts_with("line 1: `a != 0.0`"));
        for right in ["let y = !(x == 1.0lf);", "let y = i32(x) != 1;", "let y = (x == v.y) != (x < v.y);"] {
            assert!(validate(&main(right), &caps).is_ok(), "{right}");
        }
    }

    /// What planners make of every case of the registry, for devices with everything and with nothing that is
    /// optional.
    #[test]
    fn kernels_of_every_case_are_valid_and_count_their_loops() {
        let without = Caps { cooperative: Vec::new(), f16: false, ..full_caps() };
        // One device a day: they take a minute each.
        let today = Part::today(3);
        let devices = (0..).zip([Caps::webgpu_defaults("test"), without, full_caps()]);
        for (_, caps) in devices.filter(|(number, _)| today.is_turn_of(*number)) {
            let mut validated = Validated::default();
            for family in REGISTRY {
                let cases = (family.cases)(Level::Quick).into_iter().map(|case| case.op);
                let benches = (family.benches)(BenchSize::Normal).into_iter().map(|case| case.op);
                for op in cases.chain(benches).filter(|op| op.output().layout.elements() > 0) {
                    // What a device lacks is for other tests.
                    for candidate in candidates(&op, &caps).unwrap_or_default() {
                        validated.check(&candidate.plan.launches, &caps);
                    }
                }
            }
            assert!(validated.kernels() > 1000, "{} kernels", validated.kernels());
        }
    }
}
