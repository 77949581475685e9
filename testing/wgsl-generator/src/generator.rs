//! The state of a program under construction: what is visible, what was declared, what it costs so far.

use std::collections::BTreeMap;

use crate::Settings;
use crate::random::Random;
use crate::types::{Scalar, Ty, Types};

/// Scalar operations that one invocation may execute, about.
const MOST_EXECUTED: f64 = 6000.0;
/// Operations of the whole text with every call written out, about: compilers inline.
const MOST_WRITTEN: f64 = 2500.0;

/// What is known of a float: all its components are multiples of 2^-fraction, up to `most` in magnitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) most: f64,
    pub(crate) fraction: u32,
}

impl Bound {
    /// Of floats in variables, and of everything that is no float.
    pub(crate) fn resting(scalar: Scalar) -> Bound {
        let (most, fraction) = scalar.resting();
        Bound { most, fraction }
    }

    /// Whether every such number is a `scalar`.
    pub(crate) fn fits(self, scalar: Scalar) -> bool {
        self.most * 2f64.powi(self.fraction as i32) <= 2f64.powi(scalar.precision() as i32) && self.fraction <= 10
    }

    pub(crate) fn is_at_rest(self, scalar: Scalar) -> bool {
        let (most, fraction) = scalar.resting();
        self.most <= most && self.fraction <= fraction
    }

    pub(crate) fn either(self, other: Bound) -> Bound {
        Bound { most: self.most.max(other.most), fraction: self.fraction.max(other.fraction) }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Its text, in brackets where it is an operation.
    pub(crate) text: String,
    /// Whether the compiler may evaluate it: then it refuses overflow.
    pub(crate) constant: bool,
    pub(crate) bound: Bound,
}

impl Expr {
    pub(crate) fn new(text: impl Into<String>, scalar: Scalar) -> Expr {
        Expr { text: text.into(), constant: false, bound: Bound::resting(scalar) }
    }

    pub(crate) fn bounded(text: impl Into<String>, bound: Bound) -> Expr {
        Expr { text: text.into(), constant: false, bound }
    }
}

/// What may be done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A `const`: the compiler knows its value.
    Constant,
    /// A value that is no variable: `let`, a parameter.
    Value,
    /// Memory that is only read.
    Read,
    /// A variable.
    Write,
    /// A variable of the module, whose address functions take only when they do not use it otherwise.
    Private,
}

/// A name with a value.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) usage: Use,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    Value,
    FunctionPointer,
    PrivatePointer,
}

/// A function that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) params: Vec<(Passing, Ty)>,
    pub(crate) result: Option<Ty>,
    pub(crate) executed: f64,
    pub(crate) written: f64,
    /// Whether it names module variables that pointers may lead to.
    pub(crate) uses_privates: bool,
}

/// What surrounds a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    Loop,
    Switch,
    /// A loop's continuing block: nothing leaves it.
    Continuing,
}

/// A program under construction.
pub(crate) struct Generator<'s> {
    pub(crate) random: Random,
    pub(crate) settings: &'s Settings,
    pub(crate) types: Types,
    /// Text of helper functions, by name.
    pub(crate) helpers: BTreeMap<String, String>,
    pub(crate) functions: Vec<Function>,
    /// What is visible, the innermost last.
    pub(crate) variables: Vec<Variable>,
    /// Statements of the function that is written.
    pub(crate) text: String,
    pub(crate) indent: usize,
    pub(crate) around: Vec<Around>,
    /// What the function returns; `None` inside the entry point, which returns at its end only.
    pub(crate) returns: Option<Option<Ty>>,
    /// Whether the function may name private variables.
    pub(crate) privates_allowed: bool,
    pub(crate) uses_privates: bool,
    /// How often the current statement is executed.
    pub(crate) rate: f64,
    pub(crate) executed: f64,
    pub(crate) written: f64,
    /// Whether only constants may be written.
    pub(crate) steady: bool,
    names: usize,
}

