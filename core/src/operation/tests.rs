//! Operations that strangers write: found, equal, refused by name, run.

use super::*;
use crate::case::{Case, Values};
use crate::harness::{FailureKind, Outcome, ReferenceBackend, run_case};
use crate::{Device, Error, Scalar, Shape, Tensor};

/// Twice its operand, as a stranger may write it: with as many results, and as many answers of its oracle, as it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Twice {
    spec: TensorSpec,
    results: usize,
    answers: u64,
}

impl Operation for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::read(self.spec));
        (0..self.results).for_each(|_| each(Operand::write(self.spec)));
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.spec.layout.elements())
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("a test"))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let twice = |x: &Scalar| Expected::exact(Scalar::F(2.0 * x.as_f64()));
        vec![before[0].values.iter().take(self.answers as usize).map(twice).collect()]
    }
}

fn twice(results: usize, answers: u64) -> Twice {
    let spec = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[4]).unwrap()));
    Twice { spec, results, answers }
}

#[test]
fn a_strangers_operation_is_found_by_kind_and_equal_by_content() {
    let op = Op::from(twice(1, 4));
    assert!(op.is::<Twice>() && op.get::<crate::ops::Copy>().is_none());
    assert!(op == op.to_op() && op != Op::from(twice(1, 3)));
    assert_eq!((op.inputs().len(), op.cost().bytes_read, op.cost().flops), (1, 16, 4));
    let device = Device::new(ReferenceBackend::default());
    let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [4]).unwrap();
    let y: Vec<f32> = Tensor::apply(&device, op, &[&x]).unwrap()[0].to_vec().unwrap();
    assert_eq!(y, [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn operations_that_no_device_runs_are_refused_by_name() {
    let device = Device::new(ReferenceBackend::default());
    let x = Tensor::from_slice(&device, &[1.0f32; 4], [4]).unwrap();
    let error = Tensor::apply(&device, twice(0, 4), &[&x]).unwrap_err();
    assert!(error.to_string().contains("twice writes no operand"), "{error}");
    let error = Tensor::apply(&device, twice(1, 4), &[]).unwrap_err();
    assert!(error.to_string().contains("twice takes 1 operands, got 0"), "{error}");
    let other = x.reshape([2, 2]).unwrap();
    let error = Tensor::apply(&device, twice(1, 4), &[&other]).unwrap_err();
    assert!(error.to_string().contains("operand 0 of twice"), "{error}");
    let error = twice(1, 4).plan(&Caps::webgpu_defaults("here")).unwrap_err();
    assert!(matches!(error, Error::Unsupported { what, .. } if what == "twice"));
}

/// Doubles its operand in place; short of memory the first time.
#[cfg(feature = "cpu")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Double {
    spec: TensorSpec,
}

#[cfg(feature = "cpu")]
static DOUBLINGS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

#[cfg(feature = "cpu")]
impl Operation for Double {
    fn name(&self) -> &'static str {
        "double"
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        each(Operand::update(self.spec));
    }

    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.spec.layout.elements())
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("a test"))
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![before[0].values.iter().map(|x| Expected::exact(Scalar::F(2.0 * x.as_f64()))).collect()]
    }

    fn host(&self, _: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        // Before anything is written, as `Operation::host` demands.
        if DOUBLINGS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            return Err(HostError::OutOfMemory { bytes: 64 });
        }
        for x in outputs[0].chunks_exact_mut(4) {
            let doubled = 2.0 * f32::from_le_bytes([x[0], x[1], x[2], x[3]]);
            x.copy_from_slice(&doubled.to_le_bytes());
        }
        Ok(())
    }
}

#[cfg(feature = "cpu")]
#[test]
fn an_update_that_was_short_of_memory_is_made_once() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [4]).unwrap();
    assert!(Tensor::apply(&device, Double { spec: x.spec() }, &[&x]).unwrap().is_empty());
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0, 8.0]);
}

#[cfg(feature = "cpu")]
#[test]
fn an_operation_without_a_routine_of_the_host_is_refused_there() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[1.0f32; 4], [4]).unwrap();
    let error = Tensor::apply(&device, twice(1, 4), &[&x]).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { what, .. } if what == "twice"), "{error}");
}

#[test]
fn an_oracle_that_says_too_little_fails_its_case() {
    let device = Device::new(ReferenceBackend::default());
    let outcome = |answers| {
        let case = Case::new("twice", twice(1, answers), vec![Values::Integers(-4, 4)]);
        run_case(&device, &case, 0)
    };
    assert!(matches!(outcome(4), Outcome::Pass { .. }));
    let Outcome::Fail(failure) = outcome(3) else { panic!("3 answers for 4 elements pass") };
    assert_eq!(failure.kind, FailureKind::Oracle);
}
