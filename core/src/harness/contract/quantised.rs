//! Quantised tensors: how far what comes back may be from what went in, zeros and NaN, and the layer made of both.
//!
//! The ops have cases of their own; here they meet: scales that a device computed, values it divided by them, and a product that
//! multiplies both back. Bounds follow from half a step for each rounding to steps.

use super::{Answer, Test, demand};
use crate::harness::values::mix;
use crate::{DType, Device, FourBit, Granularity, MatmulOptions, Nibbles, Quantized, Result, Tensor, UnaryFn};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("quantised values come back within half a step", comes_back),
    ("zeros, NaN and infinities of a row stay in it", special_rows),
    ("values quantised by blocks come back, and multiply, block by block", blocks),
    ("4-bit steps lie two to a byte, and come back within half a step of their group", four_bits),
    ("a quantised layer is the layer", layer),
    ("a quantised layer of nothing is its bias", layer_of_nothing),
];

/// Numbers in -`largest`..`largest`, a pattern of their own for each seed.
fn numbers(count: u64, largest: f32, seed: u64) -> Vec<f32> {
    let unit = |i| (mix(seed, i) >> 40) as f32 / (1 << 23) as f32 - 1.0;
    (0..count).map(|i| largest * unit(i)).collect()
}

fn comes_back(device: &Device) -> Result<Answer> {
    let (rows, columns) = (37usize, 131usize);
    // Rows and columns of different magnitudes.
    let data: Vec<f32> = numbers((rows * columns) as u64, 3.0, 1)
        .into_iter()
        .enumerate()
        .map(|(i, x)| x * (1 + i / columns) as f32 * (1 + i % columns) as f32)
        .collect();
    let x = Tensor::from_slice(device, &data, [rows as u64, columns as u64])?;
    let granularities = [
        (Granularity::PerTensor, [1, 1]),
        (Granularity::PerRow, [rows as u64, 1]),
        (Granularity::PerColumn, [1, columns as u64]),
    ];
    for (granularity, dims) in granularities {
        let quantized = x.quantize(DType::I8, granularity)?;
        demand!(quantized.scales().dims() == dims, "{granularity:?}: scales {:?}", quantized.scales().dims());
        let steps: Vec<i8> = quantized.values().to_vec()?;
        demand!(steps.contains(&127) || steps.contains(&-127), "{granularity:?}: the largest step is not used");
        demand!(!steps.contains(&-128), "{granularity:?}: -128 is no step");
        let scales: Vec<f32> =
            quantized.scales().broadcast_to([rows as u64, columns as u64])?.contiguous()?.to_vec()?;
        let back: Vec<f32> = quantized.dequantize(DType::F32)?.to_vec()?;
        for (i, ((x, back), scale)) in data.iter().zip(&back).zip(&scales).enumerate() {
            let allowed = 0.5 * scale * (1.0 + (-12f32).exp2());
            demand!((x - back).abs() <= allowed, "{granularity:?}: element {i} was {x}, is {back}, scale {scale}");
        }
    }
    Ok(Ok(()))
}

