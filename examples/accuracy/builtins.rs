//! The description of a builtin to be measured: its WGSL, its inputs, its exact value and WGSL's limits.
//!
//! The list of builtins is not here but in `arithmetic.rs`, `scalars.rs`, `vectors.rs` and `conversions.rs`. The
//! decision to know: operands are named `a`, `b`, `c`, ... in the order of the input; the shader makes vectors of them.

use super::float::Type;
use super::inputs::Random;
use super::interval::{ANY, Allowed, Interval, Wgsl};

/// The exact results; only as many count as the builtin has.
pub type Results = [f64; 4];

/// The results of a builtin with one result.
pub fn single(value: f64) -> Results {
    [value; 4]
}

/// The unit in which an error is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Units in the last place of the exact result.
    Ulp,
    /// Units in the last place of the largest term, where terms cancel.
    UlpOfTerm,
    /// The absolute difference.
    Absolute,
}

/// One line of the table: a part of the domain, and the limit that is promised there.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The part in words; empty for the whole domain.
    pub part: &'static str,
    pub domain: fn(&[f64]) -> bool,
    pub measure: Measure,
    /// WGSL's words for f32, and for f16 where they differ.
    pub words: [&'static str; 2],
    pub allowed: fn(&Wgsl, &[Interval]) -> Allowed,
    /// The only type with this line, if it is not for all.
    pub only: Option<Type>,
}

#[derive(Clone, Debug)]
pub struct Builtin {
    /// The name as in WGSL: `atan2(y, x)`.
    pub name: &'static str,
    /// Statements before the results, if any.
    pub before: &'static str,
    /// Expressions, one for each result.
    pub results: Vec<&'static str>,
    pub arity: usize,
    /// The types in which it is measured.
    pub types: &'static [Type],
    /// The type of operands and results, where it differs from the measured one.
    pub from: Option<Type>,
    pub to: Option<Type>,
    pub draw: fn(&mut Random, &mut [f64]),
    pub want: fn(&[f64]) -> Results,
    /// The size of the largest term.
    pub term: fn(&[f64]) -> f64,
    pub rows: Vec<Row>,
}

/// WGSL's float types, and naga's f64.
pub const ALL: &[Type] = &[Type::F32, Type::F16, Type::F64];
pub const FLOATS: &[Type] = &[Type::F32, Type::F16];
pub const F32_ONLY: &[Type] = &[Type::F32];

const ROUNDED: [&str; 2] = ["correctly rounded"; 2];

impl Builtin {
    /// A builtin with one `result` of `arity` operands, which are from -8 to 8 unless `draw` says otherwise.
    pub fn of(name: &'static str, arity: usize, result: &'static str, want: fn(&[f64]) -> Results) -> Builtin {
        Builtin {
            name,
            before: "",
            results: vec![result],
            arity,
            types: FLOATS,
            from: None,
            to: None,
            draw: |random, x| x.iter_mut().for_each(|x| *x = random.within(-8.0, 8.0)),
            want,
            term: |_| 0.0,
            rows: Vec::new(),
        }
    }

    pub fn types(self, types: &'static [Type]) -> Builtin {
        Builtin { types, ..self }
    }

    pub fn from(self, from: Type) -> Builtin {
        Builtin { from: Some(from), ..self }
    }

    pub fn to(self, to: Type) -> Builtin {
        Builtin { to: Some(to), ..self }
    }

    pub fn before(self, before: &'static str) -> Builtin {
        Builtin { before, ..self }
    }

    /// Adds a further result.
    pub fn and(mut self, result: &'static str) -> Builtin {
        self.results.push(result);
        self
    }

    pub fn draw(self, draw: fn(&mut Random, &mut [f64])) -> Builtin {
        Builtin { draw, ..self }
    }

    /// Counts errors in units of the largest term, because terms may cancel.
    pub fn term(self, term: fn(&[f64]) -> f64) -> Builtin {
        Builtin { term, ..self }
    }

    /// Adds a limit over the whole domain, in the words of the specification.
    pub fn limit(self, words: &'static str, allowed: fn(&Wgsl, &[Interval]) -> Allowed) -> Builtin {
        self.limits([words; 2], allowed)
    }

    /// The same with different words for f16.
    pub fn limits(self, words: [&'static str; 2], allowed: fn(&Wgsl, &[Interval]) -> Allowed) -> Builtin {
        let measure = if (self.term)(&[1.0; 32]) == 0.0 { Measure::Ulp } else { Measure::UlpOfTerm };
        self.row(Row { part: "", domain: |_| true, measure, words, allowed, only: None })
    }

    /// Adds the limit "correctly rounded".
    pub fn rounded(self, allowed: fn(&Wgsl, &[Interval]) -> Allowed) -> Builtin {
        self.limits(ROUNDED, allowed)
    }

    pub fn row(mut self, row: Row) -> Builtin {
        self.rows.push(row);
        self
    }

    /// The lines of the table in `ty`. There are no limits of WGSL for f64, which is not WGSL's.
    pub fn rows_in(&self, ty: Type) -> Vec<Row> {
        if ty == Type::F64 {
            let first = self.rows.first().map_or(Measure::Ulp, |row| row.measure);
            let measure = if first == Measure::Absolute { Measure::Ulp } else { first };
            let words = ["none: f64 is not WGSL's (reference: the host's, rounded)"; 2];
            return vec![Row { part: "", domain: |_| true, measure, words, allowed: |_, _| [ANY; 4], only: None }];
        }
        self.rows.iter().filter(|row| row.only.is_none_or(|only| only == ty)).copied().collect()
    }

    /// The shader in `ty`, for a number of items that is a multiple of 64.
    pub fn wgsl(&self, ty: Type) -> String {
        let (from, to) = (self.from.unwrap_or(ty), self.to.unwrap_or(ty));
        let half = [ty, from, to].contains(&Type::F16);
        let mut text = String::from(if half { "enable f16;\n" } else { "" });
        text += &format!(
            "alias T = {};\n@group(0) @binding(0) var<storage, read> x: array<{}>;\n@group(0) @binding(1) var<storage, \
             read_write> r: array<{}>;\n@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) id: \
             vec3<u32>) {{\n    let item = id.x;\n",
            ty.wgsl(),
            from.wgsl(),
            to.wgsl()
        );
        for place in 0..self.arity {
            let name = char::from(b'a' + place as u8);
            text += &format!("    let {name} = x[item * {}u + {place}u];\n", self.arity);
        }
        if !self.before.is_empty() {
            text += &format!("    {}\n", self.before);
        }
        for (place, result) in self.results.iter().enumerate() {
            text += &format!("    r[item * {}u + {place}u] = {result};\n", self.results.len());
        }
        text + "}\n"
    }
}
