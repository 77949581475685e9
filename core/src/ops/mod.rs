//! The operations: plain data that fully describes one computation on one device.
//!
//! One file per operation, each with the same parts in the same order: the description with its checked constructor, then
//! [`Operation`]: operands, cost, the float64 oracle with its bound, the host's routine, and what tools ask. Conformance and
//! benchmark cases lie in `cases/`. An [`Op`] knows dtypes, shapes and strides but no buffers, so planners are pure functions of
//! it. [`REGISTRY`] holds one line per family; the harness, the benchmarks and the op table in the docs read it.
//!
//! Output contract: every op but [`struct@Copy`] writes a dense row-major output whose first byte lies on a 16-byte boundary
//! of its buffer; `Copy` writes any view that does not overlap itself.

mod checks;
pub(crate) mod elements;
pub(crate) mod fold;
pub(crate) mod graphs;
#[cfg(feature = "cpu")]
mod host;
pub(crate) mod map;
mod operands;
#[cfg(test)]
mod pins;
mod plans;
mod prelude;
pub(crate) mod sample;
mod walk;

use crate::case::{BenchCase, BenchSize, Case, Level};
pub use graphs::{Builder, End, Extent, GraphOp, RowProgram, RuleBuilder, Value};
pub use map::Map;
pub use plans::{KERNELS, candidates, plan};
pub use walk::Walk;

pub use crate::expr::{BinaryFn, CompareFn, UnaryFn};
pub use crate::operation::{Arithmetic, Content, Cost, Facts, HostError, Op, Operand, Operation, Role, Sample};
pub use crate::spec::{OUTPUT_ALIGNMENT_BYTES, TensorSpec};
pub(crate) use checks::check_dense_output;

/// One kind of operation, as users and tables name it.
pub struct Family {
    /// Its name, unique in the registry: what `--op` takes.
    pub name: &'static str,
    /// What it computes, in a line.
    pub summary: &'static str,
    /// Its conformance cases.
    pub cases: fn(Level) -> Vec<Case>,
    /// Its benchmark cases.
    pub benches: fn(BenchSize) -> Vec<BenchCase>,
}

impl Family {
    /// Whether its operations are graphs of others, and have no kernels of their own.
    pub fn is_composed(&self) -> bool {
        let first = (self.cases)(Level::Quick).into_iter().next();
        first.is_some_and(|case| matches!(case.op.decompose(), Ok(Some(_))))
    }
}

