//! `ldmatrix`, `stmatrix`, `mma.sync` and `mma.sp` (PTX ISA 9.7.14): a warp's registers as matrices.
//!
//! All types share one arrangement: lane `4 g + c` holds of A the rows `g` and `g + 8` and of B the column `g`, as many
//! neighbours along k as a register takes, from `c` times that on; of D it holds the columns `2 c` and `2 c + 1` of these
//! rows. Products are exact; the sum over k and C is exact to f64 and rounded once. Hardware keeps fewer bits of the sum.

use super::access::lane_address;
use super::number::to_f32;
use super::regs::LANES;
use super::round::{f16_to_f32, f64_to_f16};
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::matrix::Metadata;

/// Demands that the whole warp executes the instruction together.
pub(super) fn whole_warp(on: u32, name: &str) -> Result<(), Trouble> {
    if on == u32::MAX {
        return Ok(());
    }
    let message = format!("{name} needs all 32 threads of the warp together, {on:#010x} execute it");
    Err(Trouble::new(on.trailing_zeros() as usize, FaultKind::Convergence(message)))
}

/// Row (along m of A, along n of B) and element of k of part `i` of a lane's register: `rows` blocks of 8 rows, and `per`
/// elements a register.
pub(super) fn operand_place(lane: usize, register: usize, i: usize, rows: usize, per: usize) -> (usize, usize) {
    let (g, c) = (lane / 4, lane % 4);
    (g + 8 * (register % rows), (register / rows) * 4 * per + c * per + i)
}

/// The elements of A or B, row after row of `k`, from registers.
pub(super) fn operand(warp: &Warp, element: Element, regs: &[Slot], rows: usize, k: usize) -> Vec<f32> {
    let per = 4 / element.bytes();
    let mut tile = vec![0.0; rows * 8 * k];
    let mask = u32::MAX >> (32 - 8 * element.bytes());
    for (register, &slot) in regs.iter().enumerate() {
        for (lane, &bits) in warp.regs.row::<u32>(slot).iter().enumerate() {
            for i in 0..per {
                let (row, at) = operand_place(lane, register, i, rows, per);
                tile[row * k + at] = to_f32(element, bits >> (8 * element.bytes() * i) & mask);
            }
        }
    }
    tile
}

/// Row and column of the `i`-th of two neighbours in register pair `pair` of a lane.
pub(super) fn sum_place(lane: usize, pair: usize, i: usize) -> (usize, usize) {
    (lane / 4 + 8 * (pair % 2), pair / 2 * 8 + lane % 4 * 2 + i)
}

/// `sums[i][j] += a[i][..] b[j][..]`, in f64; `b` is row after row of n.
pub(super) fn multiply(sums: &mut [f64], a: &[f32], b_by_k: &[f32], n: usize, k: usize) {
    for (row, a) in sums.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        for (&a, b) in a.iter().zip(b_by_k.chunks_exact(n)) {
            let a = f64::from(a);
            row.iter_mut().zip(b).for_each(|(sum, &b)| *sum += a * f64::from(b));
        }
    }
}

/// Rows of n from rows of k.
fn transposed(b: &[f32], n: usize, k: usize) -> Vec<f32> {
    (0..n * k).map(|i| b[i % n * k + i / n]).collect()
}

/// An integer sum of exact products, added to `c`: it wraps, or saturates where the instruction says so.
pub(super) fn integer_sum(c: u32, products: f64, saturates: bool) -> u32 {
    let sum = i64::from(c as i32) + products as i64;
    if saturates { sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32 } else { sum as u32 }
}

