//! Cases of matrix products: transposes, batches, epilogues, extents at the edges of tiles, exact integers (one dropped
//! product must show), NaN around the operands, K = 0; 8-bit operands with scales in `matmul/scaled.rs`, of blocks in
//! `matmul/blocks.rs`.

mod blocks;
mod scaled;

pub(super) use scaled::{LARGE, LITTLE};

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Matmul, MatmulDims};
use crate::{DType, Error, Layout, Precision, Result, Shape, TensorSpec, UnaryFn};

const FAMILY: &str = "matmul";
const DENSE: LayoutKind = LayoutKind::Dense;
const SMALL: Values = Values::Integers(-4, 4);

#[inline(never)]
fn product(dtype: DType, [m, n, k]: [u64; 3], kinds: [LayoutKind; 2]) -> Result<Matmul> {
    batched(dtype, &[m, k], &[k, n], &[m, n], kinds)
}

#[inline(never)]
fn batched(dtype: DType, a: &[u64], b: &[u64], d: &[u64], kinds: [LayoutKind; 2]) -> Result<Matmul> {
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    Matmul::product(kinds[0].spec(dtype, a)?, kinds[1].spec(dtype, b)?, output(to, d)?).check()
}

/// A product of operands of the first two dtypes that gives the third.
#[inline(never)]
fn of_dtypes([a, b, d]: [DType; 3], [m, n, k]: [u64; 3], kinds: [LayoutKind; 2]) -> Result<Matmul> {
    Matmul::product(kinds[0].spec(a, &[m, k])?, kinds[1].spec(b, &[k, n])?, output(d, &[m, n])?).check()
}

/// A batch whose operands repeat along broadcast dimensions.
#[inline(never)]
fn broadcast(dtype: DType, a: &[u64], b: &[u64]) -> Result<Matmul> {
    let split = |dims: &[u64]| (dims[..dims.len() - 2].to_vec(), dims[dims.len() - 2], dims[dims.len() - 1]);
    let ((batch_a, m, k), (batch_b, _, n)) = (split(a), split(b));
    let batch = Shape::broadcast(FAMILY, &Shape::new(&batch_a)?, &Shape::new(&batch_b)?)?;
    let with = |rows, columns| [batch.dims(), &[rows, columns]].concat();
    let stretch = |from: &[u64], to: Vec<u64>| {
        Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(from)?).broadcast_to(Shape::new(&to)?)?))
    };
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    Matmul::product(stretch(a, with(m, k))?, stretch(b, with(k, n))?, output(to, &with(m, n))?).check()
}

/// What follows the product.
#[derive(Clone, Copy)]
struct Epilogue {
    alpha: f64,
    beta: Option<f64>,
    bias: bool,
    activation: Option<UnaryFn>,
}

#[inline(never)]
fn with_epilogue(op: Result<Matmul>, e: Epilogue) -> Result<Matmul> {
    let op = op?;
    let (dtype, dims) = (op.output.dtype, op.output.layout.dims().to_vec());
    let n = dims[dims.len() - 1];
    Matmul {
        alpha: e.alpha,
        beta: e.beta.unwrap_or(0.0),
        c: e.beta.map(|_| LayoutKind::Padded.spec(dtype, &dims)).transpose()?,
        bias: e.bias.then(|| LayoutKind::Offset.spec(dtype, &[n])).transpose()?,
        activation: e.activation,
        ..op
    }
    .check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    dtypes(level, &mut cases);
    float8(level, &mut cases);
    sizes(level, &mut cases);
    layouts(level, &mut cases);
    windows(&mut cases);
    batches(&mut cases);
    epilogues(level, &mut cases);
    endings_in_pairs(level, &mut cases);
    special(&mut cases);
    scaled::cases(level, &mut cases);
    blocks::cases(level, &mut cases);
    unique(cases)
}

#[inline(never)]
fn exact(cases: &mut Vec<Case>, op: Result<Matmul>, values: Values) {
    let mut made = Vec::new();
    add(&mut made, FAMILY, op, &[values; 2]);
    cases.extend(made.into_iter().map(Case::exact));
}

