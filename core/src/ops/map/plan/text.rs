//! The text of a map kernel: `Params`, buffers, `body` (the program), `quad` (how four elements are gathered), and
//! `wgsl/map.wgsl` around them. Plain WGSL that can be read; constants and extents are members of `Params`.

use crate::{DType, Step, UnaryFn};

use super::{Kernel, Mode, Output, guards};
use crate::ops::random::plan as random;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("map.wgsl");

const LANES: [&str; 4] = ["x", "y", "z", "w"];

pub(super) fn source(kernel: &Kernel) -> Source {
    let text = text(kernel);
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

fn text(kernel: &Kernel) -> String {
    let mut out = format!("const THREADS = {}u;\nconst ITEMS = {}u;\n", kernel.threads, kernel.items);
    if kernel.others.is_empty() {
        out += &format!("alias Quad = {};\n\n", kernel.output.element.vector());
    } else {
        let members = |of: fn(Element) -> String| {
            let all = kernel.outputs().enumerate();
            all.map(|(number, output)| format!("    y{number}: {},\n", of(output.element))).collect::<String>()
        };
        out += &format!("struct Quad {{\n{}}}\n", members(Element::vector));
        out += &format!("struct Results {{\n{}}}\n\n", members(|element| element.scalar().to_owned()));
    }
    out += &params(kernel);
    for (i, &(element, mode)) in kernel.inputs.iter().enumerate() {
        let form = match mode {
            Mode::Dense | Mode::Rows => Form::Quad,
            Mode::Uniform | Mode::Splat | Mode::Gather | Mode::Beside => Form::Scalar,
        };
        out += &element.storage(i as u32 + 1, &format!("x{i}"), form, Access::Read);
    }
    for (number, output) in kernel.outputs().enumerate() {
        let binding = (kernel.inputs.len() + number) as u32 + 1;
        out += &output.element.storage(binding, &y(kernel, number), output.form, Access::ReadWrite);
    }
    out += "\n";
    out += &body(kernel);
    out += &if kernel.rank == 0 || kernel.whole_rows { quad(kernel) } else { broken_quad(kernel) };
    out += &stores(kernel);
    out += match kernel.updates {
        0 => include_str!("../../../../wgsl/map.wgsl"),
        _ => include_str!("../../../../wgsl/map_update.wgsl"),
    };
    out + "\n"
}

/// The members in the order the planner lays them out.
fn params(kernel: &Kernel) -> String {
    let mut members =
        "    quads: u32,\n    tail: u32,   // elements of a short last quad\n    last: u32,   // last element\n"
            .to_owned();
    for number in 0..=kernel.others.len() {
        members += &format!("    {}_offset: u32,\n", y(kernel, number));
    }
    if kernel.is_guarded() {
        members += "    zero0: u32,   // 0, as no compiler knows\n    zero1: u32,\n";
    }
    for dim in 0..kernel.rank {
        members += &format!("    d{dim}: u32,\n");
    }
    for (i, (_, mode)) in kernel.inputs.iter().enumerate() {
        members += &format!("    x{i}_offset: u32,\n");
        if matches!(mode, Mode::Rows | Mode::Splat | Mode::Gather) {
            for dim in 0..kernel.rank {
                members += &format!("    x{i}_s{dim}: u32,\n");
            }
        }
    }
    for (constant, element) in kernel.constants() {
        members += &format!("    c{constant}: {},\n", element.param_type());
    }
    uniform_of(&members)
}

/// `opaque_f32` or `opaque_f64`: its argument behind an operation that changes nothing, as a compiler cannot know (`guards.rs`).
///
/// Without 64-bit integers it is a choice. NVIDIA's driver sees through a choice: it takes a loop whose condition does not change apart, and
/// has no NaN where arithmetic is equal to itself.
pub(crate) fn opaque(dtype: DType, wide_integers: bool) -> &'static str {
    TEXT.get(match (dtype, wide_integers) {
        (DType::F64, true) => "opaque f64",
        (DType::F64, false) => "opaque f64 by choice",
        _ => "opaque f32",
    })
}

