//! Names and the parts of what they name: `a.m1[i % 3u].zx`.

use crate::generator::{Expr, Generator, Use, Variable};
use crate::types::{Scalar, Ty};

/// One step from a variable to a part of it.
#[derive(Clone, Debug)]
enum Step {
    Member(usize),
    /// Any element of so many.
    Element(usize),
    Component(usize),
}

/// Ways from a `ty` to the parts that `wanted` accepts.
fn ways(
    g: &Generator<'_>,
    ty: &Ty,
    wanted: &dyn Fn(&Ty) -> bool,
    way: &mut Vec<Step>,
    found: &mut Vec<(Vec<Step>, Ty)>,
) {
    if wanted(ty) {
        found.push((way.clone(), ty.clone()));
    }
    match ty {
        Ty::Struct(index) => {
            for (i, member) in g.types.structs[*index].iter().enumerate() {
                way.push(Step::Member(i));
                ways(g, member, wanted, way, found);
                way.pop();
            }
        }
        Ty::Vector(n, scalar) => {
            if wanted(&Ty::Scalar(*scalar)) {
                found.push((way.iter().cloned().chain([Step::Component(*n)]).collect(), Ty::Scalar(*scalar)));
            }
        }
        Ty::Matrix(..) | Ty::Array(..) => {
            if let Some((element, n)) = ty.element() {
                way.push(Step::Element(n));
                ways(g, &element, wanted, way, found);
                way.pop();
            }
        }
        Ty::Scalar(_) => {}
    }
}

impl Generator<'_> {
    /// An index below `n`.
    pub(crate) fn index(&mut self, n: usize, depth: usize) -> String {
        if depth == 0 || self.steady || self.random.chance(40) {
            let i = self.random.below(n);
            return match self.random.below(3) {
                0 => format!("{i}"),
                1 => format!("{i}u"),
                _ => format!("{i}i"),
            };
        }
        self.spend(2.0);
        match self.random.below(4) {
            0 => {
                let x = self.changing(1, Scalar::I32, depth - 1).text;
                format!("clamp({x}, 0i, {}i)", n - 1)
            }
            1 => {
                let x = self.changing(1, Scalar::U32, depth - 1).text;
                format!("min({x}, {}u)", n - 1)
            }
            2 if n.is_power_of_two() => {
                let x = self.changing(1, Scalar::I32, depth - 1).text;
                format!("({x} & {}i)", n - 1)
            }
            _ => {
                let x = self.changing(1, Scalar::U32, depth - 1).text;
                format!("({x} % {n}u)")
            }
        }
    }

    fn spell(&mut self, variable: &Variable, way: &[Step], depth: usize) -> String {
        let mut text = variable.name.clone();
        for step in way {
            match *step {
                Step::Member(i) => text += &format!(".m{i}"),
                Step::Element(n) => {
                    let index = self.index(n, depth);
                    text += &format!("[{index}]");
                }
                Step::Component(n) => {
                    if self.random.chance(70) {
                        let letters = if self.random.chance(80) { "xyzw" } else { "rgba" };
                        let i = self.random.below(n);
                        text += &format!(".{}", &letters[i..=i]);
                    } else {
                        let index = self.index(n, depth);
                        text += &format!("[{index}]");
                    }
                }
            }
        }
        text
    }

    fn may_name(&self, variable: &Variable) -> bool {
        variable.usage != Use::Private || self.privates_allowed
    }

    /// A part of something visible, of a type that `wanted` accepts, whose use `allowed` accepts.
    pub(crate) fn part(
        &mut self,
        wanted: &dyn Fn(&Ty) -> bool,
        allowed: &dyn Fn(Use) -> bool,
        depth: usize,
    ) -> Option<(Variable, String, Ty)> {
        let mut found = Vec::new();
        for (index, variable) in self.variables.iter().enumerate() {
            if !allowed(variable.usage) || !self.may_name(variable) {
                continue;
            }
            let mut ways_here = Vec::new();
            ways(self, &variable.ty, wanted, &mut Vec::new(), &mut ways_here);
            if !ways_here.is_empty() {
                found.push((index, ways_here));
            }
        }
        if found.is_empty() {
            return None;
        }
        // Newer names more often: old ones were used already.
        let at = found.len() - 1 - self.random.below(found.len()).min(self.random.below(found.len()));
        let (index, ways_here) = &found[at];
        let variable = self.variables[*index].clone();
        let (way, ty) = self.random.pick(ways_here);
        if variable.usage == Use::Private {
            self.uses_privates = true;
        }
        let text = self.spell(&variable, &way, depth);
        Some((variable, text, ty))
    }

    /// The value of a part of type `ty`.
    pub(crate) fn read(&mut self, ty: &Ty, depth: usize) -> Option<Expr> {
        let scalar = self.scalar_of(ty);
        let (variable, text, _) = self.part(&|other| other == ty, &|_| true, depth)?;
        self.spend(1.0);
        Some(Expr { constant: variable.usage == Use::Constant, ..Expr::new(text, scalar) })
    }

    /// A part that can be assigned to.
    pub(crate) fn target(&mut self, wanted: &dyn Fn(&Ty) -> bool, depth: usize) -> Option<(String, Ty)> {
        let (_, text, ty) = self.part(wanted, &|usage| matches!(usage, Use::Write | Use::Private), depth)?;
        Some((text, ty))
    }

    pub(crate) fn scalar_of(&self, ty: &Ty) -> Scalar {
        match ty {
            Ty::Scalar(scalar) | Ty::Vector(_, scalar) | Ty::Matrix(_, _, scalar) => *scalar,
            Ty::Array(..) | Ty::Struct(_) => Scalar::U32,
        }
    }
}
