//! Rules of scans: scans the other way round, of what depends on each element; of extrema sums by the position that was chosen.

use super::{Scan, ScanFn, ScanOptions};
use crate::gradient::{Gradient, Needs};
use crate::ops::{Builder, RuleBuilder, Scatter, ScatterFn, Value};
use crate::{CompareFn, DType, Expr, Result};

pub(super) fn rule(op: &Scan, needs: &Needs<'_>) -> Result<Gradient> {
    let mut rule = RuleBuilder::new(op, needs)?;
    if !rule.wants(0) {
        return rule.finish(Vec::new());
    }
    if !needs.outputs[0] {
        return rule.finish(vec![None]);
    }
    let (x, y, dy) = (rule.input(0)?, rule.output(0)?, rule.gradient(0)?);
    let gradient = match op.function {
        ScanFn::Max | ScanFn::Min => {
            let chosen = rule.output(1)?;
            let zeros = rule.graph.full(op.input.dtype, *op.input.layout.shape(), 0)?;
            let sums = Scatter::new(ScatterFn::Sum, zeros.spec(), chosen.spec(), dy.spec(), op.axis)?;
            rule.graph.one(sums, &[zeros, chosen, dy])?
        }
        ScanFn::Prod => product(op, &mut rule.graph, [x, y, dy])?,
        ScanFn::LogSumExp => logarithm(op, &mut rule.graph, [x, y, dy])?,
        _ => scan(&mut rule.graph, ScanFn::Sum, dy, op.axis, op.options.reversed())?,
    };
    rule.finish(vec![Some(gradient)])
}

fn scan(graph: &mut Builder, f: ScanFn, x: Value, axis: usize, options: ScanOptions) -> Result<Value> {
    Ok(graph.apply(Scan::new(f, x.spec(), axis, options)?, &[x])?.swap_remove(0))
}

/// y is a product of factors before and after each x, so that dx = (sum of dy y over what depends on x) / x. The first zero z of a line has
/// no quotient: the sum there is of products without it, in which z is replaced by 1. Nothing behind z moves a product.
fn product(op: &Scan, graph: &mut Builder, [x, y, dy]: [Value; 3]) -> Result<Value> {
    let (dtype, compute) = (op.output.dtype, op.output.dtype.compute());
    let (forward, back) = (op.options, op.options.reversed());
    let earlier = ScanOptions { direction: op.options.direction, ..ScanOptions::default() }.exclusive();
    let [a, b, c, d] = [0, 1, 2, 3].map(Expr::input);
    let is_zero = a.compare(CompareFn::Eq, 0.0);
    let mark = graph.map(&is_zero.select(1, 0).cast(DType::U32), &[x])?;
    let seen = scan(graph, ScanFn::Sum, mark, op.axis, earlier)?;
    let is_first = is_zero.select(b.compare(CompareFn::Eq, 0), Expr::constant(false));
    let others = graph.map(&is_first.select(1.0, a.cast(compute)).cast(compute), &[x, seen])?;
    let others = scan(graph, ScanFn::Prod, others, op.axis, forward)?;
    let terms = [(a.cast(compute) * b.cast(compute)), (a.cast(compute) * c.cast(compute))];
    let terms = graph.map_all(&terms, &[dy, y, others])?;
    let of_rest = scan(graph, ScanFn::Sum, terms[0], op.axis, back)?;
    let of_zero = scan(graph, ScanFn::Sum, terms[1], op.axis, back)?;
    let slope = is_zero.select(d, c / a.cast(compute));
    let slope = b.compare(CompareFn::Eq, 0).select(slope, 0.0);
    graph.map(&slope.cast(dtype), &[x, seen, of_rest, of_zero])
}

/// dx = exp(x) sum of dy exp(-y) over what depends on x, by logarithms, those of positive and of negative dy apart: nothing overflows.
fn logarithm(op: &Scan, graph: &mut Builder, [x, y, dy]: [Value; 3]) -> Result<Value> {
    let (dtype, compute) = (op.output.dtype, op.output.dtype.compute());
    let [a, b, c] = [0, 1, 2].map(|number| Expr::input(number).cast(compute));
    let is_none = b.compare(CompareFn::Eq, f64::NEG_INFINITY);
    let of = |dy: Expr| {
        let is_counted = dy.compare(CompareFn::Gt, 0.0);
        is_none.select(f64::NEG_INFINITY, is_counted.select(dy.log() - &b, f64::NEG_INFINITY))
    };
    let logs = graph.map_all(&[of(a.clone()).cast(compute), of(-a.clone()).cast(compute)], &[dy, y])?;
    let back = op.options.reversed();
    let up = scan(graph, ScanFn::LogSumExp, logs[0], op.axis, back)?;
    let down = scan(graph, ScanFn::LogSumExp, logs[1], op.axis, back)?;
    let share = |log: Expr| log.compare(CompareFn::Eq, f64::NEG_INFINITY).select(0.0, (a.clone() + log).exp());
    graph.map(&(share(b) - share(c)).cast(dtype), &[x, up, down])
}
