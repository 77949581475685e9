//! What a device did, kernel by kernel: [`Device::profile`], its table and its trace.
//!
//! Not a clock for figures: launches are timed one by one, so that gaps between them grow; [`crate::Backend::timed`] times work as a
//! whole. The decision to know: a launch is put down to the operation that the caller asked for, through whatever it is composed of, and also in
//! a recording that was made before the profile began, whose launches a profile runs one by one. `requests.rs` has what is noted meanwhile.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use crate::requests::{Noting, launches, text};
use crate::{Clock, Device, Error, Launched, Request, Result};

/// What ran while [`Device::profile`] watched. Its [`Display`](fmt::Display) is a table of kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The device's id and name.
    pub device: String,
    /// Whose clock the launches' times are.
    pub clock: Clock,
    /// Nanoseconds from the beginning of the work to the end of the last launch, by the host's clock.
    pub wall_ns: f64,
    /// In the order in which the host asked for them.
    pub requests: Vec<Request>,
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

    /// A trace in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a lane of what the host asks
    /// for, one of the device's launches, and one for each other thread that asks. What belongs to one operation has its number in both.
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
            let others = profile.requests.iter().map(|request| request.thread).max().unwrap_or(0);
            events
                .extend((1..=others).map(|thread| meta("thread_name", 1 + thread, &format!("host, thread {thread}"))));
            for Request { part, name, thread, start_ns, ns } in &profile.requests {
                let lane = if *thread == 0 { 0 } else { 1 + thread };
                let facts = json!({ "operation": part.number, "bytes": part.bytes });
                let (start, length) = (start_ns / 1e3, ns / 1e3);
                events.push(
                    json!({ "ph": "X", "name": &**name, "pid": process, "tid": lane, "ts": start, "dur": length, "args": facts }),
                );
            }
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
        let (launches, total, wall) = (launches(self.launches.len()), self.total_ns() / 1e6, self.wall_ns / 1e6);
        let clock = match self.clock {
            Clock::Device => "the device's",
            Clock::Host => "the host's",
        };
        writeln!(
            f,
            "{}: {launches}, {total:.3} ms by {clock} clock, {wall:.3} ms with the gaps between them",
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
        let (mut start, mut requests) = (None, Vec::new());
        let (launches, clock) = self.backend().profile(&mut || {
            // A browser's backend refuses; there is no such clock there.
            start = (!cfg!(target_arch = "wasm32")).then(Instant::now);
            let mut work = || {
                if let Some(work) = work.take() {
                    made = Some(work()?);
                }
                Ok(())
            };
            match self.backend().requests() {
                Some(list) => requests = list.during(&mut work)?,
                None => work()?,
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
        Ok((made, Profile { device, clock, wall_ns, requests, launches }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Part;

    fn launched(op: &'static str, number: u64, kernel: &str, ns: f64) -> Launched {
        Launched { part: Part { op, bytes: 100, number }, kernel: kernel.into(), grid: [1, 1, 1], start_ns: 0.0, ns }
    }

    fn profile(launches: Vec<Launched>) -> Profile {
        Profile { device: "cpu".to_owned(), clock: Clock::Host, wall_ns: 50.0, requests: Vec::new(), launches }
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
    fn table_counts_launches() {
        let head = |launches| profile(launches).to_string().lines().next().unwrap().to_owned();
        let one = launched("add", 1, "map", 10.0);
        assert!(head(vec![one.clone()]).starts_with("cpu: 1 launch, "));
        assert!(head(vec![one.clone(), one]).starts_with("cpu: 2 launches, "));
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
    fn traces_have_a_lane_for_each_thread_that_asks() {
        let request = |name: &str, number: u64, thread: u32| Request {
            part: Part { op: "", bytes: 0, number },
            name: name.into(),
            thread,
            start_ns: 2000.0,
            ns: 500.0,
        };
        let requests = vec![request("add", 7, 0), request("exp", 8, 1), request("replay", 0, 0)];
        let trace = Profile { requests, ..profile(vec![launched("add", 7, "map", 10.0)]) }.trace();
        let value: serde_json::Value = serde_json::from_str(&trace).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let lane = |tid: u64| -> Vec<(&str, u64)> {
            let events = events.iter().filter(|event| event["tid"] == tid && event["args"]["operation"].is_u64());
            events.map(|e| (e["name"].as_str().unwrap(), e["args"]["operation"].as_u64().unwrap())).collect()
        };
        assert_eq!((lane(0), lane(1), lane(2)), (vec![("add", 7), ("replay", 0)], vec![("add", 7)], vec![("exp", 8)]));
        let named = |tid: u64, name: &str| events.iter().any(|e| e["tid"] == tid && e["args"]["name"] == name);
        assert!(named(0, "host") && named(1, "cpu") && named(2, "host, thread 1"), "{trace}");
        let add = events.iter().find(|event| event["name"] == "add").unwrap();
        assert_eq!((&add["ts"], &add["dur"]), (&json!(2.0), &json!(0.5)));
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
