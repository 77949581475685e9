//! The library's text: every function can be taken alone, and nothing more comes with it.

use super::*;
use crate::Caps;
use crate::validate::{full_caps, validate};

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
        let wide = ["f64", "i64", "odd"].iter().any(|t| name.contains(t));
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
