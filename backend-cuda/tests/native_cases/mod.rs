//! Products for `native.rs` whose right results are exact: operands are small integers, so that every order of summing gives
//! the same, and a host reference in i32 says which.

#![allow(dead_code)]

pub mod convolutions;
pub mod grouped;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polywarp_core::harness::{Wrap, plain};
use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{
    Backend, Buffer, DType, Layout, Op, Operation, Precision, Result, Scalar, Shape, TensorSpec, UnaryFn,
};
use polywarp_cuda::CudaBackend;

/// A device that computes every op in one way: the candidate of this name.
#[derive(Debug)]
pub struct Forced {
    pub backend: Arc<CudaBackend>,
    pub name: String,
}

impl Wrap for Forced {
    fn inner(&self) -> &dyn Backend {
        &*self.backend
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.backend.run_candidate(op, &self.name, inputs, outputs)
    }
}

/// What came of many runs, by candidate.
#[derive(Default)]
pub struct Tally {
    runs: Mutex<BTreeMap<String, (usize, f64)>>,
    failures: Mutex<Vec<(String, String)>>,
}

impl Tally {
    /// A run was right, and used this share of the error it was allowed.
    pub fn passed(&self, name: &str, share: f64) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, most) = runs.entry(kind(name)).or_default();
        *count += 1;
        *most = most.max(share);
    }

    /// A run was wrong.
    pub fn failed(&self, name: &str, what: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), what));
    }

    /// Prints what ran; panics when anything was wrong, or nothing ran.
    pub fn finish(self, what: &str) {
        let runs = self.runs.into_inner().unwrap();
        let failures = self.failures.into_inner().unwrap();
        for (name, (count, most)) in &runs {
            println!("{count:>7} right, at most {most:.3} of the bound  {name}");
        }
        let right: usize = runs.values().map(|(count, _)| count).sum();
        println!("{what}: {right} right, {} wrong, {} kinds of candidates", failures.len(), runs.len());
        let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        failures.iter().for_each(|(name, what)| by_name.entry(name).or_default().push(what));
        for (name, whats) in &by_name {
            println!("WRONG {} times: {name}", whats.len());
            whats.iter().take(3).for_each(|what| println!("    {what}"));
        }
        assert!(failures.is_empty(), "{} wrong", failures.len());
        if right == 0 {
            println!("NOT RUN: this card has no native candidate for any of them");
        }
    }
}

/// The candidate's name: the same kernels serve many shapes.
fn kind(name: &str) -> String {
    name.to_owned()
}

/// `f` of each item, on all processors.
pub fn in_parallel<T: Sync>(items: &[T], f: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    f(item);
                }
            });
        }
    });
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A matrix in memory: `transposed` is columns together, `pad` unused elements after each row, all from `offset`.
fn matrix(dtype: DType, batch: &[u64], [rows, columns]: [u64; 2], r: &mut Random) -> TensorSpec {
    let (transposed, pad, offset) = (r.below(2) == 1, r.pick(&[0, 0, 0, 1, 3, 8, 16]), r.pick(&[0, 0, 0, 8, 16, 1, 5]));
    let (outer, inner) = if transposed { (columns, rows) } else { (rows, columns) };
    let pitch = (inner + pad) as i64;
    let mut dims: Vec<u64> = batch.to_vec();
    dims.extend([rows, columns]);
    let mut strides = vec![0i64; batch.len()];
    let mut step = pitch * outer as i64;
    for (axis, &extent) in batch.iter().enumerate().rev() {
        // One matrix for the whole batch, now and then.
        if r.below(5) > 0 {
            strides[axis] = step;
            step *= extent as i64;
        }
    }
    strides.extend(if transposed { [1, pitch] } else { [pitch, 1] });
    TensorSpec::new(dtype, Layout::strided(Shape::new(&dims).unwrap(), &strides, offset).unwrap())
}

