//! Convolutions against the adjoint identity, exact numbers, and what is refused.

use super::super::geometry::Geometry;
use super::super::window::{Window, three};
use super::super::{Convolution, ConvolutionOptions};
use super::{ConvolutionInput, ConvolutionWeights};
use crate::{DType, Device, Error, Layout, Shape, Tensor, TensorSpec};

/// Numbers of a generator that needs nothing.
pub(in super::super) struct Draw(pub(in super::super) u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    pub(in super::super) fn tensor(&mut self, device: &Device, shape: Shape) -> Tensor {
        let values: Vec<f64> = (0..shape.elements()).map(|_| self.below(2001) as f64 / 1000.0 - 1.0).collect();
        Tensor::from_slice(device, &values, shape).unwrap()
    }

    /// A geometry of any rank; inputs end anywhere behind the last window, paddings may exceed half of a window.
    pub(in super::super) fn geometry(&mut self) -> Geometry {
        let rank = 1 + self.below(3) as usize;
        let window = |_| {
            let [taps, stride, dilation] = [1 + self.below(4), 1 + self.below(3), 1 + self.below(2)];
            let (output, reach) = (1 + self.below(5), dilation * (taps - 1) + 1);
            let padded = (output - 1) * stride + reach + self.below(stride);
            let before = self.below(padded.min(reach + 1));
            let after = self.below((padded - before).min(reach + 1));
            let input = padded - before - after;
            Window { input, output, taps, stride, dilation, before, after }
        };
        let windows: Vec<Window> = (0..rank).map(window).collect();
        let groups = 1 + self.below(3);
        let [channels, filters] = [groups * (1 + self.below(3)), groups * (1 + self.below(3))];
        Geometry { batch: 1 + self.below(2), channels, filters, groups, rank, windows: three(&windows) }
    }
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    let [a, b] = [a, b].map(|x| x.to_vec::<f64>().unwrap());
    assert_eq!(a.len(), b.len());
    a.iter().zip(&b).map(|(a, b)| a * b).sum()
}

/// `<conv(x, w), y> = <x, input(y, w)> = <w, weights(y, x)>` on random geometries.
#[test]
fn three_operations_are_adjoints_of_each_other() {
    let device = Device::cpu();
    let mut draw = Draw(1);
    let mut axes = [0; 3];
    for _ in 0..300 {
        let geometry = draw.geometry();
        axes[geometry.rank - 1] += 1;
        let [x, w, y] = [geometry.input_shape(), geometry.weights_shape(), geometry.output_shape()]
            .map(|shape| draw.tensor(&device, shape.unwrap()));
        let one = |op: crate::Op, operands: &[&Tensor]| Tensor::apply(&device, op, operands).unwrap().swap_remove(0);
        let forward = one(Convolution::of(geometry, x.spec(), w.spec()).unwrap().into(), &[&x, &w]);
        let of_x = one(ConvolutionInput::of(geometry, y.spec(), w.spec()).unwrap().into(), &[&y, &w]);
        let of_w = one(ConvolutionWeights::of(geometry, y.spec(), x.spec()).unwrap().into(), &[&y, &x]);
        let found = [dot(&forward, &y), dot(&x, &of_x), dot(&w, &of_w)];
        let scale = 1.0 + geometry.flops() as f64;
        assert!(found.iter().all(|dot| (dot - found[0]).abs() < 1e-13 * scale), "{found:?} of {geometry:?}");
    }
    assert!(axes.iter().all(|&count| count > 50), "{axes:?}");
}

