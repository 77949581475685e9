//! The text of a map kernel: `Params`, buffers, `body` (the program), `quad` (how four elements are gathered), and
//! `wgsl/map.wgsl` around them. Plain WGSL that can be read; constants and extents are members of `Params`.

use std::fmt::Write;

use crate::{DType, Step, UnaryFn};

use super::{Kernel, Mode, Output, guards};
use crate::ops::random::plan as random;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;

const LANES: [&str; 4] = ["x", "y", "z", "w"];

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut text = String::new();
    // Formatting into a String cannot fail.
    let _ = write_kernel(kernel, &mut text);
    let functions = math::library(&text);
    let elements: Vec<Element> = kernel
        .inputs
        .iter()
        .map(|input| input.0)
        .chain(kernel.outputs().map(|output| output.element))
        .chain(kernel.steps.iter().map(|step| step.1))
        .collect();
    let mut bindings = vec![Access::Read; kernel.inputs.len()];
    bindings.extend(kernel.outputs().map(|_| Access::ReadWrite));
    Source { name: name(kernel), wgsl: element::prelude(&elements) + &text + &functions, bindings }
}

/// `map_` and what the first result's step does, with its dtype; behind it how many results there are, where there are several.
fn name(kernel: &Kernel) -> String {
    let what = match kernel.steps.get(usize::from(kernel.output.step)).map(|s| s.0) {
        Some(Step::Unary(f, _)) => f.name(),
        Some(Step::Binary(f, ..)) => f.name(),
        Some(Step::Compare(f, ..)) => f.name(),
        Some(Step::Select(..)) => "where",
        Some(Step::Cast(_)) => "cast",
        Some(Step::Index) => "index",
        Some(Step::Random(_)) => "random",
        Some(Step::Constant(_)) => "fill",
        Some(Step::Input(_)) | None => "copy",
    };
    let name = format!("map_{what}_{}_{}steps", kernel.output.element.dtype(), kernel.steps.len());
    let results =
        if kernel.others.is_empty() { String::new() } else { format!("_{}results", kernel.outputs().count()) };
    let updates = if kernel.updates == 0 { String::new() } else { format!("_{}updates", kernel.updates) };
    name + &results + &updates
}

/// The array of output `number`.
fn y(kernel: &Kernel, number: usize) -> String {
    if kernel.others.is_empty() { "y".to_owned() } else { format!("y{number}") }
}

/// The type of one element of all results, and of four.
fn result_types(kernel: &Kernel) -> [String; 2] {
    if kernel.others.is_empty() {
        return [kernel.output.element.scalar().to_owned(), kernel.output.element.vector()];
    }
    ["Results".to_owned(), "Quad".to_owned()]
}

/// What the program reads as an input: its value is `x{number}`, its elements come from `array`.
struct Operand {
    array: String,
    element: Element,
    mode: Mode,
}

/// Inputs, then outputs that are updated.
fn operands(kernel: &Kernel) -> Vec<Operand> {
    let inputs = kernel.inputs.iter().enumerate();
    let inputs = inputs.map(|(i, &(element, mode))| Operand { array: format!("x{i}"), element, mode });
    let updated = kernel.outputs().enumerate().take(kernel.updates).map(|(number, output)| {
        let mode = if output.form == Form::Quad { Mode::Dense } else { Mode::Beside };
        Operand { array: y(kernel, number), element: output.element, mode }
    });
    inputs.chain(updated).collect()
}

