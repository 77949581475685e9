//! Cases of convolutions and both gradients: every remainder of strides, paddings of each side and beyond half of a window, dilation,
//! groups, a filter for each channel, one to three axes, nothing at all, sums long enough for slabs, layouts, epilogues, values that are not
//! finite.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Convolution, ConvolutionInput, ConvolutionOptions, ConvolutionWeights, Geometry};
use crate::{DType, Layout, Result, Shape, TensorSpec, UnaryFn};

const FAMILY: &str = "convolution";
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const SMALL: Values = Values::Integers(-3, 3);
const ONE: Values = Values::Uniform(-1.0, 1.0);

fn dense(dtype: DType, shape: Shape) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(shape))
}

/// One to three numbers for each axis: taps, then how windows move.
#[derive(Clone, Copy)]
struct Windows<'a> {
    taps: &'a [u64],
    stride: &'a [u64],
    dilation: &'a [u64],
    padding: &'a [[u64; 2]],
    groups: u64,
}

fn windows(taps: &[u64]) -> Windows<'_> {
    Windows { taps, stride: &[], dilation: &[], padding: &[], groups: 1 }
}

impl<'a> Windows<'a> {
    fn stride(self, stride: &'a [u64]) -> Self {
        Windows { stride, ..self }
    }
    fn dilation(self, dilation: &'a [u64]) -> Self {
        Windows { dilation, ..self }
    }
    fn padding(self, padding: &'a [[u64; 2]]) -> Self {
        Windows { padding, ..self }
    }
    fn groups(self, groups: u64) -> Self {
        Windows { groups, ..self }
    }

    /// Of x [batch, spatial..., channels] with `filters`.
    #[inline(never)]
    fn geometry(&self, x: &[u64], filters: u64) -> Result<Geometry> {
        let channels = x.last().copied().unwrap_or(0) / self.groups;
        let weights = Shape::new(&[&[filters], self.taps, &[channels]].concat())?;
        let options = ConvolutionOptions {
            stride: self.stride.to_vec(),
            dilation: self.dilation.to_vec(),
            padding: self.padding.to_vec(),
            groups: self.groups,
            ..ConvolutionOptions::default()
        };
        Geometry::new(FAMILY, &Shape::new(x)?, &weights, &options)
    }
}

/// Windows, the shape [batch, spatial..., channels] of x, and the number of filters.
type Of<'a> = (Windows<'a>, &'a [u64], u64);

/// The three operations of one geometry, on dense operands.
#[inline(never)]
fn all_three((windows, x, filters): Of, dtype: DType) -> [Result<crate::Op>; 3] {
    let made = || {
        let geometry = windows.geometry(x, filters)?;
        let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
        let [x_spec, w_spec, y_spec] = [x, w, y].map(|shape| dense(dtype, shape));
        let to = |shape: Shape| output(dtype, shape.dims());
        let forward = Convolution { output: to(y)?, ..Convolution::of(geometry, x_spec, w_spec)? }.check()?;
        let input = ConvolutionInput { output: to(x)?, ..ConvolutionInput::of(geometry, y_spec, w_spec)? };
        let weights = ConvolutionWeights { output: to(w)?, ..ConvolutionWeights::of(geometry, y_spec, x_spec)? };
        Ok([crate::Op::from(forward), input.into(), weights.into()])
    };
    match made() {
        Ok(ops) => ops.map(Ok),
        Err(error) => [(); 3].map(|()| Err(crate::Error::clone(&error))),
    }
}

#[inline(never)]
fn push(cases: &mut Vec<Case>, of: Of, dtype: DType, values: [Values; 2]) {
    for op in all_three(of, dtype) {
        add(cases, FAMILY, op, &values);
    }
}

/// Small integers, whose sums are exact.
#[inline(never)]
fn exact(cases: &mut Vec<Case>, of: Of, dtype: DType) {
    let mut made = Vec::new();
    push(&mut made, of, dtype, [SMALL; 2]);
    cases.extend(made.into_iter().map(Case::exact));
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    dtypes(&mut cases);
    products(&mut cases);
    edges(&mut cases);
    sizes(level, &mut cases);
    whole_vectors(&mut cases);
    depthwise(&mut cases);
    few_channels(&mut cases);
    layouts(&mut cases);
    epilogues(&mut cases);
    special(&mut cases);
    unique(cases)
}

