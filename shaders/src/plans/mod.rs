//! One planner per op, under the op's stem; each pairs with `wgsl/<stem>.wgsl` and its specialisations.

use polywarp_core::ops::RowProgram;
use polywarp_core::ops::{
    ArgReduce, Attention, AttentionGradient, Bincount, Cat, Compress24, Convolution, ConvolutionInput,
    ConvolutionWeights, Copy, Decompress24, Gather, GroupedMatmul, Map, MaskedScatter, MaskedSelect, Matmul, Nonzero,
    Pad, Pool, PoolChosen, PoolGradient, Random, Reduce, ReducedMatmul, Scan, Scatter, ScatterAdd, SearchSorted,
    Softmax, Sort, SparseMatmul, Take,
};
use polywarp_core::{Op, Result};

use crate::{Candidate, Caps, KernelKey, KernelText, Plan, Source};

macro_rules! kernels {
    ($($module:ident),* $(,)?) => {
        /// Whether `key` is that of a kernel of this crate, which stays inside its buffers by construction. What an operation of
        /// another crate brings may not: backends compile it with every check, as they do users' kernels.
        pub fn is_own(key: &KernelKey) -> bool {
            $(key.get::<$module::Kernel>().is_some())||*
        }

        $(
            mod $module;

            impl KernelText for $module::Kernel {
                fn source(&self) -> Source {
                    $module::Kernel::source(self)
                }

                fn loop_rounds(&self, params: &[u32]) -> u64 {
                    $module::Kernel::loop_rounds(self, params)
                }
            }
        )*
    };
}

// Kernels of `elements`.
mod cat;
mod gather;
mod pad;
mod searchsorted;
// Its kernels are those of matrix products.
mod grouped_matmul;
// Its kernels are those of matrix products and of reductions.
mod reduced_matmul;
mod rounds;
// What several of them compare by.
mod keys;

// Those that have kernels of their own: one sorted line per stem.
kernels! {
    argreduce,
    attention,
    bincount,
    convolution,
    copy,
    elements,
    map,
    masked,
    matmul,
    pool,
    random,
    reduce,
    rows,
    scan,
    scatter,
    scatter_add,
    softmax,
    sort,
    sparse24,
    take,
}

pub(crate) fn plan(op: &Op, caps: &Caps) -> Result<Plan> {
    caps.or_shorter(op.name(), first(op, caps)?, || all(op, caps))
}

pub(crate) fn candidates(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    caps.that_run_to_the_end(op.name(), all(op, caps)?)
}

/// A planner of one kind of operation.
struct Planner {
    /// The first way, if the operation is of its kind.
    plan: fn(&Op, &Caps) -> Option<Result<Plan>>,
    /// All ways.
    candidates: fn(&Op, &Caps) -> Option<Result<Vec<Candidate>>>,
}

macro_rules! planners {
    ($($op:ident: $plan:path $(, $candidates:path)?;)*) => {
        /// One sorted line per operation.
        const PLANNERS: &[Planner] = &[$(
            Planner {
                plan: |op, caps| Some($plan(op.get::<$op>()?, caps)),
                candidates: |op, caps| {
                    let of_kind = op.get::<$op>()?;
                    $(return Some($candidates(of_kind, caps));)?
                    #[allow(unreachable_code)]
                    Some($plan(of_kind, caps).map(|plan| only(op, plan)))
                },
            },
        )*];
    };
}

planners! {
    ArgReduce: argreduce::plan;
    Attention: attention::forward, attention::forward_candidates;
    AttentionGradient: attention::backward, attention::backward_candidates;
    Bincount: bincount::plan;
    Cat: cat::plan;
    Compress24: sparse24::compress;
    Convolution: convolution::forward_plan, convolution::forward;
    ConvolutionInput: convolution::input_plan, convolution::input;
    ConvolutionWeights: convolution::weights_plan, convolution::weights;
    Copy: copy::plan;
    Decompress24: sparse24::decompress;
    Gather: gather::plan;
    GroupedMatmul: grouped_matmul::plan, grouped_matmul::candidates;
    Map: map::plan;
    MaskedScatter: masked::scatter;
    MaskedSelect: masked::select;
    Matmul: matmul::plan, matmul::candidates;
    Nonzero: masked::nonzero;
    Pad: pad::plan;
    Pool: pool::pool;
    PoolChosen: pool::chosen;
    PoolGradient: pool::gradient;
    Random: random::plan;
    Reduce: reduce::plan;
    ReducedMatmul: reduced_matmul::plan, reduced_matmul::candidates;
    Scan: scan::plan;
    Scatter: scatter::plan;
    ScatterAdd: scatter_add::plan;
    SearchSorted: searchsorted::plan;
    Softmax: softmax::plan;
    Sort: sort::plan;
    SparseMatmul: sparse24::multiply, sparse24::candidates;
    Take: take::plan;
}

/// The one way of an operation.
fn only(op: &Op, plan: Plan) -> Vec<Candidate> {
    vec![Candidate { name: op.name().to_owned(), plan, estimate_ns: 0.0 }]
}

fn first(op: &Op, caps: &Caps) -> Result<Plan> {
    let planned = PLANNERS.iter().find_map(|planner| (planner.plan)(op, caps));
    planned.unwrap_or_else(|| Ok(own(op, caps)?.swap_remove(0).plan))
}

fn all(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    let planned = PLANNERS.iter().find_map(|planner| (planner.candidates)(op, caps));
    planned.unwrap_or_else(|| own(op, caps))
}

/// The ways that an operation of another crate has of its own; never none.
fn own(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    let found = op.portable(caps).and_then(|found| {
        if found.is_empty() {
            return Err(caps.unsupported(op.name(), "its planner offers no kernel"));
        }
        let (inputs, outputs) = (op.inputs().len(), op.outputs().len());
        found.iter().try_for_each(|candidate| candidate.plan.check(op.name(), inputs, outputs, caps))?;
        Ok(found)
    });
    if let Some(fused) = op.get::<RowProgram>().and_then(|program| rows::plan(program, caps)) {
        return Ok(only(op, fused?));
    }
    let Some(graph) = op.decompose()? else { return found };
    // Beside its kernels, and where there are none or the device lacks what they need: as what it is made of.
    let mut found = match found {
        Err(error) if !error.is_unsupported() => return Err(error),
        found => found.unwrap_or_default(),
    };
    graph.check(op.name(), &op.inputs(), &op.outputs())?;
    if op.get::<RowProgram>().is_none() {
        let by_rows = graph.by_rows(ROWS);
        if by_rows != graph {
            let plan = by_rows.plan(|step| plan(step, caps))?;
            found.push(Candidate { name: BY_ROWS.to_owned(), plan, estimate_ns: BY_ROWS_NS });
        }
    }
    let plan = graph.plan(|step| plan(step, caps))?;
    found.push(Candidate { name: COMPOSED.to_owned(), plan, estimate_ns: COMPOSED_NS });
    Ok(found)
}

/// What steps over the same rows are called together.
const ROWS: &str = "rows";
/// The name of the way by other operations, of which those over the same rows are one.
const BY_ROWS: &str = "rows";
const BY_ROWS_NS: f64 = 1e14;
/// The name of the way by other operations.
const COMPOSED: &str = "composed";
/// Behind every kernel that has an estimate.
const COMPOSED_NS: f64 = 1e15;
