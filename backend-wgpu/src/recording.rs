//! Recording and replaying: launches of one thread, with everything wgpu needs made beforehand.
//!
//! wgpu cannot submit a command buffer twice, so a replay encodes its dispatches again: pipelines, bind groups and
//! offsets are there, the parameters lie in a buffer of their own, and nothing is planned, looked up or allocated. The
//! recording holds every buffer it uses ([`TapeMemory`]), so that the pool lends none of them to anybody else.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use polywarp_core::pool::{self, Pool, TapeMemory};
use polywarp_core::{Backend, Buffer, Part, Recorded, Result, foreign_recording};

use crate::device::WgpuBackend;
use crate::driver::Kept;
use crate::fault::{lock, watched};
use crate::memory::{Memory, Raw};
use crate::pipelines::{GroupLayout, Pipeline};
use crate::stream::{Stream, slot_error};

/// A bind group set before a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    index: u32,
    group: usize,
    /// Where the launch's parameters lie; a user's kernel has none.
    params_at: Option<u32>,
}

#[derive(Debug)]
struct Dispatch {
    pipeline: usize,
    sets: Range<usize>,
    grid: [u32; 3],
    bound_bytes: u64,
    part: Part,
}

/// A bind group of the recording: a library kernel's is made at the end, when its parameter buffer exists.
#[derive(Debug)]
enum Group {
    Library { layout: Arc<GroupLayout>, buffers: Vec<Arc<Raw>> },
    User(wgpu::BindGroup),
}

/// What one thread has recorded so far.
#[derive(Debug)]
pub(crate) struct Tape {
    dispatches: Vec<Dispatch>,
    sets: Vec<Set>,
    /// With their kernels' names.
    pipelines: Vec<(wgpu::ComputePipeline, Arc<str>)>,
    groups: Vec<Group>,
    known_groups: HashMap<Box<[u64]>, usize>,
    params: Vec<u8>,
    memory: TapeMemory<Memory>,
    // Last: a recording that is never ended may go after its backend, and before the device.
    _gpu: Kept<wgpu::Device>,
}

impl pool::Tape<Memory> for Tape {
    fn memory(&mut self) -> &mut TapeMemory<Memory> {
        &mut self.memory
    }
}

impl Tape {
    fn new(gpu: Kept<wgpu::Device>) -> Tape {
        Tape {
            dispatches: Vec::new(),
            sets: Vec::new(),
            pipelines: Vec::new(),
            groups: Vec::new(),
            known_groups: HashMap::new(),
            params: Vec::new(),
            memory: TapeMemory::default(),
            _gpu: gpu,
        }
    }

    /// Records a launch of a library kernel.
    pub(crate) fn launch(
        &mut self,
        pipeline: &Pipeline,
        buffers: &[&Arc<Raw>],
        params: &[u32],
        (grid, params_align): ([u32; 3], usize),
    ) -> Result<()> {
        let layout = &pipeline.layout;
        let slot_bytes = layout.params_bytes as usize;
        if 4 * params.len() > slot_bytes {
            return Err(slot_error(params.len(), slot_bytes));
        }
        let params_at = self.params.len().next_multiple_of(params_align);
        self.params.resize(params_at, 0);
        self.params.extend(params.iter().flat_map(|word| word.to_le_bytes()));
        self.params.resize(params_at + slot_bytes, 0);
        let key: Box<[u64]> = std::iter::once(layout.id).chain(buffers.iter().map(|raw| raw.id)).collect();
        let next = self.groups.len();
        let group = *self.known_groups.entry(key).or_insert(next);
        if group == next {
            let buffers = buffers.iter().copied().cloned().collect();
            self.groups.push(Group::Library { layout: Arc::clone(layout), buffers });
        }
        let sets = [Set { index: 0, group, params_at: Some(params_at as u32) }];
        self.push((&pipeline.raw, &pipeline.name), sets, buffers.iter().copied(), grid);
        Ok(())
    }

    /// Records a launch of a user's kernel with its bind groups.
    pub(crate) fn launch_user<'a>(
        &mut self,
        pipeline: (&wgpu::ComputePipeline, &Arc<str>),
        groups: &[(u32, wgpu::BindGroup)],
        buffers: impl Iterator<Item = &'a Arc<Raw>>,
        grid: [u32; 3],
    ) {
        let first = self.groups.len();
        let sets: Vec<Set> = groups
            .iter()
            .enumerate()
            .map(|(nth, (index, _))| Set { index: *index, group: first + nth, params_at: None })
            .collect();
        self.groups.extend(groups.iter().map(|(_, group)| Group::User(group.clone())));
        self.push(pipeline, sets, buffers, grid);
    }

    fn push<'a>(
        &mut self,
        (pipeline, name): (&wgpu::ComputePipeline, &Arc<str>),
        sets: impl IntoIterator<Item = Set>,
        buffers: impl Iterator<Item = &'a Arc<Raw>>,
        grid: [u32; 3],
    ) {
        let mut bound_bytes = 0u64;
        for raw in buffers {
            bound_bytes = bound_bytes.saturating_add(raw.capacity_bytes());
            self.memory.keep(raw);
        }
        let known = self.pipelines.iter().rposition(|(known, _)| known == pipeline);
        let pipeline = known.unwrap_or_else(|| {
            self.pipelines.push((pipeline.clone(), Arc::clone(name)));
            self.pipelines.len() - 1
        });
        let start = self.sets.len();
        self.sets.extend(sets);
        self.dispatches.push(Dispatch {
            pipeline,
            sets: start..self.sets.len(),
            grid,
            bound_bytes,
            part: Part::current(),
        });
    }

    fn truncate(&mut self, dispatches: usize) {
        self.dispatches.truncate(dispatches);
        self.sets.truncate(self.dispatches.last().map_or(0, |dispatch| dispatch.sets.end));
    }
}

