//! What planners need to know of a card. Read from the driver by the backend, written down by hand in tests.

/// A card, as planners see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// The device's name, for errors.
    pub device: String,
    /// Compute capability: 90 is 9.0.
    pub sm: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Most bytes of shared memory one block may ask for.
    pub max_shared_bytes: u32,
    /// Shared memory of one multiprocessor.
    pub shared_bytes_per_multiprocessor: u32,
    /// Level-2 cache.
    pub l2_bytes: u64,
    /// Highest clock of the multiprocessors, MHz.
    pub clock_mhz: u32,
    /// What the memory's clock and bus width promise, bytes per second.
    pub memory_bytes_per_s: f64,
    /// The driver encodes tensor maps (CUDA 12.0 and later), and the card has the unit that reads them (sm_90 and later).
    pub tensor_maps: bool,
}

impl Caps {
    /// An H200 (SXM), as its driver describes it: for tests, and the table of tuned answers.
    pub fn h200() -> Caps {
        Caps {
            device: "cuda:0".to_owned(),
            sm: 90,
            multiprocessors: 132,
            max_shared_bytes: 232_448,
            shared_bytes_per_multiprocessor: 233_472,
            l2_bytes: 62_914_560,
            clock_mhz: 1980,
            memory_bytes_per_s: 4.8e12,
            tensor_maps: true,
        }
    }

    /// An A100 (SXM, 80 GB): for tests.
    pub fn a100() -> Caps {
        Caps {
            device: "cuda:0".to_owned(),
            sm: 80,
            multiprocessors: 108,
            max_shared_bytes: 166_912,
            shared_bytes_per_multiprocessor: 167_936,
            l2_bytes: 41_943_040,
            clock_mhz: 1410,
            memory_bytes_per_s: 2.04e12,
            tensor_maps: false,
        }
    }

    /// An RTX 4090: for tests.
    pub fn rtx_4090() -> Caps {
        Caps {
            device: "cuda:0".to_owned(),
            sm: 89,
            multiprocessors: 128,
            max_shared_bytes: 101_376,
            shared_bytes_per_multiprocessor: 102_400,
            l2_bytes: 75_497_472,
            clock_mhz: 2520,
            memory_bytes_per_s: 1.008e12,
            tensor_maps: false,
        }
    }

    /// Nanoseconds that moving `bytes` through device memory takes at least.
    pub fn stream_ns(&self, bytes: u64) -> f64 {
        1e9 * bytes as f64 / self.memory_bytes_per_s
    }

    /// Nanoseconds that `clocks` of a multiprocessor take at its highest clock.
    pub fn clocks_ns(&self, clocks: f64) -> f64 {
        1e3 * clocks / f64::from(self.clock_mhz)
    }

    /// Rounds in which `blocks` blocks run, when each multiprocessor holds `per_multiprocessor` of them at a time.
    pub fn waves(&self, blocks: u64, per_multiprocessor: u32) -> u64 {
        blocks.div_ceil(u64::from((self.multiprocessors * per_multiprocessor).max(1)))
    }

    /// Clusters of so many blocks, one on a multiprocessor, that the card works on at once: those of four and more leave
    /// multiprocessors over (measured: 30 of four and 15 of eight on 132).
    pub fn clusters(&self, blocks: u32) -> u64 {
        let places = if blocks > 2 { self.multiprocessors * 10 / 11 } else { self.multiprocessors };
        u64::from(places / blocks).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_estimates_are_right() {
        let caps = Caps::h200();
        assert_eq!((caps.waves(132, 1), caps.waves(133, 1), caps.waves(264, 2), caps.waves(0, 1)), (1, 2, 1, 0));
        assert_eq!([1, 2, 4, 8, 256].map(|blocks| caps.clusters(blocks)), [132, 66, 30, 15, 1]);
        assert!((caps.stream_ns(4_800_000) - 1000.0).abs() < 1e-9);
        assert!((caps.clocks_ns(1980.0) - 1000.0).abs() < 1e-9);
    }
}
