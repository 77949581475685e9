//! Which kernels are prepared: those of the benchmark cases, and of what most programs do.
//!
//! Kernels are shared by all shapes that differ in numbers only, so a few shapes stand for many: whole vectors and not,
//! rows short and long, products of every transpose around every tile. A kernel that is missing here is compiled when it
//! is first needed, as any other. Only what makes and checks the archive knows this list; a device knows the archive.

use std::collections::HashSet;

use polywarp_core::harness::BenchSize;
use polywarp_core::ops::plan;
use polywarp_core::ops::{
    ArgReduce, ArgReduceFn, BinaryFn, CompareFn, Copy, Distribution, Map, Matmul, REGISTRY, Random, Reduce, ReduceFn,
    Softmax, SoftmaxFn, UnaryFn,
};
use polywarp_core::plan::{Caps, Source};
use polywarp_core::{DType, Error, Expr, KeepDims, Layout, Op, Program, Result, Scalar, Shape, TensorSpec};

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
/// What casts and fills are prepared for.
const COMMON: [DType; 6] = [DType::F32, DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool];
/// The functions that most programs use; what is rarer is compiled where it is.
const UNARY: [UnaryFn; 22] = [
    UnaryFn::Abs,
    UnaryFn::Ceil,
    UnaryFn::Cos,
    UnaryFn::Erf,
    UnaryFn::Exp,
    UnaryFn::Exp2,
    UnaryFn::Floor,
    UnaryFn::Gelu,
    UnaryFn::Log,
    UnaryFn::Log2,
    UnaryFn::Neg,
    UnaryFn::Not,
    UnaryFn::Reciprocal,
    UnaryFn::Relu,
    UnaryFn::Round,
    UnaryFn::Rsqrt,
    UnaryFn::Sigmoid,
    UnaryFn::Sign,
    UnaryFn::Silu,
    UnaryFn::Sin,
    UnaryFn::Sqrt,
    UnaryFn::Tanh,
];
const BINARY: [BinaryFn; 7] =
    [BinaryFn::Add, BinaryFn::Div, BinaryFn::Max, BinaryFn::Min, BinaryFn::Mul, BinaryFn::Pow, BinaryFn::Sub];
/// Elements of an elementwise op; its kernel serves every count.
const COUNT: u64 = 1 << 20;

/// The kernels, each once, in the order of the ops that need them first.
pub(super) fn sources(caps: &Caps) -> Result<Vec<Source>> {
    let (mut keys, mut texts, mut sources) = (HashSet::new(), HashSet::new(), Vec::new());
    for op in everyday()?.into_iter().chain(benchmarked()) {
        let planned = match plan(&op, caps) {
            Ok(planned) => planned,
            Err(Error::Unsupported { .. } | Error::UndefinedForDType { .. } | Error::IndexWidth { .. }) => continue,
            Err(error) => return Err(error),
        };
        for launch in planned.launches {
            if keys.insert(launch.kernel.clone()) {
                let source = launch.kernel.source();
                if is_rare(&source) {
                    continue;
                }
                if texts.insert(source.wgsl.clone()) {
                    sources.push(source);
                }
            }
        }
    }
    Ok(sources)
}

/// Attention on cooperative matrices is left out: its kernels are large, Hopper has others in their place, and a card that runs them
/// compiles the few that a network needs.
fn is_rare(source: &Source) -> bool {
    source.name.starts_with("attention") && source.name.contains("_cooperative")
}

/// What `polywarp bench` runs when no suite is named.
fn benchmarked() -> impl Iterator<Item = Op> {
    let sizes = [BenchSize::Small, BenchSize::Normal, BenchSize::Large];
    REGISTRY
        .iter()
        .flat_map(move |family| sizes.into_iter().flat_map(|size| (family.benches)(size)))
        .filter(|case| case.in_overview)
        .map(|case| case.op)
        // Seldom enough to be compiled where they are used: the kernels in CUDA C++ come first.
        .filter(|op| !op.inputs().iter().any(|input| input.dtype.is_float8()))
}

fn everyday() -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    made_from_nothing(&mut ops)?;
    elementwise(&mut ops)?;
    copies(&mut ops)?;
    reductions(&mut ops)?;
    products(&mut ops)?;
    Ok(ops)
}

fn dense(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    Ok(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)))
}