/// Numbers of PyTorch's `conv_transpose2d` by its definition: each x spreads its taps over the output.
#[test]
fn transposed_convolution_with_output_padding_has_the_extents_asked_for() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [1, 2, 2, 1]).unwrap();
    let weights = Tensor::from_slice(&device, &[1.0f32; 9], [1, 3, 3, 1]).unwrap();
    let options = ConvolutionOptions::default().stride(2).padding(1).output_padding(1);
    let y = x.conv_transpose(&weights, &options).unwrap();
    assert_eq!(y.dims(), [1, 4, 4, 1]);
    let want = [1.0, 3.0, 2.0, 2.0, 4.0, 10.0, 6.0, 6.0, 3.0, 7.0, 4.0, 4.0, 3.0, 7.0, 4.0, 4.0];
    assert_eq!(y.to_vec::<f32>().unwrap(), want);
    // Below the dilation it may be as large as the stride or larger.
    let options = ConvolutionOptions { dilation: vec![3], ..ConvolutionOptions::default().output_padding(2) };
    let y = x.conv_transpose(&weights, &options).unwrap();
    assert_eq!(y.dims(), [1, 10, 10, 1]);
    assert_eq!(y.to_vec::<f32>().unwrap()[9..11], [0.0, 3.0]);
}

#[test]
fn fused_end_is_that_of_separate_steps() {
    let device = Device::cpu();
    let mut draw = Draw(7);
    for (taps, padding) in [(3, 1), (1, 0)] {
        let shape = |dims: &[u64]| Shape::new(dims).unwrap();
        let [x, w] = [shape(&[2, 5, 4, 3]), shape(&[6, taps, taps, 3])].map(|shape| draw.tensor(&device, shape));
        let [residual, bias] = [shape(&[2, 5, 4, 6]), shape(&[6])].map(|shape| draw.tensor(&device, shape));
        let options = ConvolutionOptions::default().padding(padding);
        let plain = x.conv(&w, &options).unwrap().add(&residual).unwrap().add(&bias).unwrap().relu().unwrap();
        let options = options.activation(crate::UnaryFn::Relu);
        let fused = x.conv_with(&w, Some(&residual), Some(&bias), &options).unwrap();
        let [plain, fused] = [plain, fused].map(|y| y.to_vec::<f64>().unwrap());
        assert!(plain.iter().zip(&fused).all(|(a, b)| (a - b).abs() < 1e-13));
        assert!(fused.contains(&0.0));
    }
}

#[test]
fn views_are_read_where_they_lie_and_others_are_copied() {
    let device = Device::cpu();
    let mut draw = Draw(3);
    let wide = draw.tensor(&device, Shape::new(&[1, 6, 6, 5]).unwrap());
    let w = draw.tensor(&device, Shape::new(&[2, 3, 3, 3]).unwrap());
    let options = ConvolutionOptions::default();
    // Some channels of each pixel; some columns, which are pixels at two distances.
    for part in [wide.slice(3, 1..4).unwrap(), wide.slice(3, 1..4).unwrap().slice(2, 0..5).unwrap()] {
        let (viewed, copied) =
            (part.conv(&w, &options).unwrap(), part.contiguous().unwrap().conv(&w, &options).unwrap());
        assert_eq!(viewed.to_vec::<f64>().unwrap(), copied.to_vec::<f64>().unwrap());
    }
}

#[test]
fn strides_beyond_the_image_are_those_that_end_at_it() {
    let device = Device::cpu();
    let mut draw = Draw(11);
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    let geometry = |stride| {
        let window = Window { input: 5, output: 1, taps: 3, stride, dilation: 1, before: 1, after: 0 };
        Geometry { batch: 2, channels: 8, filters: 8, groups: 1, rank: 3, windows: [window; 3] }
    };
    // Their product is beyond 64 bits.
    let long = geometry((1 << 30) - 1);
    let spec = |dims: Shape, dtype| TensorSpec::new(dtype, Layout::contiguous(dims));
    let of = |geometry: Geometry, dtype| {
        let [dy, w] = [geometry.output_shape().unwrap(), geometry.weights_shape().unwrap()];
        ConvolutionInput::of(geometry, spec(dy, dtype), spec(w, dtype)).unwrap()
    };
    for dtype in [DType::F32, DType::F16] {
        assert!(of(long, dtype).as_rows().unwrap().is_none());
        let plan = |geometry| crate::ops::plan(&of(geometry, dtype).into(), &crate::wgsl::validate::full_caps());
        assert_eq!(plan(long).unwrap(), plan(geometry(6)).unwrap());
    }
    let (dy, w) = (draw.tensor(&device, shape(&[2, 1, 1, 1, 8])), draw.tensor(&device, shape(&[8, 3, 3, 3, 8])));
    let dx = |geometry| {
        let op = of(geometry, DType::F64);
        Tensor::apply(&device, op, &[&dy, &w]).unwrap().swap_remove(0).to_vec::<f64>().unwrap()
    };
    assert_eq!(dx(long), dx(geometry(6)));
}

