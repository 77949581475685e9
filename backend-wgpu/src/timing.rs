//! How long work takes: by the device's own timestamps where it has them, else by the host's clock.

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::time::Instant;

    use polywarp_core::{Backend, Clock, Elapsed, Result};

    use crate::device::WgpuBackend;
    use crate::fault::{lock, watched, words};
    use crate::transfer::{Awaited, map, wait};

    impl WgpuBackend {
        pub(crate) fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
            // Earlier work must not count, and must not be waited for inside the interval either.
            self.synchronize()?;
            let stamps = self.start_stamps()?;
            let host = Instant::now();
            work()?;
            let device_ns = match stamps {
                Some(queries) => self.finish_stamps(&queries)?,
                None => None,
            };
            if let Some(ns) = device_ns {
                return Ok(Elapsed { ns, clock: Clock::Device });
            }
            self.synchronize()?;
            Ok(Elapsed { ns: host.elapsed().as_nanos() as f64, clock: Clock::Host })
        }

        /// Records the first timestamp. Written outside of passes: the interval then covers copies and every pass.
        fn start_stamps(&self) -> Result<Option<wgpu::QuerySet>> {
            let needed = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
            if !self.gpu.features().contains(needed) || self.queue.get_timestamp_period() <= 0.0 {
                return Ok(None);
            }
            let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count: 2 };
            let (queries, error) = watched(&self.gpu, || self.gpu.create_query_set(&descriptor));
            if error.is_some() {
                return Ok(None);
            }
            lock(&self.stream).encode(|encoder| encoder.write_timestamp(&queries, 0))?;
            Ok(Some(queries))
        }

        /// The nanoseconds between both timestamps; `None` when the device wrote nonsense.
        fn finish_stamps(&self, queries: &wgpu::QuerySet) -> Result<Option<f64>> {
            let buffer = |usage| wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false };
            let resolve = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
            let staging = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
            let ((resolve, staging), error) =
                watched(&self.gpu, || (self.gpu.create_buffer(&resolve), self.gpu.create_buffer(&staging)));
            if let Some(error) = error {
                return Err(self.fault.backend_error("timed", &error));
            }
            let index = {
                let mut stream = lock(&self.stream);
                stream.encode(|encoder| {
                    encoder.write_timestamp(queries, 1);
                    encoder.resolve_query_set(queries, 0..2, &resolve, 0);
                    encoder.copy_buffer_to_buffer(&resolve, 0, &staging, 0, 16);
                })?;
                stream.submit()?
            };
            let (mapped, error) = watched(&self.gpu, || map(&staging));
            if let Some(error) = error {
                // The staging buffer was made and is not mapped yet: only a device that is gone refuses to map it.
                return Err(self.fault.lose(&words(&error)));
            }
            wait(&self.gpu, &self.fault, index)?;
            mapped.block();
            if let Err(reason) = pollster::block_on(Awaited(mapped)) {
                return Err(self.fault.lose(&format!("timestamps could not be read: {reason}")));
            }
            let Ok(view) = staging.get_mapped_range(..) else { return Ok(None) };
            let word = |at: usize| view.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
            let ticks = match (word(0), word(8)) {
                (Some(start), Some(end)) => end.checked_sub(start).filter(|&ticks| ticks > 0),
                _ => None,
            };
            Ok(ticks.map(|ticks| ticks as f64 * f64::from(self.queue.get_timestamp_period())))
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod web {
    use polywarp_core::{Elapsed, Error, Result};

    use crate::device::WgpuBackend;

    impl WgpuBackend {
        pub(crate) fn time(&self, _work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
            Err(Error::WouldBlock { what: "timed" })
        }
    }
}
