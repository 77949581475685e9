//! Cases for the proof of gradients: small, in f64, of every operation with a rule, away from kinks.

use super::add;
use crate::case::{Case, LayoutKind, Values, output};
use crate::generator::dropped;
use crate::ops::{
    Attention, AttentionDropout, BatchNorm, Cat, Convolution, ConvolutionInput, ConvolutionOptions, ConvolutionWeights,
    Copy, Corners, CrossEntropy, Divisor, Gather, Geometry, Interpolation, LayerNorm, LogSumExp, Map, MaskedScatter,
    MaskedSelect, Matmul, Missing, Moments, Pad, PadMode, Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient,
    PoolOptions, Reduce, ReduceFn, Resize, Scan, ScanFn, ScanOptions, ScanStart, Scatter, ScatterAdd, ScatterFn,
    Softmax, SoftmaxFn, Sort, SortOrder, Take,
};
use crate::{BinaryFn, CompareFn, DType, Expr, Layout, Program, Result, Shape, TensorSpec, UnaryFn};

const F64: DType = DType::F64;

fn dense(dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(F64, dims)
}

fn map(exprs: &[Expr], inputs: Vec<TensorSpec>, dims: &[u64]) -> Result<Map> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
    let program = Program::compile_all(exprs, &dtypes)?;
    let outputs = (0..exprs.len()).map(|n| output(program.result_dtype(n), dims)).collect::<Result<Vec<_>>>()?;
    Map::several("map", program, inputs, &outputs, 0)
}

/// The functions of two operands that have a derivative.
const DIFFERENTIABLE: [BinaryFn; 13] = [
    BinaryFn::Add,
    BinaryFn::Atan2,
    BinaryFn::Copysign,
    BinaryFn::Div,
    BinaryFn::FloorDivide,
    BinaryFn::Hypot,
    BinaryFn::Max,
    BinaryFn::Min,
    BinaryFn::Mul,
    BinaryFn::Pow,
    BinaryFn::Rem,
    BinaryFn::Remainder,
    BinaryFn::Sub,
];

