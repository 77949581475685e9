//! How a reduction over any axes becomes passes, each over one axis: pure arithmetic on extents and strides.
//!
//! A pass folds one axis of a strided source. `Rows` puts neighbouring threads along the folded axis, `Columns` along
//! the kept axis that lies densest in memory. Axes left over, and the slabs a long axis is cut into so that all of the
//! device works on it, are folded by later passes over dense partial results: no copy is ever needed. Not here: what
//! folding means ([`super::Fold`]). Next: `frame.rs`, which turns a pass into a kernel's parameters.

use crate::{DType, Layout, TensorSpec};

use crate::plan::{Caps, Slot};
use crate::wgsl::index::in_quads;

/// Threads of one workgroup; WebGPU guarantees 256.
pub(crate) const THREADS: u32 = 256;
/// Independent accumulators of a thread: enough loads in flight (measured on an H200; 8 is no faster).
pub(crate) const ITEMS: u32 = 4;
/// Workgroups that fill any device several times over (H200: 132 processors, 8 workgroups of 256 threads each).
pub(crate) const ENOUGH_GROUPS: u64 = 1056;
/// Columns gain from more, shorter slabs (H200, 16384 x 16384: 16 slabs of 1024 rows).
const ENOUGH_COLUMN_GROUPS: u64 = 4096;
/// Columns side by side at least, where none are read as quads.
const WIDTH: u64 = 32;

/// The most values that a thread folds in the end, of each of two levels (`pieces/workgroup_fold.wgsl`).
pub(crate) const MOST_FOLDED: u64 = 32;
/// Rounds of loops for each vector (`Rows`) or element (`Columns`) that a thread takes from its slab, no fewer: 11 for four in the
/// loops of reductions, 28 for eight in `softmax_columns.wgsl`; and those of a slab, whatever its length.
const ROUNDS_EACH: u64 = 4;
const ROUNDS_BESIDE: u64 = 160;

/// One dimension of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    pub extent: u64,
    /// Elements from one index to the next.
    pub stride: i64,
    pub kept: bool,
    /// What one step along this folded axis adds to a position within all folded axes; 0 where positions are known.
    pub position: u64,
}

/// What a pass reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    pub slot: Slot,
    /// First element.
    pub base: u64,
    /// Row-major.
    pub axes: Vec<Axis>,
}

impl View {
    /// The op's input, with `folded` axes to go.
    pub fn of_input(layout: &Layout, folded: &[usize]) -> View {
        let mut position = 1u64;
        let mut axes: Vec<Axis> = (0..layout.rank())
            .rev()
            .map(|i| {
                let (extent, stride, kept) = (layout.dims()[i], layout.strides()[i], !folded.contains(&i));
                let axis = Axis { extent, stride, kept, position: if kept { 0 } else { position } };
                position = position.saturating_mul(if kept { 1 } else { extent });
                axis
            })
            .collect();
        axes.reverse();
        View { slot: Slot::Input(0), base: layout.offset(), axes }.collapsed()
    }

    /// Extents of 1 dropped, neighbours of one kind merged where they step evenly.
    fn collapsed(self) -> View {
        let mut axes: Vec<Axis> = Vec::new();
        for axis in self.axes.into_iter().filter(|axis| axis.extent != 1) {
            match axes.last_mut() {
                Some(outer)
                    if outer.kept == axis.kept
                        && axis.stride.checked_mul(axis.extent as i64) == Some(outer.stride)
                        && (axis.kept || axis.position * axis.extent == outer.position) =>
                {
                    *outer = Axis { extent: outer.extent * axis.extent, ..axis };
                }
                _ => axes.push(axis),
            }
        }
        View { axes, ..self }
    }
}

/// Which way neighbouring threads lie, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Walk {
    /// `lanes` threads share a row.
    Rows { lanes: u32 },
    /// `lanes` threads side by side, `deep` threads down the column.
    Columns { lanes: u32, deep: u32 },
}

impl Walk {
    /// Whether neighbouring threads lie along the folded axis.
    pub fn is_rows(self) -> bool {
        matches!(self, Walk::Rows { .. })
    }

