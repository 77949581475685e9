//! The stream of work: many operations into one command encoder, one submission when enough has gathered.
//!
//! One compute pass stays open across operations; wgpu puts the barriers between its dispatches. Parameters of all
//! launches of a recording go into one uniform buffer, uploaded once at submission and bound with dynamic offsets. Since
//! uploads (`queue.write_buffer`) run before the recording that is submitted next, and after everything submitted
//! earlier, one parameter buffer is enough for ever, and bind groups, which refer to it, stay valid from one recording
//! to the next. They are cached by layout and buffers and forgotten when a buffer goes back to the driver.
//!
//! Everything here runs under the one lock round [`Stream`], held for a few microseconds per launch. When and how work is
//! submitted is in `stream/submit.rs`.

mod stamps;
mod submit;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use polywarp_core::{Part, Recorders, Result};

use crate::driver::Kept;
use crate::fault::{Fault, watched};
use crate::memory::{Dead, Raw};
use crate::pipelines::Pipeline;
use crate::tape::{Tape, slot_error};
pub(crate) use stamps::Stamps;

/// Size of the parameter buffer; with 256-byte slots 256 launches go into one submission at most.
const PARAMS_BYTES: u64 = 64 << 10;
/// Cached bind groups at most.
const MOST_GROUPS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Stream {
    queue: wgpu::Queue,
    fault: Arc<Fault>,
    recorders: Arc<Recorders<Tape>>,
    dead: Dead,
    encoder: Option<wgpu::CommandEncoder>,
    /// Open only while `encoder` is there; dropped before anything else is recorded or the encoder is finished.
    pass: Option<wgpu::ComputePass<'static>>,
    params: Vec<u8>,
    params_buffer: wgpu::Buffer,
    params_align: usize,
    groups: HashMap<Box<[u64]>, wgpu::BindGroup>,
    /// What the open pass has set, to set it once.
    set: Set,
    key: Vec<u64>,
    /// Number of the recording; buffers used in it carry this number.
    epoch: u64,
    bound_bytes: u64,
    upload_bytes: u64,
    #[cfg(not(target_arch = "wasm32"))]
    started: Option<std::time::Instant>,
    in_flight: VecDeque<wgpu::SubmissionIndex>,
    submissions: u64,
    /// While the device is profiled.
    stamps: Option<Stamps>,
    // Last: everything else goes before the device.
    device: Kept<wgpu::Device>,
}

#[derive(Debug, Default)]
struct Set {
    pipeline: Option<Arc<Pipeline>>,
    group: Vec<u64>,
    params: Vec<u32>,
    offset: Option<u32>,
}

impl Stream {
    pub(crate) fn new(
        device: Kept<wgpu::Device>,
        queue: wgpu::Queue,
        fault: Arc<Fault>,
        recorders: Arc<Recorders<Tape>>,
    ) -> Stream {
        let params_buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("polywarp parameters"),
            size: PARAMS_BYTES,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let params_align = device.limits().min_uniform_buffer_offset_alignment.max(16) as usize;
        Stream {
            queue,
            fault,
            recorders,
            dead: Dead::default(),
            encoder: None,
            pass: None,
            params: Vec::with_capacity(PARAMS_BYTES as usize),
            params_buffer,
            params_align,
            groups: HashMap::new(),
            set: Set::default(),
            key: Vec::new(),
            epoch: 1,
            bound_bytes: 0,
            upload_bytes: 0,
            #[cfg(not(target_arch = "wasm32"))]
            started: None,
            in_flight: VecDeque::new(),
            submissions: 0,
            stamps: None,
            device,
        }
    }

    /// Where buffers that are given back leave their ids.
    pub(crate) fn dead(&self) -> &Dead {
        &self.dead
    }

