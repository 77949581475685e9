//! The small case that a candidate is checked with before its first use.
//!
//! It is the user's op made small: dtypes, precision, epilogue, order of strides and batching stay, and extents, pitches and
//! offsets keep their remainders by 128, so that kernels take the same paths as on the large one: tails where it has tails,
//! wide loads where its rows are aligned. Values are drawn from -1..1, so that a kernel of too little precision shows. Every
//! element must be written and finite, the bytes behind must stay as they were, and a sample of whole rows is held to the
//! oracle: first, last and those at the edges of tiles, and others. Wrong tiles, wrong tails, wrong columns and wrong
//! precision cannot miss it; the conformance harness remains the full proof.

#[path = "case_grouped.rs"]
mod grouped;
#[path = "case_reduced.rs"]
mod of_reduced;

use super::settings::Effort;
use crate::harness::Values;
use crate::harness::run::{Operand, operand};
use crate::harness::values::mix;
use crate::ops::sparse24::shape_of;
use crate::ops::{Matmul, MatmulDims, Part24, ScaleBlocks, SparseMatmul};
use crate::oracle::{Expected, HostTensor, Subnormals};
use crate::{Layout, Op, Result, Scalar, Shape, TensorSpec};

/// What remainders are kept by: the widest tile's alignment, and a multiple of every vector.
const KEPT_REMAINDER: u64 = 128;
/// Large extents do not become smaller than this.
const LEAST_EXTENT: u64 = 17;
/// Bytes after the output that must stay as they were.
const GUARD_BYTES: u64 = 64;
/// Multiplications that the oracle may take: some ten milliseconds.
const ORACLE_PRODUCTS: u64 = 1 << 20;
/// Rows compared at least, however long they are.
const LEAST_ROWS: u64 = 4;
/// Rows at which tiles end and begin, compared first.
const EDGES: [u64; 10] = [0, 127, 128, 63, 64, 255, 256, 31, 32, 16];
/// What scales of operands are drawn from: sums of 8-bit products then fit every float.
const SCALES: Values = Values::Uniform(1.0 / 256.0, 1.0 / 64.0);
/// What stands for a caller's alpha or beta, which may be 0, infinite or anything else: the verdict serves other callers.
const FACTOR: f64 = -2.0;
/// Matrices of a batch.
const MOST_BATCH: u64 = 2;

/// A case with its inputs and what must come of them.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) op: Op,
    inputs: Vec<Operand>,
    /// Rows of each matrix that are compared, ascending.
    rows: Vec<u64>,
    expected: Vec<Expected>,
}

/// How often the inner dimension of a check is doubled at most, for candidates that only serve long ones.
const MOST_DOUBLINGS: u32 = 6;

/// The ops that a candidate for `op` may be checked with, the smallest first: the first for which its planner has it is used.
/// What is had for none of them cannot be checked, and is never chosen; planners test that this does not happen.
pub fn check_cases(op: &Op, effort: Effort) -> impl Iterator<Item = Op> {
    (0..=MOST_DOUBLINGS).map_while(move |longer| reduced(op, effort, longer))
}

/// `op` made small; its inner dimension `longer` times doubled, for candidates that only serve long ones. `None` when that
/// is not smaller than the op itself, or the op is of no kind that is tuned.
pub(super) fn reduced(op: &Op, effort: Effort, longer: u32) -> Option<Op> {
    if let Op::GroupedMatmul(op) = op {
        return grouped::reduced(op, effort, longer).map(Op::from);
    }
    if let Op::ReducedMatmul(op) = op {
        return of_reduced::reduced(op, effort, longer).map(Op::from);
    }
    let made = reduced_product(op.product()?, effort, longer)?;
    match op {
        // With scales of blocks it has one kernel.
        Op::SparseMatmul(_) if made.scale_blocks.is_some() => None,
        Op::SparseMatmul(op) => reduced_sparse(op, made).map(Op::from),
        _ => made.check().ok().map(Op::from),
    }
}

/// `op` with what decompresses to the left operand of `product`: as dense, and as it is aligned.
fn reduced_sparse(op: &SparseMatmul, product: Matmul) -> Option<SparseMatmul> {
    let MatmulDims { m, k, .. } = product.dims();
    let dims = product.output.layout.dims();
    let batch = op.values.layout.dims().iter().rev().skip(2).rev().map(|&dim| dim.min(MOST_BATCH));
    let matrix: Vec<u64> = batch.chain([m, k]).collect();
    let of = |part, spec| dense(spec, shape_of(part, &Shape::new(&matrix).ok()?).ok()?.dims());
    let (values, metadata) = (of(Part24::Values, &op.values)?, of(Part24::Metadata, &op.metadata)?);
    let a = SparseMatmul::dense_a(&values, k, &dims[..dims.len() - 2]).ok()?;
    SparseMatmul { values, metadata, product: Matmul { a, ..product } }.check().ok()
}

