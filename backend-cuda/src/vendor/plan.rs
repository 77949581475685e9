//! A product as cuBLASLt computes it: its description, the heuristics for it, and launches of one.
//!
//! Numbers are those of `cublasLt.h` and `library_types.h`. It computes column-major: D row-major is D' column-major, and
//! D' = B' A'.

use std::ffi::c_int;
use std::rc::Rc;

use cudarc::driver::sys;
use polywarp_core::ops::Matmul;
use polywarp_core::{Backend, DType, Error, Precision, Result, TensorSpec};

use super::contest::Operands;
use super::cublaslt::{CublasLt, Heuristic, Object, Said, WORKSPACE_BYTES, checked, driver};
use crate::state::CudaBackend;

/// Heuristics that are tried.
const HEURISTICS: usize = 8;

fn failed(backend: &CudaBackend, message: String) -> Error {
    Error::Backend { device: backend.info().id.clone(), op: "cublasLtMatmul".to_owned(), message }
}

impl CublasLt {
    /// Its first heuristics for `op`, a plain product of dense operands (transposed or not), one or a batch.
    ///
    /// # Errors
    /// Why it does not compute this, in words.
    pub fn plans(&self, backend: &CudaBackend, op: &Matmul) -> Said<Vec<Plan<'_>>> {
        let scaled = op.scale_a.is_some() || op.scale_b.is_some();
        if scaled || op.c.is_some() || op.bias.is_some() || op.activation.is_some() || op.alpha != 1.0 {
            return Err("only plain products are compared".to_owned());
        }
        let (a, b, d) = (Matrix::of(&op.a)?, Matrix::of(&op.b)?, Matrix::of(&op.output)?);
        // CUBLAS_COMPUTE_32F, 32F_FAST_16BF, 64F, 32I, 32F_FAST_TF32.
        let f32_one = u64::from(1f32.to_bits()).to_le_bytes();
        let (compute, scale, one): (c_int, DType, [u8; 8]) = match (op.a.dtype, op.precision) {
            (DType::F64, _) => (70, DType::F64, 1f64.to_le_bytes()),
            (DType::I8 | DType::U8, _) => (72, DType::I32, 1u64.to_le_bytes()),
            (DType::F32, Precision::Medium) => (77, DType::F32, f32_one),
            (DType::F32, Precision::Low) => (75, DType::F32, f32_one),
            _ => (68, DType::F32, f32_one),
        };
        // SAFETY: the context lives as long as the backend.
        driver("context", unsafe { sys::cuCtxSetCurrent(backend.context()) })?;
        let desc = self.desc(compute, data_type(scale)?, [b.transposed, a.transposed])?;
        // Ours B is its A, ours A its B; a row-major matrix is its own transpose there.
        let layouts = [self.layout(&b)?, self.layout(&a)?, self.layout(&d)?];
        let found = self.heuristics(&desc, &layouts)?;
        let owned = Rc::new(Objects { desc, layouts });
        let usable = found.into_iter().enumerate().filter(|(_, heuristic)| heuristic.state == 0);
        let plan = |(number, heuristic)| Plan {
            vendor: self,
            objects: Rc::clone(&owned),
            heuristic,
            number,
            scales: [one, [0; 8]],
        };
        Ok(usable.map(plan).collect())
    }

    fn desc(&self, compute: c_int, scale: c_int, transposed: [bool; 2]) -> Said<Object> {
        let f = &self.functions;
        let mut desc = std::ptr::null_mut();
        // SAFETY: the pointer is to a live local; numbers are those of cublasLt.h.
        checked("MatmulDescCreate", unsafe { (f.desc_create)(&mut desc, compute, scale) })?;
        let desc = Object { raw: desc, destroy: f.desc_destroy };
        // CUBLASLT_MATMUL_DESC_TRANSA and TRANSB.
        for (attribute, transposed) in [3, 4].into_iter().zip(transposed) {
            let op = c_int::from(transposed);
            // SAFETY: the attribute is an int of four bytes, copied during the call.
            let set = unsafe { (f.desc_set)(desc.raw, attribute, (&raw const op).cast(), size_of::<c_int>()) };
            checked("MatmulDescSetAttribute", set)?;
        }
        Ok(desc)
    }

    fn layout(&self, matrix: &Matrix) -> Said<Object> {
        let f = &self.functions;
        let mut layout = std::ptr::null_mut();
        let Matrix { dtype, inner, outer, pitch, .. } = *matrix;
        // SAFETY: the pointer is to a live local.
        checked("MatrixLayoutCreate", unsafe { (f.layout_create)(&mut layout, dtype, inner, outer, pitch) })?;
        let layout = Object { raw: layout, destroy: f.layout_destroy };
        let (count, stride) = (matrix.batch, matrix.batch_stride);
        // SAFETY: CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT is an int32, STRIDED_BATCH_OFFSET an int64, copied during the calls.
        unsafe {
            checked("batch count", (f.layout_set)(layout.raw, 5, (&raw const count).cast(), size_of::<i32>()))?;
            checked("batch stride", (f.layout_set)(layout.raw, 6, (&raw const stride).cast(), size_of::<i64>()))?;
        }
        Ok(layout)
    }

    fn heuristics(&self, desc: &Object, layouts: &[Object; 3]) -> Said<Vec<Heuristic>> {
        let f = &self.functions;
        let mut preference = std::ptr::null_mut();
        // SAFETY: the pointer is to a live local.
        checked("PreferenceCreate", unsafe { (f.preference_create)(&mut preference) })?;
        let preference = Object { raw: preference, destroy: f.preference_destroy };
        let none = Heuristic { algorithm: [0; 8], workspace_bytes: 0, state: 1, waves: 0.0, reserved: [0; 4] };
        let (mut found, mut count) = ([none; HEURISTICS], 0);
        let [b, a, d] = layouts.each_ref().map(|layout| layout.raw);
        let (desc, preference) = (desc.raw, preference.raw);
        // SAFETY: CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES is a u64; all objects are alive, `found` has room for as many
        // results as are asked for.
        unsafe {
            let workspace = WORKSPACE_BYTES;
            let set = (f.preference_set)(preference, 1, (&raw const workspace).cast(), size_of::<u64>());
            checked("workspace", set)?;
            let most = HEURISTICS as c_int;
            let found = found.as_mut_ptr();
            let asked = (f.heuristics)(self.handle, desc, b, a, d, d, preference, most, found, &mut count);
            checked("AlgoGetHeuristic", asked)?;
        }
        Ok(found.into_iter().take(count.max(0) as usize).collect())
    }
}

