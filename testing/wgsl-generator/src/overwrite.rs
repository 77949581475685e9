//! Neighbours in memory written in any order, one place twice, parts and the whole of it, and read again between: what a
//! compiler that merges accesses, or moves them, can get wrong.
//!
//! The decision to know: places are spelled with constant indices from one start, often a pointer, so that a compiler sees that
//! they lie side by side; the start itself may be anything, memory more often than a local variable.

use crate::generator::{Generator, Use, Variable};
use crate::types::Ty;

/// Places of one thing that are looked at.
const MOST_PLACES: usize = 40;

impl Generator<'_> {
    /// Writes of parts of one variable, its whole and reads of it, in an order that matters.
    pub(crate) fn overwrite(&mut self) {
        let Some((start, ty)) = self.start() else { return self.declare(2) };
        let start = if self.random.chance(60) {
            let name = self.fresh("p");
            self.line(format!("let {name} = &{start};"));
            format!("(*{name})")
        } else {
            start
        };
        let mut places = Vec::new();
        self.places(&ty, &start, &mut places);
        // Where most of it happens: neighbours.
        let near = self.random.below(places.len());
        for _ in 0..4 + self.random.below(8) {
            if !self.spend(3.0) {
                break;
            }
            let at = if self.random.chance(90) { near + self.random.below(3) } else { self.random.below(places.len()) };
            let (place, ty) = places[at.min(places.len() - 1)].clone();
            match self.random.below(10) {
                // Read, for what is written next.
                0 => {
                    let name = self.fresh("a");
                    self.line(format!("let {name} = {place};"));
                    self.variables.push(Variable { name, ty, usage: Use::Value });
                }
                // Copied to a place of the same type, itself perhaps.
                1 => {
                    let alike: Vec<_> = places.iter().filter(|(_, other)| *other == ty).cloned().collect();
                    let (from, _) = self.random.pick(&alike);
                    self.line(format!("{place} = {from};"));
                }
                2 => {
                    let seen = self.see(&ty, &place);
                    self.line(format!("h = mixed(h, {seen});"));
                }
                _ => {
                    let depth = self.random.below(2);
                    let value = self.value(&ty, depth).text;
                    self.line(format!("{place} = {value};"));
                }
            }
        }
        if self.random.chance(75) {
            let seen = self.see(&ty, &start);
            self.spend(self.types.scalars(&ty) as f64 * 2.0);
            self.line(format!("h = mixed(h, {seen});"));
        }
    }

    /// Something of several scalars that can be written.
    fn start(&mut self) -> Option<(String, Ty)> {
        let in_memory = |name: &str| name.starts_with("own[") || name.starts_with("shared_values[");
        let several = |ty: &Ty| !matches!(ty, Ty::Scalar(_));
        let hidden = match self.random.chance(60) && self.variables.iter().any(|v| in_memory(&v.name) && several(&v.ty))
        {
            true => Some(self.variables.clone()),
            false => None,
        };
        if hidden.is_some() {
            self.variables.retain(|variable| in_memory(&variable.name));
        }
        let found = self.target(&several, 1);
        // What the indices were made of declares nothing, so the names are those of before.
        if let Some(variables) = hidden {
            self.variables = variables;
        }
        found
    }

    /// Every part of the `ty` that `text` names, and it itself, by constant indices, in order of address.
    fn places(&mut self, ty: &Ty, text: &str, places: &mut Vec<(String, Ty)>) {
        if places.len() >= MOST_PLACES {
            return;
        }
        places.push((text.to_owned(), ty.clone()));
        match ty {
            Ty::Struct(index) => {
                for (i, member) in self.types.structs[*index].clone().iter().enumerate() {
                    self.places(member, &format!("{text}.m{i}"), places);
                }
            }
            Ty::Vector(n, scalar) => {
                let letters = self.random.chance(80);
                for i in 0..*n {
                    let step = if letters { format!(".{}", &"xyzw"[i..=i]) } else { format!("[{i}]") };
                    places.push((format!("{text}{step}"), Ty::Scalar(*scalar)));
                }
            }
            Ty::Matrix(..) | Ty::Array(..) => {
                let Some((element, n)) = ty.element() else { return };
                for i in 0..n {
                    self.places(&element, &format!("{text}[{i}]"), places);
                }
            }
            Ty::Scalar(_) => {}
        }
    }
}
