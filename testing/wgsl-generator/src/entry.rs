//! The program as a whole: declarations, functions, and an entry point in which invocations exchange data between
//! barriers.

use crate::generator::{Function, Generator, Passing, Use, Variable};
use crate::types::{Field, Scalar, Ty, fill};
use crate::{BufferSpec, BufferUse, Program, SLOTS, Settings};

/// Shapes of a workgroup.
const SHAPES: [[usize; 3]; 8] =
    [[1, 1, 1], [8, 1, 1], [32, 1, 1], [33, 1, 1], [64, 1, 1], [4, 3, 2], [16, 4, 1], [7, 1, 5]];
/// The same where subgroups have to be full.
const FULL_SHAPES: [[usize; 3]; 2] = [[32, 1, 1], [64, 1, 1]];
/// Elements of the input.
const INPUTS: usize = 61;

/// What is atomic in a buffer, and the operation that is used on it.
const ATOMICS: [(&str, Scalar); 9] = [
    ("atomicAdd", Scalar::U32),
    ("atomicSub", Scalar::I32),
    ("atomicMin", Scalar::I32),
    ("atomicMax", Scalar::U32),
    ("atomicAnd", Scalar::U32),
    ("atomicOr", Scalar::I32),
    ("atomicXor", Scalar::U32),
    ("atomicAdd", Scalar::I32),
    ("atomicMin", Scalar::U32),
];

pub(crate) fn program(seed: u64, settings: &Settings) -> Program {
    let mut g = Generator::new(seed, settings);
    let shape = if settings.subgroups { g.random.pick(&FULL_SHAPES) } else { g.random.pick(&SHAPES) };
    let grid = [1 + g.random.below(3), 1 + g.random.below(2), 1];
    let threads = shape.iter().product::<usize>();
    let all = threads * grid.iter().product::<usize>();
    g.declare_structs();

    let mut globals = String::new();
    let mut buffers = Vec::new();
    let word = Ty::Scalar(Scalar::U32);
    g.buffer(&mut globals, &mut buffers, ("input", BufferUse::Read), &word, Some(INPUTS));
    g.buffer(&mut globals, &mut buffers, ("output", BufferUse::ReadWrite), &word, Some(all * SLOTS));
    let element = Ty::Struct(0);
    g.buffer(&mut globals, &mut buffers, ("records", BufferUse::Read), &element, Some(5));
    g.buffer(
        &mut globals,
        &mut buffers,
        ("own", BufferUse::ReadWrite),
        &Ty::Struct(g.types.structs.len().min(2) - 1),
        Some(all),
    );
    let uniform = g.uniform_type();
    let name = g.types.name(&uniform);
    globals += &format!("@group(0) @binding(4) var<uniform> settings: {name};\n");
    buffers.push(g.spec(4, BufferUse::Uniform, &uniform, 1));
    g.atomic_buffers(&mut globals, &mut buffers, all);
    g.constants(&mut globals);

    // What functions see.
    let reads = |name: &str, ty: Ty| Variable { name: name.to_owned(), ty, usage: Use::Read };
    g.variables.push(reads("settings", uniform));
    for i in [0, 3] {
        g.variables.push(reads(&format!("records[{i}]"), element.clone()));
    }
    for _ in 0..g.random.below(4) {
        let ty = g.ty(2, false);
        let name = g.fresh("q");
        let start = match g.random.chance(50) {
            true => {
                let visible = g.variables.clone();
                g.variables.retain(|v| v.usage == Use::Constant);
                let value = g.constant(&ty);
                g.variables = visible;
                format!(" = {value}")
            }
            false => String::new(),
        };
        globals += &format!("var<private> {name}: {}{start};\n", g.types.name(&ty));
        g.variables.push(Variable { name, ty, usage: Use::Private });
    }
    let mut functions = String::new();
    for _ in 0..g.random.below(5) {
        functions += &g.function();
    }
    let shared = g.ty(1, false);
    globals += &format!("var<workgroup> shared_values: array<{}, {threads}>;\n", g.types.name(&shared));
    globals += "var<workgroup> tally: array<atomic<u32>, 3>;\nvar<workgroup> chosen: u32;\n";
    let entry = g.entry(shape, threads, &shared);

    let mut wgsl = String::new();
    if settings.f16 {
        wgsl += "enable f16;\n";
    }
    // Subgroup operations need no `enable` in naga, which refuses the one that WGSL has for them.
    wgsl += &g.types.declarations();
    wgsl += &globals;
    wgsl += "var<private> h: u32;\n";
    wgsl += "fn mixed(a: u32, b: u32) -> u32 {\n    let x = (a ^ b) * 0x9e3779b1u;\n    return x ^ (x >> 15u);\n}\n";
    wgsl += &g.helpers.values().cloned().collect::<String>();
    wgsl += &functions;
    wgsl += &entry;
    Program { wgsl, buffers, grid: grid.map(|n| n as u32), settings: *settings }
}