/// `cudaDataType_t`: CUDA_R_32F, 64F, 16F, 8I, 8U, 32I, 16BF, 8F_E4M3, 8F_E5M2.
fn data_type(dtype: DType) -> Said<c_int> {
    match dtype {
        DType::F32 => Ok(0),
        DType::F64 => Ok(1),
        DType::F16 => Ok(2),
        DType::I8 => Ok(3),
        DType::U8 => Ok(8),
        DType::I32 => Ok(10),
        DType::BF16 => Ok(14),
        DType::F8E4M3 => Ok(28),
        DType::F8E5M2 => Ok(29),
        other => Err(format!("{other} is not a type of it")),
    }
}

/// A batch of matrices as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Matrix {
    dtype: c_int,
    /// Extents along neighbours in memory, and across.
    inner: u64,
    outer: u64,
    /// Elements from one run of neighbours to the next.
    pitch: i64,
    /// Whether neighbours lie along the first dimension.
    transposed: bool,
    batch: i32,
    batch_stride: i64,
}

impl Matrix {
    fn of(spec: &TensorSpec) -> Said<Matrix> {
        let layout = &spec.layout;
        let (dims, strides, rank) = (layout.dims(), layout.strides(), layout.rank());
        let (row, column) = (rank - 2, rank - 1);
        if layout.offset() != 0 {
            return Err("views with an offset are not compared".to_owned());
        }
        let (batch, batch_stride) = match rank {
            2 => (1, 0),
            3 => (dims[0], strides[0]),
            _ => return Err("only one dimension of batches is compared".to_owned()),
        };
        let batch = i32::try_from(batch).map_err(|_| format!("a batch of {batch}"))?;
        let dtype = data_type(spec.dtype)?;
        let least = |inner: usize| i64::try_from(dims[inner]).unwrap_or(i64::MAX);
        let transposed = match () {
            () if strides[column] == 1 && strides[row] >= least(column) => false,
            () if strides[row] == 1 && strides[column] >= least(row) => true,
            () => return Err("only dense rows or columns are compared".to_owned()),
        };
        let (inner, outer) = if transposed { (row, column) } else { (column, row) };
        let pitch = strides[outer];
        Ok(Matrix { dtype, inner: dims[inner], outer: dims[outer], pitch, transposed, batch, batch_stride })
    }
}

/// What all plans of one product share: its description, and the layouts of B, A and D.
#[derive(Debug)]
struct Objects {
    desc: Object,
    layouts: [Object; 3],
}

/// A product as cuBLASLt would compute it: one of its heuristics.
#[derive(Debug)]
pub struct Plan<'a> {
    vendor: &'a CublasLt,
    objects: Rc<Objects>,
    heuristic: Heuristic,
    number: usize,
    /// alpha 1 and beta 0, of the scale's type.
    scales: [[u8; 8]; 2],
}

/// Launches of a plan, captured.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    exec: sys::CUgraphExec,
    /// Its workspace is used by the launches.
    _vendor: &'a CublasLt,
}

impl<'a> Plan<'a> {
    /// Its place in the library's order.
    pub fn number(&self) -> usize {
        self.number
    }

    /// `cublasLt #2`
    pub fn name(&self) -> String {
        format!("cublasLt #{}", self.number)
    }