    /// Threads along the folded axis.
    fn along(self) -> u64 {
        match self {
            Walk::Rows { lanes } => lanes.into(),
            Walk::Columns { deep, .. } => deep.into(),
        }
    }

    /// The most rounds that the loops of a thread make for a slab.
    pub fn loop_rounds(self, slab: u64) -> u64 {
        ROUNDS_EACH * slab.div_ceil(self.along()) + ROUNDS_BESIDE
    }

    /// The longest slab, of whole steps, for which loops make no more than `most_rounds`.
    fn longest_slab(self, most_rounds: u64) -> u64 {
        let each = most_rounds.saturating_sub(ROUNDS_BESIDE) / ROUNDS_EACH;
        (each / u64::from(ITEMS)).max(1).saturating_mul(self.along() * u64::from(ITEMS))
    }
}

/// One launch: a fold of one axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pass {
    pub walk: Walk,
    pub threads: u32,
    /// The source is read (Columns: and written) four elements at a time.
    pub quad: bool,
    pub source: Slot,
    /// The source holds partial results of an earlier pass.
    pub partial: bool,
    pub target: Slot,
    /// The target is the op's output.
    pub last: bool,
    pub base: u64,
    /// Elements along the folded axis, and from one to the next.
    pub count: u64,
    pub stride: i64,
    pub position: u64,
    /// The other axes, in the order results are numbered.
    pub kept: Vec<Axis>,
    /// Where results go when they are not numbered as the output is: one stride per kept axis.
    pub scatter: Option<Vec<u64>>,
    pub outputs: u64,
    pub slabs: u64,
    /// Vectors (Rows) or elements (Columns) of the folded axis in one slab.
    pub slab: u64,
    pub workgroups: u64,
}

impl Pass {
    /// The first element of what it writes: that of the operand `spec`, or of a scratch buffer.
    pub fn target_base(&self, spec: &TensorSpec) -> u64 {
        if self.last { spec.layout.offset() } else { 0 }
    }

    /// The same walk along rows of neighbours, counted in elements, for kernels that read units of `per` elements wherever a row starts.
    pub fn in_runs(&mut self, per: u64) {
        let width = if self.quad { 4 } else { 1 };
        self.quad = false;
        self.slab = self.slab.saturating_mul(width).min(self.count);
        if self.slabs == 1 {
            let lanes = lanes_for(self.count.div_ceil(per).div_ceil(ITEMS.into())).min(self.threads.into()) as u32;
            self.walk = Walk::Rows { lanes };
            self.workgroups = self.outputs.div_ceil((self.threads / lanes).into());
        }
    }
}

/// The states that passes leave for later ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Partials {
    /// Bytes of one.
    pub bytes: u64,
    /// Whether four can be read at a time.
    pub quads: bool,
    /// Columns of single states that are side by side at least. Where folding them is slow, fewer let more threads share a column, and a long
    /// column needs no third pass.
    pub width: u64,
}

impl Partials {
    /// States that are elements of a dtype.
    pub fn elements(dtype: DType) -> Partials {
        Partials { bytes: dtype.size_bytes(), quads: true, width: WIDTH }
    }

    /// States that are structs, of `bytes` bytes each.
    pub fn structs(bytes: u64) -> Partials {
        Partials { bytes, quads: false, width: WIDTH }
    }
}

/// The passes that fold every axis of `view` that is not kept, and the bytes of each scratch buffer.
pub(crate) fn passes(view: View, partials: Partials, caps: &Caps) -> (Vec<Pass>, Vec<u64>) {
    let (mut view, mut partial) = (view, false);
    let (mut list, mut scratch) = (Vec::new(), Vec::new());
    loop {
        let width = if partial { partials.width } else { WIDTH };
        let mut pass = Choice::next(&view, partial).pass(partials.quads || !partial, width, caps);
        if pass.slabs == 1 && pass.kept.iter().all(|axis| axis.kept) {
            list.push(pass);
            return (list, scratch);
        }
        (pass.target, pass.last) = (Slot::Scratch(scratch.len()), false);
        scratch.push(pass.outputs * pass.slabs * partials.bytes);
        view = partials_of(&pass);
        partial = true;
        list.push(pass);
    }
}

