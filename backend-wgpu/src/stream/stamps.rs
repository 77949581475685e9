//! Timestamps round every launch while the device is profiled.
//!
//! A pass ends behind each launch then, for timestamps stand between passes; while nothing is profiled a launch pays one test.

use std::sync::Arc;

use polywarp_core::{Error, Part, Result};

use super::Stream;
use crate::fault::watched;

/// What was stamped so far.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// Two timestamps for each launch.
    pub(crate) sets: Vec<wgpu::QuerySet>,
    pub(crate) launches: Vec<(Part, Arc<str>, [u32; 3])>,
}

impl Stamps {
    /// Launches whose timestamps fit into one set.
    pub(crate) const LAUNCHES_OF_A_SET: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;

    /// The set of the last launch, and the place of its first timestamp.
    fn last(&self) -> Option<(&wgpu::QuerySet, u32)> {
        let at = self.launches.len().checked_sub(1)?;
        Some((self.sets.get(at / Stamps::LAUNCHES_OF_A_SET)?, 2 * (at % Stamps::LAUNCHES_OF_A_SET) as u32))
    }
}

impl Stream {
    /// Stamps what is launched from now on.
    pub(crate) fn start_profile(&mut self, device: &str) -> Result<()> {
        if self.stamps.is_some() {
            let reason = format!("{device} is being profiled; end that profile first, or profile both parts as one");
            return Err(Error::InvalidArgument { what: "profile", reason });
        }
        self.stamps = Some(Stamps::default());
        Ok(())
    }

    /// Ends that, and hands out what was stamped.
    pub(crate) fn end_profile(&mut self) -> Option<Stamps> {
        self.stamps.take()
    }

    pub(crate) fn is_profiled(&self) -> bool {
        self.stamps.is_some()
    }

    /// The timestamp before a launch.
    pub(crate) fn stamp_start(&mut self, kernel: &Arc<str>, grid: [u32; 3], part: impl FnOnce() -> Part) -> Result<()> {
        let Some(mut stamps) = self.stamps.take() else { return Ok(()) };
        if stamps.launches.len() == stamps.sets.len() * Stamps::LAUNCHES_OF_A_SET {
            let count = wgpu::QUERY_SET_MAX_QUERIES;
            let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count };
            let (set, error) = watched(&self.device, || self.device.create_query_set(&descriptor));
            if let Some(error) = error {
                self.stamps = Some(stamps);
                return Err(self.refused("profile", &error));
            }
            stamps.sets.push(set);
        }
        stamps.launches.push((part(), Arc::clone(kernel), grid));
        let stamped = self.stamp(&stamps, 0);
        self.stamps = Some(stamps);
        stamped
    }

    /// The timestamp behind it.
    pub(crate) fn stamp_end(&mut self) -> Result<()> {
        let Some(stamps) = self.stamps.take() else { return Ok(()) };
        let stamped = self.stamp(&stamps, 1);
        self.stamps = Some(stamps);
        stamped
    }

    fn stamp(&mut self, stamps: &Stamps, nth: u32) -> Result<()> {
        let Some((set, first)) = stamps.last() else { return Ok(()) };
        self.encode(|encoder| encoder.write_timestamp(set, first + nth))
    }
}
