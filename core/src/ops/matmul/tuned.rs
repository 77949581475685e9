//! How products are tuned: the small product that stands for a large one in a check of a kernel, and the elements of
//! its result that are compared.
//!
//! Dtypes, precision, epilogue, order of strides and batching stay the same. Extents, pitches and offsets keep their
//! remainders by 128, so that kernels take the same paths as for the large product: tails where it has tails, wide loads
//! where its rows are aligned. Whole rows are compared: the first, the last, those at the edges of tiles, and others.

use super::key::ProductKey;
use crate::operation::Tuned;
use crate::ops::{Matmul, MatmulDims, Op, Operation, Part24, ScaleBlocks, SparseMatmul};
use crate::oracle::HostTensor;
use crate::tuned::{Effort, Judged, Key};
use crate::{Layout, Result, Scalar, Shape, TensorSpec};

/// Extents keep their remainder by this: the widest tile's alignment, and a multiple of every vector.
const KEPT_REMAINDER: u64 = 128;
/// Large extents do not shrink below this.
const LEAST_EXTENT: u64 = 17;
/// Multiplications that the oracle may take: some ten milliseconds.
const ORACLE_PRODUCTS: u64 = 1 << 20;
/// The least number of rows to compare, however long they are.
const LEAST_ROWS: u64 = 4;
/// Rows at which tiles end and begin, compared first.
const EDGES: [u64; 10] = [0, 127, 128, 63, 64, 255, 256, 31, 32, 16];
/// Replaces a caller's alpha or beta, which may be 0, infinite or anything else: the verdict serves other callers too.
const FACTOR: f64 = -2.0;
/// The most matrices of a batch.
const MOST_BATCH: u64 = 2;

impl Tuned for Matmul {
    fn key(&self) -> Key {
        Key::new(ProductKey::of_matmul(self).to_string())
    }

    fn class(&self) -> String {
        ProductKey::of_matmul(self).class(self.activation, "")
    }

    fn small(&self, effort: Effort, longer: u32) -> Option<Op> {
        Some(reduced_product(self, effort, longer)?.check().ok()?.into())
    }

    fn judged(&self, inputs: &[HostTensor]) -> Result<Vec<Judged>> {
        Ok(vec![expect(self, inputs)?])
    }
}

impl Tuned for SparseMatmul {
    fn key(&self) -> Key {
        Key::new(ProductKey::of_sparse(self).to_string())
    }

    fn class(&self) -> String {
        ProductKey::of_sparse(self).class(self.product.activation, "")
    }

    fn small(&self, effort: Effort, longer: u32) -> Option<Op> {
        Some(reduced_sparse(self, reduced_product(&self.product, effort, longer)?)?.into())
    }

    fn judged(&self, inputs: &[HostTensor]) -> Result<Vec<Judged>> {
        let (a, _) = self.dense(inputs);
        let hosts: Vec<HostTensor> = [a].into_iter().chain(inputs[2..].iter().cloned()).collect();
        Ok(vec![expect(&self.product, &hosts)?])
    }
}

/// `op` with values and metadata that decompress to the left operand of `product`, dense and aligned as the originals.
fn reduced_sparse(op: &SparseMatmul, product: Matmul) -> Option<SparseMatmul> {
    let MatmulDims { m, k, .. } = product.dims();
    let dims = product.output.layout.dims();
    let batch = op.values.layout.dims().iter().rev().skip(2).rev().map(|&dim| dim.min(MOST_BATCH));
    let matrix: Vec<u64> = batch.chain([m, k]).collect();
    let of = |part: Part24, spec| dense(spec, part.shape_of(&Shape::new(&matrix).ok()?).ok()?.dims());
    let (values, metadata) = (of(Part24::Values, &op.values)?, of(Part24::Metadata, &op.metadata)?);
    let a = SparseMatmul::dense_a(&values, k, &dims[..dims.len() - 2]).ok()?;
    SparseMatmul { values, metadata, product: Matmul { a, ..product } }.check().ok()
}

pub(in crate::ops) fn reduced_product(op: &Matmul, effort: Effort, longer: u32) -> Option<Matmul> {
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
    // K is doubled in whole multiples, so that the remainder stays.
    let k = shrink(dims.k, if longer == 0 { base } else { KEPT_REMAINDER.checked_shl(longer)? });
    if longer > 0 && k == shrink(dims.k, KEPT_REMAINDER.checked_shl(longer - 1)?) {
        return None;
    }
    let batch: Vec<u64> = op.output.layout.dims().iter().rev().skip(2).rev().map(|&dim| dim.min(MOST_BATCH)).collect();
    let with = |rows: u64, columns: u64| [batch.as_slice(), &[rows, columns]].concat();
    let [of_a, of_b] = op.scale_blocks.map_or([[m, 1], [1, n]], |blocks| blocks.extents([m, n, k]));
    // Outer `None`: no such view exists; inner `None`: the operand is absent.
    let optional = |spec: &Option<TensorSpec>, dims: &[u64]| match spec {
        Some(spec) => view(spec, dims).map(Some),
        None => Some(None),
    };
    Some(Matmul {
        a: view(&op.a, &with(m, k))?,
        b: view(&op.b, &with(k, n))?,
        c: optional(&op.c, &with(m, n))?,
        bias: optional(&op.bias, &[n])?,
        scale_a: optional(&op.scale_a, &with(of_a[0], of_a[1]))?,
        scale_b: optional(&op.scale_b, &with(of_b[0], of_b[1]))?,
        output: dense(&op.output, &with(m, n))?,
        alpha: if op.alpha == 1.0 { 1.0 } else { FACTOR },
        beta: if op.beta == 0.0 { 0.0 } else { FACTOR },
        ..op.clone()
    })
}