fn write_kernel(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "const THREADS = {}u;\nconst ITEMS = {}u;", kernel.threads, kernel.items)?;
    if kernel.others.is_empty() {
        writeln!(out, "alias Quad = {};\n", kernel.output.element.vector())?;
    } else {
        let members = |of: fn(Element) -> String| {
            let all = kernel.outputs().enumerate();
            all.map(|(number, output)| format!("    y{number}: {},\n", of(output.element))).collect::<String>()
        };
        writeln!(out, "struct Quad {{\n{}}}", members(Element::vector))?;
        writeln!(out, "struct Results {{\n{}}}\n", members(|element| element.scalar().to_owned()))?;
    }
    write_params(kernel, out)?;
    for (i, &(element, mode)) in kernel.inputs.iter().enumerate() {
        let form = match mode {
            Mode::Dense | Mode::Rows => Form::Quad,
            Mode::Uniform | Mode::Splat | Mode::Gather | Mode::Beside => Form::Scalar,
        };
        out.push_str(&element.storage(i as u32 + 1, &format!("x{i}"), form, Access::Read));
    }
    for (number, output) in kernel.outputs().enumerate() {
        let binding = (kernel.inputs.len() + number) as u32 + 1;
        out.push_str(&output.element.storage(binding, &y(kernel, number), output.form, Access::ReadWrite));
    }
    out.push('\n');
    write_body(kernel, out)?;
    if kernel.rank == 0 || kernel.whole_rows {
        write_quad(kernel, out)?;
    } else {
        write_broken_quad(kernel, out)?;
    }
    write_stores(kernel, out)?;
    out.push_str(match kernel.updates {
        0 => include_str!("../../../../wgsl/map.wgsl"),
        _ => include_str!("../../../../wgsl/map_update.wgsl"),
    });
    out.push('\n');
    Ok(())
}

/// The members in the order the planner lays them out.
fn write_params(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "struct Params {{")?;
    writeln!(
        out,
        "    quads: u32,\n    tail: u32,   // elements of a short last quad\n    last: u32,   // last element"
    )?;
    for number in 0..=kernel.others.len() {
        writeln!(out, "    {}_offset: u32,", y(kernel, number))?;
    }
    if kernel.is_guarded() {
        writeln!(out, "    zero0: u32,   // 0, as no compiler knows")?;
        writeln!(out, "    zero1: u32,")?;
    }
    for dim in 0..kernel.rank {
        writeln!(out, "    d{dim}: u32,")?;
    }
    for (i, (_, mode)) in kernel.inputs.iter().enumerate() {
        writeln!(out, "    x{i}_offset: u32,")?;
        if matches!(mode, Mode::Rows | Mode::Splat | Mode::Gather) {
            for dim in 0..kernel.rank {
                writeln!(out, "    x{i}_s{dim}: u32,")?;
            }
        }
    }
    for (constant, element) in kernel.constants() {
        writeln!(out, "    c{constant}: {},", element.param_type())?;
    }
    writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")
}

/// `x` behind an operation that changes nothing, as a compiler cannot know: see `guards.rs`.
pub(crate) const OPAQUE: &str = "\
fn opaque_f32(x: f32, zero: u32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero);
}

";

/// The same of f64.
pub(crate) const OPAQUE_F64: &str = "\
fn opaque_f64(x: f64, zero: u32) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ u64(zero));
}

";

/// The same where there are no 64-bit integers. NVIDIA's driver sees through a choice: it takes a loop whose condition
/// does not change apart, and has no NaN where arithmetic is equal to itself.
pub(crate) const OPAQUE_F64_CHOSEN: &str = "\
fn opaque_f64(x: f64, zero: u32) -> f64 {
    return select(x, f64(zero), zero != 0u);
}

";

/// One element of the result from one element of each input.
fn write_body(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let wide = if kernel.wide_integers { OPAQUE_F64 } else { OPAQUE_F64_CHOSEN };
    for (dtype, function) in [(DType::F32, OPAQUE), (DType::F64, wide)] {
        if guards::any(&kernel.steps, Some(dtype)) {
            out.push_str(function);
        }
    }
    let random = kernel.steps.iter().filter(|(step, _)| matches!(step, Step::Random(_))).count();
    if random > 0 {
        out.push_str(&random::philox(kernel.wide_integers));
    }
    if random > shared_blocks(kernel).count() {
        out.push_str(RANDOM_WORD);
    }
    let operands = operands(kernel).into_iter().enumerate();
    let mut parameters: Vec<String> =
        operands.map(|(i, operand)| format!("x{i}: {}", operand.element.scalar())).collect();
    parameters.push("index: u32".to_owned());
    parameters.extend(shared_blocks(kernel).map(|(id, _)| format!("bits{id}: u32")));
    let [results, _] = result_types(kernel);
    writeln!(out, "fn body({}) -> {results} {{", parameters.join(", "))?;
    for (id, &(step, element)) in kernel.steps.iter().enumerate() {
        let text = match step {
            Step::Unary(UnaryFn::Exp, x) if rounded_exp(kernel, id, x) => format!("exp_half_f32(s{x})"),
            Step::Random(key) if shared_key(kernel, key).is_some() => format!("bits{id}"),
            _ => kernel.body().step(id, step, element),
        };
        writeln!(out, "    let s{id} = {text};")?;
    }
    let results: Vec<String> = kernel.outputs().map(|output| format!("s{}", output.step)).collect();
    match results.as_slice() {
        [one] => writeln!(out, "    return {one};\n}}\n"),
        several => writeln!(out, "    return Results({});\n}}\n", several.join(", ")),
    }
}

