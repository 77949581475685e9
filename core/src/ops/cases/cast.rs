//! Cases of cast: every pair of dtypes over special values and the whole range of the source.

use super::{add, is_brief, strided_map, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values};
use crate::ops::Map;
use crate::{DType, Expr, Result};

const FAMILY: &str = "cast";

/// Partners of the integers that others stand for in width and sign.
const PARTNERS: [DType; 5] = [DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64];

#[inline(never)]
fn cast(from: DType, to: DType, kind: LayoutKind, dims: &[u64]) -> Result<Map> {
    strided_map("cast", &Expr::input(0).cast(to), &[from], &[kind], dims)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for from in DType::ALL {
        for to in DType::ALL.into_iter().filter(|&to| to != from) {
            let has_partner = PARTNERS.contains(&from) || PARTNERS.contains(&to);
            let (are_few, is_one) = (is_brief(from) && is_brief(to), is_brief(from) || is_brief(to));
            if level == Level::Quick && is_one && !are_few && !has_partner {
                continue;
            }
            let (count, values) = match from {
                DType::F8E4M3 | DType::F8E5M2 => (259, Values::AllBits),
                DType::F16 | DType::BF16 => (65_536, Values::AllBits),
                _ => (level.list(&[2053], &[200_003])[usize::from(level == Level::Full)], Values::Special),
            };
            if level == Level::Full && values != Values::AllBits {
                add(&mut cases, FAMILY, cast(from, to, LayoutKind::Dense, &[2053]), &[values]);
            }
            add(&mut cases, FAMILY, cast(from, to, LayoutKind::Dense, &[count]), &[values]);
        }
    }
    for kind in LayoutKind::ALL {
        for (from, to) in [
            (DType::F32, DType::F16),
            (DType::U8, DType::F32),
            (DType::I32, DType::I8),
            (DType::F32, DType::F8E4M3),
            (DType::F8E5M2, DType::F16),
        ] {
            add(&mut cases, FAMILY, cast(from, to, kind, &[7, 5, 33]), &[Values::Special]);
        }
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    [(DType::F32, DType::F16), (DType::F16, DType::F32)]
        .into_iter()
        .filter_map(|(from, to)| {
            Some(BenchCase::new(
                format!("cast {from}->{to}"),
                Suite::Elementwise,
                cast(from, to, LayoutKind::Dense, &[size.elements()]).ok()?,
                Metric::Bytes,
            ))
        })
        .collect()
}
