//! Tests of the tables, on made-up lines.

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
fn document_leaves_out_what_was_not_measured() {
    let table = run().document();
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

const BESIDE: &str = r#"{"ceilings":{},"device":{"id":"cuda:0","name":"A Card"},"memory":{"side":8192,"f16_bytes":402653184,"f32_bytes":805306368}}
{"row":{"case":"gemm f16 4096","shape":"[4096, 4096] x [4096, 4096]","device":"cuda:0","rate":687.0,"warm_ns":200000.0,"unit":"TFLOP/s","clock":"device","versus":{"library":"cuBLASLt 13.1.0 #2","kernel":"wgmma","aligned":true,"burst":{"ours_ns":198000.0,"theirs_ns":207900.0,"ours_state":null,"theirs_state":null},"sustained":{"ours_ns":230000.0,"theirs_ns":241500.0,"ours_state":{"mhz":1500.0},"theirs_state":{"mhz":1480.5}}}}}
{"vendor_mean":{"device":"cuda:0","kind":"f16","cases":17,"burst":1.21,"burst_aligned":1.056,"worst_aligned":["gemm f16 64x64x65536",0.96],"sustained":[1.05,9]}}
{"tensor_cores":{"device":"cuda:0","side":8192,"f16":700.0,"f32":50.0},"times":14.0}"#;

#[test]
fn products_stand_beside_the_vendors() {
    let mut run = Run::default();
    run.add(BESIDE).unwrap();
    let table = run.table();
    assert!(
        table.contains("f16 on tensor cores 700.0 TFLOP/s, f32 on plain cores 50.00: 14.0 times as fast"),
        "{table}"
    );
    assert!(table.contains("memory of the pool in f16 0.50 of that in f32 (384 of 768 MiB)"), "{table}");
    let row = "| gemm f16 4096 | cuda:0 | 198.0 | 207.9 | 1.050 | 1.050 | 597.4 | 568.9 | 1500 / 1480 | wgmma / cuBLASLt 13.1.0 #2 |";
    assert!(table.contains(row), "{table}");
    let document = run.document_products();
    assert!(
        document.contains("| f16 | 17 | 1.21 | 1.06 | 1.05 | 0.96 (64x64x65536) | 597.4; library 568.9 |"),
        "{document}"
    );
    let mean = BESIDE.lines().find(|line| line.contains("vendor_mean")).unwrap();
    assert!(run.add(mean).unwrap_err().contains("two means of f16 on cuda:0"));
}

#[test]
fn numbers_have_four_figures() {
    assert_eq!([4280.04, 41.523, 0.87341, 123.46, 0.0123].map(number), ["4280", "41.52", "0.8734", "123.5", "0.0123"]);
}

#[test]
fn pytorch_is_compared_at_equal_sizes_only() {
    assert_eq!(torch_name("sum columns f32", "[16384, 16384]").as_deref(), Some("sum cols f32 16384x16384"));
    assert_eq!(torch_name("add f32", "[1000] x [1000]"), None);
    let products = ["f16 1000", "f32-medium 1x4096x4096", "bf16 256x(512x512x512)", "f32-high 4096"];
    let named = products.map(|case| torch_name(&format!("gemm {case}"), ""));
    let expected = ["gemm f16 1000x1000x1000", "gemm tf32 1x4096x4096", "bgemm bf16 256x512x512x512"];
    assert_eq!(named.each_ref().map(Option::as_deref), [expected.map(Some).as_slice(), &[None]].concat()[..]);
}

#[test]
fn place_finds_the_documents_table() {
    for kept in &KEPT {
        let text = format!("a\n{}benches/results/x -->\n| b |\n{}\nc", kept.begin, kept.end);
        let (range, folder) = place(&text, kept).unwrap();
        assert_eq!((&text[range], folder.to_str()), ("| b |\n", Some("benches/results/x")));
        assert_eq!(place("nothing", kept), None);
    }
}
