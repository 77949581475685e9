//! The key of a product's tuned answer: the properties of the op that decide which kernel is best.
//!
//! A [`ProductKey`] holds dtypes, precision, the layout of the operands, the parts of the epilogue, and each extent as
//! a class: the end of a bucket of sizes, and the largest of 128, 64, 16, 8 and 4 that divides it. Buckets let one
//! answer serve neighbouring extents: while a product is small, each tile more changes how well tiles fill a card; when
//! it is large, only a share of its size does. Divisors of an extent stay apart, because kernels can omit their tail
//! code, or use wide loads, thanks to them. Two products that differ in precision never share a key. (Every kernel
//! gives the same bits on every run. If an op ever asks for less, that must become part of the key as well.) Pure; no
//! device, no clock.

use std::fmt;

use crate::ops::{GroupedMatmul, Matmul, ReducedMatmul, SparseMatmul};
use crate::{DType, Precision, TensorSpec, UnaryFn};

/// Alignments of an extent, in elements, that kernels tell apart: whole tiles, whole MMA steps, whole vectors.
const EXTENT_ALIGNMENTS: [u64; 5] = [128, 64, 16, 8, 4];

/// The widest load of any kernel, and the alignment that TMA demands of every row.
const MOST_ALIGNMENT_BYTES: u64 = 16;

/// The properties of an op that decide which of its kernels is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ops) struct ProductKey {
    input: DType,
    /// B's dtype, where it is not A's.
    other: Option<DType>,
    output: DType,
    precision: Precision,
    /// Power of two at or above the number of products, or of groups.
    batch: u64,
    m: Extent,
    n: Extent,
    k: Extent,
    a: Operand,
    b: Operand,
    c: Option<Operand>,
    bias: bool,
    activation: bool,
    scaled: bool,
    /// Operands have scales.
    scales: bool,
    /// Rows of A, columns of B and elements along K that share one scale, where scales change along K.
    blocks: Option<[u64; 3]>,
    kind: Kind,
}

/// The kind of product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Dense,
    /// A grouped product: the rows of all groups, which `m` counts together.
    Grouped,
    /// A product reduced to one number for each row.
    OfRows,
    /// A product reduced to one number for each column.
    OfColumns,
    /// A is 2:4 compressed.
    Sparse,
}

/// A class of extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Extent {
    /// The largest extent of the bucket.
    at_most: u64,
    /// The largest of [`EXTENT_ALIGNMENTS`] that divides it; 1 when none does.
    multiple_of: u64,
}

/// A class of layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Operand {
    order: Order,
    /// The largest power of two, at most 16, that divides the byte offset of every row.
    align_bytes: u64,
    /// Whether one matrix serves the whole batch.
    broadcast: bool,
}

/// The dimension along which neighbours of a matrix are neighbours in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    /// Along the second dimension.
    Rows,
    /// Along the first.
    Columns,
    /// Neither.
    Strided,
}

impl ProductKey {
    /// The key of the dense product, with the alignment of A's compressed values.
    pub fn of_sparse(op: &SparseMatmul) -> ProductKey {
        let dense = ProductKey::of_matmul(&op.product);
        let align_bytes = Operand::of(&op.values).align_bytes;
        ProductKey { a: Operand { align_bytes, ..dense.a }, kind: Kind::Sparse, ..dense }
    }

    /// The key of the product that is reduced.
    pub fn of_reduced(op: &ReducedMatmul) -> ProductKey {
        let kind = if op.is_of_rows() { Kind::OfRows } else { Kind::OfColumns };
        ProductKey { kind, ..ProductKey::of_matmul(&op.product) }
    }

    /// The key of a product of all rows with B's matrices; its batch is the number of groups.
    pub fn of_grouped(op: &GroupedMatmul) -> ProductKey {
        let all = Matmul { bias: op.bias, activation: op.activation, ..Matmul::product(op.a, op.b, op.output) };
        let all = Matmul { precision: op.precision, ..all };
        let batch = op.dims().groups.checked_next_power_of_two().unwrap_or(u64::MAX);
        ProductKey { batch, kind: Kind::Grouped, ..ProductKey::of_matmul(&all) }
    }

    pub fn of_matmul(op: &Matmul) -> ProductKey {
        let dims = op.dims();
        ProductKey {
            input: op.a.dtype,
            other: Some(op.b.dtype).filter(|&dtype| dtype != op.a.dtype),
            output: op.output.dtype,
            precision: op.precision,
            batch: dims.batch.checked_next_power_of_two().unwrap_or(u64::MAX),
            // A tile is 32 to 256 wide; K only decides how long each tile takes and whether it is split.
            m: Extent::of(dims.m, 8),
            n: Extent::of(dims.n, 8),
            k: Extent::of(dims.k, 4),
            a: Operand::of(&op.a),
            b: Operand::of(&op.b),
            c: op.c.as_ref().filter(|_| op.beta != 0.0).map(Operand::of),
            bias: op.bias.is_some(),
            activation: op.activation.is_some(),
            scaled: op.alpha != 1.0,
            scales: op.scale_a.is_some() || op.scale_b.is_some(),
            blocks: op.scale_blocks.map(|blocks| [blocks.m, blocks.n, blocks.k]),
            kind: Kind::Dense,
        }
    }

