//! How fast, beside the fastest library on the same card: `docs/speed.svg` and the table of the README.
//!
//! No figure is typed: a bar names the two places in `benches/results` that hold its measurements (`measured.rs`), and the ratio of the two is
//! what picture and table say. `svg.rs` draws. `cargo xtask docs` compares both with their sources, `--write` makes them anew.

mod measured;
mod svg;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Document;
use crate::Result;
use measured::Ratio::{self, Mean, Rates, Times};
use measured::Source::{Line, Text};

/// Where the picture is.
const PICTURE: &str = "docs/speed.svg";
/// The document that has the table, between these two lines.
const README: &str = "README.md";
const BEGIN: &str = "<!-- speed: made by cargo xtask docs --write -->\n";
const END: &str = "<!-- end of speed -->\n";

/// Bars that are measured against one library on one card.
struct Group {
    /// What is computed.
    what: &'static str,
    /// Library and card.
    beside: &'static str,
    bars: &'static [Bar],
}

/// One comparison.
struct Bar {
    label: &'static str,
    route: Route,
    ratio: Ratio,
    table: InTable,
}

/// How a result came to the card.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Route {
    Cuda,
    Vulkan,
}

/// Whether the README's table has the bar as a row, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InTable {
    Yes,
    No,
}

/// A bar, and how many times as fast this library is as the other.
struct Found<'a> {
    group: &'a Group,
    bar: &'a Bar,
    times: f64,
}

const GEMM: &str = "h200-gemm-2026-11-24/";
/// One call on one card: networks, attention, and PyTorch beside them by `benches/peers/torch_rates.py`.
const H200: &str = "h200-2026-11-29/";
const H100_ARRAYS: &str = "h100-2026-11-26c/";

/// The place behind `before`, behind `part`, of a file whose path is one of the folders above and a name.
macro_rules! text {
    ($file:expr, $part:literal, $before:literal) => {
        Text { file: $file, part: $part, before: $before }
    };
}

const GROUPS: [Group; 4] = [
    Group {
        what: "matrix products, mean over shapes",
        beside: "cuBLASLt's best of eight, on an H200",
        bars: &[
            Bar {
                label: "f16, 19 shapes",
                route: Route::Cuda,
                ratio: Mean { folder: GEMM, file: "gemm-f16.jsonl", kind: "f16" },
                table: InTable::Yes,
            },
            Bar {
                label: "8-bit integers, 18 shapes",
                route: Route::Cuda,
                ratio: Mean { folder: "h200-2026-11-24d/", file: "gemm-i8-nt.jsonl", kind: "i8-nt" },
                table: InTable::No,
            },
            Bar {
                label: "f8e4m3, 17 shapes",
                route: Route::Cuda,
                ratio: Mean { folder: GEMM, file: "gemm-f8e4m3-nt.jsonl", kind: "f8e4m3-nt" },
                table: InTable::No,
            },
            Bar {
                label: "f32, factors not rounded, 19 shapes",
                route: Route::Cuda,
                ratio: Mean { folder: GEMM, file: "gemm-f32.jsonl", kind: "f32" },
                table: InTable::No,
            },
        ],
    },
    Group {
        what: "networks",
        beside: "PyTorch 2.11 compiled with CUDA graphs, on an H200",
        bars: &[
            Bar {
                label: "BERT trains, bf16, 32 texts (transformers)",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H200,
                    ours: Line { file: "claims-cuda.jsonl", case: "bert-base train bf16 b32", device: "cuda:0" },
                    theirs: text!("torch.txt", "bert-base train bf16 b32", " ms, "),
                },
                table: InTable::Yes,
            },
            Bar {
                label: "BERT encodes, bf16, 32 texts (plain layers)",
                route: Route::Cuda,
                ratio: Rates {
                    folder: "h200-2026-11-29b/",
                    ours: Line { file: "encode.jsonl", case: "bert-base encode bf16 b32", device: "cuda:0" },
                    theirs: text!("torch-encode.txt", "bert-base encode bf16 b32", " ms, "),
                },
                table: InTable::Yes,
            },
            Bar {
                label: "ResNet-50 trains, f16, 64 images",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H200,
                    ours: Line { file: "claims-cuda.jsonl", case: "resnet50 train f16 b64", device: "cuda:0" },
                    theirs: text!("torch.txt", "resnet50 train f16 b64", " ms, "),
                },
                table: InTable::Yes,
            },
            Bar {
                label: "ResNet-50 trains, f16, 256 images",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H200,
                    ours: Line { file: "claims-cuda.jsonl", case: "resnet50 train f16 b256", device: "cuda:0" },
                    theirs: text!("torch.txt", "resnet50 train f16 b256", " ms, "),
                },
                table: InTable::No,
            },
        ],
    },
    Group {
        what: "attention in f16, 4096 tokens, heads of 128",
        beside: "cuDNN, on an H200",
        bars: &[
            Bar {
                label: "forward",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H200,
                    ours: Line {
                        file: "attention.jsonl",
                        case: "attention of 16 heads of 128, 4096 rows, f16",
                        device: "cuda:0",
                    },
                    theirs: text!("torch.txt", "\nattention f16", " ms, "),
                },
                table: InTable::Yes,
            },
            Bar {
                label: "gradient",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H200,
                    ours: Line {
                        file: "attention.jsonl",
                        case: "attention gradient of 16 heads of 128, 4096 rows, f16",
                        device: "cuda:0",
                    },
                    theirs: text!("torch.txt", "attention gradient f16", " ms, "),
                },
                table: InTable::No,
            },
        ],
    },
    Group {
        what: "arrays",
        beside: "PyTorch 2.11",
        bars: &[
            Bar {
                label: "softmax of rows, f32, H200",
                route: Route::Cuda,
                ratio: Rates {
                    folder: "h200-2026-11-22/",
                    ours: Line { file: "polywarp.jsonl", case: "softmax rows f32", device: "cuda:0" },
                    theirs: text!("torch.txt", "softmax f32 16384x16384", " ms "),
                },
                table: InTable::No,
            },
            Bar {
                label: "softmax of rows, f32, H200",
                route: Route::Vulkan,
                ratio: Rates {
                    folder: "h200-2026-11-22/",
                    ours: Line { file: "polywarp.jsonl", case: "softmax rows f32", device: "wgpu:0" },
                    theirs: text!("torch.txt", "softmax f32 16384x16384", " ms "),
                },
                table: InTable::No,
            },
            Bar {
                label: "cumulative sums, f32, H100",
                route: Route::Cuda,
                ratio: Times {
                    folder: H100_ARRAYS,
                    ours: text!("arrays.txt", "cumsum of", " f32: "),
                    theirs: text!("torch-arrays.txt", "cumsum", " ms "),
                },
                table: InTable::No,
            },
            Bar {
                label: "sorting, f32, H100",
                route: Route::Cuda,
                ratio: Rates {
                    folder: H100_ARRAYS,
                    ours: text!("arrays.txt", "sort of", " ms, "),
                    theirs: text!("torch-arrays.txt", "sort with indices", "Gelem/s "),
                },
                table: InTable::No,
            },
        ],
    },
];

