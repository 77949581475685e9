//! Scales of blocks: those of A and B change along K, too, so that no outlier spoils more than its own block.
//!
//! The sum over K is cut into blocks. Each block's sum (exact in i32, or in f32 as in any product) becomes f32, is
//! multiplied by the scale of A's block, then by that of B's, and is added in f32 to the blocks before it. The recipe
//! of DeepSeek-V3 (arXiv 2412.19437, section 3.3.2) is m = 1, n = 128, k = 128.

use std::ops::Range;

use super::Matmul;
use crate::oracle::Approx;
use crate::{DType, Error, Result, Scalar};

/// How many elements share a scale along each dimension of a product; at an end of a dimension there may be fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleBlocks {
    /// Rows of A.
    pub m: u64,
    /// Columns of B.
    pub n: u64,
    /// Neighbours along K, in A and B alike.
    pub k: u64,
}

impl ScaleBlocks {
    /// Refuses blocks of no elements.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`].
    pub fn check(self) -> Result<ScaleBlocks> {
        if self.m > 0 && self.n > 0 && self.k > 0 {
            return Ok(self);
        }
        let reason = format!("{self:?}: a block has one element at least along every dimension");
        Err(Error::InvalidArgument { what: "scale blocks", reason })
    }

    /// The last two extents of A's scales, or of B's, for a product of these extents.
    pub fn extents(&self, [m, n, k]: [u64; 3]) -> [[u64; 2]; 2] {
        let k = k.div_ceil(self.k);
        [[m.div_ceil(self.m), k], [k, n.div_ceil(self.n)]]
    }

    /// The blocks along a K of this extent.
    pub fn along_k(&self, k: u64) -> impl Iterator<Item = Range<u64>> {
        let block = self.k;
        (0..k.div_ceil(block)).map(move |i| i * block..k.min(i.saturating_add(1).saturating_mul(block)))
    }
}

impl Matmul {
    /// The last two extents of the scales of A and of B.
    pub(super) fn scale_extents(&self) -> [[u64; 2]; 2] {
        let dims = self.dims();
        match self.scale_blocks {
            Some(blocks) => blocks.extents([dims.m, dims.n, dims.k]),
            None => [[dims.m, 1], [1, dims.n]],
        }
    }

    /// The value that the sum over `blocks` stands for. `sum` gives the sum of a block of K; `scales` gives the scales
    /// of A and B for the number of a block.
    ///
    /// Bound: that of each block and its scaling, and of the f32 sum of them ([`Approx::sum`]). Where a block's scaled sum
    /// overflows the element is open: a device may multiply and add in one step, in which it does not.
    pub(super) fn blocked(
        &self,
        blocks: ScaleBlocks,
        sum: impl Fn(Range<usize>) -> Approx,
        scales: impl Fn(usize) -> [Option<Scalar>; 2],
    ) -> Approx {
        let ranges = blocks.along_k(self.dims().k).map(|range| range.start as usize..range.end as usize);
        let mut overflows = false;
        let block = |(i, range)| {
            let scales = scales(i);
            let term = self.scaled(sum(range), scales);
            let finite = scales.iter().flatten().all(|scale| scale.as_f64().is_finite());
            overflows |= finite && term.value.as_f64().is_infinite();
            term
        };
        let terms: Vec<Approx> = ranges.enumerate().map(block).collect();
        let own: f64 = terms.iter().map(|term| term.error).sum();
        let total = Approx::sum(terms.iter().map(|term| term.value.as_f64()), DType::F32, 0.0);
        Approx { error: if overflows { f64::INFINITY } else { total.error + own }, ..total }
    }
}
