//! An operation of your own: its definition, its float64 oracle with a bound, its gradient, its kernels for the CPU and
//! GPUs, and the library's harness run on it on every device of this machine.
//!
//! [`PrefixSum`] is plain data. Backends plan it, count its memory, record it and cache its plans as they do for the
//! library's own operations; the library does not know about it. Run: `cargo run --example own_operation`.

use polywarp::gradient::{Gradient, Needs};
use polywarp::harness::gradients::prove;
use polywarp::harness::{Case, Outcome, Values, output, run_case};
use polywarp::operation::{Arithmetic, Facts, HostResult, Operand};
use polywarp::ops::RuleBuilder;
use polywarp::oracle::{Expected, HostTensor};
use polywarp::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use polywarp::{
    DType, Device, Error, Expr, KeepDims, Layout, Op, Operation, ReduceFn, Result, Scalar, Shape, Tensor, TensorSpec,
};

/// The sums of the first 1, 2, 3, ... elements of each row of a dense f32 matrix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PrefixSum {
    input: TensorSpec,
    output: TensorSpec,
}

impl PrefixSum {
    fn extents(&self) -> (usize, usize) {
        let dims = self.input.layout.dims();
        (dims[0] as usize, dims[1] as usize)
    }
}

impl Operation for PrefixSum {
    fn name(&self) -> &'static str {
        "prefix_sum"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.input));
        each(Operand::write(self.output));
    }

    fn validate(&self) -> Result<()> {
        for spec in [&self.input, &self.output] {
            if spec.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op: self.name(), expected: DType::F32, got: spec.dtype });
            }
            if spec.layout.rank() != 2 || !spec.layout.is_contiguous() {
                let reason = format!("{} takes dense matrices, not {:?}; copy it first", self.name(), spec.layout);
                return Err(Error::InvalidArgument { what: "operand", reason });
            }
        }
        if self.input.layout.shape() != self.output.layout.shape() {
            let (from, to) = (self.input.layout.shape(), self.output.layout.shape());
            return Err(Error::shape_mismatch(self.name(), from, to, None));
        }
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements())
    }

    /// The definition in float64. Bound: the error of n additions one after the other is at most n u sum|x| (Higham,
    /// Accuracy and Stability of Numerical Algorithms, section 4.2), in any order.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let columns = self.extents().1.max(1);
        let u = DType::F32.unit_roundoff();
        let sums = before[0].values.chunks(columns).flat_map(|row| {
            let (mut sum, mut magnitude) = (0.0, 0.0);
            (0u32..).zip(row).map(move |(i, x)| {
                sum += x.as_f64();
                magnitude += x.as_f64().abs();
                Expected::within(Scalar::F(sum), f64::from(i) * u * magnitude + f64::MIN_POSITIVE)
            })
        });
        vec![sums.collect()]
    }

    /// An element is part of all sums from its own on, so its gradient is the sum of their gradients: the sum over the row
    /// minus the sum over the elements before. The graph consists of one of the library's operations and of this one itself.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let dy = rule.gradient(0)?;
        let total = rule.graph.reduce(ReduceFn::Sum, dy, &[1], KeepDims::Yes)?;
        let before = PrefixSum { input: dy.spec(), output: dy.spec() };
        let before = rule.graph.apply(before, &[dy])?[0];
        let [total_of, before_of, own] = [0, 1, 2].map(Expr::input);
        let gradient = rule.graph.map(&(total_of - before_of + own), &[total, before, dy])?;
        rule.finish(vec![Some(gradient)])
    }

    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        let (rows, columns) = self.extents();
        let [from, to] = [&self.input, &self.output].map(|spec| spec.layout.offset() as usize);
        for row in 0..rows {
            let mut sum = 0f32;
            for column in 0..columns {
                let [at, end] = [from, to].map(|first| 4 * (first + row * columns + column));
                let x = [0, 1, 2, 3].map(|byte| inputs[0][at + byte]);
                sum += f32::from_le_bytes(x);
                outputs[0][end..end + 4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        Ok(())
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        let (rows, columns) = self.extents();
        let elements = self.input.layout.required_elements().max(self.output.layout.required_elements());
        if elements > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: self.name(), elements, max: u32::MAX.into() });
        }
        let offset = |spec: &TensorSpec| spec.layout.offset() as u32;
        let launch = Launch {
            kernel: KernelKey::new(RowByRow),
            grid: caps.fold_grid((rows as u64).div_ceil(64))?,
            bindings: vec![Slot::Input(0), Slot::Output(0)],
            params: vec![rows as u32, columns as u32, offset(&self.input), offset(&self.output)],
        };
        Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }
}

