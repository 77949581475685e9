//! Sorting: blocks by a bitonic sort in workgroup memory (`wgsl/sort_blocks.wgsl`), then merges of sorted runs, twice as long each time
//! (`wgsl/sort_merge.wgsl`).
//!
//! Why merges and not digits: one kernel serves keys of 32 and 64 bits and rows of every length, several at once; each workgroup reads and
//! writes runs of memory and waits for no other; and what a device must have is workgroup memory alone. A radix sort of 8-bit digits moves
//! keys of 32 bits four times, but scatters them; merges move them log2(n / 1024) times. Keys are integers that order as the
//! elements do, with the position beside them; elements are read again at the end, so that bits are kept.

use std::fmt::Write;

use polywarp_core::ops::{Sort, SortOrder};
use polywarp_core::plan::looped;
use polywarp_core::{DType, Operation, Result};

use super::keys;
use super::reduce::template::{check_index, decode};
use crate::element::{self, Element, Form};
use crate::{Access, Caps, KernelKey, Launch, Plan, Slot, Source};

/// Threads of one workgroup; WebGPU guarantees 256.
const THREADS: u32 = 256;
/// Elements of a block: pairs with 64-bit keys take 12 KiB of the 16 that WebGPU guarantees.
const TILE: u64 = 1024;
/// Words of `Params` before extents and strides.
const MEMBERS: [&str; 11] =
    ["rows", "count", "tiles", "width", "run", "x_stride", "y_base", "y_line", "i_base", "inner", "x_base"];

/// What a launch makes of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Sorted blocks from elements.
    Blocks,
    /// Longer runs from runs.
    Merge,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    step: Step,
    /// Writes values and positions, not pairs.
    is_last: bool,
    threads: u32,
    is_descending: bool,
    /// Axes besides the sorted one.
    axes: u8,
    /// What the op reads, and how: floats of a word or two as bits.
    dtype: DType,
    input: Element,
}

pub(crate) fn plan(op: &Sort, caps: &Caps) -> Result<Plan> {
    if op.input.layout.elements() == 0 {
        return Ok(Plan::default());
    }
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.values)?;
    let dtype = op.input.dtype;
    caps.require(dtype)?;
    let read_as = match dtype {
        DType::F32 => DType::U32,
        DType::F64 => DType::I64,
        other => other,
    };
    let lines = op.input.layout.slice(op.axis, 0, 1, 1)?.collapse();
    let (rows, count) = (lines.elements(), op.count());
    let inner: u64 = op.values.layout.dims()[op.axis + 1..].iter().product();
    let kernel = Kernel {
        step: Step::Blocks,
        is_last: false,
        threads: 1 << THREADS.min(caps.max_invocations).ilog2(),
        is_descending: op.order == SortOrder::Descending,
        axes: lines.rank() as u8,
        dtype,
        input: Element::new(read_as, caps)?.kept(),
    };
    let width = count.next_power_of_two().clamp(2, TILE);
    let launch = |step, is_last, run: u64, bindings: Vec<Slot>| {
        let tiles = count.div_ceil(if step == Step::Blocks { width } else { TILE });
        let groups = if step == Step::Blocks { (rows * tiles).div_ceil(TILE / width) } else { rows * tiles };
        let stride = op.input.layout.strides()[op.axis];
        let offsets = [op.values.layout.offset(), count * inner, op.indices.layout.offset()];
        // Strides may be negative: words wrap as two's complement.
        let words = [rows, count, tiles, width, run, stride as u64, offsets[0], offsets[1], offsets[2], inner];
        let mut params: Vec<u32> = words.map(|word| word as u32).to_vec();
        params.push(op.input.layout.offset() as u32);
        params.extend(lines.dims().iter().rev().map(|&dim| dim as u32));
        params.extend(lines.strides().iter().rev().map(|&stride| stride as u32));
        let kernel = KernelKey::new(Kernel { step, is_last, ..kernel.clone() });
        Ok(Launch { kernel, grid: caps.fold_grid(groups)?, bindings, params })
    };
    let results = [Slot::Output(0), Slot::Output(1)];
    let input = Slot::Input(0);
    if count <= TILE {
        let bindings = [vec![input], results.to_vec()].concat();
        return Ok(Plan { launches: vec![launch(Step::Blocks, true, 0, bindings)?], scratch_bytes: Vec::new() });
    }
    let pair_bytes = if dtype.size_bytes() == 8 { 16 } else { 8 };
    let mut launches = vec![launch(Step::Blocks, false, 0, vec![input, Slot::Scratch(0)])?];
    let (mut run, mut from) = (TILE, 0);
    while run < count {
        let is_last = count - run <= run;
        let bindings = if is_last {
            [vec![Slot::Scratch(from), input], results.to_vec()].concat()
        } else {
            vec![Slot::Scratch(from), Slot::Scratch(1 - from)]
        };
        launches.push(launch(Step::Merge, is_last, run, bindings)?);
        (run, from) = (2 * run, 1 - from);
    }
    // One merge needs no second buffer.
    let buffers = if launches.len() > 2 { 2 } else { 1 };
    Ok(Plan { launches, scratch_bytes: vec![rows * count * pair_bytes; buffers] })
}

impl Kernel {
    fn items(&self) -> u64 {
        TILE / u64::from(self.threads)
    }

