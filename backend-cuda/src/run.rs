//! Launching: a plan's kernels on a backend's buffers, or into the calling thread's recording.
//!
//! The hot path of every operation. It takes no lock but the pool's (for scratch space) and the table of kernels', and
//! builds a launch's parameters on the stack: the driver copies them. Work of one call may interleave with other
//! threads' on the stream; nothing is shared between calls but buffers, whose order is their users'.

use std::sync::Arc;

use polywarp_core::graph::Place;
use polywarp_core::plan::{Plan, Slot};
use polywarp_core::pool::Lease;
use polywarp_core::{Backend, Buffer, Error, Part, Result};
use polywarp_kernels as native;

use crate::kernels::Kernel;
use crate::native::{Event, EventKind, Memory, Stream};
use crate::params::Bound;
use crate::state::CudaBackend;
use crate::status::code;
use crate::tape::{Allocation, Timed};
use crate::work::{Composed, Single};

/// Most buffers of one launch of the library's own kernels: seven inputs and an output of a fused map, and room.
const MOST_BUFFERS: usize = 16;

impl CudaBackend {
    /// Runs `plan` on buffers of this backend: what [`polywarp_core::Backend::execute`] does with the plan of its op.
    ///
    /// # Errors
    /// As [`polywarp_core::Backend::execute`]; [`Error::InvalidArgument`] for a plan that names a buffer there is not.
    pub fn run_plan(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.fault().check()?;
        let scratch = plan.scratch_bytes.iter().map(|&bytes| self.allocate(bytes)).collect::<Result<Vec<_>>>()?;
        // All kernels exist before the first is enqueued: an op runs whole or not at all.
        let kernels = plan.launches.iter().map(|launch| self.with_room(|| self.kernels.get(&launch.kernel)));
        let kernels = kernels.collect::<Result<Vec<_>>>()?;
        let recorded = self.recorders().with(|tape| tape.len());
        let given = self.give_all(plan, &kernels, (inputs, outputs), &scratch);
        if let (Err(_), Some(len)) = (&given, recorded) {
            self.recorders().with(|tape| tape.truncate(len));
        }
        given
    }

    /// Runs a plan of kernels in CUDA C++ on buffers of this backend.
    ///
    /// # Errors
    /// As [`polywarp_core::Backend::execute`]; [`Error::InvalidArgument`] for a plan that is not sound,
    /// [`Error::Unsupported`] for one whose kernels this card or its driver does not take.
    pub fn run_native(&self, plan: &polywarp_kernels::Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        plan.check(inputs.len()).map_err(bad_plan)?;
        self.run_planned(plan, inputs, outputs)
    }

    /// Runs a plan that a planner of `polywarp_kernels` made: those are sound, which tests see to.
    pub(crate) fn run_planned(
        &self,
        plan: &polywarp_kernels::Plan,
        inputs: &[&Buffer],
        outputs: &[&Buffer],
    ) -> Result<()> {
        self.fault().check()?;
        let outputs = outputs.iter().map(|output| self.own(output)).collect::<Result<Vec<_>>>()?;
        let scratch = plan.scratch_bytes.iter().map(|&bytes| self.allocate(bytes)).collect::<Result<Vec<_>>>()?;
        let inputs = inputs.iter().map(|input| self.own(input)).collect::<Result<Vec<_>>>()?;
        let find = |slot: native::Slot| match slot {
            native::Slot::Input(number) => inputs.get(number).copied(),
            native::Slot::Output(number) => outputs.get(number).copied(),
            native::Slot::Scratch(number) => scratch.get(number),
        };
        // All kernels are loaded and all parameters packed before the first is enqueued: an op runs whole or not at all.
        let launches = plan.launches.iter().map(|launch| {
            let symbol = &launch.kernel.symbol;
            let kernel = self.with_room(|| self.machine.get(launch.kernel))?;
            let missing = || {
                let reason = "there is no code of it that this card and its driver take".to_owned();
                Error::Unsupported { device: self.id().to_owned(), what: format!("`{symbol}`"), reason }
            };
            let kernel = kernel.ok_or_else(missing)?;
            let address = |slot| find(slot).map(|found| found.address());
            let encode = |map: &native::TensorMap, address| crate::native::encode(self.stream.context(), map, address);
            Ok((launch, kernel, launch.pack(address, encode).map_err(bad_plan)?))
        });
        let launches = launches.collect::<Result<Vec<_>>>()?;
        let recorded = self.recorders().with(|tape| tape.len());
        let given = launches.iter().try_for_each(|(launch, kernel, params)| {
            let leases = launch.slots().filter_map(find).map(Allocation::lease);
            // SAFETY: the parameters have the types that the kernel declares: `cargo xtask kernels` compares its catalogue
            // entry with its code, and packing compares the plan with the entry. The addresses are of live buffers, which
            // `polywarp_core::Device` has found large enough for what the op reaches; the planners keep kernels inside,
            // and the harness proves them. A buffer that is dropped before the kernel ran goes to the pool, and its next
            // owner's work comes later on the stream.
            unsafe { self.give(kernel, launch.grid, params.bytes(), leases) }
        });
        if let (Err(_), Some(len)) = (&given, recorded) {
            self.recorders().with(|tape| tape.truncate(len));
        }
        given
    }

