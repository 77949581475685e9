//! Attention and its gradient by blocks of queries and keys: `wgsl/attention*.wgsl`, and the same made of other operations.
//!
//! Forward is one launch, of f16 on cooperative matrices where a device has them (`cooperative.rs`). The gradient is three: delta beside lse, dq by blocks
//! of queries, dk and dv by blocks of keys. The decision to know: no kernel has more than 8 buffers, which WebGPU guarantees; for that the key of
//! dropout travels with delta.

mod cooperative;
mod text;

use crate::graph::Graph;
use crate::ops::{Attention, AttentionGradient};
use crate::plan::{Candidate, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source, looped};
use crate::{DType, Error, Operation, Result, Scalar, TensorSpec};

use crate::ops::plans::{COMPOSED, COMPOSED_NS};
use crate::wgsl::element::Element;

/// Invocations of a workgroup that makes deltas.
const DELTA_THREADS: u32 = 256;
/// Quads of a head that are staged at a time.
const DEPTH: u32 = 4;
const NEGATIVE_INFINITY: u32 = 0xff80_0000;
const NAN: u32 = 0x7fc0_0000;

/// What parameters are called, in their order behind the scale of scores and the factor of kept probabilities.
const WORDS: [&str; 42] = [
    "workgroups",
    "blocks",
    "rows",
    "queries",
    "keys",
    "heads",
    "shared_heads",
    "size",
    "width",
    "threshold",
    "lowest",
    "nan",
    "shift",
    "q_offset",
    "q_batch",
    "q_row",
    "q_head",
    "k_offset",
    "k_batch",
    "k_row",
    "k_head",
    "v_offset",
    "v_batch",
    "v_row",
    "v_head",
    "d_offset",
    "d_batch",
    "d_row",
    "d_head",
    "m_offset",
    "m_batch",
    "m_head",
    "m_row",
    "m_column",
    "o_offset",
    "lse_offset",
    "dlse_offset",
    "dq_offset",
    "dk_offset",
    "dv_offset",
    "low_offset",
    "high_offset",
];

/// A workgroup's part of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    /// Rows that it owns.
    rows: u32,
    /// Columns of a round.
    columns: u32,
    /// Columns that are staged at a time when they are added up.
    keys: u32,
}

impl Tile {
    /// The largest that the device has room for.
    fn of(dtype: DType, caps: &Caps) -> Tile {
        let small = Tile { rows: 32, columns: 64, keys: 16 };
        let large = Tile { rows: 64, columns: 64, keys: 32 };
        let wide = Tile { rows: 16, columns: 32, keys: 16 };
        let fits = |tile: &Tile| {
            tile.bytes(dtype) <= u64::from(caps.max_workgroup_bytes) && tile.threads() <= caps.max_invocations
        };
        [large, small].into_iter().filter(|_| dtype != DType::F64).find(fits).unwrap_or(wide)
    }

    /// Threads beside each other.
    fn across(self) -> u32 {
        self.columns / 4
    }

    fn threads(self) -> u32 {
        self.rows / 4 * self.across()
    }

    /// Quads that are staged.
    fn staged(self) -> u32 {
        ((self.rows + self.columns) * (DEPTH + 1)).max(self.keys * self.across())
    }

    fn bytes(self, dtype: DType) -> u64 {
        let quads = u64::from(self.staged() + self.rows * self.across());
        quads * 4 * dtype.compute().size_bytes() + 4
    }