/// Random bits of one element, where its neighbours may have other keys: a block of four for one word.
const RANDOM_WORD: &str = "\
fn random_word(index: u32, seed_low: u32, seed_high: u32, stream_low: u32, stream_high: u32) -> u32 {
    return philox(vec4<u32>(index >> 2u, 0u, stream_low, stream_high), vec2<u32>(seed_low, seed_high))[index & 3u];
}

";

/// The texts of a key's words within `quad`, where they are one for all elements: constants, and inputs that are one element.
fn shared_key(kernel: &Kernel, key: [u16; 4]) -> Option<[String; 4]> {
    let mut words = [const { String::new() }; 4];
    for (word, id) in words.iter_mut().zip(key) {
        let (step, element) = kernel.steps[usize::from(id)];
        *word = match step {
            Step::Input(n) if kernel.inputs.get(usize::from(n))?.1 == Mode::Uniform => format!("v{n}"),
            Step::Constant(n) => element.param_value(&format!("params.c{n}")),
            _ => return None,
        };
    }
    Some(words)
}

/// The steps that give random bits by one key for all elements: a quad of the output is one block of four words.
fn shared_blocks(kernel: &Kernel) -> impl Iterator<Item = (usize, [String; 4])> + '_ {
    kernel.steps.iter().enumerate().filter_map(|(id, (step, _))| match step {
        Step::Random(key) => Some((id, shared_key(kernel, *key)?)),
        _ => None,
    })
}

/// `bits3`: the block of step 3 for quad `q`.
fn write_shared_blocks(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    for (id, [seed_low, seed_high, stream_low, stream_high]) in shared_blocks(kernel) {
        let counter = format!("vec4<u32>(q, 0u, {stream_low}, {stream_high})");
        writeln!(out, "    let bits{id} = philox({counter}, vec2<u32>({seed_low}, {seed_high}));")?;
    }
    Ok(())
}

/// Whether step `id` is the exponential of an exact f16, step `x`, and the f16 that the kernel writes.
fn rounded_exp(kernel: &Kernel, id: usize, x: u16) -> bool {
    let (exact, from) = (kernel.rounded.has(x), kernel.steps[usize::from(x)].1);
    let is_last = kernel.others.is_empty() && id + 1 == kernel.steps.len();
    is_last && exact && from.dtype() == DType::F16 && kernel.output.element.dtype() == DType::F16
}

/// Four elements at once: every input gives a whole quad, or one value for it.
fn write_quad(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let [_, quad] = result_types(kernel);
    writeln!(out, "fn quad(q: u32) -> {quad} {{")?;
    if kernel.rank > 0 {
        write_coordinates(kernel, out, "4u * q")?;
    }
    let operands = operands(kernel);
    for (i, Operand { array, element, mode }) in operands.iter().enumerate() {
        let at = format!("params.{array}_offset{}", steps(kernel, i, *mode));
        match mode {
            Mode::Uniform | Mode::Splat => writeln!(out, "    let v{i} = load_{array}({at});")?,
            Mode::Rows => writeln!(out, "    let v{i} = load4_{array}(({at}) / 4u);")?,
            Mode::Gather => {
                let step = format!("params.{array}_s{}", kernel.rank - 1);
                writeln!(out, "    let a{i} = {at};")?;
                writeln!(
                    out,
                    "    let v{i} = {}(load_{array}(a{i}), load_{array}(a{i} + {step}), load_{array}(a{i} + 2u * {step}), load_{array}(a{i} + 3u * {step}));",
                    element.vector()
                )?;
            }
            Mode::Dense | Mode::Beside => write_dense_load(out, i, &operands[i])?,
        }
    }
    write_shared_blocks(kernel, out)?;
    let lanes = (0..4).map(|lane| {
        let mut arguments: Vec<String> = operands
            .iter()
            .enumerate()
            .map(|(i, operand)| match operand.mode {
                Mode::Uniform | Mode::Splat => format!("v{i}"),
                _ => format!("v{i}.{}", LANES[lane]),
            })
            .collect();
        arguments.push(if lane == 0 { "4u * q".to_owned() } else { format!("4u * q + {lane}u") });
        arguments.extend(shared_blocks(kernel).map(|(id, _)| format!("bits{id}.{}", LANES[lane])));
        format!("body({})", arguments.join(", "))
    });
    write_lanes(kernel, out, lanes)
}

