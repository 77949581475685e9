//! Integers of 32 and 64 bits, and booleans: every operator and builtin function, wrapping and all.

use crate::expression::join;
use crate::generator::{Expr, Generator, Use};
use crate::types::{Scalar, Ty};

/// Builtin functions of one integer of 32 bits.
const UNARY: [&str; 8] = [
    "abs",
    "countOneBits",
    "countLeadingZeros",
    "countTrailingZeros",
    "firstLeadingBit",
    "firstTrailingBit",
    "reverseBits",
    "sign",
];

impl Generator<'_> {
    pub(crate) fn integer(&mut self, n: usize, scalar: Scalar, depth: usize) -> Expr {
        let wide = matches!(scalar, Scalar::I64 | Scalar::U64);
        let name = self.types.name(&Ty::of(n, scalar));
        let text = match self.random.below(if wide { 15 } else { 26 }) {
            0..5 => {
                let (a, b) = self.broadcast_operands(n, scalar, depth);
                let op = self.random.pick(&["+", "-", "*"]);
                format!("({} {op} {})", a.text, b.text)
            }
            5..7 => {
                let (a, b) = self.operands(n, scalar, depth);
                let op = self.random.pick(&["&", "|", "^"]);
                format!("({} {op} {})", a.text, b.text)
            }
            7 => {
                // naga refuses a divisor with a constant zero among its components.
                let (a, b) = (self.numeric(n, scalar, depth - 1), self.changing_leaf(n, scalar));
                let op = self.random.pick(&["/", "%"]);
                format!("({} {op} {})", a.text, b.text)
            }
            8 => {
                // By a constant, which may not be 0.
                let a = self.changing(n, scalar, depth - 1);
                let suffix = match scalar {
                    Scalar::U32 => "u",
                    Scalar::I32 => "i",
                    Scalar::U64 => "lu",
                    _ => "li",
                };
                let divisor = match self.random.below(3) {
                    0 => 1 << self.random.below(31),
                    1 => 1 + (self.random.bits() >> 33),
                    _ => 1 + self.random.below(100) as u64,
                };
                let minus = if scalar.is_signed() && self.random.chance(30) { "-" } else { "" };
                let divisor = format!("({minus}{divisor}{suffix})");
                let divisor = if n > 1 && self.random.chance(50) { divisor } else { format!("{name}({divisor})") };
                let op = self.random.pick(&["/", "%"]);
                format!("({} {op} {divisor})", a.text)
            }
            9..11 => self.shift(n, scalar, depth),
            11 => {
                let a = self.changing(n, scalar, depth - 1);
                let op = if scalar.is_signed() { self.random.pick(&["-", "~"]) } else { "~" };
                format!("({op}{})", a.text)
            }
            12 => {
                let (a, b) = self.operands(n, scalar, depth);
                let f = self.random.pick(&["min", "max"]);
                format!("{f}({}, {})", a.text, b.text)
            }
            13..15 => self.converted(n, scalar, depth),
            15..18 => {
                let a = self.changing(n, scalar, depth - 1);
                let count = if scalar.is_signed() { UNARY.len() } else { UNARY.len() - 1 };
                format!("{}({})", UNARY[self.random.below(count)], a.text)
            }
            18 => {
                let a = self.changing(n, scalar, depth - 1);
                let bounds = [self.changing_leaf(n, scalar), self.changing_leaf(n, scalar)];
                let bounds = join(&bounds);
                format!("clamp({}, min({bounds}), max({bounds}))", a.text)
            }
            19..21 => {
                let a = self.changing(n, scalar, depth - 1);
                let mut numbers = Vec::new();
                for _ in 0..2 {
                    numbers.push(match self.random.chance(50) {
                        true => format!("{}u", self.random.below(34)),
                        false => format!("({} & 63u)", self.changing(1, Scalar::U32, depth - 1).text),
                    });
                }
                let numbers = numbers.join(", ");
                match self.random.chance(50) {
                    true => format!("extractBits({}, {numbers})", a.text),
                    false => {
                        let b = self.changing(n, scalar, depth - 1);
                        format!("insertBits({}, {}, {numbers})", a.text, b.text)
                    }
                }
            }
            21 if n == 1 => {
                let m = 2 + self.random.below(3);
                let (a, b) = (self.changing(m, scalar, depth - 1), self.changing(m, scalar, depth - 1));
                format!("dot({}, {})", a.text, b.text)
            }
            22.. => self.packing(n, scalar, depth),
            _ => {
                let n = n.max(1);
                self.wild_read(n, scalar, depth)
            }
        };
        Expr::new(text, scalar)
    }

    /// Operands of which one may be a scalar where the other is a vector.
    pub(crate) fn broadcast_operands(&mut self, n: usize, scalar: Scalar, depth: usize) -> (Expr, Expr) {
        let (mut a, mut b) = self.operands(n, scalar, depth);
        if n > 1 && self.random.chance(20) {
            let single = self.changing(1, scalar, depth - 1);
            if self.random.chance(50) {
                a = single;
            } else {
                b = single;
            }
        }
        (a, b)
    }

    fn shift(&mut self, n: usize, scalar: Scalar, depth: usize) -> String {
        let a = self.changing(n, scalar, depth - 1);
        let op = self.random.pick(&["<<", ">>"]);
        let counts = self.types.name(&Ty::of(n, Scalar::U32));
        let most = scalar.bytes() * 8;
        let by = match self.random.below(3) {
            0 => format!("{counts}({}u)", self.random.below(most)),
            // Counts are taken modulo the width; for 64 bits not every compiler does.
            // A variable's: naga looks through a `let`, and refuses a vector that is constant in part.
            1 if scalar.bytes() == 4 => {
                let ty = Ty::of(n, Scalar::U32);
                match self.part(&|other| *other == ty, &|usage| !matches!(usage, Use::Constant | Use::Value), 0) {
                    Some((_, text, _)) => text,
                    None => format!("{counts}(h)"),
                }
            }
            _ => format!("({} & {counts}({}u))", self.changing(n, Scalar::U32, depth - 1).text, most - 1),
        };
        format!("({} {op} {by})", a.text)
    }

    fn converted(&mut self, n: usize, scalar: Scalar, depth: usize) -> String {
        let name = self.types.name(&Ty::of(n, scalar));
        // Neither i64(u32), in which naga's SPIR-V extends the sign, nor i64(i32), which Mesa 22.3 compares without it.
        let mut from = match scalar {
            Scalar::I32 => vec![Scalar::U32, Scalar::Bool, Scalar::F32],
            Scalar::U32 => vec![Scalar::I32, Scalar::Bool, Scalar::F32],
            Scalar::I64 => vec![Scalar::U64],
            _ => vec![Scalar::U32, Scalar::I64],
        };
        if scalar.bytes() == 4 {
            if self.settings.f16 {
                from.push(Scalar::F16);
            }
            if self.settings.f64 {
                from.push(Scalar::F64);
            }
            if self.settings.i64 {
                from.push(if scalar == Scalar::I32 { Scalar::I64 } else { Scalar::U64 });
            }
        }
        let from = self.random.pick(&from);
        let a = self.changing(n, from, depth - 1);
        match from {
            Scalar::F32 if self.random.chance(30) => {
                // Which zero it is must not matter, nor what an intermediate result is.
                let a = self.at_rest(a, &Ty::of(n, from)).text;
                format!("bitcast<{name}>({a} + {})", self.types.name(&Ty::of(n, from)) + "(0.5)")
            }
            Scalar::I32 | Scalar::U32 if scalar.bytes() == 4 && self.random.chance(50) => {
                format!("bitcast<{name}>({})", a.text)
            }
            Scalar::I64 | Scalar::U64 if scalar.bytes() == 8 => format!("bitcast<{name}>({})", a.text),
            _ => format!("{name}({})", a.text),
        }
    }

    /// Bytes in words, and dot products of them.
    fn packing(&mut self, n: usize, scalar: Scalar, depth: usize) -> String {
        if n == 4 {
            let a = self.changing(1, Scalar::U32, depth - 1);
            return match scalar {
                Scalar::I32 if self.random.chance(50) => {
                    format!("vec4<i32>(round(unpack4x8snorm({}) * 127.0))", a.text)
                }
                Scalar::I32 => format!("unpack4xI8({})", a.text),
                _ if self.random.chance(50) => format!("vec4<u32>(round(unpack4x8unorm({}) * 255.0))", a.text),
                _ => format!("unpack4xU8({})", a.text),
            };
        }
        if n == 2 {
            let a = self.changing(1, Scalar::U32, depth - 1);
            return match scalar {
                Scalar::I32 => format!("vec2<i32>(round(unpack2x16snorm({}) * 32767.0))", a.text),
                _ => format!("vec2<u32>(round(unpack2x16unorm({}) * 65535.0))", a.text),
            };
        }
        if n == 3 {
            return format!("vec3<{}>({})", scalar.name(), self.packing(1, scalar, depth));
        }
        let text = match self.random.below(9) {
            0 => {
                let f = if scalar == Scalar::I32 { "dot4I8Packed" } else { "dot4U8Packed" };
                let (a, b) = (self.changing(1, Scalar::U32, depth - 1), self.changing(1, Scalar::U32, depth - 1));
                return format!("{f}({}, {})", a.text, b.text);
            }
            1 => format!("pack4xI8({})", self.changing(4, Scalar::I32, depth - 1).text),
            2 => format!("pack4xU8({})", self.changing(4, Scalar::U32, depth - 1).text),
            3 => format!("pack4xI8Clamp({})", self.changing(4, Scalar::I32, depth - 1).text),
            4 => format!("pack4xU8Clamp({})", self.changing(4, Scalar::U32, depth - 1).text),
            // 1/64 keeps every product away from the middle between two integers, where roundings differ.
            x => {
                let m = if x < 7 { 4 } else { 2 };
                let float = self.numeric(m, Scalar::F32, depth - 1);
                let float = self.at_rest(float, &Ty::of(m, Scalar::F32)).text;
                match x {
                    5 => self.pack_signed("pack4x8snorm", 4, &float),
                    6 => format!("pack4x8unorm(floor({float}) * 0.125 + 0.015625)"),
                    7 if self.random.chance(50) => format!("pack2x16unorm(floor({float}) * 0.125 + 0.015625)"),
                    7 => self.pack_signed("pack2x16snorm", 2, &float),
                    // Away from zero, which has two signs.
                    _ => format!("pack2x16float(floor({float}) + 0.5)"),
                }
            }
        };
        if scalar == Scalar::I32 { format!("bitcast<i32>({text})") } else { text }
    }

    /// Of something no compiler knows: Mesa 22.3 evaluates these of constants, and lets a negative component fill those
    /// above it.
    fn pack_signed(&mut self, function: &str, n: usize, float: &str) -> String {
        let name = format!("unknown_{function}");
        let helper = format!(
            "fn {name}(x: vec{n}<f32>) -> u32 {{\n    return {function}(select(-x, x, h != 305419896u));\n}}\n"
        );
        self.helpers.insert(name.clone(), helper);
        format!("{name}(floor({float}) * 0.125 + 0.015625)")
    }

    /// An element that may not be there, whose value is used only when it is.
    fn wild_read(&mut self, n: usize, scalar: Scalar, depth: usize) -> String {
        let ty = Ty::of(n, scalar);
        let array = |other: &Ty| other.element().is_some_and(|(element, _)| element == ty);
        let index = self.part(&|t| *t == Ty::Scalar(Scalar::U32), &|usage| usage != Use::Constant, 0);
        let found = self.part(&array, &|usage| usage != Use::Constant, 0);
        match (found, index) {
            (Some((_, base, array)), Some((_, index, _))) => {
                let length = array.element().map_or(1, |(_, n)| n);
                let other = self.changing_leaf(n, scalar).text;
                format!("select({other}, {base}[{index}], {index} < {length}u)")
            }
            _ => {
                let (a, b) = self.operands(n, scalar, depth);
                format!("({} + {})", a.text, b.text)
            }
        }
    }

    pub(crate) fn boolean(&mut self, n: usize, depth: usize) -> Expr {
        let text = match self.random.below(10) {
            0..4 => {
                let scalar = self.number();
                let (a, b) = self.operands(n, scalar, depth);
                let op = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {op} {})", a.text, b.text)
            }
            4 => format!("(!{})", self.changing(n, Scalar::Bool, depth - 1).text),
            5 => {
                let (a, b) = self.operands(n, Scalar::Bool, depth);
                let op = self.random.pick(&["&", "|", "==", "!="]);
                format!("({} {op} {})", a.text, b.text)
            }
            6 if n == 1 => {
                let m = 2 + self.random.below(3);
                let f = self.random.pick(&["any", "all"]);
                format!("{f}({})", self.changing(m, Scalar::Bool, depth - 1).text)
            }
            6..8 if n == 1 => {
                let (a, b) = self.operands(1, Scalar::Bool, depth);
                let op = self.random.pick(&["&&", "||"]);
                format!("({} {op} {})", a.text, b.text)
            }
            _ => {
                let scalar = self.random.pick(&[Scalar::I32, Scalar::U32, Scalar::F32]);
                let a = self.changing(n, scalar, depth - 1).text;
                format!("{}({a})", self.types.name(&Ty::of(n, Scalar::Bool)))
            }
        };
        Expr::new(text, Scalar::Bool)
    }
}
