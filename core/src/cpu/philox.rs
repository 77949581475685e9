//! Philox4x32-10, a counter-based generator, and fills of uniform and normal f32.
//!
//! Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11: ten rounds of two 32 x 32 -> 64 bit products
//! over a 128-bit counter and a 64-bit key. Element i of a fill is lane i % 4 of the block whose counter words are
//! (i/4 low, i/4 high, stream low, stream high) under the key (seed low, seed high): any element can be had alone, on any
//! device, with any number of threads. A GPU kernel that follows these lines gives the same bits for [`fill_u32`] and [`fill_uniform`];
//! [`fill_normal`] agrees within the error of log, sin and cos.

use super::parallel;
use super::simd::{self, Kernel, MulAdd};
use super::vmath;

/// Multipliers and Weyl increments of the paper, table 2 and section 4.
const M0: u32 = 0xD251_1F53;
const M1: u32 = 0xCD9E_8D57;
const W0: u32 = 0x9E37_79B9;
const W1: u32 = 0xBB67_AE85;

/// The block of four words at `counter` under `key`.
#[inline(always)]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..10 {
        let p0 = u64::from(M0) * u64::from(c0);
        let p1 = u64::from(M1) * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
    }
    [c0, c1, c2, c3]
}

/// Where a fill stands: which seed, which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Key of the generator.
    pub seed: u64,
    /// High half of the counter: independent sequences under one seed.
    pub stream: u64,
}

/// What four words become.
trait Convert<T>: Copy + Send + Sync {
    fn convert<M: MulAdd>(words: [u32; 4]) -> [T; 4];
}

/// Blocks computed side by side in registers.
const WIDTH: usize = 16;
/// Elements per task; a multiple of 4.
const TASK: usize = 16 * 1024;

struct Fill<'a, T, C> {
    at: Stream,
    block: u64,
    out: &'a mut [T],
    convert: C,
}

impl<T: Copy + Default, C: Convert<T>> Kernel for Fill<'_, T, C> {
    type Output = ();
    const WIDE: bool = true;
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { at, block, out, convert: _convert } = self;
        let key = [at.seed as u32, (at.seed >> 32) as u32];
        let mut words = [[T::default(); WIDTH]; 4];
        for (i, out) in out.chunks_mut(4 * WIDTH).enumerate() {
            let first = block.wrapping_add((i * WIDTH) as u64);
            #[allow(clippy::needless_range_loop, reason = "four arrays are written at l")]
            for l in 0..WIDTH {
                let b = first.wrapping_add(l as u64);
                let counter = [b as u32, (b >> 32) as u32, at.stream as u32, (at.stream >> 32) as u32];
                let [a, b, c, d] = C::convert::<M>(philox4x32_10(counter, key));
                words[0][l] = a;
                words[1][l] = b;
                words[2][l] = c;
                words[3][l] = d;
            }
            for (j, out) in out.iter_mut().enumerate() {
                *out = words[j % 4][j / 4];
            }
        }
    }
}

fn fill<T: Copy + Default + Send, C: Convert<T>>(at: Stream, out: &mut [T], convert: C) {
    parallel::chunks(out, TASK, |t, out| {
        let block = (t * (TASK / 4)) as u64;
        simd::dispatch(Fill { at, block, out, convert });
    });
}

/// The words of whole blocks from number `block` on, on this thread.
pub(crate) fn words_from(at: Stream, block: u64, out: &mut [u32]) {
    simd::dispatch(Fill { at, block, out, convert: Words });
}

#[derive(Clone, Copy)]
struct Words;
#[derive(Clone, Copy)]
struct Uniform;
#[derive(Clone, Copy)]
struct Normal;

/// 2^-24
const ULP_OF_UNIT: f32 = 1.0 / 16_777_216.0;

impl Convert<u32> for Words {
    #[inline(always)]
    fn convert<M: MulAdd>(words: [u32; 4]) -> [u32; 4] {
        words
    }
}