const DTYPES: [DType; 8] =
    [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::U8, DType::F8E4M3, DType::F8E5M2];

/// Products of every dtype with m, n, k in 1..=17.
pub fn small() -> Vec<Matmul> {
    let mut products = Vec::new();
    for m in 1..=17u64 {
        for n in 1..=17u64 {
            for k in 1..=17u64 {
                let mut r = Random(m << 20 | n << 10 | k);
                // Every dtype meets every m, n, k, but not every triple: a share of them is enough to meet all pairs.
                let dtype = DTYPES[((m + 5 * n + 7 * k) % DTYPES.len() as u64) as usize];
                products.push(product(dtype, &[], [m, n, k], &mut r));
            }
        }
    }
    products
}

/// What a product ends with.
#[derive(Clone, Copy)]
enum Ending {
    Plain,
    BiasRelu,
    AlphaBeta,
}

/// Types of A, B and the result that kernels are made for.
fn types() -> Vec<[DType; 3]> {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, U8};
    let mut types = vec![[F16, F16, F16], [F16, F16, F32], [BF16, BF16, BF16], [BF16, BF16, F32]];
    types.extend([[F32, F32, F32], [F64, F64, F64], [I8, I8, I32], [U8, U8, I32], [I8, I8, F16]]);
    types.extend([[F8E4M3, F8E4M3, F32], [F8E5M2, F8E5M2, F16], [F8E4M3, F8E5M2, BF16], [F8E5M2, F8E4M3, F32]]);
    types
}

/// Products of each type and layout whose tiles end early in every dimension: K of a part of one stage, of some and of more
/// than any pipeline has; rows of whole vectors and others; with each ending.
pub fn edges() -> Vec<Matmul> {
    const CASES: [([u64; 3], Ending); 7] = [
        ([200, 264, 1136], Ending::Plain),
        ([72, 136, 32], Ending::BiasRelu),
        ([136, 72, 304], Ending::AlphaBeta),
        ([130, 131, 77], Ending::BiasRelu),
        ([1, 200, 304], Ending::Plain),
        ([264, 8, 528], Ending::BiasRelu),
        // One tile: K is cut into slabs.
        ([24, 40, 2064], Ending::AlphaBeta),
    ];
    let precisions = [Precision::Highest, Precision::High, Precision::Medium, Precision::Low];
    let mut products = Vec::new();
    for ([a, b, to], layouts) in types().into_iter().flat_map(|types| (0..4).map(move |layouts| (types, layouts))) {
        for (dims, ending) in CASES {
            let f32_ways = if a == DType::F32 { &precisions[..] } else { &precisions[..1] };
            products.extend(f32_ways.iter().map(|&precision| {
                let mut op = edge([a, b, to], dims, layouts, ending);
                op.precision = if a == DType::F32 { precision } else { op.precision };
                op.check().unwrap()
            }));
        }
    }
    products
}

/// One of them; bit 0 of `layouts` transposes A, bit 1 B.
fn edge([a, b, to]: [DType; 3], [m, n, k]: [u64; 3], layouts: u32, ending: Ending) -> Matmul {
    let lay = |dtype, dims: [u64; 2], transposed: bool| {
        let strides = if transposed { [1, dims[0] as i64] } else { [dims[1] as i64, 1] };
        TensorSpec::new(dtype, Layout::strided(Shape::new(&dims).unwrap(), &strides, 0).unwrap())
    };
    let (rows, columns) = (lay(a, [m, k], layouts & 1 == 1), lay(b, [k, n], layouts & 2 == 2));
    let mut op = Matmul::product(rows, columns, lay(to, [m, n], false));
    match ending {
        Ending::Plain => {}
        Ending::BiasRelu => {
            op.bias = Some(TensorSpec::new(to, Layout::contiguous(Shape::new(&[n]).unwrap())));
            op.activation = Some(UnaryFn::Relu).filter(|f| f.defined_for(to));
        }
        Ending::AlphaBeta => {
            (op.alpha, op.beta) = (2.0, -1.0);
            op.c = Some(lay(to, [m, n], false));
        }
    }
    op
}

