//! Reading and writing strided views: run by run, on one thread or all.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::Layout;
use crate::cpu::parallel::{self, CHUNK, SERIAL};
use crate::cpu::scratch::{self, Short};

/// The elements of a view, in order: borrowed where they lie densely, gathered where they do not.
pub(crate) fn dense<'a, T: Pod + Send + Sync>(layout: &Layout, storage: &'a [T]) -> Result<Cow<'a, [T]>, Short> {
    let elements = layout.elements() as usize;
    if layout.is_contiguous() {
        let start = if elements == 0 { 0 } else { layout.offset() as usize };
        return Ok(Cow::Borrowed(&storage[start..start + elements]));
    }
    let mut out = scratch::zeroed(elements)?;
    gather(layout, storage, &mut out);
    Ok(Cow::Owned(out))
}

/// All elements of a view, in order, into `out`.
pub(crate) fn gather<T: Pod + Send + Sync>(layout: &Layout, storage: &[T], out: &mut [T]) {
    let runs = Runs::new(layout);
    if out.len() < SERIAL {
        return runs.read(storage, 0, out);
    }
    if runs.is_transposed() {
        return transpose(&runs, storage, out);
    }
    parallel::chunks(out, CHUNK, |i, out| runs.read(storage, i * CHUNK, out));
}

/// A view cut into its innermost runs, for reading any range of its elements.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    layout: Layout,
    /// Length and stride of the innermost dimension.
    run: usize,
    stride: isize,
}

impl Runs {
    pub(crate) fn new(layout: &Layout) -> Runs {
        let layout = layout.collapse();
        let run = layout.dims().last().map_or(1, |&dim| dim as usize);
        let stride = layout.strides().last().map_or(1, |&stride| stride as isize);
        Runs { layout, run: run.max(1), stride }
    }

    /// The dense range of elements `start..start + len`, when the whole view is one run of stride 1.
    pub(crate) fn slice<'a, T>(&self, storage: &'a [T], start: usize, len: usize) -> Option<&'a [T]> {
        let dense = self.layout.rank() <= 1 && (self.stride == 1 || self.run == 1);
        let first = self.layout.offset() as usize + start;
        dense.then(|| &storage[first..first + len])
    }

    /// Whether every element is the same one.
    pub(crate) fn is_constant(&self) -> bool {
        self.layout.strides().iter().all(|&stride| stride == 0)
    }

    /// The one element that a view of stride 0 repeats.
    pub(crate) fn constant<T: Copy>(&self, storage: &[T]) -> Option<T> {
        self.is_constant().then(|| storage[self.layout.offset() as usize])
    }

    /// Elements `start..start + out.len()` of the view.
    pub(crate) fn read<T: Copy>(&self, storage: &[T], start: usize, out: &mut [T]) {
        let (mut at, mut rest) = (start, out);
        // Of a matrix, such as a line that is repeated, each run is found from the one before: divisions take longer than short runs.
        let step = if let [step, _] = *self.layout.strides() { Some(step) } else { None };
        let mut next = None;
        while !rest.is_empty() {
            let within = at % self.run;
            let len = (self.run - within).min(rest.len());
            let first = next.unwrap_or_else(|| self.layout.index_of(at as u64) as i64);
            next = step.map(|step| first + step - within as i64 * self.stride as i64);
            let first = first as usize;
            let (head, tail) = rest.split_at_mut(len);
            match self.stride {
                1 => head.copy_from_slice(&storage[first..first + len]),
                0 => head.fill(storage[first]),
                stride => {
                    for (i, x) in head.iter_mut().enumerate() {
                        *x = storage[(first as isize + i as isize * stride) as usize];
                    }
                }
            }
            at += len;
            rest = tail;
        }
    }

    /// Whether the elements are contiguous along the second-innermost dimension instead of the innermost.
    fn is_transposed(&self) -> bool {
        let rank = self.layout.rank();
        rank >= 2 && self.layout.strides()[rank - 2] == 1 && self.stride != 1 && self.run >= 8
    }
}

/// Gathers a view that is contiguous along its second-innermost dimension, tile by tile, so that both sides use whole
/// cache lines.
fn transpose<T: Pod + Send + Sync>(runs: &Runs, storage: &[T], out: &mut [T]) {
    const TILE: usize = 32;
    let rank = runs.layout.rank();
    let (rows, cols) = (runs.layout.dims()[rank - 2] as usize, runs.run);
    parallel::chunks(out, TILE * cols, |band, out| {
        // Bands do not cross matrices only when TILE divides the rows; read those that do run by run.
        let first_row = band * TILE;
        let band_rows = out.len() / cols;
        if first_row % rows + band_rows > rows {
            return runs.read(storage, first_row * cols, out);
        }
        let corner = runs.layout.index_of((first_row * cols) as u64) as isize;
        for left in (0..cols).step_by(TILE) {
            for row in 0..band_rows {
                let line = &mut out[row * cols..][left..(left + TILE).min(cols)];
                for (col, x) in line.iter_mut().enumerate() {
                    *x = storage[(corner + row as isize + (left + col) as isize * runs.stride) as usize];
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn any_range_of_any_view_is_read_in_order() {
        let storage: Vec<u32> = (0..6000).collect();
        let base = Layout::contiguous(Shape::new(&[10, 20, 30]).unwrap());
        let views = [
            base,
            base.permute(&[2, 0, 1]).unwrap(),
            base.permute(&[0, 2, 1]).unwrap(),
            base.slice(2, 1, 29, -3).unwrap(),
            base.slice(1, 3, 4, 1).unwrap().broadcast_to(Shape::new(&[10, 7, 30]).unwrap()).unwrap(),
        ];
        for view in views {
            let expected: Vec<u32> = (0..view.elements()).map(|i| view.index_of(i) as u32).collect();
            assert_eq!(&*dense(&view, &storage).unwrap(), &expected[..], "{view:?}");
            let mut part = vec![0; expected.len() / 3];
            Runs::new(&view).read(&storage, 17, &mut part);
            assert_eq!(part, expected[17..17 + part.len()]);
        }
    }

    #[test]
    fn large_transposes_take_the_tiled_path() {
        let (rows, cols) = (301, 407);
        let storage: Vec<u32> = (0..3 * rows * cols).collect();
        let view = Layout::contiguous(Shape::new(&[3, rows.into(), cols.into()]).unwrap()).transpose(1, 2).unwrap();
        let expected: Vec<u32> = (0..view.elements()).map(|i| view.index_of(i) as u32).collect();
        assert!(Runs::new(&view).is_transposed());
        assert_eq!(&*dense(&view, &storage).unwrap(), &expected[..]);
    }
}
