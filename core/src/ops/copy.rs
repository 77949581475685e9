//! Copies: the same bits in another layout.
//!
//! Contiguous, transposed and sliced copies, on either side. Bits move unchanged, NaN payloads and subnormals included;
//! conversion between dtypes is a cast ([`super::Map`]). The only op whose output may be a strided view.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;

/// A copy of every element of one view into another of the same shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Copy {
    /// What is read.
    pub input: TensorSpec,
    /// Where it goes: any view that reaches no element twice.
    pub output: TensorSpec,
}

impl Copy {
    /// A checked copy.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::OverlappingOutput`].
    pub fn new(input: TensorSpec, output: TensorSpec) -> Result<Copy> {
        if input.layout.shape() != output.layout.shape() {
            return Err(Error::shape_mismatch("copy", input.layout.shape(), output.layout.shape(), None));
        }
        if input.dtype != output.dtype {
            return Err(Error::DTypeMismatch { op: "copy", expected: output.dtype, got: input.dtype });
        }
        if output.layout.may_overlap() {
            return Err(Error::OverlappingOutput {
                op: "copy",
                shape: output.layout.dims().to_vec(),
                strides: output.layout.strides().to_vec(),
            });
        }
        Ok(Copy { input, output })
    }
}

impl Copy {
    /// All of `bytes` bytes, from the start of one buffer to that of another.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`].
    pub fn of_bytes(bytes: u64) -> Result<Copy> {
        let all = TensorSpec::dense(DType::U8, Shape::new(&[bytes])?);
        Copy::new(all, all)
    }
}

impl Operation for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        Copy::new(self.input, self.output).map(drop)
    }

    /// None: bits only move.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(0)
    }

    /// The input, exactly.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![inputs[0].values.iter().map(|&value| Expected::exact(value)).collect()]
    }

    /// The gradient is the output's.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let rule = RuleBuilder::new(self, needs)?;
        let gradient = rule.gradient(0)?;
        let wanted = if rule.wants(0) { vec![Some(gradient)] } else { Vec::new() };
        rule.finish(wanted)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], outputs[0])
    }

    fn facts(&self) -> Facts {
        Facts { moves_bits: true, scatters: true, ..Facts::default() }
    }

    /// The op on the first `extent` indices of the output's `axis` alone.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        Some(Copy { input: self.input.first(axis, extent)?, output: self.output.first(axis, extent)? }.into())
    }

    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = Thinning::new(self.output.layout.dims(), |_| true);
        let positions = thinning.of(&self.output.layout)?;
        let output = sample::dense(self.output.dtype, &positions);
        Ok(Some(Sample { op: Copy::new(thinning.of_spec(&self.input)?, output)?.into(), positions: vec![positions] }))
    }
}
