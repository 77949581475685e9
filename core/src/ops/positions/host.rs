//! The first position at fault: one pass by one thread, which ends at it.

use bytemuck::Pod;

use crate::DType;
use crate::cpu::elements::{dense_mut, typed};
use crate::ops::{Positions, Walk};

pub(crate) fn execute(op: &Positions, positions: &[u8], words: &mut [u8]) {
    let words = dense_mut::<u32>(&op.output, words);
    if words[0] != 0 {
        return;
    }
    let found = match op.positions.dtype {
        DType::U32 => first(op, typed::<u32>(positions), u64::from),
        DType::I64 | DType::U64 => first(op, typed::<u64>(positions), |x| x),
        _ => first(op, typed::<i32>(positions), |x| i64::from(x) as u64),
    };
    if let Some((place, bits)) = found {
        words.copy_from_slice(&op.words(place, bits));
    }
}

/// The first one outside: its place and its bits.
fn first<T: Pod>(op: &Positions, elements: &[T], bits: impl Fn(T) -> u64) -> Option<(u64, u64)> {
    let layout = &op.positions.layout;
    if layout.elements() == 0 {
        return None;
    }
    let (mut dims, mut strides) = Walk::through(layout.dims(), &[layout.strides().to_vec()]);
    let mut strides = strides.pop().unwrap_or_default();
    let (line, step) = (dims.pop().unwrap_or(1), strides.pop().unwrap_or(1));
    for number in 0..layout.elements() / line {
        let (mut rest, mut start) = (number, layout.offset() as i64);
        for (&dim, &stride) in dims.iter().zip(&strides).rev() {
            start += (rest % dim) as i64 * stride;
            rest /= dim;
        }
        let at = |i: u64| bits(elements[(start + i as i64 * step) as usize]);
        if let Some(i) = (0..line).find(|&i| op.is_outside(at(i))) {
            return Some((number * line + i, at(i)));
        }
    }
    None
}
