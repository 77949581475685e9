//! The text of a map kernel: `Params`, buffers, `body` (the program), `quad` (how four elements are gathered), and
//! `wgsl/map.wgsl` around them. Plain WGSL that can be read; constants and extents are members of `Params`.

use std::fmt::Write;

use polywarp_core::{DType, Step, UnaryFn};

use super::{Kernel, Mode, guards};
use crate::element::{self, Element, Form};
use crate::{Access, Source, math};

const LANES: [&str; 4] = ["x", "y", "z", "w"];

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut text = String::new();
    // Formatting into a String cannot fail.
    let _ = write_kernel(kernel, &mut text);
    let functions = math::library(&text);
    let elements: Vec<Element> = kernel
        .inputs
        .iter()
        .chain([&(kernel.output, Mode::Dense)])
        .map(|i| i.0)
        .chain(kernel.steps.iter().map(|s| s.1))
        .collect();
    let mut bindings = vec![Access::Read; kernel.inputs.len()];
    bindings.push(Access::ReadWrite);
    Source { name: name(kernel), wgsl: element::prelude(&elements) + &text + &functions, bindings }
}

/// `map_` and what the last step does, with the dtype of the result.
fn name(kernel: &Kernel) -> String {
    let what = match kernel.steps.last().map(|s| s.0) {
        Some(Step::Unary(f, _)) => f.name(),
        Some(Step::Binary(f, ..)) => f.name(),
        Some(Step::Compare(f, ..)) => f.name(),
        Some(Step::Select(..)) => "where",
        Some(Step::Cast(_)) => "cast",
        Some(Step::Index) => "index",
        Some(Step::Constant(_)) => "fill",
        Some(Step::Input(_)) | None => "copy",
    };
    format!("map_{what}_{}_{}steps", kernel.output.dtype(), kernel.steps.len())
}

fn write_kernel(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "const THREADS = {}u;\nconst ITEMS = {}u;", kernel.threads, kernel.items)?;
    writeln!(out, "alias Quad = {};\n", kernel.output.vector())?;
    write_params(kernel, out)?;
    for (i, &(element, mode)) in kernel.inputs.iter().enumerate() {
        let form = match mode {
            Mode::Dense | Mode::Rows => Form::Quad,
            Mode::Uniform | Mode::Splat | Mode::Gather => Form::Scalar,
        };
        out.push_str(&element.storage(i as u32 + 1, &format!("x{i}"), form, Access::Read));
    }
    let binding = kernel.inputs.len() as u32 + 1;
    out.push_str(&kernel.output.storage(binding, "y", kernel.output_form, Access::ReadWrite));
    out.push('\n');
    write_body(kernel, out)?;
    if kernel.rank == 0 || kernel.whole_rows {
        write_quad(kernel, out)?;
    } else {
        write_broken_quad(kernel, out)?;
    }
    write_stores(kernel, out)?;
    out.push_str(include_str!("../../../wgsl/map.wgsl"));
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
    writeln!(out, "    y_offset: u32,")?;
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
const OPAQUE: &str = "\
fn opaque_f32(x: f32, zero: u32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero);
}

";

/// The same of f64.
const OPAQUE_F64: &str = "\
fn opaque_f64(x: f64, zero: u32) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ u64(zero));
}

";

/// The same where there are no 64-bit integers. NVIDIA's driver sees through a choice: it takes a loop whose condition
/// does not change apart, and has no NaN where arithmetic is equal to itself.
const OPAQUE_F64_CHOSEN: &str = "\
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
    let mut parameters: Vec<String> =
        kernel.inputs.iter().enumerate().map(|(i, (element, _))| format!("x{i}: {}", element.scalar())).collect();
    parameters.push("index: u32".to_owned());
    writeln!(out, "fn body({}) -> {} {{", parameters.join(", "), kernel.output.scalar())?;
    for (id, &(step, element)) in kernel.steps.iter().enumerate() {
        let text = match step {
            Step::Unary(UnaryFn::Exp, x) if rounded_exp(kernel, id, x) => format!("exp_half_f32(s{x})"),
            _ => step_text(kernel, step, element, |place, x| guards::operand(&kernel.steps, id, place, x)),
        };
        writeln!(out, "    let s{id} = {text};")?;
    }
    writeln!(out, "    return s{};\n}}\n", kernel.steps.len().saturating_sub(1))
}