/// One element of the result from one element of each input, behind what it calls.
fn body(kernel: &Kernel) -> String {
    let mut out = String::new();
    for dtype in [DType::F32, DType::F64] {
        if guards::any(&kernel.steps, Some(dtype)) {
            out += opaque(dtype, kernel.wide_integers);
        }
    }
    let random = kernel.steps.iter().filter(|(step, _)| matches!(step, Step::Random(_))).count();
    if random > 0 {
        out += &random::philox(kernel.wide_integers);
    }
    if random > shared_blocks(kernel).count() {
        out += &random::random_word();
    }
    let operands = operands(kernel).into_iter().enumerate();
    let mut parameters: Vec<String> =
        operands.map(|(i, operand)| format!("x{i}: {}", operand.element.scalar())).collect();
    parameters.push("index: u32".to_owned());
    parameters.extend(shared_blocks(kernel).map(|(id, _)| format!("bits{id}: u32")));
    let mut steps = String::new();
    for (id, &(step, element)) in kernel.steps.iter().enumerate() {
        let text = match step {
            Step::Unary(UnaryFn::Exp, x) if rounded_exp(kernel, id, x) => format!("exp_half_f32(s{x})"),
            Step::Random(key) if shared_key(kernel, key).is_some() => format!("bits{id}"),
            _ => kernel.body().step(id, step, element),
        };
        steps += &format!("    let s{id} = {text};\n");
    }
    let all: Vec<String> = kernel.outputs().map(|output| format!("s{}", output.step)).collect();
    let value = if let [one] = all.as_slice() { one.clone() } else { format!("Results({})", all.join(", ")) };
    let [results, _] = result_types(kernel);
    out + &TEXT.fill("body", holes!(parameters = parameters.join(", "), results, steps, value))
}

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
fn bits_of_blocks(kernel: &Kernel) -> String {
    let block = |(id, [seed_low, seed_high, stream_low, stream_high]): (usize, [String; 4])| {
        let counter = format!("vec4<u32>(q, 0u, {stream_low}, {stream_high})");
        format!("    let bits{id} = philox({counter}, vec2<u32>({seed_low}, {seed_high}));\n")
    };
    shared_blocks(kernel).map(block).collect()
}

/// Whether step `id` is the exponential of an exact f16, step `x`, and the f16 that the kernel writes.
fn rounded_exp(kernel: &Kernel, id: usize, x: u16) -> bool {
    let (exact, from) = (kernel.rounded.has(x), kernel.steps[usize::from(x)].1);
    let is_last = kernel.others.is_empty() && id + 1 == kernel.steps.len();
    is_last && exact && from.dtype() == DType::F16 && kernel.output.element.dtype() == DType::F16
}

/// Four elements at once: every input gives a whole quad, or one value for it.
fn quad(kernel: &Kernel) -> String {
    let mut loads = if kernel.rank > 0 { coordinates(kernel, "4u * q") } else { String::new() };
    let operands = operands(kernel);
    for (i, Operand { array, element, mode }) in operands.iter().enumerate() {
        let at = format!("params.{array}_offset{}", steps(kernel, i, *mode));
        loads += &match mode {
            Mode::Uniform | Mode::Splat => format!("    let v{i} = load_{array}({at});\n"),
            Mode::Rows => format!("    let v{i} = load4_{array}(({at}) / 4u);\n"),
            Mode::Gather => {
                let step = format!("params.{array}_s{}", kernel.rank - 1);
                let of = |places: &str| format!("load_{array}(a{i}{places})");
                let each =
                    [of(""), of(&format!(" + {step}")), of(&format!(" + 2u * {step}")), of(&format!(" + 3u * {step}"))];
                format!("    let a{i} = {at};\n    let v{i} = {}({});\n", element.vector(), each.join(", "))
            }
            Mode::Dense | Mode::Beside => dense_load(i, &operands[i]),
        };
    }
    loads += &bits_of_blocks(kernel);
    let calls = LANES.iter().enumerate().map(|(number, lane)| {
        let mut arguments: Vec<String> = operands
            .iter()
            .enumerate()
            .map(|(i, operand)| match operand.mode {
                Mode::Uniform | Mode::Splat => format!("v{i}"),
                _ => format!("v{i}.{lane}"),
            })
            .collect();
        arguments.push(if number == 0 { "4u * q".to_owned() } else { format!("4u * q + {number}u") });
        arguments.extend(shared_blocks(kernel).map(|(id, _)| format!("bits{id}.{lane}")));
        format!("body({})", arguments.join(", "))
    });
    let [_, quad] = result_types(kernel);
    TEXT.fill("quad", holes!(quad, loads, lanes = lanes(kernel, calls)))
}

/// `v3`: the four elements of operand 3, which lie as those of the output do.
fn dense_load(i: usize, Operand { array, element, mode }: &Operand) -> String {
    if *mode == Mode::Dense {
        return format!("    let v{i} = load4_{array}(params.{array}_offset / 4u + q);\n");
    }
    // Behind the last element it is read again: the buffer may end there.
    let load = |lane: usize| format!("load_{array}(params.{array}_offset + min(4u * q + {lane}u, params.last))");
    let loads: Vec<String> = (0..4).map(load).collect();
    format!("    let v{i} = {}({});\n", element.vector(), loads.join(", "))
}