    /// Runs, or records, all parts of `composed`: all of them or none.
    pub(crate) fn run_composed(&self, composed: &Composed, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let temps = composed.scratch_bytes()[..composed.temps].iter().map(|&bytes| self.alloc(bytes));
        let temps = temps.collect::<Result<Vec<Buffer>>>()?;
        // All kernels exist before the first part is enqueued.
        self.load_all(composed)?;
        let find = |place: &Place| {
            let found = match *place {
                Place::Input(number) => inputs.get(number).copied(),
                Place::Output(number) => outputs.get(number).copied(),
                Place::Temp(number) => temps.get(number),
            };
            let reason = || format!("it names {place:?}, which there is not");
            found.ok_or_else(|| Error::InvalidArgument { what: "plan", reason: reason() })
        };
        let recorded = self.recorders().with(|tape| tape.len());
        let given = composed.parts.iter().try_for_each(|part| {
            let read = part.inputs.iter().map(find).collect::<Result<Vec<_>>>()?;
            let written = part.outputs.iter().map(find).collect::<Result<Vec<_>>>()?;
            match &part.plan {
                Single::Native(plan) => self.run_planned(plan, &read, &written),
                Single::Portable(plan) => self.run_plan(plan, &read, &written),
            }
        });
        if let (Err(_), Some(len)) = (&given, recorded) {
            self.recorders().with(|tape| tape.truncate(len));
        }
        given
    }

    /// Loads or compiles every kernel of `composed`.
    fn load_all(&self, composed: &Composed) -> Result<()> {
        for plan in composed.natives() {
            self.is_loaded(plan)?;
        }
        let mut launches = composed.portables().flat_map(|plan| &plan.launches);
        launches.try_for_each(|launch| self.with_room(|| self.kernels.get(&launch.kernel)).map(drop))
    }

