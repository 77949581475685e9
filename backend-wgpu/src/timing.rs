//! How long work takes: by the device's own timestamps where it has them, else by the host's clock.

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::time::Instant;

    use polywarp_core::{Backend, Clock, Elapsed, Error, Launched, Result};

    use crate::fault::{lock, watched, words};
    use crate::state::WgpuBackend;
    use crate::stream::Stamps;
    use crate::wait::{Awaited, map, wait};

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

        fn has_stamps(&self) -> bool {
            let needed = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
            self.gpu.features().contains(needed) && self.queue.get_timestamp_period() > 0.0
        }

        /// Records the first timestamp. Written outside of passes: the interval then covers copies and every pass.
        fn start_stamps(&self) -> Result<Option<wgpu::QuerySet>> {
            if !self.has_stamps() {
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
            lock(&self.stream).encode(|encoder| encoder.write_timestamp(queries, 1))?;
            let ticks = match self.ticks(queries, 2)?[..] {
                [start, end] => end.checked_sub(start).filter(|&ticks| ticks > 0),
                _ => None,
            };
            Ok(ticks.map(|ticks| ticks as f64 * f64::from(self.queue.get_timestamp_period())))
        }

        /// Waits for the first `count` timestamps of `queries`.
        fn ticks(&self, queries: &wgpu::QuerySet, count: u32) -> Result<Vec<u64>> {
            let size = 8 * u64::from(count);
            let buffer = |usage| wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
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
                    encoder.resolve_query_set(queries, 0..count, &resolve, 0);
                    encoder.copy_buffer_to_buffer(&resolve, 0, &staging, 0, size);
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
            let Ok(view) = staging.get_mapped_range(..) else { return Ok(Vec::new()) };
            Ok(view.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes).collect())
        }

        /// What [`Backend::profile`] does.
        pub(crate) fn profile_launches(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
            if !self.has_stamps() {
                return Err(Error::Unsupported {
                    device: self.id().to_owned(),
                    what: "a profile".to_owned(),
                    reason: "its driver has no timestamps between launches; time the work as a whole".to_owned(),
                });
            }
            /// Ends the profile when `work` panics, too.
            struct Ended<'a>(&'a WgpuBackend);
            impl Drop for Ended<'_> {
                fn drop(&mut self) {
                    lock(&self.0.stream).end_profile();
                }
            }
            self.synchronize()?;
            // The zero of the launches' times: read, and so waited for, before the work begins, so that it is not behind the host's.
            let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count: 1 };
            let (queries, error) = watched(&self.gpu, || self.gpu.create_query_set(&descriptor));
            if let Some(error) = error {
                return Err(self.fault.backend_error("profile", &error));
            }
            lock(&self.stream).encode(|encoder| encoder.write_timestamp(&queries, 0))?;
            let zero = self.ticks(&queries, 1)?.first().copied().unwrap_or_default();
            lock(&self.stream).start_profile(self.id())?;
            let _ended = Ended(self);
            let worked = work();
            let Some(stamps) = lock(&self.stream).end_profile() else {
                return worked.map(|()| (Vec::new(), Clock::Device));
            };
            worked?;
            let mut ticks = Vec::with_capacity(2 * stamps.launches.len());
            for (queries, launches) in stamps.sets.iter().zip(stamps.launches.chunks(Stamps::LAUNCHES_OF_A_SET)) {
                ticks.extend(self.ticks(queries, 2 * launches.len() as u32)?);
            }
            let period = f64::from(self.queue.get_timestamp_period());
            let ns = |from: u64, to: u64| to.saturating_sub(from) as f64 * period;
            let launched = stamps.launches.into_iter().zip(ticks.chunks_exact(2));
            let launched = launched.map(|((part, kernel, grid), ticks)| Launched {
                part,
                kernel,
                grid,
                start_ns: ns(zero, ticks[0]),
                ns: ns(ticks[0], ticks[1]),
            });
            Ok((launched.collect(), Clock::Device))
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod web {
    use polywarp_core::{Clock, Elapsed, Error, Launched, Result};

    use crate::state::WgpuBackend;

    impl WgpuBackend {
        pub(crate) fn time(&self, _work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
            Err(Error::WouldBlock { what: "timed" })
        }

        pub(crate) fn profile_launches(&self, _work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
            Err(Error::WouldBlock { what: "profile" })
        }
    }
}