/// Returns the results of four elements, each computed by a call.
fn lanes(kernel: &Kernel, calls: impl Iterator<Item = String>) -> String {
    if kernel.others.is_empty() {
        let calls: String = calls.map(|call| format!("        {call},\n")).collect();
        return TEXT.fill("lanes", holes!(vector = kernel.output.element.vector(), calls));
    }
    let calls: String = calls.zip(LANES).map(|(call, lane)| format!("    let {lane} = {call};\n")).collect();
    let quad = |(number, output): (usize, &Output)| {
        let lanes = LANES.map(|lane| format!("{lane}.y{number}")).join(", ");
        format!("        {}({lanes}),\n", output.element.vector())
    };
    let quads: String = kernel.outputs().enumerate().map(quad).collect();
    TEXT.fill("lanes of several results", holes!(calls, quads))
}

/// Rows end inside quads: each element finds its own coordinates. Behind the last element it is evaluated again.
fn broken_quad(kernel: &Kernel) -> String {
    let mut parameters = String::new();
    let mut arguments = Vec::new();
    let operands = operands(kernel);
    for (i, Operand { array, element, mode }) in operands.iter().enumerate() {
        if *mode == Mode::Gather {
            arguments.push(format!("load_{array}(params.{array}_offset{})", steps(kernel, i, *mode)));
        } else {
            parameters += &format!(", x{i}: {}", element.scalar());
            arguments.push(format!("x{i}"));
        }
    }
    arguments.push("index".to_owned());
    for (id, _) in shared_blocks(kernel) {
        parameters += &format!(", bits{id}: u32");
        arguments.push(format!("bits{id}"));
    }
    let [results, quad] = result_types(kernel);
    let (coordinates, arguments) = (coordinates(kernel, "index"), arguments.join(", "));
    let element = TEXT.fill("element", holes!(parameters, results, coordinates, arguments));
    let mut loads = String::new();
    for (i, operand) in operands.iter().enumerate() {
        let array = &operand.array;
        loads += &match operand.mode {
            Mode::Dense | Mode::Beside => dense_load(i, operand),
            Mode::Uniform => format!("    let v{i} = load_{array}(params.{array}_offset);\n"),
            Mode::Rows | Mode::Splat | Mode::Gather => String::new(),
        };
    }
    loads += &bits_of_blocks(kernel);
    let calls = LANES.iter().enumerate().map(|(number, lane)| {
        let mut text = format!("element(4u * q + {number}u");
        for (i, operand) in operands.iter().enumerate() {
            match operand.mode {
                Mode::Dense | Mode::Beside => text += &format!(", v{i}.{lane}"),
                Mode::Uniform => text += &format!(", v{i}"),
                Mode::Rows | Mode::Splat | Mode::Gather => {}
            }
        }
        for (id, _) in shared_blocks(kernel) {
            text += &format!(", bits{id}.{lane}");
        }
        text + ")"
    });
    element + &TEXT.fill("quad", holes!(quad, loads, lanes = lanes(kernel, calls)))
}

/// `i0`, `i1`, ...: the coordinates of element `index`, innermost found first.
fn coordinates(kernel: &Kernel, index: &str) -> String {
    let (mut text, mut rest) = (String::new(), index.to_owned());
    for dim in (1..kernel.rank).rev() {
        text += &format!("    let r{dim} = ({rest}) / params.d{dim};\n");
        text += &format!("    let i{dim} = ({rest}) - r{dim} * params.d{dim};\n");
        rest = format!("r{dim}");
    }
    text + &format!("    let i0 = {rest};\n")
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
fn stores(kernel: &Kernel) -> String {
    let store = |(number, output): (usize, &Output)| {
        // Tells the stores of one output from those of others.
        let suffix = if kernel.others.is_empty() { String::new() } else { number.to_string() };
        let piece = match output.form {
            Form::Quad => "stores",
            // Maps know no pairs, and write no eight at once.
            Form::Pair | Form::Oct | Form::Scalar => "stores of elements",
        };
        TEXT.fill(piece, holes!(suffix, vector = output.element.vector(), y = y(kernel, number)))
    };
    let out: String = kernel.outputs().enumerate().map(store).collect();
    if kernel.others.is_empty() {
        return out;
    }
    let all = |call: &dyn Fn(usize) -> String| (0..kernel.outputs().count()).map(call).collect::<Vec<_>>().join(" ");
    let quads = all(&|number| format!("write_quad{number}(q, v.y{number});"));
    let tails = all(&|number| format!("write_tail{number}(q, v.y{number}, count);"));
    out + &TEXT.fill("stores of several results", holes!(quads, tails)) + "\n"
}
