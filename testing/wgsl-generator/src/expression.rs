//! Expressions of any type: what is common to all. Integers and booleans are in `integer.rs`, floats in `float.rs`.
//!
//! The decision to know: an operation on constants alone is never written. A compiler evaluates it and refuses
//! overflow, which at run time is defined; so one operand is always something that changes.

use crate::generator::{Bound, Expr, Generator, Passing, Use, float_literal};
use crate::types::{Scalar, Ty};

/// Letters of a swizzle.
const LETTERS: [&str; 2] = ["xyzw", "rgba"];

impl Generator<'_> {
    /// A value of type `ty`, with floats as variables hold them.
    pub(crate) fn value(&mut self, ty: &Ty, depth: usize) -> Expr {
        let expr = self.expr(ty, depth);
        self.at_rest(expr, ty)
    }

    /// An expression of type `ty`.
    pub(crate) fn expr(&mut self, ty: &Ty, depth: usize) -> Expr {
        match ty {
            Ty::Scalar(scalar) => self.numeric(1, *scalar, depth),
            Ty::Vector(n, scalar) => self.numeric(*n, *scalar, depth),
            Ty::Matrix(columns, rows, scalar) => self.matrix(*columns, *rows, *scalar, depth),
            Ty::Array(..) | Ty::Struct(_) => self.composite(ty, depth),
        }
    }

    /// A scalar (`n` is 1) or vector.
    pub(crate) fn numeric(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let ty = Ty::of(n, scalar);
        if depth == 0 || !self.spend(n as f64) {
            return self.leaf(&ty);
        }
        if self.random.chance(20) {
            return self.leaf(&ty);
        }
        if self.random.chance(6)
            && let Some(call) = self.call(Some(&ty), depth)
        {
            return Expr::new(call, scalar);
        }
        if n > 1 && self.random.chance(20) {
            return self.vector_of_parts(n, scalar, depth);
        }
        if self.random.chance(6) {
            // A part of a vector that is no variable.
            let m = 2 + self.random.below(3);
            let whole = self.numeric(m, scalar, depth - 1);
            let letters = self.random.pick(&LETTERS);
            let chosen: String = (0..n)
                .map(|_| {
                    let i = self.random.below(m);
                    &letters[i..=i]
                })
                .collect();
            return Expr { text: format!("{}.{chosen}", whole.text), ..whole };
        }
        if n == 1 && self.random.chance(3) {
            let m = 2 + self.random.below(3);
            let whole = self.changing(m, scalar, depth - 1);
            let index = self.index(m, depth);
            return Expr { text: format!("{}[{index}]", whole.text), ..whole };
        }
        if self.random.chance(8) {
            return self.selection(n, scalar, depth);
        }
        match scalar {
            Scalar::Bool => self.boolean(n, depth),
            _ if scalar.is_float() => self.float(n, scalar, depth),
            _ => self.integer(n, scalar, depth),
        }
    }

    /// A value that no compiler knows.
    pub(crate) fn changing(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let expr = self.numeric(n, scalar, depth);
        if expr.constant { self.changing_leaf(n, scalar) } else { expr }
    }

    pub(crate) fn changing_leaf(&mut self, n: usize, scalar: Scalar) -> Expr {
        let ty = Ty::of(n, scalar);
        if let Some((_, text, _)) = self.part(&|other| *other == ty, &|usage| usage != Use::Constant, 0) {
            return Expr::new(text, scalar);
        }
        // The state of the invocation is always there.
        let text = match scalar {
            Scalar::Bool => "((h & 1u) == 1u)",
            Scalar::I32 => "bitcast<i32>(h)",
            Scalar::U32 => "h",
            Scalar::F32 => "f32(h & 15u)",
            Scalar::F16 => "f16(h & 7u)",
            Scalar::F64 => "f64(h & 15u)",
            Scalar::I64 => "bitcast<i64>(u64(h))",
            Scalar::U64 => "u64(h)",
        };
        let text = if n == 1 { text.to_owned() } else { format!("{}({text})", self.types.name(&ty)) };
        Expr::new(text, scalar)
    }

    fn leaf(&mut self, ty: &Ty) -> Expr {
        if self.random.chance(75)
            && let Some(read) = self.read(ty, 1)
        {
            return read;
        }
        match ty {
            Ty::Scalar(scalar) => self.literal(*scalar),
            Ty::Vector(n, scalar) => {
                let parts: Vec<Expr> = (0..*n).map(|_| self.literal(*scalar)).collect();
                self.constructed(ty, parts)
            }
            Ty::Matrix(..) | Ty::Array(..) | Ty::Struct(_) => self.composite(ty, 0),
        }
    }

    fn constructed(&self, ty: &Ty, parts: Vec<Expr>) -> Expr {
        let scalar = self.scalar_of(ty);
        let zero = Bound { most: 0.0, fraction: 0 };
        Expr {
            text: format!("{}({})", self.types.name(ty), join(&parts)),
            constant: parts.iter().all(|part| part.constant),
            bound: match ty {
                Ty::Array(..) | Ty::Struct(_) => Bound::resting(scalar),
                Ty::Scalar(_) | Ty::Vector(..) | Ty::Matrix(..) => {
                    parts.iter().fold(zero, |bound, part| bound.either(part.bound))
                }
            },
        }
    }

    fn literal(&mut self, scalar: Scalar) -> Expr {
        let mut bound = Bound::resting(scalar);
        let integers: [i64; 14] = [0, 1, 2, 3, 5, 7, 16, 31, 32, 33, 255, 256, 65535, 0x7FFF_FFFF];
        let text = match scalar {
            Scalar::Bool => self.random.pick(&["true", "false"]).to_owned(),
            Scalar::U32 => match self.random.below(4) {
                0 => format!("{}u", self.random.bits() as u32),
                1 => self.random.pick(&["4294967295u", "2147483648u", "0xff00ff00u"]).to_owned(),
                _ => format!("{}u", self.random.pick(&integers)),
            },
            Scalar::I32 => match self.random.below(4) {
                0 => {
                    let x = self.random.bits() as i32;
                    if x == i32::MIN { "i32(-2147483648)".to_owned() } else { signed(x.into(), "i") }
                }
                1 => self.random.pick(&["i32(-2147483648)", "(-1i)"]).to_owned(),
                _ => format!("{}i", self.random.pick(&integers)),
            },
            Scalar::I64 => match self.random.below(3) {
                0 => signed((self.random.bits() >> 1) as i64 * self.random.pick(&[1, -1]), "li"),
                1 => signed(self.random.between(-9, 9), "li"),
                _ => format!("{}li", self.random.pick(&integers)),
            },
            Scalar::U64 => match self.random.below(3) {
                0 => format!("{}lu", self.random.bits()),
                _ => format!("{}lu", self.random.pick(&integers)),
            },
            Scalar::F32 | Scalar::F16 | Scalar::F64 => {
                let (most, fraction) = scalar.resting();
                let steps = 1 << fraction;
                let whole = self.random.chance(60);
                let most = most as i64;
                let x = match whole {
                    true => self.random.between(-most, most) as f64,
                    false => self.random.between(-most * steps, most * steps) as f64 / steps as f64,
                };
                bound = Bound { most: x.abs(), fraction: if whole { 0 } else { fraction } };
                float_literal(x, scalar)
            }
        };
        Expr { text, constant: true, bound }
    }

    /// `vec4(a, b.xy, c)` and `vec3(a)`.
    fn vector_of_parts(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let mut parts = Vec::new();
        if self.random.chance(30) {
            parts.push(self.numeric(1, scalar, depth - 1));
        } else {
            let mut left = n;
            while left > 0 {
                let m = if left == n { 1 + self.random.below((n - 1).min(3)) } else { 1 + self.random.below(left) };
                parts.push(self.numeric(m, scalar, depth - 1));
                left -= m;
            }
        }
        self.constructed(&Ty::of(n, scalar), parts)
    }

    fn selection(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let (a, b) = (self.numeric(n, scalar, depth - 1), self.numeric(n, scalar, depth - 1));
        let m = if self.random.chance(50) { n } else { 1 };
        let condition = self.changing(m, Scalar::Bool, depth - 1);
        let text = format!("select({}, {}, {})", a.text, b.text, condition.text);
        Expr::bounded(text, a.bound.either(b.bound))
    }

    /// An array or a struct.
    fn composite(&mut self, ty: &Ty, depth: usize) -> Expr {
        let scalar = self.scalar_of(ty);
        if (depth == 0 || self.random.chance(50))
            && let Some(read) = self.read(ty, depth)
        {
            return read;
        }
        if depth > 0
            && self.random.chance(20)
            && let Some(call) = self.call(Some(ty), depth)
        {
            return Expr::new(call, scalar);
        }
        if self.random.chance(15) || !self.spend(self.types.scalars(ty) as f64) {
            return Expr { constant: true, ..Expr::new(format!("{}()", self.types.name(ty)), scalar) };
        }
        let members: Vec<Ty> = match ty {
            Ty::Struct(index) => self.types.structs[*index].clone(),
            _ => match ty.element() {
                Some((element, n)) => vec![element; n],
                None => vec![ty.clone()],
            },
        };
        let parts = members.iter().map(|member| self.value(member, depth.saturating_sub(2))).collect();
        self.constructed(ty, parts)
    }

    /// A call of a function that returns `wanted`, or of any.
    pub(crate) fn call(&mut self, wanted: Option<&Ty>, depth: usize) -> Option<String> {
        let fitting: Vec<usize> = (0..self.functions.len())
            .filter(|&i| {
                let function = &self.functions[i];
                wanted.is_none_or(|wanted| function.result.as_ref() == Some(wanted))
                    && (self.privates_allowed || !function.uses_privates)
                    && self.affords(function.executed, function.written)
            })
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let index = self.random.pick(&fitting);
        let function = self.functions[index].clone();
        self.spend(0.0);
        self.executed += function.executed * self.rate;
        self.written += function.written;
        self.uses_privates |= function.uses_privates;
        let mut taken: Vec<String> = Vec::new();
        let mut arguments = Vec::new();
        for (passing, ty) in &function.params {
            let text = match passing {
                Passing::Value => self.value(ty, depth.saturating_sub(1)).text,
                Passing::FunctionPointer | Passing::PrivatePointer => {
                    let name = self.pointer(*passing, ty, &taken)?;
                    taken.push(name.clone());
                    format!("&{name}")
                }
            };
            arguments.push(text);
        }
        Some(format!("{}({})", function.name, arguments.join(", ")))
    }

    /// A whole variable to point to, other than those `taken`.
    fn pointer(&mut self, passing: Passing, ty: &Ty, taken: &[String]) -> Option<String> {
        let usage = if passing == Passing::PrivatePointer { Use::Private } else { Use::Write };
        if usage == Use::Private && !self.privates_allowed {
            return None;
        }
        let fitting: Vec<String> = self
            .variables
            .iter()
            .filter(|v| v.usage == usage && v.ty == *ty && !taken.contains(&v.name))
            // Names of variables, not of memory behind a pointer or in a buffer.
            .filter(|v| v.name.chars().all(char::is_alphanumeric))
            .map(|v| v.name.clone())
            .collect();
        if fitting.is_empty() {
            return None;
        }
        self.uses_privates |= usage == Use::Private;
        Some(self.random.pick(&fitting))
    }

    /// An operand pair of one operation, at least one of which changes.
    pub(crate) fn operands(&mut self, n: usize, scalar: Scalar, depth: usize) -> (Expr, Expr) {
        let (mut a, b) = (self.numeric(n, scalar, depth - 1), self.numeric(n, scalar, depth - 1));
        if a.constant && b.constant {
            a = self.changing_leaf(n, scalar);
        }
        (a, b)
    }
}

fn signed(x: i64, suffix: &str) -> String {
    if x < 0 { format!("(-{}{suffix})", x.unsigned_abs()) } else { format!("{x}{suffix}") }
}

/// The texts with commas.
pub(crate) fn join(parts: &[Expr]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ")
}
