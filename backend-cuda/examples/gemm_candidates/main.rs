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

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use polywarp_core::ops::Matmul;
use polywarp_core::{Backend, DType, Layout, Op, Precision, Shape, TensorSpec};
use polywarp_cuda::vendor::{Clocks, CublasLt, Entrant, Operands, Sampling, rounds, sustained};
use polywarp_cuda::{CudaBackend, Options, cards};

use check::Data;

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// Samples per candidate, after those that warm up.
const ROUNDS: usize = 7;
const WARM_UP: usize = 3;
const SAMPLING: Sampling = Sampling { sample_ns: 400_000.0, least_launches: 10 };
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
    fn op(&self) -> Fallible<Matmul> {
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
        Ok(Matmul { precision: self.precision, ..Matmul::product(a, b, output) }.check()?)
    }

    fn flops(&self) -> f64 {
        2.0 * [self.m, self.n, self.k, self.batch].map(|n| n as f64).iter().product::<f64>()
    }
}

/// A way to compute it, and the largest error of its result as a share of the bound.
struct Row<'a> {
    entrant: Entrant<'a>,
    error: f64,
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
    let vendor = if arguments.vendor { CublasLt::open(&backend) } else { Err("not asked for".to_owned()) };
    match &vendor {
        Ok(vendor) => println!("cuBLASLt {}", vendor.version()),
        Err(why) => println!("no cuBLASLt: {why}"),
    }
    let clocks = Clocks::open(&card.pci_bus);
    let mut all_right = true;
    for problem in &arguments.problems {
        all_right &= measure(&backend, (vendor.as_ref().ok(), clocks.as_ref()), problem, &arguments)?;
    }
    Ok(all_right)
}

fn measure(
    backend: &CudaBackend,
    (vendor, clocks): (Option<&CublasLt>, Option<&Clocks>),
    problem: &Problem,
    wanted: &Arguments,
) -> Fallible<bool> {
    let matmul = problem.op()?;
    let op: Op = matmul.clone().into();
    let Problem { m, n, k, batch, .. } = *problem;
    let words = |t: bool| if t { 't' } else { 'n' };
    let [a, b] = problem.transposed.map(words);
    let (input, output, precision) = (problem.input, problem.output, problem.precision);
    println!("\n{m}x{n}x{k} batch {batch}, {input} -> {output}, {precision:?}, {a}{b}");
    let data = Data::random(problem);
    let set_bytes = op.inputs().iter().chain([&op.output()]).map(TensorSpec::required_bytes).sum::<u64>();
    let sets = (2 * backend.native_caps().l2_bytes / set_bytes + 2).clamp(2, MOST_SETS as u64) as usize;
    let sets = (0..sets).map(|_| data.upload(backend, &op)).collect::<Fallible<Vec<Operands>>>()?;
    let spoil = || backend.write(&sets[0].output, 0, &vec![0xff; op.output().required_bytes() as usize]);

    let native = polywarp_kernels::every(&op, backend.native_caps());
    let mut names = backend.candidate_names(&op)?;
    names.retain(|name| {
        name.contains(&wanted.only) && (wanted.portable || native.iter().any(|native| native.name == *name))
    });
    let names_len = names.len();
    let (mut rows, mut all_right) = (Vec::new(), true);
    for name in names {
        let run = |set: &Operands| backend.run_candidate(&op, &name, &set.inputs(), &[&set.output]);
        spoil()?;
        run(&sets[0])?;
        let error = data.error(backend, &sets[0], problem)?;
        if error > 1.0 {
            println!("  WRONG: {name}: {error:.2} times the bound");
            all_right = false;
            continue;
        }
        rows.push(Row { entrant: Entrant::ours(backend, &name, &sets, SAMPLING, &run)?, error });
    }
    if let Some(vendor) = vendor {
        let plans = vendor.plans(backend, &matmul).unwrap_or_else(|why| {
            println!("  cuBLASLt does not compute this: {why}");
            Vec::new()
        });
        for plan in plans {
            spoil()?;
            plan.run(backend, &sets[0])?;
            let error = data.error(backend, &sets[0], problem)?;
            if error > 1.0 {
                println!("  WRONG: {}: {error:.2} times the bound", plan.name());
                continue;
            }
            rows.push(Row { entrant: Entrant::theirs(backend, &plan, &sets, SAMPLING)?, error });
        }
    }
    let (mut entrants, errors): (Vec<Entrant>, Vec<f64>) = rows.into_iter().map(|row| (row.entrant, row.error)).unzip();
    rounds(backend, &mut entrants, WARM_UP, ROUNDS, Duration::MAX)?;
    let mut rows: Vec<Row> = entrants.into_iter().zip(errors).map(|(entrant, error)| Row { entrant, error }).collect();
    report(&mut rows, problem);
    println!(
        "  execute costs the host {:.2} us a call, {names_len} ways were listed",
        host_us(backend, &op, &sets[0], &rows)?
    );
    if let Some(length) = wanted.sustained {
        report_sustained(backend, clocks, &rows, problem, length)?;
    }
    backend.synchronize()?;
    Ok(all_right)
}