/// `v3`: the four elements of operand 3, which lie as those of the output do.
fn write_dense_load(out: &mut String, i: usize, Operand { array, element, mode }: &Operand) -> std::fmt::Result {
    if *mode == Mode::Dense {
        return writeln!(out, "    let v{i} = load4_{array}(params.{array}_offset / 4u + q);");
    }
    // Behind the last element it is read again: the buffer may end there.
    let load = |lane: usize| format!("load_{array}(params.{array}_offset + min(4u * q + {lane}u, params.last))");
    let loads: Vec<String> = (0..4).map(load).collect();
    writeln!(out, "    let v{i} = {}({});", element.vector(), loads.join(", "))
}

/// Returns the results of four elements, each computed by a call.
fn write_lanes(kernel: &Kernel, out: &mut String, calls: impl Iterator<Item = String>) -> std::fmt::Result {
    if kernel.others.is_empty() {
        let lanes: Vec<String> = calls.map(|call| format!("        {call}")).collect();
        return writeln!(out, "    return {}(\n{},\n    );\n}}\n", kernel.output.element.vector(), lanes.join(",\n"));
    }
    for (call, lane) in calls.zip(LANES) {
        writeln!(out, "    let {lane} = {call};")?;
    }
    writeln!(out, "    return Quad(")?;
    for (number, output) in kernel.outputs().enumerate() {
        let lanes = LANES.map(|lane| format!("{lane}.y{number}")).join(", ");
        writeln!(out, "        {}({lanes}),", output.element.vector())?;
    }
    writeln!(out, "    );\n}}\n")
}

/// Rows end inside quads: each element finds its own coordinates. Behind the last element it is evaluated again.
fn write_broken_quad(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let gathered = |mode: Mode| mode == Mode::Gather;
    let mut parameters = vec!["index: u32".to_owned()];
    let mut arguments = Vec::new();
    let operands = operands(kernel);
    for (i, Operand { array, element, mode }) in operands.iter().enumerate() {
        if gathered(*mode) {
            arguments.push(format!("load_{array}(params.{array}_offset{})", steps(kernel, i, *mode)));
        } else {
            parameters.push(format!("x{i}: {}", element.scalar()));
            arguments.push(format!("x{i}"));
        }
    }
    arguments.push("index".to_owned());
    for (id, _) in shared_blocks(kernel) {
        parameters.push(format!("bits{id}: u32"));
        arguments.push(format!("bits{id}"));
    }
    let [results, quad] = result_types(kernel);
    writeln!(
        out,
        "fn element(at: u32{}) -> {results} {{",
        parameters[1..].iter().map(|p| format!(", {p}")).collect::<String>(),
    )?;
    writeln!(out, "    let index = min(at, params.last);")?;
    write_coordinates(kernel, out, "index")?;
    writeln!(out, "    return body({});\n}}\n", arguments.join(", "))?;

    writeln!(out, "fn quad(q: u32) -> {quad} {{")?;
    for (i, operand) in operands.iter().enumerate() {
        let array = &operand.array;
        match operand.mode {
            Mode::Dense | Mode::Beside => write_dense_load(out, i, operand)?,
            Mode::Uniform => writeln!(out, "    let v{i} = load_{array}(params.{array}_offset);")?,
            Mode::Rows | Mode::Splat | Mode::Gather => {}
        }
    }
    write_shared_blocks(kernel, out)?;
    let lanes = (0..4).map(|lane| {
        let mut text = format!("element(4u * q + {lane}u");
        for (i, operand) in operands.iter().enumerate() {
            match operand.mode {
                Mode::Dense | Mode::Beside => text += &format!(", v{i}.{}", LANES[lane]),
                Mode::Uniform => text += &format!(", v{i}"),
                Mode::Rows | Mode::Splat | Mode::Gather => {}
            }
        }
        for (id, _) in shared_blocks(kernel) {
            text += &format!(", bits{id}.{}", LANES[lane]);
        }
        text + ")"
    });
    write_lanes(kernel, out, lanes)
}

