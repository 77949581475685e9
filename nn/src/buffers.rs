//! Buffers: numbers on the device that layers keep beside parameters and that no gradient moves, such as running statistics.
//!
//! The decision to know: a buffer is a tensor of its own, changed in place by the layer that owns it as part of its forward pass, so that a
//! recorded step changes it at every replay. All handles ([`Watched`](crate::Watched)) share it.

use std::collections::HashMap;

use polywarp_core::{DType, Device, Error, Result, Shape, Tensor};

use crate::{Init, invalid};

/// A buffer as it is registered.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub shape: Shape,
    /// Starting values; none for a count, which is i32 and starts at 0.
    pub init: Option<Init>,
}

/// Buffers by name.
#[derive(Debug)]
pub(crate) struct Buffers {
    names: Vec<String>,
    tensors: Vec<Tensor>,
    numbers: HashMap<String, usize>,
}

impl Buffers {
    /// At their starting values, with random numbers from the streams of `seed` from `stream` on.
    pub fn new(device: &Device, entries: &[Entry], seed: u64, stream: u64) -> Result<Buffers> {
        let tensor = |(entry, stream): (&Entry, u64)| match entry.init {
            Some(init) => init.tensor(device, entry.shape, seed, stream),
            None => Tensor::zeros(device, DType::I32, entry.shape),
        };
        let tensors = entries.iter().zip(stream..).map(tensor).collect::<Result<_>>()?;
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let numbers = names.iter().enumerate().map(|(number, name)| (name.clone(), number)).collect();
        Ok(Buffers { names, tensors, numbers })
    }

    pub fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Result<&Tensor> {
        match self.numbers.get(name) {
            Some(&number) => Ok(&self.tensors[number]),
            None => invalid("buffer", format!("there is none named `{name}`")),
        }
    }

    /// In order of registration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names.iter().map(String::as_str).zip(&self.tensors)
    }

    /// `value` as the buffer `name` holds it. A count is read on the host: files have it in 64 bits, which not every device computes in.
    pub fn fitting(&self, name: &str, value: &Tensor) -> Result<Tensor> {
        let place = self.get(name)?;
        if place.dtype() != DType::I32 {
            fits(place, value)?;
            return Ok(value.clone());
        }
        if value.shape() != place.shape() {
            return Err(Error::shape_mismatch("set", place.shape(), value.shape(), None));
        }
        let counts = match value.dtype() {
            DType::I64 => value.to_vec::<i64>()?,
            DType::I32 => value.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
            got => return Err(Error::DTypeMismatch { op: "set", expected: DType::I32, got }),
        };
        let counts: std::result::Result<Vec<i32>, _> = counts.into_iter().map(i32::try_from).collect();
        match counts {
            Ok(counts) => Tensor::from_slice(place.device(), &counts, *place.shape()),
            Err(_) => invalid("buffer", format!("`{name}` counts further than i32 does")),
        }
    }
}

/// Whether `value` can stand where `place` is.
pub(crate) fn fits(place: &Tensor, value: &Tensor) -> Result<()> {
    if value.shape() != place.shape() {
        return Err(Error::shape_mismatch("set", place.shape(), value.shape(), None));
    }
    if value.dtype() != place.dtype() {
        return Err(Error::DTypeMismatch { op: "set", expected: place.dtype(), got: value.dtype() });
    }
    Ok(())
}
