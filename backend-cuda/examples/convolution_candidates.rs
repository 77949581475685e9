//! Every way to compute a convolution and both gradients on this machine's card: compared with each other, then timed beside each other. Of i8,
//! whose results are f16 and which has no gradients, also the way by parts: windows gathered, then products.
//!
//! ```text
//! cargo run --release -p polywarp-cuda --example convolution_candidates -- f16 64x56x56x64:64:3:1:1 64x56x56x256:512:1:2:0
//!     DTYPE    f16, bf16, i8
//!     IMAGES:FILTERS:TAPS:STRIDE:PADDING, as many as wanted; images are NxWxC, NxHxWxC or NxDxHxWxC, taps, stride and padding those of each axis
//!     --only WORD         candidates whose name contains it
//!     --portable          the portable kernels too
//! ```
//!
//! Operands are uniform in [-1, 1), i8 in all of its range, and rotate through more memory than twice the card's cache. A sample is a graph of
//! launches, timed by the card; all candidates take turns, and the median of their samples counts. Before that each computes one set of small
//! integers, whose sums have the same bits in any order: all must equal the first candidate's. Exit code 1 when they are not; test
//! `native` compares with the oracle.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use polywarp_core::harness::Values;
use polywarp_core::ops::{Convolution, ConvolutionInput, ConvolutionOptions, ConvolutionWeights, QuantizedConvolution};
use polywarp_core::{Backend, DType, Layout, Op, Shape, TensorSpec};
use polywarp_cuda::vendor::{Entrant, Operands, Sampling, rounds};
use polywarp_cuda::{CudaBackend, Options, cards};

type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// Samples per candidate, after those that warm up.
const ROUNDS: usize = 7;
const WARM_UP: usize = 3;
const SAMPLING: Sampling = Sampling { sample_ns: 400_000.0, least_launches: 10 };
/// Most sets of operands.
const MOST_SETS: u64 = 16;

struct Arguments {
    dtype: DType,
    layers: Vec<String>,
    only: String,
    portable: bool,
}

fn arguments() -> Fallible<Arguments> {
    let (mut words, mut only, mut portable) = (Vec::new(), String::new(), false);
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.as_str() {
            "--only" => only = given.next().ok_or("--only wants a word")?,
            "--portable" => portable = true,
            _ => words.push(word),
        }
    }
    let [dtype, layers @ ..] = words.as_slice() else {
        return Err("DTYPE IMAGES:FILTERS:TAPS:STRIDE:PADDING...".into());
    };
    Ok(Arguments { dtype: dtype.parse()?, layers: layers.to_vec(), only, portable })
}

/// The convolution, the gradients of its input and of its weights; of i8 the convolution alone.
fn ops(dtype: DType, layer: &str) -> Fallible<Vec<(&'static str, Op)>> {
    let wrong = || format!("{layer} is not IMAGES:FILTERS:TAPS:STRIDE:PADDING");
    let [images, numbers @ ..] = &layer.split(':').collect::<Vec<_>>()[..] else { return Err(wrong().into()) };
    let images = images.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>()?;
    let [filters, taps, stride, padding] = numbers[..] else { return Err(wrong().into()) };
    let (axes, channels) = (images.len().checked_sub(2).ok_or_else(wrong)?, images[images.len() - 1]);
    let dense =
        |dims: &[u64]| Ok::<_, polywarp_core::Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)));
    let (x, weights) = (dense(&images)?, dense(&[&[filters][..], &vec![taps; axes], &[channels]].concat())?);
    let options = ConvolutionOptions::default().stride(stride).padding(padding);
    if dtype == DType::I8 {
        let scales = |count| Ok::<_, polywarp_core::Error>(TensorSpec { dtype: DType::F32, ..dense(&[count])? });
        let op = QuantizedConvolution::new([x, weights, scales(1)?, scales(filters)?], DType::F16, &options)?;
        return Ok(vec![("forward", op.into())]);
    }
    let forward = Convolution::new(x, weights, &options)?;
    let (geometry, y) = (forward.geometry, forward.output);
    let input = ConvolutionInput::of(geometry, y, weights)?;
    let of_weights = ConvolutionWeights::of(geometry, y, x)?;
    Ok(vec![
        ("forward", forward.into()),
        ("gradient of x", input.into()),
        ("gradient of the weights", of_weights.into()),
    ])
}