/// Whether step `id` is the exponential of an exact f16, step `x`, and the f16 that the kernel writes.
fn rounded_exp(kernel: &Kernel, id: usize, x: u16) -> bool {
    let (exact, from) = (kernel.rounded.has(x), kernel.steps[usize::from(x)].1);
    id + 1 == kernel.steps.len() && exact && from.dtype() == DType::F16 && kernel.output.dtype() == DType::F16
}

/// A step as an expression; `operand` gives the text of the operand at a place of an arithmetic step.
fn step_text(kernel: &Kernel, step: Step, element: Element, operand: impl Fn(usize, u16) -> String) -> String {
    let dtype = element.dtype();
    let at = |id: u16| format!("s{id}");
    match step {
        Step::Input(n) => format!("x{n}"),
        Step::Constant(n) => element.param_value(&format!("params.c{n}")),
        // Not rounded to 8- or 16-bit floats: like arithmetic, that happens where the expression ends.
        Step::Index => cast(kernel, DType::U32, dtype.compute(), "index"),
        Step::Unary(f, x) => math::unary(f, dtype, &operand(0, x)),
        Step::Binary(f, a, b) => {
            debug_assert!(kernel.steps[usize::from(a)].1.dtype() == dtype);
            math::binary(f, dtype, &operand(0, a), &operand(1, b))
        }
        Step::Compare(f, a, b) => math::compare(f, kernel.steps[usize::from(a)].1.dtype(), &operand(0, a), &operand(1, b)),
        Step::Select(condition, yes, no) => format!("select({}, {}, {})", at(no), at(yes), at(condition)),
        Step::Cast(x) => {
            let from = kernel.steps[usize::from(x)].1;
            // Arithmetic in floats of 8 and 16 bits is rounded where it ends: here. Inputs, casts and choices of them are already
            // exact.
            let value = if kernel.rounded.has(x) { at(x) } else { from.round(&at(x)) };
            cast(kernel, from.dtype(), dtype, &value)
        }
    }
}

fn cast(kernel: &Kernel, from: DType, to: DType, value: &str) -> String {
    match (from, to) {
        (DType::I32 | DType::U32, DType::F32) if !kernel.nearest_conversions => format!("f32_from_{from}({value})"),
        _ => math::cast(from, to, value),
    }
}

/// Four elements at once: every input gives a whole quad, or one value for it.
fn write_quad(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "fn quad(q: u32) -> {} {{", kernel.output.vector())?;
    if kernel.rank > 0 {
        write_coordinates(kernel, out, "4u * q")?;
    }
    for (i, &(element, mode)) in kernel.inputs.iter().enumerate() {
        let at = format!("params.x{i}_offset{}", steps(kernel, i, mode));
        match mode {
            Mode::Dense => writeln!(out, "    let v{i} = load4_x{i}(params.x{i}_offset / 4u + q);")?,
            Mode::Uniform | Mode::Splat => writeln!(out, "    let v{i} = load_x{i}({at});")?,
            Mode::Rows => writeln!(out, "    let v{i} = load4_x{i}(({at}) / 4u);")?,
            Mode::Gather => {
                let step = format!("params.x{i}_s{}", kernel.rank - 1);
                writeln!(out, "    let a{i} = {at};")?;
                writeln!(
                    out,
                    "    let v{i} = {}(load_x{i}(a{i}), load_x{i}(a{i} + {step}), load_x{i}(a{i} + 2u * {step}), load_x{i}(a{i} + 3u * {step}));",
                    element.vector()
                )?;
            }
        }
    }
    let lanes = (0..4).map(|lane| {
        let mut arguments: Vec<String> = kernel
            .inputs
            .iter()
            .enumerate()
            .map(|(i, (_, mode))| match mode {
                Mode::Uniform | Mode::Splat => format!("v{i}"),
                _ => format!("v{i}.{}", LANES[lane]),
            })
            .collect();
        arguments.push(if lane == 0 { "4u * q".to_owned() } else { format!("4u * q + {lane}u") });
        format!("        body({})", arguments.join(", "))
    });
    writeln!(out, "    return {}(\n{},\n    );\n}}\n", kernel.output.vector(), lanes.collect::<Vec<_>>().join(",\n"))
}

