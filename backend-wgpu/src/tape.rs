//! What one thread records: launches, their bind groups and the memory they use. Making a recording of it, and replaying that, is
//! `recording.rs`'s.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use polywarp_core::pool::{self, TapeMemory};
use polywarp_core::{Error, Part, Result};

use crate::driver::Kept;
use crate::memory::{Memory, Raw};
use crate::pipelines::{GroupLayout, Pipeline};

/// What a [`polywarp_core::Buffer`] of this backend holds.
pub(crate) type Allocation = pool::Allocation<Memory, Tape>;

/// A bind group set before a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) index: u32,
    pub(crate) group: usize,
    /// Where the launch's parameters lie; a user's kernel has none.
    pub(crate) params_at: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) pipeline: usize,
    pub(crate) sets: Range<usize>,
    pub(crate) grid: [u32; 3],
    pub(crate) bound_bytes: u64,
    pub(crate) part: Part,
}

/// A bind group of the recording: a library kernel's is made at the end, when its parameter buffer exists.
#[derive(Debug)]
pub(crate) enum Group {
    Library { layout: Arc<GroupLayout>, buffers: Vec<Arc<Raw>> },
    User(wgpu::BindGroup),
}

/// What one thread has recorded so far.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(crate) dispatches: Vec<Dispatch>,
    pub(crate) sets: Vec<Set>,
    /// With their kernels' names.
    pub(crate) pipelines: Vec<(wgpu::ComputePipeline, Arc<str>)>,
    pub(crate) groups: Vec<Group>,
    known_groups: HashMap<Box<[u64]>, usize>,
    pub(crate) params: Vec<u8>,
    pub(crate) memory: TapeMemory<Memory>,
    // Last: a recording that is never ended may go after its backend, and before the device.
    _gpu: Kept<wgpu::Device>,
}

impl pool::Tape<Memory> for Tape {
    fn memory(&mut self) -> &mut TapeMemory<Memory> {
        &mut self.memory
    }
}

impl Tape {
    pub(crate) fn new(gpu: Kept<wgpu::Device>) -> Tape {
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

    /// Forgets the launches of a call that failed, all but the first `dispatches`.
    pub(crate) fn truncate(&mut self, dispatches: usize) {
        self.dispatches.truncate(dispatches);
        self.sets.truncate(self.dispatches.last().map_or(0, |dispatch| dispatch.sets.end));
    }
}

/// The error of a launch whose parameters are longer than its kernel's.
pub(crate) fn slot_error(words: usize, slot_bytes: usize) -> Error {
    let message = format!("a launch has {words} words of parameters, its kernel {}: a bug of polywarp", slot_bytes / 4);
    Error::Shader { line: 0, column: 0, message }
}