/// All of them.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let (x, y, z) = (Expr::input(0), Expr::input(1), Expr::input(2));
    // Each function where it is smooth: positive for those with poles, no whole numbers and halves for those that round.
    for f in UnaryFn::ALL.into_iter().filter(|f| f.defined_for(F64)) {
        let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
        let positive = if f == UnaryFn::Acosh { Values::Uniform(1.3, 2.4) } else { Values::Uniform(0.55, 0.95) };
        add(&mut cases, "unary", op, &[positive]);
        if matches!(f, UnaryFn::Acos | UnaryFn::Asin | UnaryFn::Atanh | UnaryFn::Erfinv) {
            let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
            add(&mut cases, "unary", op, &[Values::Uniform(-0.9, -0.3)]);
        } else if !matches!(f, UnaryFn::Acosh | UnaryFn::Log | UnaryFn::Log2 | UnaryFn::Sqrt | UnaryFn::Rsqrt) {
            let op = dense(&[23]).and_then(|input| map(&[x.unary(f)], vec![input], &[23]));
            add(&mut cases, "unary", op, &[Values::Uniform(-1.9, -1.6)]);
        }
    }
    for f in DIFFERENTIABLE {
        for kinds in [[LayoutKind::Dense; 2], [LayoutKind::BroadcastOuter, LayoutKind::BroadcastInner]] {
            let inputs = || kinds.iter().map(|kind| kind.spec(F64, &[4, 5])).collect::<Result<Vec<_>>>();
            let op = inputs().and_then(|inputs| map(&[x.binary(f, &y)], inputs, &[4, 5]));
            add(&mut cases, "binary", op, &[Values::Uniform(0.5, 1.0), Values::Uniform(1.1, 2.0)]);
        }
        let op = dense(&[9]).and_then(|input| map(&[x.binary(f, 1.5)], vec![input], &[9]));
        add(&mut cases, "binary", op, &[Values::Uniform(0.5, 1.0)]);
        let op = dense(&[9]).and_then(|input| map(&[Expr::constant(1.5).binary(f, &x)], vec![input], &[9]));
        add(&mut cases, "binary", op, &[Values::Uniform(0.5, 1.0)]);
    }
    // Several results that share steps, choices, a value used twice, one that no result depends on.
    let shared = (x.clone() * &y).tanh();
    let chosen = x.compare(CompareFn::Gt, 0.7).select(shared.clone() * &x, z.clone().exp());
    let two = [shared.clone() + &x, chosen.clone() - x.clone() * &x];
    let three = || vec![dense(&[3, 5]); 3].into_iter().collect::<Result<Vec<_>>>();
    add(&mut cases, "expr", three().and_then(|inputs| map(&two, inputs, &[3, 5])), &[Values::Uniform(0.0, 1.0); 3]);
    add(&mut cases, "expr", three().and_then(|inputs| map(&[y.sigmoid()], inputs, &[3, 5])), &[Values::Normal; 3]);
    let clamped = [(x.clone() * 2.0).clamp(-0.5, 0.5) * &y];
    let both = || Ok(vec![dense(&[31])?, dense(&[31])?]);
    add(&mut cases, "clamp", both().and_then(|inputs| map(&clamped, inputs, &[31])), &[Values::Normal; 2]);
    add(
        &mut cases,
        "expr",
        both().and_then(|inputs| map(&[x.clone() * &y], inputs, &[31])),
        &[Values::Constant(0.0); 2],
    );
    // What is random depends on key and position, and not on what is moved.
    for (p, kind) in [(0.5, LayoutKind::Dense), (0.25, LayoutKind::Transposed), (1.0, LayoutKind::BroadcastOuter)] {
        let inputs = || {
            let word = Layout::contiguous(Shape::new(&[])?).broadcast_to(Shape::new(&[4, 6])?)?;
            Ok::<_, crate::Error>([vec![kind.spec(F64, &[4, 6])?], vec![TensorSpec::new(DType::U32, word); 4]].concat())
        };
        let noisy = [dropped(p) * x.exp(), (Expr::uniform([1, 2, 3, 4].map(Expr::input)).cast(F64) + 1.0) * &x];
        let values = [&[Values::Normal][..], &[Values::RandomBits; 4]].concat();
        add(&mut cases, "dropout", inputs().and_then(|inputs| map(&noisy, inputs, &[4, 6])), &values);
    }
    for dims in [&[0, 4][..], &[4, 0]] {
        let op = dense(dims).and_then(|input| map(&[x.exp()], vec![input], dims));
        add(&mut cases, "unary", op, &[Values::Normal]);
    }
    for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min, ReduceFn::AbsMax, ReduceFn::Prod] {
        for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
            for kind in [LayoutKind::Dense, LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
                // Of a broadcast input each element comes several times: a tie.
                if kind == LayoutKind::BroadcastOuter && !matches!(f, ReduceFn::Sum | ReduceFn::Mean | ReduceFn::Prod) {
                    continue;
                }
                let dims = [3, 4, 2];
                let kept: Vec<u64> = (0..3).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect();
                let op = kind.spec(F64, &dims).and_then(|input| Reduce::new(f, input, axes, output(F64, &kept)?));
                add(&mut cases, "reduce", op, &[Values::Normal]);
            }
        }
    }
    let op = dense(&[0, 3]).and_then(|input| Reduce::new(ReduceFn::Sum, input, &[0], output(F64, &[3])?));
    add(&mut cases, "reduce", op, &[Values::Normal]);
    for f in SoftmaxFn::ALL {
        for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed), (1, LayoutKind::BroadcastOuter)] {
            let op = kind.spec(F64, &[4, 7]).and_then(|input| Softmax::new(f, input, axis, output(F64, &[4, 7])?));
            add(&mut cases, "softmax", op, &[Values::Normal]);
        }
    }
    for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed), (1, LayoutKind::BroadcastOuter)] {
        let op = kind.spec(F64, &[4, 6]).and_then(|input| LogSumExp::new(input, axis));
        add(&mut cases, "logsumexp", op, &[Values::Normal]);
    }
    for order in SortOrder::ALL {
        for (axis, dims) in [(0, &[7][..]), (1, &[3, 5, 2])] {
            let op = LayoutKind::Transposed.spec(F64, dims).and_then(|input| Sort::new(order, input, axis));
            add(&mut cases, "sort", op, &[Values::Normal]);
            let first = LayoutKind::Transposed.spec(F64, dims).and_then(|input| Sort::first(order, input, axis, 2));
            add(&mut cases, "sort", first, &[Values::Normal]);
        }
    }
    let plain = ScanOptions::default();
    for options in [plain, plain.exclusive(), plain.reversed(), plain.exclusive().reversed()] {
        for f in [ScanFn::Sum, ScanFn::Prod, ScanFn::LogSumExp] {
            for (axis, kind) in [(0, LayoutKind::Dense), (1, LayoutKind::Transposed)] {
                // The first one is -inf, and no number's neighbour.
                if f == ScanFn::LogSumExp && options.start == ScanStart::Exclusive {
                    continue;
                }
                let op = kind.spec(F64, &[4, 5]).and_then(|input| Scan::new(f, input, axis, options));
                add(&mut cases, "scan", op, &[Values::Normal]);
            }
        }
    }
    for (f, options) in [(ScanFn::Max, plain), (ScanFn::Min, plain.reversed())] {
        let op = LayoutKind::Transposed.spec(F64, &[4, 5]).and_then(|input| Scan::new(f, input, 1, options));
        add(&mut cases, "scan", op, &[Values::Normal]);
    }
    for axes in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
        let op = LayoutKind::Transposed.spec(F64, &[4, 2, 3]).and_then(|input| Moments::new(input, axes));
        add(&mut cases, "moments", op, &[Values::Normal]);
    }
    for kind in [LayoutKind::Dense, LayoutKind::Transposed, LayoutKind::BroadcastOuter] {
        let op = || LayerNorm::new(kind.spec(F64, &[4, 6])?, dense(&[6])?, dense(&[6])?, 1e-3);
        add(&mut cases, "layer_norm", op(), &[Values::Normal; 3]);
    }
    let lines = [Corners::Edges, Corners::Centres].map(Interpolation::Bilinear);
    for how in [Interpolation::Nearest].into_iter().chain(lines) {
        let sizes = [
            ([3, 2], [5, 7]),
            ([5, 7], [2, 3]),
            ([4, 3], [4, 5]),
            ([1, 3], [4, 1]),
            ([3, 4], [3, 4]),
            ([9, 2], [2, 9]),
        ];
        for (from, size) in sizes {
            let dims = [2, from[0], from[1], 2];
            let op = LayoutKind::Transposed.spec(F64, &dims).and_then(|input| Resize::new(input, size, how));
            add(&mut cases, "resize", op, &[Values::Normal]);
        }
    }
    for (kind, dims) in
        [(LayoutKind::Dense, &[5, 3][..]), (LayoutKind::Transposed, &[2, 3, 4]), (LayoutKind::Step, &[4, 2])]
    {
        let row = || dense(&dims[dims.len() - 1..]);
        let op = || BatchNorm::new(kind.spec(F64, dims)?, row()?, row()?, 1e-2);
        add(&mut cases, "batch_norm", op(), &[Values::Normal; 3]);
        let residual = kind.spec(F64, dims).ok();
        for activation in [None, Some(UnaryFn::Relu)] {
            let ended = op().map(|op| BatchNorm { residual, activation, ..op });
            add(&mut cases, "batch_norm", ended, &[Values::Normal; 4]);
        }
        let relu = op().map(|op| BatchNorm { activation: Some(UnaryFn::Relu), ..op });
        add(&mut cases, "batch_norm", relu, &[Values::Normal; 3]);
    }
    for ([queries, keys], [heads, groups], causal, rate, n) in [
        ([3, 4], [2, 2], false, None, 3),
        ([4, 3], [4, 2], true, None, 2),
        ([3, 5], [2, 1], true, Some(0.3), 3),
        // Longer heads than kernels serve: a graph of other operations.
        ([2, 3], [2, 1], true, Some(0.3), 258),
    ] {
        let op = || {
            let words = LayoutKind::Dense.spec(DType::U32, &[2])?;
            let dropout = rate.map(|rate| AttentionDropout { rate, key: [words; 2] });
            let mask =
                rate.map(|_| LayoutKind::Transposed.spec(DType::Bool, &[1, heads, queries, keys])).transpose()?;
            let q = LayoutKind::Padded.spec(F64, &[1, queries, heads, n])?;
            let op = Attention::new(q, dense(&[1, keys, groups, n])?, dense(&[1, keys, groups, 2])?)?;
            // Where all are hidden, lse is -inf, and no number's neighbour.
            Attention { mask, dropout, causal: causal && queries <= keys, ..op }.check()
        };
        let mut values = vec![Values::Normal; 3];
        values.extend(rate.into_iter().flat_map(|_| [Values::Constant(1.0), Values::RandomBits, Values::RandomBits]));
        add(&mut cases, "attention", op(), &values);
    }
    for (weighted, smoothing) in [(false, 0.0), (true, 0.0), (false, 0.1), (true, 0.25)] {
        let op = || {
            let weights = if weighted { Some(dense(&[5])?) } else { None };
            let targets = LayoutKind::Dense.spec(DType::I32, &[7])?;
            CrossEntropy::new(LayoutKind::Transposed.spec(F64, &[7, 5])?, targets, weights, smoothing, Some(-1))
        };
        let values = [Values::Normal, Values::Integers(-1, 4), Values::Uniform(0.5, 2.0)];
        add(&mut cases, "cross_entropy", op(), &values[..if weighted { 3 } else { 2 }]);
    }
    let indices = || LayoutKind::Dense.spec(DType::I32, &[2, 5]);
    // Places that are no row would be NaN, which is no number's neighbour.
    for (padding, missing) in [(None, Missing::Zero), (Some(1), Missing::Zero)] {
        let op = || Take::new(dense(&[4, 3])?, indices()?, missing, padding);
        // The padding row has a gradient that is not that of the value: nothing names it here.
        let places = if padding.is_some() { Values::Integers(2, 5) } else { Values::Integers(-1, 5) };
        add(&mut cases, "take", op(), &[Values::Normal, places]);
    }
    let op = || ScatterAdd::new(dense(&[2, 5, 3])?, indices()?, 4);
    add(&mut cases, "scatter_add", op(), &[Values::Normal, Values::Integers(-1, 5)]);
    moves(&mut cases);
    convolutions(&mut cases);
    pools(&mut cases);
    for kind in [LayoutKind::Transposed, LayoutKind::Reversed, LayoutKind::BroadcastInner] {
        let op = kind.spec(F64, &[3, 5]).and_then(|input| Copy::new(input, output(F64, &[3, 5])?));
        add(&mut cases, "copy", op, &[Values::Normal]);
    }
    for (batch, kind) in
        [(&[][..], LayoutKind::Dense), (&[2], LayoutKind::Transposed), (&[2], LayoutKind::BroadcastOuter)]
    {
        let dims = |rows, columns| [batch, &[rows, columns]].concat();
        let product = || {
            Ok::<_, crate::Error>(Matmul::product(
                kind.spec(F64, &dims(3, 4))?,
                dense(&dims(4, 5))?,
                output(F64, &dims(3, 5))?,
            ))
        };
        add(&mut cases, "matmul", product().and_then(Matmul::check), &[Values::Normal; 2]);
        let whole = || {
            let bias = TensorSpec::new(F64, Layout::contiguous(Shape::new(&[5])?));
            let c = dense(&dims(3, 5))?;
            Matmul { c: Some(c), bias: Some(bias), alpha: 0.5, beta: -2.0, ..product()? }.check()
        };
        add(&mut cases, "matmul", whole(), &[Values::Normal; 4]);
        for activation in [UnaryFn::Tanh, UnaryFn::Gelu, UnaryFn::Sigmoid] {
            let op = || Matmul { activation: Some(activation), ..whole()? }.check();
            add(&mut cases, "matmul", op(), &[Values::Normal; 4]);
        }
    }
    cases
}

