//! Every way to compute a matrix product on this machine's card: checked, then timed beside each other, and beside cuBLASLt
//! where the machine has it.
//!
//! ```text
//! cargo run --release -p polywarp-cuda --example gemm_candidates -- f16 nn 4096x4096x4096 1000x1000x1000
//!     DTYPE    f16, bf16, f16-f32, bf16-f32 (f32 output), f32, f32-high, f32-medium, f32-low, f64, i8, u8
//!     LAYOUT   of A and B, rows dense in memory: n as written (A [m,k], B [k,n]), t transposed (A [k,m], B [n,k])
//!     MxNxK or MxNxKxBATCH, as many as wanted
//!     --only WORD         candidates whose name contains it
//!     --portable          the WGSL kernels too
//!     --no-vendor         without cuBLASLt
//!     --sustained SECONDS the best of ours and of cuBLASLt for so long, in turns of a quarter second
//! ```
//!
//! Operands are uniform in [-1, 1) (integers: all bits) and rotate through more memory than twice the card's cache. A
//! sample is a graph of launches, timed by the card; all candidates take turns, and the median of their samples counts.
//! cuBLASLt has 32 MiB of workspace; the best of its first eight heuristics is shown. Exit code 1 when a result is wrong.

mod check;
mod vendor;

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use polywarp_core::ops::Matmul;
use polywarp_core::{Backend, Buffer, DType, Layout, Op, Precision, Recorded, Shape, TensorSpec};
use polywarp_cuda::{CudaBackend, Options, cards};

use check::Data;
use vendor::Vendor;

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// Samples per candidate.
const ROUNDS: usize = 7;
/// Launches in one sample at least.
const LEAST_LAUNCHES: usize = 10;
/// Nanoseconds that a sample should take at least: well above the clock's half microsecond.
const SAMPLE_NS: f64 = 400_000.0;
/// Most sets of operands.
const MOST_SETS: usize = 64;

/// What is measured.
#[derive(Clone, Copy, Debug)]
struct Problem {
    m: u64,
    n: u64,
    k: u64,
    batch: u64,
    input: DType,
    output: DType,
    precision: Precision,
    /// Whether A and B lie transposed.
    transposed: [bool; 2],
}

struct Arguments {
    problems: Vec<Problem>,
    only: String,
    portable: bool,
    vendor: bool,
    sustained: Option<Duration>,
}

fn arguments() -> Fallible<Arguments> {
    let mut words = Vec::new();
    let mut arguments =
        Arguments { problems: Vec::new(), only: String::new(), portable: false, vendor: true, sustained: None };
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "--only" => arguments.only = given.next().ok_or("--only wants a word")?,
            "--portable" => arguments.portable = true,
            "--no-vendor" => arguments.vendor = false,
            "--sustained" => {
                let seconds: f64 = given.next().ok_or("--sustained wants seconds")?.parse()?;
                arguments.sustained = Some(Duration::from_secs_f64(seconds));
            }
            _ => words.push(word),
        }
    }
    let [dtype, layout, shapes @ ..] = words.as_slice() else { return Err("DTYPE LAYOUT MxNxK...".into()) };
    let (input, precision) = match dtype.split_once('-') {
        Some(("f32", "high")) => (DType::F32, Precision::High),
        Some(("f32", "medium")) => (DType::F32, Precision::Medium),
        Some(("f32", "low")) => (DType::F32, Precision::Low),
        Some((input, "f32")) => (input.parse()?, Precision::Highest),
        Some(_) => return Err(format!("no such dtype: {dtype}").into()),
        None => (dtype.parse()?, Precision::Highest),
    };
    let output = Matmul::output_dtype(input).ok_or("no products of that dtype")?;
    let output = if dtype.ends_with("-f32") { DType::F32 } else { output };
    let transposed = match layout.as_str() {
        "nn" => [false, false],
        "nt" => [false, true],
        "tn" => [true, false],
        "tt" => [true, true],
        _ => return Err(format!("no such layout: {layout}").into()),
    };
    for shape in shapes {
        let numbers = shape.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let (m, n, k, batch) = match numbers[..] {
            [m, n, k] => (m, n, k, 1),
            [m, n, k, batch] => (m, n, k, batch),
            _ => return Err(format!("{shape} is not MxNxK").into()),
        };
        arguments.problems.push(Problem { m, n, k, batch, input, output, precision, transposed });
    }
    Ok(arguments)
}

impl Problem {
    fn op(&self) -> Fallible<Op> {
        let matrix = |dtype, rows, columns, transposed: bool| -> polywarp_core::Result<TensorSpec> {
            let [outer, inner] = if transposed { [columns, rows] } else { [rows, columns] };
            let layout = if self.batch == 1 {
                Layout::contiguous(Shape::new(&[outer, inner])?)
            } else {
                Layout::contiguous(Shape::new(&[self.batch, outer, inner])?)
            };
            let rank = layout.rank();
            Ok(TensorSpec::new(dtype, if transposed { layout.transpose(rank - 2, rank - 1)? } else { layout }))
        };
        let a = matrix(self.input, self.m, self.k, self.transposed[0])?;
        let b = matrix(self.input, self.k, self.n, self.transposed[1])?;
        let output = matrix(self.output, self.m, self.n, false)?;
        Ok(Matmul { precision: self.precision, ..Matmul::product(a, b, output) }.check()?.into())
    }

