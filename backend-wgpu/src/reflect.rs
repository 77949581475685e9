//! What a user's WGSL declares, found by naga before any driver sees it.
//!
//! Text is guarded first: naga and the drivers' compilers recurse with the nesting of a shader, and a stack that
//! overflows ends the process. So size, bracket depth and length of expressions are limited by one pass over the text,
//! and everything that parses or compiles runs on a thread with a large stack, where a panic of naga (its validator is
//! not free of them) becomes an error. Uses no GPU; running the kernel is `user.rs`.

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess, TypeInner};
use polywarp_core::{Error, Kernel, Result};

use crate::fault::one_line;

/// Longest source. Hand-written kernels have kilobytes, generated ones a few hundred.
const MOST_SOURCE_BYTES: u64 = 4 << 20;
/// Deepest bracket. naga gives up at 200 levels of its own, some of which come without a bracket.
const MOST_DEPTH: u64 = 100;
/// Most operators between two separators, each of which may nest the one before it.
const MOST_OPERATORS: u64 = 4096;
/// Most `else` branches: a chain of them nests as deep as it is long.
const MOST_ELSE: u64 = 2048;
/// Most bytes of private variables and locals: eight times what WGSL guarantees (8192, "Limits"). Software drivers put
/// them on the stack.
const MOST_PRIVATE_BYTES: u64 = 64 << 10;
/// Stack for parsing and compiling; address space only until it is used.
#[cfg(not(target_arch = "wasm32"))]
const STACK_BYTES: usize = 256 << 20;

/// How a declared resource is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Uniform,
    Read,
    ReadWrite,
}

/// One resource that the entry point uses.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) name: String,
    pub(crate) bound: Bound,
    /// Bytes it needs at least, one element of a runtime-sized array included.
    pub(crate) min_bytes: u64,
}

/// A kernel that parses, validates and has the entry point asked for.
#[derive(Clone, Debug)]
pub(crate) struct Reflection {
    pub(crate) entry: String,
    /// Used by the entry point, by group and binding.
    pub(crate) used: Vec<Declared>,
    /// Every `@group @binding` of the module, used or not.
    pub(crate) declared: Vec<(u32, u32)>,
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) workgroup_bytes: u64,
}

/// Parses and validates `kernel` against what the device's shaders may use.
pub(crate) fn reflect(device: &str, kernel: &Kernel, capabilities: Capabilities) -> Result<Reflection> {
    guard(&kernel.wgsl)?;
    let source = kernel.wgsl.as_str();
    let module = naga::front::wgsl::parse_str(source).map_err(|error| parse_error(&error, source))?;
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module).map_err(|error| {
        let place = error.location(source);
        shader_error(place.map(|at| (at.line_number, at.line_position)), &with_causes(error.as_inner()))
    })?;
    let entry = choose_entry(&module, kernel.entry.as_deref())?;
    for (name, _) in &kernel.defines {
        let named = |o: &naga::Override| match o.id {
            Some(id) => *name == id.to_string(),
            None => o.name.as_ref() == Some(name),
        };
        if !module.overrides.iter().any(|(_, o)| named(o)) {
            return Err(shader_error(None, &format!("no `override` declaration is named `{name}`")));
        }
    }
    let mut reflection = specialised(device, &module, &info, &entry, &kernel.defines)?;
    // Taken from the module as written: what the entry point does not use is gone from the specialised one.
    let bindings = module.global_variables.iter().filter_map(|(_, variable)| variable.binding);
    reflection.declared = bindings.map(|at| (at.group, at.binding)).collect();
    Ok(reflection)
}

/// Runs `work` where it may recurse deeply and panic.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("polywarp-compile".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, work) {
            Ok(running) => running.join().unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                Err(shader_error(None, &format!("the shader compiler failed on this shader: {}", one_line(text))))
            }),
            Err(error) => Err(shader_error(None, &format!("no thread to compile on: {error}"))),
        }
    })
}

/// Runs `work`: browsers compile in a process of their own, and there are no threads.
#[cfg(target_arch = "wasm32")]
pub(crate) fn with_deep_stack<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    work()
}

pub(crate) fn shader_error(place: Option<(u32, u32)>, message: &str) -> Error {
    let (line, column) = place.unwrap_or((0, 0));
    Error::Shader { line, column, message: one_line(message) }
}

