//! The text of a row kernel: a function for each program, and a walk over the row for each stage.
//!
//! A fold's result is there for later stages alone, so a stage is a walk that ends in folds; values that it needs are computed in it, from
//! what is held of the row and from earlier folds. Results are written in the first stage that has them.

use std::fmt::Write;

use crate::ops::Extent;
use crate::ops::ReduceFn;
use crate::{DType, Step};

use super::{Access, Kernel, Node, Of, form};
use crate::ops::map::plan::body::Body;
use crate::ops::map::plan::text::{OPAQUE, OPAQUE_F64, OPAQUE_F64_CHOSEN};
use crate::plan::Source;
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;

const LANES: [&str; 4] = ["x", "y", "z", "w"];

pub(super) fn source(kernel: &Kernel) -> Source {
    let text = Text::of(kernel);
    let mut out = String::new();
    // Formatting into a String cannot fail.
    let _ = text.write(&mut out);
    let wide = if kernel.wide_integers { OPAQUE_F64 } else { OPAQUE_F64_CHOSEN };
    for (name, function) in [("opaque_f32(", OPAQUE), ("opaque_f64(", wide)] {
        if out.contains(name) {
            out += function;
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
        writeln!(out, "const WIDTH = {width}u;\nconst LANES = {lanes}u;\nconst THREADS = {threads}u;")?;
        writeln!(out, "const ITEMS = {items}u;\nconst ROWS = THREADS / LANES;")?;
        writeln!(out, "const FAN = select(select(32u, 16u, LANES <= 256u), 4u, LANES <= 32u);")?;
        writeln!(out, "const HEADS = select(LANES / FAN, 1u, LANES <= FAN);\nconst SPAN = LANES / HEADS;\n")?;
        writeln!(out, "// Vector number i of a lane, in a row.")?;
        let at = if self.kernel.paired { "2u * (lane + i / 2u * LANES) + i % 2u" } else { "lane + i * LANES" };
        writeln!(out, "fn place(lane: u32, i: u32) -> u32 {{ return {at}; }}\n")?;
        self.write_params(out)?;
        self.write_buffers(out)?;
        for (number, node) in self.kernel.nodes.iter().enumerate() {
            self.write_program(out, number, node)?;
        }
        for stage in 0..self.stages {
            self.write_fold(out, stage)?;
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
    fn write_params(&self, out: &mut String) -> std::fmt::Result {
        let kernel = self.kernel;
        writeln!(out, "struct Params {{\n    rows: u32, units: u32, columns: u32, rounds: u32,\n    groups: u32,")?;
        writeln!(out, "    zero0: u32, zero1: u32,   // 0, as no compiler knows")?;
        for axis in 0..kernel.axes {
            writeln!(out, "    e{axis}: u32,")?;
        }
        for (number, operand) in kernel.operands.iter().enumerate() {
            write!(out, "    x{number}_offset: u32,")?;
            for axis in (0..kernel.axes).filter(|_| operand.walks()) {
                write!(out, " x{number}_s{axis}: u32,")?;
            }
            writeln!(out)?;
        }
        for number in 0..kernel.outputs.len() {
            writeln!(out, "    y{number}_offset: u32,")?;
        }
        for (number, node) in kernel.nodes.iter().enumerate() {
            let Node::Map { steps, .. } = node else { continue };
            for (step, element) in steps {
                if let Step::Constant(constant) = step {
                    writeln!(out, "    c{number}_{constant}: {},", element.param_type())?;
                }
            }
        }
        writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;\n")
    }

    fn write_buffers(&self, out: &mut String) -> std::fmt::Result {
        let kernel = self.kernel;
        let mut binding = 0;
        let mut next = || {
            binding += 1;
            binding
        };
        for (number, operand) in kernel.operands.iter().enumerate() {
            let form = operand.form(kernel.width, kernel.paired);
            *out += &operand.element.storage(next(), &format!("x{number}"), form, crate::plan::Access::Read);
        }
        for (number, output) in kernel.outputs.iter().enumerate() {
            let form = match output.extent {
                Extent::PerRow => Form::Scalar,
                Extent::Whole if kernel.paired => Form::Oct,
                Extent::Whole | Extent::PerColumn => form(kernel.width),
            };
            *out += &output.element.storage(next(), &format!("y{number}"), form, crate::plan::Access::ReadWrite);
        }
        for number in &self.downs {
            let item = self.vector("f32");
            writeln!(out, "@group(0) @binding({}) var<storage, read_write> p{number}: array<{item}>;", next())?;
        }
        if !self.downs.is_empty() && kernel.threads > kernel.lanes {
            writeln!(out, "var<workgroup> down: array<{}, THREADS>;", self.vector("f32"))?;
        }
        // Where a row of each operand begins.
        for (number, _) in kernel.operands.iter().enumerate().filter(|(_, operand)| operand.walks()) {
            writeln!(out, "fn base_x{number}(row: u32) -> u32 {{\n    var at = params.x{number}_offset;")?;
            writeln!(out, "    var rest = row;")?;
            for axis in 0..kernel.axes {
                if axis + 1 == kernel.axes {
                    writeln!(out, "    at += rest * params.x{number}_s{axis};")?;
                } else {
                    writeln!(out, "    at += rest % params.e{axis} * params.x{number}_s{axis};")?;
                    writeln!(out, "    rest /= params.e{axis};")?;
                }
            }
            writeln!(out, "    return at;\n}}")?;
        }
        writeln!(out)
    }

    /// A program as a function of one element of each input.
    fn write_program(&self, out: &mut String, number: usize, node: &Node) -> std::fmt::Result {
        let Node::Map { steps, rounded, inputs, results, .. } = node else { return Ok(()) };
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
        let several = results.len() > 1;
        if several {
            writeln!(out, "struct R{number} {{")?;
            for (i, made) in results.iter().enumerate() {
                writeln!(out, "    r{i}: {},", made.element.scalar())?;
            }
            writeln!(out, "}}")?;
        }
        let result = if several { format!("R{number}") } else { results[0].element.scalar().to_owned() };
        writeln!(out, "fn m{number}({}) -> {result} {{", parameters.join(", "))?;
        for (id, &(step, element)) in steps.iter().enumerate() {
            writeln!(out, "    let s{id} = {};", body.step(id, step, element))?;
        }
        let values = results.iter().enumerate().map(|(i, made)| {
            let value = format!("s{}", made.step);
            // Stores round by themselves.
            let is_read = self.is_read(Of::Node(number as u8, i as u8));
            if made.is_rounded || !is_read { value } else { made.element.round(&value) }
        });
        let values: Vec<String> = values.collect();
        if several {
            writeln!(out, "    return R{number}({});\n}}\n", values.join(", "))
        } else {
            writeln!(out, "    return {};\n}}\n", values[0])
        }
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

    fn write_fold(&self, out: &mut String, stage: usize) -> std::fmt::Result {
        if self.folds(stage).next().is_none() {
            return Ok(());
        }
        writeln!(out, "struct Folds_{stage} {{")?;
        for (number, function, _, input, _) in self.folds(stage) {
            writeln!(out, "    f{number}: {},", Self::folded(function, input))?;
        }
        writeln!(out, "}}\nfn combine_{stage}(a: Folds_{stage}, b: Folds_{stage}) -> Folds_{stage} {{")?;
        let each = self.folds(stage).map(|(number, function, ..)| match function {
            ReduceFn::Max => format!("max(a.f{number}, b.f{number})"),
            ReduceFn::Min => format!("min(a.f{number}, b.f{number})"),
            _ => format!("a.f{number} + b.f{number}"),
        });
        writeln!(out, "    return Folds_{stage}({});\n}}", each.collect::<Vec<_>>().join(", "))?;
        let text = include_str!("../../../../../wgsl/rows_fold.wgsl").replace("STAGE", &stage.to_string());
        // The head is for those who read the file.
        let text = text.split_once("var<workgroup>").map_or(text.clone(), |(_, rest)| format!("var<workgroup>{rest}"));
        writeln!(out, "{text}")
    }

    fn write_main(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "@compute @workgroup_size(THREADS)\nfn main(\n    @builtin(workgroup_id) workgroup: vec3<u32>,")?;
        writeln!(out, "    @builtin(num_workgroups) workgroups: vec3<u32>,")?;
        writeln!(out, "    @builtin(local_invocation_index) thread: u32,\n) {{")?;
        writeln!(out, "    let group = workgroup.y * workgroups.x + workgroup.x;\n    let lane = thread % LANES;")?;
        for number in &self.downs {
            writeln!(out, "    var d{number}: array<{}, ITEMS>;", self.vector("f32"))?;
        }
        for (number, output) in self.kernel.outputs.iter().enumerate() {
            if self.kernel.paired && output.extent == Extent::Whole {
                writeln!(out, "    var first_y{number}: {};", self.vector(output.element.scalar()))?;
            }
        }
        writeln!(out, "    for (var round = 0u; round < params.rounds; round++) {{")?;
        writeln!(out, "        let asked = (round * params.groups + group) * ROWS + thread / LANES;")?;
        writeln!(out, "        // A row past the end stores nothing but still meets the barriers.")?;
        writeln!(out, "        let live = group < params.groups && asked < params.rows;")?;
        writeln!(out, "        let row = min(asked, params.rows - 1u);")?;
        writeln!(out, "        let units = select(0u, params.units, live);")?;
        self.write_row(out)?;
        for stage in 0..self.stages {
            self.write_scalars(out, stage)?;
            self.write_stage(out, stage)?;
        }
        self.write_scalars(out, self.stages)?;
        let rows = self.kernel.outputs.iter().enumerate().filter(|(_, output)| output.extent == Extent::PerRow);
        for (number, output) in rows {
            let value = self.value(output.of, "");
            writeln!(
                out,
                "        if live && lane == 0u {{ store_y{number}(params.y{number}_offset + row, {value}); }}"
            )?;
        }
        writeln!(out, "    }}")?;
        self.write_down(out)?;
        writeln!(out, "}}\n")
    }

    /// The sums down the columns: those of the rows of a workgroup become one.
    fn write_down(&self, out: &mut String) -> std::fmt::Result {
        if self.downs.is_empty() {
            return Ok(());
        }
        writeln!(out, "    for (var i = 0u; i < ITEMS; i++) {{\n        let at = place(lane, i);")?;
        for number in &self.downs {
            writeln!(out, "        var total{number} = d{number}[i];")?;
            if self.kernel.threads > self.kernel.lanes {
                writeln!(out, "        down[thread] = total{number};")?;
                writeln!(out, "        for (var count = ROWS; count > 1u; count = (count + 1u) / 2u) {{")?;
                writeln!(out, "            let half = (count + 1u) / 2u;")?;
                writeln!(out, "            workgroupBarrier(); // the sums of `count` rows are there")?;
                writeln!(
                    out,
                    "            if thread / LANES + half < count {{ down[thread] += down[thread + half * LANES]; }}"
                )?;
                writeln!(out, "        }}\n        workgroupBarrier(); // the first row has all")?;
                writeln!(
                    out,
                    "        total{number} = down[thread];\n        workgroupBarrier(); // it has been read"
                )?;
            }
            writeln!(out, "        if thread < LANES && group < params.groups && at < params.units {{")?;
            writeln!(out, "            p{number}[group * params.units + at] = total{number};\n        }}")?;
        }
        writeln!(out, "    }}")
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
        // Behind the end the last vector again: with no condition in between, every load is under way before a result.
        if self.kernel.paired {
            writeln!(out, "        for (var i = 0u; i < ITEMS; i += 2u) {{")?;
            writeln!(out, "            let at = min(({first}place(lane, i)) / 2u, params.units / 2u - 1u);")?;
            for number in operands {
                writeln!(out, "            let w{number} = words_x{number}(b{number} / 2u + at);")?;
                writeln!(out, "            h{number}[i] = unpack4_x{number}(w{number}.xy);")?;
                writeln!(out, "            h{number}[i + 1u] = unpack4_x{number}(w{number}.zw);")?;
            }
        } else {
            writeln!(out, "        for (var i = 0u; i < ITEMS; i++) {{")?;
            writeln!(out, "            let at = min({first}place(lane, i), params.units - 1u);")?;
            for number in operands {
                writeln!(out, "            h{number}[i] = load{}_x{number}(b{number} + at);", self.suffix())?;
            }
        }
        writeln!(out, "        }}")
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