fn dtypes(cases: &mut Vec<Case>) {
    for dtype in DTYPES {
        let three = windows(&[3, 3]).padding(&[[1, 1]]);
        for (x, filters, windows) in [
            ([2, 9, 7, 5], 6, three),
            ([1, 8, 8, 16], 32, three.stride(&[2])),
            ([1, 7, 9, 12], 12, three.groups(12)),
            ([2, 7, 5, 6], 4, three.groups(2)),
            ([2, 5, 3, 7], 9, windows(&[1, 1])),
        ] {
            push(cases, (windows, &x, filters), dtype, [ONE; 2]);
            exact(cases, (windows, &x, filters), dtype);
        }
    }
}

/// Whole numbers, which wrap, and floats of 8 bits: products of rows, with everything that may follow.
fn products(cases: &mut Vec<Case>) {
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    let shapes = [
        (three().stride(&[2]), &[2, 5, 6, 3][..], 4),
        (three().groups(2), &[1, 4, 3, 4], 6),
        (windows(&[1, 1]), &[2, 3, 2, 5], 3),
        (windows(&[2]).dilation(&[2]), &[2, 5, 1], 2),
        (windows(&[1, 1]), &[0, 3, 2, 5], 3),
    ];
    for dtype in [DType::I32, DType::U32, DType::I64, DType::F8E4M3, DType::F8E5M2] {
        for (windows, x, filters) in &shapes {
            let with = |ends: bool, activation| {
                let geometry = windows.geometry(x, *filters)?;
                let [x, w] = [geometry.input_shape()?, geometry.weights_shape()?].map(|shape| dense(dtype, shape));
                let plain = Convolution::of(geometry, x, w)?;
                let output = output(plain.output.dtype, plain.output.layout.dims())?;
                let [y, k] =
                    [geometry.output_shape()?, Shape::new(&[*filters])?].map(|shape| dense(output.dtype, shape));
                let [residual, bias] = [y, k].map(|spec| ends.then_some(spec));
                Convolution { residual, bias, activation, output, ..plain }.check()
            };
            let (values, wide) =
                if dtype.is_float() { (ONE, ONE) } else { (Values::Integers(0, 9), Values::RandomBits) };
            add(cases, FAMILY, with(false, None), &[wide; 2]);
            let relu = (dtype != DType::U32).then_some(UnaryFn::Relu);
            add(cases, FAMILY, with(true, relu), &[values; 4]);
        }
    }
}

/// What training has met, in exact f32.
fn edges(cases: &mut Vec<Case>) {
    let mut of = |windows: Windows, x: &[u64], filters: u64| exact(cases, (windows, x, filters), DType::F32);
    // Every remainder of the input that windows leave unread; kernels smaller than, as large as and larger than the stride.
    for stride in 1..=4 {
        for extra in 0..stride {
            for taps in [1, 2, 3, 5] {
                of(windows(&[taps]).stride(&[stride]), &[2, taps + 2 * stride + extra, 3], 4);
            }
        }
    }
    // Paddings of either side, beyond half of a window, around an input smaller than the window.
    for padding in [[0, 1], [1, 0], [2, 1], [0, 3], [4, 4]] {
        of(windows(&[5, 5]).padding(&[padding, [1, 2]]), &[1, 6, 7, 3], 5);
        of(windows(&[5, 3]).padding(&[padding, [2, 0]]).stride(&[2, 3]), &[2, 6, 5, 3], 5);
    }
    of(windows(&[5, 5]).padding(&[[2, 2]]), &[1, 2, 1, 3], 4);
    of(windows(&[3, 3]).padding(&[[4, 3]]), &[1, 1, 2, 2], 3);
    for (dilation, stride) in [(2, 1), (3, 2), (2, 2), (2, 3), (4, 6)] {
        of(windows(&[3, 2]).dilation(&[dilation]).stride(&[stride]).padding(&[[1, 2]]), &[1, 12, 13, 3], 4);
    }
    of(windows(&[3, 3]).dilation(&[1, 2]).stride(&[2, 1]).padding(&[[0, 1], [3, 2]]), &[2, 7, 9, 3], 5);
    for groups in [1, 2, 3, 6] {
        for filters in [6, 12] {
            of(windows(&[3, 3]).padding(&[[1, 1]]).stride(&[2]).groups(groups), &[2, 5, 6, 6], filters);
        }
    }
    // Groups that are products of their own, and a stride as large as the window.
    of(windows(&[3, 3]).padding(&[[1, 1]]).groups(2), &[1, 6, 5, 40], 36);
    of(windows(&[4, 4]).stride(&[4]), &[2, 16, 12, 3], 20);
    of(windows(&[2, 2]).stride(&[5]), &[1, 13, 12, 3], 4);
    // One pixel out; one pixel in; one channel.
    of(windows(&[4, 5]), &[3, 4, 5, 2], 3);
    of(windows(&[1, 1]), &[1, 1, 1, 1], 1);
    of(windows(&[1, 1]).stride(&[2]), &[1, 5, 4, 3], 4);
    of(windows(&[1, 1]).padding(&[[1, 0]]), &[1, 3, 4, 3], 4);
    // One and three axes.
    for length in [1, 2, 17, 64, 65] {
        of(windows(&[3]).padding(&[[1, 1]]), &[2, length, 3], 5);
    }
    let cube = windows(&[2, 3, 3]);
    of(cube.padding(&[[1, 0], [1, 1], [0, 2]]).stride(&[1, 2, 1]), &[2, 4, 5, 6, 3], 4);
    of(cube.dilation(&[2, 1, 2]).groups(3), &[1, 5, 4, 6, 3], 6);
    of(windows(&[1, 1, 1]), &[2, 2, 3, 2, 5], 4);
    // Nothing: no image, no channel, no filter.
    for (x, filters) in [([0, 5, 4, 3], 2), ([2, 5, 4, 0], 2), ([2, 5, 4, 3], 0)] {
        of(windows(&[3, 3]).padding(&[[1, 1]]), &x, filters);
        of(windows(&[1, 1]), &x, filters);
    }
}

