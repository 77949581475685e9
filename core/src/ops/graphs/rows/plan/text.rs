//! The text of a row kernel: a function for each program, and a walk over the row for each stage.
//!
//! A fold's result is there for later stages alone, so a stage is a walk that ends in folds; values that it needs are computed in it, from
//! what is held of the row and from earlier folds. Results are written in the first stage that has them.

use std::fmt::Write;

use crate::ops::Extent;
use crate::ops::ReduceFn;
use crate::{DType, Step};

use super::{Access, Kernel, Node, Of, form};
use crate::ops::fold::workgroup::{self, RowFold};
use crate::ops::map::plan::body::Body;
use crate::ops::map::plan::text::opaque;
use crate::plan::Source;
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("rows.wgsl");

const LANES: [&str; 4] = ["x", "y", "z", "w"];

pub(super) fn source(kernel: &Kernel) -> Source {
    let text = Text::of(kernel);
    let mut out = String::new();
    // Formatting into a String cannot fail.
    let _ = text.write(&mut out);
    for (name, dtype) in [("opaque_f32(", DType::F32), ("opaque_f64(", DType::F64)] {
        if out.contains(name) {
            out += opaque(dtype, kernel.wide_integers);
        }
    }
    let mut elements: Vec<Element> = kernel.operands.iter().map(|operand| operand.element).collect();
    elements.extend(kernel.outputs.iter().map(|output| output.element));
    elements.extend(kernel.nodes.iter().flat_map(Node::elements));
    let mut bindings = vec![crate::plan::Access::Read; kernel.operands.len()];
    bindings.extend(vec![crate::plan::Access::ReadWrite; kernel.outputs.len() + text.downs.len()]);
    let name =
        format!("rows_{}steps_{}wide_{}lanes_{}items", kernel.nodes.len(), text.width(), kernel.lanes, kernel.items);
    Source { name, wgsl: element::prelude(&elements) + &out + &math::library(&out), bindings }
}

struct Text<'a> {
    kernel: &'a Kernel,
    /// Of each node: the stage in which it can be computed, for a fold the one after its walk.
    levels: Vec<usize>,
    stages: usize,
    /// Nodes that are sums down the columns.
    downs: Vec<usize>,
}

