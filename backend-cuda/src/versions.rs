//! Which driver is new enough, for polywarp at all and for a kernel's PTX: what errors and `polywarp doctor` say.
//!
//! Plain data; no driver is asked. From the PTX ISA manual, "Release Notes", and the CUDA toolkit's release notes,
//! "CUDA Toolkit and Corresponding Driver Versions".

use naga_ptx::Target;

/// The least CUDA version that a driver must speak, as `cuDriverGetVersion` gives it: 11040 is 11.4.
pub const LEAST_CUDA: i32 = 11_040;

/// The first driver that does.
pub const LEAST_DRIVER: &str = "470 (CUDA 11.4)";

/// The compute capability of the oldest cards that kernels are compiled for.
pub const OLDEST_CARD: (u32, u32) = Target::OLDEST.compute_capability();

/// CUDA version, the newest PTX that its driver reads, and its driver branch.
const RELEASES: [(i32, (u32, u32), u32); 16] = [
    (11_040, (7, 4), 470),
    (11_050, (7, 5), 495),
    (11_060, (7, 6), 510),
    (11_070, (7, 7), 515),
    (11_080, (7, 8), 520),
    (12_000, (8, 0), 525),
    (12_010, (8, 1), 530),
    (12_020, (8, 2), 535),
    (12_030, (8, 3), 545),
    (12_040, (8, 4), 550),
    (12_050, (8, 5), 555),
    (12_060, (8, 5), 560),
    (12_070, (8, 6), 565),
    (12_080, (8, 7), 570),
    (12_090, (8, 8), 575),
    (13_000, (9, 0), 580),
];

/// `12.8` of 12080.
pub fn version_text(cuda: i32) -> String {
    format!("{}.{}", cuda / 1000, cuda % 1000 / 10)
}

/// The newest PTX that a driver of this CUDA version reads; `None` when it is older or newer than what is known here.
pub fn newest_ptx(cuda: i32) -> Option<(u32, u32)> {
    let (last, ..) = RELEASES[RELEASES.len() - 1];
    let (_, ptx, _) = RELEASES.iter().rev().find(|(release, ..)| *release <= cuda)?;
    (cuda < last + 10).then_some(*ptx)
}

/// The first driver that reads this PTX version.
pub fn first_driver(ptx: (u32, u32)) -> String {
    match RELEASES.iter().find(|(_, reads, _)| *reads >= ptx) {
        Some((cuda, _, driver)) => format!("{driver} (CUDA {})", version_text(*cuda)),
        None => "of the newest branch".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_ptx_follows_the_release_notes() {
        for (cuda, ptx) in [(11_040, (7, 4)), (11_080, (7, 8)), (12_060, (8, 5)), (12_080, (8, 7)), (13_000, (9, 0))] {
            assert_eq!(newest_ptx(cuda), Some(ptx), "{cuda}");
        }
        assert_eq!((newest_ptx(11_020), newest_ptx(13_010)), (None, None), "beyond the table nothing is said");
    }

    #[test]
    fn first_driver_is_the_oldest_that_reads_it() {
        assert!(RELEASES.is_sorted());
        assert_eq!(first_driver((7, 8)), "520 (CUDA 11.8)");
        assert_eq!(first_driver((8, 6)), "565 (CUDA 12.7)");
        assert_eq!(first_driver((6, 3)), LEAST_DRIVER);
        assert_eq!(RELEASES[0].0, LEAST_CUDA);
        assert_eq!(first_driver((99, 0)), "of the newest branch");
    }

    #[test]
    fn version_text_is_major_and_minor() {
        assert_eq!((version_text(12_080).as_str(), version_text(11_040).as_str()), ("12.8", "11.4"));
    }
}