/// Extents round those of tiles, and sums that are cut into slabs.
fn sizes(level: Level, cases: &mut Vec<Case>) {
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    for edge in level.list(&[1, 15, 17, 31, 33, 63, 65], &[16, 32, 64, 127, 129]) {
        for (x, filters) in [([1, 4, 5, edge], 7), ([1, 4, 5, 7], edge), ([1, 1, edge, 5], 3)] {
            exact(cases, (three(), &x, filters), DType::F32);
        }
    }
    for dtype in [DType::F32, DType::BF16] {
        // Long sums of taps and channels, then of pixels.
        push(cases, (three(), &[1, 4, 4, 700], 5), dtype, [ONE; 2]);
        push(cases, (three(), &[2, 40, 33, 3], 4), dtype, [ONE; 2]);
        push(cases, (three().groups(5), &[2, 40, 33, 5], 5), dtype, [ONE; 2]);
    }
    // More rounds of loops than some drivers allow.
    exact(cases, (windows(&[3]), &[1, 3, 25_000], 2), DType::F32);
    exact(cases, (windows(&[3]).padding(&[[1, 1]]), &[2, 40_000, 1], 2), DType::F32);
    if level == Level::Full {
        for x in [[2, 28, 28, 64], [3, 14, 13, 96]] {
            push(cases, (three(), &x, 64), DType::F32, [ONE; 2]);
            push(cases, (three().stride(&[2]), &x, 128), DType::F16, [ONE; 2]);
        }
    }
}