/// The smallest extent above `base` that has the remainder of `extent` and is too large for vector kernels; `extent`
/// itself where that is smaller.
fn shrink(extent: u64, base: u64) -> u64 {
    let rest = extent % KEPT_REMAINDER;
    let above = base + rest;
    extent.min(if rest == 0 || above < LEAST_EXTENT { above + KEPT_REMAINDER } else { above })
}

/// A view of shape `dims` with the order, the signs and the alignment of `spec`'s strides.
pub(in crate::ops) fn view(spec: &TensorSpec, dims: &[u64]) -> Option<TensorSpec> {
    let large = spec.layout.strides();
    // From the axis with the closest elements outwards: each stride steps over all elements that the axes before it reach.
    let mut inner_first: Vec<usize> = (0..large.len()).filter(|&axis| large[axis] != 0).collect();
    inner_first.sort_by_key(|&axis| (large[axis].unsigned_abs(), std::cmp::Reverse(axis)));
    // A stride of 0 stays: one matrix for a whole batch, one number for a whole axis.
    let mut strides = vec![0; dims.len()];
    let mut reached = 1u64;
    let mut before_first = 0;
    for axis in inner_first {
        // The smallest stride that steps over the elements reached so far and has the large stride's remainder.
        let stride = reached + large[axis].unsigned_abs().saturating_sub(reached) % KEPT_REMAINDER;
        strides[axis] = i64::try_from(stride).ok()? * large[axis].signum();
        let reach = stride.checked_mul(dims[axis].saturating_sub(1))?;
        reached = reached.checked_add(reach)?;
        if large[axis] < 0 {
            before_first += reach;
        }
    }
    let offset = before_first.next_multiple_of(KEPT_REMAINDER) + spec.layout.offset() % KEPT_REMAINDER;
    Some(TensorSpec::new(spec.dtype, Layout::strided(Shape::new(dims).ok()?, &strides, offset).ok()?))
}

/// A dense result of shape `dims`, aligned as `spec` is.
pub(in crate::ops) fn dense(spec: &TensorSpec, dims: &[u64]) -> Option<TensorSpec> {
    let layout = Layout::contiguous(Shape::new(dims).ok()?);
    Some(TensorSpec::new(spec.dtype, layout.with_offset(spec.layout.offset() % KEPT_REMAINDER)))
}

/// The rows of `m` to compare, in ascending order: the last, `edges`, those at the edges of tiles, then others. The
/// oracle takes `each` multiplications for a row.
pub(in crate::ops) fn sampled(m: u64, each: u64, edges: impl Iterator<Item = u64>) -> Vec<u64> {
    let wanted = (ORACLE_PRODUCTS / each.max(1)).max(LEAST_ROWS).min(m);
    let edges = [m.saturating_sub(1)].into_iter().chain(edges).chain(EDGES).filter(|&row| row < m);
    // 37 shares no factor with a power of two, so the rows meet every lane of a warp.
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

/// The rows of each matrix to compare, with their expected values.
fn expect(op: &Matmul, inputs: &[HostTensor]) -> Result<Judged> {
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
        // Each of the picked rows then has scales of its own.
        scale_blocks: op.scale_blocks.map(|blocks| ScaleBlocks { m: 1, ..blocks }),
        ..op.clone()
    };
    // Picks the lines of `width` that belong to the rows; `shared` neighbouring rows share a line.
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
    let places = op.places();
    let hosts = inputs.iter().zip(&specs).enumerate().map(|(i, (host, spec))| {
        let values = match i {
            0 => pick(host, dims.k, 1),
            _ if Some(i) == places.c => pick(host, dims.n, 1),
            _ if Some(i) == places.scale_a => pick(host, along_k, shared),
            _ => host.values.clone(),
        };
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    });
    let hosts: Vec<HostTensor> = hosts.collect();
    let expected = part.check()?.expected(&hosts);
    Ok(Judged { positions: positions(dims.batch, dims.m, dims.n, &rows), expected })
}

/// Positions of the elements in `rows` of each of `batch` matrices with m rows and n columns.
pub(in crate::ops) fn positions(batch: u64, m: u64, n: u64, rows: &[u64]) -> Vec<u64> {
    let all = (0..batch).flat_map(|matrix| rows.iter().map(move |row| matrix * m + row));
    all.flat_map(|row| row * n..(row + 1) * n).collect()
}