fn reduced_product(op: &Matmul, effort: Effort, longer: u32) -> Option<Matmul> {
    let dims = op.dims();
    let small = |extent: u64, normal: u64| match effort {
        Effort::Normal if longer == 0 => shrink(extent, normal),
        _ => shrink(extent, 0),
    };
    let (m, n) = (small(dims.m, 256), small(dims.n, 256));
    let base = match effort {
        Effort::Normal => KEPT_REMAINDER,
        Effort::Small => 0,
    };
    // Doubled whole, so that the remainder stays.
    let k = shrink(dims.k, if longer == 0 { base } else { KEPT_REMAINDER.checked_shl(longer)? });
    if longer > 0 && k == shrink(dims.k, KEPT_REMAINDER.checked_shl(longer - 1)?) {
        return None;
    }
    let batch: Vec<u64> = op.output.layout.dims().iter().rev().skip(2).rev().map(|&dim| dim.min(MOST_BATCH)).collect();
    let with = |rows: u64, columns: u64| [batch.as_slice(), &[rows, columns]].concat();
    let [of_a, of_b] = op.scale_blocks.map_or([[m, 1], [1, n]], |blocks| blocks.extents([m, n, k]));
    Some(Matmul {
        a: view(&op.a, &with(m, k))?,
        b: view(&op.b, &with(k, n))?,
        c: op.c.as_ref().map_or(Some(None), |c| view(c, &with(m, n)).map(Some))?,
        bias: op.bias.as_ref().map_or(Some(None), |bias| view(bias, &[n]).map(Some))?,
        scale_a: op.scale_a.as_ref().map_or(Some(None), |scale| view(scale, &with(of_a[0], of_a[1])).map(Some))?,
        scale_b: op.scale_b.as_ref().map_or(Some(None), |scale| view(scale, &with(of_b[0], of_b[1])).map(Some))?,
        output: dense(&op.output, &with(m, n))?,
        alpha: if op.alpha == 1.0 { 1.0 } else { FACTOR },
        beta: if op.beta == 0.0 { 0.0 } else { FACTOR },
        ..op.clone()
    })
}

/// The smallest extent above `base`, and not so small that vector kernels serve it, with the remainder of `extent`;
/// `extent` where that is less.
fn shrink(extent: u64, base: u64) -> u64 {
    let rest = extent % KEPT_REMAINDER;
    let above = base + rest;
    extent.min(if rest == 0 || above < LEAST_EXTENT { above + KEPT_REMAINDER } else { above })
}

/// A view of shape `dims` with the order, the signs and the alignment of `spec`'s strides.
fn view(spec: &TensorSpec, dims: &[u64]) -> Option<TensorSpec> {
    let layout = &spec.layout;
    let mut axes: Vec<usize> = (0..layout.rank()).collect();
    axes.sort_by_key(|&axis| (layout.strides()[axis].unsigned_abs(), std::cmp::Reverse(axis)));
    let mut strides = vec![0i64; dims.len()];
    let (mut span, mut before) = (1u64, 0u64);
    for axis in axes {
        let stride = layout.strides()[axis];
        let size = stride.unsigned_abs();
        if size == 0 {
            continue;
        }
        // At least what lies inside, and the same modulo 128.
        let least = span.max(1);
        let rest = (size % KEPT_REMAINDER + KEPT_REMAINDER - least % KEPT_REMAINDER) % KEPT_REMAINDER;
        let small = (least + rest).min(size.max(least));
        strides[axis] = i64::try_from(small).ok()? * stride.signum();
        let reach = small.checked_mul(dims[axis].max(1) - 1)?;
        span = span.checked_add(reach)?;
        before += if stride < 0 { reach } else { 0 };
    }
    let offset = before.next_multiple_of(KEPT_REMAINDER) + layout.offset() % KEPT_REMAINDER;
    Some(TensorSpec::new(spec.dtype, Layout::strided(Shape::new(dims).ok()?, &strides, offset).ok()?))
}

/// A dense result of shape `dims`, aligned as `spec` is.
fn dense(spec: &TensorSpec, dims: &[u64]) -> Option<TensorSpec> {
    let layout = Layout::contiguous(Shape::new(dims).ok()?);
    Some(TensorSpec::new(spec.dtype, layout.with_offset(spec.layout.offset() % KEPT_REMAINDER)))
}

