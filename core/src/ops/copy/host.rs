//! Copies between any two layouts, as words of the element's size.

use bytemuck::Pod;

use crate::Layout;
use crate::cpu::elements::typed;
use crate::cpu::parallel::{self, CHUNK, SERIAL};
use crate::cpu::scratch::Done;
use crate::cpu::view::{Runs, dense, gather};
use crate::ops::Copy;

pub(crate) fn execute(op: &Copy, input: &[u8], output: &mut [u8]) -> Done {
    match op.input.dtype.size_bytes() {
        1 => copy::<u8>(op, input, output),
        2 => copy::<u16>(op, input, output),
        4 => copy::<u32>(op, input, output),
        _ => copy::<u64>(op, input, output),
    }
}

fn copy<T: Pod + Send + Sync>(op: &Copy, input: &[u8], output: &mut [u8]) -> Done {
    let (source, target) = (typed::<T>(input), bytemuck::cast_slice_mut::<u8, T>(output));
    let (from, to) = (&op.input.layout, &op.output.layout);
    if to.is_contiguous() {
        let start = to.offset() as usize;
        let target = &mut target[start..start + to.elements() as usize];
        match Runs::new(from).slice(source, 0, target.len()) {
            Some(source) if target.len() < SERIAL => target.copy_from_slice(source),
            Some(source) => parallel::pairs((target, CHUNK), (source, CHUNK), |to, from| to.copy_from_slice(from)),
            None => gather(from, source, target),
        }
        return Ok(());
    }
    scatter(to, &dense(from, source)?, target);
    Ok(())
}

/// Dense elements into a strided view, run by run.
fn scatter<T: Pod>(to: &Layout, source: &[T], target: &mut [T]) {
    let to = to.collapse();
    let run = to.dims().last().map_or(1, |&dim| dim as usize).max(1);
    let stride = to.strides().last().map_or(1, |&stride| stride as isize);
    for (i, source) in source.chunks(run).enumerate() {
        let first = to.index_of((i * run) as u64) as usize;
        if stride == 1 {
            target[first..first + source.len()].copy_from_slice(source);
            continue;
        }
        for (j, &x) in source.iter().enumerate() {
            target[(first as isize + j as isize * stride) as usize] = x;
        }
    }
}
