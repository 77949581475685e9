//! The frame of a fold's kernel: loops and index arithmetic around the functions of the fold, and the words of its `Params`.
//!
//! Loops and barriers are those of `wgsl/reduce_rows.wgsl` and `wgsl/reduce_columns.wgsl`; the functions come from a [`super::Fold`], with
//! pieces of `wgsl/pieces/fold.wgsl` where folds agree on them.

use crate::Result;

use super::passes::{ITEMS, Pass, Walk};
use super::workgroup::{self, RowFold};
use crate::plan::{Access, Caps, KernelKey, Launch};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::{decode, in_vectors};
use crate::wgsl::params::{Words, axis_members, axis_words, params, uniform_of};
use crate::wgsl::pieces::{Pieces, holes, pieces};

/// Functions that several folds give to the loops.
pub(crate) const FOLD: Pieces = pieces!("fold.wgsl");

params! {
    /// What every pass is told before the extents and strides of its kept axes: in vectors where the source is read by vectors.
    struct PassWords { outputs, count, slabs, slab; base, stride, position, total, target_base }
}

/// The frame's specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub walk: Walk,
    pub threads: u32,
    /// The source is read four elements at a time; `Columns` also writes so.
    pub quad: bool,
    /// The source is states that an earlier pass left.
    pub partial: bool,
    /// Kept axes.
    pub axes: u8,
    /// Results are numbered by strides of their own.
    pub scatter: bool,
}

impl Frame {
    pub fn of(pass: &Pass) -> Frame {
        Frame {
            walk: pass.walk,
            threads: pass.threads,
            quad: pass.quad,
            partial: pass.partial,
            axes: pass.kept.len() as u8,
            scatter: pass.scatter.is_some(),
        }
    }

    /// The slab among the `params` of [`launch`].
    pub fn slab(&self, params: &[u32]) -> u64 {
        let at = PassWords::NAMES.iter().position(|&name| name == "slab");
        at.and_then(|at| params.get(at)).copied().unwrap_or(u32::MAX).into()
    }

    /// For kernel names.
    pub fn suffix(&self) -> &'static str {
        if self.walk.is_rows() { "rows" } else { "columns" }
    }

    /// Declarations that precede the op's functions; `own` names members that end `Params`.
    pub fn head(&self, own: &[String]) -> String {
        let axes = usize::from(self.axes);
        let mut members = axis_members(if self.scatter { "eso" } else { "es" }, axes);
        members.extend(own.iter().map(|name| format!(" {name}: u32,")));
        let mut text = uniform_of(&format!("{}   {members}\n", PassWords::WGSL));
        text += &format!("const THREADS = {}u;\nconst ITEMS = {ITEMS}u;\n", self.threads);
        text += &format!("const WIDTH = {}u;\n", if self.quad { 4 } else { 1 });
        text += &match self.walk {
            Walk::Rows { lanes } => format!("const LANES = {lanes}u;\n"),
            Walk::Columns { lanes, deep } => format!("const LANES = {lanes}u;\nconst DEEP = {deep}u;\n"),
        };
        text += &decode("base_of", "params.base", 's', axes);
        if !self.walk.is_rows() {
            text += &if self.scatter { decode("out_of", "0u", 'o', axes) } else { FOLD.get("out_of").to_owned() };
        }
        text
    }

    /// How elements of the source are addressed.
    pub fn form(&self) -> Form {
        if self.quad { Form::Quad } else { Form::Scalar }
    }

    /// `x`, the source, of these elements.
    pub fn source(&self, element: Element) -> String {
        element.storage(1, "x", self.form(), Access::Read)
    }

    /// The elements of the source at `at`.
    pub fn load(&self) -> &'static str {
        if self.quad { "load4_x(at)" } else { "load_x(at)" }
    }

    /// The type of elements that a thread takes at a time.
    pub fn wide(&self, element: Element) -> String {
        if self.quad { element.vector() } else { element.scalar().to_owned() }
    }

    /// Sums of floats, as they are read.
    pub fn sum(&self, element: Element) -> String {
        self.combining([element.scalar(), &self.wide(element)], "", "a + b")
    }

    /// States of type `acc`, or of `wide` side by side, that one expression combines, of `a` and `b`; they are read as such.
    pub fn combining(&self, [acc, wide]: [&str; 2], identity: &str, combined: &str) -> String {
        let state = FOLD.fill("combine", holes!(acc, wide, identity, combined)) + FOLD.get("absorb");
        state + FOLD.get(if self.quad { "quad" } else { "one" })
    }

    /// `write_at` or `write_wide`, where states leave one by one: `write` is the statement for result number `index`, made of `whole` or, of
    /// four states in `v`, of a `lane`.
    pub fn writes(&self, write: impl Fn(&str, &str) -> String, whole: &str, lane: impl Fn(u32) -> String) -> String {
        self.each("write columns", ["index", "4u * index"], write, whole, lane)
    }

    /// The same, `write` being told a place of the target.
    pub fn stores(&self, write: impl Fn(&str, &str) -> String, whole: &str, lane: impl Fn(u32) -> String) -> String {
        self.each("store columns", ["params.target_base + index", "first"], write, whole, lane)
    }

    fn each(
        &self,
        columns: &str,
        [one, first]: [&str; 2],
        write: impl Fn(&str, &str) -> String,
        whole: &str,
        lane: impl Fn(u32) -> String,
    ) -> String {
        let each = |i: u32| format!("    {};\n", write(&format!("{first} + {i}u"), &lane(i)));
        match (self.walk, self.quad) {
            (Walk::Rows { .. }, _) => FOLD.fill("write row", holes!(write = write(one, whole))),
            (Walk::Columns { .. }, false) => FOLD.fill("write column", holes!(write = write(one, whole))),
            (Walk::Columns { .. }, true) => FOLD.fill(columns, holes!(writes = (0..4).map(each).collect::<String>())),
        }
    }

    /// The loops.
    pub fn body(&self) -> String {
        match self.walk {
            Walk::Rows { .. } => {
                let fold = RowFold { name: "row", value: "Acc", combine: "combine", again: false };
                [workgroup::rows(), &fold.text(), include_str!("../../../wgsl/reduce_rows.wgsl")].concat()
            }
            Walk::Columns { .. } => [workgroup::column(), include_str!("../../../wgsl/reduce_columns.wgsl")].concat(),
        }
    }

    /// The loops, which hand what a thread loads at a time to `function` of one accumulator and all of it.
    pub fn body_of_items(&self, function: &str) -> String {
        self.body().replace(ABSORB_EACH, &format!("held[0] = {function}(held[0], taken);"))
    }

    /// The loops down columns, of several sources side by side: `read` and `write` take the number of the source, the grid's third, first.
    pub fn body_of_grids(&self, read: &str, write: &str) -> String {
        let body = self.body().replace(READ, &format!("{read}(group.z, "));
        body.replace(WRITE, &format!("{write}(group.z, "))
    }
}

