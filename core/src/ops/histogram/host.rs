//! Histograms on the host: every thread counts a part of the elements by itself, and the counts are added up.
//!
//! Parts are computed block by block, a loop that vectorises; what counts nowhere has a place behind the last part, so that no loop
//! branches.

use bytemuck::Pod;

use super::{Histogram, Numbers};
use crate::DType;
use crate::cpu::elements::{dense_mut, for_dtype, typed};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::Element as _;
use crate::cpu::scratch::{self, Done};

/// Elements whose parts are computed before they are counted: 4 KiB of parts, in L1.
const BLOCK: usize = 1024;

pub(crate) fn execute(op: &Histogram, input: &[u8], output: &mut [u8]) -> Done {
    let Numbers { least, most, low, scale } = op.numbers();
    let (bins, last) = (op.bins() as u32, op.bins() as u32 - 1);
    if op.input.dtype == DType::F64 {
        return count(op, typed::<f64>(input), output, |x| {
            let part = (((x - low) * scale) as u32).min(last);
            if (least..=most).contains(&x) { part } else { bins }
        });
    }
    let [least, most, low, scale] = [least, most, low, scale].map(|number| number as f32);
    let part = |x: f32| {
        let part = (((x - low) * scale) as u32).min(last);
        if (least..=most).contains(&x) { part } else { bins }
    };
    #[allow(clippy::unnecessary_cast)] // floats are widened to f32, integers to their own kind
    let done = for_dtype!(op.input.dtype, T => count(op, typed::<T>(input), output, |x: T| part(x.widen() as f32)));
    done
}

/// `part` of an element is its part, or the number of parts.
fn count<T: Pod + Sync>(op: &Histogram, storage: &[T], output: &mut [u8], part: impl Fn(T) -> u32 + Sync) -> Done {
    let y = dense_mut::<u32>(&op.output, output);
    let elements = op.input.layout.elements() as usize;
    let first = if elements == 0 { 0 } else { op.input.layout.offset() as usize };
    let x = &storage[first..first + elements];
    // Of one more place. Counts of a thread should take less time to clear and to add up than to make.
    let places = y.len() + 1;
    let threads = (elements / (places + CHUNK)).clamp(1, parallel::threads());
    let each = elements.div_ceil(threads).next_multiple_of(BLOCK);
    let mut all = scratch::zeroed::<u32>(threads * places)?;
    parallel::chunks(&mut all, places, |thread, counts| {
        let end = elements.min((thread + 1) * each);
        let mut parts = [0u32; BLOCK];
        for block in x[end.min(thread * each)..end].chunks(BLOCK) {
            parts.iter_mut().zip(block).for_each(|(to, &x)| *to = part(x));
            parts[..block.len()].iter().for_each(|&part| counts[part as usize] += 1);
        }
    });
    let (own, others) = all.split_at(places);
    parallel::chunks(y, CHUNK, |number, y| {
        let first = number * CHUNK;
        y.copy_from_slice(&own[first..first + y.len()]);
        for counts in others.chunks_exact(places) {
            y.iter_mut().zip(&counts[first..]).for_each(|(sum, count)| *sum += count);
        }
    });
    Ok(())
}