/// `count` products of random shape, layout, dtype and epilogue.
pub fn random(count: u64) -> Vec<Matmul> {
    let extent = |r: &mut Random| match r.below(4) {
        0 => 1 + r.below(40),
        1 => 8 * (1 + r.below(48)),
        2 => r.pick(&[63, 64, 65, 127, 128, 129, 191, 192, 255, 256, 257, 384]),
        _ => 1 + r.below(400),
    };
    (0..count)
        .map(|seed| {
            let mut r = Random(seed);
            let dims = [extent(&mut r), extent(&mut r), extent(&mut r) * r.pick(&[1, 1, 1, 3])];
            let batch: &[u64] = r.pick(&[&[][..], &[], &[], &[3], &[2, 2]]);
            let dtype = r.pick(&DTYPES);
            product(dtype, batch, dims, &mut r)
        })
        .collect()
}

fn product(dtype: DType, batch: &[u64], [m, n, k]: [u64; 3], r: &mut Random) -> Matmul {
    let mut to = Matmul::output_dtype(dtype).unwrap();
    if matches!(dtype, DType::F16 | DType::BF16) && r.below(2) == 1 {
        to = DType::F32;
    }
    if matches!(dtype, DType::I8 | DType::U8) && r.below(2) == 1 {
        to = r.pick(&[DType::F32, DType::F16, DType::BF16]);
    }
    let mut other = dtype;
    if dtype.is_float8() {
        to = r.pick(&[DType::F32, DType::F16, DType::BF16]);
        other = r.pick(&[DType::F8E4M3, DType::F8E5M2]);
    }
    let d: Vec<u64> = batch.iter().copied().chain([m, n]).collect();
    let offset = 16 / to.size_bytes() * r.below(4);
    let output = TensorSpec::new(to, Layout::contiguous(Shape::new(&d).unwrap()).with_offset(offset));
    let mut op = Matmul::product(matrix(dtype, batch, [m, k], r), matrix(other, batch, [k, n], r), output);
    if r.below(3) == 0 {
        op.alpha = r.pick(&[2.0, -1.0, 3.0]);
    }
    if r.below(3) == 0 {
        op.beta = r.pick(&[1.0, -2.0, 0.0]);
        let rows = TensorSpec::new(to, matrix(to, batch, [m, n], r).layout);
        op.c = Some(rows);
    }
    if r.below(3) == 0 {
        op.bias = Some(TensorSpec::new(to, Layout::contiguous(Shape::new(&[n]).unwrap()).with_offset(r.below(4))));
    }
    if r.below(4) == 0 {
        op.activation = Some(UnaryFn::Relu).filter(|f| f.defined_for(to));
    }
    if Matmul::takes_scales(dtype) && to.is_float() {
        op.scale_a = scales(batch, [m, 1], r);
        op.scale_b = scales(batch, [1, n], r);
    }
    if dtype == DType::F32 {
        // Integers this small are exact in every precision.
        op.precision =
            r.pick(&[Precision::Highest, Precision::Highest, Precision::High, Precision::Medium, Precision::Low]);
    }
    op.check().unwrap()
}

/// Scales of rows or columns: one each, one for all of a matrix, or none.
fn scales(batch: &[u64], [rows, columns]: [u64; 2], r: &mut Random) -> Option<TensorSpec> {
    let dims: Vec<u64> = batch.iter().copied().chain([rows, columns]).collect();
    let shape = Shape::new(&dims).unwrap();
    let own = match r.below(4) {
        0 => return None,
        1 => batch.iter().copied().chain([1, 1]).collect(),
        _ => dims,
    };
    let layout = Layout::contiguous(Shape::new(&own).unwrap()).with_offset(r.below(4));
    Some(TensorSpec::new(DType::F32, layout.broadcast_to(shape).unwrap()))
}

