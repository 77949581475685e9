//! What follows from sorted and scanned lines, and statistics: calls that are made of several operations, on tensors and views.
//!
//! The ops have cases of their own; here they meet.

use super::{Answer, Test, demand};
use crate::harness::values::mix;
use crate::ops::SortOrder;
use crate::{DType, Device, Norm, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("the best few, quantiles and counts are those of the sorted line", order),
    ("distinct values come with their places and counts", distinct),
    ("variances and lengths are those of float64", statistics),
];

/// Integers in -40..=40; each comes often.
fn numbers(count: u64) -> Vec<f32> {
    (0..count).map(|i| (mix(5, i) % 81) as f32 - 40.0).collect()
}

fn order(device: &Device) -> Result<Answer> {
    // Columns of a matrix that lies the other way.
    let values = numbers(2 * 1300);
    let x = Tensor::from_slice(device, &values, [1300, 2])?.t()?;
    let best = x.topk(5, 1, SortOrder::Descending)?;
    let (middle, low) = (x.median(1)?.to_vec::<f32>()?, x.quantile(0.3, 1)?.to_vec::<f32>()?);
    for row in 0..2 {
        let line: Vec<f32> = values.iter().skip(row).step_by(2).copied().collect();
        let mut places: Vec<usize> = (0..line.len()).collect();
        places.sort_by(|&a, &b| line[b].total_cmp(&line[a]));
        let found = best.indices.to_vec::<u32>()?[row * 5..][..5].to_vec();
        demand!(found.iter().zip(&places).all(|(&a, &b)| a as usize == b), "row {row}: the best at {found:?}");
        let sorted: Vec<f32> = places.iter().rev().map(|&at| line[at]).collect();
        demand!(middle[row] == (sorted[649] + sorted[650]) / 2.0, "row {row}: median {}", middle[row]);
        let want = sorted[389] + (sorted[390] - sorted[389]) * 0.7;
        demand!((low[row] - want).abs() < 1e-3, "row {row}: quantile {}, not {want}", low[row]);
    }
    let counts = x.histogram(9, -40.5, 40.5)?.to_vec::<u32>()?;
    let of = |part: i32| values.iter().filter(|x| (**x as i32 + 40) / 9 == part).count() as u32;
    let want: Vec<u32> = (0..9).map(of).collect();
    demand!(counts == want, "a histogram of {counts:?}, not {want:?}");
    Ok(Ok(()))
}

fn distinct(device: &Device) -> Result<Answer> {
    let values = numbers(2100);
    let found = Tensor::from_slice(device, &values, [3, 700])?.unique()?;
    let mut want = values.clone();
    want.sort_by(f32::total_cmp);
    want.dedup();
    let (unique, inverse) = (found.values.to_vec::<f32>()?, found.inverse.to_vec::<u32>()?);
    demand!(unique == want, "distinct values {unique:?}");
    let is_there = inverse.iter().zip(&values).all(|(&at, x)| unique.get(at as usize) == Some(x));
    demand!(is_there && found.inverse.dims() == [3, 700], "places of distinct values");
    let counts: Vec<u32> = want.iter().map(|x| values.iter().filter(|y| *y == x).count() as u32).collect();
    demand!(found.counts.to_vec::<u32>()? == counts, "counts {:?}", found.counts.to_vec::<u32>()?);
    Ok(Ok(()))
}

fn statistics(device: &Device) -> Result<Answer> {
    let values = numbers(3 * 301);
    let x = Tensor::from_slice(device, &values, [3, 301])?;
    let near = |found: Result<Tensor>, of: fn(&[f64]) -> f64| -> Result<Answer> {
        let found = found?.to_vec::<f32>()?;
        for (row, (found, line)) in found.iter().zip(values.chunks(301)).enumerate() {
            let line: Vec<f64> = line.iter().map(|&x| x.into()).collect();
            let want = of(&line);
            demand!((f64::from(*found) - want).abs() <= 1e-5 * want, "row {row}: {found}, not {want}");
        }
        Ok(Ok(()))
    };
    fn variance(line: &[f64]) -> f64 {
        let mean = line.iter().sum::<f64>() / line.len() as f64;
        line.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (line.len() - 1) as f64
    }
    let (walked, mean) = x.var_mean(1, 1.0)?;
    let both = (&walked + &mean.abs()?)?;
    let answers = [
        near(x.var(1, 1.0), variance)?,
        near(Ok(walked), variance)?,
        near(Ok(both), |line| variance(line) + (line.iter().sum::<f64>() / line.len() as f64).abs())?,
        near(x.std(1, 1.0), |line| variance(line).sqrt())?,
        near(x.norm(Norm::L1, 1), |line| line.iter().map(|x| x.abs()).sum())?,
        near(x.norm(Norm::L2, 1), |line| line.iter().map(|x| x * x).sum::<f64>().sqrt())?,
        near(x.norm(Norm::Infinity, 1), |line| line.iter().fold(0.0, |most, x| x.abs().max(most)))?,
        near(x.norm(Norm::P(3.0), 1), |line| line.iter().map(|x| x.abs().powi(3)).sum::<f64>().cbrt())?,
        near(x.count_nonzero(1)?.cast(DType::F32), |line| line.iter().filter(|x| **x != 0.0).count() as f64)?,
    ];
    Ok(answers.into_iter().collect::<std::result::Result<(), String>>())
}
