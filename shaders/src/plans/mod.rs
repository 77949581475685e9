//! One planner per op, under the op's stem; each pairs with `wgsl/<stem>.wgsl` and its specialisations.

use polywarp_core::ops::{
    ArgReduce, Compress24, Copy, Decompress24, GroupedMatmul, Map, Matmul, Random, Reduce, ReducedMatmul, Softmax,
    SparseMatmul,
};
use polywarp_core::{Op, Result};

use crate::{Candidate, Caps, Plan, Source};

macro_rules! kernels {
    ($($variant:ident => $module:ident),* $(,)?) => {
        $(mod $module;)*

        /// A kernel and its specialisation: two launches with equal keys run the same pipeline.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum KernelKey {
            $(
                #[doc = concat!("A kernel of `plans/", stringify!($module), ".rs`.")]
                $variant($module::Kernel),
            )*
        }

        impl KernelKey {
            /// The kernel's WGSL. Costs a text generation: call it once per key.
            pub fn source(&self) -> Source {
                match self {
                    $(KernelKey::$variant(kernel) => kernel.source(),)*
                }
            }

            /// The most rounds that all loops of one invocation make together, nested ones counted, for a launch with `params`.
            /// The round that finds a loop at its end counts.
            pub fn loop_rounds(&self, params: &[u32]) -> u64 {
                match self {
                    $(KernelKey::$variant(kernel) => kernel.loop_rounds(params),)*
                }
            }
        }
    };
}

// Its kernels are those of matrix products.
mod grouped_matmul;
// Its kernels are those of matrix products and of reductions.
mod reduced_matmul;
mod rounds;

// The registry: one sorted line per stem.
kernels! {
    ArgReduce => argreduce,
    Copy => copy,
    Map => map,
    Matmul => matmul,
    Random => random,
    Reduce => reduce,
    Softmax => softmax,
    Sparse24 => sparse24,
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
    Compress24: sparse24::compress;
    Copy: copy::plan;
    Decompress24: sparse24::decompress;
    GroupedMatmul: grouped_matmul::plan, grouped_matmul::candidates;
    Map: map::plan;
    Matmul: matmul::plan, matmul::candidates;
    Random: random::plan;
    Reduce: reduce::plan;
    ReducedMatmul: reduced_matmul::plan, reduced_matmul::candidates;
    Softmax: softmax::plan;
    SparseMatmul: sparse24::multiply, sparse24::candidates;
}

/// The one way of an operation.
fn only(op: &Op, plan: Plan) -> Vec<Candidate> {
    vec![Candidate { name: op.name().to_owned(), plan, estimate_ns: 0.0 }]
}

fn first(op: &Op, caps: &Caps) -> Result<Plan> {
    let planned = PLANNERS.iter().find_map(|planner| (planner.plan)(op, caps));
    planned.unwrap_or_else(|| Err(caps.unsupported(op.name(), "no portable kernel serves it")))
}

fn all(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    let planned = PLANNERS.iter().find_map(|planner| (planner.candidates)(op, caps));
    planned.unwrap_or_else(|| Err(caps.unsupported(op.name(), "no portable kernel serves it")))
}