/// What the loops down columns read and write by.
const READ: &str = "read_at(";
const WRITE: &str = "write_wide(";

/// How the loops take up what a thread loads at a time: each of its ITEMS accumulators one.
const ABSORB_EACH: &str = "for (var i = 0u; i < ITEMS; i++) { held[i] = absorb(held[i], taken[i]); }";

/// The launch of `pass` by the kernel `key`: see [`Pass::launch`].
pub(super) fn launch(key: KernelKey, pass: &Pass, total: u64, target_base: u64, caps: &Caps) -> Result<Launch> {
    // In vectors where the source is read by vectors; indices are known to fit, strides wrap as two's complement.
    let width = if pass.quad { 4 } else { 1 };
    let columns = !pass.walk.is_rows();
    let outputs = if columns { pass.outputs / width } else { pass.outputs };
    let stride = if columns { pass.stride / width as i64 } else { pass.stride };
    let words = PassWords {
        outputs: outputs as u32,
        count: pass.count as u32,
        slabs: pass.slabs as u32,
        slab: pass.slab as u32,
        base: (pass.base / width) as u32,
        stride: stride as u32,
        position: pass.position as u32,
        total: total as u32,
        target_base: target_base as u32,
    };
    let mut params = words.words();
    let kept = pass.kept.iter().rev().map(|axis| (axis.extent, axis.stride));
    // Columns lie in vectors along the innermost kept axis, whose elements are neighbours.
    match columns {
        true => params.extend(axis_words(in_vectors(width, kept))),
        false => params.extend(axis_words(kept.map(|(extent, stride)| (extent, stride / width as i64)))),
    }
    if let Some(scatter) = &pass.scatter {
        params.extend(scatter.iter().rev().map(|&stride| stride as u32));
    }
    Ok(Launch { kernel: key, grid: caps.fold_grid(pass.workgroups)?, bindings: vec![pass.source, pass.target], params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_take_up_items_in_one_place() {
        for walk in [Walk::Rows { lanes: 1 }, Walk::Columns { lanes: 1, deep: 1 }] {
            let frame = Frame { walk, threads: 1, quad: false, partial: false, axes: 0, scatter: false };
            assert_eq!(frame.body().matches(ABSORB_EACH).count(), 1, "{walk:?}");
        }
    }

    #[test]
    fn loops_down_columns_read_and_write_one_of_several_sources() {
        let walk = Walk::Columns { lanes: 1, deep: 1 };
        let frame = Frame { walk, threads: 1, quad: false, partial: false, axes: 0, scatter: false };
        let body = frame.body_of_grids("read_of", "write_of");
        assert_eq!([READ, WRITE].map(|own| body.matches(own).count()), [0, 0]);
        assert_eq!(["read_of(group.z, ", "write_of(group.z, "].map(|of| body.matches(of).count()), [2, 1]);
    }
}