/// The only kernel. If it had specialisations, their parameters would be its fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RowByRow;

impl KernelText for RowByRow {
    fn source(&self) -> Source {
        Source {
            name: "prefix_sum".to_owned(),
            wgsl: include_str!("shaders/prefix_sum.wgsl").to_owned(),
            bindings: vec![Access::Read, Access::ReadWrite],
        }
    }

    /// The only loop walks a row, and takes one more round to find its end.
    fn loop_rounds(&self, params: &[u32]) -> u64 {
        u64::from(params[1]) + 1
    }
}

/// The sums along the rows of `x`.
fn prefix_sum(x: &Tensor) -> Result<Tensor> {
    let output = TensorSpec::new(x.dtype(), Layout::contiguous(*x.shape()));
    let mut results = Tensor::apply(x.device(), PrefixSum { input: x.spec(), output }, &[x])?;
    Ok(results.swap_remove(0))
}

/// Runs cases of any shape and values, as the harness does for the library's own operations: checks the results, the
/// bytes around them, and that a second run gives the same bits.
fn conforms(device: &Device) -> Result<usize> {
    let mut right = 0;
    for dims in [[1, 1], [3, 257], [65, 31], [1000, 64], [0, 5], [5, 0]] {
        for values in [Values::Uniform(-1.0, 1.0), Values::Integers(-4, 4)] {
            let input = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&dims)?));
            let op = PrefixSum { input, output: output(DType::F32, &dims)? };
            op.validate()?;
            let case = Case::new("prefix_sum", op, vec![values]);
            let outcome = run_case(device, &case, 1);
            assert!(matches!(outcome, Outcome::Pass { .. }), "{} on {}: {outcome:?}", case.name, device.id());
            right += 1;
        }
    }
    Ok(right)
}

fn main() -> Result<()> {
    let routes = polywarp::devices();
    for entry in routes.iter().filter(|entry| entry.unusable.is_none()) {
        let device = entry.open()?;
        let cases = conforms(&device)?;
        let x = Tensor::arange(&device, DType::F32, 1, 1, 8)?.reshape([2, 4])?;
        let recording = device.record(|| prefix_sum(&x))?;
        let sums: Vec<f32> = recording.replay()?.to_vec()?;
        assert_eq!(sums, [1.0, 3.0, 6.0, 10.0, 5.0, 11.0, 18.0, 26.0]);
        println!("{} ({}): {cases} cases of prefix_sum right, and replayed", entry.id, entry.name);
    }
    // Central differences of its own oracle prove its gradient.
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[3, 5])?));
    let proved = prove(&PrefixSum { input: spec, output: spec }.into(), &[Values::Uniform(-1.0, 1.0)], 1);
    println!("gradient: {:?}", proved.expect("the rule is the derivative").expect("there is a rule"));
    // Operands that do not fit are refused by name, before anything runs.
    let whole = Tensor::zeros(&Device::cpu(), DType::I32, [2, 2])?;
    println!("refused: {}", prefix_sum(&whole).expect_err("integers"));
    let equal = |a: PrefixSum, b: PrefixSum| Op::from(a) == Op::from(b);
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[2, 4])?));
    assert!(equal(PrefixSum { input: spec, output: spec }, PrefixSum { input: spec, output: spec }));
    Ok(())
}