impl<'s> Generator<'s> {
    pub(crate) fn new(seed: u64, settings: &'s Settings) -> Generator<'s> {
        Generator {
            random: Random::new(seed),
            settings,
            types: Types::default(),
            helpers: BTreeMap::new(),
            functions: Vec::new(),
            variables: Vec::new(),
            text: String::new(),
            indent: 0,
            around: Vec::new(),
            returns: None,
            privates_allowed: true,
            uses_privates: false,
            rate: 1.0,
            executed: 0.0,
            written: 0.0,
            steady: false,
            names: 0,
        }
    }

    /// A name nobody has.
    pub(crate) fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    /// Counts `operations` of this place; false when there were too many already.
    pub(crate) fn spend(&mut self, operations: f64) -> bool {
        self.executed += operations * self.rate;
        self.written += operations;
        self.affords(0.0, 0.0)
    }

    pub(crate) fn affords(&self, executed: f64, written: f64) -> bool {
        let size = self.settings.size.max(1) as f64 / 100.0;
        self.executed + executed * self.rate < MOST_EXECUTED * size && self.written + written < MOST_WRITTEN * size
    }

    /// A scalar type of numbers.
    pub(crate) fn number(&mut self) -> Scalar {
        let mut scalars = vec![Scalar::I32, Scalar::I32, Scalar::U32, Scalar::U32, Scalar::F32, Scalar::F32];
        if self.settings.f16 {
            scalars.extend([Scalar::F16; 2]);
        }
        if self.settings.f64 {
            scalars.push(Scalar::F64);
        }
        if self.settings.i64 {
            scalars.extend([Scalar::I64, Scalar::U64]);
        }
        self.random.pick(&scalars)
    }

    /// A type of variables; of buffers when `host`.
    pub(crate) fn ty(&mut self, depth: usize, host: bool) -> Ty {
        let scalar = if !host && self.random.chance(12) { Scalar::Bool } else { self.number() };
        match self.random.below(if depth == 0 { 7 } else { 11 }) {
            0..3 => Ty::Scalar(scalar),
            3..6 => Ty::Vector(2 + self.random.below(3), scalar),
            6 => {
                let scalar = self.matrix_scalar();
                Ty::Matrix(2 + self.random.below(3), 2 + self.random.below(3), scalar)
            }
            7..9 => Ty::Array(Box::new(self.ty(depth - 1, host)), 1 + self.random.below(5)),
            _ => {
                let fitting: Vec<usize> =
                    (0..self.types.structs.len()).filter(|&i| !host || !self.types.has_bool(&Ty::Struct(i))).collect();
                match fitting.is_empty() {
                    true => Ty::Scalar(scalar),
                    false => Ty::Struct(self.random.pick(&fitting)),
                }
            }
        }
    }

    /// The scalar of a matrix: naga has those of f16 and f32.
    pub(crate) fn matrix_scalar(&mut self) -> Scalar {
        if self.settings.f16 && self.random.chance(25) { Scalar::F16 } else { Scalar::F32 }
    }

    /// Declares the program's struct types.
    pub(crate) fn declare_structs(&mut self) {
        for index in 0..1 + self.random.below(4) {
            let host = index < 2;
            let mut members: Vec<Ty> = Vec::new();
            for _ in 0..1 + self.random.below(5) {
                let ty = self.ty(2, host);
                let all: usize = members.iter().map(|ty| self.types.scalars(ty)).sum();
                if all + self.types.scalars(&ty) <= 40 {
                    members.push(ty);
                }
            }
            if members.is_empty() {
                members.push(Ty::Scalar(Scalar::I32));
            }
            self.types.structs.push(members);
        }
    }

    /// A number that tells values of `ty` apart, as a call of a helper.
    pub(crate) fn see(&mut self, ty: &Ty, text: &str) -> String {
        format!("{}({text})", self.seeing(ty))
    }

    fn seeing(&mut self, ty: &Ty) -> String {
        let name: String =
            self.types.name(ty).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
        let name = format!("see_{}", name.replace("__", "_").trim_end_matches('_'));
        if self.helpers.contains_key(&name) {
            return name;
        }
        let combined = |g: &mut Self, element: &Ty, parts: Vec<String>| {
            let see = g.seeing(element);
            let terms = parts.iter().map(|part| format!("    r = r * 31u + {see}(x{part});\n"));
            format!("    var r = 7u;\n{}    return r;", terms.collect::<String>())
        };
        let body = match ty {
            Ty::Scalar(scalar) => match scalar {
                Scalar::Bool => "    return select(0u, 1u, x);".to_owned(),
                Scalar::U32 => "    return x;".to_owned(),
                Scalar::I32 => "    return bitcast<u32>(x);".to_owned(),
                // Which zero it is must not matter.
                Scalar::F32 => "    return select(bitcast<u32>(x), 0u, x == 0.0);".to_owned(),
                Scalar::F16 => "    return bitcast<u32>(i32(x * 4.0h));".to_owned(),
                Scalar::F64 => "    return bitcast<u32>(i32(x * 4.0lf));".to_owned(),
                Scalar::U64 => "    return u32(x) ^ u32(x >> 32u);".to_owned(),
                Scalar::I64 => "    let y = bitcast<u64>(x);\n    return u32(y) ^ u32(y >> 32u);".to_owned(),
            },
            Ty::Vector(n, scalar) => combined(
                self,
                &Ty::Scalar(*scalar),
                ["x", "y", "z", "w"][..*n].iter().map(|c| format!(".{c}")).collect(),
            ),
            Ty::Matrix(columns, rows, scalar) => {
                combined(self, &Ty::Vector(*rows, *scalar), (0..*columns).map(|i| format!("[{i}]")).collect())
            }
            Ty::Array(element, n) => combined(self, element, (0..*n).map(|i| format!("[{i}]")).collect()),
            Ty::Struct(index) => {
                let members = self.types.structs[*index].clone();
                let terms: Vec<String> = members
                    .iter()
                    .enumerate()
                    .map(|(i, member)| format!("    r = r * 31u + {};\n", self.see(member, &format!("x.m{i}"))))
                    .collect();
                format!("    var r = 11u;\n{}    return r;", terms.concat())
            }
        };
        let text = format!("fn {name}(x: {}) -> u32 {{\n{body}\n}}\n", self.types.name(ty));
        self.helpers.insert(name.clone(), text);
        name
    }

    /// The expression with its components brought to what variables hold: multiples of a fraction, in a small range.
    pub(crate) fn at_rest(&mut self, expr: Expr, ty: &Ty) -> Expr {
        let scalar = match ty {
            Ty::Scalar(scalar) | Ty::Vector(_, scalar) | Ty::Matrix(_, _, scalar) => *scalar,
            Ty::Array(..) | Ty::Struct(_) => return expr,
        };
        if !scalar.is_float() || expr.bound.is_at_rest(scalar) {
            return expr;
        }
        self.spend(5.0);
        let name = self.resting(ty, scalar);
        Expr { text: format!("{name}({})", expr.text), constant: expr.constant, bound: Bound::resting(scalar) }
    }

    fn resting(&mut self, ty: &Ty, scalar: Scalar) -> String {
        let shape = match ty {
            Ty::Vector(n, _) => format!("{n}"),
            Ty::Matrix(columns, rows, _) => format!("{columns}x{rows}"),
            Ty::Scalar(_) | Ty::Array(..) | Ty::Struct(_) => "1".to_owned(),
        };
        let name = format!("rest_{}_{shape}", scalar.name());
        if !self.helpers.contains_key(&name) {
            let spelled = self.types.name(ty);
            let body = if let Ty::Matrix(columns, rows, _) = ty {
                let column = self.resting(&Ty::Vector(*rows, scalar), scalar);
                let columns: Vec<String> = (0..*columns).map(|i| format!("{column}(x[{i}])")).collect();
                format!("    return {spelled}({});", columns.join(", "))
            } else {
                let (most, fraction) = scalar.resting();
                let steps = f64::from(1 << fraction);
                let number = |x: f64| float_literal(x, scalar);
                format!(
                    "    let y = floor(x * {}) * {};\n    return y - {} * trunc(y * {});",
                    number(steps),
                    number(1.0 / steps),
                    number(most),
                    number(1.0 / most)
                )
            };
            self.helpers.insert(name.clone(), format!("fn {name}(x: {spelled}) -> {spelled} {{\n{body}\n}}\n"));
        }
        name
    }
}

/// The text of a float.
pub(crate) fn float_literal(x: f64, scalar: Scalar) -> String {
    let suffix = match scalar {
        Scalar::F16 => "h",
        Scalar::F64 => "lf",
        _ => "f",
    };
    let mut digits = format!("{}", x.abs());
    if !digits.contains('.') {
        digits += ".0";
    }
    if x < 0.0 { format!("(-{digits}{suffix})") } else { format!("{digits}{suffix}") }
}
