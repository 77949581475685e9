//! Products along a part of K, and the scaling of their sums by the scales of blocks.

use std::borrow::Cow;
use std::ops::Range;

use crate::TensorSpec;
use crate::cpu::elements::typed;
use crate::cpu::parallel;
use crate::cpu::scratch::Short;
use crate::cpu::view::dense;
use crate::ops::{Matmul, MatmulDims, ScaleBlocks};

/// The product of the elements `range` of K alone, with neither scales nor epilogue; `None` for a range that is not in K.
pub(super) fn along_k(op: &Matmul, range: Range<u64>) -> Option<Matmul> {
    let rank = op.a.layout.rank();
    let cut = |spec: &TensorSpec, axis| {
        Some(TensorSpec::new(spec.dtype, spec.layout.slice(axis, range.start, range.end, 1).ok()?))
    };
    Some(Matmul::product(cut(&op.a, rank - 1)?, cut(&op.b, rank - 2)?, op.output))
}

/// The scales of a product, dense.
pub(super) struct BlockScales<'a> {
    a: Option<Cow<'a, [f32]>>,
    b: Option<Cow<'a, [f32]>>,
    blocks: ScaleBlocks,
    dims: MatmulDims,
}

impl<'a> BlockScales<'a> {
    pub fn of(op: &Matmul, blocks: ScaleBlocks, inputs: &[&'a [u8]]) -> Result<BlockScales<'a>, Short> {
        let places = op.places();
        let scales = |spec: Option<TensorSpec>, place: Option<usize>| {
            spec.zip(place).map(|(spec, place)| dense(&spec.layout, typed::<f32>(inputs[place]))).transpose()
        };
        let (a, b) = (scales(op.scale_a, places.scale_a)?, scales(op.scale_b, places.scale_b)?);
        Ok(BlockScales { a, b, blocks, dims: op.dims() })
    }

    /// Scales the sums of block number `block` of K and adds them to `total`.
    pub fn add(&self, block: usize, sums: &[f32], total: &mut [f32]) {
        let MatmulDims { m, n, k, .. } = self.dims;
        let [[rows, along], [_, columns]] = self.blocks.extents([m, n, k]).map(|last| last.map(|x| x as usize));
        let (m, n) = (m as usize, n as usize);
        let (block_m, block_n) = (self.blocks.m as usize, self.blocks.n as usize);
        if n == 0 {
            return;
        }
        parallel::chunks(total, n, |row, total| {
            let sums = parallel::chunk(sums, n, row);
            let matrix = row / m;
            let of_row = self.a.as_ref().map_or(1.0, |a| a[(matrix * rows + row % m / block_m) * along + block]);
            let of_columns = self.b.as_ref().map(|b| &b[(matrix * along + block) * columns..][..columns]);
            for (i, (total, sums)) in total.chunks_mut(block_n).zip(sums.chunks(block_n)).enumerate() {
                let of_column = of_columns.map_or(1.0, |scales| scales[i]);
                total.iter_mut().zip(sums).for_each(|(x, &sum)| *x += sum * of_row * of_column);
            }
        });
    }
}