    /// Parts of heads of n elements, of which each thread owns a quad.
    fn parts(self, n: u64) -> u32 {
        n.div_ceil(u64::from(self.columns)) as u32
    }
}

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// out and lse.
    Forward,
    /// What each query takes off, and the key.
    Delta,
    /// dq.
    Queries,
    /// dk and dv.
    Keys,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    step: Step,
    element: Element,
    /// Of lse and delta.
    sums: Element,
    mask: Element,
    word: Element,
    tile: Tile,
    /// Parts of keys, and of values.
    parts: [u32; 2],
    /// Whether heads that are read start at whole quads, and have no other.
    reads_quads: bool,
    /// The same of results.
    writes_quads: bool,
    causal: bool,
    masked: bool,
    drops: bool,
    has_dlse: bool,
    /// Whether random words are made of 64-bit products.
    wide_integers: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        text::source(self)
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let Tile { rows, columns, keys } = self.tile;
        let (threads, across) = (u64::from(self.tile.threads()), u64::from(self.tile.across()));
        let [size, width] = ["size", "width"].map(|name| self.word(params, name));
        let staging = looped(u64::from((rows + columns) * DEPTH).div_ceil(threads), 0);
        let product = |n: u64| looped(n.div_ceil(u64::from(4 * DEPTH)), staging + looped(DEPTH.into(), 0));
        let staging = looped((u64::from(keys) * across).div_ceil(threads), 0);
        let adding = looped(u64::from(columns / keys), staging + looped(u64::from(keys / 4), 0));
        let add = |part: usize| u64::from(self.parts[part]) * adding;
        // Loops over rows of a thread, and the rounds of random words.
        let steps = 8 * looped(4, 11 * 2);
        let rounds = |n: &str, inner: u64| looped(self.word(params, n).div_ceil(columns.into()), inner);
        match self.step {
            Step::Forward => {
                rounds("keys", product(size) + add(1) + looped(across, 0) + steps) + looped(across, 0) + steps
            }
            Step::Delta => looped(width.div_ceil(4), 0) + steps,
            Step::Queries => rounds("keys", product(size) + product(width) + add(0) + steps) + steps,
            Step::Keys => {
                let inner = product(size) + product(width) + add(0) + add(1) + steps;
                looped(self.word(params, "shared_heads"), rounds("queries", inner)) + steps
            }
        }
    }
}

pub(crate) fn forward(op: &Attention, caps: &Caps) -> Result<Plan> {
    match cooperative::forward(op, caps)? {
        Some(plan) if is_worth_it(op) => Ok(plan),
        _ => or_composed(op, by_kernels(op, caps), caps, || op.composed()),
    }
}

pub(crate) fn forward_candidates(op: &Attention, caps: &Caps) -> Result<Vec<Candidate>> {
    let found = both(op, by_kernels(op, caps), caps, || op.composed())?;
    Ok(beside(op, cooperative::NAME, cooperative::forward(op, caps)?, found))
}

pub(crate) fn backward(op: &AttentionGradient, caps: &Caps) -> Result<Plan> {
    match gradient_by_cooperative(op, caps)? {
        Some(plan) if is_worth_it(op) => Ok(plan),
        _ => or_composed(op, gradient_by_kernels(op, caps), caps, || op.composed()),
    }
}

pub(crate) fn backward_candidates(op: &AttentionGradient, caps: &Caps) -> Result<Vec<Candidate>> {
    let found = both(op, gradient_by_kernels(op, caps), caps, || op.composed())?;
    Ok(beside(op, cooperative::gradient::NAME, gradient_by_cooperative(op, caps)?, found))
}

/// Whether kernels on cooperative matrices are expected to take less time than plain ones.
fn is_worth_it(op: &dyn Operation) -> bool {
    let [cooperative, plain] = cooperative::expected_ns(op);
    cooperative < plain
}

/// `found`, and the way on cooperative matrices where there is one.
fn beside(op: &dyn Operation, name: &str, plan: Option<Plan>, mut found: Vec<Candidate>) -> Vec<Candidate> {
    let Some(plan) = plan else { return found };
    // Beside it, the plain kernels need an estimate too.
    let [estimate_ns, plain_ns] = cooperative::expected_ns(op);
    found.iter_mut().filter(|way| way.name == op.name()).for_each(|way| way.estimate_ns = plain_ns);
    found.push(Candidate { name: name.to_owned(), plan, estimate_ns });
    found.sort_by(|x, y| x.estimate_ns.total_cmp(&y.estimate_ns));
    found
}

/// By kernels, or where the device lacks what they need by other operations.
fn or_composed(
    op: &dyn Operation,
    kernels: Result<Plan>,
    caps: &Caps,
    composed: impl FnOnce() -> Result<Graph>,
) -> Result<Plan> {
    match kernels {
        Err(error) if error.is_unsupported() => by_others(op, &composed()?, caps),
        plan => plan,
    }
}

fn both(
    op: &dyn Operation,
    kernels: Result<Plan>,
    caps: &Caps,
    composed: impl FnOnce() -> Result<Graph>,
) -> Result<Vec<Candidate>> {
    let mut found = Vec::new();
    match kernels {
        Err(error) if !error.is_unsupported() => return Err(error),
        Err(_) => {}
        Ok(plan) => found.push(Candidate { name: op.name().to_owned(), plan, estimate_ns: 0.0 }),
    }
    match by_others(op, &composed()?, caps) {
        Ok(plan) => found.push(Candidate { name: COMPOSED.to_owned(), plan, estimate_ns: COMPOSED_NS }),
        Err(error) if found.is_empty() => return Err(error),
        // Scores of many pairs have no place in memory.
        Err(_) => {}
    }
    Ok(found)
}

