//! The whole state of training in one file.
//!
//! What a step changes, and nothing else: parameters, moments, the number of steps and the rate, loss scale, averages, random numbers. Not the
//! method's numbers nor the schedule, which are the program's. The decision to know: tensors are stored by parameter and not by bucket, so that a
//! file fits any device; a run that goes on from one on the same device is the run that was never stopped, bit for bit.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use polywarp_core::{Generator, Result, Tensor};

use crate::{Average, LossScale, Optimiser, Parameters, file};

/// The version of what is stored.
const VERSION: &str = "1";
/// Where the version and the method's name stand in the file's metadata.
const VERSION_KEY: &str = "polywarp.checkpoint";
const METHOD_KEY: &str = "polywarp.method";

/// What is saved and loaded together. A file holds `value.<name>`, `moment.0.<name>`, `moment.1.<name>` and `average.<name>` for each parameter,
/// `buffer.<name>` for each buffer, and the numbers `optimiser.steps`, `optimiser.rate`, `scale.scale` and `scale.clean`, all f32 but counts of buffers, which are i32; `generator.low` and `generator.high`
/// are the words of a generator's state ([`Generator::tensors`]).
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The parameters.
    pub parameters: &'a Parameters,
    /// Their optimiser.
    pub optimiser: &'a Optimiser,
    /// The loss scale, where there is one.
    pub scale: Option<&'a LossScale>,
    /// Averages, where there are any.
    pub average: Option<&'a Average>,
    /// Where random numbers come from, such as those of dropout, where any are drawn: the run goes on with those it would have drawn next.
    pub generator: Option<&'a Generator>,
}

impl Checkpoint<'_> {
    /// Writes the state as it is after all work given to the device so far. Waits for the device.
    ///
    /// # Errors
    /// As [`file::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let tensors = self.tensors();
        let tensors: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect();
        let said = [(VERSION_KEY, VERSION), (METHOD_KEY, self.optimiser.method().name())];
        let metadata: BTreeMap<String, String> = said.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        file::save(path, &tensors, &metadata)
    }

    /// Puts the state of the file in the place of this one; recordings go on with it. Nothing is changed where the file does not fit.
    ///
    /// # Errors
    /// [`Error::File`](polywarp_core::Error::File) for a file of another version or method, for tensors that are missing, of another shape or
    /// dtype, or more than these; as [`file::load`]; memory errors of the device.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        let loaded = file::load(path)?;
        for (key, expected) in [(VERSION_KEY, VERSION), (METHOD_KEY, self.optimiser.method().name())] {
            let found = loaded.metadata(key).unwrap_or("missing");
            if found != expected {
                return Err(loaded.fault(None, &format!("its {key} is {found}, not {expected}")));
            }
        }
        let tensors = self.tensors();
        for (name, tensor) in &tensors {
            loaded.expect(name, tensor.dtype(), tensor.shape())?;
        }
        let known: HashSet<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(name) = loaded.names().iter().find(|name| !known.contains(name.as_str())) {
            return Err(loaded.fault(Some(name), "nothing here takes it: the run that wrote it had more"));
        }
        let device = self.parameters.device();
        let values = tensors.iter().map(|(name, _)| loaded.tensor(device, name)).collect::<Result<Vec<_>>>()?;
        tensors.iter().zip(&values).try_for_each(|((_, place), value)| place.assign(value))
    }

    /// All state with its names.
    fn tensors(&self) -> Vec<(String, &Tensor)> {
        let mut tensors = Vec::new();
        let values = self.parameters.values();
        tensors.extend(values.iter().map(|(name, view)| (format!("value.{name}"), view)));
        tensors.extend(self.parameters.buffers().map(|(name, buffer)| (format!("buffer.{name}"), buffer)));
        for (number, moment) in self.optimiser.moments.iter().enumerate() {
            tensors.extend(moment.iter().map(|(name, view)| (format!("moment.{number}.{name}"), view)));
        }
        let numbers = &self.optimiser.numbers;
        tensors.push(("optimiser.steps".to_owned(), &numbers.steps));
        tensors.push(("optimiser.rate".to_owned(), &numbers.base));
        if let Some(scale) = self.scale {
            tensors.push(("scale.scale".to_owned(), &scale.scale));
            tensors.push(("scale.clean".to_owned(), &scale.clean));
        }
        if let Some(average) = self.average {
            tensors.extend(average.values().iter().map(|(name, view)| (format!("average.{name}"), view)));
        }
        if let Some(generator) = self.generator {
            let [low, high] = generator.tensors();
            tensors.push(("generator.low".to_owned(), low));
            tensors.push(("generator.high".to_owned(), high));
        }
        tensors
    }
}
