//! Attention and its gradient as graphs of products, maps and a softmax, with scores and probabilities in memory.
//!
//! For heads that are longer than kernels serve, and for gradients of second order. The decision to know: where pairs are hidden, a product
//! of probabilities leaves out what is not finite and a second product says where that was seen, because zero times NaN is NaN.

use super::{Attention, AttentionDims, AttentionGradient, OP};
use crate::graph::Graph;
use crate::operation::Operation;
use crate::ops::{Builder, Value};
use crate::ops::{LogSumExp, Map, ReduceFn, SoftmaxFn};
use crate::{CompareFn, DType, Expr, KeepDims, Layout, Program, Result, Shape, TensorSpec};

impl Attention {
    /// The same as a graph of products, maps and a softmax, with scores in memory. It has gradients of any order.
    ///
    /// # Errors
    /// None that a device could cause: shapes beyond any device.
    pub fn composed(&self) -> Result<Graph> {
        if self.dims().keys == 0 {
            // Queries that see nothing; over no scores there is no largest.
            let mut graph = Builder::new(self.reads().collect());
            let out = graph.full(self.out.dtype, *self.out.layout.shape(), 0)?;
            let lse = graph.full(self.lse.dtype, *self.lse.layout.shape(), f64::NEG_INFINITY)?;
            return graph.finish(OP, &[out, lse], &[self.out, self.lse]);
        }
        let mut writer = Writer::new(self, self.reads().collect())?;
        let scores = writer.scores()?;
        let shape = *scores.spec().layout.shape();
        let lse = writer.graph.apply(LogSumExp::new(scores.spec(), 4)?, &[scores])?[0];
        let lse = lse.reshape(*self.lse.layout.shape())?;
        let shares = writer.graph.softmax(SoftmaxFn::Softmax, scores, 4)?;
        let shares = writer.graph.cast(shares, self.q.dtype)?;
        let shares = writer.dropped(shares, shape)?;
        let v = writer.of_group(writer.heads[2])?;
        let sums = writer.product(shares, v, self.q.dtype)?;
        let out = writer.by_query(sums)?;
        writer.graph.finish(OP, &[out, lse], &[self.out, self.lse])
    }
}

/// [`AttentionGradient::composed`].
pub(super) fn backward(op: &AttentionGradient) -> Result<Graph> {
    let mut inputs: Vec<TensorSpec> = op.forward.reads().collect();
    let first = inputs.len();
    inputs.extend(op.beside());
    let mut writer = Writer::new(&op.forward, inputs)?;
    let (dims, dtype, compute) = (writer.dims, op.forward.q.dtype, op.forward.q.dtype.compute());
    let scores = writer.scores()?;
    let shape = *scores.spec().layout.shape();
    let by_row = [dims.batch, dims.groups, dims.shared(), dims.queries, 1];
    // Probabilities, zero where the score is -inf: of hidden pairs, and of queries that see nothing.
    let lse = writer.graph.input(first + 1)?.reshape(by_row)?;
    let [s, l] = [0, 1].map(Expr::input);
    let hidden = s.compare(CompareFn::Eq, f64::NEG_INFINITY);
    let hidden_of = hidden.clone();
    let shares = writer.graph.map(&hidden.select(0.0, (s - l).exp()), &[scores, lse])?;
    // delta - dlse of each query.
    let (out, dout) = (writer.graph.input(first)?, writer.graph.input(first + 2)?);
    let [a, b] = [0, 1].map(|number| Expr::input(number).cast(compute));
    let terms = writer.graph.map(&(a * b), &[out, dout])?;
    let delta = writer.graph.reduce(ReduceFn::Sum, terms, &[3], KeepDims::No)?;
    let delta = delta.transpose(1, 2)?.reshape(by_row)?;
    let delta = match op.dlse {
        Some(_) => {
            let dlse = writer.graph.input(first + 3)?.reshape(by_row)?;
            writer.graph.map(&(Expr::input(0) - Expr::input(1)), &[delta, dlse])?
        }
        None => delta,
    };
    let [q, k, v] = writer.heads;
    let (dout, q) = (writer.of_head(dout)?, writer.of_head(q)?);
    let (k, v) = (writer.of_group(k)?, writer.of_group(v)?);
    let slopes = writer.graph.matmul(dout, v.t()?, op.forward.precision, compute)?;
    let slopes = writer.dropped(slopes, shape)?;
    let [_, p, slope, delta_of] = [0, 1, 2, 3].map(Expr::input);
    let ds = hidden_of.select(0.0, p * (slope - delta_of)).cast(dtype);
    let ds = writer.graph.map(&ds, &[scores, shares, slopes, delta])?;
    let shares = writer.graph.cast(shares, dtype)?;
    let shares = writer.dropped(shares, shape)?;
    let dq = writer.product(ds, k, compute)?;
    let dk = writer.product(ds.t()?, q, compute)?;
    let dv = writer.product(shares.t()?, dout, compute)?;
    let scaled = Expr::input(0) * op.forward.scale;
    let dq = writer.graph.map(&scaled.clone().cast(dtype), &[dq])?;
    let dq = writer.by_query(dq)?;
    let dk = writer.by_key(dk, &scaled.cast(dtype))?;
    let dv = writer.by_key(dv, &Expr::input(0).cast(dtype))?;
    writer.graph.finish(op.name(), &[dq, dk, dv], &[op.dq, op.dk, op.dv])
}