fn dtypes(level: Level, cases: &mut Vec<Case>) {
    for dtype in DType::ALL.into_iter().filter(|&dtype| Matmul::output_dtype(dtype).is_some()) {
        let wide = if dtype.is_float() { Values::Uniform(-1.0, 1.0) } else { Values::RandomBits };
        for dims in level.list(&[[33, 35, 37], [65, 129, 31], [17, 15, 1025]], &[[129, 127, 257], [64, 64, 64]]) {
            add(cases, FAMILY, product(dtype, dims, [DENSE; 2]), &[wide; 2]);
            exact(cases, product(dtype, dims, [DENSE; 2]), SMALL);
        }
    }
    // Sums beyond 2^24, odd ones too: f32, in which some kernels add up such products, does not hold them all.
    for (dtype, least) in [(DType::I8, -128), (DType::U8, 254)] {
        exact(cases, product(dtype, [17, 19, 2051], [DENSE; 2]), Values::Integers(least, least + 1));
    }
    for dtype in [DType::F16, DType::BF16] {
        let widened = product(dtype, [33, 35, 131], [DENSE; 2]).and_then(|op| {
            let dims = op.output.layout.dims().to_vec();
            Matmul { output: output(DType::F32, &dims)?, ..op }.check()
        });
        add(cases, FAMILY, widened.clone(), &[Values::Uniform(-1.0, 1.0); 2]);
        exact(cases, widened, SMALL);
    }
    for precision in [Precision::Low, Precision::Medium, Precision::High] {
        let op = product(DType::F32, [65, 67, 129], [DENSE; 2]).and_then(|op| Matmul { precision, ..op }.check());
        add(cases, FAMILY, op.clone(), &[Values::Uniform(-1.0, 1.0); 2]);
        exact(cases, op, SMALL);
    }
}

/// 8-bit floats of both kinds, in all transposes, to all dtypes; every code of one kind times one of the other; K so long that
/// sums of 14 bits, never moved to f32, are too small.
fn float8(level: Level, cases: &mut Vec<Case>) {
    let kinds = [DType::F8E4M3, DType::F8E5M2];
    let one = Values::Uniform(-1.0, 1.0);
    for (a, b) in kinds.into_iter().flat_map(|a| kinds.map(|b| (a, b))) {
        for d in [DType::F32, DType::F16, DType::BF16] {
            add(cases, FAMILY, of_dtypes([a, b, d], [33, 35, 131], [DENSE; 2]), &[one; 2]);
            exact(cases, of_dtypes([a, b, d], [33, 35, 131], [DENSE; 2]), SMALL);
        }
        for layouts in [[LayoutKind::Transposed, DENSE], [DENSE, LayoutKind::Transposed], [LayoutKind::Transposed; 2]] {
            for dims in level.list(&[[129, 65, 33], [1, 67, 33], [128, 128, 256]], &[[67, 1, 33], [65, 129, 160]]) {
                exact(cases, of_dtypes([a, b, DType::F32], dims, layouts), SMALL);
            }
        }
        // Column n of A and row n of B hold code n: NaN where either is, infinities of e5m2.
        add(cases, FAMILY, of_dtypes([a, b, DType::F32], [256, 256, 1], [DENSE; 2]), &[Values::AllBits; 2]);
        let positive = Values::Uniform(0.0, 1.0);
        for dims in level.list(&[[17, 33, 4099], [64, 64, 8192]], &[[129, 130, 4096], [3, 5, 65_537]]) {
            add(cases, FAMILY, of_dtypes([a, b, DType::F32], dims, [DENSE; 2]), &[positive; 2]);
            add(cases, FAMILY, of_dtypes([a, b, DType::BF16], dims, [DENSE, LayoutKind::Transposed]), &[positive; 2]);
        }
    }
    // Larger than f16 holds when stored; not on the way, and not in f32.
    for d in [DType::F32, DType::F16] {
        let op = of_dtypes([DType::F8E5M2, DType::F8E5M2, d], [17, 19, 129], [DENSE; 2]);
        add(cases, FAMILY, op, &[Values::Constant(40_960.0); 2]);
    }
}

