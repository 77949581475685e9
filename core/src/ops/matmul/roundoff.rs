//! The error of a product's terms before they are added: from the precision that the caller asked for, and from tensor
//! cores that add 8-bit floats with few bits.
//!
//! Not here: the sum itself and its bound (`oracle.rs`), which takes these numbers as they are.

use super::{Matmul, PROMOTED_EVERY};
use crate::{DType, Precision};

/// Where f32 is split (`High`), the bound counts each element as at least this share of the largest of its matrix.
const SPLIT_FLOOR: f64 = 1.0 / (1u64 << 29) as f64;

/// One tensor-core instruction adds this many products of 8-bit floats, and cuts off bits below this share of the largest.
pub(super) const TENSOR_CORE_PRODUCTS: u64 = 32;
pub(super) const TENSOR_CORE_ROUNDOFF: f64 = 1.0 / 8192.0; // 2^-13: 14 bits, the leading one among them

impl Matmul {
    /// Relative error each product may carry before it is added. f32: two operand roundings at tf32 or f16/bf16 for
    /// `Medium` and `Low`, the dropped low-order products of a split for `High`; nothing at `Highest`. A split into parts of f16
    /// scales each matrix into their range, below which parts have a fixed distance: for this error an element counts as
    /// its magnitude plus 2^-29 of the largest finite one of its matrix.
    ///
    /// 8-bit floats: the tensor cores of Ada and Hopper take 32 products and the sum so far, shift them to the largest
    /// exponent among them and cut off all but 14 bits (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.5.2;
    /// a sum of 13 bits of fraction on Ada: SageAttention2, arXiv 2411.10958). So each of the 32, the sum, and the
    /// result may lose 2^-13 of the largest, which is at most the sum of all |a||b| since the last promotion. That is,
    /// for the h = min(k, 128) products between two promotions, h + 2 ceil(h / 32) times 2^-13 of them all: 1.7 %. A
    /// kernel that never promotes loses about K / 4 times 2^-13 where the products have one sign, and exceeds the bound
    /// for long K.
    pub fn product_roundoff(&self) -> f64 {
        match (self.a.dtype, self.precision) {
            (DType::F8E4M3 | DType::F8E5M2, _) => {
                let chunk = self.dims().k.min(PROMOTED_EVERY);
                (chunk + 2 * chunk.div_ceil(TENSOR_CORE_PRODUCTS)) as f64 * TENSOR_CORE_ROUNDOFF
            }
            (DType::F32, Precision::High) => (-20f64).exp2(),
            (DType::F32, Precision::Medium) => (-10f64).exp2(),
            (DType::F32, Precision::Low) => (-7f64).exp2(),
            _ => 0.0,
        }
    }

    /// Whether f32 operands may be split into parts.
    pub(super) fn is_split(&self) -> bool {
        self.a.dtype == DType::F32 && self.precision == Precision::High
    }

    /// The least magnitude that elements of each matrix of `values` count as, for [`Matmul::product_roundoff`]; empty
    /// where operands are not split.
    pub(super) fn floors(&self, values: &[f64], matrix_elements: usize) -> Vec<f64> {
        if !self.is_split() {
            return Vec::new();
        }
        let largest = |matrix: &[f64]| matrix.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        values.chunks(matrix_elements.max(1)).map(|matrix| SPLIT_FLOOR * largest(matrix)).collect()
    }
}
