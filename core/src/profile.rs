//! What a device did, kernel by kernel: [`Device::profile`], its table and its trace.
//!
//! Not a clock for figures: launches are timed one by one, so that gaps between them grow; [`crate::Backend::timed`] times work as a
//! whole. The decision to know: a launch is put down to the operation that the caller asked for, through whatever it is composed of, and also in
//! a recording that was made before the profile began, whose launches a profile runs one by one. While nothing is profiled or recorded an
//! operation pays one relaxed load for it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use crate::{Clock, Device, Error, Op, Result};

/// One launch of a kernel; on the CPU, one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Launched {
    /// The operation it was part of.
    pub part: Part,
    /// The kernel's name.
    #[serde(serialize_with = "text")]
    pub kernel: Arc<str>,
    /// Workgroups along x, y, z; zeros on the CPU.
    pub grid: [u32; 3],
    /// Nanoseconds from the beginning of the profile to its start.
    pub start_ns: f64,
    /// Nanoseconds that it ran.
    pub ns: f64,
}

fn text<S: serde::Serializer>(name: &Arc<str>, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(name)
}

/// Which operation a launch is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The operation's name; empty for a user's kernel.
    pub op: &'static str,
    /// Bytes that the operation must read and write at least ([`crate::Cost`]).
    pub bytes: u64,
    /// Counts operations: launches of one have the same number. 0 for a user's kernel.
    pub number: u64,
}

/// Profiles and recordings under way in this process.
static NOTED: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A number that no operation has had.
fn next() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

thread_local! {
    static CURRENT: Cell<Part> = const { Cell::new(Part { op: "", bytes: 0, number: 0 }) };
}

impl Part {
    /// The operation that the calling thread executes; while nothing is profiled or recorded, none.
    pub fn current() -> Part {
        CURRENT.get()
    }

    /// `op`, run once more.
    pub fn of(op: &Op) -> Part {
        let cost = op.cost();
        Part { op: op.name(), bytes: cost.bytes_read.saturating_add(cost.bytes_written), number: next() }
    }

    /// The same operation run once more, as by a replay.
    #[must_use]
    pub fn again(self) -> Part {
        Part { number: if self.number == 0 { 0 } else { next() }, ..self }
    }

    /// Notes that the calling thread executes `op` for as long as the result lives.
    pub(crate) fn begin(op: &Op) -> Option<Running> {
        if NOTED.load(Ordering::Relaxed) == 0 || CURRENT.get().number != 0 {
            return None; // an operation inside of another is part of that
        }
        CURRENT.set(Part::of(op));
        Some(Running(()))
    }
}

/// An operation under way on this thread.
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.set(Part::default());
    }
}

/// While it lives, operations note what they are.
pub(crate) struct Noting(());

impl Noting {
    pub(crate) fn new() -> Noting {
        NOTED.fetch_add(1, Ordering::Relaxed);
        Noting(())
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        NOTED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A backend's side of a profile: what its launches note, `T` each, while one is under way.
#[derive(Debug)]
pub struct Profiler<T> {
    is_on: AtomicBool,
    noted: Mutex<Vec<T>>,
}

impl<T> Default for Profiler<T> {
    fn default() -> Profiler<T> {
        Profiler { is_on: AtomicBool::new(false), noted: Mutex::default() }
    }
}

impl<T> Profiler<T> {
    /// Whether a profile is under way.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Notes a launch.
    pub fn note(&self, launch: T) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(launch);
    }

    /// Runs `work` and hands out what was noted meanwhile, by any thread.
    ///
    /// # Errors
    /// What `work` returns; [`Error::InvalidArgument`] inside of another profile of this device.
    pub fn during(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Vec<T>> {
        /// Ends the profile when `work` panics, too.
        struct Ended<'a, T>(&'a Profiler<T>);
        impl<T> Drop for Ended<'_, T> {
            fn drop(&mut self) {
                self.0.is_on.store(false, Ordering::Relaxed);
            }
        }
        if self.is_on.swap(true, Ordering::Relaxed) {
            let reason =
                "the device is being profiled; end that profile first, or profile both parts as one".to_owned();
            return Err(Error::InvalidArgument { what: "profile", reason });
        }
        let ended = Ended(self);
        let take = || std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        drop(take());
        work()?;
        drop(ended);
        Ok(take())
    }
}

/// What ran while [`Device::profile`] watched. Its [`Display`](fmt::Display) is a table of kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The device's id and name.
    pub device: String,
    /// Whose clock the launches' times are.
    pub clock: Clock,
    /// Nanoseconds from the first request to the end of the last launch, by the host's clock.
    pub wall_ns: f64,
    /// In the order in which they were given to the device.
    pub launches: Vec<Launched>,
}

