//! One planner per op, under the op's stem; each pairs with `wgsl/<stem>.wgsl` and its specialisations.

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

fn first(op: &Op, caps: &Caps) -> Result<Plan> {
    match op {
        Op::ArgReduce(op) => argreduce::plan(op, caps),
        Op::Compress24(op) => sparse24::compress(op, caps),
        Op::Copy(op) => copy::plan(op, caps),
        Op::Decompress24(op) => sparse24::decompress(op, caps),
        Op::GroupedMatmul(op) => grouped_matmul::plan(op, caps),
        Op::Map(op) => map::plan(op, caps),
        Op::Matmul(op) => matmul::plan(op, caps),
        Op::Random(op) => random::plan(op, caps),
        Op::Reduce(op) => reduce::plan(op, caps),
        Op::ReducedMatmul(op) => reduced_matmul::plan(op, caps),
        Op::Softmax(op) => softmax::plan(op, caps),
        Op::SparseMatmul(op) => sparse24::multiply(op, caps),
        _ => Err(caps.unsupported(op.name(), "no portable kernel serves it")),
    }
}

fn all(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    match op {
        Op::GroupedMatmul(op) => grouped_matmul::candidates(op, caps),
        Op::Matmul(op) => matmul::candidates(op, caps),
        Op::ReducedMatmul(op) => reduced_matmul::candidates(op, caps),
        Op::SparseMatmul(op) => sparse24::candidates(op, caps),
        _ => Ok(vec![Candidate { name: op.name().to_owned(), plan: first(op, caps)?, estimate_ns: 0.0 }]),
    }
}
