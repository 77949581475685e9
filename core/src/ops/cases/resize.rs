//! Cases of images in another size: larger, smaller and both, sizes that do not divide, one place, every float and layout, and bits that are
//! only moved.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values, output};
use crate::ops::{Corners, Interpolation, Resize};
use crate::{DType, Result};

const FAMILY: &str = "resize";
const ALL: [Interpolation; 3] =
    [Interpolation::Nearest, Interpolation::Bilinear(Corners::Edges), Interpolation::Bilinear(Corners::Centres)];

#[inline(never)]
fn resize(dtype: DType, kind: LayoutKind, dims: &[u64], size: [u64; 2], how: Interpolation) -> Result<Resize> {
    let op = Resize::new(kind.spec(dtype, dims)?, size, how)?;
    Resize { output: output(dtype, op.output.layout.dims())?, ..op }.check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for how in ALL {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_float() || how == Interpolation::Nearest) {
            let values = if how == Interpolation::Nearest { Values::RandomBits } else { Values::Normal };
            add(&mut cases, FAMILY, resize(dtype, LayoutKind::Dense, &[2, 5, 7, 3], [8, 4], how), &[values]);
        }
        for kind in LayoutKind::ALL {
            add(&mut cases, FAMILY, resize(DType::F32, kind, &[4, 6, 5], [7, 9], how), &[Values::Normal]);
            add(&mut cases, FAMILY, resize(DType::F16, kind, &[2, 4, 6, 5], [3, 6], how), &[Values::Normal]);
        }
        let sizes = [
            ([1, 1], [1, 1]),
            ([1, 1], [3, 5]),
            ([3, 5], [1, 1]),
            ([1, 6], [4, 6]),
            ([2, 2], [2, 7]),
            ([6, 4], [3, 8]),
        ];
        for (from, size) in sizes {
            add(
                &mut cases,
                FAMILY,
                resize(DType::F32, LayoutKind::Dense, &[2, from[0], from[1], 3], size, how),
                &[Values::Normal],
            );
        }
        for extent in level.list(&[1, 31, 64, 257], &[2, 3, 7, 63, 65, 127, 128, 255]) {
            let op = resize(DType::F32, LayoutKind::Dense, &[1, extent, 3, 2], [129, 2], how);
            add(&mut cases, FAMILY, op, &[Values::Normal]);
        }
        for dims in [[0, 3, 4, 2], [2, 3, 4, 0]] {
            add(&mut cases, FAMILY, resize(DType::F32, LayoutKind::Dense, &dims, [5, 5], how), &[Values::Normal]);
        }
        for values in [Values::Special, Values::Uniform(-1e9, 1e9), Values::Planted(Plant::Inf, Where::Middle)] {
            add(&mut cases, FAMILY, resize(DType::F32, LayoutKind::Dense, &[1, 6, 5, 3], [9, 5], how), &[values]);
        }
    }
    unique(cases)
}

/// None: what there would be to time are gathers and maps, which have their own.
pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
