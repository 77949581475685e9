//! Handwritten digits, read by every device of this machine: real data, the same answer everywhere.
//!
//! Two classic methods, with all distances, products and reductions through polywarp: nearest neighbours
//! (`digits/knn.rs`) and principal components (`digits/pca.rs`). Pixels are small integers, so squared distances are
//! exact in f32 and every device must classify exactly the same digits rightly: 1774 of 1797 (98.72 %; scikit-learn's
//! `KNeighborsClassifier(3)` on the same folds: 1774). The principal components are held to scikit-learn's `PCA`.
//!
//! Run: `cargo run --release --example digits`. The data and its licence: `data/README.md`.

#[path = "digits/data.rs"]
mod data;
#[path = "digits/knn.rs"]
mod knn;
#[path = "digits/pca.rs"]
mod pca;

use std::time::{Duration, Instant};

use polywarp::{Device, Result};

/// Digits that 3 nearest neighbours classify rightly under 5-fold cross-validation, fold = line number modulo 5.
const CORRECT: u32 = 1774;

/// Largest error of an explained variance, relative: four digits.
const VARIANCE_TOLERANCE: f32 = 5e-5;

fn main() -> Result<()> {
    let digits = data::load();
    println!("{} digits of {} pixels", digits.labels.len(), data::PIXELS);
    for entry in polywarp::devices() {
        match entry.open() {
            Ok(device) => try_on(&device, &digits)?,
            Err(error) => println!("{}: {error}", entry.id),
        }
    }
    Ok(())
}

fn try_on(device: &Device, digits: &data::Digits) -> Result<()> {
    let (cold, correct) = timed(|| knn::correct_by_cross_validation(device, digits))?;
    let (warm, _) = timed(|| knn::correct_by_cross_validation(device, digits))?;
    assert_eq!(correct, CORRECT, "{device:?} classifies differently");

    let (pca_time, variances) = timed(|| pca::explained_variances(device, digits))?;
    for (i, (got, want)) in variances.iter().zip(pca::REFERENCE).enumerate() {
        assert!(
            (got - want).abs() <= VARIANCE_TOLERANCE * want,
            "{device:?}: component {i} explains {got}, not {want}"
        );
    }

    let total = digits.labels.len();
    let accuracy = 100.0 * f64::from(correct) / total as f64;
    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    println!(
        "  {} nearest neighbours: {correct} of {total} right, {accuracy:.2} %; first {cold:.1?}, again {warm:.1?}",
        knn::K
    );
    println!("  {} principal components: variances {variances:.1?}; {pca_time:.1?}", pca::COMPONENTS);
    Ok(())
}

/// The result of `work`, and the time until it is read.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(Duration, T)> {
    let start = Instant::now();
    let result = work()?;
    Ok((start.elapsed(), result))
}