/// 16-bit pixels that begin at multiples of 16 bytes, or can be made to: what tensor cores are given.
fn whole_vectors(cases: &mut Vec<Case>) {
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    // Windows that reach far into the padding, skip inputs, lie apart; more channels and filters than a tile, in no whole tiles.
    let shapes = [
        (three(), &[2, 7, 6, 8][..], 16),
        (three().stride(&[2]).padding(&[[1, 0]]), &[2, 9, 8, 16], 24),
        (windows(&[1, 1]).stride(&[2]), &[2, 6, 5, 8], 8),
        (three().dilation(&[2]).padding(&[[2, 2]]), &[1, 9, 9, 8], 8),
        (windows(&[5, 4]).padding(&[[4, 4], [6, 3]]), &[1, 5, 6, 8], 8),
        (windows(&[2, 2]).stride(&[3]), &[1, 8, 7, 8], 8),
        (windows(&[3]).padding(&[[1, 0]]), &[2, 17, 16], 8),
        // Long enough for slabs of outputs.
        (windows(&[2]).padding(&[[0, 1]]), &[1, 600, 8], 8),
        (three(), &[1, 6, 5, 72], 136),
        (three().stride(&[2, 1]), &[1, 13, 29, 8], 72),
        // Taps become channels; y's pixels begin anywhere.
        (windows(&[7, 7]).stride(&[2]).padding(&[[3, 3]]), &[2, 15, 14, 3], 16),
        (windows(&[4, 4]).stride(&[4]), &[1, 9, 8, 3], 10),
        (three(), &[1, 5, 4, 36], 8),
    ];
    for (windows, x, filters) in shapes {
        push(cases, (windows, x, filters), DType::F16, [ONE; 2]);
    }
    push(cases, (three(), &[2, 7, 6, 8], 16), DType::BF16, [ONE; 2]);
    push(cases, (three().stride(&[2]), &[2, 9, 8, 24], 8), DType::BF16, [ONE; 2]);
    exact(cases, (three(), &[2, 6, 7, 8], 8), DType::F16);
    exact(cases, (three().stride(&[2]), &[2, 6, 7, 8], 8), DType::F16);
    // What is not finite shows where it is a term. Zeros of taps' and channels' ends are none.
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last] {
            push(cases, (three(), &[2, 5, 6, 8], 8), DType::F16, [Values::Planted(plant, at), ONE]);
        }
        // An odd window of a stride of two, between whose rows and the next one's there is nothing.
        let odd = (three().stride(&[2]), &[1, 8, 7, 3][..], 8);
        push(cases, odd, DType::F16, [Values::Planted(plant, Where::Middle), ONE]);
    }
    for parts in [[true, false], [true, true]] {
        let made = || {
            let geometry = three().geometry(&[2, 5, 4, 8], 24)?;
            let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
            let plain = Convolution::of(geometry, dense(DType::F16, x), dense(DType::F16, w))?;
            let bias = if parts[1] { Some(dense(DType::F16, Shape::new(&[24])?)) } else { None };
            let residual = Some(dense(DType::F16, y));
            Convolution { residual, bias, activation: Some(UnaryFn::Silu), ..plain }.check()
        };
        add(cases, FAMILY, made(), &[ONE; 4][..2 + parts.iter().filter(|part| **part).count()]);
    }
}