/// Runs every candidate of every product twice, and compares bits with the host's result.
pub fn products(backend: &Arc<CudaBackend>, ops: Vec<Matmul>, candidates: impl Fn(&Op) -> Vec<String> + Sync) -> Tally {
    let tally = Tally::default();
    in_parallel(&ops, |op| {
        let as_op: Op = op.clone().into();
        let names = candidates(&as_op);
        if names.is_empty() {
            return;
        }
        let mut r = Random(op.output.layout.elements() ^ op.dims().k << 32);
        let specs = op.inputs();
        let data: Vec<Vec<i32>> = (0..specs.len()).map(|i| integers(&specs[i], i, op, &mut r)).collect();
        let inputs: Vec<Buffer> = specs.iter().zip(&data).map(|(spec, data)| upload(backend, spec, data)).collect();
        let inputs: Vec<&Buffer> = inputs.iter().collect();
        let expected = reference(op, &data);
        for name in names {
            let what = || format!("{op:?}").replace("TensorSpec ", "");
            match run(backend, &as_op, &name, &inputs, &expected) {
                Ok(()) => tally.passed(&name, 0.0),
                Err(why) => tally.failed(&name, format!("{why}: {}", what())),
            }
        }
    });
    tally
}

/// Row-major elements: small integers, whole in floats of 8 and 16 bits whatever is summed.
fn integers(spec: &TensorSpec, place: usize, op: &Matmul, r: &mut Random) -> Vec<i32> {
    let unsigned = spec.dtype == DType::U8;
    let scale = op.places().scales().contains(&Some(place));
    // bf16 outputs keep eight bits: the one rounding at the end is exact arithmetic's.
    let most = match () {
        _ if scale => 2,
        _ if op.dequantises() => 3,
        _ if op.a.dtype == DType::I8 || unsigned => 100,
        _ => 3,
    };
    (0..spec.layout.elements())
        .map(|_| {
            let x = r.below(2 * most + 1) as i32;
            if unsigned { x } else { x - most as i32 }
        })
        .collect()
}

/// A buffer with `data` where `spec` says, and NaN (the largest integer) around it.
fn upload(backend: &CudaBackend, spec: &TensorSpec, data: &[i32]) -> Buffer {
    let size = spec.dtype.size_bytes() as usize;
    let elements = spec.layout.required_elements() as usize + 24;
    let garbage = if spec.dtype.is_float() { vec![0xff; size] } else { vec![0x7f; size] };
    let mut bytes = garbage.repeat(elements);
    for (i, &x) in data.iter().enumerate() {
        let at = spec.layout.index_of(i as u64) as usize * size;
        let x = if spec.dtype.is_float() { Scalar::F(f64::from(x)) } else { Scalar::I(i64::from(x)) };
        bytes[at..at + size].copy_from_slice(&x.to_le_bytes(spec.dtype));
    }
    let buffer = backend.alloc(bytes.len() as u64).unwrap();
    backend.write(&buffer, 0, &bytes).unwrap();
    buffer
}

