//! Tests of `rates.rs`, on made-up lines.

use super::*;

const LINES: &str = r#"{"machine":{"commit":"abc","cpu":"A CPU","cpu_threads":4,"system":"linux","version":"0.1.0"}}
{"ceilings":{},"device":{"id":"cpu","name":"A CPU","api":"cpu","driver":"none"}}
{"ceilings":{},"device":{"id":"cuda:0","name":"A Card","api":"cuda","driver":"580"}}
{"row":{"case":"copy f32","shape":"[268435456]","device":"cpu","rate":12.3456,"unit":"GB/s","ceiling_share":1.0,"clock":"host"}}
{"row":{"case":"copy f32","shape":"[268435456]","device":"cuda:0","rate":4280.04,"unit":"GB/s","ceiling_share":1.0,"clock":"device"}}
{"row":{"case":"gemm f32 4096","shape":"[4096, 4096] x [4096, 4096]","device":"cuda:0","rate":41.523,"unit":"TFLOP/s","ceiling_share":0.8,"clock":"device"}}
{"skipped":{}}"#;

fn run() -> Run {
    let mut run = Run::default();
    run.add(LINES).unwrap();
    let torch = "copy f32 2^28       0.5070 ms      4000.00 GB/s\ngemm f32 4096x4096x4096  2.6792 ms  51.30 TFLOP/s";
    run.torch = torch.lines().filter_map(torch_line).collect();
    run
}

#[test]
fn table_has_every_case_beside_pytorchs() {
    let table = run().table();
    assert!(table.contains("polywarp 0.1.0 at abc; A CPU, 4 threads, linux"), "{table}");
    assert!(table.contains("| copy f32, GB/s | 4280 | 1.00 | 4000 | 12.35 |"), "{table}");
    assert!(table.contains("| gemm f32 4096, TFLOP/s | 41.52 | - | 51.30 | - |"), "{table}");
}

#[test]
fn readme_leaves_out_what_was_not_measured() {
    let table = run().readme();
    assert!(table.contains("| copy, GB/s | 4280 | 4000 | 1.07 |"), "{table}");
    assert!(
        table.contains("| f32 product, 4096^3, TFLOP/s | 41.52 | 51.30 | - |") && !table.contains("softmax"),
        "{table}"
    );
}

#[test]
fn case_measured_twice_or_half_a_row_is_refused() {
    let mut twice = run();
    assert!(twice.add(LINES).unwrap_err().contains("`copy f32` on cpu stands twice"));
    assert!(Run::default().add(r#"{"row":{"case":"x"}}"#).unwrap_err().contains("line 1: a row lacks"));
    assert!(Run::default().add("no json").is_err());
}

#[test]
fn numbers_have_four_figures() {
    assert_eq!([4280.04, 41.523, 0.87341, 123.46, 0.0123].map(number), ["4280", "41.52", "0.8734", "123.5", "0.0123"]);
}

#[test]
fn pytorch_is_compared_at_equal_sizes_only() {
    assert_eq!(torch_name("sum columns f32", "[16384, 16384]").as_deref(), Some("sum cols f32 16384x16384"));
    assert_eq!(torch_name("add f32", "[1000] x [1000]"), None);
}

#[test]
fn place_finds_the_readmes_table() {
    let text = format!("a\n{BEGIN}benches/results/x -->\n| b |\n{END}\nc");
    let (range, folder) = place(&text).unwrap();
    assert_eq!((&text[range], folder.to_str()), ("| b |\n", Some("benches/results/x")));
    assert_eq!(place("nothing"), None);
}