impl Convert<f32> for Uniform {
    #[inline(always)]
    fn convert<M: MulAdd>(words: [u32; 4]) -> [f32; 4] {
        // 24 bits are an i32 as well, whose conversion every instruction set has
        let of = |word: u32| (word >> 8) as i32 as f32 * ULP_OF_UNIT;
        let [a, b, c, d] = words;
        [of(a), of(b), of(c), of(d)]
    }
}

impl Convert<f32> for Normal {
    /// Box and Muller, Ann. Math. Stat. 29 (1958) 610: two uniforms (u in (0, 1], v in [0, 1)) give r cos 2 pi v, r sin 2 pi v
    /// with r = sqrt(-2 log u).
    #[inline(always)]
    fn convert<M: MulAdd>(words: [u32; 4]) -> [f32; 4] {
        let pair = |a: u32, b: u32| {
            let u = ((a >> 8) + 1) as i32 as f32 * ULP_OF_UNIT;
            let r = (-2.0 * vmath::log::<M>(u)).sqrt();
            let (sin, cos) = vmath::sin_cos_turns::<M>((b >> 8) as i32);
            (r * cos, r * sin)
        };
        let ((a, b), (c, d)) = (pair(words[0], words[1]), pair(words[2], words[3]));
        [a, b, c, d]
    }
}

/// The words themselves.
pub fn fill_u32(at: Stream, out: &mut [u32]) {
    fill(at, out, Words);
}

/// Uniform in [0, 1): the upper 24 bits of each word times 2^-24.
pub fn fill_uniform(at: Stream, out: &mut [f32]) {
    fill(at, out, Uniform);
}

/// Normal with mean 0 and variance 1; at most 5.77 in magnitude (24-bit uniforms).
pub fn fill_normal(at: Stream, out: &mut [f32]) {
    fill(at, out, Normal);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kat_vectors` of Random123, lines "philox4x32 10".
    #[test]
    fn known_answers_of_random123() {
        assert_eq!(philox4x32_10([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32_10([!0; 4], [!0; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let expected = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(philox4x32_10(counter, [0xa409_3822, 0x299f_31d0]), expected);
    }

    const AT: Stream = Stream { seed: 0x1234_5678_9abc_def0, stream: 0x0fed_cba9_8765_4321 };

    #[test]
    fn element_of_any_fill_depends_on_its_index_alone() {
        let word = |i: usize| {
            let counter = [(i / 4) as u32, 0, AT.stream as u32, (AT.stream >> 32) as u32];
            philox4x32_10(counter, [AT.seed as u32, (AT.seed >> 32) as u32])[i % 4]
        };
        for n in (0..68).chain([TASK - 1, TASK, 2 * TASK + 5]) {
            let (mut w, mut u) = (vec![0; n], vec![0.0; n]);
            fill_u32(AT, &mut w);
            fill_uniform(AT, &mut u);
            assert!((0..n).all(|i| w[i] == word(i) && u[i] == (word(i) >> 8) as f32 / 16_777_216.0));
        }
    }

    #[test]
    fn normals_match_box_muller_in_f64_and_have_unit_moments() {
        let n = 1 << 20;
        let (mut w, mut z) = (vec![0u32; n], vec![0f32; n]);
        fill_u32(AT, &mut w);
        fill_normal(AT, &mut z);
        for (w, z) in w.chunks(2).zip(z.chunks(2)) {
            let r = (-2.0 * (f64::from((w[0] >> 8) + 1) / 16_777_216.0).ln()).sqrt();
            let v = f64::from(w[1] >> 8) / 16_777_216.0 * std::f64::consts::TAU;
            for (z, e) in [(z[0], r * v.cos()), (z[1], r * v.sin())] {
                assert!((f64::from(z) - e).abs() <= 4.0 * 2f64.powi(-24) * r.max(1e-3), "{z} is not {e}");
            }
        }
        let moment = |p: i32| z.iter().map(|v| f64::from(*v).powi(p)).sum::<f64>() / n as f64;
        // five standard errors: variances of z, z^2, z^4 are 1, 2, 96
        assert!(moment(1).abs() < 5e-3 && (moment(2) - 1.0).abs() < 7e-3 && (moment(4) - 3.0).abs() < 0.05);
    }
}
