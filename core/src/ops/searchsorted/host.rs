//! Where numbers belong among sorted ones, on the host: each by bisection.

use bytemuck::Pod;

use super::SearchSorted;
use crate::cpu::elements::{dense_mut, for_dtype, typed};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::Widen;

pub(crate) fn execute(op: &SearchSorted, sorted: &[u8], values: &[u8], output: &mut [u8]) {
    for_dtype!(op.values.dtype, T => search_words::<T>(op, typed(sorted), typed(values), dense_mut(&op.output, output)));
}

fn search_words<T>(op: &SearchSorted, sorted: &[T], values: &[T], output: &mut [u32])
where
    T: Widen + Pod,
{
    let (n, step) = op.line();
    let (of_sorted, of_values) = op.lines();
    // Numbers in order, NaN behind them all.
    let is_nan = |x: T::Acc| x.partial_cmp(&x).is_none();
    let is_before = |a: T::Acc, b: T::Acc| a < b || (is_nan(b) && !is_nan(a));
    parallel::chunks(output, CHUNK, |number, part| {
        for (i, y) in (number * CHUNK..).zip(part) {
            let x = values[of_values.index_of(i as u64) as usize].widen();
            let first = of_sorted.index_of(i as u64) as i64;
            let (mut low, mut high) = (0, n);
            while low < high {
                let middle = low + (high - low) / 2;
                let m = sorted[(first + middle as i64 * step) as usize].widen();
                if op.side.goes_on(is_before(m, x), is_before(x, m)) { low = middle + 1 } else { high = middle }
            }
            *y = low as u32;
        }
    });
}