/// Joins of several operands; padding of every mode, less than a period of it and more, and what is left out.
fn moves(cases: &mut Vec<Case>) {
    let op = || Cat::new(vec![dense(&[2, 3])?, LayoutKind::Transposed.spec(F64, &[2, 1])?, dense(&[2, 4])?], 1);
    add(cases, "cat", op(), &[Values::Normal; 3]);
    for mode in PadMode::ALL {
        for (n, before, to) in [(4, 1, 6), (4, -1, 2), (4, 9, 17), (1, 2, 4), (2, 3, 8), (3, 5, 4), (3, -7, 9)] {
            let op = || Pad::new(dense(&[2, n, 2])?, mode, vec![0, before, 0], &[2, to, 2], 0);
            add(cases, "pad", op(), &[Values::Normal]);
        }
        let op = || Pad::new(LayoutKind::BroadcastOuter.spec(F64, &[2, 3])?, mode, vec![1, 2], &[4, 3], 0);
        add(cases, "pad", op(), &[Values::Normal]);
    }
    // Positions that come twice, and that are none.
    for (axis, at) in [(0, [5, 3, 2]), (1, [2, 7, 2]), (2, [2, 3, 4])] {
        let indices = || LayoutKind::Dense.spec(DType::I32, &at);
        let places = Values::Integers(-1, 3);
        let x = || LayoutKind::Transposed.spec(F64, &[2, 3, 2]);
        let op = || Gather::new(x()?, indices()?, axis, Missing::Zero);
        add(cases, "gather", op(), &[Values::Normal, places]);
        for function in ScatterFn::ALL.into_iter().filter(|&function| function != ScatterFn::Prod) {
            let op = || Scatter::new(function, x()?, indices()?, dense(&at)?, axis);
            add(cases, "scatter", op(), &[Values::Normal, places, Values::Normal]);
        }
    }
    let mask = || LayoutKind::Dense.spec(DType::Bool, &[4, 5]);
    for count in [3, 20] {
        let op = || MaskedSelect::new(dense(&[4, 5])?, mask()?, Missing::Zero, count);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits]);
        let op = || MaskedScatter::new(dense(&[4, 5])?, mask()?, dense(&[count])?);
        add(cases, "masked", op(), &[Values::Normal, Values::RandomBits, Values::Normal]);
    }
    let repeated = || LayoutKind::BroadcastInner.spec(DType::I32, &[3, 2]);
    let op = || Gather::new(LayoutKind::BroadcastOuter.spec(F64, &[4, 2])?, repeated()?, 0, Missing::Zero);
    add(cases, "gather", op(), &[Values::Normal, Values::Integers(0, 3)]);
}