    /// Whether all kernels of `plan` are loaded, now at the latest.
    pub(crate) fn is_loaded(&self, plan: &polywarp_kernels::Plan) -> Result<bool> {
        for launch in &plan.launches {
            if self.with_room(|| self.machine.get(launch.kernel))?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What `make` makes: where memory is short for the driver's own needs (code, graphs), a second time without what the pool
    /// keeps for later.
    ///
    /// # Errors
    /// As `make`.
    pub(crate) fn with_room<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        match make() {
            Err(Error::OutOfMemory { .. }) => {
                self.pool.drop_cached();
                self.stream.synchronize("waiting for memory")?;
                make()
            }
            made => made,
        }
    }

    fn give_all(
        &self,
        plan: &Plan,
        kernels: &[Arc<Kernel>],
        (inputs, outputs): (&[&Buffer], &[&Buffer]),
        scratch: &[Allocation],
    ) -> Result<()> {
        for (launch, kernel) in plan.launches.iter().zip(kernels) {
            let mut bound = [Bound { group: 0, binding: 0, address: 0, bytes: 0 }; MOST_BUFFERS];
            let mut leases = [const { None }; MOST_BUFFERS];
            let count = launch.bindings.len();
            if count > MOST_BUFFERS {
                return Err(bad_plan(format!("a launch of it binds {count} buffers")));
            }
            for (index, slot) in launch.bindings.iter().enumerate() {
                let found = match *slot {
                    Slot::Input(number) => inputs.get(number).map(|input| self.own(input)).transpose()?,
                    Slot::Output(number) => outputs.get(number).map(|output| self.own(output)).transpose()?,
                    Slot::Scratch(number) => scratch.get(number),
                };
                let Some(found) = found else { return Err(bad_plan(format!("it names {slot:?}, which there is not"))) };
                let (address, bytes) = (found.address(), found.lease().capacity_bytes());
                bound[index] = Bound { group: 0, binding: 1 + index as u32, address, bytes };
                leases[index] = Some(found.lease());
            }
            let params = kernel.metadata.pack(&bound[..count], &launch.params);
            let params = params.map_err(|why| bad_plan(format!("kernel `{}`: {why}", kernel.name)))?;
            // SAFETY: the parameters are the kernel's own, packed for it. The addresses are of live buffers, which
            // `polywarp_core::Device` has found large enough for what the op reaches; the planners keep kernels inside,
            // and the harness proves them. A buffer that is dropped before the kernel ran goes to the pool, and its next
            // owner's work comes later on the stream.
            unsafe { self.give(kernel, launch.grid, params.bytes(), leases[..count].iter().flatten().copied())? };
        }
        Ok(())
    }

    /// Enqueues a launch, or records it when this thread records.
    ///
    /// # Safety
    /// As [`Stream::launch`]; `leases` are all the memory that `params` point to.
    pub(crate) unsafe fn give<'a>(
        &self,
        kernel: &Arc<Kernel>,
        grid: [u32; 3],
        params: &[u8],
        leases: impl Iterator<Item = &'a Arc<Lease<Memory>>>,
    ) -> Result<()> {
        let recorders = self.recorders();
        if recorders.recording() {
            recorders.with(|tape| {
                leases.for_each(|lease| tape.keep(lease));
                tape.launch(kernel, grid, params);
            });
            return Ok(());
        }
        // SAFETY: as the caller promised.
        unsafe { self.enqueue_noted(kernel, grid, params, Part::current) }
    }

    /// Enqueues a launch on the backend's stream, between two events while the device is profiled.
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub(crate) unsafe fn enqueue_noted(
        &self,
        kernel: &Arc<Kernel>,
        grid: [u32; 3],
        params: &[u8],
        part: impl FnOnce() -> Part,
    ) -> Result<()> {
        if !self.profiler.is_on() {
            // SAFETY: as the caller promised.
            return unsafe { self.enqueue(&self.stream, kernel, grid, params) };
        }
        let event = || self.with_room(|| Event::new(self.stream.context(), EventKind::Timing));
        let (start, end) = (event()?, event()?);
        start.record(&self.stream)?;
        // SAFETY: as the caller promised.
        unsafe { self.enqueue(&self.stream, kernel, grid, params)? };
        end.record(&self.stream)?;
        self.profiler.note(Timed { part: part(), kernel: Arc::clone(kernel), grid, start, end });
        Ok(())
    }

    /// Enqueues a launch on `stream`.
    ///
    /// # Safety
    /// As [`Stream::launch`].
    pub(crate) unsafe fn enqueue(&self, stream: &Stream, kernel: &Kernel, grid: [u32; 3], params: &[u8]) -> Result<()> {
        let metadata = &kernel.metadata;
        let (block, shared) = (metadata.block, metadata.dynamic_shared_bytes);
        // SAFETY: as the caller promised.
        let launch =
            || unsafe { stream.launch(&kernel.function, grid, block, shared, params, &kernel.offsets, kernel.start) };
        let mut status = launch()?;
        if status == code::OUT_OF_MEMORY {
            // The driver loads code and makes room for local memory at the first launch.
            self.pool.drop_cached();
            self.stream.synchronize("waiting for memory")?;
            status = launch()?;
        }
        match status {
            code::SUCCESS => Ok(()),
            failed => Err(self.stream.context().error(&format!("launching `{}`", kernel.name), failed)),
        }
    }
}

fn bad_plan(reason: String) -> Error {
    Error::InvalidArgument { what: "plan", reason }
}