fn by_others(op: &dyn Operation, graph: &Graph, caps: &Caps) -> Result<Plan> {
    graph.check(op.name(), &op.inputs(), &op.outputs())?;
    graph.plan(|step| crate::ops::plan(step, caps))
}

fn by_kernels(op: &Attention, caps: &Caps) -> Result<Plan> {
    let frame = Frame::new(op, op.name(), &[&op.out, &op.lse], caps)?;
    let places = Places { o: Some(&op.out), lse: Some(&op.lse), ..Places::default() };
    let kernel = Kernel { writes_quads: frame.stores_quads(&[&op.out]), ..frame.kernel(Step::Forward, false) };
    let mut bindings = frame.reads([0, 1, 2].map(Slot::Input).to_vec());
    bindings.extend(frame.key());
    bindings.extend([Slot::Output(0), Slot::Output(1)]);
    let launch = frame.launch(kernel, &places, bindings)?;
    Ok(Plan { launches: launch.into_iter().collect(), scratch_bytes: Vec::new() })
}

fn gradient_by_kernels(op: &AttentionGradient, caps: &Caps) -> Result<Plan> {
    gradient_by(op, caps, Matrices::Plain)
}

/// On cooperative matrices but for delta; none where they do not serve.
fn gradient_by_cooperative(op: &AttentionGradient, caps: &Caps) -> Result<Option<Plan>> {
    if !cooperative::gradient::serves(op, caps) {
        return Ok(None);
    }
    match gradient_by(op, caps, Matrices::Cooperative) {
        Err(error) if error.is_unsupported() => Ok(None),
        plan => plan.map(Some),
    }
}

/// What products are made on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matrices {
    Plain,
    Cooperative,
}

fn gradient_by(op: &AttentionGradient, caps: &Caps, matrices: Matrices) -> Result<Plan> {
    let AttentionGradient { forward, dout, dlse, dq, dk, dv } = op;
    let mut all = vec![&forward.out, &forward.lse, dout, dq, dk, dv];
    all.extend(dlse);
    let frame = Frame::new(forward, op.name(), &all, caps)?;
    let places = Places {
        d: Some(dout),
        o: Some(&forward.out),
        lse: Some(&forward.lse),
        dlse: dlse.as_ref(),
        gradients: [Some(dq), Some(dk), Some(dv)],
    };
    let dims = forward.dims();
    let out = op.place_of_out();
    let stats = Slot::Scratch(0);
    let reads_dout = frame.loads_quads(&[dout]);
    let kernel = |step: Step, outputs: &[&TensorSpec]| Kernel {
        reads_quads: reads_dout && (step == Step::Delta || frame.reads_quads),
        writes_quads: frame.stores_quads(outputs),
        has_dlse: step == Step::Delta && dlse.is_some(),
        ..frame.kernel(step, reads_dout)
    };
    let mut launches = Vec::new();
    let mut bindings = vec![Slot::Input(out), Slot::Input(out + 2), Slot::Input(out + 1)];
    bindings.extend(dlse.map(|_| Slot::Input(out + 3)));
    bindings.extend(frame.key());
    bindings.push(stats);
    let delta = Kernel { reads_quads: reads_dout && frame.loads_quads(&[&forward.out]), ..kernel(Step::Delta, &[]) };
    launches.extend(frame.launch(delta, &places, bindings)?);
    let reads = frame.reads(vec![Slot::Input(0), Slot::Input(1), Slot::Input(2), Slot::Input(out + 2)]);
    for (step, outputs) in [(Step::Queries, &[0][..]), (Step::Keys, &[1, 2])] {
        let specs: Vec<&TensorSpec> = outputs.iter().map(|&n: &usize| [dq, dk, dv][n]).collect();
        let mut bindings = reads.clone();
        bindings.push(stats);
        bindings.extend(outputs.iter().map(|&n| Slot::Output(n)));
        launches.extend(match matrices {
            Matrices::Plain => frame.launch(kernel(step, &specs), &places, bindings)?,
            Matrices::Cooperative => {
                let of = if step == Step::Queries {
                    cooperative::gradient::Of::Queries
                } else {
                    cooperative::gradient::Of::Keys
                };
                let key = KernelKey::own(cooperative::gradient::Kernel::new(op, of, [frame.sums, frame.mask]));
                frame.launch_of(key, step, cooperative::gradient::BLOCK, &places, bindings)?
            }
        });
    }
    let numbers = 8 + 2 * dims.batch * dims.heads * dims.queries;
    let bytes = (numbers * forward.q.dtype.compute().size_bytes()).next_multiple_of(16);
    Ok(Plan { launches, scratch_bytes: vec![bytes] })
}