/// A filter for each channel, four channels at a time: blocks of channels that are not whole, rows that are no whole runs of pixels.
fn depthwise(cases: &mut Vec<Case>) {
    fn of<'a>(windows: Windows<'a>, x: &'a [u64]) -> Of<'a> {
        let channels = x.last().copied().unwrap_or(0);
        (windows.groups(channels), x, channels)
    }
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    let every_dtype = [
        (three(), &[2, 3, 14, 4][..]),
        (three().stride(&[2]), &[1, 6, 9, 36]),
        (three().stride(&[3, 2]).padding(&[[1, 0], [2, 1]]), &[1, 5, 7, 12]),
    ];
    for dtype in DTYPES {
        every_dtype.iter().for_each(|(windows, x)| push(cases, of(*windows, x), dtype, [ONE; 2]));
    }
    for (windows, x) in [
        (windows(&[5]).padding(&[[4, 1]]), &[2, 9, 260][..]),
        (windows(&[2, 3, 3]).stride(&[1, 2, 1]).padding(&[[1, 0], [1, 1], [0, 2]]), &[2, 3, 5, 6, 4]),
        (windows(&[2, 1, 3]).stride(&[2, 1, 2]).dilation(&[1, 2, 1]), &[1, 5, 4, 6, 4]),
        // Taps that some remainders of the stride meet, those that one alone does, and more of them than there are strides.
        (three().dilation(&[2]).stride(&[3]).padding(&[[2, 3]]), &[1, 9, 13, 4]),
        (three().dilation(&[2]).stride(&[2]), &[1, 8, 9, 4]),
        (windows(&[5, 4]).dilation(&[4, 2]).stride(&[6, 3]), &[1, 19, 18, 4]),
        (windows(&[7]).stride(&[2]).padding(&[[3, 2]]), &[1, 18, 4]),
        // Paddings beyond the window, and inputs smaller than it.
        (windows(&[3, 2]).padding(&[[4, 4], [3, 5]]), &[1, 2, 3, 8]),
        (windows(&[5, 5]).padding(&[[2, 2]]), &[1, 2, 1, 4]),
        // Taps or pixels that share no inputs, and more taps than a row has at a time.
        (windows(&[3]).dilation(&[9]).padding(&[[9, 9]]), &[1, 20, 4]),
        (windows(&[2]).stride(&[7]), &[1, 38, 4]),
        (windows(&[11]).padding(&[[5, 5]]), &[1, 13, 4]),
        (windows(&[19]).stride(&[2]).padding(&[[9, 8]]), &[1, 13, 4]),
        (windows(&[10, 2]).padding(&[[5, 5], [0, 1]]), &[1, 4, 5, 4]),
        (three(), &[0, 5, 4, 4]),
    ] {
        exact(cases, of(windows, x), DType::F32);
    }
    for stride in 1..=3 {
        for extra in 0..stride {
            exact(cases, of(windows(&[3]).stride(&[stride]), &[1, 3 + 3 * stride + extra, 4]), DType::F32);
        }
    }
    // Several slabs of pixels; several runs an invocation.
    for dtype in [DType::F32, DType::F16] {
        push(cases, of(three(), &[1, 40, 33, 36]), dtype, [ONE; 2]);
    }
    let [forward, ..] = all_three(of(windows(&[1]).padding(&[[1, 0]]), &[2, 512, 512]), DType::F32);
    add(cases, FAMILY, forward, &[SMALL; 2]);
    // Pixels of more channels, forwards and backwards; those that do not begin at a multiple of four elements.
    for (dtype, pitch, first, step) in
        [(DType::F16, 12, 4, 1), (DType::F32, 12, 4, -1), (DType::F32, 12, 2, 1), (DType::BF16, 9, 0, 1)]
    {
        let view = |shape: Shape| -> Result<TensorSpec> {
            let dims = shape.dims();
            let (pixels, last) = (dims[..dims.len() - 1].iter().product::<u64>(), dims[dims.len() - 1]);
            let rows = Layout::contiguous(Shape::new(&[pixels, pitch])?).slice(1, first, first + last, 1)?;
            let layout = rows.slice(0, 0, pixels, step)?.reshape(shape)?.unwrap_or(Layout::contiguous(shape));
            Ok(TensorSpec::new(dtype, layout))
        };
        let made = || {
            let geometry = three().groups(4).geometry(&[2, 3, 5, 4], 4)?;
            let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
            let (x, y, w) = (view(x)?, view(y)?, dense(dtype, w));
            let bias = Some(dense(dtype, Shape::new(&[4])?));
            let relu = Some(UnaryFn::Relu);
            let plain = Convolution::of(geometry, x, w)?;
            let forward = Convolution { residual: Some(y), bias, activation: relu, ..plain }.check()?;
            let input = ConvolutionInput::of(geometry, y, w)?;
            Ok::<_, crate::Error>([forward.into(), input.into(), ConvolutionWeights::of(geometry, y, x)?.into()])
        };
        let ops: [Result<crate::Op>; 3] = match made() {
            Ok(ops) => ops.map(Ok),
            Err(error) => [(); 3].map(|()| Err(crate::Error::clone(&error))),
        };
        for (op, operands) in ops.into_iter().zip([4, 2, 2]) {
            add(cases, FAMILY, op, &[SMALL; 4][..operands]);
        }
    }
    let both_ends = |dtype: DType| {
        let geometry = three().stride(&[1, 2]).groups(12).geometry(&[2, 4, 5, 12], 12)?;
        let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
        let plain = Convolution::of(geometry, dense(dtype, x), dense(dtype, w))?;
        let bias = Some(dense(dtype, Shape::new(&[12])?));
        Convolution { residual: Some(dense(dtype, y)), bias, activation: Some(UnaryFn::Silu), ..plain }.check()
    };
    DTYPES.into_iter().for_each(|dtype| add(cases, FAMILY, both_ends(dtype), &[ONE; 4]));
    // What is not finite meets pixels behind the end of a run, and padding.
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last, Where::Middle] {
            push(cases, of(three(), &[1, 3, 5, 4]), DType::F32, [Values::Planted(plant, at), ONE]);
            push(cases, of(three().stride(&[2]), &[1, 5, 6, 4]), DType::F32, [ONE, Values::Planted(plant, at)]);
        }
    }
}