impl Machine<'_> {
    pub(super) fn mma(&mut self, warp: &mut Warp, on: u32, mma: &Mma) -> Result<(), Trouble> {
        whole_warp(on, "mma")?;
        if mma.accumulator == Accumulator::F64 {
            double(warp, mma);
            return Ok(());
        }
        let Mma { m, n, k, types, accumulator, .. } = *mma;
        let a = match mma.sparse {
            None => operand(warp, types[0], &mma.a, m / 8, k),
            Some(metadata) => {
                let kept = operand(warp, types[0], &mma.a, m / 8, k / 2);
                expanded(warp, metadata, &kept, (k, types[0].bytes()))?
            }
        };
        let b = transposed(&operand(warp, types[1], &mma.b, 1, k), n, k);
        let mut sums = vec![0.0; m * n];
        let read = |slot: Slot, lane: usize| warp.regs.row::<u32>(slot)[lane];
        if accumulator == Accumulator::F32 {
            for (register, &slot) in mma.c.iter().enumerate() {
                for lane in 0..LANES {
                    let (row, column) = sum_place(lane, register / 2, register % 2);
                    sums[row * n + column] = f64::from(f32::from_bits(read(slot, lane)));
                }
            }
        }
        multiply(&mut sums, &a, &b, n, k);
        for (register, (&d, &c)) in mma.d.iter().zip(&mma.c).enumerate().filter(|(_, (d, _))| **d != NONE) {
            for lane in 0..LANES {
                let sum = |pair, i| {
                    let (row, column) = sum_place(lane, pair, i);
                    sums[row * n + column]
                };
                let old = warp.regs.row::<u32>(c)[lane];
                warp.regs.row_mut::<u32>(d)[lane] = match accumulator {
                    Accumulator::F16 => [0, 1].into_iter().fold(0, |bits, i| {
                        let c = f64::from(f16_to_f32((old >> (16 * i)) as u16));
                        bits | u32::from(f64_to_f16(c + sum(register, i as usize), Round::Rn)) << (16 * i)
                    }),
                    Accumulator::S32 { saturates } => integer_sum(old, sum(register / 2, register % 2), saturates),
                    _ => canonical(sum(register / 2, register % 2)),
                };
            }
        }
        Ok(())
    }

    pub(super) fn matrix(&mut self, warp: &mut Warp, on: u32, matrix: &MatrixMove) -> Result<(), Trouble> {
        whole_warp(on, if matrix.load { "ldmatrix" } else { "stmatrix" })?;
        self.progress += u64::from(!matrix.load);
        let how = (matrix.space, Strength::Weak);
        for (number, &slot) in matrix.regs.iter().enumerate() {
            // Lanes 8 i to 8 i + 7 name the rows of matrix i.
            for row in 0..8 {
                let lane = number * 8 + row;
                let address = lane_address(warp, matrix.address, lane);
                let trouble = |kind| Trouble::new(lane, kind);
                let holder = |i: usize| match matrix.transposed {
                    false => (row * 4 + i / 2, i % 2),
                    true => (i * 4 + row / 2, row % 2),
                };
                let mut bytes = [0; 16];
                if matrix.load {
                    self.read(warp, lane, how, address, &mut bytes).map_err(trouble)?;
                    if slot == NONE {
                        continue;
                    }
                    for (i, half) in bytes.chunks_exact(2).enumerate() {
                        let (lane, part) = holder(i);
                        let word = &mut warp.regs.row_mut::<u32>(slot)[lane];
                        let half = u32::from(u16::from_le_bytes([half[0], half[1]]));
                        *word = *word & !(0xffff << (16 * part)) | half << (16 * part);
                    }
                } else {
                    for (i, half) in bytes.chunks_exact_mut(2).enumerate() {
                        let (lane, part) = holder(i);
                        let word = warp.regs.row::<u32>(slot)[lane];
                        half.copy_from_slice(&((word >> (16 * part)) as u16).to_le_bytes());
                    }
                    self.write(warp, lane, how, address, &bytes).map_err(trouble)?;
                }
            }
        }
        Ok(())
    }
}

/// A with zeros between the elements that it holds, two of each four along k.
///
/// Four bits name the places of a group's two elements, the lower one in the lower bits, ascending groups in ascending bits.
/// Of 8-bit elements lanes c = 0 and 1 hold the first eight groups of rows g and g + 8, lanes 2 and 3 the next eight. Of 16-bit
/// elements lanes c = 2 s and 2 s + 1, s the selector, hold the first and the next four groups: of row g in the lower half
/// of the word, of row g + 8 in the upper. (PTX ISA 9.7.14.6, figures of the metadata of m16n8k64 and m16n8k32; wgmma has the
/// same ones.)
pub(super) fn expanded(
    warp: &Warp,
    metadata: Metadata,
    kept: &[f32],
    (k, element_bytes): (usize, usize),
) -> Result<Vec<f32>, Trouble> {
    let words = warp.regs.row::<u32>(metadata.words);
    let selector = metadata.selector as usize;
    let mut dense = vec![0.0; 2 * kept.len()];
    for (group, pair) in kept.chunks_exact(2).enumerate() {
        let (row, group) = (group / (k / 4), group % (k / 4));
        let (g, half) = (row % 8, row / 8);
        let (lane, shift) = match element_bytes {
            1 => (4 * g + half + 2 * (group / 8), 4 * (group % 8)),
            _ => (4 * g + 2 * selector + group / 4, 16 * half + 4 * (group % 4)),
        };
        let places = words[lane] >> shift;
        let places = [places & 3, places >> 2 & 3];
        if places[0] >= places[1] {
            let message = format!("metadata names places {places:?} of four, which are not in order");
            return Err(Trouble::new(lane, FaultKind::Metadata(message)));
        }
        for (&x, place) in pair.iter().zip(places) {
            dense[row * k + 4 * group + place as usize] = x;
        }
    }
    Ok(dense)
}

/// An f32 result; what is no number has the GPU's bits.
pub(super) fn canonical(sum: f64) -> u32 {
    let sum = sum as f32;
    if sum.is_nan() { super::round::NAN32 } else { sum.to_bits() }
}

/// f64: one product after the other along k, each fused, as the ISA allows.
fn double(warp: &mut Warp, mma: &Mma) {
    let Mma { m, n, k, .. } = *mma;
    let gather = |regs: &[Slot], rows: usize| {
        let mut tile = vec![0.0; rows * 8 * k];
        for (register, &slot) in regs.iter().enumerate() {
            for (lane, &bits) in warp.regs.row::<u64>(slot).iter().enumerate() {
                let (row, at) = operand_place(lane, register, 0, rows, 1);
                tile[row * k + at] = f64::from_bits(bits);
            }
        }
        tile
    };
    let (a, b) = (gather(&mma.a, m / 8), gather(&mma.b, n / 8));
    for (register, (&d, &c)) in mma.d.iter().zip(&mma.c).enumerate().filter(|(_, (d, _))| **d != NONE) {
        for lane in 0..LANES {
            let (row, column) = sum_place(lane, register / 2, register % 2);
            let (a, b) = (&a[row * k..][..k], &b[column * k..][..k]);
            let start = f64::from_bits(warp.regs.row::<u64>(c)[lane]);
            let sum = a.iter().zip(b).fold(start, |sum, (&a, &b)| a.mul_add(b, sum));
            warp.regs.row_mut::<u64>(d)[lane] = sum.to_bits();
        }
    }
}
