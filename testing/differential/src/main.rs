//! `naga-ptx-differential`: runs random programs on two routes and says which differ.
//!
//! ```text
//! naga-ptx-differential run     [--seed N] [--programs N] [--routes wgpu,interpreter]   both here
//! naga-ptx-differential write   [--seed N] [--programs N] --file F [--routes wgpu]      digests into F
//! naga-ptx-differential compare --file F [--routes cuda] [--seed N --programs N]        against the digests of F
//! naga-ptx-differential show    --seed N                                                the program's text
//! naga-ptx-differential values  --seed N [--routes cuda]                                its results
//! naga-ptx-differential try     --seed N --file F [--routes wgpu,interpreter]           results of the text F on its buffers
//! naga-ptx-differential reduce  --seed N [--routes wgpu,interpreter]                    the lines that matter (one route: to its failure)
//! ```
//!
//! `--seconds N` ends `compare` and `reduce` early, saying so. A program that takes more than two seconds is named at
//! once. `POLYWARP_SEED` and `POLYWARP_PROGRAMS` are the defaults. Exits with 1 when anything differs or fails.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use differential::{Devices, Route, difference, digest, program, reduce};

/// Time for `reduce` unless `--seconds` says another; most programs take less.
const REDUCING: Duration = Duration::from_secs(600);
/// A program that takes longer is worth a line: it may be the one that never ends.
const SLOW: Duration = Duration::from_secs(2);

