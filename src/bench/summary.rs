//! Summaries of the rows: geometric means against the vendor's library, and tensor cores against plain ones.

use polywarp_core::{DeviceInfo, DeviceKind};
use serde::Serialize;

use super::{Row, Table};

/// The products of one kind on one device, compared with the vendor's library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VendorMean {
    /// The device's id.
    pub device: String,
    /// The kind of operands: `f16`, `f32-high`, ...
    pub kind: String,
    /// Number of products compared.
    pub cases: usize,
    /// Geometric mean of the speedups over the vendor's library, in bursts.
    pub burst: f64,
    /// The same over aligned shapes only.
    pub burst_aligned: Option<f64>,
    /// The aligned shape with the lowest ratio, and that ratio.
    pub worst_aligned: Option<(String, f64)>,
    /// Geometric mean over the products that ran sustained, and their number.
    pub sustained: Option<(f64, usize)>,
}

/// The same product on tensor cores (f16) and on plain cores (f32 at full precision).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorCores {
    /// The device's id.
    pub device: String,
    /// Side of the matrices: the largest at which both were measured.
    pub side: u64,
    /// TFLOP/s of the f16 product.
    pub f16: f64,
    /// TFLOP/s of the f32 product.
    pub f32: f64,
}

impl TensorCores {
    /// The speedup of f16.
    pub fn times(&self) -> f64 {
        self.f16 / self.f32
    }
}

fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

/// `f16` of `gemm f16 4096`.
pub(super) fn kind_of(case: &str) -> Option<&str> {
    case.strip_prefix("gemm ")?.split(' ').next()
}

impl Table {
    /// One entry for each device and kind of product that was compared with a vendor's library, in the order of the rows.
    pub fn vendor_means(&self) -> Vec<VendorMean> {
        let compared = || self.rows.iter().filter(|row| row.versus.is_some());
        let mut groups: Vec<(&str, &str)> = Vec::new();
        for row in compared() {
            let group = (row.device.as_str(), kind_of(&row.case).unwrap_or(&row.dtype));
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        let of = |(device, kind): (&str, &str)| {
            let alike = |row: &&Row| row.device == device && kind_of(&row.case).unwrap_or(&row.dtype) == kind;
            let rows: Vec<_> = compared().filter(alike).filter_map(|row| Some((row, row.versus.as_ref()?))).collect();
            let aligned: Vec<(&Row, f64)> =
                rows.iter().filter(|(_, v)| v.aligned).map(|(row, v)| (*row, v.burst.ratio())).collect();
            let worst = aligned.iter().min_by(|x, y| x.1.total_cmp(&y.1));
            let bursts: Vec<f64> = rows.iter().map(|(_, versus)| versus.burst.ratio()).collect();
            let held: Vec<f64> = rows.iter().filter_map(|(_, v)| v.sustained.map(|pair| pair.ratio())).collect();
            VendorMean {
                device: device.to_owned(),
                kind: kind.to_owned(),
                cases: rows.len(),
                burst: geometric_mean(&bursts).unwrap_or(f64::NAN),
                burst_aligned: geometric_mean(&aligned.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>()),
                worst_aligned: worst.map(|(row, ratio)| (row.case.clone(), *ratio)),
                sustained: geometric_mean(&held).map(|mean| (mean, held.len())),
            }
        };
        groups.into_iter().map(of).collect()
    }

    /// Each GPU's f16 product beside its f32 product: `gemm f16 N` and `gemm f32 N` of the largest N that has both.
    pub fn tensor_cores(&self) -> Vec<TensorCores> {
        let side = |row: &Row| row.case.strip_prefix("gemm f16 ")?.parse::<u64>().ok();
        let of = |device: &DeviceInfo| {
            let rows = self.rows.iter().filter(|row| row.device == device.id);
            let both = rows.filter_map(|half| {
                let side = side(half)?;
                let single = self.row(&format!("gemm f32 {side}"), &device.id)?;
                Some(TensorCores { device: device.id.clone(), side, f16: half.rate, f32: single.rate })
            });
            both.max_by_key(|found| found.side)
        };
        let real = |device: &&DeviceInfo| !matches!(device.kind, DeviceKind::Cpu | DeviceKind::Software);
        self.devices.iter().filter(real).filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_mean_of_a_half_and_a_double_is_one() {
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn kind_is_the_second_word_of_a_product() {
        assert_eq!(kind_of("gemm f32-high 1x4096x4096"), Some("f32-high"));
        assert_eq!(kind_of("copy f32"), None);
    }

    #[test]
    fn means_are_taken_by_kind_and_worst_is_among_the_aligned() {
        let table = crate::bench::html::tests::table();
        let means = table.vendor_means();
        let [f32] = &means[..] else { panic!("{means:?}") };
        assert_eq!((f32.device.as_str(), f32.kind.as_str(), f32.cases), ("cuda:0", "f32", 2));
        // 2 (aligned) and 8 (odd).
        assert!((f32.burst - 4.0).abs() < 1e-12 && (f32.burst_aligned.unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(f32.worst_aligned, Some(("gemm f32 64".to_owned(), 2.0)));
        assert_eq!(f32.sustained.map(|(_, cases)| cases), Some(1));
    }

    #[test]
    fn tensor_cores_are_compared_at_the_largest_common_side() {
        let mut table = crate::bench::html::tests::table();
        assert_eq!(table.tensor_cores(), []);
        for side in [64, 256] {
            let mut half = table.row("gemm f32 64", "cuda:0").unwrap().clone();
            (half.case, half.rate) = (format!("gemm f16 {side}"), 90.0);
            table.rows.push(half);
        }
        let found = table.tensor_cores();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].side, found[0].f32), (64, 12.0));
        assert!((found[0].times() - 7.5).abs() < 1e-12);
    }
}
