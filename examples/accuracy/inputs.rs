//! Inputs in three parts: special values, random bit patterns, and values that each builtin asks for.
//!
//! The decision to know: one seed for each builtin determines all of its inputs, so that a figure can be repeated.

use super::float::{Type, power};

/// A small generator (splitmix64: Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    ty: Type,
}

impl Random {
    pub fn new(seed: u64, ty: Type) -> Random {
        Random { state: seed, ty }
    }

    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// 0 to n - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform from low to high.
    pub fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 * power(-53)
    }

    /// Either sign, size uniform in its logarithm from 2^low to 2^high.
    pub fn sized(&mut self, low: f64, high: f64) -> f64 {
        let size = self.within(low, high).exp2();
        if self.bits() & 1 == 0 { size } else { -size }
    }

    /// A random bit pattern: all magnitudes are equally likely, and subnormals, infinities and NaN occur.
    pub fn pattern(&mut self) -> f64 {
        let bits = self.bits();
        self.ty.decode(bits)
    }

    /// One of the 64 neighbours of `value` on either side.
    pub fn near(&mut self, value: f64) -> f64 {
        let offset = self.below(129) as i64 - 64;
        let bits = self.ty.encode(value);
        let size = bits & (u64::MAX >> (65 - 8 * self.ty.bytes())); // without the sign
        // The neighbours of a number by its bits; a size of less than 64 steps stays as it is.
        if size < 64 { value } else { self.ty.decode(bits.wrapping_add_signed(offset)) }
    }

    /// One of `values`, or a neighbour of it.
    pub fn near_any(&mut self, values: &[f64]) -> f64 {
        let value = values[self.below(values.len() as u64) as usize];
        self.near(value)
    }

    /// A multiple of pi / 2 up to `limit`, or a neighbour of it: there sine or cosine vanishes.
    pub fn near_quarters(&mut self, limit: f64) -> f64 {
        let quarter = std::f64::consts::FRAC_PI_2;
        let count = self.below((limit / quarter) as u64 + 1) as f64;
        let value = self.near(count * quarter);
        if self.bits() & 1 == 0 { value } else { -value }
    }
}

/// Values at which functions are known to be inaccurate.
fn specials(ty: Type) -> Vec<f64> {
    if ty.is_integer() {
        let ends = [0x7fff_ffff_u64, 0x8000_0000, 0xffff_ffff, 0xffff_ff80, 0x7fff_ffc0, 0x0080_8080, 0x7f7f_7f7f];
        return [0, 1, 2, 0x00ff_ffff, 0x0100_0000, 0x0100_0001]
            .into_iter()
            .chain(ends)
            .map(|x| ty.decode(x))
            .collect();
    }
    let format = ty.format();
    let (unit, least) = (power(1 - format.precision), power(format.least));
    let whole = power(format.precision - 1); // from here on all are integers
    let pi = std::f64::consts::PI;
    let sizes = [
        0.0,
        power((format.least - format.precision + 1).max(-1074)),
        least * (1.0 - unit),
        least,
        least * 2.0,
        power(format.least / 2),
        unit / 2.0,
        unit,
        0.25,
        0.5 - unit / 4.0,
        0.5,
        0.5 + unit / 2.0,
        1.0 - unit / 2.0,
        1.0,
        1.0 + unit,
        1.5,
        2.0,
        2.0 + 2.0 * unit,
        2.5,
        3.0,
        pi / 4.0,
        pi / 2.0,
        pi,
        2.0 * pi,
        10.0,
        88.72283,
        127.0,
        whole / 2.0 - 0.5,
        whole / 2.0 + 0.5,
        whole - 1.0,
        whole,
        whole * 2.0 - 1.0,
        power(format.greatest / 2),
        power(format.greatest),
        format.max(),
    ];
    sizes.into_iter().flat_map(|size| [size, -size]).map(|x| ty.decode(ty.encode(x))).collect()
}

/// `count` operand lists of `arity` values of `ty`, one after the other. Where there is one operand of 16 bits, every
/// value once instead.
pub fn inputs(ty: Type, arity: usize, count: usize, seed: u64, draw: fn(&mut Random, &mut [f64])) -> Vec<f64> {
    if arity == 1 && ty.bytes() == 2 {
        return (0..1 << 16).map(|bits| ty.decode(bits)).collect();
    }
    let mut random = Random::new(seed, ty);
    let special = specials(ty);
    let n = special.len();
    let grid = if arity == 2 { n * n } else { n };
    let mut values = vec![0.0; count * arity];
    for (index, item) in values.chunks_exact_mut(arity).enumerate() {
        match (index, index % 4) {
            // No more of the grid than half of all, and then anywhere in it.
            (index, _) if index < grid.min(count / 2) => {
                let place = if grid <= count / 2 { index } else { random.below(grid as u64) as usize };
                for (position, value) in item.iter_mut().enumerate() {
                    *value = match (arity, position) {
                        (1, _) | (2, 0) => special[place % n],
                        (2, _) => special[place / n],
                        _ => special[random.below(n as u64) as usize],
                    };
                }
            }
            (_, 0) => item.iter_mut().for_each(|value| *value = random.pattern()),
            _ => draw(&mut random, item),
        }
        // Rounded to the type, as the device receives them.
        item.iter_mut().for_each(|value| *value = ty.decode(ty.encode(*value)));
    }
    values
}
