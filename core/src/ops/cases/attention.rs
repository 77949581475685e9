//! Cases of attention and its gradient: every dtype, odd lengths, one key and none, head sizes to the longest and beyond, groups, masks,
//! queries that see nothing, NaN where nobody looks, dropout, packed and permuted views, large scores.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Attention, AttentionDropout, AttentionGradient, LseGradient};
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "attention";

/// How heads lie in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lies {
    /// Dense [batch, rows, heads, n].
    Dense,
    /// Dense [batch, heads, rows, n].
    ByHead,
    /// In rows that hold something else too, from the third element.
    Packed,
}

/// Which pairs there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mask {
    None,
    /// Of each pair of each head.
    Whole,
    /// The same keys for all heads and queries.
    Keys,
    /// The same pairs for all of the batch, dense along queries.
    Pairs,
}

/// An attention in a few words.
#[derive(Clone, Copy)]
struct Form {
    dtype: DType,
    /// Batch, queries, keys.
    rows: [u64; 3],
    /// Heads, groups.
    heads: [u64; 2],
    /// Size, width.
    head: [u64; 2],
    lies: Lies,
    mask: Mask,
    causal: bool,
    rate: Option<f64>,
    /// What scores are multiplied by beside 1 / sqrt(size).
    times: f64,
}

impl Form {
    fn new(dtype: DType, rows: [u64; 3], heads: [u64; 2], head: [u64; 2]) -> Form {
        Form { dtype, rows, heads, head, lies: Lies::Dense, mask: Mask::None, causal: false, rate: None, times: 1.0 }
    }

    fn operand(self, rows: u64, heads: u64, n: u64) -> Result<TensorSpec> {
        let dims = [self.rows[0], rows, heads, n];
        let layout = match self.lies {
            Lies::Dense => Layout::contiguous(Shape::new(&dims)?),
            Lies::ByHead => Layout::contiguous(Shape::new(&[dims[0], heads, rows, n])?).transpose(1, 2)?,
            Lies::Packed => {
                let row = (heads * n + 5) as i64;
                Layout::strided(Shape::new(&dims)?, &[rows as i64 * row, row, n as i64, 1], 3)?
            }
        };
        Ok(TensorSpec::new(self.dtype, layout))
    }

    fn op(self) -> Result<Attention> {
        let ([batch, queries, keys], [heads, groups], [size, width]) = (self.rows, self.heads, self.head);
        let (q, k) = (self.operand(queries, heads, size)?, self.operand(keys, groups, size)?);
        let op = Attention::new(q, k, self.operand(keys, groups, width)?)?;
        let all = Shape::new(&[batch, heads, queries, keys])?;
        let bools = |dims: &[u64]| Layout::contiguous(Shape::new(dims)?).broadcast_to(all);
        let mask = match self.mask {
            Mask::None => None,
            Mask::Whole => Some(Layout::contiguous(all).with_offset(1)),
            Mask::Keys => Some(bools(&[batch, 1, 1, keys])?),
            Mask::Pairs => Some(Layout::contiguous(Shape::new(&[keys, queries])?).transpose(0, 1)?.broadcast_to(all)?),
        };
        let mask = mask.map(|layout| TensorSpec::new(DType::Bool, layout));
        let words = LayoutKind::Offset.spec(DType::U32, &[2])?;
        let dropout = self.rate.map(|rate| AttentionDropout { rate, key: [words; 2] });
        let (out, lse) = (output(self.dtype, op.out.layout.dims())?, output(op.lse.dtype, op.lse.layout.dims())?);
        let scale = op.scale * self.times;
        Attention { mask, dropout, causal: self.causal, scale, out, lse, ..op }.check()
    }

    fn gradient(self, dlse: LseGradient) -> Result<AttentionGradient> {
        let op = AttentionGradient::new(self.op()?, dlse)?;
        let placed = |spec: TensorSpec| output(spec.dtype, spec.layout.dims());
        AttentionGradient { dq: placed(op.dq)?, dk: placed(op.dk)?, dv: placed(op.dv)?, ..op }.check()
    }

    /// What mask and key hold.
    fn beside(self) -> Vec<Values> {
        let mask = (self.mask != Mask::None).then_some(Values::Uniform(0.0, 1.0));
        let words = self.rate.map(|_| [Values::RandomBits; 2]);
        mask.into_iter().chain(words.into_iter().flatten()).collect()
    }
}

