//! A small computation with a known answer, which shows within a second that a driver works. The full proof is
//! `polywarp check`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use polywarp::{Device, DeviceEntry, Error, Result, Tensor};

/// The way in which a device failed.
pub enum Failure {
    /// It returned an error, or its driver panicked.
    Refused(Error),
    /// It returned wrong numbers.
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

/// Opens a device and compares a matrix product, a sum and exponentials with their known values.
pub fn open_and_compute(entry: &DeviceEntry) -> Result<Device, Failure> {
    let work = || {
        let device = entry.open()?;
        compute(&device)?;
        Ok(device)
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure::Refused(Error::Backend {
            device: entry.id.clone(),
            op: "a small computation".to_owned(),
            message: "the driver or this library panicked (RUST_LOG=error shows where)".to_owned(),
        }))
    })
}

fn compute(device: &Device) -> Result<(), Failure> {
    // Sizes that no tile divides; integers so small that every partial sum is exact in f32.
    let (m, k, n) = (33, 65, 17);
    let a: Vec<f32> = (0..m * k).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| ((i * 5) % 13) as f32 - 6.0).collect();
    let left = Tensor::from_slice(device, &a, [m as u64, k as u64])?;
    let right = Tensor::from_slice(device, &b, [k as u64, n as u64])?;
    let product: Vec<f32> = left.matmul(&right)?.to_vec()?;
    for (i, got) in product.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let want: f64 = (0..k).map(|j| f64::from(a[row * k + j]) * f64::from(b[j * n + column])).sum();
        if f64::from(*got) != want {
            return Err(Failure::Wrong(format!("matrix product [{row}, {column}] is {got}, not {want}")));
        }
    }
    let got: f32 = left.sum(..)?.item()?;
    let want: f32 = a.iter().sum();
    if got != want {
        return Err(Failure::Wrong(format!("the sum of {} integers is {got}, not {want}", a.len())));
    }
    let x: Vec<f32> = (0..256).map(|i| i as f32 / 16.0 - 8.0).collect();
    let exponentials: Vec<f32> = Tensor::from_slice(device, &x, [256])?.exp()?.to_vec()?;
    for (x, got) in x.iter().zip(exponentials) {
        // WGSL allows exp an error of 3 + 2 |x| units in the last place.
        let want = f64::from(*x).exp();
        let allowed = (3.0 + 2.0 * f64::from(x.abs())) * want * f64::from(f32::EPSILON);
        let off = (f64::from(got) - want).abs();
        if off.is_nan() || off > allowed {
            return Err(Failure::Wrong(format!("exp({x}) is {got}, not {want}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_computes_rightly() {
        assert!(compute(&Device::cpu()).is_ok());
    }
}