/// `i0`, `i1`, ...: the coordinates of element `index`, innermost found first.
fn write_coordinates(kernel: &Kernel, out: &mut String, index: &str) -> std::fmt::Result {
    let mut rest = index.to_owned();
    for dim in (1..kernel.rank).rev() {
        writeln!(out, "    let r{dim} = ({rest}) / params.d{dim};")?;
        writeln!(out, "    let i{dim} = ({rest}) - r{dim} * params.d{dim};")?;
        rest = format!("r{dim}");
    }
    writeln!(out, "    let i0 = {rest};")
}

/// ` + i0 * params.x3_s0 + ...`: how far the element's coordinates are from input `i`'s offset; empty for `Uniform`.
fn steps(kernel: &Kernel, i: usize, mode: Mode) -> String {
    // Every element of a row of `Splat` is the same.
    let dims = match mode {
        Mode::Dense | Mode::Beside | Mode::Uniform => 0,
        Mode::Splat => kernel.rank - 1,
        Mode::Rows | Mode::Gather => kernel.rank,
    };
    (0..dims).map(|dim| format!(" + i{dim} * params.x{i}_s{dim}")).collect()
}

/// Where quads go.
fn write_stores(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    for (number, output) in kernel.outputs().enumerate() {
        let suffix = if kernel.others.is_empty() { String::new() } else { number.to_string() };
        write_store(out, &y(kernel, number), output, &suffix)?;
    }
    if kernel.others.is_empty() {
        return Ok(());
    }
    let all = |call: &dyn Fn(usize) -> String| (0..kernel.outputs().count()).map(call).collect::<Vec<_>>().join(" ");
    let quads = all(&|number| format!("write_quad{number}(q, v.y{number});"));
    let tails = all(&|number| format!("write_tail{number}(q, v.y{number}, count);"));
    writeln!(out, "fn write_quad(q: u32, v: Quad) {{ {quads} }}")?;
    writeln!(out, "fn write_tail(q: u32, v: Quad, count: u32) {{ {tails} }}\n")
}

/// The stores of one output; `suffix` tells them from those of others.
fn write_store(out: &mut String, y: &str, output: &Output, suffix: &str) -> std::fmt::Result {
    let vector = output.element.vector();
    match output.form {
        Form::Quad => {
            writeln!(
                out,
                "fn write_quad{suffix}(q: u32, v: {vector}) {{ store4_{y}(params.{y}_offset / 4u + q, v); }}"
            )?;
            writeln!(out, "fn write_tail{suffix}(q: u32, v: {vector}, count: u32) {{")?;
            writeln!(out, "    store_tail_{y}(params.{y}_offset / 4u + q, v, count);\n}}\n")
        }
        // Maps know no pairs, and write no eight at once.
        Form::Pair | Form::Oct | Form::Scalar => {
            writeln!(out, "fn write_quad{suffix}(q: u32, v: {vector}) {{ write_tail{suffix}(q, v, 4u); }}")?;
            writeln!(out, "fn write_tail{suffix}(q: u32, v: {vector}, count: u32) {{")?;
            writeln!(out, "    let at = params.{y}_offset + 4u * q;")?;
            for (i, lane) in LANES.iter().enumerate() {
                writeln!(out, "    if count > {i}u {{ store_{y}(at + {i}u, v.{lane}); }}")?;
            }
            writeln!(out, "}}\n")
        }
    }
}
