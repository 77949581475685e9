//! How reduced products are tuned: the product is made small, and some of its results are compared.

use crate::operation::Tuned;
use crate::ops::matmul::key::ProductKey;
use crate::ops::matmul::tuned::{dense, positions, reduced_product, sampled};
use crate::ops::{Matmul, MatmulDims, Op, Operation, ReducedMatmul};
use crate::oracle::HostTensor;
use crate::tuned::{Effort, Judged, Key};
use crate::{Layout, Result, Shape, TensorSpec};

impl Tuned for ReducedMatmul {
    fn key(&self) -> Key {
        Key::new(ProductKey::of_reduced(self).to_string())
    }

    fn class(&self) -> String {
        ProductKey::of_reduced(self).class(self.product.activation, self.function.name())
    }

    fn small(&self, effort: Effort, longer: u32) -> Option<Op> {
        reduced(self, effort, longer).map(Op::from)
    }

    fn judged(&self, inputs: &[HostTensor]) -> Result<Vec<Judged>> {
        Ok(vec![expect(self, inputs)?])
    }
}

/// `op` made small.
fn reduced(op: &ReducedMatmul, effort: Effort, longer: u32) -> Option<ReducedMatmul> {
    let product = reduced_product(&op.product, effort, longer)?;
    let small = ReducedMatmul::new(op.function, op.axis, product).ok()?;
    let output = dense(&op.output, small.output.layout.dims())?;
    ReducedMatmul { output, ..small }.check().ok()
}

/// The results to compare, of each matrix, and what they must be.
fn expect(op: &ReducedMatmul, inputs: &[HostTensor]) -> Result<Judged> {
    let MatmulDims { batch, m, n, k } = op.product.dims();
    let (results, reduced) = if op.is_of_rows() { (m, n) } else { (n, m) };
    let taken = sampled(results, batch.saturating_mul(reduced).saturating_mul(k.max(1)), std::iter::empty());

    // Rows of A and what belongs to them, or columns of B.
    let rank = op.product.output.layout.rank();
    let axis = if op.is_of_rows() { rank - 2 } else { rank - 1 };
    let product = &op.product;
    let cut = |spec: &TensorSpec, axis: Option<usize>| -> Result<TensorSpec> {
        let mut dims = spec.layout.dims().to_vec();
        if let Some(axis) = axis {
            dims[axis] = taken.len() as u64;
        }
        Ok(TensorSpec::new(spec.dtype, Layout::contiguous(Shape::new(&dims)?)))
    };
    let (of_a, of_b) = if op.is_of_rows() { (Some(axis), None) } else { (None, Some(axis)) };
    let of_bias = of_b.map(|_| 0);
    let cut_option = |spec: &Option<TensorSpec>, axis| spec.as_ref().map(|spec| cut(spec, axis)).transpose();
    let part = Matmul {
        a: cut(&product.a, of_a)?,
        b: cut(&product.b, of_b)?,
        c: cut_option(&product.c, Some(axis))?,
        bias: cut_option(&product.bias, of_bias)?,
        scale_a: cut_option(&product.scale_a, of_a)?,
        scale_b: cut_option(&product.scale_b, of_b)?,
        output: cut(&product.output, Some(axis))?,
        ..product.clone()
    };
    let part = ReducedMatmul::new(op.function, op.axis, part)?;
    let hosts = inputs.iter().zip(part.inputs()).map(|(host, spec)| {
        let cut = (0..host.shape.rank()).find(|&axis| host.shape.dims()[axis] != spec.layout.dims()[axis]);
        let values = match cut {
            Some(axis) => {
                let inner: u64 = host.shape.dims()[axis + 1..].iter().product();
                let lines = host.values.chunks((host.shape.dims()[axis] * inner) as usize);
                let line =
                    |values: &[crate::Scalar], at: u64| values[(at * inner) as usize..][..inner as usize].to_vec();
                lines.flat_map(|values| taken.iter().flat_map(|&at| line(values, at)).collect::<Vec<_>>()).collect()
            }
            None => host.values.clone(),
        };
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    });
    let hosts: Vec<HostTensor> = hosts.collect();
    let expected = part.oracle(&hosts).swap_remove(0);
    // A row is one number.
    Ok(Judged { positions: positions(batch, results, 1, &taken), expected })
}