/// Few channels in one group, enough pixels for tiles: tiles that reach beyond an image, windows of every kind, filters that fill no block.
fn few_channels(cases: &mut Vec<Case>) {
    #[inline(never)]
    fn both(cases: &mut Vec<Case>, of: Of, dtype: DType, exact: bool) {
        let [forward, _, weights] = all_three(of, dtype);
        let mut made = Vec::new();
        for op in [forward, weights] {
            add(&mut made, FAMILY, op, &if exact { [SMALL; 2] } else { [ONE; 2] });
        }
        cases.extend(made.into_iter().map(|case| if exact { case.exact() } else { case }));
    }
    let seven = || windows(&[7, 7]).stride(&[2]).padding(&[[3, 3]]);
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    for dtype in DTYPES {
        both(cases, (seven(), &[1, 33, 41, 3], 64), dtype, false);
        both(cases, (three().stride(&[2, 1]), &[3, 19, 13, 2], 5), dtype, false);
        both(cases, (windows(&[5]).padding(&[[4, 1]]), &[3, 75, 5], 12), dtype, false);
    }
    for (windows, x, filters) in [
        // Blocks of 8, 16, 32 and 64 filters, filled and not, and several of them.
        (three(), &[1, 12, 15, 3][..], 1),
        (three(), &[1, 12, 15, 3], 7),
        (three(), &[1, 12, 15, 3], 16),
        (three(), &[1, 12, 15, 3], 30),
        (three(), &[1, 12, 15, 3], 66),
        (three(), &[1, 12, 15, 3], 96),
        // Channels.
        (seven(), &[1, 24, 30, 1], 16),
        (three(), &[2, 9, 17, 4], 8),
        (three(), &[1, 11, 17, 7], 32),
        (three(), &[1, 11, 17, 8], 20),
        // Strides with and without shared inputs, taps that do not come in equal parts, dilation, paddings of one side and beyond windows.
        (windows(&[4, 4]).stride(&[4]), &[1, 47, 53, 3], 20),
        (windows(&[5, 11]).stride(&[1, 3]).padding(&[[2, 2], [0, 5]]), &[1, 14, 43, 3], 9),
        (windows(&[2, 15]).padding(&[[0, 1], [9, 5]]), &[2, 9, 19, 1], 8),
        (windows(&[1, 13]), &[2, 11, 23, 2], 4),
        (three().stride(&[3]).padding(&[[2, 0], [0, 3]]), &[1, 40, 33, 3], 10),
        (windows(&[3, 3]).dilation(&[2, 3]).padding(&[[4, 1], [2, 7]]), &[1, 16, 15, 3], 24),
        (windows(&[2, 3]).dilation(&[1, 12]).padding(&[[0, 0], [12, 12]]), &[1, 12, 20, 1], 8),
        (windows(&[1, 1]).stride(&[2]), &[1, 30, 29, 3], 16),
        (windows(&[3, 3]).padding(&[[9, 9]]), &[1, 2, 3, 3], 8),
        // Rows of one pixel, columns of one pixel, one axis and three.
        (windows(&[3, 1]).padding(&[[1, 1], [0, 0]]), &[1, 150, 1, 3], 8),
        (windows(&[1, 3]), &[1, 1, 160, 3], 8),
        (windows(&[9]).stride(&[2]).padding(&[[4, 4]]), &[2, 301, 1], 32),
        (windows(&[2, 3, 3]).stride(&[1, 2, 1]).padding(&[[1, 0], [1, 1], [0, 2]]), &[2, 4, 9, 8, 3], 12),
        (
            windows(&[3, 1, 2]).stride(&[2, 1, 2]).dilation(&[2, 1, 1]).padding(&[[5, 2], [0, 0], [1, 0]]),
            &[1, 5, 6, 19, 2],
            8,
        ),
        // Windows that fit no workgroup memory.
        (windows(&[1, 400]), &[1, 1, 700, 3], 8),
        (windows(&[90, 1]), &[1, 200, 9, 3], 8),
    ] {
        both(cases, (windows, x, filters), DType::F32, true);
    }
    // Sums of 16-bit floats of lines that are no whole vectors, and their gradients.
    for dtype in [DType::F16, DType::BF16] {
        push(cases, (seven(), &[2, 21, 19, 3], 16), dtype, [ONE; 2]);
        push(cases, (three().stride(&[2, 1]), &[1, 13, 12, 12], 24), dtype, [ONE; 2]);
        push(cases, (windows(&[5, 3]).padding(&[[2, 2], [0, 3]]), &[1, 10, 11, 5], 8), dtype, [ONE; 2]);
    }
    push(cases, (windows(&[13]).padding(&[[6, 6]]), &[2, 70, 5], 8), DType::F16, [ONE; 2]);
    push(cases, (windows(&[2, 3, 3]), &[1, 4, 9, 8, 10], 8), DType::F16, [ONE; 2]);
    exact(cases, (seven(), &[1, 21, 22, 3], 8), DType::F16);
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last, Where::Middle] {
            push(cases, (seven(), &[1, 25, 24, 3], 8), DType::F16, [Values::Planted(plant, at), ONE]);
            push(cases, (three(), &[1, 12, 13, 3], 8), DType::F32, [ONE, Values::Planted(plant, at)]);
        }
    }
    // Everything that may follow, filters in fours and not; pixels of more channels that begin anywhere, backwards and forwards.
    for (dtype, filters, pitch, step) in [
        (DType::F32, 12, 4, 1),
        (DType::F16, 12, 5, -1),
        (DType::BF16, 8, 3, 1),
        (DType::F16, 7, 4, 1),
        (DType::F32, 3, 7, -1),
    ] {
        let view = |shape: Shape, pitch: u64| -> Result<TensorSpec> {
            let dims = shape.dims();
            let (pixels, last) = (dims[..dims.len() - 1].iter().product::<u64>(), dims[dims.len() - 1]);
            let rows = Layout::contiguous(Shape::new(&[pixels, pitch])?).slice(1, pitch - last, pitch, 1)?;
            let layout = rows.slice(0, 0, pixels, step)?.reshape(shape)?.unwrap_or(Layout::contiguous(shape));
            Ok(TensorSpec::new(dtype, layout))
        };
        let made = || {
            let geometry = three().stride(&[1, 2]).geometry(&[2, 11, 18, 3], filters)?;
            let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
            let plain = Convolution::of(geometry, view(x, pitch)?, view(w, pitch + 1)?)?;
            let bias = Some(dense(dtype, Shape::new(&[filters])?));
            let (residual, output) = (Some(view(y, filters + pitch)?), output(dtype, y.dims())?);
            Convolution { residual, bias, activation: Some(UnaryFn::Gelu), output, ..plain }.check()
        };
        add(cases, FAMILY, made(), &[ONE; 4]);
    }
}

