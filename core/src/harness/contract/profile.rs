//! Profiles: what ran is there, by the operation that asked for it, and computes what it computes without one.

use std::time::{Duration, Instant};

use super::words::{add_kernel, bind, launch, upload};
use super::{Answer, Test, demand};
use crate::{Device, Error, Profile, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("a profile has every operation with its launches and bytes", direct),
    ("a profiled replay computes what a replay computes, launch by launch", replayed),
    ("a profile begins with its work, by the host's clock and by the device's", pausing),
    ("what fails inside a profile ends it", failing),
];

/// Those that run users' kernels.
pub(super) const KERNEL_ROWS: &[(&str, Test)] = &[("a profile has a user's kernel in both lanes", launched)];

/// The operations of a profile, those in a row that are alike together.
fn operations(profile: &Profile) -> Vec<&'static str> {
    let mut names: Vec<(u64, &'static str)> = profile.launches.iter().map(|l| (l.part.number, l.part.op)).collect();
    names.dedup();
    names.into_iter().map(|(_, name)| name).collect()
}

/// What the host asked for.
fn asked(profile: &Profile) -> Vec<&str> {
    profile.requests.iter().map(|request| &*request.name).collect()
}

/// Numbers of operations in a lane of the trace, each with the name of its events; those in a row that are alike together.
fn lane(profile: &Profile, tid: u64) -> Vec<(u64, String)> {
    let trace: serde_json::Value = serde_json::from_str(&profile.trace()).unwrap_or_default();
    let events = trace["traceEvents"].as_array().into_iter().flatten();
    let of_lane = events.filter(|event| event["ph"] == "X" && event["tid"] == tid);
    let named = |event: &serde_json::Value| {
        Some((event["args"]["operation"].as_u64()?, event["name"].as_str().unwrap_or_default().to_owned()))
    };
    let mut found: Vec<(u64, String)> = of_lane.filter_map(named).collect();
    found.dedup();
    found
}

fn direct(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0_f32, 2.0, 3.0, 4.0], [4])?;
    let made = device.profile(|| Ok((x.exp()?, x.sum(..)?)));
    let ((_, sum), profile) = match made {
        // A driver without timestamps.
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        made => made?,
    };
    demand!(sum.item::<f32>()? == 10.0, "the sum is {}", sum.item::<f32>()?);
    demand!(operations(&profile) == ["exp", "sum"], "it ran {:?}", operations(&profile));
    demand!(profile.launches[0].part.bytes == 32, "exp of four numbers moves {} bytes", profile.launches[0].part.bytes);
    let all = profile.launches.iter().all(|l| l.ns >= 0.0 && l.start_ns >= 0.0 && !l.kernel.is_empty());
    demand!(all && profile.wall_ns > 0.0, "times of {profile:?}");
    demand!(asked(&profile) == ["exp", "sum"], "the host asked for {:?}", profile.requests);
    let (host, own) = (lane(&profile, 0), lane(&profile, 1));
    demand!(host.len() == 2 && host == own, "the trace has {host:?} in the host's lane, {own:?} in the device's");
    let mut end_ns = 0.0;
    for request in &profile.requests {
        let launches = profile.launches.iter().filter(|l| l.part.number == request.part.number);
        // The two clocks do not run alike to the last digit.
        let is_after = launches.map(|l| l.start_ns).all(|start| start >= 0.99 * request.start_ns);
        demand!(is_after && request.start_ns >= end_ns && request.thread == 0, "{request:?} in {profile:?}");
        end_ns = request.start_ns + request.ns;
    }
    demand!(end_ns <= profile.wall_ns, "the host went on after {end_ns} ns of {profile:?}");
    x.neg()?;
    let ((), empty) = device.profile(|| Ok(()))?;
    demand!(empty.launches.is_empty() && empty.requests.is_empty(), "nothing ran, and there is {empty:?}");
    Ok(Ok(()))
}

/// A launch of a user's kernel is in both lanes by its name.
fn launched(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[1; 4])?;
    let made = device.profile(|| launch(device.backend(), &add_kernel(1), &[bind(0, &x)]));
    let ((), profile) = match made {
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        made => made?,
    };
    let (host, own) = (lane(&profile, 0), lane(&profile, 1));
    demand!(host.len() == 1 && host == own, "the trace has {host:?} in the host's lane, {own:?} in the device's");
    Ok(Ok(()))
}

fn pausing(device: &Device) -> Result<Answer> {
    const PAUSE: Duration = Duration::from_millis(50);
    let x = Tensor::from_slice(device, &[1.0_f32, 2.0], [2])?;
    let entered = Instant::now();
    let made = device.profile(|| {
        std::thread::sleep(PAUSE);
        x.exp()
    });
    // The device's zero lies between this and the beginning of the work: the host waits for it.
    let most_ns = entered.elapsed().as_secs_f64() * 1e9;
    let (_, profile) = match made {
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        made => made?,
    };
    let pause_ns = PAUSE.as_secs_f64() * 1e9;
    demand!(profile.requests.len() == 1 && profile.requests[0].start_ns >= pause_ns, "{:?}", profile.requests);
    // The two clocks do not run alike to the last digit.
    let start_ns = profile.launches.first().map(|launch| launch.start_ns);
    let is_on_time = start_ns.is_some_and(|start| start >= 0.99 * pause_ns && start <= 1.01 * most_ns);
    demand!(
        is_on_time,
        "{PAUSE:?} into the profile of {} ns a launch begins at {start_ns:?} ns of {most_ns}",
        profile.wall_ns
    );
    Ok(Ok(()))
}

fn replayed(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[0.5_f32, 2.0, 3.0], [3])?;
    let recording = match device.record(|| x.mul(&x)?.sum(..)) {
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        made => made?,
    };
    let profiled = device.profile(|| {
        recording.replay()?;
        recording.replay().map(|_| ())
    });
    let ((), profile) = match profiled {
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        made => made?,
    };
    let launches = 2 * recording.launches();
    demand!(profile.launches.len() == launches, "{} launches, not {launches}", profile.launches.len());
    demand!(operations(&profile) == ["mul", "sum", "mul", "sum"], "it ran {:?}", operations(&profile));
    demand!(asked(&profile) == ["replay", "replay"], "the host asked for {:?}", profile.requests);
    let sum = recording.outputs().item::<f32>()?;
    demand!(sum == 13.25, "the replay's sum is {sum}");
    Ok(Ok(()))
}

fn failing(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0_f32, 2.0], [2])?;
    let wrong = || x.add(&Tensor::from_slice(device, &[1.0_f32, 2.0, 3.0], [3])?);
    let failed = device.profile(wrong);
    demand!(failed.is_err(), "shapes that do not fit were added");
    match device.profile(|| x.neg()) {
        Err(Error::Unsupported { .. }) => {}
        Err(other) => return Ok(Err(format!("the next profile: {other}"))),
        Ok((negative, _)) => {
            demand!(negative.to_vec::<f32>()? == [-1.0, -2.0], "negatives of {:?}", x.to_vec::<f32>()?)
        }
    }
    Ok(Ok(()))
}