impl Text<'_> {
    fn of(kernel: &Kernel) -> Text<'_> {
        let mut text = Text { kernel, levels: Vec::new(), stages: 1, downs: Vec::new() };
        for (number, node) in kernel.nodes.iter().enumerate() {
            let level = node.inputs().iter().map(|of| text.level(*of)).max().unwrap_or(0);
            if let Node::Down { .. } = node {
                text.downs.push(number);
                text.stages = text.stages.max(level + 1);
            }
            text.levels.push(level + usize::from(matches!(node, Node::Fold { .. })));
            if let Node::Fold { .. } = node {
                text.stages = text.stages.max(level + 1);
            }
        }
        for output in kernel.outputs.iter().filter(|output| output.extent != Extent::PerRow) {
            text.stages = text.stages.max(text.level(output.of) + 1);
        }
        text
    }

    fn level(&self, of: Of) -> usize {
        match of {
            Of::Operand(_) => 0,
            Of::Node(node, _) => self.levels[usize::from(node)],
        }
    }

    /// Neighbours that are loaded together.
    fn width(&self) -> u32 {
        if self.kernel.paired { 2 * self.kernel.width } else { self.kernel.width }
    }

    /// `vec4<f32>`, `vec2<f32>` or `f32`.
    fn vector(&self, scalar: &str) -> String {
        if self.kernel.width == 1 { scalar.to_owned() } else { format!("vec{}<{scalar}>", self.kernel.width) }
    }

    /// What stands behind `load` and `store` of vectors.
    fn suffix(&self) -> &'static str {
        match self.kernel.width {
            4 => "4",
            2 => "2",
            _ => "",
        }
    }

    fn lanes(&self) -> &'static [&'static str] {
        &LANES[..self.kernel.width as usize]
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Kernel { width, lanes, threads, items, .. } = *self.kernel;
        let at = if self.kernel.paired { "2u * (lane + i / 2u * LANES) + i % 2u" } else { "lane + i * LANES" };
        *out += &TEXT.fill("place", holes!(width, lanes, threads, items, at));
        *out += workgroup::rows();
        *out += &self.params();
        *out += &self.buffers();
        for (number, node) in self.kernel.nodes.iter().enumerate() {
            *out += &self.program(number, node);
        }
        for stage in 0..self.stages {
            *out += &self.fold(stage);
        }
        if self.folds_extrema() {
            out.push_str(include_str!("../../../../../wgsl/rows_keys.wgsl"));
        }
        self.write_main(out)
    }

    fn folds_extrema(&self) -> bool {
        self.kernel.nodes.iter().any(|node| matches!(node, Node::Fold { function: ReduceFn::Max | ReduceFn::Min, .. }))
    }

    /// The members in the order in which the planner lays them out.
    fn params(&self) -> String {
        let kernel = self.kernel;
        let mut members = "    rows: u32, units: u32, columns: u32, rounds: u32,\n    groups: u32,\n".to_owned();
        members += "    zero0: u32, zero1: u32,   // 0, as no compiler knows\n";
        for axis in 0..kernel.axes {
            members += &format!("    e{axis}: u32,\n");
        }
        for (number, operand) in kernel.operands.iter().enumerate() {
            members += &format!("    x{number}_offset: u32,");
            for axis in (0..kernel.axes).filter(|_| operand.walks()) {
                members += &format!(" x{number}_s{axis}: u32,");
            }
            members += "\n";
        }
        for number in 0..kernel.outputs.len() {
            members += &format!("    y{number}_offset: u32,\n");
        }
        for (number, node) in kernel.nodes.iter().enumerate() {
            let Node::Map { steps, .. } = node else { continue };
            for (step, element) in steps {
                if let Step::Constant(constant) = step {
                    members += &format!("    c{number}_{constant}: {},\n", element.param_type());
                }
            }
        }
        uniform_of(&members) + "\n"
    }

    fn buffers(&self) -> String {
        let kernel = self.kernel;
        let mut out = String::new();
        let mut binding = 0;
        let mut next = || {
            binding += 1;
            binding
        };
        for (number, operand) in kernel.operands.iter().enumerate() {
            let form = operand.form(kernel.width, kernel.paired);
            out += &operand.element.storage(next(), &format!("x{number}"), form, crate::plan::Access::Read);
        }
        for (number, output) in kernel.outputs.iter().enumerate() {
            let form = match output.extent {
                Extent::PerRow => Form::Scalar,
                Extent::Whole if kernel.paired => Form::Oct,
                Extent::Whole | Extent::PerColumn => form(kernel.width),
            };
            out += &output.element.storage(next(), &format!("y{number}"), form, crate::plan::Access::ReadWrite);
        }
        let item = self.vector("f32");
        for number in &self.downs {
            out += &format!("@group(0) @binding({}) var<storage, read_write> p{number}: array<{item}>;\n", next());
        }
        if !self.downs.is_empty() && kernel.threads > kernel.lanes {
            out += &format!("var<workgroup> down: array<{item}, THREADS>;\n");
        }
        for (number, _) in kernel.operands.iter().enumerate().filter(|(_, operand)| operand.walks()) {
            let step = |axis| match axis + 1 == kernel.axes {
                true => format!("    at += rest * params.x{number}_s{axis};\n"),
                false => format!(
                    "    at += rest % params.e{axis} * params.x{number}_s{axis};\n    rest /= params.e{axis};\n"
                ),
            };
            let steps: String = (0..kernel.axes).map(step).collect();
            out += &TEXT.fill("base", holes!(number, steps));
        }
        out + "\n"
    }

    /// A program as a function of one element of each input.
    fn program(&self, number: usize, node: &Node) -> String {
        let Node::Map { steps, rounded, inputs, results, .. } = node else { return String::new() };
        let constants = format!("c{number}_");
        let body = Body {
            steps,
            rounded: *rounded,
            nearest_conversions: self.kernel.nearest_conversions,
            constants: &constants,
        };
        let mut parameters: Vec<String> =
            inputs.iter().enumerate().map(|(i, of)| format!("x{i}: {}", self.scalar(*of))).collect();
        parameters.push("index: u32".to_owned());
        let lines = steps.iter().enumerate();
        let lines: String = lines
            .map(|(id, &(step, element))| format!("    let s{id} = {};\n", body.step(id, step, element)))
            .collect();
        let values = results.iter().enumerate().map(|(i, made)| {
            let value = format!("s{}", made.step);
            // Stores round by themselves.
            let is_read = self.is_read(Of::Node(number as u8, i as u8));
            if made.is_rounded || !is_read { value } else { made.element.round(&value) }
        });
        let values: Vec<String> = values.collect();
        let (head, result, value) = if results.len() > 1 {
            let members = results.iter().enumerate();
            let members: String = members.map(|(i, made)| format!("    r{i}: {},\n", made.element.scalar())).collect();
            let value = format!("R{number}({})", values.join(", "));
            (TEXT.fill("results", holes!(number, members)), format!("R{number}"), value)
        } else {
            (String::new(), results[0].element.scalar().to_owned(), values[0].clone())
        };
        let parameters = parameters.join(", ");
        head + &TEXT.fill("program", holes!(number, parameters, result, steps = lines, value))
    }

    fn is_read(&self, of: Of) -> bool {
        self.kernel.nodes.iter().any(|node| node.inputs().contains(&of))
    }

    fn scalar(&self, of: Of) -> &'static str {
        match of {
            Of::Operand(number) => self.kernel.operands[usize::from(number)].element.scalar(),
            Of::Node(node, result) => match &self.kernel.nodes[usize::from(node)] {
                Node::Map { results, .. } => results[usize::from(result)].element.scalar(),
                Node::Fold { output, .. } => output.scalar(),
                Node::Down { .. } => "f32",
            },
        }
    }

    /// Folds whose walk is `stage`.
    fn folds(&self, stage: usize) -> impl Iterator<Item = (usize, ReduceFn, Of, Element, Element)> + '_ {
        self.kernel.nodes.iter().enumerate().filter_map(move |(number, node)| match node {
            Node::Fold { function, of, input, output } if self.levels[number] == stage + 1 => {
                Some((number, *function, *of, *input, *output))
            }
            _ => None,
        })
    }

    /// The type in which a fold runs.
    fn folded(function: ReduceFn, input: Element) -> &'static str {
        match function {
            ReduceFn::Max | ReduceFn::Min => "u32",
            _ => input.scalar(),
        }
    }

    fn fold(&self, stage: usize) -> String {
        if self.folds(stage).next().is_none() {
            return String::new();
        }
        let member = |(number, function, _, input, _)| format!("    f{number}: {},\n", Self::folded(function, input));
        let members: String = self.folds(stage).map(member).collect();
        let each = self.folds(stage).map(|(number, function, ..)| match function {
            ReduceFn::Max => format!("max(a.f{number}, b.f{number})"),
            ReduceFn::Min => format!("min(a.f{number}, b.f{number})"),
            _ => format!("a.f{number} + b.f{number}"),
        });
        let combined = each.collect::<Vec<_>>().join(", ");
        let [name, value, combine] = ["", "Folds_", "combine_"].map(|what| format!("{what}{stage}"));
        let fold = RowFold { name: &name, value: &value, combine: &combine, again: true };
        TEXT.fill("folds", holes!(stage, members, combined)) + &fold.text() + "\n"
    }

    fn write_main(&self, out: &mut String) -> std::fmt::Result {
        let mut variables = String::new();
        for number in &self.downs {
            writeln!(variables, "    var d{number}: array<{}, ITEMS>;", self.vector("f32"))?;
        }
        for (number, output) in self.kernel.outputs.iter().enumerate() {
            if self.kernel.paired && output.extent == Extent::Whole {
                writeln!(variables, "    var first_y{number}: {};", self.vector(output.element.scalar()))?;
            }
        }
        let mut walks = String::new();
        self.write_row(&mut walks)?;
        for stage in 0..self.stages {
            self.write_scalars(&mut walks, stage)?;
            self.write_stage(&mut walks, stage)?;
        }
        self.write_scalars(&mut walks, self.stages)?;
        let rows = self.kernel.outputs.iter().enumerate().filter(|(_, output)| output.extent == Extent::PerRow);
        for (number, output) in rows {
            let value = self.value(output.of, "");
            writeln!(
                walks,
                "        if live && lane == 0u {{ store_y{number}(params.y{number}_offset + row, {value}); }}"
            )?;
        }
        *out += &TEXT.fill("main", holes!(variables, walks, downs = self.sums_down()));
        Ok(())
    }

    /// The sums down the columns: those of the rows of a workgroup become one.
    fn sums_down(&self) -> String {
        if self.downs.is_empty() {
            return String::new();
        }
        let is_shared = self.kernel.threads > self.kernel.lanes;
        let total = |number: &usize| {
            let joined = if is_shared { TEXT.fill("joined", holes!(number)) } else { String::new() };
            TEXT.fill("down", holes!(number, joined))
        };
        TEXT.fill("downs", holes!(totals = self.downs.iter().map(total).collect::<String>()))
    }

    /// What is read once for a row.
    fn write_row(&self, out: &mut String) -> std::fmt::Result {
        for (number, operand) in self.kernel.operands.iter().enumerate() {
            match operand.access {
                Access::Whole => writeln!(out, "        let b{number} = base_x{number}(row);")?,
                Access::PerRow => writeln!(out, "        let o{number} = load_x{number}(base_x{number}(row));")?,
                Access::Uniform => writeln!(out, "        let o{number} = load_x{number}(params.x{number}_offset);")?,
                Access::PerColumn => {}
            }
        }
        if !self.kernel.held {
            return Ok(());
        }
        let whole = |number: &usize| self.kernel.operands[*number].access == Access::Whole;
        let all: Vec<usize> = (0..self.kernel.operands.len()).filter(whole).collect();
        self.write_loads(out, &all, "")
    }

    /// Vectors of operands, from that of place `first` on: all loads before the first result.
    fn write_loads(&self, out: &mut String, operands: &[usize], first: &str) -> std::fmt::Result {
        if operands.is_empty() {
            return Ok(());
        }
        for &number in operands {
            let item = self.vector(self.kernel.operands[number].element.scalar());
            writeln!(out, "        var h{number}: array<{item}, ITEMS>;")?;
        }
        let suffix = self.suffix();
        let load = |number: &usize| match self.kernel.paired {
            true => TEXT.fill("paired load", holes!(number)),
            false => TEXT.fill("load", holes!(number, suffix)),
        };
        let loads: String = operands.iter().map(load).collect();
        *out += &TEXT.fill(if self.kernel.paired { "paired loads" } else { "loads" }, holes!(first, loads));
        Ok(())
    }

    /// Numbers of the row that are there once the walk before `stage` is done.
    fn write_scalars(&self, out: &mut String, stage: usize) -> std::fmt::Result {
        for (number, node) in self.kernel.nodes.iter().enumerate() {
            if let Node::Map { extent: Extent::PerRow, .. } = node
                && self.levels[number] == stage
            {
                writeln!(out, "        let n{number} = {};", self.call(number, "", "row"))?;
            }
        }
        Ok(())
    }

    /// A walk over the row.
    fn write_stage(&self, out: &mut String, stage: usize) -> std::fmt::Result {
        let is_whole = |of: &Of| match of {
            Of::Operand(_) => true,
            Of::Node(node, _) => matches!(
                self.kernel.nodes[usize::from(*node)],
                Node::Map { extent: Extent::Whole | Extent::PerColumn, .. }
            ),
        };
        let folds: Vec<_> = self.folds(stage).collect();
        let downs: Vec<(usize, Of)> = self
            .downs
            .iter()
            .filter_map(|&number| match &self.kernel.nodes[number] {
                Node::Down { of } if self.levels[number] == stage => Some((number, *of)),
                _ => None,
            })
            .collect();
        let outputs = self.kernel.outputs.iter().enumerate();
        let outputs: Vec<_> =
            outputs.filter(|(_, output)| output.extent != Extent::PerRow && self.level(output.of) == stage).collect();
        if folds.is_empty() && downs.is_empty() && outputs.is_empty() {
            return Ok(());
        }
        for (number, function, _, input, _) in &folds {
            match function {
                ReduceFn::Max => writeln!(out, "        var f{number} = 0u;")?,
                ReduceFn::Min => writeln!(out, "        var f{number} = 0xffffffffu;")?,
                _ => writeln!(out, "        var f{number} = {}();", self.vector(input.scalar()))?,
            }
        }
        let roots = folds.iter().map(|fold| fold.2).chain(downs.iter().map(|down| down.1));
        let roots: Vec<Of> = roots.chain(outputs.iter().map(|(_, output)| output.of)).filter(is_whole).collect();
        let first = if self.kernel.held {
            ""
        } else {
            writeln!(out, "        for (var first = 0u; first < units; first += ITEMS * LANES) {{")?;
            let (operands, _) = self.needed(&roots);
            let whole = |number: &usize| operands[*number] && self.kernel.operands[*number].access == Access::Whole;
            self.write_loads(out, &(0..operands.len()).filter(whole).collect::<Vec<_>>(), "first + ")?;
            "first + "
        };
        writeln!(out, "        for (var i = 0u; i < ITEMS; i++) {{\n            let at = {first}place(lane, i);")?;
        writeln!(out, "            if at < units {{")?;
        self.write_values(out, &roots)?;
        for &(number, function, of, ..) in &folds {
            let each: Vec<String> = self.lanes().iter().map(|lane| self.value(of, lane)).collect();
            match function {
                ReduceFn::Max => {
                    for value in each {
                        writeln!(out, "                f{number} = max(f{number}, largest_key({value}));")?;
                    }
                }
                ReduceFn::Min => {
                    for value in each {
                        writeln!(out, "                f{number} = min(f{number}, smallest_key({value}));")?;
                    }
                }
                _ => writeln!(out, "                f{number} += {};", self.assembled(of))?,
            }
        }
        for (number, of) in downs {
            writeln!(out, "                d{number}[i] += {};", self.assembled(of))?;
        }
        for (number, output) in outputs {
            let (value, suffix) = (self.assembled(output.of), self.suffix());
            if self.kernel.paired && output.extent == Extent::Whole {
                // The second of two stores both.
                writeln!(out, "                if i % 2u == 0u {{ first_y{number} = {value}; }} else {{")?;
                let at = format!("(params.y{number}_offset + row * params.units + at) / 2u");
                writeln!(out, "                    store8_y{number}({at}, first_y{number}, {value});")?;
                writeln!(out, "                }}")?;
                continue;
            }
            let store = |base: &str| format!("store{suffix}_y{number}(params.y{number}_offset + {base}at, {value});");
            match output.extent {
                Extent::PerColumn => writeln!(out, "                if row == 0u {{ {} }}", store(""))?,
                _ => writeln!(out, "                {}", store("row * params.units + "))?,
            }
        }
        writeln!(out, "            }}\n        }}")?;
        if !self.kernel.held {
            writeln!(out, "        }}")?;
        }
        self.write_folded(out, stage)
    }

    /// The operands and nodes that `roots` need.
    fn needed(&self, roots: &[Of]) -> (Vec<bool>, Vec<bool>) {
        let (mut operands, mut nodes) = (vec![false; self.kernel.operands.len()], vec![false; self.kernel.nodes.len()]);
        let mut open = roots.to_vec();
        while let Some(of) = open.pop() {
            match of {
                Of::Operand(number) => operands[usize::from(number)] = true,
                Of::Node(number, _) => {
                    let number = usize::from(number);
                    if let Node::Map { extent: Extent::Whole | Extent::PerColumn, inputs, .. } =
                        &self.kernel.nodes[number]
                        && !nodes[number]
                    {
                        nodes[number] = true;
                        open.extend(inputs);
                    }
                }
            }
        }
        (operands, nodes)
    }

    /// Values of one vector of the row, by lane: operands, then the nodes that `roots` need.
    fn write_values(&self, out: &mut String, roots: &[Of]) -> std::fmt::Result {
        let (operands, nodes) = self.needed(roots);
        let suffix = self.suffix();
        for (number, operand) in self.kernel.operands.iter().enumerate().filter(|(number, _)| operands[*number]) {
            let load = match operand.access {
                Access::Whole => format!("h{number}[i]"),
                Access::PerColumn => format!("load{suffix}_x{number}(params.x{number}_offset + at)"),
                Access::PerRow | Access::Uniform => continue,
            };
            writeln!(out, "                let o{number} = {load};")?;
        }
        for (number, node) in self.kernel.nodes.iter().enumerate().filter(|(number, _)| nodes[*number]) {
            let Node::Map { extent, .. } = node else { continue };
            for (place, lane) in self.lanes().iter().enumerate() {
                let column = format!("at * WIDTH + {place}u");
                let index = match extent {
                    Extent::Whole => format!("row * params.columns + {column}"),
                    _ => column,
                };
                writeln!(out, "                let n{number}_{lane} = {};", self.call(number, lane, &index))?;
            }
        }
        Ok(())
    }

    /// A program on the values of one lane.
    fn call(&self, number: usize, lane: &str, index: &str) -> String {
        let inputs = self.kernel.nodes[number].inputs();
        let argument = |of: &Of| match of {
            // What another step computed is hidden from the compiler: see `map/guards.rs`.
            Of::Node(..) if matches!(self.scalar(*of), "f32" | "f64") => {
                format!("opaque_{}({}, params.zero0)", self.scalar(*of), self.value(*of, lane))
            }
            _ => self.value(*of, lane),
        };
        let arguments: Vec<String> = inputs.iter().map(argument).chain([index.to_owned()]).collect();
        format!("m{number}({})", arguments.join(", "))
    }

    /// The value of a lane; of numbers of the row for any.
    fn value(&self, of: Of, lane: &str) -> String {
        match of {
            Of::Operand(number) => match self.kernel.operands[usize::from(number)].access {
                Access::Whole | Access::PerColumn if self.kernel.width > 1 => format!("o{number}.{lane}"),
                _ => format!("o{number}"),
            },
            Of::Node(number, result) => match &self.kernel.nodes[usize::from(number)] {
                Node::Map { extent, results, .. } => {
                    let lane = if *extent == Extent::PerRow { String::new() } else { format!("_{lane}") };
                    let member = if results.len() > 1 { format!(".r{result}") } else { String::new() };
                    format!("n{number}{lane}{member}")
                }
                Node::Fold { .. } | Node::Down { .. } => format!("n{number}"),
            },
        }
    }

    /// The values of all lanes as a vector.
    fn assembled(&self, of: Of) -> String {
        let each: Vec<String> = self.lanes().iter().map(|lane| self.value(of, lane)).collect();
        if self.kernel.width == 1 {
            each[0].clone()
        } else {
            format!("{}({})", self.vector(self.scalar(of)), each.join(", "))
        }
    }

    /// The folds of a stage over all lanes: `n3` is the result of node 3.
    fn write_folded(&self, out: &mut String, stage: usize) -> std::fmt::Result {
        let mine = self.folds(stage).map(|(number, function, ..)| match (function, self.kernel.width) {
            (ReduceFn::Max | ReduceFn::Min, _) | (_, 1) => format!("f{number}"),
            (_, 2) => format!("f{number}.x + f{number}.y"),
            _ => format!("(f{number}.x + f{number}.y) + (f{number}.z + f{number}.w)"),
        });
        let mine: Vec<String> = mine.collect();
        if mine.is_empty() {
            return Ok(());
        }
        writeln!(out, "        let folds_{stage} = fold_{stage}(Folds_{stage}({}), thread);", mine.join(", "))?;
        for (number, function, _, _, output) in self.folds(stage) {
            let total = format!("folds_{stage}.f{number}");
            let value = match function {
                ReduceFn::Max | ReduceFn::Min => format!("of_key({total})"),
                ReduceFn::Mean if output.dtype().compute() == DType::F64 => format!("{total} / f64(params.columns)"),
                ReduceFn::Mean => output.round(&format!("({total} / f32(params.columns))")),
                _ => output.round(&total),
            };
            writeln!(out, "        let n{number} = {value};")?;
        }
        Ok(())
    }
}