    /// Submissions so far.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions
    }

    /// Records one launch of a library kernel. `buffers` stand at bindings 1, 2, ...
    pub(crate) fn launch(
        &mut self,
        pipeline: &Arc<Pipeline>,
        buffers: &[&Arc<Raw>],
        params: &[u32],
        grid: [u32; 3],
    ) -> Result<()> {
        let details = (grid, self.params_align);
        let recorded = self.recorders.with(|tape| tape.launch(pipeline, buffers, params, details));
        if let Some(recorded) = recorded {
            return recorded;
        }
        buffers.iter().try_for_each(|raw| self.usable("launch", raw))?;
        self.submit_when_due()?;
        let offset = self.place_params(params, pipeline.layout.params_bytes as usize)?;
        self.stamp_start(&pipeline.name, grid, Part::current)?;
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.push(pipeline.layout.id);
        for raw in buffers {
            key.push(raw.id);
            self.note_use(raw);
        }
        let same_group = self.pass.is_some() && self.set.group == key;
        if !(same_group && self.set.offset == Some(offset)) {
            if let Err(error) = self.ready_group(&key, pipeline, buffers).and_then(|()| self.open_pass()) {
                // The offset that is set belongs to other parameters than those placed last.
                self.set = Set::default();
                self.key = key;
                return Err(error);
            }
            if let (Some(pass), Some(group)) = (self.pass.as_mut(), self.groups.get(key.as_slice())) {
                pass.set_bind_group(0, group, &[offset]);
            }
            self.set.offset = Some(offset);
            self.set.group.clone_from(&key);
        }
        self.key = key;
        if let Some(pass) = self.pass.as_mut() {
            if !self.set.pipeline.as_ref().is_some_and(|set| Arc::ptr_eq(set, pipeline)) {
                pass.set_pipeline(&pipeline.raw);
                self.set.pipeline = Some(Arc::clone(pipeline));
            }
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
        self.stamp_end()
    }

    /// Records one launch of a user's kernel: its own layouts, bind groups looked up by `keys`.
    pub(crate) fn launch_user(
        &mut self,
        (pipeline, name): (&wgpu::ComputePipeline, &Arc<str>),
        groups: Vec<UserGroup<'_>>,
        grid: [u32; 3],
    ) -> Result<()> {
        let made = groups.iter().map(|group| Ok((group.index, self.user_group(group)?)));
        let made = made.collect::<Result<Vec<(u32, wgpu::BindGroup)>>>()?;
        let buffers = || groups.iter().flat_map(|group| group.buffers.iter().copied());
        let record = |tape: &mut Tape| tape.launch_user((pipeline, name), &made, buffers(), grid);
        if self.recorders.with(record).is_some() {
            return Ok(());
        }
        buffers().try_for_each(|raw| self.usable("launch", raw))?;
        self.submit_when_due()?;
        buffers().for_each(|raw| self.note_use(raw));
        self.stamp_start(name, grid, Part::current)?;
        self.open_pass()?;
        if let Some(pass) = self.pass.as_mut() {
            made.iter().for_each(|(index, group)| pass.set_bind_group(*index, group, &[]));
        }
        self.set = Set::default();
        if let Some(pass) = self.pass.as_mut() {
            pass.set_pipeline(pipeline);
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
        self.stamp_end()
    }

    /// Records with the bare encoder; whatever touches a buffer must also call [`Stream::note_use`].
    pub(crate) fn encode(&mut self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> Result<()> {
        self.close_pass();
        record(self.open_encoder()?);
        Ok(())
    }

    /// Refuses an application's buffer that is destroyed or mapped: recorded, it would take the whole submission with it.
    pub(crate) fn usable(&self, op: &str, raw: &Raw) -> Result<()> {
        // A browser tells of it later, to nobody in particular, with or without this.
        if !raw.foreign || cfg!(target_arch = "wasm32") {
            return Ok(());
        }
        let ((), error) = watched(&self.device, || probe(&self.device, &self.queue, &raw.buffer));
        error.map_or(Ok(()), |error| Err(self.refused(op, &error)))
    }

    /// Marks `raw` as used by the recording.
    pub(crate) fn note_use(&mut self, raw: &Raw) {
        self.mark(raw);
        self.add_bound_bytes(raw.capacity_bytes());
    }

    /// [`Stream::note_use`] in two steps, for replays.
    pub(crate) fn mark(&self, raw: &Raw) {
        raw.epoch.store(self.epoch, Ordering::Relaxed);
    }

    pub(crate) fn add_bound_bytes(&mut self, bytes: u64) {
        self.bound_bytes = self.bound_bytes.saturating_add(bytes);
    }

    /// The number of the recording that the next launch goes into, unless it is due.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The offset of a slot of `slot_bytes` that holds `params`; the previous slot when it holds the same.
    fn place_params(&mut self, params: &[u32], slot_bytes: usize) -> Result<u32> {
        if 4 * params.len() > slot_bytes {
            return Err(slot_error(params.len(), slot_bytes));
        }
        let same_size = self.set.pipeline.as_ref().is_some_and(|set| set.layout.params_bytes as usize == slot_bytes);
        if let (Some(offset), true) = (self.set.offset, same_size && self.set.params == params) {
            return Ok(offset);
        }
        let mut start = self.params.len().next_multiple_of(self.params_align);
        if start + slot_bytes > PARAMS_BYTES as usize {
            self.submit()?;
            start = 0;
        }
        self.params.resize(start, 0);
        for word in params {
            self.params.extend_from_slice(&word.to_le_bytes());
        }
        self.params.resize(start + slot_bytes, 0);
        self.set.params.clear();
        self.set.params.extend_from_slice(params);
        Ok(start as u32)
    }

    /// Sees to it that the bind group of `key` is there.
    fn ready_group(&mut self, key: &[u64], pipeline: &Pipeline, buffers: &[&Arc<Raw>]) -> Result<()> {
        if !self.groups.contains_key(key) {
            let group = self.create_group(pipeline, buffers)?;
            self.remember_group(key, group);
        }
        Ok(())
    }

    fn create_group(&self, pipeline: &Pipeline, buffers: &[&Arc<Raw>]) -> Result<wgpu::BindGroup> {
        let buffers = buffers.iter().map(|raw| &raw.buffer);
        let (group, error) = watched(&self.device, || pipeline.layout.bind(&self.device, &self.params_buffer, buffers));
        match error {
            None => Ok(group),
            Some(error) => Err(self.refused("launch", &error)),
        }
    }

    fn user_group(&mut self, group: &UserGroup<'_>) -> Result<wgpu::BindGroup> {
        if let Some(made) = self.groups.get(group.key.as_slice()) {
            return Ok(made.clone());
        }
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout: group.layout, entries: &group.entries };
        let (made, error) = watched(&self.device, || self.device.create_bind_group(&descriptor));
        if let Some(error) = error {
            return Err(self.refused("launch", &error));
        }
        self.remember_group(&group.key, made.clone());
        Ok(made)
    }

    fn remember_group(&mut self, key: &[u64], group: wgpu::BindGroup) {
        // A program that binds ever new buffers gains nothing from old groups; starting over is cheap and rare.
        if self.groups.len() >= MOST_GROUPS {
            self.groups.clear();
        }
        self.groups.insert(key.into(), group);
    }

    fn open_pass(&mut self) -> Result<()> {
        if self.pass.is_none() {
            self.begin_pass()?;
            self.set.pipeline = None;
            self.set.group.clear();
        }
        Ok(())
    }

    /// The open pass, for a caller that sets everything itself.
    pub(crate) fn bare_pass(&mut self) -> Result<&mut wgpu::ComputePass<'static>> {
        self.set = Set::default();
        self.begin_pass()
    }

    fn begin_pass(&mut self) -> Result<&mut wgpu::ComputePass<'static>> {
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => {
                let encoder = self.open_encoder()?;
                encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()).forget_lifetime()
            }
        };
        Ok(self.pass.insert(pass))
    }

    fn open_encoder(&mut self) -> Result<&mut wgpu::CommandEncoder> {
        let encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => {
                let descriptor = wgpu::CommandEncoderDescriptor { label: None };
                let (encoder, error) = watched(&self.device, || self.device.create_command_encoder(&descriptor));
                if let Some(error) = error {
                    return Err(self.refused("record", &error));
                }
                encoder
            }
        };
        Ok(self.encoder.insert(encoder))
    }

    fn close_pass(&mut self) {
        if self.pass.take().is_some() {
            self.set = Set::default();
        }
    }
}

/// One bind group of a user's launch.
pub(crate) struct UserGroup<'a> {
    pub(crate) index: u32,
    /// The layout's id, then for each entry the buffer's id, offset and size.
    pub(crate) key: Vec<u64>,
    pub(crate) layout: &'a wgpu::BindGroupLayout,
    pub(crate) entries: Vec<wgpu::BindGroupEntry<'a>>,
    pub(crate) buffers: Vec<&'a Arc<Raw>>,
}

/// Touches `buffer` in ways that wgpu refuses at once, to be watched: one that is destroyed, mapped, or of another device would
/// otherwise have a whole submission refused.
pub(crate) fn probe(device: &wgpu::Device, queue: &wgpu::Queue, buffer: &wgpu::Buffer) {
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &[wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: false },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        }],
    });
    // Refused where it is destroyed.
    let entries = [wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }];
    let _ = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries });
    // Refused where it is mapped; writes nothing.
    queue.write_buffer(buffer, 0, &[]);
}
