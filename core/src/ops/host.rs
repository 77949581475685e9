//! What routines of the host share: reading positions, which several operations take as i32 or u32.

use crate::cpu::elements::typed;
use crate::{DType, TensorSpec};

/// What a word of positions names, as a number of either sign.
fn position(dtype: DType, word: u32) -> i64 {
    if dtype == DType::I32 { i64::from(word as i32) } else { i64::from(word) }
}

/// Of an axis of `n` elements the one that is named.
pub(super) fn place(spec: &TensorSpec, word: u32, n: u64) -> Option<usize> {
    u64::try_from(position(spec.dtype, word)).ok().filter(|&at| at < n).map(|at| at as usize)
}

/// The positions that the dense `spec` holds, as whole numbers of either sign.
pub(super) fn positions<'a>(spec: &TensorSpec, bytes: &'a [u8]) -> impl Fn(usize) -> i64 + Sync + use<'a> {
    let (words, first) = (typed::<u32>(bytes), spec.layout.offset() as usize);
    let dtype = spec.dtype;
    move |i| position(dtype, words[first + i])
}