/// `expr` over inputs of these dtypes and shapes, broadcast to `dims`.
fn map(ops: &mut Vec<Op>, expr: &Expr, inputs: &[(DType, &[u64])], dims: &[u64]) -> Result<()> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.0).collect();
    let program = match Program::compile(expr, &dtypes) {
        // Not every function is defined for every dtype.
        Err(Error::UndefinedForDType { .. }) => return Ok(()),
        compiled => compiled?,
    };
    let output = dense(program.dtype(), dims)?;
    let stretch = |&(dtype, from): &(DType, &[u64])| {
        Ok(TensorSpec::new(dtype, Layout::contiguous(Shape::new(from)?).broadcast_to(Shape::new(dims)?)?))
    };
    let inputs = inputs.iter().map(stretch).collect::<Result<_>>()?;
    ops.push(Map::new("everyday", program, inputs, output)?.into());
    Ok(())
}

fn made_from_nothing(ops: &mut Vec<Op>) -> Result<()> {
    for dtype in DType::ALL.into_iter().filter(|dtype| !dtype.is_float8()) {
        map(ops, &Expr::constant(Scalar::I(1).cast(dtype)).cast(dtype), &[], &[COUNT])?;
    }
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I32, DType::U32] {
        let ramp = Expr::index().cast(dtype.compute()) * Expr::constant(1) + Expr::constant(0);
        map(ops, &ramp.cast(dtype), &[], &[COUNT])?;
    }
    for dtype in FLOATS {
        for distribution in
            [Distribution::Uniform { low: 0.0, high: 1.0 }, Distribution::Normal { mean: 0.0, std: 1.0 }]
        {
            ops.push(Random::new(distribution, 1, 0, dense(dtype, &[COUNT])?)?.into());
        }
    }
    ops.push(Random::new(Distribution::Bits, 1, 0, dense(DType::U32, &[COUNT])?)?.into());
    Ok(())
}

fn elementwise(ops: &mut Vec<Op>) -> Result<()> {
    let (x, y) = (Expr::input(0), Expr::input(1));
    let one: &[u64] = &[COUNT];
    for dtype in [DType::F32, DType::F16] {
        for f in UNARY {
            map(ops, &x.unary(f), &[(dtype, one)], one)?;
        }
        for f in BINARY {
            map(ops, &x.binary(f, y.clone()), &[(dtype, one); 2], one)?;
            map(ops, &x.binary(f, Scalar::F(2.0)), &[(dtype, one)], one)?;
        }
        for f in CompareFn::ALL {
            map(ops, &x.compare(f, y.clone()), &[(dtype, one); 2], one)?;
        }
        // A vector along the rows, along the columns.
        for f in [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div] {
            for vector in [[1, 1024], [1024, 1]] {
                map(ops, &x.binary(f, y.clone()), &[(dtype, &[1024, 1024]), (dtype, &vector)], &[1024, 1024])?;
            }
        }
        map(ops, &x.clamp(0.0, 1.0), &[(dtype, one)], one)?;
        let choice = x.select(Expr::input(1), Expr::input(2));
        map(ops, &choice, &[(DType::Bool, one), (dtype, one), (dtype, one)], one)?;
    }
    for f in [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div, BinaryFn::Max, BinaryFn::Min] {
        map(ops, &x.binary(f, y.clone()), &[(DType::BF16, one); 2], one)?;
        map(ops, &x.binary(f, y.clone()), &[(DType::I32, one); 2], one)?;
    }
    for from in COMMON {
        for to in COMMON.into_iter().filter(|&to| to != from) {
            map(ops, &x.cast(to), &[(from, one)], one)?;
        }
    }
    Ok(())
}

fn copies(ops: &mut Vec<Op>) -> Result<()> {
    // A copy moves bits: one dtype stands for all of its size.
    for dtype in [DType::F32, DType::F16, DType::U8, DType::F64] {
        for extent in [1024, 1000, 1023] {
            let matrix = dense(dtype, &[extent, extent])?;
            let to = |from: Layout| dense(dtype, from.dims()).map(|to| (TensorSpec::new(dtype, from), to));
            let mut pairs = vec![(matrix, matrix), to(matrix.layout.transpose(0, 1)?)?];
            // Rows of a wider matrix, read and written.
            let part = matrix.layout.slice(1, 0, extent / 2, 1)?;
            let (part, whole) = to(part)?;
            pairs.extend([(part, whole), (whole, part)]);
            let heads = dense(dtype, &[8, extent, 12, 64])?.layout;
            pairs.extend([to(heads.permute(&[0, 2, 1, 3])?)?, to(heads.permute(&[0, 2, 3, 1])?)?]);
            for (from, to) in pairs {
                ops.push(Copy::new(from, to)?.into());
            }
        }
    }
    Ok(())
}