/// All launches of one kernel for one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTime {
    /// The operation; empty for a user's kernel.
    pub op: &'static str,
    /// The kernel.
    #[serde(serialize_with = "text")]
    pub kernel: Arc<str>,
    /// How often it was launched.
    pub calls: u64,
    /// Nanoseconds of all launches.
    pub total_ns: f64,
    /// Its part of all launches' time, 0 to 1.
    pub share: f64,
    /// Bytes that the operations must move, where each of them was one launch: an operation of several moves more than these.
    pub bytes: Option<u64>,
}

impl KernelTime {
    /// Nanoseconds of a launch, on average.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns / self.calls as f64
    }

    /// Gigabytes a second, where the bytes are known.
    pub fn gb_per_s(&self) -> Option<f64> {
        self.bytes.filter(|_| self.total_ns > 0.0).map(|bytes| bytes as f64 / self.total_ns)
    }
}

impl Profile {
    /// Nanoseconds of all launches together.
    pub fn total_ns(&self) -> f64 {
        self.launches.iter().map(|launch| launch.ns).sum()
    }

    /// Kernels, the one that took longest first.
    pub fn kernels(&self) -> Vec<KernelTime> {
        let mut parts: HashMap<u64, u64> = HashMap::new();
        for launch in &self.launches {
            *parts.entry(launch.part.number).or_default() += 1;
        }
        let total = self.total_ns();
        let mut kernels: Vec<KernelTime> = Vec::new();
        let mut places: HashMap<(&str, &str), usize> = HashMap::new();
        for launch in &self.launches {
            let Launched { part, kernel, ns, .. } = launch;
            let place = *places.entry((part.op, kernel)).or_insert_with(|| {
                let first = KernelTime {
                    op: part.op,
                    kernel: Arc::clone(kernel),
                    calls: 0,
                    total_ns: 0.0,
                    share: 0.0,
                    bytes: Some(0),
                };
                kernels.push(first);
                kernels.len() - 1
            });
            let is_whole = part.number != 0 && parts[&part.number] == 1;
            let into = &mut kernels[place];
            into.calls += 1;
            into.total_ns += ns;
            into.share += ns / total;
            into.bytes = into.bytes.filter(|_| is_whole).map(|bytes| bytes.saturating_add(part.bytes));
        }
        kernels.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
        kernels
    }

    /// A trace in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a lane of the host, one of the device's
    /// launches.
    pub fn trace(&self) -> String {
        Profile::traces(&[(self.device.clone(), self)])
    }

    /// One trace of several profiles, each with its name.
    pub fn traces(profiles: &[(String, &Profile)]) -> String {
        let mut events = Vec::new();
        for (process, (name, profile)) in profiles.iter().enumerate() {
            let meta = |what: &str, lane: u32, name: &str| json!({ "ph": "M", "name": what, "pid": process, "tid": lane, "args": { "name": name } });
            events.push(meta("process_name", 0, name));
            events.push(meta("thread_name", 0, "host"));
            events.push(meta("thread_name", 1, &profile.device));
            // Microseconds, as the format has it.
            let wall = profile.wall_ns / 1e3;
            events.push(json!({ "ph": "X", "name": "profiled", "pid": process, "tid": 0, "ts": 0, "dur": wall }));
            for Launched { part, kernel, grid, start_ns, ns } in &profile.launches {
                let name = if part.op.is_empty() { kernel } else { part.op };
                let facts = json!({ "kernel": &**kernel, "grid": grid, "operation": part.number, "bytes": part.bytes });
                let (start, length) = (start_ns / 1e3, ns / 1e3);
                events.push(
                    json!({ "ph": "X", "name": name, "pid": process, "tid": 1, "ts": start, "dur": length, "args": facts }),
                );
            }
        }
        let lines: Vec<String> = events.iter().map(serde_json::Value::to_string).collect();
        format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n"))
    }
}

/// Most letters of a kernel's name in the table.
const MOST_LETTERS: usize = 72;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (launches, total, wall) = (self.launches.len(), self.total_ns() / 1e6, self.wall_ns / 1e6);
        let clock = match self.clock {
            Clock::Device => "the device's",
            Clock::Host => "the host's",
        };
        writeln!(
            f,
            "{}: {launches} launches, {total:.3} ms by {clock} clock, {wall:.3} ms with what lay between",
            self.device
        )?;
        writeln!(
            f,
            "{:>7} {:>11} {:>10} {:>6} {:>10} {:>8}  kernel",
            "calls", "total us", "mean us", "share", "MB", "GB/s"
        )?;
        for kernel in self.kernels() {
            let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            let name = if kernel.op.is_empty() {
                kernel.kernel.to_string()
            } else {
                format!("{}: {}", kernel.op, kernel.kernel)
            };
            let name = match name.char_indices().nth(MOST_LETTERS) {
                Some((end, _)) => format!("{}...", &name[..end]),
                None => name,
            };
            writeln!(
                f,
                "{:>7} {:>11.1} {:>10.2} {:>5.1}% {:>10} {:>8}  {name}",
                kernel.calls,
                kernel.total_ns / 1e3,
                kernel.mean_ns() / 1e3,
                100.0 * kernel.share,
                or_dash(kernel.bytes.map(|bytes| bytes as f64 / 1e6)),
                or_dash(kernel.gb_per_s()),
            )?;
        }
        Ok(())
    }
}