    /// Enqueues it on the backend's stream.
    ///
    /// # Errors
    /// [`Error::Backend`] with its status; [`Error::DeviceMismatch`] for buffers of another backend.
    pub fn run(&self, backend: &CudaBackend, operands: &Operands) -> Result<()> {
        self.enqueue(backend, operands, backend.stream())
    }

    fn enqueue(&self, backend: &CudaBackend, operands: &Operands, stream: sys::CUstream) -> Result<()> {
        let [a, b] = &operands.inputs[..] else {
            return Err(failed(backend, format!("{} inputs", operands.inputs.len())));
        };
        let address = |buffer| backend.device_address(buffer);
        let (a, b, d) = (address(a)?, address(b)?, address(&operands.output)?);
        let [one, zero] = &self.scales;
        let [layout_b, layout_a, layout_d] = self.objects.layouts.each_ref().map(|layout| layout.raw);
        let vendor = self.vendor;
        // SAFETY: layouts describe the buffers, which outlive the work: freed memory of a backend is used again in the
        // order of its stream, and whoever captures keeps them.
        let status = unsafe {
            (vendor.functions.matmul)(
                vendor.handle,
                self.objects.desc.raw,
                one.as_ptr().cast(),
                b,
                layout_b,
                a,
                layout_a,
                zero.as_ptr().cast(),
                d,
                layout_d,
                d,
                layout_d,
                &self.heuristic.algorithm,
                vendor.workspace_address,
                WORKSPACE_BYTES as usize,
                stream,
            )
        };
        checked("cublasLtMatmul", status).map_err(|message| failed(backend, message))
    }

    /// `launches` launches over `sets` in turn, ready to be enqueued together, as ours are.
    pub(super) fn capture(&self, backend: &CudaBackend, sets: &[Operands], launches: usize) -> Result<Graph<'a>> {
        let fail = |message| failed(backend, message);
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        let (mut stream, mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the context lives as long as the backend; handles are used between making and destroying.
        unsafe {
            driver("context", sys::cuCtxSetCurrent(backend.context())).map_err(fail)?;
            driver("stream", sys::cuStreamCreate(&mut stream, 1)).map_err(fail)?;
            driver("capture", sys::cuStreamBeginCapture_v2(stream, mode)).map_err(fail)?;
            let enqueued = (0..launches).try_for_each(|i| self.enqueue(backend, &sets[i % sets.len()], stream));
            let ended = driver("capture", sys::cuStreamEndCapture(stream, &mut graph)).map_err(fail);
            let made = enqueued
                .and(ended)
                .and_then(|()| driver("graph", sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0)).map_err(fail));
            if !graph.is_null() {
                driver("graph", sys::cuGraphDestroy(graph)).map_err(fail)?;
            }
            driver("stream", sys::cuStreamDestroy_v2(stream)).map_err(fail)?;
            made?;
        }
        Ok(Graph { exec, _vendor: self.vendor })
    }
}

impl Graph<'_> {
    /// Enqueues all of it on the backend's stream.
    pub(super) fn launch(&self, backend: &CudaBackend) -> Result<()> {
        // SAFETY: the graph is alive, and so are the buffers it uses.
        let launched = driver("graph", unsafe { sys::cuGraphLaunch(self.exec, backend.stream()) });
        launched.map_err(|message| failed(backend, message))
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `capture`, destroyed once; the driver keeps what still runs.
        unsafe { sys::cuGraphExecDestroy(self.exec) };
    }
}

#[cfg(test)]
mod tests {
    use polywarp_core::{Layout, Shape};

    use super::*;

    fn spec(dims: &[u64]) -> TensorSpec {
        TensorSpec::new(DType::F16, Layout::contiguous(Shape::new(dims).unwrap()))
    }

    #[test]
    fn matrices_are_described_as_they_lie() {
        let plain = Matrix::of(&spec(&[3, 5])).unwrap();
        let expected = Matrix { dtype: 2, inner: 5, outer: 3, pitch: 5, transposed: false, batch: 1, batch_stride: 0 };
        assert_eq!(plain, expected);
        let dense = spec(&[2, 7, 5]);
        let transposed = TensorSpec::new(DType::F16, dense.layout.transpose(1, 2).unwrap());
        let expected = Matrix { outer: 7, transposed: true, batch: 2, batch_stride: 35, ..expected };
        assert_eq!(Matrix::of(&transposed).unwrap(), expected);
    }

    #[test]
    fn what_it_cannot_describe_is_refused_in_words() {
        assert!(Matrix::of(&spec(&[2, 2, 3, 5])).is_err());
        let strided = spec(&[4, 6]).layout.slice(1, 0, 6, 2).unwrap();
        assert!(Matrix::of(&TensorSpec::new(DType::F16, strided)).is_err());
        assert!(Matrix::of(&TensorSpec::new(DType::Bool, spec(&[3, 5]).layout)).is_err());
    }
}