/// Extents at the edges of every tile in use, all of 1..17 cubed in the full level.
fn sizes(level: Level, cases: &mut Vec<Case>) {
    let edges = level.list(&[1, 2, 7, 16, 17], &[3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15]);
    for &m in &edges {
        for &n in &edges {
            for &k in &edges {
                // Every m, n, k of the quick list is met, not every triple.
                let met = m == n || n == k || (m + 2 * n + 3 * k) % 5 == 0;
                if level == Level::Full || (met && (m + n + k) % 2 == 1) {
                    exact(cases, product(DType::F32, [m, n, k], [DENSE; 2]), SMALL);
                }
            }
        }
    }
    let edges = [31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257];
    for (i, edge) in edges.into_iter().enumerate() {
        let other = edges[(i + 5) % 7];
        for dims in [[edge, other, 19], [other, edge, 8], [21, 18, edge]] {
            exact(cases, product(DType::F32, dims, [DENSE; 2]), SMALL);
        }
    }
    // More rounds of loops than some drivers allow.
    for dims in [[2, 3, 70_000], [1, 3, 70_000], [3, 1, 70_000]] {
        exact(cases, product(DType::F32, dims, [DENSE; 2]), SMALL);
    }
    // Vectors, outer and inner products, long K (split), tall and wide.
    let quick = [[1, 1025, 65], [1025, 1, 65], [1, 1, 1025], [257, 255, 1], [5, 3, 4099], [1, 65, 1025], [300, 1, 1]];
    for dims in level.list(&quick, &[[2, 2, 65_537], [4099, 3, 5], [3, 4099, 5], [257, 257, 257], [1, 65_537, 3]]) {
        exact(cases, product(DType::F32, dims, [DENSE; 2]), SMALL);
        add(cases, FAMILY, product(DType::F32, dims, [DENSE; 2]), &[Values::Normal; 2]);
    }
    for dims in [[0, 3, 5], [3, 0, 5], [3, 5, 0], [0, 0, 0]] {
        for dtype in [DType::F32, DType::I8] {
            add(cases, FAMILY, product(dtype, dims, [DENSE; 2]), &[Values::Normal; 2]);
        }
    }
}

/// All transposes and strided views; what lies between the elements is NaN or the largest integer.
fn layouts(level: Level, cases: &mut Vec<Case>) {
    let further = [DType::F16, DType::BF16, DType::F64, DType::I32, DType::F8E4M3, DType::F8E5M2];
    for dtype in level.list(&[DType::F32, DType::I8], &further) {
        for kind in LayoutKind::ALL {
            let mut pairs = vec![[kind, DENSE], [DENSE, kind], [kind, kind]];
            if level == Level::Full {
                pairs.extend(LayoutKind::ALL.map(|other| [kind, other]));
            }
            for kinds in pairs {
                exact(cases, product(dtype, [35, 33, 67], kinds), SMALL);
            }
        }
        for kinds in [[LayoutKind::Transposed, DENSE], [DENSE, LayoutKind::Transposed], [LayoutKind::Transposed; 2]] {
            for dims in [[129, 65, 17], [1, 67, 33], [67, 1, 33], [128, 128, 32]] {
                exact(cases, product(dtype, dims, kinds), SMALL);
            }
        }
    }
}

/// Sliding windows over one line: rows that share all but 16 of their elements, and matrices of a batch that share rows.
fn windows(cases: &mut Vec<Case>) {
    let window = |dtype, dims: &[u64], strides: &[i64]| {
        Layout::strided(Shape::new(dims)?, strides, 0).map(|layout| TensorSpec::new(dtype, layout))
    };
    let of = |dtype: DType, a: Result<TensorSpec>, b: Result<TensorSpec>, d: &[u64]| {
        let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
        Matmul::product(a?, b?, output(to, d)?).check()
    };
    let dense = |dtype, dims: &[u64]| DENSE.spec(dtype, dims);
    let (m, n, k) = (131, 72, 160);
    for dtype in [DType::F16, DType::F32, DType::F64, DType::I8, DType::F8E4M3] {
        let rows_of_a = || of(dtype, window(dtype, &[m, k], &[16, 1]), dense(dtype, &[k, n]), &[m, n]);
        exact(cases, rows_of_a(), SMALL);
        exact(cases, of(dtype, dense(dtype, &[m, k]), window(dtype, &[k, n], &[16, 1]), &[m, n]), SMALL);
        exact(cases, of(dtype, dense(dtype, &[m, k]), window(dtype, &[k, n], &[1, 16]), &[m, n]), SMALL);
        let batch = window(dtype, &[3, m, k], &[32, 16, 1]);
        exact(cases, of(dtype, batch, dense(dtype, &[3, k, n]), &[3, m, n]), SMALL);
        if dtype == DType::F32 {
            for precision in [Precision::Low, Precision::Medium, Precision::High] {
                exact(cases, rows_of_a().and_then(|op| Matmul { precision, ..op }.check()), SMALL);
            }
        }
    }
}

