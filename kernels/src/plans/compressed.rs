//! A 2:4 compressed A as kernels take it that multiply its values: what their planners share.

use polywarp_core::ops::SparseMatmul;

use super::operand::{Operand, batch_stride};
use crate::{Arg, Slot};

/// The values as rows of half of K, and the words of metadata from one matrix to the next.
pub(super) fn values(op: &SparseMatmul) -> Option<(Operand, i64)> {
    let layout = &op.product.a.layout;
    let (dims, strides) = (layout.dims(), layout.strides());
    let rank = dims.len();
    let (batch, dense_stride) = batch_stride(&dims[..rank - 2], &strides[..rank - 2])?;
    let (m, k) = (dims[rank - 2], dims[rank - 1]);
    // A's matrices lie dense, so each is whole rows from the last.
    let rows = dense_stride / i64::try_from(k).ok()?;
    let kept = k / 2;
    let operand = Operand {
        slot: Slot::Input(0),
        element_bytes: op.values.dtype.size_bytes(),
        offset: op.values.layout.offset(),
        rows: m,
        k: kept,
        row_stride: i64::try_from(kept).ok()?,
        k_stride: 1,
        batch: if rows == 0 { 1 } else { batch },
        batch_stride: rows * i64::try_from(kept).ok()?,
    };
    Some((operand, rows * i64::try_from(k.div_ceil(32)).ok()?))
}

/// An argument of the dense product as one of the sparse one, whose metadata stand before everything but values.
pub(super) fn behind_metadata(arg: Arg) -> Arg {
    match arg {
        Arg::Address { slot: Slot::Input(at), offset_bytes } => {
            Arg::Address { slot: Slot::Input(at + 1), offset_bytes }
        }
        other => other,
    }
}
