//! Operands as tensor maps describe them, for kernels that load by the tensor memory accelerator (sm_90 and later).
//!
//! Rows of 128 bytes are the widest that it swizzles: a box is that long along the operand's neighbours.

use super::operand::Operand;
use crate::catalogue::Major;
use crate::{Element, Promotion, Swizzle, TensorMap};

/// Bytes of a row of a box.
const ROW_BYTES: u64 = 128;

/// Bytes from a line or a matrix to the next are fewer (CUDA driver API, `cuTensorMapEncodeTiled`).
const STRIDE_LIMIT_BYTES: u64 = 1 << 40;

/// Whether a tensor map can have these strides: operands that no card holds have others.
pub(super) fn reaches(strides_bytes: &[u64]) -> bool {
    strides_bytes.iter().all(|&stride| stride < STRIDE_LIMIT_BYTES)
}

/// An operand that a tensor map describes.
pub(super) struct Source {
    pub operand: Operand,
    element: Element,
    pub major: Major,
    /// Elements from one line of neighbours to the next.
    pitch: u64,
    /// Bytes from line to line and from matrix to matrix.
    strides_bytes: [u64; 2],
    /// Planes of each matrix: 1, or 2 for a high and a low part.
    planes: u64,
}

impl Source {
    /// `None` when its neighbours, strides or place are not what tensor maps take; `along_mn` says whether neighbours may lie
    /// along M or N. `plane_stride` leads from the high planes of all matrices, which lie one after the other, to the low ones;
    /// 0 where there are none.
    pub fn of(operand: Operand, element: Element, along_mn: bool, plane_stride: i64) -> Option<Source> {
        let bytes = operand.element_bytes;
        let in_units = |elements: u64| elements.checked_mul(bytes).is_some_and(|bytes| bytes.is_multiple_of(16));
        // A single line has any pitch.
        let pitch = |stride: i64, lines: u64, length: u64| match u64::try_from(stride) {
            Ok(0) if lines == 1 => Some((length * bytes).next_multiple_of(16) / bytes),
            Ok(stride) if stride > 0 && in_units(stride) => Some(stride),
            _ => None,
        };
        let along_k =
            (operand.k_stride == 1 || operand.k == 1).then(|| pitch(operand.row_stride, operand.rows, operand.k));
        let along_rows =
            (operand.row_stride == 1 || operand.rows == 1).then(|| pitch(operand.k_stride, operand.k, operand.rows));
        let (major, pitch) = match (along_k.flatten(), along_rows.flatten()) {
            (Some(pitch), _) => (Major::K, pitch),
            (None, Some(pitch)) if along_mn => (Major::Mn, pitch),
            _ => return None,
        };
        let batches = operand.batch == 1 || operand.batch_stride > 0 && in_units(operand.batch_stride.unsigned_abs());
        let lines = if major == Major::K { operand.rows } else { operand.k };
        let matrix = if operand.batch == 1 { pitch.checked_mul(lines)? } else { operand.batch_stride.unsigned_abs() };
        let matrix_bytes = matrix.checked_mul(bytes)?.checked_next_multiple_of(16)?;
        let strides_bytes = [pitch.checked_mul(bytes)?, matrix_bytes];
        let planes = if plane_stride == 0 { 1 } else { 2 };
        let described = batches && in_units(operand.offset) && reaches(&strides_bytes);
        described.then_some(Source { operand, element, major, pitch, strides_bytes, planes })
    }

    /// The map from which blocks load `part` rows at a time, `block_k` of K or what the widest swizzle holds of the rows.
    pub fn rows_map(&self, part: u32, block_k: u32) -> TensorMap {
        self.map(match self.major {
            Major::K => [block_k, part],
            Major::Mn => [(ROW_BYTES / self.operand.element_bytes) as u32, block_k],
        })
    }

    /// The map from which blocks load boxes of so many neighbours and lines.
    pub fn map(&self, [length, lines]: [u32; 2]) -> TensorMap {
        let Operand { rows, k, batch, .. } = self.operand;
        let (all_lines, all) = match self.major {
            Major::K => (rows, k),
            Major::Mn => (k, rows),
        };
        TensorMap {
            slot: self.operand.slot,
            offset_bytes: self.operand.offset_bytes(),
            element: self.element,
            dims: vec![all, all_lines, batch * self.planes],
            strides_bytes: self.strides_bytes.to_vec(),
            box_dims: vec![length, lines, 1],
            pixels: None,
            swizzle: Swizzle::B128,
            promotion: Promotion::B256,
        }
    }

    /// Whether its lines start on the cache's lines of 128 bytes: others cost two of them where one would do.
    pub fn on_cache_lines(&self) -> bool {
        let bytes = self.operand.element_bytes;
        (self.pitch * bytes).is_multiple_of(128) && self.operand.offset_bytes().is_multiple_of(128)
    }
}