struct Arguments {
    mode: String,
    seed: u64,
    programs: u64,
    file: Option<String>,
    routes: Vec<Route>,
    seconds: Option<Duration>,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let mode = words.next().ok_or("run, write, compare, show, values, try or reduce?")?;
    let routes = match mode.as_str() {
        "write" => vec![Route::Wgpu],
        "compare" | "values" => vec![Route::Cuda],
        _ => vec![Route::Wgpu, Route::Interpreter],
    };
    let (seed, programs) = (
        number("POLYWARP_SEED", 0),
        // All that the file has.
        number("POLYWARP_PROGRAMS", if mode == "compare" { u64::MAX } else { 1000 }),
    );
    let mut arguments = Arguments { mode, seed, programs, file: None, routes, seconds: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} what?"))?;
        match word.as_str() {
            "--seed" => arguments.seed = value.parse().map_err(|_| format!("`{value}` is no seed"))?,
            "--programs" => arguments.programs = value.parse().map_err(|_| format!("`{value}` is no number"))?,
            "--seconds" => {
                let seconds = value.parse().map_err(|_| format!("`{value}` is no number of seconds"))?;
                arguments.seconds = Some(Duration::from_secs(seconds));
            }
            "--file" => arguments.file = Some(value),
            "--routes" => {
                let routes = value.split(',').map(|name| Route::parse(name).ok_or(format!("no route `{name}`")));
                arguments.routes = routes.collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| match arguments.mode.as_str() {
        "run" => run(&arguments),
        "write" => write(&arguments),
        "compare" => compare(&arguments),
        "show" => {
            print!("{}", program(arguments.seed).wgsl);
            Ok(true)
        }
        "values" | "try" => values(&arguments),
        "reduce" => reduced(&arguments),
        other => Err(format!("`{other}` is not known")),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn both(arguments: &Arguments) -> Result<[Route; 2], String> {
    arguments.routes.as_slice().try_into().map_err(|_| "two routes are compared".to_owned())
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let (routes, mut devices, start) = (both(arguments)?, Devices::default(), Instant::now());
    let (mut same, mut without, mut wrong) = (0, 0, Vec::new());
    for seed in arguments.seed..arguments.seed + arguments.programs {
        let program = program(seed);
        let fault = match routes.map(|route| devices.run(route, &program)) {
            [Ok(Some(left)), Ok(Some(right))] if left == right => {
                same += 1;
                None
            }
            [Ok(Some(left)), Ok(Some(right))] => Some(difference(&program, &left, &right)),
            [Ok(_), Ok(_)] => {
                without += 1;
                None
            }
            results => Some(results.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("\n")),
        };
        if let Some(fault) = fault {
            println!("seed {seed}: {fault}");
            wrong.push(seed);
        }
    }
    let names = routes.map(|route| devices.name(route));
    println!("{names:?}: {same} equal, {without} not run for want of a feature, {} wrong: {wrong:?}", wrong.len());
    println!("{:.1} s", start.elapsed().as_secs_f64());
    Ok(wrong.is_empty() && same > 0)
}

fn write(arguments: &Arguments) -> Result<bool, String> {
    let file = arguments.file.as_deref().ok_or("--file which?")?;
    let (route, mut devices) = (arguments.routes[0], Devices::default());
    let (mut text, mut wrong) = (String::new(), 0);
    for seed in arguments.seed..arguments.seed + arguments.programs {
        match devices.run(route, &program(seed)) {
            Ok(Some(outputs)) => writeln!(text, "{seed} {:016x}", digest(&outputs)).map_err(|e| e.to_string())?,
            Ok(None) => {}
            Err(message) => {
                println!("seed {seed}: {message}");
                wrong += 1;
            }
        }
    }
    let head = format!("# seed and digest of results; {}\n", devices.name(route));
    std::fs::write(file, head + &text).map_err(|error| format!("{file}: {error}"))?;
    println!("{} digests in {file}, {wrong} programs failed", text.lines().count());
    Ok(wrong == 0)
}

fn compare(arguments: &Arguments) -> Result<bool, String> {
    let file = arguments.file.as_deref().ok_or("--file which?")?;
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let (route, mut devices, start) = (arguments.routes[0], Devices::default(), Instant::now());
    let (mut same, mut without, mut left, mut wrong) = (0, 0, 0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (seed, expected) = line.split_once(' ').ok_or_else(|| format!("`{line}` is no seed and digest"))?;
        let seed: u64 = seed.parse().map_err(|_| format!("`{seed}` is no seed"))?;
        if seed < arguments.seed || seed - arguments.seed >= arguments.programs {
            continue;
        }
        let expected = u64::from_str_radix(expected, 16).map_err(|_| format!("`{expected}` is no digest"))?;
        if arguments.seconds.is_some_and(|limit| start.elapsed() > limit) {
            left += 1;
            continue;
        }
        let before = Instant::now();
        match devices.run(route, &program(seed)) {
            Ok(Some(outputs)) if digest(&outputs) == expected => same += 1,
            Ok(Some(_)) => wrong.push(seed),
            Ok(None) => without += 1,
            Err(message) => {
                println!("seed {seed}: {message}");
                wrong.push(seed);
            }
        }
        if before.elapsed() > SLOW {
            println!("seed {seed} took {:.1} s", before.elapsed().as_secs_f64());
        }
        let _ = std::io::stdout().flush();
    }
    println!("{}: {same} equal, {without} not run for want of a feature", devices.name(route));
    println!("{} wrong: {wrong:?}; {:.1} s", wrong.len(), start.elapsed().as_secs_f64());
    if left > 0 {
        println!("{left} were left out: time was over");
    }
    Ok(wrong.is_empty() && same > 0 && left == 0)
}

fn values(arguments: &Arguments) -> Result<bool, String> {
    let (mut program, mut devices) = (program(arguments.seed), Devices::default());
    if let Some(file) = &arguments.file {
        program.wgsl = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    }
    for &route in &arguments.routes {
        let outputs = devices.run(route, &program)?.ok_or("a feature is missing")?;
        println!("{route:?}: {:016x}", digest(&outputs));
        for (spec, bytes) in program.buffers.iter().zip(&outputs).filter(|(_, bytes)| !bytes.is_empty()) {
            let words = bytes.chunks(4).map(|word| word.iter().rev().map(|b| format!("{b:02x}")).collect::<String>());
            println!("binding {}: {}", spec.binding, words.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(true)
}

fn reduced(arguments: &Arguments) -> Result<bool, String> {
    let (routes, mut devices) = (arguments.routes.as_slice(), Devices::default());
    let program = program(arguments.seed);
    // With one route: that it fails.
    let mut differs = |program: &wgsl_generator::Program| {
        let results: Vec<_> = routes.iter().map(|&route| devices.run(route, program)).collect();
        match results.as_slice() {
            [Ok(Some(left)), Ok(Some(right))] => left != right,
            [only] => only.is_err(),
            _ => false,
        }
    };
    if !differs(&program) {
        return Err("nothing is wrong with this program".to_owned());
    }
    let small = reduce(&program, Instant::now() + arguments.seconds.unwrap_or(REDUCING), &mut differs);
    print!("{}", small.wgsl);
    Ok(true)
}