/// A case of the operation, and one of its gradient, on heads of these values.
fn both(cases: &mut Vec<Case>, form: Form, heads: [Values; 3], beside: &[Values], lse: Values, dlse: LseGradient) {
    add(cases, FAMILY, form.op(), &[&heads[..], beside].concat());
    let mut values = [&heads[..], beside, &[Values::Normal, lse, Values::Normal]].concat();
    if dlse == LseGradient::Given {
        values.push(Values::Normal);
    }
    add(cases, FAMILY, form.gradient(dlse), &values);
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    const F32: DType = DType::F32;
    const NORMAL: [Values; 3] = [Values::Normal; 3];
    // About what the logarithm of a sum of some dozens of exponentials is.
    const LSE: Values = Values::Uniform(3.0, 5.0);
    const LARGE_LSE: Values = Values::Uniform(60.0, 100.0);
    let mut cases = Vec::new();
    let mut push = |form: Form, dlse: LseGradient| both(&mut cases, form, NORMAL, &form.beside(), LSE, dlse);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        push(Form::new(dtype, [2, 37, 41], [2, 2], [64, 64]), LseGradient::Absent);
        let whole = Form { mask: Mask::Whole, rate: Some(0.25), ..Form::new(dtype, [1, 9, 21], [4, 2], [20, 12]) };
        push(Form { causal: true, lies: Lies::Packed, ..whole }, LseGradient::Given);
    }
    // The edges of blocks of queries and of keys.
    for rows in level.list(
        &[[1, 1, 1], [1, 5, 1], [2, 1, 70], [1, 3, 0], [1, 0, 3], [0, 3, 3], [1, 65, 129]],
        &[[1, 32, 64], [1, 33, 65], [1, 64, 63], [1, 31, 300], [1, 257, 16], [3, 2, 1]],
    ) {
        push(Form::new(F32, rows, [2, 1], [16, 16]), LseGradient::Absent);
        push(Form { causal: true, ..Form::new(F32, rows, [1, 1], [8, 8]) }, LseGradient::Absent);
    }
    for head in level.list(
        &[[1, 1], [80, 80], [128, 128], [256, 256], [3, 65], [64, 0], [0, 8]],
        &[[7, 5], [64, 128], [96, 32], [255, 129], [16, 300]],
    ) {
        push(Form::new(F32, [1, 19, 35], [1, 1], head), LseGradient::Absent);
        push(Form::new(DType::BF16, [1, 6, 70], [2, 1], head), LseGradient::Given);
    }
    // Longer heads than kernels serve.
    for (mask, causal) in [(Mask::None, false), (Mask::Keys, true)] {
        push(Form { mask, causal, ..Form::new(F32, [1, 7, 9], [4, 2], [260, 258]) }, LseGradient::Given);
    }
    for heads in [[6, 3], [6, 1], [8, 2]] {
        push(Form::new(F32, [2, 5, 11], heads, [8, 4]), LseGradient::Absent);
        push(Form { causal: true, ..Form::new(DType::F16, [1, 35, 11], heads, [8, 8]) }, LseGradient::Absent);
    }
    for mask in [Mask::Whole, Mask::Keys, Mask::Pairs] {
        for (lies, causal) in [(Lies::Dense, false), (Lies::ByHead, true), (Lies::Packed, false)] {
            let form = Form { mask, lies, causal, ..Form::new(F32, [2, 33, 35], [2, 2], [16, 16]) };
            push(form, LseGradient::Absent);
        }
    }
    // Queries before the first key, and keys that only later queries see.
    for rows in [[1, 40, 7], [2, 7, 100]] {
        push(Form { causal: true, lies: Lies::ByHead, ..Form::new(F32, rows, [2, 2], [12, 12]) }, LseGradient::Given);
    }
    for (rate, mask) in [(0.1, Mask::None), (0.5, Mask::Keys), (1.0, Mask::None), (0.0, Mask::None)] {
        let form = Form { rate: Some(rate), mask, ..Form::new(F32, [2, 34, 67], [2, 2], [16, 16]) };
        push(form, LseGradient::Given);
    }
    // f16, which cooperative matrices serve where there are some: whole and partial matrices, blocks of 32 keys, long values in two parts.
    for (rows, heads, head) in level.list(
        &[
            ([1, 70, 97], [2, 1], [128, 128]),
            ([1, 3, 33], [1, 1], [20, 84]),
            ([1, 18, 40], [1, 1], [256, 256]),
            ([2, 65, 1], [2, 2], [16, 16]),
        ],
        &[([1, 9, 32], [1, 1], [16, 144]), ([1, 64, 64], [6, 3], [48, 80]), ([1, 17, 0], [1, 1], [32, 32])],
    ) {
        push(Form::new(DType::F16, rows, heads, head), LseGradient::Absent);
        push(Form { causal: true, ..Form::new(DType::F16, rows, heads, head) }, LseGradient::Absent);
    }
    for (mask, lies) in [(Mask::Whole, Lies::ByHead), (Mask::Keys, Lies::Dense), (Mask::Pairs, Lies::Dense)] {
        let form =
            Form { mask, lies, causal: lies == Lies::ByHead, ..Form::new(DType::F16, [2, 35, 70], [2, 1], [16, 32]) };
        push(form, LseGradient::Absent);
    }
    // Long heads in 16 bits, neither causal nor masked: several blocks of keys, whose parts of dq are added up by a kernel that makes the
    // gradient in one pass; more and fewer than blocks of queries, and more heads than such blocks run at a time.
    for (dtype, rows, heads, head) in level.list(
        &[(DType::F16, [1, 130, 200], 1, [128, 128]), (DType::BF16, [2, 33, 140], 2, [72, 120])],
        &[(DType::F16, [1, 300, 650], 1, [128, 80]), (DType::BF16, [3, 20, 130], 30, [80, 80])],
    ) {
        push(Form::new(dtype, rows, [heads, heads], head), LseGradient::Given);
    }
    // Dropout in 16 bits, in heads that native kernels take: with a mask and without.
    for (dtype, mask) in [(DType::F16, Mask::None), (DType::BF16, Mask::Whole)] {
        let form = Form { rate: Some(0.25), mask, ..Form::new(dtype, [1, 20, 40], [2, 2], [64, 64]) };
        push(form, LseGradient::Absent);
    }
    for dtype in [F32, DType::BF16] {
        let form = Form { times: 30.0, ..Form::new(dtype, [1, 20, 90], [2, 2], [64, 64]) };
        both(&mut cases, form, NORMAL, &[], LARGE_LSE, LseGradient::Absent);
    }
    // Largest scores that grow from block to block.
    let growing = Form { times: 30.0, ..Form::new(DType::F16, [1, 20, 150], [2, 2], [64, 64]) };
    add(&mut cases, FAMILY, growing.op(), &NORMAL);
    // What is not seen, or seen by the last query alone, is NaN or infinite.
    // (Of f16 in heads that no native kernel takes: those multiply hidden values by a probability of 0.)
    for (plant, (dtype, n)) in
        [Plant::Nan, Plant::Inf].into_iter().flat_map(|plant| [(plant, (F32, 8)), (plant, (DType::F16, 12))])
    {
        for (at, place) in [(1, Where::Last), (2, Where::Last), (1, Where::TileEnd), (2, Where::First)] {
            let mut heads = NORMAL;
            heads[at] = Values::Planted(plant, place);
            let causal = Form { causal: true, ..Form::new(dtype, [1, 36, 36], [1, 1], [n, n]) };
            both(&mut cases, causal, heads, &[], LSE, LseGradient::Absent);
            let hidden = Form { mask: Mask::Keys, ..Form::new(dtype, [1, 5, 36], [1, 1], [n, n]) };
            both(&mut cases, hidden, heads, &[Values::Constant(0.0)], LSE, LseGradient::Absent);
        }
    }
    // The query that sees nothing is NaN.
    let early = Form { causal: true, ..Form::new(F32, [1, 9, 4], [1, 1], [8, 8]) };
    let first = Values::Planted(Plant::Nan, Where::First);
    both(&mut cases, early, [first, Values::Normal, Values::Normal], &[], LSE, LseGradient::Absent);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let rows = size.pick(128, 1024, 4096);
    let mut benches = Vec::new();
    for (dtype, head, causal) in [
        (DType::BF16, 64, false),
        (DType::BF16, 128, false),
        (DType::BF16, 128, true),
        (DType::F16, 128, false),
        (DType::F16, 128, true),
        (DType::F32, 64, false),
    ] {
        let heads = size.pick(2, 8, 2048 / head);
        let form = Form { causal, ..Form::new(dtype, [2, rows, rows], [heads, heads], [head, head]) };
        let name = format!("of {heads} heads of {head}, {rows} rows, {dtype}{}", if causal { ", causal" } else { "" });
        let forward =
            form.op().ok().map(|op| BenchCase::new(format!("attention {name}"), Suite::Gemm, op, Metric::Flops));
        let backward = form.gradient(LseGradient::Absent).ok();
        let backward =
            backward.map(|op| BenchCase::new(format!("attention gradient {name}"), Suite::Gemm, op, Metric::Flops));
        benches.extend(forward.into_iter().chain(backward));
    }
    benches
}