/// Operands beside those of the forward operation.
#[derive(Default)]
struct Places<'a> {
    d: Option<&'a TensorSpec>,
    o: Option<&'a TensorSpec>,
    lse: Option<&'a TensorSpec>,
    dlse: Option<&'a TensorSpec>,
    gradients: [Option<&'a TensorSpec>; 3],
}

/// What all launches of an operation share.
struct Frame<'a> {
    op: &'a Attention,
    caps: &'a Caps,
    element: Element,
    sums: Element,
    mask: Element,
    word: Element,
    tile: Tile,
    reads_quads: bool,
}

impl<'a> Frame<'a> {
    fn new(op: &'a Attention, name: &'static str, others: &[&TensorSpec], caps: &'a Caps) -> Result<Frame<'a>> {
        let dims = op.dims();
        if dims.size.max(dims.width) > crate::ops::attention::LONGEST_HEAD {
            let reason = format!("kernels serve heads of up to 256 elements, not {}", dims.size.max(dims.width));
            return Err(caps.unsupported(name, reason));
        }
        if op.q.dtype == DType::F64 {
            // Exponentials take 64-bit integers.
            caps.require(DType::F64)?;
            caps.require(DType::I64)?;
        }
        let tile = Tile::of(op.q.dtype, caps);
        if tile.bytes(op.q.dtype) > u64::from(caps.max_workgroup_bytes) || tile.threads() > caps.max_invocations {
            return Err(caps.unsupported(name, "its blocks need more workgroup memory or invocations than there are"));
        }
        let numbers = 8 + 2 * op.lse.layout.elements();
        let reach = [&op.q, &op.k, &op.v].into_iter().chain(&op.mask).chain(others.iter().copied());
        let reach = reach.map(|spec| spec.layout.required_elements()).fold(numbers, u64::max);
        if reach > u64::from(u32::MAX) || dims.queries.max(dims.keys) > i32::MAX as u64 / 2 {
            let elements = reach.max(dims.queries).max(dims.keys);
            return Err(Error::IndexWidth { op: name, elements, max: u32::MAX.into() });
        }
        let element = Element::new(op.q.dtype, caps)?;
        let sums = Element::new(op.q.dtype.compute(), caps)?;
        let (mask, word) = (Element::new(DType::Bool, caps)?, Element::new(DType::U32, caps)?);
        let mut frame = Frame { op, caps, element, sums, mask, word, tile, reads_quads: false };
        frame.reads_quads = frame.loads_quads(&[&op.q, &op.k, &op.v]);
        Ok(frame)
    }

    /// Whether heads of these operands are whole quads.
    fn loads_quads(&self, specs: &[&TensorSpec]) -> bool {
        specs.iter().copied().all(is_in_quads)
    }

    /// Dense results: the same.
    fn stores_quads(&self, specs: &[&TensorSpec]) -> bool {
        self.loads_quads(specs)
    }

    fn kernel(&self, step: Step, reads_dout: bool) -> Kernel {
        let dims = self.op.dims();
        Kernel {
            step,
            element: self.element,
            sums: self.sums,
            mask: self.mask,
            word: self.word,
            tile: self.tile,
            parts: [self.tile.parts(dims.size), self.tile.parts(dims.width)],
            reads_quads: self.reads_quads && (reads_dout || step == Step::Forward),
            writes_quads: false,
            causal: self.op.causal,
            masked: self.op.mask.is_some(),
            drops: self.op.dropout.is_some(),
            has_dlse: false,
            wide_integers: self.caps.i64,
        }
    }

    /// `bound`, and the mask where there is one.
    fn reads(&self, mut bound: Vec<Slot>) -> Vec<Slot> {
        bound.extend(self.op.mask.map(|_| Slot::Input(3)));
        bound
    }

    /// The words of the key.
    fn key(&self) -> impl Iterator<Item = Slot> + use<> {
        let first = 3 + usize::from(self.op.mask.is_some());
        let key = self.op.dropout.map(|_| [Slot::Input(first), Slot::Input(first + 1)]);
        key.into_iter().flatten()
    }

    /// The launch of `kernel`; none where it has nothing to do.
    fn launch(&self, kernel: Kernel, places: &Places<'_>, bindings: Vec<Slot>) -> Result<Option<Launch>> {
        let step = kernel.step;
        self.launch_of(KernelKey::own(kernel), step, self.tile.rows.into(), places, bindings)
    }

    /// The launch of a kernel of this step, of which a workgroup owns `block` rows.
    fn launch_of(
        &self,
        kernel: KernelKey,
        step: Step,
        block: u64,
        places: &Places<'_>,
        bindings: Vec<Slot>,
    ) -> Result<Option<Launch>> {
        let dims = self.op.dims();
        let rows = dims.batch * dims.heads * dims.queries;
        let (blocks, workgroups) = match step {
            Step::Delta => (0, rows.div_ceil(DELTA_THREADS.min(self.caps.max_invocations).into())),
            Step::Keys => (dims.keys.div_ceil(block), dims.batch * dims.groups * dims.keys.div_ceil(block)),
            Step::Forward | Step::Queries => {
                (dims.queries.div_ceil(block), dims.batch * dims.heads * dims.queries.div_ceil(block))
            }
        };
        // Keys have gradients, zero, where there is no query.
        if workgroups == 0 && (step != Step::Delta || dims.keys == 0) {
            return Ok(None);
        }
        let params = self.params(places, [workgroups, blocks]);
        let grid = self.caps.fold_grid(workgroups.max(1))?;
        Ok(Some(Launch { kernel, grid, bindings, params }))
    }

    /// The words of a launch of so many workgroups, which make `blocks` of the rows of each head.
    fn params(&self, places: &Places<'_>, [workgroups, blocks]: [u64; 2]) -> Vec<u32> {
        let dims = self.op.dims();
        let rows = dims.batch * dims.heads * dims.queries;
        let strides = |spec: Option<&TensorSpec>| -> [u32; 4] {
            let at = |layout: &crate::Layout, axis: usize| layout.strides()[axis] as u32;
            spec.map_or([0; 4], |TensorSpec { layout, .. }| {
                [layout.offset() as u32, at(layout, 0), at(layout, 1), at(layout, 2)]
            })
        };
        let offset = |spec: Option<&TensorSpec>| spec.map_or(0, |spec| spec.layout.offset() as u32);
        let dropout = self.op.dropout;
        let factor = dropout.map_or(1.0, |dropout| dropout.factor());
        let mut params: Vec<u32> =
            [self.op.scale, factor].into_iter().flat_map(|x| self.sums.param_words(Scalar::F(x))).collect();
        params.extend([workgroups as u32, blocks as u32, rows as u32]);
        params.extend([dims.queries, dims.keys, dims.heads, dims.shared(), dims.size, dims.width].map(|n| n as u32));
        params.extend([dropout.map_or(0, |dropout| dropout.threshold()), NEGATIVE_INFINITY, NAN]);
        params.push((dims.keys as i64 - dims.queries as i64) as u32);
        params.extend([&self.op.q, &self.op.k, &self.op.v].into_iter().flat_map(|spec| strides(Some(spec))));
        params.extend(strides(places.d));
        let mask = self.op.mask.as_ref();
        params.push(offset(mask));
        params.extend((0..4).map(|axis| mask.map_or(0, |mask| mask.layout.strides()[axis] as u32)));
        params.extend([places.o, places.lse, places.dlse].map(offset));
        params.extend(places.gradients.map(offset));
        params.extend((0..2).map(|word| offset(dropout.as_ref().map(|dropout| &dropout.key[word]))));
        debug_assert_eq!(params.len(), words_before(&self.sums) + WORDS.len());
        params.resize(params.len().next_multiple_of(4), 0);
        params
    }
}

/// Whether heads are whole quads, wherever they lie.
fn is_in_quads(spec: &TensorSpec) -> bool {
    let layout = &spec.layout;
    layout.dims()[3].is_multiple_of(4)
        && layout.offset().is_multiple_of(4)
        && layout.strides()[..3].iter().all(|stride| stride % 4 == 0)
}

/// Words of scale and factor.
fn words_before(sums: &Element) -> usize {
    2 * sums.dtype().size_bytes() as usize / 4
}

/// A parameter by its name.
fn word(sums: &Element, params: &[u32], name: &str) -> u64 {
    let at = WORDS.iter().position(|word| *word == name).unwrap_or_default();
    u64::from(params.get(words_before(sums) + at).copied().unwrap_or(0))
}

impl Kernel {
    fn word(&self, params: &[u32], name: &str) -> u64 {
        word(&self.sums, params, name)
    }
}

#[cfg(test)]
mod tests;