/// The bytes of the result.
fn reference(op: &Matmul, data: &[Vec<i32>]) -> Vec<u8> {
    let MatmulDims { batch, m, n, k } = op.dims();
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let to = op.output.dtype;
    let mut rest = data[2..].iter();
    let c = op.c.and_then(|_| rest.next());
    let bias = op.bias.and_then(|_| rest.next());
    let (scale_a, scale_b) = (op.scale_a.and_then(|_| rest.next()), op.scale_b.and_then(|_| rest.next()));
    // A broadcast element that was written several times holds its last value.
    let settle = |spec: &TensorSpec, data: &[i32]| {
        let mut last = std::collections::HashMap::new();
        (0..data.len()).for_each(|i| {
            last.insert(spec.layout.index_of(i as u64), data[i]);
        });
        (0..data.len()).map(|i| last[&spec.layout.index_of(i as u64)]).collect::<Vec<i32>>()
    };
    let settled = |spec: &TensorSpec, data: &[i32]| {
        if spec.layout.strides().contains(&0) { settle(spec, data) } else { data.to_vec() }
    };
    let (a, b) = (settled(&op.a, &data[0]), settled(&op.b, &data[1]));
    let c = c.zip(op.c.as_ref()).map(|(c, spec)| settled(spec, c));
    let scale_a = scale_a.zip(op.scale_a.as_ref()).map(|(scale, spec)| settled(spec, scale));
    let scale_b = scale_b.zip(op.scale_b.as_ref()).map(|(scale, spec)| settled(spec, scale));
    let mut bytes = Vec::with_capacity(batch as usize * m * n * to.size_bytes() as usize);
    let mut row = vec![0i32; n];
    for index in 0..batch as usize * m {
        row.fill(0);
        let b = &b[index / m * k * n..];
        plain::add_row_product(&a[index * k..][..k], b, &mut row);
        for (column, &sum) in row.iter().enumerate() {
            let mut x = op.alpha * f64::from(sum);
            x *= scale_a.as_ref().map_or(1.0, |scales| f64::from(scales[index]));
            x *= scale_b.as_ref().map_or(1.0, |scales| f64::from(scales[index / m * n + column]));
            if let Some(c) = c.as_ref().filter(|_| op.beta != 0.0) {
                x += op.beta * f64::from(c[index * n + column]);
            }
            if let Some(bias) = bias {
                x += f64::from(bias[column]);
            }
            if op.activation.is_some() {
                x = x.max(0.0);
            }
            let x = if to.is_float() { Scalar::F(x).cast(to) } else { Scalar::I(x as i64).cast(to) };
            bytes.extend(x.to_le_bytes(to));
        }
    }
    bytes
}

fn run(
    backend: &CudaBackend,
    op: &Op,
    name: &str,
    inputs: &[&Buffer],
    expected: &[u8],
) -> std::result::Result<(), String> {
    const GUARD: usize = 256;
    let spec = op.output();
    let start = spec.layout.offset() as usize * spec.dtype.size_bytes() as usize;
    let size = start + expected.len() + GUARD;
    for fill in [0xff, 0xa5] {
        let output = backend.alloc(size as u64).map_err(|e| e.to_string())?;
        backend.write(&output, 0, &vec![fill; size]).map_err(|e| e.to_string())?;
        backend.run_candidate(op, name, inputs, &[&output]).map_err(|e| e.to_string())?;
        let found = backend.read_blocking(&output, 0..size as u64).map_err(|e| e.to_string())?;
        let (before, rest) = found.split_at(start);
        let (result, after) = rest.split_at(expected.len());
        if before.iter().chain(after).any(|&byte| byte != fill) {
            return Err("bytes around the output were written".to_owned());
        }
        let each = spec.dtype.size_bytes() as usize;
        let differs = |i: &usize| !same(&result[i * each..][..each], &expected[i * each..][..each], spec.dtype);
        let wrong: Vec<usize> = (0..expected.len() / each).filter(differs).collect();
        if let Some(&first) = wrong.first() {
            let value = |bytes: &[u8]| Scalar::from_le_bytes(&bytes[first * each..][..each], spec.dtype).as_f64();
            let (got, want) = (value(result), value(expected));
            return Err(format!("{} elements differ, such as {first}: {got} instead of {want}", wrong.len()));
        }
    }
    Ok(())
}

/// The same bits, but for the sign of zero.
fn same(x: &[u8], y: &[u8], dtype: DType) -> bool {
    x == y || (dtype.is_float() && [x, y].map(|b| Scalar::from_le_bytes(b, dtype).as_f64()) == [0.0, 0.0])
}
