//! A device that is this library's kernels, compiled to PTX, on an interpreter: no GPU, every access checked.
//!
//! It does what a CUDA backend does with a plan: WGSL through naga-ptx with the same options, parameters packed by the
//! compiler's description, launches in order. Buffers that a launch only reads are write-protected while it runs.

pub mod cooperative;

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use naga::valid::Capabilities;
use naga_ptx::{EntryPoint, Options, ParamKind, Target};
use polywarp_core::ops::{candidates, plan};
use polywarp_core::oracle::Subnormals;
use polywarp_core::plan::{Caps, Cooperative, KernelKey, Plan, Slot};
use polywarp_core::{
    Backend, Binding, Buffer, Clock, DType, DeviceInfo, DeviceKind, Elapsed, Error, Kernel, Limits, MemoryStats, Op,
    ReadFuture, Result, foreign_buffer,
};
use polywarp_shaders::wgsl::{guarded, parse_and_validate};
use ptx_interpreter::{FaultKind, Launch, Memory, Module, RunOptions, Stats, run};

const ID: &str = "ptx:0";

/// What our kernels use, as the CUDA backend allows it.
const CAPABILITIES: Capabilities = Capabilities::FLOAT64
    .union(Capabilities::SHADER_FLOAT16)
    .union(Capabilities::SHADER_FLOAT16_IN_FLOAT32)
    .union(Capabilities::SHADER_INT64)
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::COOPERATIVE_MATRIX)
    .union(Capabilities::SUBGROUP_BARRIER);

struct Compiled {
    name: String,
    module: Module,
    entry: EntryPoint,
}

#[derive(Debug, Default)]
struct Pool {
    memory: Memory,
    stats: MemoryStats,
}

#[derive(Debug)]
struct Block {
    address: u64,
    bytes: u64,
    pool: Arc<Mutex<Pool>>,
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut pool = lock(&self.pool);
        pool.memory.free(self.address);
        pool.stats.in_use_bytes -= self.bytes;
    }
}

/// The device.
pub struct Interpreted {
    info: DeviceInfo,
    /// What planners are told.
    pub caps: Caps,
    /// Ops are computed by the first of their candidates whose name contains this, where there is one.
    pub prefer: String,
    target: Target,
    options: RunOptions,
    /// What is done to a kernel's PTX before it is run: to break it.
    pub change_text: fn(String) -> String,
    /// What is done to a kernel's WGSL before it is compiled.
    pub change_wgsl: fn(String) -> String,
    /// What of that WGSL is something else instead.
    pub change_part: Option<(&'static str, &'static str)>,
    changed: Mutex<usize>,
    pool: Arc<Mutex<Pool>>,
    kernels: Mutex<HashMap<KernelKey, Arc<Compiled>>>,
    work: Mutex<Stats>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(message: impl std::fmt::Display) -> Error {
    Error::Backend { device: ID.to_owned(), op: "running a plan".to_owned(), message: message.to_string() }
}

impl Interpreted {
    /// Kernels compiled for `target`, run with `options`.
    pub fn new(target: Target, options: RunOptions) -> Interpreted {
        let caps = Caps {
            f16: true,
            f64: true,
            i64: true,
            nearest_conversions: true,
            subgroups: Some((32, 32)),
            max_invocations: 1024,
            max_workgroup_bytes: 48 << 10,
            max_workgroups: [65_535; 3],
            max_storage_buffers: 128,
            cooperative: Cooperative::TENSOR_CORES.to_vec(),
            ..Caps::webgpu_defaults(ID)
        };
        let limits = Limits {
            max_buffer_bytes: 1 << 32,
            max_binding_bytes: 1 << 32,
            max_workgroups: caps.max_workgroups,
            max_invocations_per_workgroup: caps.max_invocations,
            max_workgroup_bytes: caps.max_workgroup_bytes,
        };
        let info = DeviceInfo {
            id: ID.to_owned(),
            name: format!("PTX interpreter, {target}"),
            api: "ptx".to_owned(),
            kind: DeviceKind::Software,
            driver: "ptx-interpreter".to_owned(),
            pci_bus: None,
            memory_bytes: None,
            threads: None,
            limits,
            dtypes: DType::ALL.to_vec(),
            features: Vec::new(),
            subnormals: Subnormals::MayFlush,
        };
        Interpreted {
            info,
            caps,
            prefer: String::new(),
            target,
            options,
            change_text: |text| text,
            change_wgsl: |text| text,
            change_part: None,
            changed: Mutex::default(),
            pool: Arc::default(),
            kernels: Mutex::default(),
            work: Mutex::default(),
        }
    }

