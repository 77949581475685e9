//! Whether the driver ends loops: a small kernel that counts its rounds, run once for each adapter of a process.
//!
//! Mesa's software drivers leave a shader's loops after 65,535 rounds, nested ones counted together, and go on with what there is by
//! then: sums come out too small, without a word. No API says so. Planners keep loops shorter where this finds a limit
//! ([`Caps::max_loop_rounds`](polywarp_core::plan::Caps::max_loop_rounds)), and users' kernels are looked at (`user.rs`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::wait::{Awaited, map};

/// Rounds that are tried: some more than the only limit that is known.
const ROUNDS: u32 = 70_000;
/// Taken for the limit where the device did not answer.
pub(crate) const ASSUMED: u32 = 65_535;
/// No compiler finds the end of this sequence without its rounds.
const COUNT_WGSL: &str = "
@group(0) @binding(0) var<storage, read_write> data: array<u32>; // rounds and seed; rounds made and the last value
@compute @workgroup_size(1)
fn main() {
    let rounds = data[0];
    var x = data[1];
    var made = 0u;
    for (var i = 0u; i < rounds; i++) {
        x ^= x << 13u;
        x ^= x >> 17u;
        x ^= x << 5u;
        made += select(0u, 1u, x != 0u);
    }
    data[0] = made;
    data[1] = x;
}
";
const SEED: u32 = 2_463_534_242;

/// Adapters by all that tells them and their drivers apart.
type Known = HashMap<(String, String, String, u8, u32, u32), Option<u32>>;

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// The rounds after which the driver of `device` ends loops; `None` where it lets them run.
pub(crate) async fn max_rounds(device: &wgpu::Device, queue: &wgpu::Queue, adapter: &wgpu::AdapterInfo) -> Option<u32> {
    let key = (
        adapter.name.clone(),
        adapter.driver.clone(),
        adapter.driver_info.clone(),
        adapter.backend as u8,
        adapter.vendor,
        adapter.device,
    );
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&found) = known().get_or_insert_default().get(&key) {
        return found;
    }
    // What a lost device did not say is asked again of the next one.
    let Some((made, last)) = count(device, queue).await else { return Some(ASSUMED) };
    let whole = (made, last) == (ROUNDS, last_value(ROUNDS));
    // A limit that does not fit what was counted is none that planners could keep.
    let found = if whole { None } else { Some(if last == last_value(made) { made } else { ASSUMED.min(made) }) };
    known().get_or_insert_default().insert(key, found);
    if let Some(limit) = found {
        log::debug!("{} ends loops after {limit} rounds", adapter.name);
    }
    found
}

/// What the kernel leaves after so many rounds.
fn last_value(rounds: u32) -> u32 {
    let mut x = SEED;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    x
}

/// The rounds that the kernel made and its last value; `None` where the device failed.
async fn count(device: &wgpu::Device, queue: &wgpu::Queue) -> Option<(u32, u32)> {
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false })
    };
    let data = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST);
    let staging = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let words: Vec<u8> = [ROUNDS, SEED, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    queue.write_buffer(&data, 0, &words);
    let source = wgpu::ShaderSource::Wgsl(COUNT_WGSL.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some("count rounds"), source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("count rounds"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let entry = wgpu::BindGroupEntry { binding: 0, resource: data.as_entire_binding() };
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[entry],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes: None });
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&data, 0, &staging, 0, 16);
    let index = queue.submit([encoder.finish()]);
    let mapped = map(&staging);
    #[cfg(not(target_arch = "wasm32"))]
    {
        let patience = Some(std::time::Duration::from_secs(10));
        let waiting = wgpu::PollType::Wait { submission_index: Some(index), timeout: patience };
        crate::fault::unpanicked(|| device.poll(waiting))?.ok()?;
    }
    #[cfg(target_arch = "wasm32")]
    let _ = index;
    Awaited(mapped).await.ok()?;
    let view = staging.get_mapped_range(..).ok()?;
    let word = |at: usize| Some(u32::from_le_bytes(view.get(at..at + 4)?.try_into().ok()?));
    Some((word(0)?, word(4)?))
}