/// Blocks of all kinds, with and without partial ones, in a batch; one block of numbers a million times larger than the others
/// costs no other block its precision; a NaN spoils its block alone.
fn blocks(device: &Device) -> Result<Answer> {
    let (batch, rows, columns) = (2usize, 37usize, 131usize);
    let mut data = numbers((batch * rows * columns) as u64, 1.0, 7);
    data[5] *= 1e6;
    data[3 * columns + 100] = f32::NAN;
    let x = Tensor::from_slice(device, &data, [batch as u64, rows as u64, columns as u64])?;
    let kinds = [(DType::I8, 0.5 / 127.0), (DType::F8E4M3, 1.0 / 16.0), (DType::F8E5M2, 1.0 / 8.0)];
    for (dtype, share) in kinds {
        for [down, across] in [[1, 128], [128, 128], [37, 131], [8, 1], [4, 32]] {
            let quantized = x.quantize(dtype, Granularity::Blocks { rows: down, columns: across })?;
            let (down, across) = (down as usize, across as usize);
            let counts = [rows.div_ceil(down), columns.div_ceil(across)];
            let dims = quantized.scales().dims().to_vec();
            demand!(
                dims == [batch as u64, counts[0] as u64, counts[1] as u64],
                "{dtype} {down}x{across}: scales {dims:?}"
            );
            let back: Vec<f32> = quantized.dequantize(DType::F32)?.to_vec()?;
            let block = |i: usize| {
                let (row, column) = (i / columns, i % columns);
                (row / rows * counts[0] + row % rows / down) * counts[1] + column / across
            };
            let mut largest = vec![0f32; batch * counts[0] * counts[1]];
            for (i, x) in data.iter().enumerate() {
                let so_far = &mut largest[block(i)];
                *so_far = if x.is_nan() || so_far.is_nan() { f32::NAN } else { so_far.max(x.abs()) };
            }
            for (i, (x, back)) in data.iter().zip(&back).enumerate() {
                let (most, allowed) = (largest[block(i)], share * largest[block(i)] * 1.001);
                let right = if most.is_nan() { back.is_nan() } else { (x - back).abs() <= allowed };
                demand!(right, "{dtype} {down}x{across}: element {i} was {x}, is {back}, largest of its block {most}");
            }
        }
    }
    // The product is that of what both stand for.
    let (m, n, k) = (19u64, 45u64, 200u64);
    let a = Tensor::from_slice(device, &numbers(m * k, 1.0, 8), [m, k])?;
    let w = Tensor::from_slice(device, &numbers(n * k, 1.0, 9), [n, k])?;
    for dtype in [DType::I8, DType::F8E4M3] {
        let weights = w.quantize(dtype, Granularity::Blocks { rows: 32, columns: 64 })?;
        let activations = a.quantize(dtype, Granularity::Blocks { rows: 1, columns: 64 })?;
        let want = activations.dequantize(DType::F32)?.matmul(&weights.dequantize(DType::F32)?.t()?)?;
        let product = activations.matmul(&weights.t()?, &MatmulOptions::default())?;
        let layer = a.linear(&weights, None, None)?;
        let per_row = a.quantize(dtype, Granularity::PerRow)?;
        let mixed = per_row.matmul(&weights.t()?, &MatmulOptions::default())?;
        let mixed_want = per_row.dequantize(DType::F32)?.matmul(&weights.dequantize(DType::F32)?.t()?)?;
        for (got, want) in [(&product, &want), (&layer, &want), (&mixed, &mixed_want)] {
            let (got, want): (Vec<f32>, Vec<f32>) = (got.to_vec()?, want.to_vec()?);
            // Hardware's products of 8-bit floats may lose 1.7 % of a sum's magnitude, which is k / 4 here.
            let allowed = if dtype == DType::I8 { 1e-3 } else { 0.017 * k as f32 / 4.0 };
            let wrong = got.iter().zip(&want).find(|(got, want)| (*got - *want).abs() > allowed);
            demand!(wrong.is_none(), "{dtype}: {wrong:?}");
        }
    }
    let none =
        Tensor::zeros(device, DType::F32, [0, 4])?.quantize(DType::I8, Granularity::Blocks { rows: 2, columns: 3 })?;
    demand!(none.scales().dims() == [0, 2] && none.dequantize(DType::F32)?.dims() == [0, 4], "blocks of nothing");
    Ok(Ok(()))
}

fn special_rows(device: &Device) -> Result<Answer> {
    for dtype in [DType::I8, DType::F8E4M3, DType::F8E5M2] {
        if let Err(why) = special_rows_as(device, dtype)? {
            return Ok(Err(format!("{dtype}: {why}")));
        }
    }
    Ok(Ok(()))
}

fn special_rows_as(device: &Device, dtype: DType) -> Result<Answer> {
    let mut data = numbers(5 * 64, 1.0, 2);
    data[..64].fill(0.0);
    data[64 + 7] = f32::NAN;
    data[2 * 64 + 9] = f32::NEG_INFINITY;
    data[3 * 64..4 * 64].fill(-0.0);
    let x = Tensor::from_slice(device, &data, [5, 64])?.quantize(dtype, Granularity::PerRow)?;
    let back: Vec<f32> = x.dequantize(DType::F32)?.to_vec()?;
    let weights = Tensor::from_slice(device, &numbers(3 * 64, 1.0, 3), [3, 64])?;
    let weights = weights.quantize(dtype, Granularity::PerRow)?;
    let product: Vec<f32> = x.matmul(&weights.t()?, &MatmulOptions::default())?.to_vec()?;
    for (what, rows) in [("what came back", &back), ("the product", &product)] {
        let columns = rows.len() / 5;
        for (row, values) in rows.chunks(columns).enumerate() {
            let right = match row {
                0 | 3 => values.iter().all(|x| *x == 0.0),
                1 | 2 => values.iter().all(|x| x.is_nan()),
                _ => values.iter().all(|x| x.is_finite()),
            };
            demand!(right, "row {row} of {what}: {values:?}");
        }
    }
    Ok(Ok(()))
}