    fn block<'a>(&self, buffer: &'a Buffer) -> Result<&'a Block> {
        let block = buffer.downcast::<Block>().filter(|block| Arc::ptr_eq(&block.pool, &self.pool));
        block.ok_or_else(|| foreign_buffer(ID))
    }

    fn kernel(&self, key: &KernelKey) -> Result<Arc<Compiled>> {
        if let Some(kernel) = lock(&self.kernels).get(key) {
            return Ok(Arc::clone(kernel));
        }
        let mut source = key.source();
        source.wgsl = (self.change_wgsl)(source.wgsl);
        if let Some((part, instead)) = self.change_part {
            *lock(&self.changed) += source.wgsl.matches(part).count();
            source.wgsl = source.wgsl.replace(part, instead);
        }
        let (module, info) = parse_and_validate(&source.wgsl, CAPABILITIES)?;
        let options = Options { entry_point: Some("main".to_owned()), ..Options::trusted(self.target) };
        let ptx = guarded(|| Ok(naga_ptx::compile(&module, &info, &options)))?;
        let ptx = ptx.map_err(|error| failed(format!("{}: {error}\n{}", source.name, source.wgsl)))?;
        let text = (self.change_text)(ptx.text);
        let parsed = Module::parse(&text);
        let module = parsed.map_err(|error| failed(format!("{}: {error}\n{text}", source.name)))?;
        let entry = ptx.entry_points.into_iter().next().ok_or_else(|| failed("no entry point"))?;
        let compiled = Arc::new(Compiled { name: source.name, module, entry });
        lock(&self.kernels).insert(key.clone(), Arc::clone(&compiled));
        Ok(compiled)
    }

    fn plan(&self, op: &Op) -> Result<Plan> {
        if self.prefer.is_empty() {
            return plan(op, &self.caps);
        }
        let list = candidates(op, &self.caps)?;
        let wanted = list.iter().position(|candidate| candidate.name.contains(&self.prefer)).unwrap_or(0);
        list.into_iter().nth(wanted).map(|candidate| candidate.plan).ok_or_else(|| failed("no candidate"))
    }

    /// Kernels compiled so far.
    pub fn compiled(&self) -> usize {
        lock(&self.kernels).len()
    }

    /// How often a part of a kernel was changed.
    pub fn changed(&self) -> usize {
        *lock(&self.changed)
    }

    /// Names of the kernels compiled so far.
    pub fn names(&self) -> Vec<String> {
        lock(&self.kernels).values().map(|kernel| kernel.name.clone()).collect()
    }

    /// Work done so far.
    pub fn work(&self) -> Stats {
        *lock(&self.work)
    }
}

/// The parameter block of a launch: `buffers` at bindings 1, 2, ..., the words of the uniform at 0.
fn pack(entry: &EntryPoint, bytes: usize, buffers: &[&Block], words: &[u32]) -> Result<Vec<u8>> {
    let mut block = vec![0; bytes];
    for param in &entry.params {
        let bound = |group: u32, binding: u32| {
            let found = (group == 0).then(|| buffers.get((binding as usize).wrapping_sub(1))).flatten();
            found.ok_or_else(|| failed(format!("nothing is bound at {group}.{binding}")))
        };
        let value = match param.kind {
            ParamKind::Buffer { group, binding, .. } => bound(group, binding)?.address.to_le_bytes().to_vec(),
            ParamKind::BufferBytes { group, binding } => bound(group, binding)?.bytes.to_le_bytes().to_vec(),
            ParamKind::Uniform { size_bytes, .. } => {
                let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                value.resize(size_bytes as usize, 0);
                value
            }
            ParamKind::Immediates { .. } => return Err(failed("immediates")),
        };
        let at = param.offset_bytes as usize;
        block[at..at + value.len()].copy_from_slice(&value);
    }
    Ok(block)
}