fn batches(cases: &mut Vec<Case>) {
    for dtype in [DType::F32, DType::F16, DType::U8, DType::F8E4M3] {
        exact(cases, batched(dtype, &[3, 17, 9], &[3, 9, 33], &[3, 17, 33], [DENSE; 2]), SMALL);
        let kinds = [LayoutKind::Padded, LayoutKind::Transposed];
        exact(cases, batched(dtype, &[2, 3, 5, 9], &[2, 3, 9, 7], &[2, 3, 5, 7], kinds), SMALL);
        exact(cases, broadcast(dtype, &[3, 17, 9], &[9, 33]), SMALL);
        exact(cases, broadcast(dtype, &[17, 9], &[3, 9, 33]), SMALL);
        exact(cases, broadcast(dtype, &[2, 1, 5, 9], &[3, 9, 7]), SMALL);
    }
    exact(cases, broadcast(DType::F32, &[2, 1, 2, 1, 2, 1, 5, 3], &[1, 3, 1, 2, 1, 2, 3, 4]), SMALL);
    exact(cases, broadcast(DType::F32, &[65, 1, 3], &[65, 3, 1]), SMALL);
    exact(cases, broadcast(DType::F32, &[0, 4, 3], &[3, 2]), SMALL);
}

fn epilogues(level: Level, cases: &mut Vec<Case>) {
    let plain = Epilogue { alpha: 1.0, beta: None, bias: false, activation: None };
    let mut push = |dtype: DType, dims, e: Epilogue| {
        let op = with_epilogue(product(dtype, dims, [DENSE; 2]), e);
        let inputs = 2 + usize::from(e.beta.is_some()) + usize::from(e.bias);
        let values = if dtype.is_float() { Values::Uniform(-1.0, 1.0) } else { SMALL };
        add(cases, FAMILY, op, &vec![values; inputs]);
    };
    let dims = [33, 35, 19];
    let dtypes = [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I32, DType::F8E4M3];
    for dtype in dtypes {
        push(dtype, dims, Epilogue { alpha: 2.0, ..plain });
        push(dtype, dims, Epilogue { alpha: -3.0, beta: Some(2.0), ..plain });
        push(dtype, dims, Epilogue { bias: true, ..plain });
        push(dtype, dims, Epilogue { beta: Some(1.0), bias: true, ..plain });
        push(dtype, dims, Epilogue { activation: Some(UnaryFn::Relu), ..plain });
        push(dtype, [5, 7, 0], Epilogue { alpha: 2.0, beta: Some(3.0), bias: true, ..plain });
    }
    for f in UnaryFn::ALL.into_iter().filter(|f| f.is_activation()) {
        for dtype in level.list(&[DType::F32, DType::F16], &[DType::BF16, DType::F64, DType::F8E5M2]) {
            push(dtype, dims, Epilogue { bias: true, activation: Some(f), ..plain });
            push(dtype, [1, 65, 33], Epilogue { alpha: 0.7, beta: Some(1.3), bias: true, activation: Some(f) });
            // Rows of whole vectors, which kernels end and store several at a time.
            push(dtype, [75, 136, 40], Epilogue { bias: true, activation: Some(f), ..plain });
            push(dtype, [75, 72, 40], Epilogue { alpha: 0.7, beta: Some(1.3), bias: true, activation: Some(f) });
        }
    }
    for dims in level.list(&[[129, 65, 33]], &[[1, 1, 1], [17, 1, 257], [65, 257, 9]]) {
        push(DType::F32, dims, Epilogue { alpha: 0.7, beta: Some(1.3), bias: true, activation: Some(UnaryFn::Gelu) });
    }
    // C is not read when beta is 0: NaN in it must not show.
    let unread = with_epilogue(product(DType::F32, dims, [DENSE; 2]), Epilogue { beta: Some(0.0), ..plain });
    let uniform = Values::Uniform(-1.0, 1.0);
    add(cases, FAMILY, unread, &[uniform, uniform, Values::Constant(f64::NAN)]);
}

/// Every activation of rows of whole vectors, with C and a bias that start and lie as vectors do: kernels read them two elements at
/// a time. Those of [`with_epilogue`] do not.
fn endings_in_pairs(level: Level, cases: &mut Vec<Case>) {
    let ended = |dtype, [m, n, k]: [u64; 3], activation| {
        let op = product(dtype, [m, n, k], [DENSE; 2])?;
        let to = op.output.dtype;
        let (c, bias) = (DENSE.spec(to, &[m, n])?, DENSE.spec(to, &[n])?);
        Matmul { alpha: 0.7, beta: 1.3, c: Some(c), bias: Some(bias), activation: Some(activation), ..op }.check()
    };
    for f in UnaryFn::ALL.into_iter().filter(|f| f.is_activation()) {
        for dtype in level.list(&[DType::F32, DType::F16], &[DType::BF16, DType::F64, DType::F8E5M2]) {
            // Several tiles of 64 columns, and a part of one.
            add(cases, FAMILY, ended(dtype, [75, 136, 40], f), &[Values::Uniform(-1.0, 1.0); 4]);
        }
    }
}