#[test]
fn what_is_no_convolution_is_refused_with_the_number_to_change() {
    let spec = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
    let f32 = |dims: &[u64]| spec(DType::F32, dims);
    let (x, w) = (f32(&[1, 5, 5, 4]), f32(&[6, 3, 3, 4]));
    let options = ConvolutionOptions::default;
    let refused = |x, w, options: ConvolutionOptions, words: &str| {
        let error = Convolution::new(x, w, &options).unwrap_err().to_string();
        assert!(error.contains(words), "{error} does not say {words}");
    };
    refused(x, w, options().stride(0), "the stride of spatial axis 0 is 0");
    refused(x, w, options().dilation(0), "the dilation of spatial axis 0 is 0");
    refused(x, w, options().groups(0), "0 groups");
    refused(x, w, options().groups(3), "4 channels do not divide by 3 groups");
    refused(x, f32(&[6, 3, 3, 2]), options().groups(4), "6 filters do not divide by 4 groups");
    refused(x, w, options().groups(2), "do not fit at axis 3");
    refused(x, f32(&[6, 6, 3, 4]), options(), "pad by 1 more");
    refused(x, w, options().dilation(3), "pad by 2 more");
    refused(x, f32(&[6, 0, 3, 4]), options(), "the window of spatial axis 0 is 0");
    refused(x, f32(&[6, 3, 4]), options(), "do not fit");
    refused(f32(&[5, 4]), w, options(), "1 to 3 spatial axes");
    refused(x, w, ConvolutionOptions { stride: vec![1, 2, 3], ..options() }, "3 numbers for 2 spatial axes");
    refused(x, w, options().output_padding(1), "transposed convolutions alone");
    refused(x, w, options().stride(1 << 30), "a number beyond");
    refused(x, w, options().activation(crate::UnaryFn::Cos), "cos is not one");
    refused(x, spec(DType::F16, &[6, 3, 3, 4]), options(), "expected f32, got f16");
    let of = |dtype| [spec(dtype, &[1, 5, 5, 4]), spec(dtype, &[6, 3, 3, 4])];
    for (dtype, words) in [
        (DType::Bool, "not defined for bool"),
        (DType::I16, "not defined for i16"),
        (DType::I8, "quantize(DType::I8, ..), then Quantized::conv"),
        (DType::U8, "cast(DType::I32) for exact sums"),
    ] {
        let [x, w] = of(dtype);
        refused(x, w, options(), words);
    }
    let [x_i32, w_i32] = of(DType::I32);
    let op = Convolution::new(x_i32, w_i32, &options()).unwrap();
    let wide = Convolution { output: TensorSpec { dtype: DType::F32, ..op.output }, ..op };
    assert!(matches!(wide.check(), Err(Error::DTypeMismatch { expected: DType::I32, got: DType::F32, .. })));
    let turned = TensorSpec { layout: x.layout.transpose(1, 3).unwrap(), ..x };
    refused(turned, f32(&[6, 3, 3, 5]), options(), "make it contiguous first");
    let op = Convolution::new(x, w, &options()).unwrap();
    let error = Convolution { bias: Some(f32(&[5])), ..op.clone() }.check().unwrap_err();
    assert!(matches!(error, Error::ShapeMismatch { op: "convolution", axis: Some(3), .. }), "{error}");
    assert!(Convolution { residual: Some(x), ..op }.check().is_err());
    let more = Geometry::transposed(
        "conv",
        x.layout.shape(),
        f32(&[4, 3, 3, 2]).layout.shape(),
        &options().stride(2).output_padding(2),
    );
    assert!(more.unwrap_err().to_string().contains("below 2"));
}
