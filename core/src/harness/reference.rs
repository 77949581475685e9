//! A device that is right by construction: host memory, every op computed by its own oracle and rounded once.
//!
//! Slow and simple. It is what the harness's own tests run on, the base of the [`super::broken`] devices, and a second
//! device where a test needs one. It shows the least a [`Backend`] must do.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::values::encode;
use crate::oracle::{HostTensor, Subnormals};
use crate::{
    Backend, Binding, Buffer, DType, DeviceInfo, DeviceKind, Elapsed, Error, Kernel, Limits, MemoryStats, Op,
    ReadFuture, Result, Scalar, TensorSpec, foreign_buffer,
};

/// The oracle as a device.
#[derive(Debug)]
pub struct ReferenceBackend {
    info: DeviceInfo,
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Memory {
    in_use: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
    /// u64::MAX stands for no limit.
    limit: AtomicU64,
}

/// Host memory that counts itself.
struct Block {
    bytes: Mutex<Vec<u8>>,
    size_bytes: u64,
    memory: Arc<Memory>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.memory.in_use.fetch_sub(self.size_bytes, Ordering::Relaxed);
    }
}

impl Default for ReferenceBackend {
    fn default() -> Self {
        ReferenceBackend::new("reference")
    }
}

impl ReferenceBackend {
    /// A device of this id.
    pub fn new(id: &str) -> ReferenceBackend {
        let limits = Limits {
            max_buffer_bytes: 1 << 34,
            max_binding_bytes: 1 << 34,
            max_workgroups: [0; 3],
            max_invocations_per_workgroup: 0,
            max_workgroup_bytes: 0,
        };
        let info = DeviceInfo {
            id: id.to_owned(),
            name: "float64 oracle".to_owned(),
            api: "host".to_owned(),
            kind: DeviceKind::Other,
            driver: concat!("polywarp ", env!("CARGO_PKG_VERSION")).to_owned(),
            pci_bus: None,
            memory_bytes: None,
            threads: Some(1),
            limits,
            dtypes: DType::ALL.to_vec(),
            features: Vec::new(),
            subnormals: Subnormals::Kept,
        };
        let zero = || AtomicU64::new(0);
        let memory = Memory { in_use: zero(), peak: zero(), allocations: zero(), limit: AtomicU64::new(u64::MAX) };
        ReferenceBackend { info, memory: Arc::new(memory) }
    }