/// A finished recording.
#[derive(Debug)]
struct Launches {
    dispatches: Vec<Dispatch>,
    sets: Vec<Set>,
    /// With their kernels' names.
    pipelines: Vec<(wgpu::ComputePipeline, Arc<str>)>,
    groups: Vec<wgpu::BindGroup>,
    pool: Arc<Pool<Memory>>,
    held: Vec<Arc<Raw>>,
    /// The parameters of all launches, uploaded once.
    params: Option<Buffer>,
}

impl WgpuBackend {
    pub(crate) fn start_tape(&self) -> Result<()> {
        self.fault.check()?;
        self.recorders.begin(self.id(), Tape::new(self.gpu.clone()))
    }

    pub(crate) fn finish_tape(&self) -> Result<Recorded> {
        let tape = self.recorders.end(self.id())?;
        self.fault.check()?;
        let Tape { dispatches, sets, pipelines, groups, params, memory, .. } = tape;
        let held = memory.into_kept();
        let uploaded = if params.is_empty() { None } else { Some(self.alloc(params.len() as u64)?) };
        let params_raw = uploaded.as_ref().map(|buffer| self.own(buffer)).transpose()?;
        if let Some(raw) = params_raw {
            lock(&self.stream).upload(raw, 0, &params, || self.pool.stats())?;
        }
        let (groups, error) = watched(&self.gpu, || {
            let groups = groups.into_iter().map(|group| match (group, params_raw) {
                (Group::User(group), _) => Some(group),
                (Group::Library { layout, buffers }, Some(params)) => {
                    let buffers = buffers.iter().map(|raw| &raw.buffer);
                    Some(layout.bind(&self.gpu, &params.buffer, buffers))
                }
                // A library launch always has parameters, if only padding.
                (Group::Library { .. }, None) => None,
            });
            groups.collect::<Option<Vec<_>>>().unwrap_or_default()
        });
        if let Some(error) = error {
            return Err(self.fault.backend_error("end_recording", &error));
        }
        let pool = Arc::clone(&self.pool);
        let launches = Launches { dispatches, sets, pipelines, groups, pool, held, params: uploaded };
        Ok(Recorded::new(launches.dispatches.len(), launches))
    }

    pub(crate) fn replay_tape(&self, recorded: &Recorded) -> Result<()> {
        self.fault.check()?;
        self.recorders.refuse_replay(self.id())?;
        let launches = recorded.downcast::<Launches>().filter(|launches| Arc::ptr_eq(&launches.pool, &self.pool));
        let launches = launches.ok_or_else(|| foreign_recording(self.id()))?;
        let params = launches.params.as_ref().map(|buffer| self.own(buffer)).transpose()?;
        lock(&self.stream).replay(launches, params)
    }

    /// Runs `work`; when it fails, what it recorded is taken back.
    pub(crate) fn whole_or_not<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.recorders.with(|tape| tape.dispatches.len());
        let result = work();
        if let (Some(before), Err(_)) = (before, &result) {
            self.recorders.with(|tape| tape.truncate(before));
        }
        result
    }
}

impl Stream {
    /// Encodes `launches` again, into one pass unless it is long enough for several submissions.
    fn replay(&mut self, launches: &Launches, params: Option<&Arc<Raw>>) -> Result<()> {
        let raws = || launches.held.iter().chain(params);
        raws().try_for_each(|raw| self.usable("replay", raw))?;
        let mut fresh = true;
        let mut pipeline_set = usize::MAX;
        let mut group_set: Option<Set> = None;
        let (mut part_of, mut part) = (0, Part::default());
        for dispatch in &launches.dispatches {
            let epoch = self.epoch();
            self.submit_when_due()?;
            if fresh || epoch != self.epoch() {
                // Marked anew in every submission: writes from the host must come after it.
                raws().for_each(|raw| self.mark(raw));
                (fresh, pipeline_set, group_set) = (false, usize::MAX, None);
            }
            self.add_bound_bytes(dispatch.bound_bytes);
            let (pipeline, name) = &launches.pipelines[dispatch.pipeline];
            if self.is_profiled() {
                if dispatch.part.number != part_of {
                    (part_of, part) = (dispatch.part.number, dispatch.part.again());
                }
                self.stamp_start(name, dispatch.grid, || part)?;
                (pipeline_set, group_set) = (usize::MAX, None);
            }
            let pass = self.bare_pass()?;
            if pipeline_set != dispatch.pipeline {
                pass.set_pipeline(pipeline);
                pipeline_set = dispatch.pipeline;
            }
            for set in &launches.sets[dispatch.sets.clone()] {
                if group_set != Some(*set) {
                    pass.set_bind_group(set.index, &launches.groups[set.group], set.params_at.as_slice());
                }
                group_set = set.params_at.is_some().then_some(*set);
            }
            let [x, y, z] = dispatch.grid;
            pass.dispatch_workgroups(x, y, z);
            self.stamp_end()?;
        }
        Ok(())
    }
}
