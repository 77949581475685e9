//! The table of the first rows of groups, which grouped products search where there are many groups: one small launch before them.
//!
//! Without it every tile reads the ends of all groups before its own: work that grows with the square of the groups.

use std::fmt::Write;

use crate::{Result, TensorSpec};

use super::epilogue::end_of;
use super::key;
use crate::plan::looped;
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Element};

/// Threads that read the ends side by side.
const THREADS: u32 = 256;

/// Specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Index {
    ends: Element,
    threads: u32,
}

/// Bytes of the table for `groups`.
pub(crate) fn table_bytes(groups: u64) -> u64 {
    8 * (groups + 2)
}

/// Makes the table in `table` from the ends that are input `ends.0`, for `rows` in tiles of `height` rows.
pub(crate) fn launch(
    (slot, ends): (usize, &TensorSpec),
    rows: u64,
    height: u32,
    table: Slot,
    caps: &Caps,
) -> Result<Launch> {
    let kernel = Index { ends: Element::new(ends.dtype, caps)?, threads: THREADS.min(caps.max_invocations) };
    let layout = &ends.layout;
    let params = [layout.elements(), rows, height.into(), layout.offset(), layout.strides()[0] as u64];
    Ok(Launch {
        kernel: key(super::Shape::Index(kernel)),
        grid: [1, 1, 1],
        bindings: vec![Slot::Input(slot), table],
        // A stride wraps as two's complement.
        params: params.map(|word| word as u32).to_vec(),
    })
}

impl Index {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let run = params.first().copied().unwrap_or(u32::MAX).div_ceil(self.threads);
        3 * looped(run.into(), 0) + 2 * looped(u32::BITS.into(), 0)
    }

    pub fn source(&self) -> Source {
        let mut wgsl = element::prelude(&[self.ends]);
        // Formatting into a String cannot fail.
        let _ = writeln!(wgsl, "struct Params {{ groups: u32, m: u32, height: u32, ends_base: u32, ends_step: u32 }}");
        let _ =
            writeln!(wgsl, "@group(0) @binding(0) var<uniform> params: Params;\nconst THREADS = {}u;", self.threads);
        wgsl += &end_of(self.ends, 1);
        let _ = writeln!(wgsl, "@group(0) @binding(2) var<storage, read_write> index: array<vec2<u32>>;");
        wgsl += include_str!("../../../../wgsl/grouped_index.wgsl");
        Source { name: "grouped_index".to_owned(), wgsl, bindings: vec![Access::Read, Access::ReadWrite] }
    }
}