/// Complaints when picture or table are not what the results give.
pub fn check(documents: &[Document]) -> Vec<String> {
    let found = match all() {
        Ok(found) => found,
        Err(error) => return vec![error],
    };
    let text = |path: &str| documents.iter().find(|d| d.path == Path::new(path)).map_or("", |d| d.text.as_str());
    let again = "is not what the results give: run cargo xtask docs --write";
    let mut complaints = Vec::new();
    if text(PICTURE) != svg::draw(&found) {
        complaints.push(format!("{PICTURE} {again}"));
    }
    match with_table(text(README), &table(&found)) {
        Ok(made) if made == text(README) => {}
        Ok(_) => complaints.push(format!("{README}: its table of speeds {again}")),
        Err(error) => complaints.push(error),
    }
    complaints
}

/// Makes picture and table anew.
pub fn write() -> Result {
    let found = all()?;
    fs::write(PICTURE, svg::draw(&found)).map_err(|e| format!("{PICTURE}: {e}"))?;
    let readme = fs::read_to_string(README).map_err(|e| format!("{README}: {e}"))?;
    fs::write(README, with_table(&readme, &table(&found))?).map_err(|e| format!("{README}: {e}"))
}

/// Every bar with its ratio.
fn all() -> Result<Vec<Found<'static>>> {
    let bars = GROUPS.iter().flat_map(|group| group.bars.iter().map(move |bar| (group, bar)));
    bars.map(|(group, bar)| Ok(Found { group, bar, times: bar.ratio.read()? })).collect()
}

/// The README's rows.
fn table(found: &[Found<'_>]) -> String {
    let mut out = "| | beside | times as fast | measured in |\n|---|---|---|---|\n".to_owned();
    for Found { group, bar, times } in found.iter().filter(|one| one.bar.table == InTable::Yes) {
        let (Group { what, beside, .. }, Bar { label, .. }, path) = (group, bar, bar.ratio.file());
        let folder = path.split('/').next().unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {what}: {label} | {beside} | {times:.2} | [{folder}](benches/results/{path}) |");
    }
    out
}

/// `readme` with `table` between its two lines.
fn with_table(readme: &str, table: &str) -> Result<String> {
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{README}: no lines `{}` and `{}`", BEGIN.trim(), END.trim()))?;
    Ok([before, BEGIN, table, END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<Found<'static>> {
        let bars = GROUPS.iter().flat_map(|group| group.bars.iter().map(move |bar| (group, bar)));
        bars.zip(1..).map(|((group, bar), n)| Found { group, bar, times: f64::from(n) / 4.0 }).collect()
    }

    #[test]
    fn table_has_five_rows_that_cite_files() {
        let table = table(&found());
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 5, "{table}");
        assert!(rows.iter().all(|row| row.contains("](benches/results/h")), "{table}");
        assert!(rows[0].ends_with(
            "f16, 19 shapes | cuBLASLt's best of eight, on an H200 | 0.25 | [h200-gemm-2026-11-24](benches/results/h200-gemm-2026-11-24/gemm-f16.jsonl) |"
        ));
    }

    #[test]
    fn table_goes_between_its_lines_and_nowhere_else() {
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(with_table(&readme, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(with_table("a\nb\n", "new\n").unwrap_err().contains("no lines"));
    }

    #[test]
    fn picture_changed_by_hand_is_a_complaint() {
        let found = all().unwrap();
        assert!(
            found.iter().all(|one| one.times > 0.1 && one.times < 4.0),
            "{:?}",
            found.iter().map(|f| f.times).collect::<Vec<_>>()
        );
        let documents = |svg: String| {
            let readme = with_table(&format!("{BEGIN}{END}"), &table(&found)).unwrap();
            [Document { path: PICTURE.into(), text: svg }, Document { path: README.into(), text: readme }]
        };
        let drawn = svg::draw(&found);
        assert_eq!(check(&documents(drawn.clone())), Vec::<String>::new());
        assert_eq!(check(&documents(drawn.replacen("</text>", "!</text>", 1))).len(), 1);
        assert_eq!(check(&[]).len(), 2);
    }
}
