//! Cases of fused expressions: hand-picked ones, and random typed trees from a seed.
//!
//! Random trees mix dtypes with casts, share subtrees, compare and select. Functions with poles are fed what keeps them
//! away from it, so that the oracle's error bounds stay meaningful. Programs over NaN, infinities and overflow are `special.rs`.

mod special;

pub(crate) use special::random;

use super::{add, dense_map, map, sizes, strided_map, unique};
use crate::case::values::mix;
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::{BinaryFn, CompareFn, DType, Expr, UnaryFn};

const FAMILY: &str = "expr";

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let (x, y, z) = (Expr::input(0), Expr::input(1), Expr::input(2));
    let fused = (x.clone() * &y + &z).tanh() - x.clone();
    for dtype in DType::FLOATS {
        add(&mut cases, FAMILY, dense_map(FAMILY, &fused, &[dtype; 3], &[1031]), &[Values::Uniform(-2.0, 2.0); 3]);
    }
    let sum = x.clone() + &y;
    let composed = [
        ("arc", x.tan().atan() - &y),
        ("length", sum.hypot(z.erfc())),
        ("angle", sum.atan2(z.cosh())),
        ("sign", (y.asinh() - &x).copysign(z.cbrt())),
        ("rest", x.fmod(&y) + x.remainder(&z)),
    ];
    for (tag, expr) in composed {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let mut made = Vec::new();
            add(&mut made, FAMILY, dense_map(FAMILY, &expr, &[dtype; 3], &[257]), &[Values::Uniform(-1.0, 1.0); 3]);
            cases.extend(made.into_iter().map(|case| case.tagged(tag)));
        }
    }
    // A term beside a function: LLVM 15, as llvmpipe runs it, lost the term where the function's sign was put on by and and or.
    for f in UnaryFn::ALL.into_iter().filter(|f| f.defined_for(DType::F32)) {
        let expr = x.exp().exp() + y.sigmoid().unary(f);
        let mut made = Vec::new();
        add(&mut made, FAMILY, dense_map(FAMILY, &expr, &[DType::F32; 2], &[1031]), &[Values::Uniform(-1.0, 1.0); 2]);
        cases.extend(made.into_iter().map(|case| case.tagged(&format!("term+{}", f.name()))));
    }
    for count in sizes(level) {
        add(&mut cases, FAMILY, dense_map(FAMILY, &fused, &[DType::F16; 3], &[count]), &[Values::Normal; 3]);
    }
    for kind in LayoutKind::ALL {
        let kinds = [kind, LayoutKind::Transposed, LayoutKind::BroadcastOuter];
        let op = strided_map(FAMILY, &fused, &[DType::F32; 3], &kinds, &[3, 17, 9]);
        add(&mut cases, FAMILY, op, &[Values::Normal; 3]);
    }
    let mixed = (x.cast(DType::F32) + &y).select_by(CompareFn::Gt, 0.0, 255.0).cast(DType::U8);
    add(&mut cases, FAMILY, dense_map(FAMILY, &mixed, &[DType::I32, DType::F32], &[1031]), &[Values::Normal; 2]);
    // Rounded, and clipped or made infinite, before it is widened again.
    for dtype in [DType::F8E4M3, DType::F8E5M2, DType::F16, DType::BF16] {
        let narrow = (x.clone() * 0.75).cast(DType::F32) + Expr::index().cast(dtype).cast(DType::F32);
        add(&mut cases, FAMILY, dense_map(FAMILY, &narrow, &[dtype], &[4099]), &[Values::Special]);
    }
    let position = Expr::index().cast(DType::F32) * 0.5 + &x;
    add(&mut cases, FAMILY, dense_map(FAMILY, &position, &[DType::F32], &[5, 7, 31]), &[Values::Normal]);
    let seven = (1..7).fold(x.clone(), |sum, i| sum * 0.5 + Expr::input(i));
    add(&mut cases, FAMILY, dense_map(FAMILY, &seven, &[DType::F32; 7], &[257]), &[Values::Normal; 7]);
    for seed in 0..if level == Level::Full { 400 } else { 30 } {
        let (expr, dtypes) = Random::expr(seed);
        let dims: &[u64] = if seed % 2 == 0 { &[521] } else { &[7, 11, 3] };
        let kinds: Vec<LayoutKind> =
            (0..dtypes.len()).map(|i| LayoutKind::ALL[(mix(seed, 99 + i as u64) % 8) as usize]).collect();
        let inputs = dtypes.iter().zip(&kinds).map(|(&dtype, kind)| kind.spec(dtype, dims)).collect::<Result<_, _>>();
        let op = inputs.and_then(|inputs| map(FAMILY, &expr, inputs, dims));
        let mut made = Vec::new();
        add(&mut made, FAMILY, op, &vec![Values::Uniform(-3.0, 3.0); dtypes.len()]);
        cases.extend(made.into_iter().map(|case| case.tagged(&format!("tree{seed}"))));
    }
    special::cases(level, &mut cases);
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let (x, y) = (Expr::input(0), Expr::input(1));
    let expr = (x.clone() * 2.0 + y).tanh() * x.sigmoid();
    dense_map(FAMILY, &expr, &[DType::F32; 2], &[size.elements()])
        .map(|op| BenchCase::new("fused (2x+y).tanh*x.sigmoid f32", Suite::Elementwise, op, Metric::Bytes))
        .into_iter()
        .collect()
}