impl Trial {
    /// The case of `op` with numbers drawn from `seed`.
    ///
    /// # Errors
    /// Never for an op made by [`reduced`].
    pub(super) fn new(op: Op, seed: u64) -> Result<Trial> {
        let sparse = matches!(op, Op::SparseMatmul(_));
        // Compressed operands have one more: their metadata.
        let scaled = if let Op::ReducedMatmul(op) = &op { Some(&op.product) } else { op.product() };
        let scales: Vec<usize> = scaled.map_or(Vec::new(), |product| {
            product.places()[2..].iter().flatten().map(|place| place + usize::from(sparse)).collect()
        });
        let specs = op.inputs();
        // Sums of integers that no scale makes smaller fit every float, f16 too, when the integers are small.
        let most = if op.output().dtype.is_float() && scales.is_empty() { 2 } else { 100 };
        let input = |(i, spec): (usize, &TensorSpec)| {
            let seed = mix(seed, i as u64 + 1);
            match &op {
                Op::SparseMatmul(_) if i == 1 => operand(spec, &Values::Places24, seed),
                Op::GroupedMatmul(op) if i + 1 == specs.len() => operand(spec, &grouped::ends(op), seed),
                _ if scales.contains(&i) => operand(spec, &SCALES, seed),
                _ => draw(spec, most, seed),
            }
        };
        let inputs: Vec<Operand> = specs.iter().enumerate().map(input).collect();
        let mut hosts: Vec<HostTensor> = inputs.iter().map(|operand| operand.host.clone()).collect();
        if let Op::SparseMatmul(op) = &op {
            let (a, _) = op.dense(&hosts);
            hosts.splice(..2, [a]);
        }
        let (rows, expected) = match (&op, op.product()) {
            (Op::GroupedMatmul(op), _) => grouped::expect(op, &hosts)?,
            (Op::ReducedMatmul(op), _) => of_reduced::expect(op, &hosts)?,
            (_, Some(product)) => expect(product, &hosts)?,
            (_, None) => (Vec::new(), Vec::new()),
        };
        Ok(Trial { op, inputs, rows, expected })
    }

    /// The bytes of each input's buffer.
    pub(super) fn inputs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.inputs.iter().map(|operand| operand.storage.as_slice())
    }

    /// What the output's buffer holds before: NaN, or bytes that no small sum has.
    pub(super) fn before(&self) -> Vec<u8> {
        let output = self.op.output();
        vec![if output.dtype.is_float() { 0xFF } else { 0xA5 }; (output.required_bytes() + GUARD_BYTES) as usize]
    }

    /// What is wrong with the output's buffer `after` the op, if anything.
    pub(super) fn judge(&self, after: &[u8], subnormals: Subnormals) -> Option<String> {
        let output = self.op.output();
        let (dtype, size) = (output.dtype, output.dtype.size_bytes() as usize);
        let (start, end) = (output.layout.offset() as usize * size, output.required_bytes() as usize);
        let before = self.before();
        if after.len() != before.len() {
            return Some(format!("{} bytes were read of {}", after.len(), before.len()));
        }
        if after[..start] != before[..start] || after[end..] != before[end..] {
            return Some("it writes beside its output".to_owned());
        }
        let results = &after[start..end];
        let value = |at: u64| Scalar::from_le_bytes(&results[at as usize * size..][..size], dtype);
        let count = output.layout.elements();
        if let Some(at) = (0..count).find(|&at| dtype.is_float() && !value(at).as_f64().is_finite()) {
            return Some(format!("element {} is missing or not finite", self.place(at)));
        }
        let (m, n) = match (&self.op, output.layout.dims()) {
            // A row is one number.
            (Op::ReducedMatmul(_), dims) => (dims[dims.len() - 1], 1),
            (_, dims) => (dims[dims.len() - 2], dims[dims.len() - 1]),
        };
        let places = (0..count / (m * n).max(1)).flat_map(|matrix| self.rows.iter().map(move |row| matrix * m + row));
        let places = places.flat_map(|row| (0..n).map(move |column| row * n + column));
        let mut wrong = places.zip(&self.expected).filter(|(at, want)| !want.accepts(value(*at), dtype, subnormals));
        let (at, want) = wrong.next()?;
        let got = value(at).as_f64();
        let share = 1 + wrong.count();
        Some(format!(
            "{share} of {} compared elements are wrong; {} is {got:e}, not {:e} +- {:.1e}",
            self.expected.len(),
            self.place(at),
            want.value.as_f64(),
            want.error
        ))
    }

    /// The indices of element `at`.
    fn place(&self, at: u64) -> String {
        let output = self.op.output();
        let mut rest = at;
        let mut index: Vec<u64> = Vec::new();
        for &dim in output.layout.dims().iter().rev() {
            index.push(rest % dim.max(1));
            rest /= dim.max(1);
        }
        index.reverse();
        format!("{index:?} of {:?}", output.layout.dims())
    }
}