/// The dense partial results of `pass`, as the next pass reads them.
fn partials_of(pass: &Pass) -> View {
    let mut axes = pass.kept.clone();
    let slabs = Axis { extent: pass.slabs, stride: 1, kept: false, position: 0 };
    // Scattered results lie in the order of the original axes, whatever order they were computed in.
    if let Some(scatter) = &pass.scatter {
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(scatter[i]));
        axes = order.into_iter().map(|i| axes[i]).collect();
    }
    match pass.walk {
        Walk::Rows { .. } => axes.push(slabs),
        Walk::Columns { .. } => axes.insert(0, slabs),
    }
    let mut stride = 1i64;
    for axis in axes.iter_mut().rev() {
        axis.stride = stride;
        stride *= axis.extent as i64;
    }
    View { slot: pass.target, base: 0, axes }.collapsed()
}

/// What a pass folds: one axis, and those beside it.
struct Choice {
    source: Slot,
    /// The source holds partial results.
    partial: bool,
    /// First element.
    base: u64,
    along: Axis,
    /// The others, row-major; some may be folded by later passes.
    beside: Vec<Axis>,
}

/// How a fold is spread over threads.
struct Spread {
    walk: Walk,
    threads: u32,
    quad: bool,
    scatter: Option<Vec<u64>>,
    /// Vectors (Rows) or elements (Columns) of the folded axis, in all and in a slab.
    units: u64,
    slab: u64,
    /// Workgroups for each slab.
    blocks: u64,
}

impl Choice {
    /// The next axis of `view` to go: the one whose elements lie closest together.
    fn next(view: &View, partial: bool) -> Choice {
        let nearness = |axis: &Axis| (axis.stride.unsigned_abs().max(1), std::cmp::Reverse(axis.extent));
        let folded = (0..view.axes.len()).filter(|&i| !view.axes[i].kept).min_by_key(|&i| nearness(&view.axes[i]));
        // Nothing left to fold: rows of one element, which only convert.
        let lone = Axis { extent: 1, stride: 0, kept: false, position: 0 };
        let mut beside = view.axes.clone();
        let along = folded.map_or(lone, |i| beside.remove(i));
        Choice { source: view.slot, partial, base: view.base, along, beside }
    }

    /// The pass; `quads`: its source can be read four elements at a time; `width`: columns side by side at least where it cannot.
    fn pass(self, quads: bool, width: u64, caps: &Caps) -> Pass {
        let stride = |i: usize| self.beside[i].stride.unsigned_abs();
        let densest = (0..self.beside.len())
            .filter(|&i| self.beside[i].stride != 0)
            .min_by_key(|&i| (stride(i), std::cmp::Reverse(i)));
        match densest.filter(|&i| stride(i) < self.along.stride.unsigned_abs()) {
            Some(densest) => self.columns(densest, quads, width, caps),
            None => self.rows(quads, caps),
        }
    }

    /// A pass into the op's output; [`passes`] turns it elsewhere where more follow.
    fn spread(self, spread: Spread) -> Pass {
        let Choice { source, partial, base, along, beside } = self;
        let Spread { walk, threads, quad, scatter, units, slab, blocks } = spread;
        let slabs = units.div_ceil(slab.max(1)).max(1);
        Pass {
            walk,
            threads,
            quad,
            source,
            partial,
            target: Slot::Output(0),
            last: true,
            base,
            count: along.extent,
            stride: along.stride,
            position: along.position,
            outputs: results(&beside),
            kept: beside,
            scatter,
            slabs,
            slab,
            workgroups: blocks * slabs,
        }
    }
}

/// Results of a fold beside which these axes lie.
fn results(beside: &[Axis]) -> u64 {
    beside.iter().map(|axis| axis.extent).product()
}