fn special(cases: &mut Vec<Case>) {
    let one = Values::Uniform(-1.0, 1.0);
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last, Where::Middle] {
            for dtype in [DType::F32, DType::F16, DType::F8E4M3, DType::F8E5M2] {
                let op = || product(dtype, [65, 33, 67], [DENSE; 2]);
                add(cases, FAMILY, op(), &[Values::Planted(plant, at), one]);
                add(cases, FAMILY, op(), &[one, Values::Planted(plant, at)]);
            }
        }
    }
    // Kernels that make products of numbers with less range must notice what does not fit in them.
    let narrowed =
        [Precision::Low, Precision::Medium, Precision::High].map(|precision| (DType::F32, precision, f32::MAX));
    let most_bf16 = f32::from_bits(0x7f7f_0000);
    for (dtype, precision, most) in narrowed.into_iter().chain([(DType::BF16, Precision::Highest, most_bf16)]) {
        let of = |kinds| product(dtype, [35, 33, 67], kinds).and_then(|op| Matmul { precision, ..op }.check());
        let op = || of([DENSE; 2]);
        let (large, small) = (Values::Uniform(-1e25, 1e25), Values::Uniform(-1e-25, 1e-25));
        add(cases, FAMILY, op(), &[Values::Planted(Plant::Nan, Where::Middle), one]);
        add(cases, FAMILY, op(), &[one, Values::Planted(Plant::Inf, Where::Last)]);
        add(cases, FAMILY, op(), &[Values::Special, Values::Constant(0.25)]);
        add(cases, FAMILY, op(), &[Values::Constant(0.0), one]);
        add(cases, FAMILY, op(), &[large, small]);
        // Nearest in fewer bits, the largest would be infinite.
        let largest = Values::Constant(most.into());
        add(cases, FAMILY, op(), &[largest, Values::Constant(2f64.powi(-7))]);
        add(cases, FAMILY, op(), &[Values::Constant(-(2f64.powi(-7))), largest]);
        let strided = [LayoutKind::Transposed, LayoutKind::Padded];
        for kinds in [strided, [LayoutKind::Reversed, LayoutKind::BroadcastInner], [LayoutKind::Step; 2]] {
            add(cases, FAMILY, of(kinds), &[one; 2]);
        }
        let batch = broadcast(dtype, &[2, 1, 5, 9], &[3, 9, 8]).and_then(|op| Matmul { precision, ..op }.check());
        add(cases, FAMILY, batch, &[one; 2]);
    }
    // bf16 within the range of f16, at its edge and far beyond it.
    for binades in [13, 26, 60] {
        for dims in [[33, 35, 2], [66, 130, 67]] {
            add(cases, FAMILY, product(DType::BF16, dims, [DENSE; 2]), &[Values::Spread(binades); 2]);
        }
    }
    // Parts of smaller numbers hold small elements too, and scales into their range undo each other where one alone is out of f32's.
    let high =
        |dims| product(DType::F32, dims, [DENSE; 2]).and_then(|op| Matmul { precision: Precision::High, ..op }.check());
    for binades in [26, 60] {
        for dims in [[65, 67, 1], [33, 35, 2], [66, 130, 67]] {
            add(cases, FAMILY, high(dims), &[Values::Spread(binades); 2]);
        }
    }
    // The smallest are normal numbers: devices may take others for zero.
    let (largest, smallest) = (Values::Uniform(-3e38, 3e38), Values::Uniform(1.2e-38, 9e-38));
    add(cases, FAMILY, high([35, 33, 3]), &[largest, smallest]);
    add(cases, FAMILY, high([35, 33, 3]), &[smallest, largest]);
    add(cases, FAMILY, high([35, 33, 67]), &[Values::Constant(1.2e-38), largest]);
    // Half precision overflows when stored, not on the way.
    add(cases, FAMILY, product(DType::F16, [17, 19, 129], [DENSE; 2]), &[Values::Constant(60.0); 2]);
}

