//! Work on large slices, shared out among the threads of the current rayon pool.
//!
//! Slices are cut into chunks of a fixed length; results do not depend on the number of threads. Below [`SERIAL`] elements the
//! caller's thread does all the work, because waking another one costs as much. Broadcasting a scalar is a closure that captures
//! it: `map1(|x| x + s, ..)`.
//!
//! Rayon's iterators are compiled here alone, once: with a closure of their own for each kernel and dtype they were 43 % of the
//! code that this crate has for the compiler (370 times 2,500 lines of LLVM's), and a call by pointer is nothing to a chunk.

use std::marker::PhantomData;

use rayon::prelude::*;

use super::scratch::Done;
use super::simd::{self, Map1};

/// Elements below which one thread is faster: an addition of 64 Ki f32 takes about as long as waking a rayon worker (10 us).
pub const SERIAL: usize = 64 * 1024;

/// Elements per task: three f32 operands of it (192 KiB) fit half of a 512 KiB L2.
pub const CHUNK: usize = 16 * 1024;

/// Calls `task` with all numbers below `count`.
fn tasks(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(task);
}

/// The same of tasks that can fail; the first failure ends it.
fn try_tasks(count: usize, task: &(dyn Fn(usize) -> Done + Sync)) -> Done {
    (0..count).into_par_iter().try_for_each(task)
}

/// A slice whose chunks of `size` elements are handed out to threads; the last may be shorter.
struct Chunks<'a, T> {
    first: *mut T,
    len: usize,
    size: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: it is an exclusive reference to its elements, of which threads take chunks that do not overlap (`take`).
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    fn new(y: &'a mut [T], size: usize) -> Chunks<'a, T> {
        assert!(size > 0, "chunks of no elements");
        Chunks { first: y.as_mut_ptr(), len: y.len(), size, borrowed: PhantomData }
    }

    fn count(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    /// # Safety
    /// `i` is below `count`, and taken once.
    unsafe fn take(&self, i: usize) -> &'a mut [T] {
        let start = i * self.size;
        // SAFETY: within the slice that was borrowed, as `i` is below `count`; of no other chunk, as each is taken once.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), self.size.min(self.len - start)) }
    }
}

/// Calls `task(i, chunk)` with every chunk of `size` elements of `y`.
pub(super) fn chunks<T: Send>(y: &mut [T], size: usize, task: impl Fn(usize, &mut [T]) + Sync) {
    let all = Chunks::new(y, size);
    // SAFETY: every number below the count once.
    tasks(all.count(), &|i| task(i, unsafe { all.take(i) }));
}

/// The same of a task that can fail.
pub(super) fn try_chunks<T: Send>(y: &mut [T], size: usize, task: impl Fn(usize, &mut [T]) -> Done + Sync) -> Done {
    let all = Chunks::new(y, size);
    // SAFETY: every number below the count once.
    try_tasks(all.count(), &|i| task(i, unsafe { all.take(i) }))
}

/// Calls `task(chunk of y, chunk of x)` with every chunk of `size` elements of `y` and the chunk of `x_size` elements of `x` that
/// has the same number.
///
/// # Panics
/// When `x` has no such chunk.
pub(super) fn pairs<T: Send, X: Sync>(
    (y, size): (&mut [T], usize),
    (x, x_size): (&[X], usize),
    task: impl Fn(&mut [T], &[X]) + Sync,
) {
    chunks(y, size, |i, y| task(y, chunk(x, x_size, i)));
}

/// Chunk number `i` of `x`.
pub(super) fn chunk<X>(x: &[X], size: usize, i: usize) -> &[X] {
    &x[i * size..x.len().min((i + 1) * size)]
}

/// `y[i] = f(x[i])`.
///
/// # Panics
/// When the lengths differ.
pub fn map1<T: Copy + Sync, U: Send>(f: impl Map1<T, U>, x: &[T], y: &mut [U]) {
    assert_eq!(x.len(), y.len(), "map1: lengths differ");
    if y.len() < SERIAL {
        return simd::map1(f, x, y);
    }
    pairs((y, CHUNK), (x, CHUNK), |y, x| simd::map1(f, x, y));
}

/// `x[i] = f(x[i])`.
pub fn map1_in_place<T: Copy + Default + Send>(f: impl Map1<T, T>, x: &mut [T]) {
    if x.len() < SERIAL {
        return simd::map1_in_place(f, x);
    }
    chunks(x, CHUNK, |_, x| simd::map1_in_place(f, x));
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
