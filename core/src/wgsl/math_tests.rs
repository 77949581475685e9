//! The library's text: every function can be taken alone, and nothing more comes with it.

use super::*;
use crate::plan::Caps;
use crate::wgsl::validate::{full_caps, validate};

fn names() -> Vec<&'static str> {
    FILES.iter().flat_map(|file| file.split("\n\n")).filter_map(named).map(|block| block.0).collect()
}

#[test]
fn function_names_are_unique() {
    let mut sorted = names();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|w| w[0] != w[1]) && sorted.len() > 40);
}

#[test]
fn every_function_validates_with_what_it_names() {
    for name in names() {
        let wide = ["f64", "i64", "u64", "odd"].iter().any(|t| name.contains(t));
        let caps = if wide { full_caps() } else { Caps::webgpu_defaults("test") };
        let text = library(name);
        if let Err(message) = validate(&text, &caps) {
            panic!("{name}: {message}\n{text}");
        }
    }
}

#[test]
fn library_takes_what_is_named_and_no_more() {
    assert_eq!(library("let y = x + 1.0;"), "");
    let text = library("let y = max_f32(x, 1.0);");
    assert!(text.contains("fn max_f32(") && text.contains("fn total_order_f32("));
    assert!(!text.contains("fn min_f32("));
}

#[test]
fn exponentials_of_all_halves_are_within_their_bound_by_the_exponential_of_any_device() {
    use crate::oracle::Span;
    use crate::{Scalar, UnaryFn};

    let mut tried = 0;
    for bits in 0..=u16::MAX {
        let Scalar::F(x) = Scalar::from_le_bytes(&bits.to_le_bytes(), DType::F16) else { panic!("f16 is a float") };
        let y = x.clamp(-40.0, 20.0).exp();
        let bound = Span::exact(Scalar::F(x)).unary(UnaryFn::Exp, DType::F16).round_to(DType::F16);
        // WGSL 1.0, section 15.7.4: 3 + 2|x| ULP.
        let error = (3.0 + 2.0 * x.abs().min(40.0)) * (-23f64).exp2() * y;
        for device in [y - error, y + error].map(Scalar::F) {
            let flush = crate::oracle::Subnormals::Kept;
            if x.is_finite() {
                let expected = bound.into_expected(DType::F16);
                assert!(expected.accepts(device.cast(DType::F16), DType::F16, flush), "exp({x}) as {device:?}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 2 * 63488);
}
