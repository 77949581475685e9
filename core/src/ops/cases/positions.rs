//! Cases of positions that are looked through: every dtype, none and all outside, words that hold a fault, sizes at the edges of
//! workgroups and parts, views, what is ignored.

use super::{add, ranks, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{FAULT_WORDS, Indexing, Positions};
use crate::{DType, Result};

const FAMILY: &str = "positions";
const DTYPES: [DType; 4] = [DType::I32, DType::U32, DType::I64, DType::U64];
const NO_FAULT: Values = Values::Constant(0.0);

fn positions(
    by: Indexing,
    dtype: DType,
    kind: LayoutKind,
    dims: &[u64],
    extent: u64,
    ignored: Option<i64>,
) -> Result<Positions> {
    let words = output(DType::U32, &[FAULT_WORDS as u64])?;
    Ok(Positions { output: words, ..Positions::new(by, kind.spec(dtype, dims)?, extent, ignored)? })
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DTYPES {
        let mut each = |dims: &[u64], extent, ignored, values, words| {
            let op = positions(Indexing::Gather, dtype, LayoutKind::Offset, dims, extent, ignored);
            add(&mut cases, FAMILY, op, &[values, words]);
        };
        // Bits of any kind; all inside; the extent itself, and with words that tell of a fault.
        each(&[300], 1 << 20, None, Values::RandomBits, NO_FAULT);
        each(&[3, 500], 100, None, Values::Integers(0, 99), NO_FAULT);
        each(&[3, 500], 100, None, Values::Integers(0, 100), NO_FAULT);
        each(&[9000], 100, None, Values::Integers(0, 100), Values::Integers(1, 9));
        each(&[9000], 8999, None, Values::Rising(8999), NO_FAULT);
        each(&[77], 0, None, Values::Integers(0, 3), NO_FAULT);
        each(&[77], u32::MAX.into(), None, Values::Integers(0, 3), NO_FAULT);
        each(&[700], 100, Some(100), Values::Integers(98, 101), NO_FAULT);
        each(&[700], 100, Some(-1), Values::Integers(-1, 99), NO_FAULT);
    }
    for size in sizes(level) {
        // The last position alone is outside.
        let op = positions(Indexing::Take, DType::I32, LayoutKind::Offset, &[size], size.saturating_sub(1), None);
        add(&mut cases, FAMILY, op, &[Values::Rising(size.saturating_sub(1) as u32), NO_FAULT]);
        let op = positions(Indexing::Take, DType::I64, LayoutKind::Offset, &[size], 5000, None);
        add(&mut cases, FAMILY, op, &[Values::Integers(-1, 5000), NO_FAULT]);
    }
    for (number, kind) in LayoutKind::ALL.into_iter().enumerate() {
        for dims in ranks() {
            let by = Indexing::ALL[(number + dims.len()) % Indexing::ALL.len()];
            let dtype = DTYPES[dims.len() % DTYPES.len()];
            add(&mut cases, FAMILY, positions(by, dtype, kind, &dims, 40, None), &[Values::Integers(0, 41), NO_FAULT]);
        }
    }
    for by in Indexing::ALL {
        let op = positions(by, DType::U64, LayoutKind::Dense, &[5000], 64, None);
        add(&mut cases, FAMILY, op, &[Values::Integers(0, 64), NO_FAULT]);
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let elements = size.elements();
    [
        ("positions i32", DType::I32, elements),
        ("positions i64", DType::I64, elements),
        ("positions 4096", DType::I32, 4096),
    ]
    .into_iter()
    .filter_map(|(name, dtype, elements)| {
        let op = positions(Indexing::Take, dtype, LayoutKind::Dense, &[elements], 1000, None).ok()?;
        Some(BenchCase::new(name, Suite::Reduce, op, Metric::Bytes))
    })
    .collect()
}