/// Channels of wider pixels, pixels backwards and one for all, filters within wider ones.
fn layouts(cases: &mut Vec<Case>) {
    let geometry = windows(&[3, 2]).stride(&[2, 1]).padding(&[[1, 0]]).geometry(&[2, 5, 4, 3], 4);
    for dtype in [DType::F32, DType::F16] {
        let view = |shape: Shape, kind: LayoutKind| -> Result<TensorSpec> {
            let dims = shape.dims();
            let (pixels, last) = (dims[..dims.len() - 1].iter().product::<u64>(), dims[dims.len() - 1]);
            // Pixels are one axis where they lie at one distance: back to the shape.
            let layout = match kind {
                LayoutKind::Reversed => {
                    let rows = Layout::contiguous(Shape::new(&[pixels, last])?).slice(0, 0, pixels, -1)?;
                    rows.reshape(shape)?.unwrap_or(Layout::contiguous(shape))
                }
                LayoutKind::BroadcastOuter => {
                    let ones = [vec![1; dims.len() - 1], vec![last]].concat();
                    Layout::contiguous(Shape::new(&ones)?).with_offset(2).broadcast_to(shape)?
                }
                _ => kind.layout(dims)?,
            };
            Ok(TensorSpec::new(dtype, layout))
        };
        for kind in [LayoutKind::Offset, LayoutKind::Padded, LayoutKind::Reversed, LayoutKind::BroadcastOuter] {
            let made = || {
                let geometry = geometry.clone()?;
                let [x, w, y] = [geometry.input_shape()?, geometry.weights_shape()?, geometry.output_shape()?];
                let [x, w, y] = [view(x, kind)?, view(w, kind)?, view(y, kind)?];
                let forward = Convolution { residual: Some(y), ..Convolution::of(geometry, x, w)? }.check()?;
                let input = ConvolutionInput::of(geometry, y, w)?;
                Ok::<_, crate::Error>((forward, input, ConvolutionWeights::of(geometry, y, x)?))
            };
            let (forward, input, weights) = match made() {
                Ok((forward, input, weights)) => (Ok(forward), Ok(input), Ok(weights)),
                Err(error) => (Err(error.clone()), Err(error.clone()), Err(error)),
            };
            add(cases, FAMILY, forward, &[SMALL; 3]);
            add(cases, FAMILY, input, &[SMALL; 2]);
            add(cases, FAMILY, weights, &[SMALL; 2]);
        }
    }
}