/// Rows end inside quads: each element finds its own coordinates. Behind the last element it is evaluated again.
fn write_broken_quad(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let gathered = |mode: Mode| mode == Mode::Gather;
    let mut parameters = vec!["index: u32".to_owned()];
    let mut arguments = Vec::new();
    for (i, &(element, mode)) in kernel.inputs.iter().enumerate() {
        if gathered(mode) {
            arguments.push(format!("load_x{i}(params.x{i}_offset{})", steps(kernel, i, mode)));
        } else {
            parameters.push(format!("x{i}: {}", element.scalar()));
            arguments.push(format!("x{i}"));
        }
    }
    arguments.push("index".to_owned());
    writeln!(
        out,
        "fn element(at: u32{}) -> {} {{",
        parameters[1..].iter().map(|p| format!(", {p}")).collect::<String>(),
        kernel.output.scalar()
    )?;
    writeln!(out, "    let index = min(at, params.last);")?;
    write_coordinates(kernel, out, "index")?;
    writeln!(out, "    return body({});\n}}\n", arguments.join(", "))?;

    writeln!(out, "fn quad(q: u32) -> {} {{", kernel.output.vector())?;
    for (i, &(_, mode)) in kernel.inputs.iter().enumerate() {
        match mode {
            Mode::Dense => writeln!(out, "    let v{i} = load4_x{i}(params.x{i}_offset / 4u + q);")?,
            Mode::Uniform => writeln!(out, "    let v{i} = load_x{i}(params.x{i}_offset);")?,
            _ => {}
        }
    }
    let lanes = (0..4).map(|lane| {
        let mut text = format!("        element(4u * q + {lane}u");
        for (i, &(_, mode)) in kernel.inputs.iter().enumerate() {
            match mode {
                Mode::Dense => text += &format!(", v{i}.{}", LANES[lane]),
                Mode::Uniform => text += &format!(", v{i}"),
                _ => {}
            }
        }
        text + ")"
    });
    writeln!(out, "    return {}(\n{},\n    );\n}}\n", kernel.output.vector(), lanes.collect::<Vec<_>>().join(",\n"))
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
        Mode::Dense | Mode::Uniform => 0,
        Mode::Splat => kernel.rank - 1,
        Mode::Rows | Mode::Gather => kernel.rank,
    };
    (0..dims).map(|dim| format!(" + i{dim} * params.x{i}_s{dim}")).collect()
}

/// Where quads go.
fn write_stores(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let vector = kernel.output.vector();
    match kernel.output_form {
        Form::Quad => {
            writeln!(out, "fn write_quad(q: u32, v: {vector}) {{ store4_y(params.y_offset / 4u + q, v); }}")?;
            writeln!(out, "fn write_tail(q: u32, v: {vector}, count: u32) {{")?;
            writeln!(out, "    store_tail_y(params.y_offset / 4u + q, v, count);\n}}\n")
        }
        Form::Scalar => {
            writeln!(out, "fn write_quad(q: u32, v: {vector}) {{ write_tail(q, v, 4u); }}")?;
            writeln!(out, "fn write_tail(q: u32, v: {vector}, count: u32) {{")?;
            writeln!(out, "    let at = params.y_offset + 4u * q;")?;
            for (i, lane) in LANES.iter().enumerate() {
                writeln!(out, "    if count > {i}u {{ store_y(at + {i}u, v.{lane}); }}")?;
            }
            writeln!(out, "}}\n")
        }
    }
}