fn parse_error(error: &naga::front::wgsl::ParseError, source: &str) -> Error {
    if error.notes().any(|note| note.contains("recursion limit")) {
        return Error::ShaderTooComplex { what: "nesting depth", found: 200, limit: 200 };
    }
    let place = error.location(source).map(|at| (at.line_number, at.line_position));
    shader_error(place, error.message())
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

fn choose_entry(module: &Module, wanted: Option<&str>) -> Result<String> {
    let compute = || module.entry_points.iter().filter(|entry| entry.stage == ShaderStage::Compute);
    let names: Vec<&str> = compute().map(|entry| entry.name.as_str()).collect();
    match (wanted, names.as_slice()) {
        (Some(wanted), names) if names.contains(&wanted) => Ok(wanted.to_owned()),
        (Some(wanted), names) => {
            Err(shader_error(None, &format!("no compute entry point is named `{wanted}`; there are {names:?}")))
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, []) => Err(shader_error(None, "there is no compute entry point (`@compute @workgroup_size(..) fn ..`)")),
        (None, names) => Err(shader_error(None, &format!("choose one of the entry points {names:?}"))),
    }
}

/// Reflection with overrides resolved, so that sizes that depend on them are known.
#[cfg(not(target_arch = "wasm32"))]
fn specialised(
    device: &str,
    module: &Module,
    info: &ModuleInfo,
    entry: &str,
    defines: &[(String, f64)],
) -> Result<Reflection> {
    let mut constants = naga::back::PipelineConstants::default();
    constants.extend(defines.iter().cloned());
    let stage = Some((ShaderStage::Compute, entry));
    let (module, info) = naga::back::pipeline_constants::process_overrides(module, info, stage, &constants)
        .map_err(|error| shader_error(None, &with_causes(&error)))?;
    describe(device, &module, &info, entry)
}

/// Reflection; the browser resolves overrides itself.
#[cfg(target_arch = "wasm32")]
fn specialised(
    device: &str,
    module: &Module,
    info: &ModuleInfo,
    entry: &str,
    _defines: &[(String, f64)],
) -> Result<Reflection> {
    describe(device, module, info, entry)
}

fn describe(device: &str, module: &Module, info: &ModuleInfo, entry: &str) -> Result<Reflection> {
    let index = module.entry_points.iter().position(|e| e.stage == ShaderStage::Compute && e.name == entry);
    let Some(index) = index else {
        return Err(shader_error(None, &format!("entry point `{entry}` vanished when overrides were resolved")));
    };
    let uses = info.get_entry_point(index);
    let mut reflection = Reflection {
        entry: entry.to_owned(),
        used: Vec::new(),
        declared: Vec::new(),
        workgroup_size: module.entry_points[index].workgroup_size,
        workgroup_bytes: 0,
    };
    let mut private_bytes = local_bytes(module);
    for (handle, variable) in module.global_variables.iter() {
        let size = size_of(module, variable.ty);
        let used = !uses[handle].is_empty();
        let bound = match variable.space {
            AddressSpace::Uniform => Bound::Uniform,
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => Bound::ReadWrite,
            AddressSpace::Storage { .. } => Bound::Read,
            AddressSpace::WorkGroup => {
                if used {
                    // wgpu counts each variable in units of 16 bytes.
                    let size = size.checked_next_multiple_of(16).unwrap_or(u64::MAX);
                    reflection.workgroup_bytes = reflection.workgroup_bytes.saturating_add(size);
                }
                continue;
            }
            AddressSpace::Private => {
                private_bytes = private_bytes.saturating_add(size);
                continue;
            }
            _ if !used => continue,
            _ => {
                let name = variable.name.as_deref().unwrap_or("a global variable");
                let reason = format!("`{name}` is not a buffer; kernels bind uniform and storage buffers only");
                return Err(Error::Unsupported { device: device.to_owned(), what: "this shader".to_owned(), reason });
            }
        };
        let (Some(at), true) = (&variable.binding, used) else { continue };
        if matches!(module.types[variable.ty].inner, TypeInner::BindingArray { .. }) {
            let reason = "arrays of bindings are not available".to_owned();
            return Err(Error::Binding { group: at.group, binding: at.binding, reason });
        }
        reflection.used.push(Declared {
            group: at.group,
            binding: at.binding,
            name: variable.name.clone().unwrap_or_default(),
            bound,
            min_bytes: size,
        });
    }
    reflection.used.sort_by_key(|d| (d.group, d.binding));
    if private_bytes > MOST_PRIVATE_BYTES {
        let kind = "bytes of private variables";
        return Err(Error::ResourceLimit {
            device: device.to_owned(),
            kind,
            requested: private_bytes,
            max: MOST_PRIVATE_BYTES,
        });
    }
    Ok(reflection)
}

/// Bytes of all local variables: functions are inlined more often than not.
fn local_bytes(module: &Module) -> u64 {
    let entries = module.entry_points.iter().map(|entry| &entry.function);
    let functions = module.functions.iter().map(|(_, function)| function).chain(entries);
    let locals = functions.flat_map(|function| function.local_variables.iter().map(|(_, local)| local.ty));
    locals.fold(0, |sum: u64, ty| sum.saturating_add(size_of(module, ty)))
}

fn size_of(module: &Module, ty: naga::Handle<naga::Type>) -> u64 {
    module.types[ty].inner.try_size(module.to_ctx()).map_or(u64::MAX, u64::from)
}

/// Refuses text that could exhaust the stack of a compiler. Comments do not count.
fn guard(source: &str) -> Result<()> {
    let too_complex = |what, found, limit| Err(Error::ShaderTooComplex { what, found, limit });
    if source.len() as u64 > MOST_SOURCE_BYTES {
        return too_complex("source bytes", source.len() as u64, MOST_SOURCE_BYTES);
    }
    let bytes = source.as_bytes();
    let (mut depth, mut deepest, mut operators, mut most_operators, mut elses) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with(b"/*") {
            at += comment_len(rest);
            continue;
        }
        if rest.starts_with(b"else") {
            elses += 1;
        }
        match bytes[at] {
            b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
                operators = if bytes[at] == b'[' { operators + 1 } else { 0 };
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if bytes[at] == b'}' {
                    operators = 0;
                }
            }
            b';' | b',' => operators = 0,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'!' | b'~' | b'<' | b'>' | b'=' | b'.' => {
                operators += 1;
                most_operators = most_operators.max(operators);
            }
            _ => {}
        }
        at += 1;
    }
    if deepest > MOST_DEPTH {
        return too_complex("nesting depth", deepest, MOST_DEPTH);
    }
    if most_operators > MOST_OPERATORS {
        return too_complex("operators in one expression", most_operators, MOST_OPERATORS);
    }
    if elses > MOST_ELSE {
        return too_complex("number of `else` branches", elses, MOST_ELSE);
    }
    Ok(())
}

