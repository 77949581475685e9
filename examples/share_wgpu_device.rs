//! polywarp on an application's own wgpu device: buffers pass in both directions without a copy.
//!
//! A renderer or a simulation already has a device, a queue and buffers. Here it fills a buffer with a shader of its
//! own; polywarp computes on that memory; the application reads the result through a `wgpu::Buffer` handle. One queue
//! orders all of this work. Run: `cargo run --example share_wgpu_device`.

use polywarp::wgpu::{WgpuBackend, wgpu};
use polywarp::{DType, Device, Layout, Shape, Tensor};

/// The application's own shader: particle i of a row stands at height i + row / 4.
const SIMULATION: &str = "
    @group(0) @binding(0) var<storage, read_write> heights: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&heights) { heights[id.x] = f32(id.x % 64u) + f32(id.x / 64u) * 0.25; }
    }";
const ROWS: u64 = 4;
const COLUMNS: u64 = 64;
const BYTES: u64 = ROWS * COLUMNS * 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The application's part: a device, a queue, a buffer with the usages polywarp needs, and work on it.
    let (gpu, queue) = pollster::block_on(own_device())?;
    let heights = gpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("heights"),
        size: BYTES,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    simulate(&gpu, &queue, &heights);

    // polywarp's part, on the same device and queue: row means of the application's memory, then softmax.
    let device = Device::new(WgpuBackend::from_wgpu(gpu.clone(), queue.clone(), "shared", None)?);
    let backend = device.backend_as::<WgpuBackend>().ok_or("the device was made from this backend")?;
    let layout = Layout::contiguous(Shape::new(&[ROWS, COLUMNS])?);
    let tensor = Tensor::from_buffer(&device, backend.wrap(heights.clone())?, DType::F32, layout)?;
    let weights = tensor.mean(1)?.softmax(0)?;

    // The result as a wgpu::Buffer, for a shader, a vertex buffer or, as here, a copy by the application.
    let handle = backend.buffer_handle(weights.buffer())?;
    let read: Vec<f32> = read_by_application(&gpu, &queue, &handle)?;
    println!("on {}: weights {read:?}", device.info().name);
    assert_eq!(read, weights.to_vec::<f32>()?);

    // Row means are 31.5, 31.75, 32, 32.25; softmax of them, in double precision.
    let exponentials = [0.0f64, 0.25, 0.5, 0.75].map(f64::exp);
    let sum: f64 = exponentials.iter().sum();
    for (got, exponential) in read.iter().zip(exponentials) {
        assert!((f64::from(*got) - exponential / sum).abs() < 1e-5, "{got} is not {}", exponential / sum);
    }

    // Both share one memory: the tensor shows values that the application writes.
    queue.write_buffer(&heights, 0, &7.0f32.to_le_bytes());
    queue.submit([]);
    assert_eq!(tensor.to_vec::<f32>()?[0], 7.0);

    // And in the other direction: the application's buffer shows values that polywarp assigns.
    tensor.assign(&Tensor::full(&device, DType::F32, [1], -1.0)?)?;
    device.backend().flush()?;
    assert_eq!(read_by_application(&gpu, &queue, &heights)?, [-1.0; ROWS as usize]);
    Ok(())
}

/// The start of any wgpu application; polywarp needs no more than the default limits and no feature.
async fn own_device() -> Result<(wgpu::Device, wgpu::Queue), Box<dyn std::error::Error>> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await?;
    let limits = wgpu::Limits::default().or_worse_values_from(&adapter.limits());
    let descriptor = wgpu::DeviceDescriptor { required_limits: limits, ..wgpu::DeviceDescriptor::default() };
    Ok(adapter.request_device(&descriptor).await?)
}

fn simulate(gpu: &wgpu::Device, queue: &wgpu::Queue, heights: &wgpu::Buffer) {
    let module = gpu.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("simulation"),
        source: wgpu::ShaderSource::Wgsl(SIMULATION.into()),
    });
    let pipeline = gpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("simulation"),
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = gpu.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: heights.as_entire_binding() }],
    });
    let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups((ROWS * COLUMNS).div_ceil(64) as u32, 1, 1);
    drop(pass);
    queue.submit([encoder.finish()]);
}

/// The first ROWS numbers of `buffer`, copied out by the application's own commands.
fn read_by_application(
    gpu: &wgpu::Device,
    queue: &wgpu::Queue,
    buffer: &wgpu::Buffer,
) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let staging = gpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("staging"),
        size: ROWS * 4,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, ROWS * 4);
    queue.submit([encoder.finish()]);
    let (sender, receiver) = std::sync::mpsc::channel();
    staging.map_async(wgpu::MapMode::Read, .., move |outcome| drop(sender.send(outcome)));
    gpu.poll(wgpu::PollType::wait_indefinitely())?;
    receiver.recv()??;
    let words = staging.get_mapped_range(..)?;
    Ok(words.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}
