//! Grouped products: a product (`matmul.rs`) for each group that owns rows, side by side where there are many.
//!
//! Each sees only the parts of the buffers that its operands reach, because a product widens what it is given.

use crate::cpu::elements::typed;
use crate::cpu::parallel;
use crate::cpu::scratch::{Done, Short};
use crate::cpu::view::dense;
use crate::ops::matmul::host as matmul;
use crate::ops::{GroupedMatmul, GroupedMatmulDims, Matmul};
use crate::{DType, TensorSpec};

pub(crate) fn execute(op: &GroupedMatmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    let GroupedMatmulDims { rows, n, .. } = op.dims();
    let size = op.output.dtype.size_bytes();
    let (start, row_bytes) = ((op.output.layout.offset() * size) as usize, (n * size) as usize);
    let mut rest = &mut output[start..start + rows as usize * row_bytes];
    let mut products = Vec::new();
    for (group, own) in (0..).zip(op.owned(ends(&op.ends, inputs[inputs.len() - 1])?)) {
        let (results, after) = rest.split_at_mut((own.end - own.start) as usize * row_bytes);
        rest = after;
        // Neither can be out of range: the groups own rows that there are.
        if let (false, Ok(product)) = (own.is_empty(), op.of_group(group, own)) {
            products.push((product, results));
        }
    }
    rest.fill(0);
    let run = |(product, results): &mut (Matmul, &mut [u8])| {
        let operands = [Some(&mut product.a), Some(&mut product.b), product.bias.as_mut()];
        let parts = operands.into_iter().flatten().zip(inputs).map(|(spec, bytes)| reached(spec, bytes));
        let parts: Vec<&[u8]> = parts.collect();
        matmul::execute(product, &parts, results)
    };
    if products.len() >= 2 * parallel::threads() {
        parallel::try_each(&mut products, run)
    } else {
        products.iter_mut().try_for_each(run)
    }
}

fn ends(spec: &TensorSpec, bytes: &[u8]) -> Result<Vec<i64>, Short> {
    Ok(match spec.dtype {
        DType::I32 => dense(&spec.layout, typed::<i32>(bytes))?.iter().map(|&end| end.into()).collect(),
        _ => dense(&spec.layout, typed::<u32>(bytes))?.iter().map(|&end| end.into()).collect(),
    })
}

/// The part of `bytes` that an operand reaches; the operand then lies there.
fn reached<'a>(spec: &mut TensorSpec, bytes: &'a [u8]) -> &'a [u8] {
    let layout = spec.layout;
    if layout.elements() == 0 {
        spec.layout = layout.with_offset(0);
        return &bytes[..0];
    }
    let back = layout.dims().iter().zip(layout.strides()).map(|(&dim, &stride)| (dim as i64 - 1) * stride.min(0));
    let first = layout.offset().saturating_add_signed(back.sum());
    spec.layout = layout.with_offset(layout.offset() - first);
    let size = spec.dtype.size_bytes();
    &bytes[(first * size) as usize..(layout.required_elements() * size) as usize]
}