/// Length of the block comment that `text` starts with; they nest in WGSL.
fn comment_len(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0u32, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reflect_text(wgsl: &str) -> Result<Reflection> {
        with_deep_stack(|| reflect("test", &Kernel::wgsl(wgsl), Capabilities::empty()))
    }

    #[test]
    fn reflect_reports_bindings_and_sizes() {
        let text = "
            struct P { n: u32, k: vec3<f32> }
            override WIDTH: u32 = 4;
            @group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
            @group(1) @binding(0) var<storage, read_write> y: array<f32>;
            @group(0) @binding(7) var<storage, read_write> unused: array<f32>;
            @group(0) @binding(0) var<uniform> p: P;
            var<workgroup> tile: array<f32, WIDTH>;
            @compute @workgroup_size(WIDTH, 2) fn go() { tile[0] = x[p.n].x; y[0] = tile[0]; }";
        let r = with_deep_stack(|| reflect("test", &Kernel::wgsl(text).define("WIDTH", 33.0), Capabilities::empty()));
        let r = r.unwrap();
        let used: Vec<_> = r.used.iter().map(|d| (d.group, d.binding, d.bound, d.min_bytes)).collect();
        assert_eq!(used, [(0, 0, Bound::Uniform, 32), (0, 2, Bound::Read, 16), (1, 0, Bound::ReadWrite, 4)]);
        assert_eq!((r.workgroup_size, r.workgroup_bytes, r.declared.len()), ([33, 2, 1], 144, 4));
    }

    #[test]
    fn reflect_points_at_the_fault() {
        let at = |text: &str| match reflect_text(text) {
            Err(Error::Shader { line, column, message }) => (line, column, message),
            other => panic!("{other:?}"),
        };
        let (line, column, message) = at("@compute @workgroup_size(1)\nfn main() { let x = ; }");
        assert_eq!((line, column), (2, 21), "{message}");
        let (line, _, message) = at("@compute @workgroup_size(1)\nfn main() {\n  let x: f32 = 1u;\n}");
        assert_eq!(line, 3, "{message}");
        let (line, _, message) = at("");
        assert!(line == 0 && message.contains("entry point"), "{message}");
    }

    #[test]
    fn guard_limits_what_nests_and_skips_comments() {
        let body = |inner: &str| format!("@compute @workgroup_size(1) fn main() {{ var x = {inner}; }}");
        let what = |text: &str| match reflect_text(text) {
            Err(Error::ShaderTooComplex { what, found, limit }) if found >= limit => what,
            other => panic!("{:?}", other.map(|r| r.entry)),
        };
        let deep = |n: usize| format!("{}1{}", "(".repeat(n), ")".repeat(n));
        assert_eq!(what(&body(&deep(100_000))), "nesting depth");
        assert_eq!(what(&body(&format!("{}1", "1+".repeat(100_000)))), "operators in one expression");
        let nested = format!("alias T = {}f32{};", "array<".repeat(300), ",1>".repeat(300));
        assert_eq!(what(&format!("{nested} {}", body("1"))), "nesting depth");
        assert_eq!(what(&" ".repeat(5 << 20)), "source bytes");
        let chain = format!("if (x == 0) {{}} {}", "else if (x == 1) {} ".repeat(100_000));
        assert_eq!(what(&format!("fn f(x: i32) {{ {chain} }}")), "number of `else` branches");
        let comments = format!("// {}\n/* {} /* */ */", "(".repeat(1000), "[".repeat(1000));
        assert!(reflect_text(&format!("{comments}{}", body(&deep(40)))).is_ok());
    }
}