/// Matrices that are reduced along rows, columns or both. Together these lengths cover the kernels that most shapes
/// use; the small ones of f32, in whole vectors and not, have a kernel each.
const REDUCED: [(DType, &[[u64; 2]]); 4] = [
    (DType::F32, &[[4, 4], [8, 8], [16, 16], [64, 64], [128, 128], [10, 10], [50, 50], [150, 150]]),
    (DType::F32, &[[1000, 1000], [1001, 1001], [1024, 1024], [4096, 4096], [1 << 18, 16]]),
    (DType::F16, &[[1024, 1024], [4096, 4096]]),
    (DType::I32, &[[1024, 1024], [4096, 4096]]),
];

/// Lengths of rows: classes, sequences, channels, words of a language.
const SOFTMAX_ROWS: [u64; 5] = [128, 1000, 1024, 4096, 32_000];
const LOG_SOFTMAX_ROWS: [u64; 2] = [10, 1000];

fn reductions(ops: &mut Vec<Op>) -> Result<()> {
    let functions = [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min];
    for (dtype, dims) in REDUCED.iter().flat_map(|(dtype, shapes)| shapes.iter().map(move |dims| (*dtype, dims))) {
        let input = dense(dtype, dims)?;
        for axes in [&[0][..], &[1], &[0, 1]] {
            let rest = input.layout.shape().without_axes(axes, KeepDims::No);
            for f in functions {
                let to = f.output_dtype(dtype).ok_or(Error::UndefinedForDType { op: f.name(), dtype })?;
                ops.push(Reduce::new(f, input, axes, dense(to, rest.dims())?)?.into());
            }
            ops.push(ArgReduce::new(ArgReduceFn::ArgMax, input, axes, dense(DType::U32, rest.dims())?)?.into());
        }
    }
    for dtype in [DType::F32, DType::F16] {
        for length in SOFTMAX_ROWS {
            let rows = dense(dtype, &[4096, length])?;
            ops.push(Softmax::new(SoftmaxFn::Softmax, rows, 1, rows)?.into());
        }
    }
    for length in LOG_SOFTMAX_ROWS {
        let rows = dense(DType::F32, &[128, length])?;
        ops.push(Softmax::new(SoftmaxFn::LogSoftmax, rows, 1, rows)?.into());
    }
    Ok(())
}

/// m, n, k: whole tiles and not, small to large, and a vector times a matrix.
const PRODUCTS: [[u64; 3]; 8] = [
    [33, 33, 33],
    [64, 64, 64],
    [256, 256, 256],
    [1000, 1000, 1000],
    [1024, 1024, 1024],
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [1, 1024, 1024],
];
/// Of 16-bit products with one operand transposed: they take as much of the archive as those of f32.
const TURNED_HALVES: [[u64; 3]; 3] = [[33, 33, 33], [1024, 1024, 1024], [4096, 4096, 4096]];

fn products(ops: &mut Vec<Op>) -> Result<()> {
    for dtype in FLOATS {
        // As a layer of a network asks: forwards, and for the gradients of its input and its weights.
        for (turned_a, turned_b) in [(false, false), (false, true), (true, false)] {
            let halves = dtype != DType::F32 && (turned_a || turned_b);
            for &[m, n, k] in if halves { &TURNED_HALVES[..] } else { &PRODUCTS } {
                let operand = |rows, cols, turned| match turned {
                    true => Ok(TensorSpec::new(dtype, dense(dtype, &[cols, rows])?.layout.transpose(0, 1)?)),
                    false => dense(dtype, &[rows, cols]),
                };
                let (a, b) = (operand(m, k, turned_a)?, operand(k, n, turned_b)?);
                ops.push(Matmul::product(a, b, dense(dtype, &[m, n])?).check()?.into());
            }
        }
        // Both transposed is rare.
        let turned = dense(dtype, &[1024, 1024])?.layout.transpose(0, 1)?;
        let operand = TensorSpec::new(dtype, turned);
        ops.push(Matmul::product(operand, operand, dense(dtype, &[1024, 1024])?).check()?.into());
    }
    Ok(())
}