impl Expr {
    /// This where it compares true with `pivot`, else `other`.
    fn select_by(&self, f: CompareFn, pivot: f64, other: f64) -> Expr {
        self.compare(f, pivot).select(self, other)
    }
}

/// The functions of whole numbers in random trees.
const INTEGER: [BinaryFn; 11] = [
    BinaryFn::Add,
    BinaryFn::And,
    BinaryFn::Div,
    BinaryFn::Max,
    BinaryFn::Min,
    BinaryFn::Mul,
    BinaryFn::Or,
    BinaryFn::Add,
    BinaryFn::Rem,
    BinaryFn::Sub,
    BinaryFn::Xor,
];

/// The functions that random trees take of -1 to 1: none has a pole there.
const WITHIN_ONE: [UnaryFn; 14] = [
    UnaryFn::Asinh,
    UnaryFn::Atan,
    UnaryFn::Cbrt,
    UnaryFn::Cos,
    UnaryFn::Cosh,
    UnaryFn::Erf,
    UnaryFn::Erfc,
    UnaryFn::Exp,
    UnaryFn::Exp2,
    UnaryFn::Sin,
    UnaryFn::Sinh,
    UnaryFn::Tan,
    UnaryFn::Tanh,
    UnaryFn::Sigmoid,
];

/// A generator of typed expressions.
struct Random {
    seed: u64,
    drawn: u64,
    inputs: Vec<DType>,
}

impl Random {
    const DTYPES: [DType; 8] =
        [DType::F32, DType::F16, DType::BF16, DType::I32, DType::U32, DType::I8, DType::U8, DType::Bool];