    fn flops(&self) -> f64 {
        2.0 * [self.m, self.n, self.k, self.batch].map(|n| n as f64).iter().product::<f64>()
    }
}

/// Operands and a result of their own for each launch of a sample.
struct Set {
    a: Buffer,
    b: Buffer,
    d: Buffer,
}

/// Something that can be timed: launches over all sets, ready to be enqueued.
enum Work<'a> {
    Ours(Recorded),
    Theirs(vendor::Graph<'a>),
}

struct Row<'a> {
    name: String,
    work: Work<'a>,
    launches: usize,
    samples: Vec<f64>,
    error: f64,
}

impl Row<'_> {
    /// Nanoseconds of one launch.
    fn sample(&self, backend: &CudaBackend) -> Fallible<f64> {
        let elapsed = backend.timed(&mut || match &self.work {
            Work::Ours(recorded) => backend.replay(recorded),
            Work::Theirs(graph) => graph.launch(backend),
        })?;
        Ok(elapsed.ns / self.launches as f64)
    }

    fn median(&self) -> f64 {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("gemm_candidates: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible<bool> {
    let arguments = arguments()?;
    let card = cards()?.into_iter().find(|card| card.unusable.is_none()).ok_or("no usable card")?;
    let backend = card.open(Options::default())?;
    println!("{}, {}", backend.info().name, backend.info().driver);
    let vendor = if arguments.vendor { Vendor::open(&backend) } else { Err("not asked for".into()) };
    match &vendor {
        Ok(vendor) => println!("cuBLASLt {}", vendor.version()),
        Err(why) => println!("no cuBLASLt: {why}"),
    }
    let mut all_right = true;
    for problem in &arguments.problems {
        all_right &= measure(&backend, vendor.as_ref().ok(), problem, &arguments)?;
    }
    Ok(all_right)
}

fn measure(backend: &CudaBackend, vendor: Option<&Vendor>, problem: &Problem, wanted: &Arguments) -> Fallible<bool> {
    let op = problem.op()?;
    let Problem { m, n, k, batch, .. } = *problem;
    let words = |t: bool| if t { 't' } else { 'n' };
    let [a, b] = problem.transposed.map(words);
    let (input, output, precision) = (problem.input, problem.output, problem.precision);
    println!("\n{m}x{n}x{k} batch {batch}, {input} -> {output}, {precision:?}, {a}{b}");
    let data = Data::random(problem);
    let set_bytes = op.inputs().iter().chain([&op.output()]).map(TensorSpec::required_bytes).sum::<u64>();
    let sets = (2 * backend.native_caps().l2_bytes / set_bytes + 2).clamp(2, MOST_SETS as u64) as usize;
    let sets = (0..sets).map(|_| data.upload(backend, &op)).collect::<Fallible<Vec<Set>>>()?;

    let native = polywarp_kernels::every(&op, backend.native_caps());
    let mut names = backend.candidates(&op)?;
    names.retain(|name| {
        name.contains(&wanted.only) && (wanted.portable || native.iter().any(|native| native.name == *name))
    });
    let names_len = names.len();
    let (mut rows, mut all_right) = (Vec::new(), true);
    for name in names {
        let run = |set: &Set| backend.run_candidate(&op, &name, &[&set.a, &set.b], &set.d);
        backend.write(&sets[0].d, 0, &vec![0xff; op.output().required_bytes() as usize])?;
        let once = backend.timed(&mut || run(&sets[0]))?.ns;
        let once = once.min(backend.timed(&mut || run(&sets[0]))?.ns);
        let error = data.error(backend, &sets[0], problem)?;
        if error > 1.0 {
            println!("  WRONG: {name}: {error:.2} times the bound");
            all_right = false;
            continue;
        }
        let launches = launches(once, sets.len());
        backend.begin_recording()?;
        let recorded = (0..launches).try_for_each(|i| run(&sets[i % sets.len()]));
        let ended = backend.end_recording();
        recorded?;
        rows.push(Row { name, work: Work::Ours(ended?), launches, samples: Vec::new(), error });
    }
    if let Some(vendor) = vendor {
        for plan in vendor.plans(problem) {
            backend.write(&sets[0].d, 0, &vec![0xff; op.output().required_bytes() as usize])?;
            let once = backend.timed(&mut || plan.run(backend, &sets[0]))?.ns;
            let once = once.min(backend.timed(&mut || plan.run(backend, &sets[0]))?.ns);
            let error = data.error(backend, &sets[0], problem)?;
            let launches = launches(once, sets.len());
            let name = format!("cublasLt #{}", plan.number());
            if error > 1.0 {
                println!("  WRONG: {name}: {error:.2} times the bound");
                continue;
            }
            let graph = plan.capture(backend, &sets, launches)?;
            rows.push(Row { name, work: Work::Theirs(graph), launches, samples: Vec::new(), error });
        }
    }
    for round in 0..3 + ROUNDS {
        for row in &mut rows {
            let sample = row.sample(backend)?;
            // The first three warm up.
            row.samples.extend((round >= 3).then_some(sample));
        }
    }
    report(&mut rows, problem);
    println!(
        "  execute costs the host {:.2} us a call, {names_len} ways were listed",
        host_us(backend, &op, &sets[0], &rows)?
    );
    if let Some(length) = wanted.sustained {
        sustained(backend, &rows, problem, length)?;
    }
    backend.synchronize()?;
    Ok(all_right)
}

/// Launches of a sample, when one takes `ns`: all sets at least once.
fn launches(ns: f64, sets: usize) -> usize {
    ((SAMPLE_NS / ns.max(1.0)) as usize).clamp(LEAST_LAUNCHES, 400).max(sets)
}

/// Microseconds of the host that a call of `execute` takes, once the way is chosen: enqueued, not waited for.
fn host_us(backend: &CudaBackend, op: &Op, set: &Set, rows: &[Row]) -> Fallible<f64> {
    // Fewer than the driver's queue holds, so that no call waits for the card; and not for long.
    let ns = rows.iter().map(Row::median).fold(1e8, f64::min);
    let calls = ((5e7 / ns) as u32).clamp(5, 300);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        backend.synchronize()?;
        let start = Instant::now();
        for _ in 0..calls {
            backend.execute(op, &[&set.a, &set.b], &set.d)?;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    }
    backend.synchronize()?;
    Ok(best)
}

fn is_vendor(row: &Row) -> bool {
    matches!(row.work, Work::Theirs(_))
}

fn report(rows: &mut [Row], problem: &Problem) {
    rows.sort_by(|x, y| x.median().total_cmp(&y.median()));
    let theirs = rows.iter().filter(|row| is_vendor(row)).map(Row::median).fold(f64::NAN, f64::min);
    println!("  {:>10} {:>10} {:>9} {:>8} {:>7}  candidate", "us", "best us", "TFLOP/s", "cublasLt", "error");
    let mut shown_vendor = false;
    for row in rows.iter() {
        if is_vendor(row) && std::mem::replace(&mut shown_vendor, true) {
            continue;
        }
        let (median, best) = (row.median(), row.samples.iter().copied().fold(f64::NAN, f64::min));
        let (rate, ratio) = (problem.flops() / median / 1e3, theirs / median);
        let (us, best_us, name, error) = (median / 1e3, best / 1e3, &row.name, row.error);
        println!("  {us:>10.2} {best_us:>10.2} {rate:>9.1} {ratio:>8.3} {error:>7.3}  {name}");
    }
    if let Some(ours) = rows.iter().find(|row| !is_vendor(row)) {
        println!("  RATIO {:.3} burst, {}", theirs / ours.median(), ours.name);
    }
}

/// The best of ours and of theirs, in turns.
fn sustained(backend: &CudaBackend, rows: &[Row], problem: &Problem, length: Duration) -> Fallible {
    let best = [rows.iter().find(|row| !is_vendor(row)), rows.iter().find(|row| is_vendor(row))];
    let best: Vec<&Row> = best.into_iter().flatten().collect();
    let mut totals = vec![(0.0f64, 0usize, Vec::new()); best.len()];
    let start = Instant::now();
    while start.elapsed() < length * best.len() as u32 {
        for (row, total) in best.iter().zip(&mut totals) {
            let turn = Instant::now();
            // The first samples of a turn still feel the other's heat and clock.
            let mut settled = false;
            while turn.elapsed() < Duration::from_millis(250) {
                let ns = row.sample(backend)?;
                if settled {
                    *total = (total.0 + ns * row.launches as f64, total.1 + row.launches, std::mem::take(&mut total.2));
                }
                settled = turn.elapsed() > Duration::from_millis(80);
            }
            total.2.push(clock());
        }
    }
    for (row, (ns, launches, clocks)) in best.iter().zip(&totals) {
        let each = ns / *launches as f64;
        let clocks: Vec<String> = clocks.iter().flatten().take(3).cloned().collect();
        let (us, rate, name) = (each / 1e3, problem.flops() / each / 1e3, &row.name);
        println!("  sustained {us:>10.2} us {rate:>8.1} TFLOP/s  {name}  ({})", clocks.join("; "));
    }
    Ok(())
}

/// Clock and power, as nvidia-smi says.
fn clock() -> Option<String> {
    let query = ["--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader", "-i", "0"];
    let said = Command::new("nvidia-smi").args(query).output().ok()?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}
