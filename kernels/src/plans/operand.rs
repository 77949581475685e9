//! Operands of matrix products, as kernels see them: strides of rows and of k, and how far one matrix of a batch is from
//! the next. What families share that plan products; which kernel takes which operand is theirs.

use polywarp_core::ops::{Matmul, TensorSpec};

use crate::{Arg, Slot};

/// A or B of a product. A "row" runs along M of A and along N of B, so that both are rows x k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    /// The buffer.
    pub slot: Slot,
    /// Bytes per element.
    pub element_bytes: u64,
    /// Elements from the buffer's start to the first.
    pub offset: u64,
    /// M or N.
    pub rows: u64,
    /// K.
    pub k: u64,
    /// Elements from a row to the next.
    pub row_stride: i64,
    /// Elements along k.
    pub k_stride: i64,
    /// Matrices: those of the op's batch, where this operand differs from one to the next; else 1.
    pub batch: u64,
    /// Elements from a matrix to the next; 0 where one serves the whole batch.
    pub batch_stride: i64,
}

impl Operand {
    /// A of `op`; `None` when its batch dimensions are no single stride.
    pub fn a(op: &Matmul) -> Option<Operand> {
        let rank = op.a.layout.rank();
        Operand::new(&op.a, Slot::Input(0), rank - 2, rank - 1)
    }

    /// B of `op`.
    pub fn b(op: &Matmul) -> Option<Operand> {
        let rank = op.b.layout.rank();
        Operand::new(&op.b, Slot::Input(1), rank - 1, rank - 2)
    }

    fn new(spec: &TensorSpec, slot: Slot, row_axis: usize, k_axis: usize) -> Option<Operand> {
        let layout = &spec.layout;
        let (dims, strides) = (layout.dims(), layout.strides());
        let (batch, batch_stride) = batch_stride(&dims[..dims.len() - 2], &strides[..dims.len() - 2])?;
        // A dimension of one element has no stride that matters.
        let stride = |axis: usize| if dims[axis] == 1 { 0 } else { strides[axis] };
        Some(Operand {
            slot,
            element_bytes: spec.dtype.size_bytes(),
            offset: layout.offset(),
            rows: dims[row_axis],
            k: dims[k_axis],
            row_stride: stride(row_axis),
            k_stride: stride(k_axis),
            batch: if batch_stride == 0 { 1 } else { batch },
            batch_stride,
        })
    }

    /// The same elements with rows and k exchanged.
    pub fn transposed(self) -> Operand {
        Operand { rows: self.k, k: self.rows, row_stride: self.k_stride, k_stride: self.row_stride, ..self }
    }

    /// Bytes from the buffer's start to the first element.
    pub fn offset_bytes(&self) -> u64 {
        self.offset * self.element_bytes
    }
}

/// How many matrices the leading dimensions hold, and the one stride that leads from each to the next, if there is one.
pub(crate) fn batch_stride(dims: &[u64], strides: &[i64]) -> Option<(u64, i64)> {
    let mut axes = dims.iter().zip(strides).rev().filter(|&(&extent, _)| extent != 1);
    let Some((&first, &stride)) = axes.next() else { return Some((1, 0)) };
    let mut count = first;
    for (&extent, &step) in axes {
        if step != i64::try_from(count).ok()?.checked_mul(stride)? {
            return None;
        }
        count = count.checked_mul(extent)?;
    }
    Some((count, stride))
}

/// C and bias as arguments of a kernel: C's address, the elements from row to row and from matrix to matrix, bias' address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Addends {
    pub c: Arg,
    pub ldc: i64,
    pub batch_stride_c: i64,
    pub bias: Arg,
}

impl Addends {
    pub const NONE: Addends = Addends { c: Arg::Null, ldc: 0, batch_stride_c: 0, bias: Arg::Null };