/// Microseconds of the host that a call of `execute` takes, once the way is chosen: enqueued, not waited for.
fn host_us(backend: &CudaBackend, op: &Op, set: &Operands, rows: &[Row]) -> Fallible<f64> {
    // Fewer than the driver's queue holds, so that no call waits for the card; and not for long.
    let ns = rows.iter().map(|row| row.entrant.median_ns()).fold(1e8, f64::min);
    let calls = ((5e7 / ns) as u32).clamp(5, 300);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        backend.synchronize()?;
        let start = Instant::now();
        for _ in 0..calls {
            backend.execute(op, &set.inputs(), &[&set.output])?;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls));
    }
    backend.synchronize()?;
    Ok(best)
}

fn report(rows: &mut [Row], problem: &Problem) {
    rows.sort_by(|x, y| x.entrant.median_ns().total_cmp(&y.entrant.median_ns()));
    let theirs = rows.iter().map(|row| &row.entrant).filter(|entrant| entrant.is_vendor());
    let theirs = theirs.map(Entrant::median_ns).fold(f64::NAN, f64::min);
    println!("  {:>10} {:>10} {:>9} {:>8} {:>7}  candidate", "us", "best us", "TFLOP/s", "cublasLt", "error");
    let mut shown_vendor = false;
    for Row { entrant, error } in rows.iter() {
        if entrant.is_vendor() && std::mem::replace(&mut shown_vendor, true) {
            continue;
        }
        let (median, best) = (entrant.median_ns(), entrant.fastest_ns());
        let (rate, ratio) = (problem.flops() / median / 1e3, theirs / median);
        let (us, best_us, name) = (median / 1e3, best / 1e3, &entrant.name);
        println!("  {us:>10.2} {best_us:>10.2} {rate:>9.1} {ratio:>8.3} {error:>7.3}  {name}");
    }
    if let Some(Row { entrant: ours, .. }) = rows.iter().find(|row| !row.entrant.is_vendor()) {
        println!("  RATIO {:.3} burst, {}", theirs / ours.median_ns(), ours.name);
    }
}

/// The best of ours and of theirs, in long turns.
fn report_sustained(
    backend: &CudaBackend,
    clocks: Option<&Clocks>,
    rows: &[Row],
    problem: &Problem,
    length: Duration,
) -> Fallible {
    let first = |vendor: bool| rows.iter().map(|row| &row.entrant).find(|entrant| entrant.is_vendor() == vendor);
    let best: Vec<&Entrant> = [first(false), first(true)].into_iter().flatten().collect();
    for (entrant, figures) in best.iter().zip(sustained(backend, &best, length, clocks)?) {
        let (us, rate, name) = (figures.ns / 1e3, problem.flops() / figures.ns / 1e3, &entrant.name);
        let state = figures.state.map_or(String::new(), |state| {
            let [watts, celsius] = [state.watts, state.celsius].map(|x| x.unwrap_or(f64::NAN));
            format!("  ({:.0} MHz, {watts:.0} W, {celsius:.0} C)", state.mhz)
        });
        println!("  sustained {us:>10.2} us {rate:>8.1} TFLOP/s  {name}{state}");
    }
    Ok(())
}