fn epilogues(cases: &mut Vec<Case>) {
    let with = |dtype: DType, windows: &Windows, [residual, bias]: [bool; 2], activation| {
        let geometry = windows.geometry(&[2, 5, 4, 6], 6)?;
        let plain =
            Convolution::of(geometry, dense(dtype, geometry.input_shape()?), dense(dtype, geometry.weights_shape()?))?;
        let y = dense(dtype, geometry.output_shape()?);
        let bias = if bias { Some(dense(dtype, Shape::new(&[6])?)) } else { None };
        Convolution { residual: residual.then_some(y), bias, activation, ..plain }.check()
    };
    let three = windows(&[3, 3]).padding(&[[1, 1]]);
    for windows in [three, three.groups(6), windows(&[1, 1])] {
        for dtype in DTYPES {
            for parts in [[true, false], [false, true], [true, true]] {
                let count = 2 + parts.iter().filter(|part| **part).count();
                add(cases, FAMILY, with(dtype, &windows, parts, None), &vec![ONE; count]);
            }
            add(cases, FAMILY, with(dtype, &windows, [true; 2], Some(UnaryFn::Relu)), &[ONE; 4]);
        }
        for f in UnaryFn::ALL.into_iter().filter(|f| f.is_activation()) {
            add(cases, FAMILY, with(DType::F32, &windows, [false, true], Some(f)), &[ONE; 3]);
        }
    }
}

/// What is not finite shows in what it is a term of, and nowhere else but where it meets padding.
fn special(cases: &mut Vec<Case>) {
    for windows in [windows(&[3, 3]).padding(&[[1, 1]]), windows(&[2, 3]).stride(&[2]).groups(3)] {
        let of = (windows, &[2, 5, 6, 3][..], 6);
        for plant in [Plant::Nan, Plant::Inf] {
            for at in [Where::First, Where::Last, Where::Middle] {
                push(cases, of, DType::F32, [Values::Planted(plant, at), ONE]);
                push(cases, of, DType::F16, [ONE, Values::Planted(plant, at)]);
            }
        }
    }
    // Half precision overflows when stored, not on the way.
    push(cases, (windows(&[3, 3]), &[1, 4, 5, 30], 4), DType::F16, [Values::Constant(60.0); 2]);
}

/// Named `conv KIND DTYPE shape`: shapes of ResNet-50 and of a network of depthwise convolutions.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let batch = size.pick(1, 8, 64);
    let three = || windows(&[3, 3]).padding(&[[1, 1]]);
    let shapes = [
        ("3x3 c64 56x56", three(), [56, 56, 64], 64),
        ("3x3 c256 14x14", three(), [14, 14, 256], 256),
        ("3x3 s2 c128 56x56", three().stride(&[2]), [56, 56, 128], 128),
        ("1x1 c256-64 56x56", windows(&[1, 1]), [56, 56, 256], 64),
        ("7x7 s2 c3-64 224x224", windows(&[7, 7]).stride(&[2]).padding(&[[3, 3]]), [224, 224, 3], 64),
        ("3x3 depthwise c256 28x28", three().groups(256), [28, 28, 256], 256),
    ];
    let dtypes = size.pick(&[DType::F32][..], &[DType::F32, DType::F16], &[DType::F32, DType::F16]);
    let mut cases = Vec::new();
    for &dtype in dtypes {
        for (name, windows, image, filters) in &shapes {
            let x = [&[batch][..], image].concat();
            let kinds = ["forward", "input", "weights"];
            for (kind, op) in kinds.into_iter().zip(all_three((*windows, &x, *filters), dtype)) {
                let Ok(op) = op else { continue };
                let name = format!("conv {kind} {dtype} {name} n{batch}");
                let metric = if windows.groups > 1 { Metric::Bytes } else { Metric::Flops };
                cases.push(BenchCase::new(name, Suite::Gemm, op, metric).beside());
            }
        }
    }
    cases
}