fn strides(axes: &[Axis]) -> impl Iterator<Item = i64> + '_ {
    axes.iter().map(|axis| axis.stride)
}

/// Threads for a row that has work for `wanted`: a power of four, so that five kernels serve rows of every length, which is
/// few enough to prepare all of them.
pub(crate) fn lanes_for(wanted: u64) -> u64 {
    let lanes = wanted.max(1).next_power_of_two();
    if lanes.trailing_zeros().is_multiple_of(2) { lanes } else { 2 * lanes }
}

impl Choice {
    fn rows(self, quads: bool, caps: &Caps) -> Pass {
        let threads = THREADS.min(caps.max_invocations);
        let Axis { extent: count, stride, .. } = self.along;
        // Behind an operand's last element lies something, so that a row may end within a quad; behind the last partial result nobody has
        // written yet.
        let whole = if self.partial { count } else { count & !3 };
        let quad = quads && count >= 4 && in_quads((whole, stride), [self.base], strides(&self.beside));
        let units = if quad { count.div_ceil(4) } else { count };
        let lanes = lanes_for(units.div_ceil(ITEMS.into())).min(threads.into()) as u32;
        let walk = Walk::Rows { lanes };
        let blocks = results(&self.beside).div_ceil((threads / lanes).into());
        let step = u64::from(lanes * ITEMS);
        let is_cut = lanes == threads && blocks * 2 <= ENOUGH_GROUPS && units >= 4 * step;
        let wanted = if is_cut {
            let slabs = (ENOUGH_GROUPS / blocks).min(units.div_ceil(2 * step));
            // Slabs of whole steps, so that only the last one has a remainder.
            units.div_ceil(slabs).next_multiple_of(step)
        } else {
            units
        };
        let slab = wanted.min(walk.longest_slab(caps.loop_limit()));
        self.spread(Spread { walk, threads, quad, scatter: None, units, slab, blocks })
    }

    fn columns(mut self, densest: usize, quads: bool, width: u64, caps: &Caps) -> Pass {
        let threads = THREADS.min(caps.max_invocations);
        let Axis { extent: count, stride, .. } = self.along;
        let scatter = self.move_innermost(densest);
        let outputs = results(&self.beside);
        let (inner, outer) = (self.beside[self.beside.len() - 1], &self.beside[..self.beside.len() - 1]);
        let near = (inner.extent, inner.stride);
        let quad = quads && scatter.is_none() && in_quads(near, [self.base], strides(outer).chain([stride]));
        let across = if quad { outputs / 4 } else { outputs };
        let width = if quad { 16 } else { width };
        let items = count.div_ceil(ITEMS.into()).next_power_of_two();
        // Few columns leave threads over: they go down the column too.
        let wanted = items.min(u64::from(threads) / width);
        let lanes = (u64::from(threads) / wanted).min(across.next_power_of_two().max(1)) as u32;
        let deep = (threads / lanes).min(items.min(256) as u32);
        let walk = Walk::Columns { lanes, deep };
        let blocks = across.div_ceil(lanes.into());
        let step = u64::from(deep * ITEMS);
        let slabs = (ENOUGH_COLUMN_GROUPS / blocks).min(count / (4 * step)).max(1);
        let slab = count.div_ceil(slabs).next_multiple_of(step).min(count).min(walk.longest_slab(caps.loop_limit()));
        self.spread(Spread { walk, threads: lanes * deep, quad, scatter, units: count, slab, blocks })
    }