    fn expr(seed: u64) -> (Expr, Vec<DType>) {
        let mut random = Random { seed: mix(0xE59, seed), drawn: 0, inputs: Vec::new() };
        let dtype = random.pick(&Self::DTYPES);
        let depth = 2 + random.below(5);
        // An input first, so that the op reads something whatever the tree is.
        let first = random.input(dtype);
        let rest = random.tree(dtype, depth);
        let expr =
            if dtype == DType::Bool { first.binary(BinaryFn::Xor, rest) } else { first.binary(BinaryFn::Sub, rest) };
        (expr, random.inputs)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn) % n
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let i = self.below(from.len() as u64) as usize;
        from[i].clone()
    }

    fn input(&mut self, dtype: DType) -> Expr {
        let known: Vec<usize> = (0..self.inputs.len()).filter(|&i| self.inputs[i] == dtype).collect();
        if !known.is_empty() && (self.inputs.len() >= 5 || self.below(2) == 0) {
            return Expr::input(self.pick(&known));
        }
        if self.inputs.len() >= 5 {
            return Expr::constant(1).cast(dtype);
        }
        self.inputs.push(dtype);
        Expr::input(self.inputs.len() - 1)
    }

    fn tree(&mut self, dtype: DType, depth: u64) -> Expr {
        // As many draws as a kernel of a reasonable length needs.
        if depth == 0 || self.drawn > 120 {
            return self.input(dtype);
        }
        match self.below(8) {
            0 => self.input(dtype),
            1 => {
                let from = self.pick(&Self::DTYPES);
                self.tree(from, depth - 1).cast(dtype)
            }
            2 => {
                let of = self.pick(&[DType::F32, DType::I32, DType::U8]);
                let f = self.pick(&CompareFn::ALL);
                let condition = self.tree(of, depth - 1).compare(f, self.tree(of, depth - 1));
                condition.select(self.tree(dtype, depth - 1), self.tree(dtype, depth - 1))
            }
            3 | 4 => self.unary(dtype, depth),
            _ => self.binary(dtype, depth),
        }
    }

    fn unary(&mut self, dtype: DType, depth: u64) -> Expr {
        let x = self.tree(dtype, depth - 1);
        if dtype == DType::Bool {
            return x.unary(UnaryFn::Not);
        }
        if !dtype.is_float() {
            let signed = [UnaryFn::Abs, UnaryFn::Sign, UnaryFn::Relu, UnaryFn::Not, UnaryFn::Neg];
            let f = self.pick(if dtype.is_signed() { &signed } else { &signed[..4] });
            return x.unary(f);
        }
        match self.below(4) {
            // Away from poles and out of overflow.
            0 => (x.abs() + 0.5).unary(self.pick(&[UnaryFn::Log, UnaryFn::Sqrt, UnaryFn::Rsqrt, UnaryFn::Reciprocal])),
            1 => x.tanh().unary(self.pick(&WITHIN_ONE)),
            _ => {
                let f = [UnaryFn::Abs, UnaryFn::Neg, UnaryFn::Relu, UnaryFn::Gelu, UnaryFn::Silu, UnaryFn::Sigmoid];
                x.unary(self.pick(&f))
            }
        }
    }

    fn binary(&mut self, dtype: DType, depth: u64) -> Expr {
        let (a, b) = (self.tree(dtype, depth - 1), self.tree(dtype, depth - 1));
        let f = if dtype == DType::Bool {
            self.pick(&[BinaryFn::And, BinaryFn::Or, BinaryFn::Xor])
        } else if dtype.is_float() {
            self.pick(&[BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Max, BinaryFn::Min])
        } else {
            self.pick(&INTEGER)
        };
        a.binary(f, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::ReferenceBackend;
    use crate::oracle::{Expected, HostTensor};
    use crate::{Device, Scalar};

    /// The oracle's answers to a case.
    pub(super) fn expected(case: &Case) -> Vec<Expected> {
        let operands = case.op.inputs().into_iter().zip(&case.values);
        let hosts: Vec<HostTensor> = operands
            .map(|(spec, values)| {
                let bytes = values.bytes(spec.dtype, spec.layout.elements(), 5);
                let decode = |bytes| Scalar::from_le_bytes(bytes, spec.dtype);
                let values = bytes.chunks_exact(spec.dtype.size_bytes() as usize).map(decode).collect();
                HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
            })
            .collect();
        case.op.oracle(&hosts).swap_remove(0)
    }

    /// A bound that allows anything proves nothing: most elements of random trees must have a narrow one.
    #[test]
    fn random_trees_keep_meaningful_bounds() {
        let (mut narrow, mut all) = (0u64, 0u64);
        let trees: Vec<Case> = cases(Level::Quick).into_iter().filter(|case| case.name.contains(" tree")).collect();
        assert_eq!(trees.len(), 30);
        for case in &trees {
            for expected in expected(case) {
                all += 1;
                narrow += u64::from(expected.error <= 0.02 * (1.0 + expected.value.as_f64().abs()));
            }
        }
        assert!(narrow * 10 > all * 9, "{narrow} of {all}");
    }

    #[test]
    fn trees_of_one_seed_are_the_same() {
        let names = |seed| format!("{:?}", Random::expr(seed));
        assert_eq!(names(3), names(3));
        assert_ne!(names(3), names(4));
        // And they run.
        let device = Device::new(ReferenceBackend::default());
        let tree = cases(Level::Quick).into_iter().find(|case| case.name.contains(" tree0")).unwrap();
        assert!(matches!(crate::harness::run_case(&device, &tree, 0), crate::harness::Outcome::Pass { .. }));
    }
}