/// Convolutions with windows of every kind, one tap, an epilogue; and both gradients.
fn convolutions(cases: &mut Vec<Case>) {
    let plain = ConvolutionOptions::default;
    let several = || ConvolutionOptions { stride: vec![2, 1], padding: vec![[1, 0], [0, 2]], ..plain() };
    for (x, w, options) in [
        (&[2, 4, 5, 3][..], &[2, 3, 2, 3][..], several()),
        (&[1, 6, 4, 4], &[4, 2, 2, 2], plain().stride(3).groups(2)),
        (&[2, 7, 3], &[3, 2, 1], plain().dilation(2).groups(3)),
        (&[2, 3, 2, 4], &[3, 1, 1, 4], plain()),
        (&[1, 2, 3, 3, 2], &[2, 2, 1, 2, 2], plain().padding(1).stride(2)),
    ] {
        let geometry = || Geometry::new("convolution", &Shape::new(x)?, &Shape::new(w)?, &options);
        let y = || Ok::<_, crate::Error>(TensorSpec::new(F64, Layout::contiguous(geometry()?.output_shape()?)));
        let op = || Convolution::new(dense(x)?, dense(w)?, &options);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let bias = || dense(&w[..1]);
        let whole = || Convolution { residual: Some(y()?), bias: Some(bias()?), ..op()? }.check();
        add(cases, "convolution", whole(), &[Values::Normal; 4]);
        let op = || Convolution { activation: Some(UnaryFn::Tanh), ..whole()? }.check();
        add(cases, "convolution", op(), &[Values::Normal; 4]);
        let op = || ConvolutionInput::of(geometry()?, y()?, dense(w)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let op = || ConvolutionWeights::of(geometry()?, y()?, dense(x)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
    }
}

/// Pools of overlapping windows, with padding, in unequal parts; their gradients, and what is chosen by places.
fn pools(cases: &mut Vec<Case>) {
    let of = |x: &[u64]| {
        let shape = Shape::new(x)?;
        let options = PoolOptions::window(3).stride(2).padding(1);
        let outputs = vec![2; x.len() - 2];
        Ok::<_, crate::Error>([
            PoolGeometry::new("pool", &shape, &options)?,
            PoolGeometry::adaptive("pool", &shape, &outputs)?,
        ])
    };
    for x in [&[2, 6, 3][..], &[1, 5, 4, 2]] {
        for number in 0..2 {
            let geometry = || Ok::<_, crate::Error>(of(x)?[number]);
            let y = || dense(geometry()?.output_shape()?.dims());
            for function in [PoolFn::Max, PoolFn::Average(Divisor::Padded), PoolFn::Average(Divisor::Inside)] {
                let op = || Pool::new(function, dense(x)?, geometry()?);
                add(cases, "pool", op(), &[Values::Normal]);
                let index = || op().map(|op| op.index);
                let op = || PoolGradient::new(function, y()?, index()?, geometry()?);
                let values = [Values::Normal, Values::Integers(0, 8)];
                add(cases, "pool", op(), &values[..if function == PoolFn::Max { 2 } else { 1 }]);
                if function == PoolFn::Max {
                    let op = || PoolChosen::new(dense(x)?, index()?.map_or_else(y, Ok)?, geometry()?);
                    add(cases, "pool", op(), &values);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Scalar;
    use crate::case::Level;
    use crate::gradient::{Gradient, Needs};
    use crate::harness::gradients::{prove, prove_adjoint};
    use crate::ops::GraphOp;
    use crate::ops::REGISTRY;
    use crate::oracle::HostTensor;

    #[test]
    fn rules_are_the_central_differences_of_what_operations_mean() {
        let (mut proved, mut elements) = (0, 0);
        for case in cases() {
            let found = prove(&case.op, &case.values, 7).unwrap_or_else(|why| panic!("{}: {why}", case.name));
            let found = found.unwrap_or_else(|| panic!("{} has no rule", case.name));
            (proved, elements) = (proved + found.subsets, elements + found.elements);
        }
        println!("{proved} rules, {elements} gradients");
        assert!(proved > 200 && elements > 5000, "{proved} rules, {elements} gradients");
    }

    /// Shapes of hundreds and thousands of elements, with whole blocks of kernels' sizes and what is left over.
    fn larger() -> Vec<Case> {
        let mut cases = Vec::new();
        let normal = [Values::Normal; 4];
        // Products of hundreds of numbers round 1.
        let near_one = [Values::Uniform(0.95, 1.05)];
        let op = || {
            Ok::<_, crate::Error>(Matmul::product(
                dense(&[2, 65, 129])?,
                dense(&[2, 129, 37])?,
                output(F64, &[2, 65, 37])?,
            ))
        };
        add(&mut cases, "matmul", op().and_then(Matmul::check), &normal[..2]);
        let op = || Matmul { bias: Some(dense(&[37])?), activation: Some(UnaryFn::Gelu), ..op()? }.check();
        add(&mut cases, "matmul", op(), &normal[..3]);
        for f in SoftmaxFn::ALL {
            let op = dense(&[33, 257]).and_then(|input| Softmax::new(f, input, 1, output(F64, &[33, 257])?));
            add(&mut cases, "softmax", op, &normal[..1]);
        }
        add(&mut cases, "logsumexp", dense(&[257, 33]).and_then(|input| LogSumExp::new(input, 0)), &normal[..1]);
        for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min, ReduceFn::AbsMax, ReduceFn::Prod] {
            let op = dense(&[13, 300]).and_then(|input| Reduce::new(f, input, &[1], output(F64, &[13])?));
            add(&mut cases, "reduce", op, if f == ReduceFn::Prod { &near_one } else { &normal[..1] });
        }
        for (f, options) in [(ScanFn::Max, ScanOptions::default()), (ScanFn::Min, ScanOptions::default().reversed())] {
            let op = dense(&[300, 7]).and_then(|input| Scan::new(f, input, 0, options));
            add(&mut cases, "scan", op, &normal[..1]);
        }
        let op = dense(&[3, 9, 11, 19]).and_then(|input| Moments::new(input, &[0, 1, 2]));
        add(&mut cases, "moments", op, &normal[..1]);
        for f in [ScanFn::Sum, ScanFn::Prod, ScanFn::LogSumExp] {
            let plain = ScanOptions::default();
            for options in [plain, plain.exclusive(), plain.reversed(), plain.exclusive().reversed()] {
                // The first one is -inf, and no number's neighbour.
                if f == ScanFn::LogSumExp && options.start == ScanStart::Exclusive {
                    continue;
                }
                let op = dense(&[300, 7]).and_then(|input| Scan::new(f, input, 0, options));
                add(&mut cases, "scan", op, if f == ScanFn::Prod { &near_one } else { &normal[..1] });
            }
        }
        let op = dense(&[7, 300]).and_then(|input| Sort::new(SortOrder::Descending, input, 1));
        add(&mut cases, "sort", op, &normal[..1]);
        let op = || LayerNorm::new(dense(&[17, 300])?, dense(&[300])?, dense(&[300])?, 1e-5);
        add(&mut cases, "layer_norm", op(), &normal[..3]);
        let op = || BatchNorm::new(dense(&[3, 9, 11, 19])?, dense(&[19])?, dense(&[19])?, 1e-5);
        let ended = op().map(|op| BatchNorm { residual: Some(op.input), activation: Some(UnaryFn::Relu), ..op });
        add(&mut cases, "batch_norm", ended, &normal);
        let op =
            || CrossEntropy::new(dense(&[33, 61])?, LayoutKind::Dense.spec(DType::I32, &[33])?, None, 0.1, Some(-1));
        add(&mut cases, "cross_entropy", op(), &[Values::Normal, Values::Integers(-1, 60)]);
        for causal in [false, true] {
            let op = || {
                let [q, k] = [dense(&[2, 37, 4, 16])?, dense(&[2, 41, 2, 16])?];
                Attention { causal, ..Attention::new(q, k, k)? }.check()
            };
            add(&mut cases, "attention", op(), &normal[..3]);
        }
        let places = Values::Integers(-1, 41);
        let at = |dims: &[u64]| LayoutKind::Dense.spec(DType::I32, dims);
        add(
            &mut cases,
            "take",
            at(&[150]).and_then(|at| Take::new(dense(&[41, 33])?, at, Missing::Zero, None)),
            &[Values::Normal, places],
        );
        add(
            &mut cases,
            "scatter_add",
            at(&[150]).and_then(|at| ScatterAdd::new(dense(&[150, 33])?, at, 41)),
            &[Values::Normal, places],
        );
        let op = || Gather::new(dense(&[41, 33])?, at(&[150, 33])?, 0, Missing::Zero);
        add(&mut cases, "gather", op(), &[Values::Normal, places]);
        for function in ScatterFn::ALL.into_iter().filter(|&function| function != ScatterFn::Prod) {
            let op = || Scatter::new(function, dense(&[41, 33])?, at(&[150, 33])?, dense(&[150, 33])?, 0);
            add(&mut cases, "scatter", op(), &[Values::Normal, places, Values::Normal]);
        }
        for mode in PadMode::ALL {
            let op = dense(&[6, 50, 3]).and_then(|input| Pad::new(input, mode, vec![1, 70, 0], &[8, 230, 3], 0));
            add(&mut cases, "pad", op, &normal[..1]);
        }
        let op = || Cat::new(vec![dense(&[7, 130])?, dense(&[7, 1])?, dense(&[7, 260])?], 1);
        add(&mut cases, "cat", op(), &normal[..3]);
        for how in [Interpolation::Nearest, Interpolation::Bilinear(Corners::Edges)] {
            let op = dense(&[2, 13, 17, 3]).and_then(|input| Resize::new(input, [29, 7], how));
            add(&mut cases, "resize", op, &normal[..1]);
        }
        let options =
            ConvolutionOptions { stride: vec![2, 1], padding: vec![[1, 0], [2, 2]], ..ConvolutionOptions::default() };
        let (x, w) = ([2, 14, 11, 6], [8, 3, 3, 6]);
        let geometry = || Geometry::new("convolution", &Shape::new(&x)?, &Shape::new(&w)?, &options);
        let y = || Ok::<_, crate::Error>(TensorSpec::new(F64, Layout::contiguous(geometry()?.output_shape()?)));
        add(&mut cases, "convolution", dense(&x).and_then(|x| Convolution::new(x, dense(&w)?, &options)), &normal[..2]);
        let op = || ConvolutionInput::of(geometry()?, y()?, dense(&w)?);
        add(&mut cases, "convolution", op(), &normal[..2]);
        let op = || ConvolutionWeights::of(geometry()?, y()?, dense(&x)?);
        add(&mut cases, "convolution", op(), &normal[..2]);
        for function in [PoolFn::Max, PoolFn::Average(Divisor::Inside)] {
            let x = [2, 17, 15, 5];
            let options = PoolOptions::window(3).stride(2).padding(1);
            let geometry = || PoolGeometry::new("pool", &Shape::new(&x)?, &options);
            let op = || Pool::new(function, dense(&x)?, geometry()?);
            add(&mut cases, "pool", op(), &normal[..1]);
            let y = || dense(geometry()?.output_shape()?.dims());
            let index = || op().map(|op| op.index);
            // Each of the nine under a window, those beside the image among them.
            let values = [Values::Normal, Values::Integers(0, 8)];
            let gradient = || PoolGradient::new(function, y()?, index()?, geometry()?);
            add(&mut cases, "pool", gradient(), &values[..if function == PoolFn::Max { 2 } else { 1 }]);
            if function == PoolFn::Max {
                let chosen = || PoolChosen::new(dense(&x)?, index()?.map_or_else(y, Ok)?, geometry()?);
                add(&mut cases, "pool", chosen(), &values);
            }
        }
        moved_larger(&mut cases);
        let noisy = (Expr::input(0) * Expr::input(1)).tanh() + Expr::input(0).unary(UnaryFn::Gelu);
        let op = || {
            map(
                std::slice::from_ref(&noisy),
                vec![dense(&[40, 129])?, LayoutKind::BroadcastOuter.spec(F64, &[40, 129])?],
                &[40, 129],
            )
        };
        add(&mut cases, "expr", op(), &normal[..2]);
        cases
    }

    /// Copies of views, elements by a mask, and what is dropped at random.
    fn moved_larger(cases: &mut Vec<Case>) {
        for kind in [LayoutKind::Transposed, LayoutKind::Reversed, LayoutKind::BroadcastInner] {
            let op = kind.spec(F64, &[67, 129]).and_then(|input| Copy::new(input, output(F64, &[67, 129])?));
            add(cases, "copy", op, &[Values::Normal]);
        }
        let mask = || LayoutKind::Dense.spec(DType::Bool, &[67, 129]);
        // About half of 8,643 are chosen: more than there is room for, and fewer.
        for count in [2000, 6000] {
            let op = || MaskedSelect::new(dense(&[67, 129])?, mask()?, Missing::Zero, count);
            add(cases, "masked", op(), &[Values::Normal, Values::RandomBits]);
            let op = || MaskedScatter::new(dense(&[67, 129])?, mask()?, dense(&[count])?);
            add(cases, "masked", op(), &[Values::Normal, Values::RandomBits, Values::Normal]);
        }
        for (p, kind) in [(0.1, LayoutKind::Dense), (0.5, LayoutKind::BroadcastOuter)] {
            let inputs = || {
                let word = Layout::contiguous(Shape::new(&[])?).broadcast_to(Shape::new(&[67, 129])?)?;
                Ok::<_, crate::Error>(
                    [vec![kind.spec(F64, &[67, 129])?], vec![TensorSpec::new(DType::U32, word); 4]].concat(),
                )
            };
            let op = inputs().and_then(|inputs| map(&[dropped(p)], inputs, &[67, 129]));
            add(cases, "dropout", op, &[&[Values::Normal][..], &[Values::RandomBits; 4]].concat());
        }
    }

    #[test]
    fn rules_are_adjoints_of_derivatives_on_larger_shapes() {
        let (mut kinds, mut elements) = (HashSet::new(), 0);
        for case in larger() {
            let found =
                prove_adjoint(&case.op, &case.values, 3, 3).unwrap_or_else(|why| panic!("{}: {why}", case.name));
            elements += found.unwrap_or_else(|| panic!("{} has no rule", case.name));
            kinds.insert(case.op.name());
        }
        println!("{kinds:?}: {elements} gradients");
        assert!(kinds.len() > 30 && elements > 100_000, "{kinds:?}: {elements} gradients");
    }

    /// Rules are graphs, which have rules by their steps: gradients of second order, and of operations that are graphs of others.
    #[test]
    fn rules_of_graphs_are_central_differences_too() {
        let (mut proved, mut elements, mut refused) = (0, 0, HashSet::new());
        for case in cases() {
            let floats: Vec<bool> = case.op.inputs().iter().map(|input| input.dtype.is_float()).collect();
            let given = vec![true; case.op.outputs().len()];
            let Ok(Gradient::Rule(rule)) = case.op.gradient(&Needs { inputs: &floats, outputs: &given }) else {
                panic!("{} has no rule", case.name)
            };
            let (second, used) = GraphOp::new("second", rule.graph, rule.inputs.clone(), rule.outputs.clone());
            let inputs = case.op.inputs().len();
            // Outputs and their gradients may be any numbers here: but those of a root are positive.
            let values: Vec<Values> = used
                .iter()
                .map(|&number| case.values.get(number).copied().unwrap_or(Values::Uniform(0.5, 1.5)))
                .collect();
            assert!(used.iter().all(|&number| number < inputs || rule.inputs[number].layout.is_contiguous()));
            let mut prove_one = |op: crate::Op, values: &[Values]| {
                let found = prove(&op, values, 11).unwrap_or_else(|why| panic!("{}: {why}", case.name));
                match found {
                    Some(found) => (proved, elements) = (proved + found.subsets, elements + found.elements),
                    None => drop(refused.insert(case.name.clone())),
                }
            };
            // An extremum that is none of the elements has no place to go, as other numbers than results have here. Each input doubles
            // the subsets.
            let is_extremum = ["max", "min", "abs_max"].contains(&case.op.name()) && case.op.is::<Reduce>();
            let is_extremum = is_extremum || ["scatter_max", "scatter_min"].contains(&case.op.name());
            if values.len() <= 5 && !is_extremum {
                prove_one(second.into(), &values);
            }
            if let Ok(Some(graph)) = case.op.decompose() {
                let inputs = case.op.inputs();
                let outputs: Vec<TensorSpec> =
                    case.op.outputs().iter().map(|output| dense_at_start(&output.spec)).collect();
                let moved =
                    outputs.iter().enumerate().try_fold(case.op.clone(), |op, (n, spec)| op.with_output(n, *spec));
                let graph = moved.and_then(|op| op.decompose().ok().flatten()).unwrap_or(graph);
                let (composed, used) = GraphOp::new("composed", graph, inputs, outputs);
                let values: Vec<Values> = used.iter().map(|&number| case.values[number]).collect();
                prove_one(composed.into(), &values);
            }
        }
        println!("{proved} rules, {elements} gradients; without a rule: {refused:?}");
        assert!(proved > 400 && elements > 5000, "{proved} rules, {elements} gradients");
        assert!(refused.is_empty(), "{refused:?}");
    }

    fn dense_at_start(spec: &TensorSpec) -> TensorSpec {
        TensorSpec::new(spec.dtype, Layout::contiguous(*spec.layout.shape()))
    }

    /// A rule that nobody proves, and a refusal without a reason, would be found by users.
    #[test]
    fn every_kind_of_operation_is_proved_or_says_why_not() {
        let kind = |op: &crate::Op| op.name().to_owned();
        let proved: HashSet<String> = cases().iter().map(|case| kind(&case.op)).collect();
        for case in REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)) {
            let (inputs, outputs) = (vec![false; case.op.inputs().len()], vec![true; case.op.outputs().len()]);
            match case.op.gradient(&Needs { inputs: &inputs, outputs: &outputs }) {
                Ok(Gradient::Refused(why)) => assert!(why.len() > 10, "{}", case.name),
                Ok(Gradient::Rule(_)) => {
                    let is_map = case.op.is::<Map>();
                    assert!(is_map || proved.contains(&kind(&case.op)), "{} has a rule that no case proves", case.name);
                }
                // A program with a step that has none, by name.
                Err(error) => {
                    assert!(case.op.is::<Map>() && error.to_string().contains("derivative"), "{}: {error}", case.name)
                }
            }
        }
    }

    /// Small shapes have no whole blocks: each rule is proved on a larger one too. There is no list of exceptions, and no rule needs one.
    #[test]
    fn every_kind_of_operation_with_a_rule_has_an_adjoint_case() {
        let kind = |op: &crate::Op| if op.is::<Map>() { "map".to_owned() } else { op.name().to_owned() };
        let proved: HashSet<String> = larger().iter().map(|case| kind(&case.op)).collect();
        let mut missing: Vec<String> = Vec::new();
        for case in REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)).chain(cases()) {
            let (inputs, outputs) = (vec![false; case.op.inputs().len()], vec![true; case.op.outputs().len()]);
            let rule = case.op.gradient(&Needs { inputs: &inputs, outputs: &outputs });
            if matches!(rule, Ok(Gradient::Rule(_))) && !proved.contains(&kind(&case.op)) {
                missing.push(kind(&case.op));
            }
        }
        missing.sort();
        missing.dedup();
        assert!(missing.is_empty(), "no case of `larger` is one of {missing:?}");
        // Maps are one kind, whatever they compute: those that draw random numbers are among them.
        let reads_words =
            |case: &Case| case.op.is::<Map>() && case.op.inputs().iter().any(|input| input.dtype == DType::U32);
        assert!(larger().iter().any(reads_words), "nothing is dropped");
    }

    /// What a rule gives where there is no derivative, for a gradient of 1 of every result.
    fn kinks(op: impl Into<crate::Op>, inputs: &[&[f64]], input: usize) -> Vec<f64> {
        let op = op.into();
        let wanted: Vec<bool> = (0..inputs.len()).map(|number| number == input).collect();
        let Ok(Gradient::Rule(rule)) = op.gradient(&Needs { inputs: &wanted, outputs: &[true] }) else {
            panic!("{} has no rule", op.name())
        };
        let numbers = |values: &[f64]| values.iter().map(|&x| Scalar::F(x)).collect::<Vec<_>>();
        let memory: Vec<Vec<Scalar>> = inputs.iter().map(|values| numbers(values)).collect();
        let hosts = op.inputs().into_iter().zip(&memory).map(|(spec, values)| HostTensor {
            dtype: spec.dtype,
            shape: *spec.layout.shape(),
            values: values.clone(),
        });
        let results = op.oracle(&hosts.collect::<Vec<_>>()).swap_remove(0);
        let results: Vec<Scalar> = results.iter().map(|expected| expected.value).collect();
        let ones = numbers(&vec![1.0; results.len()]);
        let found = rule.graph.evaluate(&[memory, vec![results, ones]].concat(), &rule.outputs);
        found[0].iter().map(|x| x.as_f64()).collect()
    }

    #[test]
    fn at_kinks_and_ties_gradients_are_pytorchs() {
        let (x, y) = (Expr::input(0), Expr::input(1));
        let one = |expr: Expr, values: &[f64]| {
            let dims = [values.len() as u64];
            kinks(map(&[expr], vec![dense(&dims).unwrap()], &dims).unwrap(), &[values], 0)
        };
        assert_eq!(one(x.relu(), &[-1.0, 0.0, 2.0]), [0.0, 0.0, 1.0]);
        assert_eq!(one(x.abs(), &[-1.0, 0.0, 2.0]), [-1.0, 0.0, 1.0]);
        assert_eq!(one(x.clamp(-1.0, 1.0), &[-2.0, -1.0, 0.0, 1.0, 2.0]), [0.0, 1.0, 1.0, 1.0, 0.0]);
        assert_eq!(one(x.floor() + x.round() + x.sign(), &[0.0, 0.5, 1.0]), [0.0; 3]);
        assert_eq!(one(x.binary(BinaryFn::Pow, 0.0), &[0.0, 2.0]), [0.0, 0.0]);
        assert_eq!(one(x.binary(BinaryFn::Pow, 1.0), &[0.0, 2.0]), [1.0, 1.0]);
        assert_eq!(one(x.clone() * &x, &[0.0, 3.0]), [0.0, 6.0]);
        for (f, want) in [(BinaryFn::Max, [0.0, 0.5, 1.0]), (BinaryFn::Min, [1.0, 0.5, 0.0])] {
            let op = map(&[x.binary(f, &y)], vec![dense(&[3]).unwrap(); 2], &[3]).unwrap();
            assert_eq!(kinks(op, &[&[1.0, 2.0, 3.0], &[2.0; 3]], 0), want);
        }
        let reduce = |f, values: &[f64]| {
            let input = dense(&[values.len() as u64]).unwrap();
            kinks(Reduce::new(f, input, &[0], output(F64, &[]).unwrap()).unwrap(), &[values], 0)
        };
        assert_eq!(reduce(ReduceFn::Max, &[3.0, 1.0, 3.0, 3.0, 3.0]), [0.25, 0.0, 0.25, 0.25, 0.25]);
        assert_eq!(reduce(ReduceFn::AbsMax, &[-3.0, 1.0, 3.0]), [-0.5, 0.0, 0.5]);
        assert_eq!(reduce(ReduceFn::Sum, &[0.0, 0.0]), [1.0, 1.0]);
        assert_eq!(reduce(ReduceFn::Prod, &[2.0, -3.0, 4.0]), [-12.0, 8.0, -6.0]);
        assert_eq!(reduce(ReduceFn::Prod, &[2.0, 0.0, 4.0]), [0.0, 8.0, 0.0]);
        assert_eq!(reduce(ReduceFn::Prod, &[0.0, 0.0, 4.0]), [0.0; 3]);
        let scan_by = |f, options, values: &[f64]| {
            let input = dense(&[values.len() as u64]).unwrap();
            kinks(Scan::new(f, input, 0, options).unwrap(), &[values], 0)
        };
        let scan = |options, values: &[f64]| scan_by(ScanFn::Prod, options, values);
        // Products 2, 0, 0, 0 of 2, 0, 4, 0, and so for each without itself: 1 + 0, 2 + 8 + 0, 0, 0.
        assert_eq!(scan(ScanOptions::default(), &[2.0, 0.0, 4.0, 0.0]), [1.0, 10.0, 0.0, 0.0]);
        assert_eq!(scan(ScanOptions::default().reversed(), &[0.0, 4.0, 0.0, 2.0]), [0.0, 0.0, 10.0, 1.0]);
        assert_eq!(scan(ScanOptions::default().exclusive(), &[0.0, 3.0, 0.0, 5.0]), [4.0, 0.0, 0.0, 0.0]);
        // Without the element itself: the others' results, one place later.
        let log = |options, values: &[f64]| scan_by(ScanFn::LogSumExp, options, values);
        let (all, others) = (
            log(ScanOptions::default().exclusive(), &[1.0, 3.0, 2.0, 5.0]),
            log(ScanOptions::default(), &[1.0, 3.0, 2.0]),
        );
        assert!(all.iter().zip(others.iter().chain([&0.0])).all(|(a, b)| (a - b).abs() < 1e-12), "{all:?} {others:?}");
    }

    /// Wrong rules are found: the proof can fail.
    #[test]
    fn a_wrong_rule_is_found() {
        let inputs = [dense(&[5]).unwrap()];
        let right: crate::Op = map(&[Expr::input(0).exp()], inputs.to_vec(), &[5]).unwrap().into();
        let wrong: crate::Op = Wrong(right).into();
        let found = prove(&wrong, &[Values::Normal], 0).unwrap_err();
        assert!(found.contains("gradient of input 0 at element 0"), "{found}");
        let found = prove_adjoint(&wrong, &[Values::Normal], 0, 1).unwrap_err();
        assert!(found.contains("along direction 0"), "{found}");
    }

    /// exp with the gradient of its own result.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Wrong(crate::Op);

    impl crate::Operation for Wrong {
        fn name(&self) -> &'static str {
            "wrong"
        }
        fn operands(&self, each: &mut dyn FnMut(crate::operation::Operand)) {
            self.0.operands(each);
        }
        fn validate(&self) -> Result<()> {
            Ok(())
        }
        fn arithmetic(&self) -> crate::operation::Arithmetic {
            self.0.arithmetic()
        }
        fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
            let rule = crate::ops::RuleBuilder::new(self, needs)?;
            let dy = rule.gradient(0)?;
            let gradients = if rule.wants(0) { vec![Some(dy)] } else { Vec::new() };
            rule.finish(gradients)
        }
        fn oracle(&self, before: &[crate::oracle::HostTensor]) -> Vec<Vec<crate::oracle::Expected>> {
            self.0.oracle(before)
        }
    }
}