/// What `op` reads is timed with: of i8 all of its steps, with scales that keep results finite in f16.
fn timed(op: &Op, dtype: DType) -> Values {
    match (op.is::<QuantizedConvolution>(), dtype) {
        (true, DType::I8) => Values::RandomBits,
        (true, _) => Values::Uniform(0.001, 0.01),
        (false, _) => Values::Uniform(-1.0, 1.0),
    }
}

/// What it is compared with: small integers.
fn compared(op: &Op, dtype: DType) -> Values {
    if op.is::<QuantizedConvolution>() && dtype == DType::F32 { Values::Constant(1.0) } else { Values::Integers(-1, 1) }
}

/// Operands of `values`, another set for each `seed`.
fn upload(backend: &CudaBackend, op: &Op, values: fn(&Op, DType) -> Values, seed: u64) -> Fallible<Operands> {
    let inputs = op.inputs();
    let put = |(place, spec): (u64, &TensorSpec)| -> Fallible<_> {
        let bytes =
            values(op, spec.dtype).bytes(spec.dtype, spec.required_bytes() / spec.dtype.size_bytes(), 2 * seed + place);
        let buffer = backend.alloc(bytes.len() as u64)?;
        backend.write(&buffer, 0, &bytes)?;
        Ok(buffer)
    };
    let inputs = (0..).zip(&inputs).map(put).collect::<Fallible<Vec<_>>>()?;
    Ok(Operands { inputs, output: backend.alloc(op.output().required_bytes())? })
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("convolution_candidates: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Fallible<bool> {
    let wanted = arguments()?;
    let card = cards()?.into_iter().find(|card| card.unusable.is_none()).ok_or("no usable card")?;
    let backend = card.open(Options::default())?;
    println!("{}, {}", backend.info().name, backend.info().driver);
    let mut all_right = true;
    for layer in &wanted.layers {
        for (what, op) in ops(wanted.dtype, layer)? {
            println!("\n{layer} {}, {what}", wanted.dtype);
            all_right &= measure(&backend, &op, &wanted)?;
        }
    }
    Ok(all_right)
}

fn measure(backend: &CudaBackend, op: &Op, wanted: &Arguments) -> Fallible<bool> {
    let set_bytes = op.inputs().iter().chain([&op.output()]).map(TensorSpec::required_bytes).sum::<u64>();
    let sets = (2 * backend.native_caps().l2_bytes / set_bytes + 2).clamp(2, MOST_SETS);
    let sets = (0..sets).map(|seed| upload(backend, op, timed, seed)).collect::<Fallible<Vec<_>>>()?;
    let integers = upload(backend, op, compared, MOST_SETS)?;
    let portable = polywarp_core::ops::candidates(op, backend.caps())?;
    let mut names = backend.candidate_names(op)?;
    names.retain(|name| {
        name.contains(&wanted.only) && (wanted.portable || portable.iter().all(|portable| portable.name != *name))
    });
    let (mut entrants, mut first, mut all_right) = (Vec::new(), None, true);
    for name in names {
        let run = |set: &Operands| backend.run_candidate(op, &name, &set.inputs(), &[&set.output]);
        integers.spoil(backend)?;
        run(&integers)?;
        let found = backend.read_blocking(&integers.output, 0..op.output().required_bytes())?;
        if first.get_or_insert_with(|| found.clone()) != &found {
            println!("  OTHER BITS than those of the first: {name}");
            all_right = false;
            continue;
        }
        entrants.push(Entrant::ours(backend, &name, &sets, SAMPLING, &run)?);
    }
    rounds(backend, &mut entrants, WARM_UP, ROUNDS, Duration::MAX)?;
    entrants.sort_by(|x, y| x.median_ns().total_cmp(&y.median_ns()));
    println!("  {:>10} {:>10} {:>9}  candidate", "us", "best us", "TFLOP/s");
    for entrant in &entrants {
        let [us, best_us] = [entrant.median_ns(), entrant.fastest_ns()].map(|ns| ns / 1e3);
        println!("  {us:>10.2} {best_us:>10.2} {:>9.1}  {}", op.cost().flops as f64 / us / 1e6, entrant.name);
    }
    backend.synchronize()?;
    Ok(all_right)
}
