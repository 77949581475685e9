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
    ("each line of an axis has counts of its own", counts),
    ("distinct slices come in order with their places and counts", slices),
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

fn counts(device: &Device) -> Result<Answer> {
    let dims = [3u64, 40, 5];
    let values = numbers(dims.iter().product());
    let x = Tensor::from_slice(device, &values, dims)?;
    // Whole numbers from -40 to 40, and the same as they lie the other way.
    let whole = x.cast(DType::I32)?;
    for axis in 0..3 {
        let line_of = |i: usize, dims: &[u64]| {
            let inner: usize = dims[axis + 1..].iter().product::<u64>() as usize;
            let extent = dims[axis] as usize;
            (i / (inner * extent), i % inner, inner)
        };
        for (x, whole, dims) in [
            (&x, &whole, dims.to_vec()),
            (&x.permute([2, 1, 0])?, &whole.permute([2, 1, 0])?, vec![dims[2], dims[1], dims[0]]),
        ] {
            let elements = x.to_vec::<f32>()?;
            let count = |bins: usize, bin: &dyn Fn(f32) -> Option<usize>| {
                let lines = elements.len() / dims[axis] as usize;
                let mut counts = vec![0u32; lines * bins];
                for (i, &element) in elements.iter().enumerate() {
                    let (outer, within, inner) = line_of(i, &dims);
                    bin(element).into_iter().for_each(|bin| counts[(outer * bins + bin) * inner + within] += 1);
                }
                counts
            };
            let found = x.histogram_along(9, -40.5, 13.5, axis)?;
            let want = count(9, &|x| (x <= 13.0).then(|| (x as i32 + 40) as usize / 6));
            demand!(found.dims()[axis] == 9 && found.to_vec::<u32>()? == want, "histograms along axis {axis}");
            let found = whole.bincount_along_within(7, axis)?;
            let want = count(7, &|x| (0.0..7.0).contains(&x).then_some(x as usize));
            demand!(found.dims()[axis] == 7 && found.to_vec::<u32>()? == want, "counts along axis {axis}");
        }
    }
    let one = x.select(0, 1)?.select(1, 2)?;
    let [alone, along] = [one.histogram(4, -9.0, 9.0)?, one.histogram_along(4, -9.0, 9.0, 0)?];
    demand!(alone.to_vec::<u32>()? == along.to_vec::<u32>()?, "a line's histogram alone and along its axis");
    let none = x.slice(1, 0..0)?;
    let empty = none.histogram_along(2, 0.0, 1.0, 1)?;
    demand!(empty.dims() == [3, 2, 5] && empty.to_vec::<u32>()? == [0; 30], "histograms of nothing");
    demand!(whole.slice(0, 0..0)?.bincount_along(3, 1)?.dims() == [0, 3, 5], "counts of no lines");
    Ok(Ok(()))
}

fn slices(device: &Device) -> Result<Answer> {
    use std::cmp::Ordering;
    // Few numbers, zeros of both signs and now and then NaN: of 700 slices of 3 many are equal.
    let number = |i: u64| match mix(9, i) % 40 {
        7 => f32::NAN,
        n => [-1.5f32, 0.0, -0.0, 2.0][n as usize % 4],
    };
    let values: Vec<f32> = (0..700 * 3).map(number).collect();
    let rows: Vec<&[f32]> = values.chunks(3).collect();
    let order = |a: &[f32], b: &[f32]| {
        let one = |(a, b): (&f32, &f32)| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        a.iter().zip(b).map(one).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut places: Vec<usize> = (0..rows.len()).collect();
    places.sort_by(|&a, &b| order(rows[a], rows[b]));
    let mut firsts: Vec<usize> = Vec::new();
    let (mut inverse, mut counts) = (vec![0u32; rows.len()], Vec::<u32>::new());
    for &at in &places {
        if firsts.last().is_none_or(|&first| rows[first] != rows[at]) {
            firsts.push(at);
            counts.push(0);
        }
        inverse[at] = firsts.len() as u32 - 1;
        counts[firsts.len() - 1] += 1;
    }
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
    let want = bits(firsts.iter().flat_map(|&at| rows[at].to_vec()).collect());
    let x = Tensor::from_slice(device, &values, [700, 3])?;
    for (x, axis) in [(x.clone(), 0), (x.t()?.contiguous()?, 1)] {
        let found = x.unique_along(axis)?;
        let slices = if axis == 0 { found.values } else { found.values.t()? };
        demand!(slices.dims() == [firsts.len() as u64, 3], "{:?} slices along axis {axis}", slices.dims());
        demand!(bits(slices.to_vec::<f32>()?) == want, "slices along axis {axis}");
        demand!(found.inverse.to_vec::<u32>()? == inverse, "places along axis {axis}");
        demand!(found.counts.to_vec::<u32>()? == counts, "counts along axis {axis}");
    }
    demand!(counts.len() > 20 && counts.iter().any(|&count| count > 20), "few slices: {counts:?}");
    // One slice of many elements, none, and slices of nothing, which are equal.
    let found = x.unsqueeze(0)?.unique_along(0)?;
    demand!(found.values.dims() == [1, 700, 3] && found.counts.to_vec::<u32>()? == [1], "one slice");
    let found = x.slice(0, 0..0)?.unique_along(0)?;
    demand!(found.values.dims() == [0, 3] && found.inverse.dims() == [0], "no slices");
    let found = x.slice(1, 0..0)?.unique_along(0)?;
    demand!(found.values.dims() == [1, 0] && found.counts.to_vec::<u32>()? == [700], "slices of nothing");
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