    /// Puts an axis behind all others; where it was not there, the strides by which results are numbered then.
    fn move_innermost(&mut self, axis: usize) -> Option<Vec<u64>> {
        if axis + 1 == self.beside.len() {
            return None;
        }
        let mut strides = vec![1u64; self.beside.len()];
        for i in (0..self.beside.len() - 1).rev() {
            strides[i] = strides[i + 1] * self.beside[i + 1].extent;
        }
        self.beside[axis..].rotate_left(1);
        strides[axis..].rotate_left(1);
        Some(strides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    /// Scratch buffers are then counted in states.
    const PARTIALS: Partials = Partials { bytes: 1, quads: true, width: WIDTH };

    fn plan(dims: &[u64], order: &[usize], folded: &[usize]) -> (Vec<Pass>, Vec<u64>) {
        let layout = Layout::contiguous(Shape::new(dims).unwrap()).permute(order).unwrap();
        passes(View::of_input(&layout, folded), PARTIALS, &Caps::webgpu_defaults("test"))
    }

    #[test]
    fn long_rows_take_one_workgroup_each() {
        let (list, scratch) = plan(&[16384, 16384], &[0, 1], &[1]);
        assert_eq!((list.len(), scratch.len()), (1, 0));
        assert_eq!(list[0].walk, Walk::Rows { lanes: 256 });
        assert!(list[0].quad && list[0].workgroups == 16384);
    }

    #[test]
    fn full_sum_is_cut_into_slabs_and_folded_again() {
        let (list, scratch) = plan(&[1 << 28], &[0], &[0]);
        assert_eq!(list.len(), 2);
        assert!(list[0].slabs > 500 && scratch[0] == list[0].slabs, "{:?}", list[0]);
        assert!(list[1].last && list[1].partial && list[1].count == list[0].slabs);
    }

    #[test]
    fn columns_run_along_the_kept_axis() {
        let (list, scratch) = plan(&[16384, 16384], &[0, 1], &[0]);
        assert_eq!(list[0].walk, Walk::Columns { lanes: 16, deep: 16 });
        assert_eq!((list.len(), list[0].slabs, scratch[0]), (2, 16, 16 * 16384));
        assert!(list[1].last && list[1].count == 16 && list[1].quad);
    }

    #[test]
    fn rows_of_every_length_take_one_of_five_kernels() {
        let lanes = |count| match plan(&[100, count], &[0, 1], &[1]).0[0].walk {
            Walk::Rows { lanes } => lanes,
            Walk::Columns { .. } => panic!("{count}"),
        };
        let all: std::collections::BTreeSet<u32> = (2..5000).map(lanes).collect();
        assert_eq!(Vec::from_iter(all), [1, 4, 16, 64, 256]);
        assert_eq!([16, 17, 64, 65, 1024, 4096].map(lanes), [1, 16, 4, 64, 64, 256]);
    }

    #[test]
    fn partial_results_are_read_as_far_as_they_were_written() {
        for count in (1 << 14..1 << 20).step_by(4099) {
            for pass in plan(&[count], &[0], &[0]).0.iter().filter(|pass| pass.partial) {
                assert!(!pass.quad || pass.count % 4 == 0, "{count}: {pass:?}");
            }
        }
    }

    #[test]
    fn channels_of_images_fold_the_inner_axis_first() {
        let (list, _) = plan(&[8, 6, 10, 10], &[0, 1, 2, 3], &[0, 2, 3]);
        assert_eq!(list.len(), 2);
        assert_eq!((list[0].count, list[0].outputs), (100, 48));
        assert_eq!((list[1].count, list[1].outputs), (8, 6));
    }

    #[test]
    fn every_element_is_folded_once() {
        for dims in [&[5u64, 7, 3][..], &[64, 1, 33], &[2, 2, 4096], &[130, 9, 4]] {
            for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
                for folded in [&[0usize][..], &[1], &[2], &[0, 2], &[0, 1], &[1, 2], &[0, 1, 2]] {
                    let (list, _) = plan(dims, &order, folded);
                    let total: u64 = dims.iter().product();
                    let permuted: Vec<u64> = order.iter().map(|&i| dims[i]).collect();
                    let outputs: u64 = (0..3).filter(|i| !folded.contains(i)).map(|i| permuted[i]).product();
                    assert_eq!(list[0].count * list[0].outputs, total);
                    assert_eq!(list[list.len() - 1].outputs, outputs, "{dims:?} {order:?} {folded:?}");
                    for pair in list.windows(2) {
                        assert_eq!(pair[0].outputs * pair[0].slabs, pair[1].count * pair[1].outputs);
                    }
                }
            }
        }
    }
}