/// How the right operand of a bench case lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lie {
    Plain,
    /// Neighbours along k, as the weights of linear layers do.
    Transposed,
}

/// What is multiplied: the second word of a bench case's name, dtype, precision, and how B lies. 8-bit weights lie
/// transposed too, as tensor cores and vendors' libraries want them.
const BENCHED: [(&str, DType, Precision, Lie); 9] = [
    ("f32", DType::F32, Precision::Highest, Lie::Plain),
    ("f16", DType::F16, Precision::Highest, Lie::Plain),
    ("bf16", DType::BF16, Precision::Highest, Lie::Plain),
    ("f64", DType::F64, Precision::Highest, Lie::Plain),
    ("i8", DType::I8, Precision::Highest, Lie::Plain),
    ("i8-nt", DType::I8, Precision::Highest, Lie::Transposed),
    ("f8e4m3-nt", DType::F8E4M3, Precision::Highest, Lie::Transposed),
    ("f32-high", DType::F32, Precision::High, Lie::Plain),
    ("f32-medium", DType::F32, Precision::Medium, Lie::Plain),
];

/// A product of `batch` pairs of dense matrices; a single one has two dimensions.
#[inline(never)]
fn benched(dtype: DType, batch: u64, [m, n, k]: [u64; 3], precision: Precision, b: Lie) -> Result<Matmul> {
    let dense = |dtype, rows, columns| {
        let dims = if batch == 1 { vec![rows, columns] } else { vec![batch, rows, columns] };
        Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(&dims)?)))
    };
    let b = match b {
        Lie::Plain => dense(dtype, k, n)?,
        Lie::Transposed => {
            let weights = dense(dtype, n, k)?;
            let rank = weights.layout.rank();
            TensorSpec::new(dtype, weights.layout.transpose(rank - 2, rank - 1)?)
        }
    };
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    Matmul { precision, ..Matmul::product(dense(dtype, m, k)?, b, dense(to, m, n)?) }.check()
}

/// Squares of every kind, named `gemm KIND SIDE`; then what is not square, `gemm KIND MxNxK`, and a batch, `gemm KIND
/// BATCHx(MxNxK)`; last, those with scales of blocks.
/// Overviews show square products of rows as they are written, at full precision.
fn bench(name: String, op: Matmul) -> BenchCase {
    let MatmulDims { batch, m, n, k } = op.dims();
    let as_written = op.a.layout.is_contiguous() && op.b.layout.is_contiguous();
    let plain = batch == 1 && m == n && n == k && as_written && op.precision == Precision::Highest;
    let case = BenchCase::new(name, Suite::Gemm, op, Metric::Flops);
    if plain { case } else { case.beside() }
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let sides: &[u64] = size.pick(
        &[256, 512, 1000],
        &[256, 512, 1000, 1024, 2048, 4096],
        &[256, 512, 1000, 1024, 2048, 4096, 8192, 16384],
    );
    // Odd; few rows, few columns, one of them; an outer and an inner product; linear layers of transformers.
    let others: &[[u64; 3]] = size.pick(
        &[[257, 255, 253], [1, 256, 256], [256, 256, 16], [16, 16, 4096]],
        &[[1025, 1023, 1021], [1, 1024, 1024], [16, 1024, 1024], [1024, 1024, 64], [64, 64, 16384], [1024, 1024, 3584]],
        &[
            [4097, 4095, 4093],
            [128, 4096, 4096],
            [4096, 128, 4096],
            [16, 4096, 4096],
            [1, 4096, 4096],
            [8192, 8192, 64],
            [64, 64, 65536],
            [4096, 4096, 14336],
            [4096, 14336, 4096],
            [8192, 1280, 8192],
        ],
    );
    let (count, side) = size.pick((4, 64), (32, 256), (256, 512));
    let mut cases = Vec::new();
    for (kind, dtype, precision, b) in BENCHED {
        let mut push = |shape: String, batch, dims| {
            let Ok(op) = benched(dtype, batch, dims, precision, b) else { return };
            let name = format!("gemm {kind} {shape}");
            cases.push(bench(name, op));
        };
        for &side in sides {
            push(side.to_string(), 1, [side; 3]);
        }
        for &[m, n, k] in others {
            push(format!("{m}x{n}x{k}"), 1, [m, n, k]);
        }
        push(format!("{count}x({side}x{side}x{side})"), count, [side; 3]);
    }
    cases.extend(blocks::benches(size));
    cases
}