/// Against the same layer in float64: each factor is off by half a step at most.
fn layer(device: &Device) -> Result<Answer> {
    let (batch, m, n, k) = (2usize, 9usize, 33usize, 150usize);
    let (xs, ws) = (numbers((batch * m * k) as u64, 2.0, 4), numbers((n * k) as u64, 0.5, 5));
    let bs = numbers(n as u64, 1.0, 6);
    let x = Tensor::from_slice(device, &xs, [batch as u64, m as u64, k as u64])?;
    let w = Tensor::from_slice(device, &ws, [n as u64, k as u64])?;
    let bias = Tensor::from_slice(device, &bs, [n as u64])?;
    for granularity in [Granularity::PerTensor, Granularity::PerRow] {
        let weights = w.quantize(DType::I8, granularity)?;
        let y = x.linear(&weights, Some(&bias), Some(UnaryFn::Relu))?;
        demand!(y.dims() == [batch as u64, m as u64, n as u64], "shape {:?}", y.dims());
        let y: Vec<f32> = y.to_vec()?;
        let largest = |values: &[f32]| values.iter().fold(0f32, |so_far, x| so_far.max(x.abs()));
        for (at, &got) in y.iter().enumerate() {
            let (row, column) = (&xs[at / n * k..][..k], at % n);
            let own = &ws[column * k..][..k];
            let of_weights = if granularity == Granularity::PerRow { own } else { &ws };
            let (half_x, half_w) = (f64::from(largest(row)) / 254.0, f64::from(largest(of_weights)) / 254.0);
            let (mut sum, mut allowed) = (f64::from(bs[column]), 1e-4);
            for (x, w) in row.iter().zip(own).map(|(&x, &w)| (f64::from(x), f64::from(w))) {
                sum += x * w;
                allowed += x.abs() * half_w + w.abs() * half_x + half_x * half_w;
            }
            let want = sum.max(0.0);
            demand!((f64::from(got) - want).abs() <= allowed, "{granularity:?}: {got}, not {want} +- {allowed}");
        }
        // f16 activations: the same layer, rounded to f16.
        let (x, bias) = (x.cast(DType::F16)?, bias.cast(DType::F16)?);
        let halves: Vec<f32> = x.linear(&weights, Some(&bias), Some(UnaryFn::Relu))?.cast(DType::F32)?.to_vec()?;
        for (half, full) in halves.iter().zip(&y) {
            demand!((half - full).abs() < 0.3, "{granularity:?}: f16 activations give {half}, f32 {full}");
        }
    }
    Ok(Ok(()))
}

fn layer_of_nothing(device: &Device) -> Result<Answer> {
    let weights = Quantized::new(
        Tensor::zeros(device, DType::I8, [3, 0])?,
        Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3, 1])?,
    )?;
    let bias = Tensor::from_slice(device, &[0.5f32, -1.0, 2.0], [3])?;
    let y = Tensor::zeros(device, DType::F32, [2, 0])?.linear(&weights, Some(&bias), None)?;
    let y: Vec<f32> = y.to_vec()?;
    demand!(y == [0.5, -1.0, 2.0, 0.5, -1.0, 2.0], "{y:?}");
    let none = Tensor::zeros(device, DType::F32, [0, 4])?.quantize(DType::I8, Granularity::PerColumn)?;
    demand!(none.scales().to_vec::<f32>()? == [0.0; 4], "scales of columns of nothing");
    Ok(Ok(()))
}

/// Bytes packed and read on the device, whole and odd rows, groups along either axis, one kernel and two.
fn four_bits(device: &Device) -> Result<Answer> {
    let steps: Vec<i32> = (0..33 * 5).map(|i| mix(5, i) as i32).collect();
    let steps = Tensor::from_slice(device, &steps, [33, 5])?;
    let packed = Nibbles::pack(&steps, FourBit::I4)?;
    let low = |x: &i32| (x << 28) >> 28;
    let (found, want) = (packed.unpack()?.to_vec::<i8>()?, steps.to_vec::<i32>()?);
    demand!(found.iter().zip(&want).all(|(&found, x)| i32::from(found) == low(x)), "{found:?} of {want:?}");
    let bytes = packed.bytes().to_vec::<u8>()?;
    let byte = |row: usize, j: usize| {
        let at = |i: usize| if i < 5 { (want[5 * row + i] & 15) as u8 } else { 0 };
        at(2 * j) | at(2 * j + 1) << 4
    };
    demand!((0..33).all(|row| (0..3).all(|j| bytes[3 * row + j] == byte(row, j))), "bytes {bytes:?}");
    let (rows, columns) = (37usize, 66usize);
    let data: Vec<f32> = numbers((rows * columns) as u64, 3.0, 11).iter().map(|x| x + 1.0).collect();
    let x = Tensor::from_slice(device, &data, [rows as u64, columns as u64])?;
    for kind in [FourBit::I4, FourBit::U4] {
        for (axis, group) in [(1, 22), (1, 16), (1, 3), (0, 37), (0, 16)] {
            let quantized = x.quantize4(kind, axis, group as u64)?;
            let scales = quantized.scales().to_vec::<f32>()?;
            let zeros = quantized.zeros().map_or(Ok(vec![0; scales.len()]), |zeros| zeros.to_vec::<u8>())?;
            let steps = quantized.steps().unpack()?.cast(DType::I32)?.to_vec::<i32>()?;
            let back = quantized.dequantize(DType::F32)?.to_vec::<f32>()?;
            for (i, (x, back)) in data.iter().zip(&back).enumerate() {
                let (row, column) = (i / columns, i % columns);
                let of = if axis == 1 {
                    row * columns.div_ceil(group) + column / group
                } else {
                    row / group * columns + column
                };
                let (scale, zero) = (scales[of], i32::from(zeros[of]));
                let told = format!("{kind:?} by {group} along {axis}: element {i} was {x}, is {back}, scale {scale}");
                demand!((x - back).abs() <= 0.5 * scale * (1.0 + (-12f32).exp2()), "{told}");
                demand!(*back == (steps[i] - zero) as f32 * scale, "{told}, step {}, zero point {zero}", steps[i]);
            }
        }
    }
    Ok(Ok(()))
}