    /// Of halvings no more than indices have bits.
    pub(crate) fn loop_rounds(&self, _: &[u32]) -> u64 {
        let items = looped(self.items(), 0);
        let steps = u64::from(TILE.ilog2());
        match self.step {
            Step::Blocks => 2 * items + looped(steps, looped(steps, items)),
            Step::Merge => 2 * looped(32, 0) + 4 * items,
        }
    }

    pub(crate) fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write(&mut body);
        let (step, loops, count) = match (self.step, self.is_last) {
            (Step::Blocks, _) => ("blocks", include_str!("../../wgsl/sort_blocks.wgsl"), 1),
            (Step::Merge, is_last) => ("merge", include_str!("../../wgsl/sort_merge.wgsl"), if is_last { 2 } else { 1 }),
        };
        let mut bindings = vec![Access::Read; count];
        bindings.extend(vec![Access::ReadWrite; if self.is_last { 2 } else { 1 }]);
        let order = if self.is_descending { "descending" } else { "ascending" };
        let last = if self.is_last { "_last" } else { "" };
        let name = format!("sort_{step}{last}_{}_{order}", self.dtype);
        Source { name, wgsl: element::prelude(&[self.input]) + &body + loops, bindings }
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let axes = usize::from(self.axes);
        let (key, last) = match self.dtype.size_bytes() {
            8 => ("i64", "9223372036854775807li"),
            _ => ("u32", "0xffffffffu"),
        };
        out.push_str("struct Params {\n");
        MEMBERS.iter().for_each(|member| *out += &format!("    {member}: u32,\n"));
        (0..axes).for_each(|i| *out += &format!("    e{i}: u32,\n"));
        (0..axes).for_each(|i| *out += &format!("    s{i}: u32,\n"));
        writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")?;
        writeln!(out, "const THREADS = {}u;\nconst TILE = {TILE}u;\nconst ITEMS = {}u;", self.threads, self.items())?;
        writeln!(out, "alias Key = {key};\nalias Keys = Key;\nconst LAST: Key = {last};")?;
        writeln!(out, "struct Pair {{ key: Key, place: u32 }}")?;
        let reads_elements = self.step == Step::Blocks || self.is_last;
        let mut binding = 1;
        if self.step == Step::Merge {
            writeln!(out, "@group(0) @binding(1) var<storage, read> pairs: array<Pair>;")?;
            binding += 1;
        }
        if reads_elements {
            *out += &self.input.storage(binding, "x", Form::Scalar, Access::Read);
            *out += &decode("base_of", "params.x_base", 's', axes);
            binding += 1;
        }
        if self.step == Step::Blocks {
            if self.dtype == DType::Bool {
                let yes_first = if self.is_descending { "1u, 0u" } else { "0u, 1u" };
                writeln!(out, "fn key_of(x: bool) -> Key {{ return select({yes_first}, x); }}")?;
            } else {
                keys::write(out, self.dtype, self.input.scalar(), self.is_descending)?;
            }
            writeln!(out, "fn key_at(line: u32, place: u32) -> Key {{")?;
            writeln!(out, "    return key_of(load_x(line + place * params.x_stride));\n}}")?;
        }
        let give = "fn give(row: u32, at: u32, key: Key, place: u32)";
        if !self.is_last {
            writeln!(out, "@group(0) @binding({binding}) var<storage, read_write> sorted: array<Pair>;")?;
            return writeln!(out, "{give} {{ sorted[row * params.count + at] = Pair(key, place); }}");
        }
        *out += &self.input.storage(binding, "y", Form::Scalar, Access::ReadWrite);
        writeln!(out, "@group(0) @binding({}) var<storage, read_write> indices: array<u32>;", binding + 1)?;
        writeln!(out, "{give} {{")?;
        writeln!(out, "    let to = row / params.inner * params.y_line + row % params.inner + at * params.inner;")?;
        writeln!(out, "    store_y(params.y_base + to, load_x(base_of(row) + place * params.x_stride));")?;
        writeln!(out, "    indices[params.i_base + to] = place;\n}}")
    }
}

#[cfg(test)]
mod tests {
    use polywarp_core::{Layout, Op, Shape, TensorSpec};

    use super::*;
    use crate::validate::{Validated, full_caps};

    fn plan_of(order: SortOrder, dtype: DType, dims: &[u64], axis: usize, caps: &Caps) -> Plan {
        let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        let op: Op = Sort::new(order, input, axis).unwrap().into();
        crate::plan(&op, caps).unwrap()
    }

    #[test]
    fn every_dtype_order_and_length_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                for order in SortOrder::ALL {
                    for (dims, axis) in [(&[7u64][..], 0), (&[3, 5000], 1), (&[1030, 2], 0), (&[4, 6, 8], 1)] {
                        validated.check(&plan_of(order, dtype, dims, axis, &caps).launches, &caps);
                    }
                }
            }
        }
        assert!(validated.kernels() > 60, "{} kernels", validated.kernels());
    }

    #[test]
    fn runs_double_until_one_is_left() {
        let caps = full_caps();
        let launches = |count| plan_of(SortOrder::Ascending, DType::F32, &[count], 0, &caps).launches.len();
        assert_eq!([1, 1024, 1025, 2048, 2049, 4096, 4097].map(launches), [1, 1, 2, 2, 3, 3, 4]);
        let plan = plan_of(SortOrder::Ascending, DType::F32, &[2, 5000], 1, &caps);
        assert_eq!(plan.scratch_bytes, [2 * 5000 * 8; 2]);
    }
}
