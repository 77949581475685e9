//! Maps over large slices on the threads of the current rayon pool.
//!
//! Slices are cut into chunks of a fixed length, each one call of [`super::simd`]; results do not depend on the number of
//! threads. Below [`SERIAL`] elements the caller's thread does all the work, because waking another one costs as much.
//! Broadcasting a scalar is a closure that captures it: `map1(|x| x + s, ..)`.

use super::simd::{self, Map1};
use rayon::prelude::*;

/// Elements below which one thread is faster: an addition of 64 Ki f32 takes about as long as waking a rayon worker (10 us).
pub const SERIAL: usize = 64 * 1024;

/// Elements per task: three f32 operands of it (192 KiB) fit half of a 512 KiB L2.
pub const CHUNK: usize = 16 * 1024;

/// `y[i] = f(x[i])`.
///
/// # Panics
/// When the lengths differ.
pub fn map1<T: Copy + Sync, U: Send>(f: impl Map1<T, U>, x: &[T], y: &mut [U]) {
    assert_eq!(x.len(), y.len(), "map1: lengths differ");
    if y.len() < SERIAL {
        return simd::map1(f, x, y);
    }
    y.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).for_each(|(y, x)| simd::map1(f, x, y));
}

/// `x[i] = f(x[i])`.
pub fn map1_in_place<T: Copy + Default + Send>(f: impl Map1<T, T>, x: &mut [T]) {
    if x.len() < SERIAL {
        return simd::map1_in_place(f, x);
    }
    x.par_chunks_mut(CHUNK).for_each(|x| simd::map1_in_place(f, x));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::vmath;

    /// Lengths round the chunk and the serial limit, at odd offsets into a larger buffer.
    #[test]
    fn maps_at_any_length_and_offset_match_serial() {
        let big: Vec<f32> = (0..5 * SERIAL).map(|i| (i as f32 * 0.37) % 50.0 - 25.0).collect();
        let lengths = [0, 1, CHUNK - 1, CHUNK, SERIAL - 1, SERIAL, SERIAL + 1, 2 * SERIAL + 17, 3 * SERIAL + CHUNK - 1];
        for (i, n) in lengths.into_iter().enumerate() {
            let a = &big[i..i + n];
            let (mut y, mut z) = (vec![f32::NAN; n], vec![f32::NAN; n]);
            map1(vmath::Exp, a, &mut y);
            simd::map1(vmath::Exp, a, &mut z);
            assert_eq!(y, z);
            map1_in_place(|x: f32| x + 1.0, &mut y);
            assert!(y.iter().zip(&z).all(|(y, z)| *y == z + 1.0));
        }
    }
}