/// A graph under construction. Its tensors of pairs are [batch, groups, heads of a group, queries, keys].
struct Writer<'a> {
    op: &'a Attention,
    dims: AttentionDims,
    graph: Builder,
    /// q, k and v, dense: a graph has gradients of views of an input, and not of views of a view.
    heads: [Value; 3],
}

impl<'a> Writer<'a> {
    fn new(op: &'a Attention, inputs: Vec<TensorSpec>) -> Result<Writer<'a>> {
        let mut graph = Builder::new(inputs);
        let mut dense = |number: usize| {
            let x = graph.input(number)?;
            graph.contiguous(x)
        };
        let heads = [dense(0)?, dense(1)?, dense(2)?];
        Ok(Writer { op, dims: op.dims(), graph, heads })
    }

    /// Whether there are pairs that are not seen.
    fn hides(&self) -> bool {
        self.op.causal || self.op.mask.is_some()
    }

    /// `x` [batch, queries, heads, n] as [batch, groups, heads of a group, queries, n].
    fn of_head(&self, x: Value) -> Result<Value> {
        let AttentionDims { batch, queries, groups, .. } = self.dims;
        let x = x.transpose(1, 2)?;
        let n = x.dims()[3];
        x.reshape([batch, groups, self.dims.shared(), queries, n])
    }

    /// `x` [batch, keys, groups, n] as [batch, groups, 1, keys, n].
    fn of_group(&self, x: Value) -> Result<Value> {
        let AttentionDims { batch, keys, groups, .. } = self.dims;
        let x = x.transpose(1, 2)?;
        let n = x.dims()[3];
        x.reshape([batch, groups, 1, keys, n])
    }

    /// Scaled scores, -inf of pairs that are not seen.
    fn scores(&mut self) -> Result<Value> {
        let AttentionDims { batch, queries, keys, groups, .. } = self.dims;
        let compute = self.op.q.dtype.compute();
        let (q, k) = (self.of_head(self.heads[0])?, self.of_group(self.heads[1])?);
        let products = self.graph.matmul(q, k.t()?, self.op.precision, compute)?;
        let shape = Shape::new(&[batch, groups, self.dims.shared(), queries, keys])?;
        let (mut values, mut hidden): (Vec<Value>, Option<Expr>) = (vec![products], None);
        if self.op.mask.is_some() {
            values.push(self.graph.input(3)?.reshape(shape)?);
            hidden = Some(Expr::input(1).compare(CompareFn::Eq, false));
        }
        if self.op.causal {
            let number = values.len();
            let after = keys as i64 - queries as i64;
            let [i, j] = [self.numbers(queries)?.reshape([queries, 1])?, self.numbers(keys)?];
            values.extend([i.broadcast_to(shape)?, j.broadcast_to(shape)?]);
            let last = Expr::input(number) + Expr::constant(after).cast(DType::I32);
            let is_later = Expr::input(number + 1).compare(CompareFn::Gt, last);
            hidden = Some(match hidden {
                Some(hidden) => hidden.select(Expr::constant(true), is_later),
                None => is_later,
            });
        }
        let scaled = Expr::input(0) * self.op.scale;
        let expr = match hidden {
            Some(hidden) => hidden.select(f64::NEG_INFINITY, scaled),
            None => scaled,
        };
        self.graph.map(&expr, &values)
    }

    /// 0, 1, 2, ...
    fn numbers(&mut self, count: u64) -> Result<Value> {
        let program = Program::compile(&Expr::index().cast(DType::I32), &[])?;
        let numbers = TensorSpec::new(DType::I32, Layout::contiguous(Shape::new(&[count])?));
        Ok(self.graph.apply(Map::new("arange", program, Vec::new(), numbers)?, &[])?[0])
    }

    /// What remains of numbers of pairs, times what makes up for those that are dropped.
    fn dropped(&mut self, x: Value, shape: Shape) -> Result<Value> {
        let Some(dropout) = self.op.dropout else { return Ok(x) };
        let first = 3 + usize::from(self.op.mask.is_some());
        let mut values = vec![x];
        for (operand, at) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let word = self.graph.input(first + operand)?.slice(0, at, at + 1)?;
            values.push(word.reshape(Shape::SCALAR)?.broadcast_to(shape)?);
        }
        self.graph.map(&Expr::dropped(dropout.rate).cast(x.dtype()), &values)
    }