impl Device {
    /// Runs `work` and says what it made the device do, launch by launch: `println!("{profile}")` is a table of kernels,
    /// [`Profile::trace`] a file that Perfetto opens. Recordings replayed meanwhile are run launch by launch. What other threads ask of the
    /// device meanwhile is in it as well.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0], [3])?;
    /// let (sum, profile) = device.profile(|| x.mul(&x)?.sum(..))?;
    /// assert_eq!(sum.item::<f32>()?, 14.0);
    /// assert_eq!(profile.launches.len(), 2);
    /// assert!(profile.to_string().contains("mul"));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `work` returns; [`Error::Recording`] while this thread records; [`Error::InvalidArgument`] inside of another profile of the device;
    /// [`Error::Unsupported`] where the backend cannot time its launches; [`Error::DeviceLost`].
    pub fn profile<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)> {
        let _noting = Noting::new();
        let (mut work, mut made) = (Some(work), None);
        // A browser's backend refuses; there is no such clock there.
        let start = (!cfg!(target_arch = "wasm32")).then(Instant::now);
        let (launches, clock) = self.backend().profile(&mut || {
            if let Some(work) = work.take() {
                made = Some(work()?);
            }
            Ok(())
        })?;
        let wall_ns = start.map_or(0.0, |start| start.elapsed().as_secs_f64() * 1e9);
        let device = format!("{} ({})", self.id(), self.info().name);
        let made = made.ok_or_else(|| Error::Backend {
            device: self.id().to_owned(),
            op: "profile".to_owned(),
            message: "its backend did not run the work".to_owned(),
        })?;
        Ok((made, Profile { device, clock, wall_ns, launches }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(op: &'static str, number: u64, kernel: &str, ns: f64) -> Launched {
        Launched { part: Part { op, bytes: 100, number }, kernel: kernel.into(), grid: [1, 1, 1], start_ns: 0.0, ns }
    }

    fn profile(launches: Vec<Launched>) -> Profile {
        Profile { device: "cpu".to_owned(), clock: Clock::Host, wall_ns: 50.0, launches }
    }

    #[test]
    fn kernels_of_an_operation_in_one_launch_have_its_bytes_and_others_none() {
        let kernels = profile(vec![
            launched("add", 1, "map", 10.0),
            launched("add", 2, "map", 20.0),
            launched("sum", 3, "first", 40.0),
            launched("sum", 3, "second", 30.0),
        ])
        .kernels();
        let told: Vec<_> = kernels.iter().map(|k| (k.op, &*k.kernel, k.calls, k.total_ns, k.bytes)).collect();
        let wanted =
            [("sum", "first", 1, 40.0, None), ("add", "map", 2, 30.0, Some(200)), ("sum", "second", 1, 30.0, None)];
        assert_eq!(told, wanted);
        assert!((kernels.iter().map(|k| k.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(kernels[1].mean_ns(), 15.0);
    }

    #[test]
    fn traces_are_json_with_an_event_for_each_launch() {
        let trace = profile(vec![launched("add", 1, "a \"quoted\" name", 10.0)]).trace();
        let value: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 5);
        assert_eq!(events[4]["args"]["kernel"], "a \"quoted\" name");
        assert_eq!(events[4]["dur"], 0.01);
    }

    #[test]
    #[cfg(feature = "cpu")]
    fn profile_inside_of_a_profile_is_refused_and_the_outer_one_goes_on() {
        let device = Device::cpu();
        let x = crate::Tensor::zeros(&device, crate::DType::F32, [4]).unwrap();
        let ((), outer) = device
            .profile(|| {
                let inner = device.profile(|| Ok(())).unwrap_err();
                assert!(matches!(inner, Error::InvalidArgument { what: "profile", .. }), "{inner}");
                x.exp().map(|_| ())
            })
            .unwrap();
        assert_eq!(outer.launches.len(), 1);
        assert!(
            device
                .profile(|| Err::<(), _>(Error::DeviceLost { device: "cpu".to_owned(), reason: "no".to_owned() }))
                .is_err()
        );
        assert!(device.profile(|| Ok(())).is_ok(), "a failed profile ends");
    }
}