    /// Those of `op`, whose A and B are inputs 0 and 1; `None` when C's columns, or bias, are no neighbours, or C's batch
    /// is no single stride.
    pub fn of(op: &Matmul) -> Option<Addends> {
        let places = op.places();
        let mut addends = Addends::NONE;
        if let Some(c) = op.c.filter(|_| op.beta != 0.0) {
            let (dims, strides) = (c.layout.dims(), c.layout.strides());
            let rank = dims.len();
            if dims[rank - 1] != 1 && strides[rank - 1] != 1 {
                return None;
            }
            addends.c = at(&c, places.c?);
            addends.ldc = strides[rank - 2];
            addends.batch_stride_c = batch_stride(&dims[..rank - 2], &strides[..rank - 2])?.1;
        }
        if let Some(bias) = op.bias {
            if bias.layout.dims()[0] != 1 && bias.layout.strides()[0] != 1 {
                return None;
            }
            addends.bias = at(&bias, places.bias?);
        }
        Some(addends)
    }
}

/// Where a tensor that is input number `place` starts.
pub(super) fn at(spec: &TensorSpec, place: usize) -> Arg {
    Arg::Address { slot: Slot::Input(place), offset_bytes: spec.layout.offset() * spec.dtype.size_bytes() }
}

/// The scales of an operand's rows or columns, as arguments of a kernel: their address, or null for ones, the elements from
/// one to the next (0 where one serves all), and those from matrix to matrix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    address: Option<Arg>,
    stride: i64,
    batch_stride: i64,
}

impl Scale {
    pub const NONE: Scale = Scale { address: None, stride: 0, batch_stride: 0 };

    /// Those of A's rows and of B's columns; `None` when a batch of them is no single stride.
    pub fn both(op: &Matmul) -> Option<[Scale; 2]> {
        let [place_a, place_b] = op.places().scales();
        let rank = op.output.layout.rank();
        Some([
            Scale::of(op.scale_a.as_ref().zip(place_a), rank - 2)?,
            Scale::of(op.scale_b.as_ref().zip(place_b), rank - 1)?,
        ])
    }

    fn of(scale: Option<(&TensorSpec, usize)>, axis: usize) -> Option<Scale> {
        let Some((spec, place)) = scale else { return Some(Scale::NONE) };
        let (dims, strides) = (spec.layout.dims(), spec.layout.strides());
        let batch = dims.len() - 2;
        let (_, batch_stride) = batch_stride(&dims[..batch], &strides[..batch])?;
        let stride = if dims[axis] == 1 { 0 } else { strides[axis] };
        Some(Scale { address: Some(at(spec, place)), stride, batch_stride })
    }

    pub fn args(&self) -> [Arg; 3] {
        [self.address.clone().unwrap_or(Arg::Null), Arg::I64(self.stride), Arg::I64(self.batch_stride)]
    }
}

/// The number by which kernels know an activation (`Activation` in `cuda/epilogue.cuh`).
pub(crate) fn activation(op: &Matmul) -> Option<u32> {
    activation_number(op.activation)
}

/// The same of the activation itself.
pub(crate) fn activation_number(activation: Option<polywarp_core::ops::UnaryFn>) -> Option<u32> {
    use polywarp_core::ops::UnaryFn;
    Some(match activation {
        None => 0,
        Some(UnaryFn::Relu) => 1,
        Some(UnaryFn::Gelu) => 2,
        Some(UnaryFn::Silu) => 3,
        Some(UnaryFn::Tanh) => 4,
        Some(UnaryFn::Sigmoid) => 5,
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_stride_finds_the_one_stride_or_none() {
        assert_eq!(batch_stride(&[], &[]), Some((1, 0)));
        assert_eq!(batch_stride(&[4, 3], &[300, 100]), Some((12, 100)));
        assert_eq!(batch_stride(&[4, 1, 3], &[300, 7, 100]), Some((12, 100)));
        assert_eq!(batch_stride(&[4, 3], &[0, 0]), Some((12, 0)));
        // Broadcast along one of two dimensions: two strides.
        assert_eq!(batch_stride(&[4, 3], &[0, 100]), None);
        assert_eq!(batch_stride(&[4, 3], &[100, 400]), None);
        assert_eq!(batch_stride(&[1, 5], &[0, -64]), Some((5, -64)));
    }
}
