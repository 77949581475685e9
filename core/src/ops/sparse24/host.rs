//! 2:4 compression and its reverse, row by row as words of the element's size; products decompress A first.

use bytemuck::Pod;

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::parallel;
use crate::cpu::scratch::{self, Done};
use crate::ops::matmul::host as matmul;
use crate::ops::sparse24::{FIRST_TWO, GROUPS_PER_WORD, groups, magnitude_bits};
use crate::ops::{Compress24, Decompress24, Part24, SparseMatmul};
use crate::{DType, TensorSpec};

const PER_WORD: usize = GROUPS_PER_WORD as usize;

/// Bits of an element.
trait Word: Pod + Send + Sync {
    fn bits(self) -> u32;
}

impl Word for u8 {
    fn bits(self) -> u32 {
        self.into()
    }
}

impl Word for u16 {
    fn bits(self) -> u32 {
        self.into()
    }
}

impl Word for u32 {
    fn bits(self) -> u32 {
        self
    }
}

pub(crate) fn compress(op: &Compress24, input: &[u8], output: &mut [u8]) {
    match op.input.dtype.size_bytes() {
        1 => compress_words::<u8>(op, input, output),
        2 => compress_words::<u16>(op, input, output),
        _ => compress_words::<u32>(op, input, output),
    }
}

fn compress_words<T: Word>(op: &Compress24, input: &[u8], output: &mut [u8]) {
    let k = op.k() as usize;
    if k == 0 {
        return;
    }
    let rows = dense_of::<T>(&op.input, input);
    let dtype = op.input.dtype;
    match op.part {
        Part24::Values => {
            parallel::pairs((dense_mut::<T>(&op.output, output), 2 * k.div_ceil(4)), (rows, k), |out, row| {
                for (out, group) in out.chunks_exact_mut(2).zip(row.chunks(4)) {
                    let value = |place: usize| group.get(place).copied().unwrap_or(T::zeroed());
                    out.copy_from_slice(&kept(dtype, group).map(value));
                }
            });
        }
        Part24::Metadata => {
            let words = k.div_ceil(4 * PER_WORD);
            parallel::pairs((dense_mut::<u32>(&op.output, output), words), (rows, k), |out, row| {
                for (out, groups) in out.iter_mut().zip(row.chunks(4 * PER_WORD)) {
                    *out = groups.chunks(4).enumerate().fold(FIRST_TWO, |word, (i, group)| {
                        let [first, second] = kept(dtype, group);
                        word & !(15 << (4 * i)) | ((first | second << 2) as u32) << (4 * i)
                    });
                }
            });
        }
    }
}

/// Places of the two of largest magnitude in a group, which may be short: what it lacks is 0.
fn kept<T: Word>(dtype: DType, group: &[T]) -> [usize; 2] {
    let mut magnitudes = [0; 4];
    for (to, x) in magnitudes.iter_mut().zip(group) {
        *to = magnitude(dtype, x.bits());
    }
    let beats = |i: usize, j: usize| (magnitudes[i], j) > (magnitudes[j], i);
    let mut stays = (0..4).filter(|&i| (0..4).filter(|&j| beats(j, i)).count() < 2);
    [stays.next().unwrap_or(0), stays.next().unwrap_or(1)]
}

fn magnitude(dtype: DType, bits: u32) -> u32 {
    match magnitude_bits(dtype) {
        Some((mask, nan)) => (bits & mask).min(nan),
        None => (bits as u8 as i8).unsigned_abs().into(),
    }
}

pub(crate) fn decompress(op: &Decompress24, inputs: &[&[u8]], output: &mut [u8]) {
    match op.values.dtype.size_bytes() {
        1 => decompress_words::<u8>(op, inputs, output),
        2 => decompress_words::<u16>(op, inputs, output),
        _ => decompress_words::<u32>(op, inputs, output),
    }
}

fn decompress_words<T: Word>(op: &Decompress24, inputs: &[&[u8]], output: &mut [u8]) {
    let k = op.k() as usize;
    if k == 0 {
        return;
    }
    let groups = groups(op.k()) as usize;
    let (values, metadata) = (dense_of::<T>(&op.values, inputs[0]), dense_of::<u32>(&op.metadata, inputs[1]));
    parallel::chunks(dense_mut::<T>(&op.output, output), k, |row, out| {
        let values = parallel::chunk(values, 2 * groups, row);
        let words = parallel::chunk(metadata, groups.div_ceil(PER_WORD), row);
        out.fill(T::zeroed());
        for (i, (group, pair)) in out.chunks_mut(4).zip(values.chunks_exact(2)).enumerate() {
            let places = words[i / PER_WORD] >> (4 * (i % PER_WORD));
            for (&value, place) in pair.iter().zip([places & 3, places >> 2 & 3]) {
                // A place beyond k holds nothing.
                if let Some(x) = group.get_mut(place as usize) {
                    *x = value;
                }
            }
        }
    });
}

pub(crate) fn multiply(op: &SparseMatmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    // Of a checked op: always made.
    let Ok(decompression) = op.decompress() else { return Ok(()) };
    // Words of eight bytes hold any element aligned; a whole number of them holds any number of elements.
    let mut dense = scratch::zeroed::<u64>(decompression.output.required_bytes().div_ceil(8) as usize)?;
    decompress(&decompression, &inputs[..2], bytemuck::cast_slice_mut(&mut dense));
    let inputs: Vec<&[u8]> = [bytemuck::cast_slice(&dense)].into_iter().chain(inputs[2..].iter().copied()).collect();
    matmul::execute(&op.product, &inputs, output)
}

/// The elements of a dense operand within its buffer.
fn dense_of<'a, T: Pod>(spec: &TensorSpec, bytes: &'a [u8]) -> &'a [T] {
    let start = spec.layout.offset() as usize;
    &typed(bytes)[start..start + spec.layout.elements() as usize]
}
