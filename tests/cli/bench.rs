//! `polywarp bench`: what it writes can be read, and its exit code says whether all is well.

use std::fs;

use super::*;

/// A quick run on the CPU.
const QUICK: [&str; 9] = ["bench", "--device", "cpu", "--suite", "softmax", "--size", "small", "--budget", "0.01"];

fn quick(more: &[&str]) -> Vec<String> {
    QUICK.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn as_strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn words_that_no_case_has_are_named() {
    let said = refused(&as_strs(&quick(&["--only", "nosuch", "--only", "softmx"])), 2);
    assert!(said.contains("no case has `nosuch` or `softmx` in its name"), "{said}");
}

#[test]
fn table_lines_and_page_of_one_suite() {
    let folder = Folder::new("bench");
    let (lines, page) = (folder.path("lines.jsonl"), folder.path("page.html"));
    let said = well(&as_strs(&quick(&["--json", &lines, "--html", &page])));
    let shown: Vec<&str> = said.lines().filter(|line| line.trim_start().starts_with("softmax ")).collect();
    assert!(said.starts_with(&format!("polywarp {}", env!("CARGO_PKG_VERSION"))), "{said}");

    let lines: Vec<Value> = fs::read_to_string(&lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    // CPU model and threads, driver, commit.
    let machine = &lines[0]["machine"];
    assert!(machine["cpu_threads"].as_u64().unwrap() > 0, "{machine}");
    for column in ["cpu", "commit", "version", "system", "profile"] {
        assert!(machine[column].as_str().is_some_and(|text| !text.is_empty()), "{column} in {machine}");
    }
    assert_eq!((&lines[1]["device"]["id"], lines[1]["device"]["driver"].is_string()), (&"cpu".into(), true));
    assert!(lines[1]["ceilings"]["copy_gb_per_s"].as_f64().unwrap() > 0.0, "{}", lines[1]);

    let rows: Vec<&Value> = lines.iter().filter_map(|line| line.get("row")).collect();
    assert_eq!((rows.len(), shown.len()), (3, 3), "{said}");
    for row in rows {
        for column in ["case", "suite", "device", "dtype", "shape", "unit", "clock"] {
            assert!(row[column].as_str().is_some_and(|text| !text.is_empty()), "{column} in {row}");
        }
        for column in ["warm_ns", "cold_ns", "rate", "ceiling_share", "speedup"] {
            assert!(row[column].as_f64().is_some_and(|x| x.is_finite() && x > 0.0), "{column} in {row}");
        }
        assert_eq!((&row["suite"], &row["device"]), (&"softmax".into(), &"cpu".into()));
        assert!((0.0..=1.0).contains(&row["error_of_bound"].as_f64().unwrap()), "{row}");
        assert!(row["max_relative_error"].is_number());
        // There for every row, empty on the CPU: its memory is the host's.
        for column in ["with_transfer_ns", "speedup_with_transfer"] {
            assert_eq!(row.get(column), Some(&Value::Null), "{column} in {row}");
        }
        assert!(shown.iter().any(|line| line.contains(row["case"].as_str().unwrap())), "{said}");
    }

    // The CPU alone has no bars of speedups to draw.
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert_eq!(page.matches("<td rowspan=").count(), 3, "{page}");
}

#[test]
fn profile_has_a_table_and_a_trace_of_each_case() {
    let folder = Folder::new("bench-profile");
    let trace = folder.path("trace.json");
    let said = well(&as_strs(&quick(&["--profile", &trace])));
    let tables = said.lines().filter(|line| line.trim_start().starts_with("calls ")).count();
    assert_eq!(tables, 3, "{said}");
    assert!(said.lines().any(|line| line.ends_with("softmax: softmax")), "{said}");

    let trace: Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let processes = events.iter().filter(|event| event["name"] == "process_name");
    let processes: Vec<&Value> = processes.map(|event| &event["pid"]).collect();
    assert_eq!(processes.len(), 3, "{trace}");
    for process in processes {
        // The operations in a lane, those in a row that are alike once: all launches of one lie in one row.
        let lane = |tid: u64| {
            let events = events.iter().filter(|e| e["ph"] == "X" && e["pid"] == *process && e["tid"] == tid);
            let mut operations: Vec<u64> = events.filter_map(|e| e["args"]["operation"].as_u64()).collect();
            operations.dedup();
            operations
        };
        let (host, device) = (lane(0), lane(1));
        assert!(!host.is_empty() && host == device, "{host:?} beside {device:?} in {trace}");
    }
}

#[test]
fn lines_go_to_standard_output() {
    let output = ended(&mut program(&as_strs(&quick(&["--json", "-"]))));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = text(&output.stdout).lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    assert_eq!(rows.filter(|line| line.get("row").is_some()).count(), 3);
    assert!(text(&output.stderr).contains("softmax rows"), "the table is not lost: {}", text(&output.stderr));
}

/// Measuring takes minutes: it does not begin for a file that cannot be written.
#[test]
fn files_that_cannot_be_written_are_refused_first() {
    let folder = Folder::new("bench-unwritable");
    let (nowhere, page) = (folder.path("none/lines.jsonl"), folder.path("page.html"));
    let line = refused(&as_strs(&quick(&["--html", &page, "--json", &nowhere])), 1);
    assert!(line.contains("cannot write") && line.contains("none/lines.jsonl"), "{line}");
    assert!(!Path::new(&page).exists(), "an empty page was left");
    let folder_itself = folder.path("");
    assert!(refused(&as_strs(&quick(&["--json", &folder_itself])), 1).contains("cannot write"));
    for same in [page.as_str(), "-"] {
        assert!(refused(&as_strs(&quick(&["--html", same, "--json", same])), 2).contains("same file"));
    }
    let other = folder.path("./page.html");
    assert!(refused(&as_strs(&quick(&["--html", &page, "--json", &other])), 2).contains("same file"));
}

#[test]
fn page_of_products_has_its_plot() {
    let folder = Folder::new("bench-plot");
    let page = folder.path("page.html");
    let args = ["bench", "--device", "cpu", "--only", "gemm f32 256", "--only", "gemm f16 256", "--size", "small"];
    let args = [&args[..], &["--budget", "0.01"]].concat();
    well(&[&args[..], &["--html", &page]].concat());
    let page = fs::read_to_string(&page).unwrap();
    assert_eq!(page.matches("<svg").count(), 1, "{page}");
    assert!(page.contains("class=\"curve\""), "{page}");
    assert!(page.contains("gemm f32 256<small>") && page.contains("gemm f16 256<small>"), "{page}");
}

#[test]
fn gpu_is_measured_beside_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let folder = Folder::new("bench-gpu");
    let (lines, page) = (folder.path("lines.jsonl"), folder.path("page.html"));
    let args = ["bench", "--device", &gpu, "--suite", "softmax", "--size", "small", "--budget", "0.01"];
    well(&[&args[..], &["--json", &lines, "--html", &page]].concat());
    let lines = fs::read_to_string(&lines).unwrap();
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter_map(|line| line.get("row").cloned()).collect();
    let on_gpu: Vec<&Value> = rows.iter().filter(|row| row["device"] == gpu.as_str()).collect();
    assert_eq!((on_gpu.len(), rows.len()), (3, 6), "{rows:?}");
    for row in on_gpu {
        for column in ["with_transfer_ns", "speedup", "speedup_with_transfer"] {
            assert!(row[column].as_f64().is_some_and(|x| x.is_finite() && x > 0.0), "{column} in {row}");
        }
    }
    let page = fs::read_to_string(&page).unwrap();
    assert_eq!(page.matches("<svg").count(), 1, "{page}");
    assert_eq!(page.matches("<rect class=\"bar\"").count(), 3, "{page}");
}

#[test]
fn simulated_gpu_does_not_cut_the_cpus_products() {
    let software = |device: &&Value| device["kind"] == "software" && device["usable"] == true;
    let listing = json(&["devices", "--json"]);
    let Some(gpu) = listing["devices"].as_array().unwrap().iter().find(software) else {
        println!("not run: no simulated GPU here");
        return;
    };
    let folder = Folder::new("bench-sizes");
    let lines = folder.path("lines.jsonl");
    let gpu = gpu["id"].as_str().unwrap();
    let said = well(&["bench", "--device", gpu, "--only", "gemm f32 1024", "--budget", "0.01", "--json", &lines]);
    let lines = fs::read_to_string(&lines).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<&Value> = lines.iter().filter_map(|line| line.get("row")).collect();
    assert_eq!((rows.len(), &rows[0]["device"], &rows[0]["case"]), (1, &"cpu".into(), &"gemm f32 1024".into()));
    let skipped: Vec<&Value> = lines.iter().filter_map(|line| line.get("skipped")).collect();
    assert_eq!((skipped.len(), &skipped[0]["device"], &skipped[0]["fault"]), (1, &gpu.into(), &false.into()));
    assert!(said.contains(&format!("gemm f32 1024 on {gpu}: larger than is measured on a simulated GPU")), "{said}");
}

#[test]
fn bench_bad_requests_are_refused() {
    let names = refused(&["bench", "--suite", "nope"], 2);
    assert!(names.contains("softmax") && names.contains("networks"), "{names}");
    assert!(refused(&["bench", "--size", "huge"], 2).contains("normal"));
    assert!(refused(&["bench", "--budget", "soon"], 2).contains("seconds"));
    for flag in ["--budget", "--sustained"] {
        assert!(refused(&["bench", flag, "-1"], 2).contains("expected 0 to 3600 seconds"), "{flag}");
    }
    assert!(refused(&["bench", "--device", "wgpu:99"], 2).contains("available are"));
    assert!(refused(&["bench", "--alone"], 2).contains("--device"));
    assert!(refused(&["bench", "--device", "cpu", "--size", "small", "--only", "no such case"], 2).contains("no case"));
}

/// A disk may be full all the same once it is measured.
#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_one_clear_line_after_the_table() {
    for flag in ["--json", "--html"] {
        let output = ended(&mut program(&as_strs(&quick(&[flag, "/dev/full"]))));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flag}: {error}");
        // Lines of progress come before it where the cases take seconds.
        let (progress, error) = error.trim_end().rsplit_once('\n').unwrap_or(("", error.trim_end()));
        assert!(progress.lines().all(|line| line.contains(" of ")), "{flag}: {progress}");
        assert!(error.starts_with("error: "), "{flag}: {error}");
        assert!(error.contains("/dev/full") && error.contains("os error"), "{flag}: {error}");
        assert!(text(&output.stdout).contains("softmax rows f32"), "{flag}");
    }
}
