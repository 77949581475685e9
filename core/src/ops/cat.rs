//! Tensors one behind the other along an axis: `concat` of the Array API standard, PyTorch's `cat`.
//!
//! One launch of any number of operands that the device can bind; more are joined in groups first. Operands may be any views. Bits are
//! moved as they are. The gradient of each operand is its slice.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;
use super::walk::Walk;

const OP: &str = "cat";

/// Operands that every device takes in one launch: WebGPU guarantees 8 storage buffers, one holds the result.
const GROUP: usize = 7;

/// The inputs along `axis`, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cat {
    /// What is joined: any views of one dtype, alike but for their extents along the axis.
    pub inputs: Vec<TensorSpec>,
    /// Along which.
    pub axis: usize,
    /// Dense output.
    pub output: TensorSpec,
}

/// How the elements of a [`Cat`] are walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatWalk {
    /// Dimensions of the result, and each operand's strides.
    pub walk: Walk,
    /// The extent of each operand along the walk's axis.
    pub extents: Vec<u64>,
}

impl Cat {
    /// A checked join whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no inputs, [`Error::AxisOutOfRange`], [`Error::DTypeMismatch`]; [`Error::ShapeMismatch`] for
    /// inputs that differ along another axis or in rank.
    pub fn new(inputs: Vec<TensorSpec>, axis: usize) -> Result<Cat> {
        let Some(first) = inputs.first() else {
            let reason = format!("{OP} joins one tensor at least, got none");
            return Err(Error::InvalidArgument { what: "inputs", reason });
        };
        let mut dims = first.layout.dims().to_vec();
        first.layout.shape().axis(axis)?;
        dims[axis] =
            inputs.iter().filter_map(|input| input.layout.dims().get(axis)).fold(0, |sum, n| sum.saturating_add(*n));
        let output = TensorSpec::new(first.dtype, Layout::contiguous(Shape::new(&dims)?));
        Cat { inputs, axis, output }.check()
    }

    /// The fewest dimensions in which all operands can be walked.
    pub fn walk(&self) -> CatWalk {
        let dims = self.output.layout.dims();
        let strides: Vec<Vec<i64>> = self.inputs.iter().map(|input| input.layout.strides().to_vec()).collect();
        let mut walk = Walk::around(dims, &strides, self.axis);
        let inner = walk.join_inner().unwrap_or(1);
        let extents = self.inputs.iter().map(|input| input.layout.dims()[self.axis] * inner).collect();
        CatWalk { walk, extents }
    }
}

impl Operation for Cat {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read inputs; write output }

    fn validate(&self) -> Result<()> {
        let (shape, mut joined) = (self.output.layout.shape(), 0u64);
        shape.axis(self.axis)?;
        for input in &self.inputs {
            if input.dtype != self.output.dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: self.output.dtype, got: input.dtype });
            }
            let dims = input.layout.dims();
            let differs = |axis: &usize| *axis != self.axis && dims[*axis] != shape.dims()[*axis];
            let first = &self.inputs[0];
            if dims.len() != shape.rank() {
                return Err(Error::shape_mismatch(OP, first.layout.shape(), input.layout.shape(), None));
            }
            if let Some(axis) = (0..dims.len()).find(differs) {
                return Err(Error::shape_mismatch(OP, first.layout.shape(), input.layout.shape(), Some(axis)));
            }
            joined = joined.saturating_add(dims[self.axis]);
        }
        if joined != shape.dims()[self.axis] {
            let reason = format!("{OP} of {joined} indices along axis {} into {shape:?}", self.axis);
            return Err(Error::InvalidArgument { what: "output", reason });
        }
        check_dense_output(OP, &self.output)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let inner: u64 = self.output.layout.dims()[self.axis + 1..].iter().product();
        let outer: u64 = self.output.layout.dims()[..self.axis].iter().product();
        let mut joined = Vec::with_capacity(self.output.layout.elements() as usize);
        for row in 0..outer as usize {
            for input in before {
                let run = (input.shape.dims()[self.axis] * inner) as usize;
                joined.extend(input.values[row * run..][..run].iter().map(|&x| Expected::exact(x)));
            }
        }
        vec![joined]
    }

    /// The slice of each operand.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let rule = RuleBuilder::new(self, needs)?;
        let (dy, mut start, mut gradients) = (rule.gradient(0)?, 0, Vec::new());
        for (number, input) in self.inputs.iter().enumerate() {
            let end = start + input.layout.dims()[self.axis];
            if rule.wants(number) {
                gradients.push(Some(dy.slice(self.axis, start, end)?));
            }
            start = end;
        }
        rule.finish(gradients)
    }

    /// More than seven operands in groups, whose results are joined.
    fn decompose(&self) -> Result<Option<Graph>> {
        if self.inputs.len() <= GROUP {
            return Ok(None);
        }
        let mut graph = Builder::new(self.inputs.clone());
        let mut parts = (0..self.inputs.len()).map(|number| graph.input(number)).collect::<Result<Vec<Value>>>()?;
        while parts.len() > 1 {
            let mut joined = Vec::new();
            for group in parts.chunks(GROUP) {
                if let &[one] = group {
                    joined.push(one);
                    continue;
                }
                let op = Cat::new(group.iter().map(Value::spec).collect(), self.axis)?;
                joined.extend(graph.apply(op, group)?);
            }
            parts = joined;
        }
        graph.finish(OP, &parts, &[self.output]).map(Some)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" axis[{}]", self.axis));
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis == self.axis {
            return None;
        }
        let inputs = self.inputs.iter().map(|input| input.first(axis, extent)).collect::<Option<_>>()?;
        Some(Cat { inputs, output: self.output.dense_first(axis, extent)?, ..self.clone() }.into())
    }

    /// Every so-many-th line along the axis.
    fn sample(&self) -> Result<Option<Sample>> {
        let thinning = sample::Thinning::new(self.output.layout.dims(), |axis| axis != self.axis);
        let positions = thinning.of(&self.output.layout)?;
        let inputs = self.inputs.iter().map(|input| thinning.of_spec(input)).collect::<Result<Vec<_>>>()?;
        let op = Cat { inputs, axis: self.axis, output: sample::dense(self.output.dtype, &positions) };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn dense(dims: &[u64]) -> TensorSpec {
        TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
    }

    #[test]
    fn dense_operands_are_walked_in_two_dimensions() {
        let CatWalk { walk, extents } = Cat::new(vec![dense(&[2, 3, 4, 5]), dense(&[2, 3, 1, 5])], 2).unwrap().walk();
        assert_eq!((walk.dims, walk.axis), (vec![6, 25], 1));
        assert_eq!((walk.strides, extents), (vec![vec![20, 1], vec![5, 1]], vec![20, 5]));
    }

    #[test]
    fn many_operands_are_joined_in_groups() {
        let graph = Cat::new(vec![dense(&[2, 3]); 50], 0).unwrap().decompose().unwrap().unwrap();
        // 7 groups of 7 and one alone, then 7 of these and the last.
        assert_eq!(graph.steps.len(), 9);
        assert_eq!(Cat::new(vec![dense(&[2, 3]); 7], 0).unwrap().decompose().unwrap(), None);
    }
}