impl Generator<'_> {
    fn spec(&mut self, binding: u32, usage: BufferUse, element: &Ty, count: usize) -> BufferSpec {
        let stride = self.types.stride(element);
        // Bindings are whole words: half a word more would count as an element of two bytes.
        let count = if stride.is_multiple_of(4) { count } else { count.next_multiple_of(2) };
        let mut fields: Vec<Field> = Vec::new();
        for i in 0..count {
            self.types.fields(element, i * stride, &mut fields);
        }
        let mut initial = vec![0; (count * stride).next_multiple_of(16)];
        for &field in &fields {
            fill(&mut self.random, field, &mut initial);
        }
        // A run-time array ends with its last element.
        initial.truncate(if usage == BufferUse::Uniform { usize::MAX } else { count * stride });
        BufferSpec { binding, usage, initial, fields }
    }

    /// An array of `count` elements, whose length only the launch knows.
    fn buffer(
        &mut self,
        globals: &mut String,
        buffers: &mut Vec<BufferSpec>,
        (name, usage): (&str, BufferUse),
        element: &Ty,
        count: Option<usize>,
    ) {
        let binding = buffers.len() as u32;
        let access = if usage == BufferUse::ReadWrite { "read_write" } else { "read" };
        let spelled = self.types.name(element);
        *globals += &format!("@group(0) @binding({binding}) var<storage, {access}> {name}: array<{spelled}>;\n");
        let spec = self.spec(binding, usage, element, count.unwrap_or(1));
        buffers.push(spec);
    }

    /// A struct of what uniform buffers hold without further attributes: scalars, vectors and matrices.
    fn uniform_type(&mut self) -> Ty {
        let mut members = Vec::new();
        for _ in 0..2 + self.random.below(5) {
            let ty = self.ty(0, true);
            // 16-bit matrices and columns of two have paddings on which implementations do not agree.
            let plain = match ty {
                Ty::Matrix(_, rows, scalar) => rows > 2 && scalar == Scalar::F32,
                Ty::Scalar(_) | Ty::Vector(..) => true,
                Ty::Array(..) | Ty::Struct(_) => false,
            };
            members.push(if plain { ty } else { Ty::Vector(4, Scalar::F32) });
        }
        members.push(Ty::Array(Box::new(Ty::Vector(4, Scalar::I32)), 3));
        self.types.structs.push(members);
        Ty::Struct(self.types.structs.len() - 1)
    }

    fn atomic_buffers(&mut self, globals: &mut String, buffers: &mut Vec<BufferSpec>, all: usize) {
        let members: Vec<String> =
            ATOMICS.iter().enumerate().map(|(i, (_, scalar))| format!("a{i}: atomic<{}>", scalar.name())).collect();
        *globals += &format!("struct Atomics {{ {} }}\n", members.join(", "));
        *globals += "@group(0) @binding(5) var<storage, read_write> atomics: Atomics;\n";
        *globals += "@group(0) @binding(6) var<storage, read_write> cells: array<atomic<u32>>;\n";
        let word = Ty::Scalar(Scalar::U32);
        buffers.push(self.spec(5, BufferUse::ReadWrite, &word, ATOMICS.len()));
        buffers.push(self.spec(6, BufferUse::ReadWrite, &word, all));
    }

    /// A value that the compiler knows: no name of a variable is in it. Only constants are visible.
    fn constant(&mut self, ty: &Ty) -> String {
        self.steady = true;
        let text = self.constant_parts(ty);
        self.steady = false;
        text
    }

    fn constant_parts(&mut self, ty: &Ty) -> String {
        let name = self.types.name(ty);
        match ty {
            Ty::Scalar(_) => self.value(ty, 0).text,
            Ty::Struct(index) => {
                let members = self.types.structs[*index].clone();
                let parts: Vec<String> = members.iter().map(|member| self.constant_parts(member)).collect();
                format!("{name}({})", parts.join(", "))
            }
            _ => {
                let (element, n) = ty.element().unwrap_or((Ty::Scalar(Scalar::U32), 1));
                let parts: Vec<String> = (0..n).map(|_| self.constant_parts(&element)).collect();
                format!("{name}({})", parts.join(", "))
            }
        }
    }

    fn constants(&mut self, globals: &mut String) {
        for _ in 0..self.random.below(3) {
            let ty = self.ty(2, false);
            let name = self.fresh("c");
            let value = self.constant(&ty);
            *globals += &format!("const {name} = {value};\n");
            self.variables.push(Variable { name, ty, usage: Use::Constant });
        }
    }

    /// A function, which later ones may call.
    fn function(&mut self) -> String {
        let name = self.fresh("go");
        let visible = self.variables.clone();
        let before = (self.executed, self.written, std::mem::take(&mut self.text));
        let result = if self.random.chance(85) { Some(self.ty(1, false)) } else { None };
        let (mut params, mut spelled, mut private_pointer) = (Vec::new(), Vec::new(), false);
        for _ in 0..self.random.below(4) {
            let param = self.fresh("a");
            let (passing, ty) = match self.random.below(10) {
                0..2 => (Passing::FunctionPointer, self.ty(1, false)),
                2 => match visible.iter().find(|v| v.usage == Use::Private) {
                    Some(variable) => (Passing::PrivatePointer, variable.ty.clone()),
                    None => (Passing::Value, self.ty(1, false)),
                },
                _ => (Passing::Value, self.ty(1, false)),
            };
            let ty_name = self.types.name(&ty);
            private_pointer |= passing == Passing::PrivatePointer;
            let (ty_name, name, usage) = match passing {
                Passing::Value => (ty_name, param.clone(), Use::Value),
                Passing::FunctionPointer => (format!("ptr<function, {ty_name}>"), format!("(*{param})"), Use::Write),
                Passing::PrivatePointer => (format!("ptr<private, {ty_name}>"), format!("(*{param})"), Use::Write),
            };
            spelled.push(format!("{param}: {ty_name}"));
            params.push((passing, ty.clone()));
            self.variables.push(Variable { name, ty, usage });
        }
        (self.privates_allowed, self.uses_privates) = (!private_pointer, private_pointer);
        self.returns = Some(result.clone());
        self.indent = 1;
        for _ in 0..1 + self.random.below(5) {
            self.statement(2);
        }
        let arrow = match &result {
            Some(ty) => {
                let value = self.value(ty, 2).text;
                self.line(format!("return {value};"));
                format!(" -> {}", self.types.name(ty))
            }
            None => String::new(),
        };
        let body = std::mem::replace(&mut self.text, before.2);
        let function = Function {
            name: name.clone(),
            params,
            result,
            executed: self.executed - before.0 + 1.0,
            written: self.written - before.1 + 1.0,
            uses_privates: self.uses_privates,
        };
        (self.executed, self.written) = (before.0, before.1);
        (self.privates_allowed, self.returns) = (true, None);
        self.functions.push(function);
        self.variables = visible;
        format!("fn {name}({}){arrow} {{\n{body}}}\n", spelled.join(", "))
    }

    fn entry(&mut self, [x, y, z]: [usize; 3], threads: usize, shared: &Ty) -> String {
        self.indent = 1;
        self.line("let group = wid.x + wid.y * count.x + wid.z * count.x * count.y;");
        self.line(format!("let id = group * {threads}u + lid;"));
        self.line(format!("let at = id * {SLOTS}u;"));
        self.line("h = mixed(input[id % arrayLength(&input)], id);");
        let value = |name: &str, ty: Ty| Variable { name: name.to_owned(), ty, usage: Use::Value };
        let word = Ty::Scalar(Scalar::U32);
        for name in ["id", "lid"] {
            self.variables.push(value(name, word.clone()));
        }
        for name in ["wid", "local", "global", "count"] {
            self.variables.push(value(name, Ty::Vector(3, Scalar::U32)));
        }
        let own = Ty::Struct(if self.types.structs.len() > 2 { 1 } else { 0 });
        self.variables.push(Variable { name: "own[id]".to_owned(), ty: own, usage: Use::Write });
        // Others look at it between two barriers of `exchange` alone.
        self.variables.push(Variable { name: "shared_values[lid]".to_owned(), ty: shared.clone(), usage: Use::Write });
        self.variables.push(Variable {
            name: "records[h % arrayLength(&records)]".to_owned(),
            ty: Ty::Struct(0),
            usage: Use::Read,
        });
        for _ in 0..3 + self.random.below(6) {
            self.statement(3);
        }
        for phase in 0..1 + self.random.below(3) {
            self.overwrite();
            self.exchange(phase, threads, shared);
            for _ in 0..1 + self.random.below(4) {
                self.statement(2);
            }
        }
        if self.settings.subgroups {
            self.subgroup_operations();
        }
        self.line(format!("output[at + {}u] = h;", SLOTS - 1));
        let body = std::mem::take(&mut self.text);
        format!(
            "@compute @workgroup_size({x}, {y}, {z})\nfn main(\n    @builtin(local_invocation_index) lid: u32,\n    \
             @builtin(local_invocation_id) local: vec3<u32>,\n    @builtin(global_invocation_id) global: vec3<u32>,\n    \
             @builtin(workgroup_id) wid: vec3<u32>,\n    @builtin(num_workgroups) count: vec3<u32>,\n) {{\n{body}}}\n"
        )
    }

    /// Data goes from each invocation of the workgroup to another, and to atomics that all of them change.
    fn exchange(&mut self, phase: usize, threads: usize, shared: &Ty) {
        let sent = self.value(shared, 2).text;
        self.line(format!("shared_values[lid] = {sent};"));
        let (index, (f, scalar)) = {
            let index = self.random.below(ATOMICS.len());
            (index, ATOMICS[index])
        };
        let operand = self.changing(1, scalar, 2).text;
        let condition = self.changing(1, Scalar::Bool, 2).text;
        self.line(format!("if {condition} {{ {f}(&atomics.a{index}, {operand}); }}"));
        // Every function of the shared tally commutes with itself.
        let (slot, f) = self.random.pick(&[(0, "atomicAdd"), (1, "atomicMax"), (2, "atomicXor")]);
        let operand = self.changing(1, Scalar::U32, 2).text;
        self.line(format!("{f}(&tally[{slot}], {operand});"));
        let source = self.random.below(threads);
        let known = self.changing(1, Scalar::U32, 1).text;
        self.line(format!("if lid == {source}u {{ chosen = {known}; }}"));
        if self.random.chance(50) {
            self.line("storageBarrier();");
        }
        self.line("workgroupBarrier();");
        let (name, by) = (self.fresh("a"), self.random.below(threads));
        self.line(format!("let {name} = shared_values[(lid + {by}u) % {threads}u];"));
        self.variables.push(Variable { name, ty: shared.clone(), usage: Use::Value });
        let name = self.fresh("a");
        self.line(format!("let {name} = atomicLoad(&tally[{slot}]);"));
        self.variables.push(Variable { name, ty: Ty::Scalar(Scalar::U32), usage: Use::Value });
        let name = self.fresh("a");
        self.line(format!("let {name} = workgroupUniformLoad(&chosen);"));
        self.variables.push(Variable { name, ty: Ty::Scalar(Scalar::U32), usage: Use::Value });
        self.line("workgroupBarrier();");
        self.own_cell(phase);
    }

    /// Atomics on what only this invocation uses, whose results are then known.
    fn own_cell(&mut self, _phase: usize) {
        let operand = self.changing(1, Scalar::U32, 2).text;
        let name = self.fresh("a");
        if self.random.chance(40) {
            let expected = self.random.chance(50);
            let other = self.changing_leaf(1, Scalar::U32).text;
            let compared = if expected { "atomicLoad(&cells[id])".to_owned() } else { other };
            self.line(format!("let {name} = atomicCompareExchangeWeak(&cells[id], {compared}, {operand});"));
            if expected {
                // A weak exchange may fail: whether it did is not looked at.
                self.line(format!("h = mixed(h, {name}.old_value);"));
                self.line(format!("atomicStore(&cells[id], {operand});"));
            } else {
                self.line(format!("h = mixed(h, {name}.old_value);"));
                self.line("atomicStore(&cells[id], h);");
            }
            return;
        }
        let f = self.random.pick(&[
            "atomicAdd",
            "atomicSub",
            "atomicMin",
            "atomicMax",
            "atomicAnd",
            "atomicOr",
            "atomicXor",
            "atomicExchange",
        ]);
        self.line(format!("let {name} = {f}(&cells[id], {operand});"));
        self.variables.push(Variable { name, ty: Ty::Scalar(Scalar::U32), usage: Use::Value });
    }

    /// Operations whose results are the same for subgroups of any size from eight on, all of whose invocations are
    /// here.
    fn subgroup_operations(&mut self) {
        for _ in 0..2 + self.random.below(4) {
            let scalar = self.random.pick(&[Scalar::I32, Scalar::U32, Scalar::F32]);
            let n = 1 + self.random.below(4);
            let ty = Ty::of(n, scalar);
            let value = self.numeric(n, scalar, 2);
            let value = self.at_rest(value, &ty).text;
            let uniform = self.random.chance(30);
            let text = if uniform {
                // LLVM 15, as in llvmpipe, ends the process where it is to broadcast a float that was an integer.
                let last = if scalar == Scalar::F32 { 2 } else { 3 };
                let f = self.random.pick(&["subgroupMin", "subgroupMax", "subgroupBroadcastFirst"][..last]);
                let name = self.types.name(&ty);
                let literals = self.random.below(30);
                format!("{f}({name}({}(chosen_now + {literals}u)))", scalar.name())
            } else {
                let by = 1 + self.random.below(7);
                match self.random.below(5) {
                    0 => format!("quadSwapX({value})"),
                    1 => format!("quadSwapY({value})"),
                    2 => format!("quadSwapDiagonal({value})"),
                    3 => format!("quadBroadcast({value}, {}u)", by % 4),
                    _ => format!("subgroupShuffleXor({value}, {by}u)"),
                }
            };
            if uniform {
                self.line("workgroupBarrier();");
                self.line("let chosen_now = workgroupUniformLoad(&chosen) % 16u;");
            }
            let seen = self.see(&ty, &text);
            self.line(format!("h = mixed(h, {seen});"));
            if uniform {
                let text = std::mem::take(&mut self.text);
                self.text = text.replace("chosen_now", &self.fresh("n"));
            }
        }
    }
}
