//! Products of f32 matrices whose every element is known: for tests of what chooses among kernels.

use polywarp_core::ops::Matmul;
use polywarp_core::{Backend, Buffer, DType, Layout, Op, Shape, TensorSpec};

/// The product of an m x k matrix and a k x n one.
pub fn product(m: u64, n: u64, k: u64) -> Op {
    let spec = |dims: &[u64]| TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()));
    Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n])).check().unwrap().into()
}

/// Operands of `op` whose every product is 1 * 2, and an output that holds something else.
pub fn operands(backend: &dyn Backend, op: &Op) -> (Vec<Buffer>, Buffer) {
    let filled = |spec: &TensorSpec, value: f32| {
        let buffer = backend.alloc(spec.required_bytes()).unwrap();
        backend.write(&buffer, 0, &value.to_le_bytes().repeat(spec.layout.elements() as usize)).unwrap();
        buffer
    };
    let inputs = op.inputs().iter().zip([1.0, 2.0]).map(|(spec, value)| filled(spec, value)).collect();
    (inputs, filled(&op.output(), -7.0))
}

/// The first `count` numbers in `buffer`.
pub fn values(backend: &dyn Backend, buffer: &Buffer, count: usize) -> Vec<f32> {
    let bytes = backend.read_blocking(buffer, 0..4 * count as u64).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
