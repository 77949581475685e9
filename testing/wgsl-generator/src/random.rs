//! Random numbers from a seed: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
//!
//! The decision to know: a program is a function of its seed, so the order of draws is part of the generator. A change
//! of it changes every program.

/// A generator of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed ^ 0x6A09_E667_F3BC_C908);
        random.bits();
        random
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_ranges_and_repeat() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        let mut seen = [false; 5];
        for _ in 0..200 {
            assert_eq!(a.bits(), b.bits());
            let x = a.between(-2, 2);
            b.between(-2, 2);
            seen[(x + 2) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(a.below(0), 0);
        assert_ne!(Random::new(0).bits(), Random::new(1).bits());
    }
}
