//! Quantising by blocks: views a matrix as blocks, so that their scales broadcast, and turns blocks back into a matrix.

use crate::{DType, Error, KeepDims, ReduceFn, Result, Shape, Tensor};

use super::{OP, QuantizeScales, Quantized, scale_of, steps_of, value_of};

/// A tensor [..., rows, columns] as [batch, blocks down, block rows, blocks across, block columns]. Partial blocks are
/// filled up with zeros, in a copy.
struct Blocked {
    tensor: Tensor,
    /// The shape of the original tensor.
    shape: Shape,
    /// Batch, blocks down, blocks across.
    counts: [u64; 3],
}

impl Blocked {
    fn of(tensor: &Tensor, [rows, columns]: [u64; 2]) -> Result<Blocked> {
        let shape = *tensor.shape();
        let ([batch @ .., all_rows, all_columns], true) = (shape.dims(), rows > 0 && columns > 0) else {
            let reason = format!("blocks of {rows} x {columns} in shape {:?}", tensor.dims());
            return Err(Error::InvalidArgument { what: "granularity", reason });
        };
        let (down, across) = (all_rows.div_ceil(rows), all_columns.div_ceil(columns));
        // A block larger than the matrix is cut to the matrix, so that no more zeros than needed are added.
        let (rows, columns) = (rows.min((*all_rows).max(1)), columns.min((*all_columns).max(1)));
        let (filled_rows, filled_columns) = (down.saturating_mul(rows), across.saturating_mul(columns));
        let batch = batch.iter().copied().fold(1, u64::saturating_mul);
        let flat = tensor.reshape([batch, *all_rows, *all_columns])?;
        let filled = if filled_rows == *all_rows && filled_columns == *all_columns {
            flat
        } else {
            let filled = Tensor::zeros(tensor.device(), tensor.dtype(), [batch, filled_rows, filled_columns])?;
            filled.slice(1, 0..*all_rows)?.slice(2, 0..*all_columns)?.assign(&flat)?;
            filled
        };
        let tensor = filled.reshape([batch, down, rows, across, columns])?;
        Ok(Blocked { tensor, shape, counts: [batch, down, across] })
    }

    /// The shape of scales that broadcast to the blocks.
    fn scales(&self) -> [u64; 5] {
        let [batch, down, across] = self.counts;
        [batch, down, 1, across, 1]
    }

    /// Turns `blocks`, of this blocked shape, into a dense tensor of the original shape.
    fn put_back(&self, blocks: &Tensor) -> Result<Tensor> {
        let [batch, down, rows, across, columns] = *blocks.dims() else { return blocks.reshape(self.shape) };
        let ([.., all_rows, all_columns], flat) = (self.shape.dims(), [batch, down * rows, across * columns]) else {
            return blocks.reshape(self.shape);
        };
        let whole = blocks.reshape(flat)?.slice(1, 0..*all_rows)?.slice(2, 0..*all_columns)?;
        whole.contiguous()?.reshape(self.shape)
    }
}

/// The shape of the scales for a tensor of this shape, in blocks of `rows` x `columns`.
fn scales_shape(shape: &Shape, [rows, columns]: [u64; 2]) -> Result<Shape> {
    let mut dims = shape.dims().to_vec();
    let rank = dims.len();
    dims[rank - 2] = dims[rank - 2].div_ceil(rows);
    dims[rank - 1] = dims[rank - 1].div_ceil(columns);
    Shape::new(&dims)
}

/// Quantises `x` to `dtype` with one scale for each block.
pub(super) fn quantize(x: &Tensor, dtype: DType, blocks: [u64; 2]) -> Result<Quantized> {
    let blocked = Blocked::of(x, blocks)?;
    let largest = blocked.tensor.reduce(ReduceFn::AbsMax, [2, 4], KeepDims::Yes)?;
    let QuantizeScales { scales, inverses } = QuantizeScales::of(&scale_of(dtype)?, &largest)?;
    let steps = Tensor::map_named(OP, &steps_of(dtype)?, &[&blocked.tensor, &inverses])?;
    let scales = scales.reshape(scales_shape(x.shape(), blocks)?)?;
    Ok(Quantized { values: blocked.put_back(&steps)?, scales, blocks: Some(blocks) })
}

/// The values that the steps represent, as `dtype`.
pub(super) fn dequantize(values: &Tensor, scales: &Tensor, blocks: [u64; 2], dtype: DType) -> Result<Tensor> {
    let blocked = Blocked::of(values, blocks)?;
    let scales = scales.broadcast_to(scales_shape(values.shape(), blocks)?)?.reshape(blocked.scales())?;
    blocked.put_back(&Tensor::map_named("dequantize", &value_of(dtype), &[&blocked.tensor, &scales])?)
}

impl Quantized {
    /// A tensor of given quantised values, with scales of blocks of `rows` x `columns` values: f32, broadcast to [...,
    /// ceil(values' rows / `rows`), ceil(values' columns / `columns`)].
    ///
    /// # Errors
    /// As [`Quantized::new`]; [`Error::InvalidArgument`] for a block of no elements and for values of rank below 2.
    pub fn with_blocks(values: Tensor, scales: Tensor, rows: u64, columns: u64) -> Result<Quantized> {
        if rows == 0 || columns == 0 || values.rank() < 2 {
            let reason = format!("blocks of {rows} x {columns} in shape {:?}", values.dims());
            return Err(Error::InvalidArgument { what: "granularity", reason });
        }
        Quantized::check(&values, &scales)?;
        let blocks = [rows, columns];
        scales.broadcast_to(scales_shape(values.shape(), blocks)?)?;
        Ok(Quantized { values, scales, blocks: Some(blocks) })
    }

    /// Rows and columns of the blocks that share a scale; `None` where scales broadcast to the values.
    pub fn blocks(&self) -> Option<[u64; 2]> {
        self.blocks
    }
}