/// The name of the family whose cases stand in `file`: where that is a word of the language, the file has a `_` behind it.
const fn family_name(file: &'static str) -> &'static str {
    match file.as_bytes() {
        [.., b'_'] => file.split_at(file.len() - 1).0,
        _ => file,
    }
}

/// The list of operations: a file here and one of cases, or for what is a [`Map`] one of cases alone, with what the family computes.
macro_rules! ops {
    ($($kind:ident $file:ident $summary:literal;)*) => {
        $(ops! { @$kind $file })*

        pub(crate) mod cases {
            //! The conformance and benchmark cases, one file per family: `cases(level)` and `benches(size)`, as data.

            $(pub(crate) mod $file;)*

            mod backward;
            mod common;
            #[cfg(test)]
            mod gradients;

            pub(crate) use backward::Backward;
            pub(crate) use common::*;
        }

        /// Every family, sorted by name.
        pub const REGISTRY: &[Family] = &[
            $(Family {
                name: family_name(stringify!($file)),
                summary: $summary,
                cases: cases::$file::cases,
                benches: |size| at_start(cases::$file::benches(size)),
            }),*
        ];
    };
    (@operation $file:ident) => {
        pub mod $file;
        pub use $file::*;
    };
    (@program $file:ident) => {};
}

ops! {
    program   arange "evenly spaced numbers";
    operation argreduce "position of the maximum or minimum over axes";
    operation attention "softmax of the products of queries and keys, times values, of heads, with masks and dropout; and its gradient";
    operation batch_norm "channels less their mean over their deviation, over all other axes, with factors and addends";
    program   binary "functions of two operands, broadcast";
    operation bincount "how often each whole number occurs";
    program   cast "conversion between dtypes";
    operation cat "tensors one behind the other along an axis (concatenation, stacks)";
    program   clamp "values limited to an interval";
    program   compare "eq, ne, lt, le, gt, ge, broadcast";
    operation convolution "convolutions of one to three spatial axes, grouped and transposed, with a fused epilogue, and their gradients";
    operation copy "contiguous, strided and transposed copies";
    operation cross_entropy "negative log-likelihood of classes, with smoothing, weights and ignored targets";
    program   dropout "random bits and uniform numbers as steps of a program, and elements dropped by them";
    program   expr "several elementwise steps fused in one kernel";
    program   fill "one value everywhere";
    operation gather "elements along an axis by indices (take_along_axis, index_select)";
    operation grouped_matmul "runs of rows times the matrix of their group (mixture of experts), with a fused epilogue";
    operation histogram "how many elements lie in each of equal parts between two limits";
    operation layer_norm "rows less their mean over their deviation, with factors and addends";
    operation logsumexp "logarithm of the sum of exponentials along an axis";
    operation masked "elements chosen by a mask, put where it is true, and where that is (nonzero)";
    operation matmul "matrix products, batched and broadcast, with a fused epilogue";
    operation moments "means and variances over axes, in one walk";
    operation pad "padding with a number, edges, reflections or the whole again; cropping, rolling, tiling";
    operation pool "maxima and averages of windows of one to three spatial axes, adaptive and global, and their gradients";
    operation positions "whether positions lie within an axis, and the first that does not";
    program   quantize "8-bit steps of floats by scales, and back";
    operation quantized_convolution "convolutions of i8 with a scale of the images and one of each filter, with a fused epilogue";
    operation random "uniform and normal numbers and bits (Philox4x32-10)";
    operation reduce "sum, mean, prod, max, min, any, all over axes";
    operation reduced_matmul "sum, mean, max, min, abs_max of the rows or columns of a product that is not kept";
    operation resize "images in another size, by nearest places or lines between four";
    operation scan "cumulative sums, products, extrema with positions, and log-sum-exp along an axis";
    operation scatter "elements set, added, multiplied or compared along an axis where indices name";
    operation scatter_add "sums of rows by the place that indices name";
    operation searchsorted "where numbers belong among sorted ones (bucketize)";
    operation softmax "softmax and log-softmax along an axis";
    operation sort "elements in order along an axis, and where they stood";
    operation sparse24 "2:4 compression: two of four neighbours, and products with what was compressed";
    operation take "rows of a table by indices (embedding)";
    program   unary "functions of one operand";
    program   update "several results of one pass, and updates in place, such as the step of an optimiser";
    program   where_ "elements of one of two tensors, by a condition";
}

/// Benchmark cases with outputs at the start of their buffers, as tensors have them: the guard bytes that conformance puts
/// before an output would make rows of wide stores straddle memory sectors.
fn at_start(mut benches: Vec<BenchCase>) -> Vec<BenchCase> {
    for bench in &mut benches {
        let output = bench.op.output();
        let moved = bench.op.with_output(0, TensorSpec { layout: output.layout.with_offset(0), ..output });
        bench.op = moved.unwrap_or_else(|| bench.op.clone());
    }
    benches
}

/// Indices of `axes` together: 0 where one of them has none, however many the others have.
pub(crate) fn extent_of(spec: &TensorSpec, axes: &[usize]) -> u64 {
    let extents = axes.iter().map(|&axis| spec.layout.dims()[axis]);
    if extents.clone().any(|extent| extent == 0) { 0 } else { extents.fold(1, u64::saturating_mul) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_is_sorted_and_names_are_unique() {
        assert!(REGISTRY.windows(2).all(|pair| pair[0].name < pair[1].name));
        for level in [Level::Quick, Level::Full] {
            let mut names = std::collections::HashSet::new();
            for family in REGISTRY {
                let cases = (family.cases)(level);
                assert!(!cases.is_empty(), "{} has no {level} case", family.name);
                for case in cases {
                    assert_eq!(case.family, family.name);
                    assert!(names.insert(case.name.clone()), "twice: {}", case.name);
                }
            }
        }
    }

    #[test]
    fn quick_cases_are_among_the_full_ones() {
        for family in REGISTRY {
            let full: std::collections::HashSet<String> =
                (family.cases)(Level::Full).into_iter().map(|case| case.name).collect();
            for case in (family.cases)(Level::Quick) {
                assert!(full.contains(&case.name), "{}", case.name);
            }
        }
    }

    #[test]
    fn bench_names_are_unique_at_every_size() {
        for size in [BenchSize::Small, BenchSize::Normal, BenchSize::Large] {
            let mut names = std::collections::HashSet::new();
            for case in REGISTRY.iter().flat_map(|family| (family.benches)(size)) {
                assert!(names.insert(case.name.clone()), "twice: {}", case.name);
            }
            assert!(names.len() > 30);
        }
    }
}