    /// The class of ops that one check of a kernel covers: the key without sizes, plus the activation and the
    /// reduction, which change the code but not the choice of a kernel. Batches count as one or many.
    pub fn class(&self, activation: Option<UnaryFn>, function: &str) -> String {
        let activation = activation.map_or("", |f| f.name());
        let Extent { multiple_of: m, .. } = self.m;
        let (n, k) = (self.n.multiple_of, self.k.multiple_of);
        let batch = if self.batch > 1 { "batched" } else { "single" };
        let (kind, types, operands) = (self.kind(), self.types(), self.operands());
        let text = format!("{kind} {types} {batch} m%{m} n%{n} k%{k} {operands} {activation} {function}");
        text.trim_end().into()
    }

    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Dense => "matmul",
            Kind::Grouped => "grouped_matmul",
            Kind::OfRows => "reduced_matmul rows",
            Kind::OfColumns => "reduced_matmul columns",
            Kind::Sparse => "sparse_matmul",
        }
    }

    fn types(&self) -> String {
        let precision = match self.precision {
            Precision::Low => "low",
            Precision::Medium => "medium",
            Precision::High => "high",
            Precision::Highest => "highest",
        };
        let other = self.other.map_or(String::new(), |dtype| format!("x{dtype}"));
        format!("{}{other}>{} {precision}", self.input, self.output)
    }

    fn operands(&self) -> String {
        let mut text = format!("a:{} b:{}", self.a, self.b);
        if let Some(c) = &self.c {
            text.push_str(&format!(" c:{c}"));
        }
        let parts = [(self.scaled, " alpha"), (self.bias, " bias"), (self.activation, " activation")];
        for (part, name) in parts.into_iter().chain([(self.scales, " scales")]) {
            text.push_str(if part { name } else { "" });
        }
        if let Some([m, n, k]) = self.blocks {
            text.push_str(&format!(" blocks{m}x{n}x{k}"));
        }
        text
    }
}

/// The text under which answers are stored; it is the same on every machine.
impl fmt::Display for ProductKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProductKey { batch, m, n, k, .. } = self;
        write!(f, "{} {} batch{batch} m{m} n{n} k{k} {}", self.kind(), self.types(), self.operands())
    }
}

impl Extent {
    /// The class of `extent` with `steps` buckets (a power of two) to each octave.
    fn of(extent: u64, steps: u64) -> Extent {
        let multiple_of = EXTENT_ALIGNMENTS.into_iter().find(|&align| extent.is_multiple_of(align)).unwrap_or(1);
        Extent { at_most: bucket(extent, steps), multiple_of }
    }
}

/// The largest extent in the bucket of `extent`. Up to 256 an octave has two buckets: there a launch takes longer than the product.
fn bucket(extent: u64, steps: u64) -> u64 {
    if extent <= 2 {
        return extent;
    }
    let octave = 1u64 << (extent - 1).ilog2(); // below extent, and at least half of it
    let steps = if extent <= 256 { 2 } else { steps };
    let step = (octave / steps).max(1);
    octave.saturating_add((extent - octave).div_ceil(step).saturating_mul(step))
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%{}", self.at_most, self.multiple_of)
    }
}

impl Operand {
    fn of(spec: &TensorSpec) -> Operand {
        let layout = &spec.layout;
        let rank = layout.rank();
        let (dims, strides) = (layout.dims(), layout.strides());
        let (row, column) = (rank - 2, rank - 1);
        // A dimension of one element has no neighbours: its stride never counts.
        let unit = |axis: usize| strides[axis] == 1 || dims[axis] == 1;
        let (order, far) = match () {
            () if unit(column) => (Order::Rows, Some(row)),
            () if unit(row) => (Order::Columns, Some(column)),
            () => (Order::Strided, None),
        };
        let size = spec.dtype.size_bytes();
        let batches = (0..rank - 2).filter(|&axis| dims[axis] > 1);
        let steps = batches.chain(far.filter(|&axis| dims[axis] > 1)).map(|axis| strides[axis].unsigned_abs());
        // The lowest bit that is set in any of them.
        let bits =
            steps.chain([layout.offset()]).fold(MOST_ALIGNMENT_BYTES, |bits, step| bits | step.wrapping_mul(size));
        let broadcast = dims[..rank - 2].iter().any(|&dim| dim > 1)
            && (0..rank - 2).all(|axis| dims[axis] == 1 || strides[axis] == 0);
        Operand { order, align_bytes: 1 << bits.trailing_zeros(), broadcast }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Rows => "rows",
            Order::Columns => "columns",
            Order::Strided => "strided",
        };
        write!(f, "{order}/{}{}", self.align_bytes, if self.broadcast { "*" } else { "" })
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
