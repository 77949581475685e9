//! How grouped products are tuned: their groups become few in the small case; `ops/matmul/tuned.rs` does the rest.

use crate::operation::Tuned;
use crate::ops::matmul::key::ProductKey;
use crate::ops::matmul::tuned::{positions, reduced_product, sampled, view};
use crate::ops::{GroupedMatmul, GroupedMatmulDims, Matmul, MatmulDims, Op, Operation};
use crate::oracle::HostTensor;
use crate::tuned::{Effort, Judged, Key};
use crate::{Layout, Result, Scalar, Shape, TensorSpec};

/// Groups of a case.
const MOST_GROUPS: u64 = 4;

impl Tuned for GroupedMatmul {
    fn key(&self) -> Key {
        Key::new(ProductKey::of_grouped(self).to_string())
    }

    fn class(&self) -> String {
        ProductKey::of_grouped(self).class(self.activation, "")
    }

    fn small(&self, effort: Effort, longer: u32) -> Option<Op> {
        reduced(self, effort, longer).map(Op::from)
    }

    fn judged(&self, inputs: &[HostTensor]) -> Result<Vec<Judged>> {
        Ok(vec![expect(self, inputs)?])
    }
}

/// `op` made small; `None` without groups, which have one kernel.
fn reduced(op: &GroupedMatmul, effort: Effort, longer: u32) -> Option<GroupedMatmul> {
    let GroupedMatmulDims { groups, rows, .. } = op.dims();
    if groups == 0 {
        return None;
    }
    let first = Matmul { output: op.output, ..op.of_group(0, 0..rows).ok()? };
    let small = reduced_product(&first, effort, longer)?;
    let MatmulDims { n, k, .. } = small.dims();
    let groups = groups.min(MOST_GROUPS);
    let bias = op.bias.as_ref().map_or(Some(None), |bias| view(bias, &[groups, n]).map(Some))?;
    let (b, ends) = (view(&op.b, &[groups, k, n])?, view(&op.ends, &[groups])?);
    GroupedMatmul { a: small.a, b, bias, ends, output: small.output, ..op.clone() }.check().ok()
}

/// The rows to compare, those at which groups begin and end among them, and what they must be.
fn expect(op: &GroupedMatmul, inputs: &[HostTensor]) -> Result<Judged> {
    let GroupedMatmulDims { rows: m, n, k, .. } = op.dims();
    let last = inputs.len() - 1;
    let owned = op.owned(inputs[last].values.iter().map(|end| end.as_i64()));
    let edges = owned.iter().flat_map(|own| [own.start, own.end.saturating_sub(1), own.end]);
    let rows = sampled(m, n.saturating_mul(k), edges);
    let sample = |spec: &TensorSpec, dims: &[u64]| -> Result<TensorSpec> {
        Ok(TensorSpec::new(spec.dtype, Layout::contiguous(Shape::new(dims)?)))
    };
    let count = rows.len() as u64;
    let part = GroupedMatmul {
        a: sample(&op.a, &[count, k])?,
        b: sample(&op.b, op.b.layout.dims())?,
        bias: op.bias.as_ref().map(|bias| sample(bias, bias.layout.dims())).transpose()?,
        ends: sample(&op.ends, op.ends.layout.dims())?,
        output: sample(&op.output, &[count, n])?,
        ..op.clone()
    };
    let hosts = inputs.iter().zip(part.inputs()).enumerate().map(|(i, (host, spec))| {
        let values = match i {
            0 => rows.iter().flat_map(|&row| host.values[(row * k) as usize..][..k as usize].to_vec()).collect(),
            // Each group owns those of its rows that were taken.
            _ if i == last => {
                owned.iter().map(|own| Scalar::I(rows.partition_point(|&row| row < own.end) as i64)).collect()
            }
            _ => host.values.clone(),
        };
        HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
    });
    let hosts: Vec<HostTensor> = hosts.collect();
    let expected = part.check()?.oracle(&hosts).swap_remove(0);
    Ok(Judged { positions: positions(1, m, n, &rows), expected })
}