    fn block<'a>(&self, buffer: &'a Buffer) -> Result<&'a Block> {
        let block = buffer.downcast::<Block>().filter(|block| Arc::ptr_eq(&block.memory, &self.memory));
        block.ok_or_else(|| foreign_buffer(&self.info.id))
    }

    fn range(&self, range: Range<u64>, have: u64) -> Result<Range<usize>> {
        if range.start > range.end || range.end > have {
            return Err(Error::ViewOutOfBounds { needed: range.end, have });
        }
        Ok(range.start as usize..range.end as usize)
    }

    fn host_tensor(&self, spec: &TensorSpec, buffer: &Buffer) -> Result<HostTensor> {
        let bytes = lock(&self.block(buffer)?.bytes);
        let size = spec.dtype.size_bytes() as usize;
        let at = |i| spec.layout.index_of(i) as usize * size;
        let values = (0..spec.layout.elements()).map(|i| Scalar::from_le_bytes(&bytes[at(i)..], spec.dtype)).collect();
        Ok(HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values })
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    // Bytes are valid whatever another thread was doing when it panicked.
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Backend for ReferenceBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        let device = || self.info.id.clone();
        let max = self.info.limits.max_buffer_bytes;
        if size_bytes > max {
            return Err(Error::BufferTooBig { device: device(), requested: size_bytes, max });
        }
        let (in_use, limit) = (self.memory.in_use.load(Ordering::Relaxed), self.memory.limit.load(Ordering::Relaxed));
        let out_of_memory = |limit| Error::OutOfMemory {
            device: device(),
            requested: size_bytes,
            in_use,
            cached: 0,
            limit,
            largest: crate::Largest::default(),
        };
        if in_use.saturating_add(size_bytes) > limit {
            return Err(out_of_memory(Some(limit)));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size_bytes as usize).map_err(|_| out_of_memory(None))?;
        bytes.resize(size_bytes as usize, 0xFF);
        let now = self.memory.in_use.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        self.memory.peak.fetch_max(now, Ordering::Relaxed);
        self.memory.allocations.fetch_add(1, Ordering::Relaxed);
        let block = Block { bytes: Mutex::new(bytes), size_bytes, memory: self.memory.clone() };
        Ok(Buffer::new(size_bytes, Arc::new(block)))
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        let block = self.block(buffer)?;
        let range = self.range(offset_bytes..offset_bytes.saturating_add(data.len() as u64), block.size_bytes)?;
        lock(&block.bytes)[range].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let bytes = self.read_blocking(buffer, range);
        Box::pin(async move { bytes })
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let block = self.block(buffer)?;
        let range = self.range(range, block.size_bytes)?;
        Ok(lock(&block.bytes)[range].to_vec())
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let written = op.outputs();
        if let (true, [spec], [input], [out], [output]) =
            (op.facts().moves_bits, &op.inputs()[..], inputs, &written[..], outputs)
        {
            // Bits, not values: NaN payloads survive.
            let (out, size) = (out.spec, out.spec.dtype.size_bytes() as usize);
            let source = lock(&self.block(input)?.bytes).clone();
            let mut bytes = lock(&self.block(output)?.bytes);
            for i in 0..out.layout.elements() {
                let from = spec.layout.index_of(i) as usize * size;
                let to = out.layout.index_of(i) as usize * size;
                bytes[to..to + size].copy_from_slice(&source[from..from + size]);
            }
            return Ok(());
        }
        let read = op.inputs().into_iter().zip(inputs);
        let updated = written.iter().zip(outputs).filter(|(operand, _)| operand.role.is_read());
        let hosts = read
            .map(|(spec, buffer)| self.host_tensor(&spec, buffer))
            .chain(updated.map(|(operand, buffer)| self.host_tensor(&operand.spec, buffer)))
            .collect::<Result<Vec<_>>>()?;
        for ((operand, output), expected) in written.iter().zip(outputs).zip(op.oracle(&hosts)) {
            let (out, size) = (operand.spec, operand.spec.dtype.size_bytes() as usize);
            let mut bytes = lock(&self.block(output)?.bytes);
            for (i, expected) in expected.iter().enumerate() {
                let at = out.layout.index_of(i as u64) as usize * size;
                encode(expected.value, out.dtype, &mut bytes[at..at + size]);
            }
        }
        Ok(())
    }

    fn launch(&self, _: &Kernel, _: [u32; 3], _: &[Binding]) -> Result<()> {
        let reason = "the reference computes ops, it does not run shaders".to_owned();
        Err(Error::Unsupported { device: self.info.id.clone(), what: "user kernels".to_owned(), reason })
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        #[cfg(not(target_arch = "wasm32"))]
        {
            let start = std::time::Instant::now();
            work()?;
            Ok(Elapsed { ns: start.elapsed().as_nanos() as f64, clock: crate::Clock::Host })
        }
        #[cfg(target_arch = "wasm32")]
        {
            work()?;
            let reason = "there is no clock here".to_owned();
            Err(Error::Unsupported { device: self.info.id.clone(), what: "timing".to_owned(), reason })
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        let limit = self.memory.limit.load(Ordering::Relaxed);
        MemoryStats {
            in_use_bytes: self.memory.in_use.load(Ordering::Relaxed),
            peak_bytes: self.memory.peak.load(Ordering::Relaxed),
            cached_bytes: 0,
            limit_bytes: (limit != u64::MAX).then_some(limit),
            driver_allocations: self.memory.allocations.load(Ordering::Relaxed),
        }
    }

    fn empty_cache(&self) {}

    fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.memory.limit.store(limit_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
