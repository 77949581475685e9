//! Profiles: what ran is there, by the operation that asked for it, and computes what it computes without one.

use super::{Answer, Test, demand};
use crate::{Device, Error, Profile, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("a profile has every operation with its launches and bytes", direct),
    ("a profiled replay computes what a replay computes, launch by launch", replayed),
    ("what fails inside a profile ends it", failing),
];

/// The operations of a profile, those in a row that are alike together.
fn operations(profile: &Profile) -> Vec<&'static str> {
    let mut names: Vec<(u64, &'static str)> = profile.launches.iter().map(|l| (l.part.number, l.part.op)).collect();
    names.dedup();
    names.into_iter().map(|(_, name)| name).collect()
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
    x.neg()?;
    let ((), empty) = device.profile(|| Ok(()))?;
    demand!(empty.launches.is_empty(), "nothing ran, and there is {empty:?}");
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