impl Backend for Interpreted {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        let max = self.info.limits.max_buffer_bytes;
        if size_bytes > max {
            return Err(Error::BufferTooBig { device: ID.to_owned(), requested: size_bytes, max });
        }
        // Whole vectors of four words, as backends allocate: the last load of a kernel stays inside.
        let bytes = size_bytes.next_multiple_of(16);
        let mut pool = lock(&self.pool);
        // Nothing may rely on what was there before: reading it is a fault.
        let address = pool.memory.alloc_unwritten(bytes as usize, 0xFF);
        pool.stats.in_use_bytes += bytes;
        pool.stats.peak_bytes = pool.stats.peak_bytes.max(pool.stats.in_use_bytes);
        pool.stats.driver_allocations += 1;
        let block = Block { address, bytes, pool: Arc::clone(&self.pool) };
        Ok(Buffer::new(size_bytes, Arc::new(block)))
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        let block = self.block(buffer)?;
        lock(&self.pool).memory.write(block.address + offset_bytes, data).map_err(failed)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let bytes = self.read_blocking(buffer, range);
        Box::pin(async move { bytes })
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let block = self.block(buffer)?;
        let pool = lock(&self.pool);
        let bytes = pool.memory.read(block.address + range.start, (range.end - range.start) as usize);
        bytes.map(<[u8]>::to_vec).map_err(failed)
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let plan = self.plan(op)?;
        let scratch = plan.scratch_bytes.iter().map(|&bytes| self.alloc(bytes)).collect::<Result<Vec<_>>>()?;
        for launch in &plan.launches {
            let kernel = self.kernel(&launch.kernel)?;
            let buffer = |slot: &Slot| match *slot {
                Slot::Input(index) => self.block(inputs[index]),
                Slot::Output(index) => self.block(outputs[index]),
                Slot::Scratch(index) => self.block(&scratch[index]),
            };
            let buffers = launch.bindings.iter().map(buffer).collect::<Result<Vec<_>>>()?;
            let function = kernel.module.kernel(&kernel.entry.symbol).ok_or_else(|| failed("no such symbol"))?;
            let request = Launch {
                grid: launch.grid,
                block: kernel.entry.workgroup_size,
                params: pack(&kernel.entry, function.param_bytes() as usize, &buffers, &launch.params)?,
                dynamic_shared_bytes: kernel.entry.dynamic_shared_bytes,
            };
            let mut pool = lock(&self.pool);
            let read_only: Vec<u64> = launch
                .bindings
                .iter()
                .zip(&buffers)
                .filter(|(slot, _)| matches!(slot, Slot::Input(_)))
                .map(|(_, block)| block.address)
                .collect();
            read_only.iter().for_each(|&address| {
                pool.memory.set_read_only(address, true);
            });
            let outcome = run(function, &mut pool.memory, &request, &self.options);
            read_only.iter().for_each(|&address| {
                pool.memory.set_read_only(address, false);
            });
            let stats = outcome.map_err(|fault| {
                let hint = if let FaultKind::Race { .. } = fault.kind { " (race)" } else { "" };
                failed(format!("kernel {}{hint}: {fault}", kernel.name))
            })?;
            let mut work = lock(&self.work);
            work.thread_instructions += stats.thread_instructions;
            work.warp_instructions += stats.warp_instructions;
            work.divergent_branches += stats.divergent_branches;
            work.barriers += stats.barriers;
        }
        Ok(())
    }

    fn launch(&self, _: &Kernel, _: [u32; 3], _: &[Binding]) -> Result<()> {
        Err(self.caps.unsupported("user kernels", "the interpreter runs ops"))
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        let start = std::time::Instant::now();
        work()?;
        Ok(Elapsed { ns: start.elapsed().as_nanos() as f64, clock: Clock::Host })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        lock(&self.pool).stats
    }

    fn empty_cache(&self) {}

    fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        lock(&self.pool).stats.limit_bytes = limit_bytes;
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl std::fmt::Debug for Interpreted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interpreted({})", self.info.name)
    }
}
