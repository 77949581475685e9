//! Statements: declarations, assignments and all of WGSL's control flow, with every loop bounded.

use crate::generator::{Around, Generator, Use, Variable};
use crate::types::{Scalar, Ty};

impl Generator<'_> {
    /// `count` statements in a block of their own names.
    pub(crate) fn block(&mut self, count: usize, depth: usize) {
        let visible = self.variables.len();
        self.indent += 1;
        for _ in 0..count {
            self.statement(depth);
        }
        self.indent -= 1;
        self.variables.truncate(visible);
    }

    fn few(&mut self) -> usize {
        1 + self.random.below(3)
    }

    pub(crate) fn statement(&mut self, depth: usize) {
        let free = self.spend(2.0);
        match self.random.below(if depth == 0 || !free { 17 } else { 26 }) {
            0..3 => self.declare(depth.min(2) + 1),
            3..8 => self.assign(),
            8 => self.modify(),
            9 => {
                if let Some(call) = self.call(None, 2) {
                    self.line(format!("{call};"));
                } else {
                    self.observe();
                }
            }
            10 => self.leave(),
            11..15 => self.observe(),
            15..17 => self.overwrite(),
            17..20 => self.choose(depth),
            20..22 => self.switch(depth),
            22..25 => self.repeat(depth),
            _ => {
                self.line("{");
                let count = self.few();
                self.block(count, depth - 1);
                self.line("}");
            }
        }
    }

    pub(crate) fn declare(&mut self, depth: usize) {
        let ty = self.ty(2, false);
        if self.random.chance(8)
            && let Some((text, ty)) = self.target(&|ty| !matches!(ty, Ty::Scalar(_)), 2)
        {
            let name = self.fresh("p");
            self.line(format!("let {name} = &{text};"));
            self.variables.push(Variable { name: format!("(*{name})"), ty, usage: Use::Write });
            return;
        }
        let spelled = self.types.name(&ty);
        let (name, usage) = match self.random.below(10) {
            0..4 => (self.fresh("a"), Use::Value),
            _ => (self.fresh("v"), Use::Write),
        };
        let keyword = if usage == Use::Value { "let" } else { "var" };
        if usage == Use::Write && self.random.chance(15) {
            self.line(format!("var {name}: {spelled};"));
        } else {
            let value = self.value(&ty, depth);
            let annotation = if self.random.chance(50) { format!(": {spelled}") } else { String::new() };
            self.line(format!("{keyword} {name}{annotation} = {};", value.text));
        }
        self.variables.push(Variable { name, ty, usage });
    }

    fn assign(&mut self) {
        let numbers = self.random.chance(75);
        let wanted = move |ty: &Ty| !numbers || matches!(ty, Ty::Scalar(_) | Ty::Vector(..));
        match self.target(&wanted, 2) {
            Some((place, ty)) => {
                let depth = 1 + self.random.below(3);
                let value = self.value(&ty, depth);
                self.line(format!("{place} = {};", value.text));
            }
            None => self.declare(2),
        }
    }

    /// `x += y`, `x++`.
    fn modify(&mut self) {
        let integers = |ty: &Ty| match ty {
            Ty::Scalar(scalar) | Ty::Vector(_, scalar) => scalar.is_integer(),
            Ty::Matrix(..) | Ty::Array(..) | Ty::Struct(_) => false,
        };
        let Some((place, ty)) = self.target(&integers, 2) else { return self.declare(2) };
        let scalar = self.scalar_of(&ty);
        let n = if let Ty::Vector(n, _) = ty { n } else { 1 };
        if n == 1 && scalar.bytes() == 4 && self.random.chance(40) {
            let op = self.random.pick(&["++", "--"]);
            return self.line(format!("{place}{op};"));
        }
        if scalar.bytes() == 4 && self.random.chance(20) {
            let counts = self.types.name(&Ty::of(n, Scalar::U32));
            let by = self.changing(n, Scalar::U32, 2).text;
            let op = self.random.pick(&["<<=", ">>="]);
            return self.line(format!("{place} {op} {by} & {counts}(31u);"));
        }
        let op = self.random.pick(&["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="]);
        let divides = matches!(op, "/=" | "%=");
        let value = if divides { self.changing_leaf(n, scalar) } else { self.changing(n, scalar, 2) }.text;
        self.line(format!("{place} {op} {value};"));
    }

    /// Lets the state of the invocation depend on a value.
    pub(crate) fn observe(&mut self) {
        let ty = match self.random.chance(70) {
            true => {
                let scalar = if self.random.chance(15) { Scalar::Bool } else { self.number() };
                Ty::of(1 + self.random.below(4), scalar)
            }
            false => self.ty(2, false),
        };
        let depth = 1 + self.random.below(3);
        let value = self.value(&ty, depth).text;
        let seen = self.see(&ty, &value);
        self.spend(self.types.scalars(&ty) as f64 * 2.0);
        if self.random.chance(30) && self.returns.is_none() && self.around.is_empty() {
            let slot = self.random.below(crate::SLOTS - 1);
            self.line(format!("output[at + {slot}u] += {seen};"));
        } else {
            self.line(format!("h = mixed(h, {seen});"));
        }
    }

    /// A way out of what surrounds this, taken now and then.
    fn leave(&mut self) {
        let mut ways = Vec::new();
        let inner = self.around.last().copied();
        let continuing = self.around.contains(&Around::Continuing);
        if matches!(inner, Some(Around::Loop | Around::Switch)) {
            ways.push("break;".to_owned());
        }
        if self.around.contains(&Around::Loop) && !continuing {
            ways.push("continue;".to_owned());
        }
        if !continuing && let Some(returns) = self.returns.clone() {
            match returns {
                Some(ty) => {
                    let value = self.value(&ty, 1).text;
                    ways.push(format!("return {value};"));
                }
                None => ways.push("return;".to_owned()),
            }
        }
        if ways.is_empty() {
            return self.observe();
        }
        let condition = self.changing(1, Scalar::Bool, 2).text;
        let way = self.random.pick(&ways);
        self.line(format!("if {condition} {{"));
        self.indent += 1;
        self.line(way);
        self.indent -= 1;
        self.line("}");
    }

    fn choose(&mut self, depth: usize) {
        let condition = self.changing(1, Scalar::Bool, 2).text;
        self.line(format!("if {condition} {{"));
        let count = self.few();
        self.block(count, depth - 1);
        if self.random.chance(25) {
            let condition = self.changing(1, Scalar::Bool, 2).text;
            self.line(format!("}} else if ({condition}) {{"));
            let count = self.few();
            self.block(count, depth - 1);
        }
        if self.random.chance(50) {
            self.line("} else {");
            let count = self.few();
            self.block(count, depth - 1);
        }
        self.line("}");
    }

    fn switch(&mut self, depth: usize) {
        let unsigned = self.random.chance(50);
        let (scalar, suffix) = if unsigned { (Scalar::U32, "u") } else { (Scalar::I32, "i") };
        let selector = self.changing(1, scalar, 2).text;
        let cases = 1 + self.random.below(4);
        let default = self.random.below(cases + 1);
        let first = if unsigned { self.random.between(0, 2) } else { self.random.between(-2, 2) };
        let modulus = 2 + self.random.below(6);
        self.line(format!("switch ({selector} % {modulus}{suffix}) {{"));
        self.indent += 1;
        self.around.push(Around::Switch);
        let mut value = first;
        for case in 0..=cases {
            let mut selectors = Vec::new();
            if case != default || self.random.chance(40) {
                for _ in 0..1 + self.random.below(2) {
                    selectors.push(format!("{value}{suffix}"));
                    value += 1 + i64::from(self.random.chance(20));
                }
            }
            if case == default {
                let at = self.random.below(selectors.len() + 1);
                selectors.insert(at, "default".to_owned());
            }
            match selectors.as_slice() {
                [only] if only == "default" => self.line("default: {"),
                _ => self.line(format!("case {}: {{", selectors.join(", "))),
            }
            let count = self.random.below(4);
            self.block(count, depth - 1);
            self.line("}");
        }
        self.around.pop();
        self.indent -= 1;
        self.line("}");
    }

    fn repeat(&mut self, depth: usize) {
        let rounds = 1 + self.random.below(if self.around.contains(&Around::Loop) { 4 } else { 7 });
        let counter = self.fresh("k");
        let kind = self.random.below(4);
        let count = self.few();
        let (before, rate) = (self.variables.len(), self.rate);
        // A loop whose number of rounds nobody knows when compiling.
        let limit = match self.random.chance(50) {
            true => format!("{rounds}u"),
            false => format!("(1u + {} % {rounds}u)", self.changing_leaf(1, Scalar::U32).text),
        };
        let counting = Variable { name: counter.clone(), ty: Ty::Scalar(Scalar::U32), usage: Use::Read };
        match kind {
            0 | 1 => {
                let step = self.random.pick(&["++", " += 1u", " += 2u"]);
                if kind == 1 && self.random.chance(30) {
                    self.line(format!("for (var {counter} = {rounds}u; {counter} > 0u; {counter}--) {{"));
                } else {
                    let limit = if self.random.chance(70) { format!("{rounds}u") } else { limit };
                    self.line(format!("for (var {counter} = 0u; {counter} < {limit}; {counter}{step}) {{"));
                }
                self.variables.push(counting);
                self.body(count, depth, rounds);
            }
            2 => {
                self.line(format!("var {counter} = 0u;"));
                self.line(format!("while ({counter} < {limit}) {{"));
                self.variables.push(counting);
                self.indent += 1;
                self.line(format!("{counter}++;"));
                self.indent -= 1;
                self.body(count, depth, rounds);
            }
            _ => {
                self.line(format!("var {counter} = 0u;"));
                self.line("loop {");
                self.variables.push(counting);
                let break_if = self.random.chance(50);
                if !break_if {
                    self.indent += 1;
                    self.line(format!("if {counter} >= {limit} {{ break; }}"));
                    self.indent -= 1;
                }
                self.body(count, depth, rounds);
                self.indent += 1;
                self.line("continuing {");
                self.around.push(Around::Continuing);
                self.rate = rate * rounds as f64;
                let visible = self.variables.len();
                self.indent += 1;
                self.line(format!("{counter}++;"));
                for _ in 0..self.random.below(3) {
                    if self.random.chance(50) { self.assign() } else { self.observe() }
                }
                if break_if {
                    let early = match self.random.chance(30) {
                        true => format!(" || {}", self.changing(1, Scalar::Bool, 1).text),
                        false => String::new(),
                    };
                    self.line(format!("break if {counter} >= {rounds}u{early};"));
                }
                self.indent -= 1;
                self.variables.truncate(visible);
                self.around.pop();
                self.line("}");
                self.indent -= 1;
            }
        }
        self.rate = rate;
        self.line("}");
        self.variables.truncate(before);
    }

    fn body(&mut self, count: usize, depth: usize, rounds: usize) {
        let rate = self.rate;
        self.rate *= rounds as f64;
        self.around.push(Around::Loop);
        self.block(count, depth - 1);
        self.around.pop();
        self.rate = rate;
    }
}
