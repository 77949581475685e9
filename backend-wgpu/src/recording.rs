//! Recording and replaying: launches of one thread, with everything wgpu needs made beforehand.
//!
//! wgpu cannot submit a command buffer twice, so a replay encodes its dispatches again: pipelines, bind groups and
//! offsets are there, the parameters lie in a buffer of their own, and nothing is planned, looked up or allocated. The
//! recording holds every buffer it uses ([`TapeMemory`](polywarp_core::pool::TapeMemory)), so that the pool lends none of them to anybody else.

use std::sync::Arc;

use polywarp_core::pool::Pool;
use polywarp_core::{Backend, Buffer, Part, Recorded, Result, foreign_recording};

use crate::fault::{lock, watched};
use crate::memory::{Memory, Raw};
use crate::state::WgpuBackend;
use crate::stream::Stream;
use crate::tape::{Dispatch, Group, Set, Tape};

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