/// Floats of -1..1, or integers up to `most`, twice that where there are no negative ones.
fn draw(spec: &TensorSpec, most: i32, seed: u64) -> Operand {
    let values = if spec.dtype.is_float() {
        Values::Uniform(-1.0, 1.0)
    } else if spec.dtype.is_signed() {
        Values::Integers(-most, most)
    } else {
        Values::Integers(0, 2 * most)
    };
    operand(spec, &values, seed)
}

/// Of `m` rows, each of which takes the oracle `each` multiplications, those to compare: the last, `edges`, those at the edges
/// of tiles, then others; ascending.
fn sampled(m: u64, each: u64, edges: impl Iterator<Item = u64>) -> Vec<u64> {
    let wanted = (ORACLE_PRODUCTS / each.max(1)).max(LEAST_ROWS).min(m);
    let edges = [m.saturating_sub(1)].into_iter().chain(edges).chain(EDGES).filter(|&row| row < m);
    // A step that shares no factor with a power of two meets every lane of a warp.
    let others = (0..m).map(|i| (i * 37 + 5) % m);
    let mut seen = std::collections::BTreeSet::new();
    for row in edges.chain(others).chain(0..m) {
        if seen.len() as u64 == wanted {
            break;
        }
        seen.insert(row);
    }
    seen.into_iter().collect()
}

/// The rows of each matrix to compare, and what they must be.
fn expect(op: &Matmul, inputs: &[HostTensor]) -> Result<(Vec<u64>, Vec<Expected>)> {
    let dims = op.dims();
    let each = dims.batch.saturating_mul(dims.n).saturating_mul(dims.k.max(1));
    let rows = sampled(dims.m, each, std::iter::empty());
    let sample = |spec: &TensorSpec, dims: &[u64]| -> Result<TensorSpec> {
        Ok(TensorSpec::new(spec.dtype, Layout::contiguous(Shape::new(dims)?)))
    };
    let with = |spec: &TensorSpec, count: u64| -> Result<TensorSpec> {
        let mut dims = spec.layout.dims().to_vec();
        let at = dims.len() - 2;
        dims[at] = count;
        sample(spec, &dims)
    };
    let count = rows.len() as u64;
    let part = Matmul {
        a: with(&op.a, count)?,
        b: sample(&op.b, op.b.layout.dims())?,
        c: op.c.as_ref().map(|c| with(c, count)).transpose()?,
        bias: op.bias.as_ref().map(|bias| sample(bias, bias.layout.dims())).transpose()?,
        scale_a: op.scale_a.as_ref().map(|scale| with(scale, count)).transpose()?,
        scale_b: op.scale_b.as_ref().map(|scale| sample(scale, scale.layout.dims())).transpose()?,
        output: with(&op.output, count)?,
        // Each row has its own then.
        scale_blocks: op.scale_blocks.map(|blocks| ScaleBlocks { m: 1, ..blocks }),
        ..op.clone()
    };
    // The lines of `width` that belong to the rows: one for each of `shared` neighbours.
    let pick = |host: &HostTensor, width: u64, shared: u64| {
        let lines = dims.m.div_ceil(shared);
        let line = |matrix: u64, row: u64| {
            let start = ((matrix * lines + row / shared) * width) as usize;
            &host.values[start..start + width as usize]
        };
        let picked = (0..dims.batch).flat_map(|matrix| rows.iter().map(move |&at| (matrix, at)));
        picked.flat_map(|(matrix, at)| line(matrix, at).to_vec()).collect::<Vec<Scalar>>()
    };
    let (along_k, shared) = op.scale_blocks.map_or((1, 1), |blocks| (dims.k.div_ceil(blocks.k), blocks.m));
    let specs = part.inputs();
    let [c, _, scale_a, _] = op.places();
    let hosts = inputs.iter().zip(&specs).enumerate().map(|(i, (host, spec))| {
        let values = match i {
            0 => pick(host, dims.k, 1),
            _ if Some(i) == c => pick(host, dims.n, 1),
            _ if Some(i) == scale_a => pick(host, along_k, shared),
            _ => host.values.clone(),
        };
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    });
    let hosts: Vec<HostTensor> = hosts.collect();
    Ok((rows, part.check()?.oracle(&hosts)))
}

#[cfg(test)]
#[path = "case_tests.rs"]
mod tests;