    /// `a b`, in which a zero of a leaves out what it is multiplied by where pairs are hidden.
    fn product(&mut self, a: Value, b: Value, output: DType) -> Result<Value> {
        let precision = self.op.precision;
        if !self.hides() {
            return self.graph.matmul(a, b, precision, output);
        }
        let x = Expr::input(0);
        let is_finite = x.abs().compare(CompareFn::Lt, f64::INFINITY);
        let finite = is_finite.select(x.clone(), 0.0).cast(b.dtype());
        let other = is_finite.select(0.0, 1.0).cast(b.dtype());
        let parts = self.graph.map_all(&[finite, other], &[b])?;
        let counted = x.compare(CompareFn::Eq, 0.0).select(0.0, 1.0).cast(a.dtype());
        let counted = self.graph.map(&counted, &[a])?;
        let sums = self.graph.matmul(a, parts[0], precision, output)?;
        let others = self.graph.matmul(counted, parts[1], precision, output)?;
        let expr = Expr::input(1).compare(CompareFn::Gt, 0.0).select(f64::NAN, Expr::input(0)).cast(output);
        self.graph.map(&expr, &[sums, others])
    }

    /// [batch, groups, heads of a group, queries, n] as [batch, queries, heads, n].
    fn by_query(&self, x: Value) -> Result<Value> {
        let AttentionDims { batch, queries, heads, .. } = self.dims;
        let n = x.dims()[4];
        x.reshape([batch, heads, queries, n])?.transpose(1, 2)
    }

    /// The sum over heads of a group, through `expr`: [batch, groups, heads of a group, keys, n] as [batch, keys, groups, n].
    fn by_key(&mut self, x: Value, expr: &Expr) -> Result<Value> {
        let AttentionDims { batch, keys, groups, .. } = self.dims;
        let n = x.dims()[4];
        let sum = if self.dims.shared() == 1 {
            x.reshape([batch, groups, keys, n])?
        } else {
            self.graph.reduce(ReduceFn::Sum, x, &[2], KeepDims::No)?
        };
        self.graph.map(expr, &[sum])?.transpose(1, 2)
    }
}
