//! Flat tensors: a number for every element of every parameter, in few buffers.
//!
//! Values, gradients, moments and averages all are a [`Flat`]: one f32 tensor for each bucket. So an optimiser's step is one launch for each
//! bucket and not for each parameter. The decision to know: parameters with the same options share a bucket, in reverse order of their
//! registration, because backward finishes the last ones first; each starts at a multiple of [`ALIGNMENT`] elements, and what lies between
//! them is 0 and stays 0. Matrices and vectors lie apart, so that one operation can write the gradients of a layer's weights and of its bias
//! where they belong: a buffer that is written stands once among the operands of a launch.

use std::collections::HashMap;
use std::sync::Arc;

use polywarp_core::{DType, Device, Error, Result, Shape, Tensor};

use crate::{Decay, Init, invalid};

/// How a parameter lies in its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row-major, as its shape says.
    AsShaped,
    /// Its second axis innermost: filters, of the shape [filters, channels, taps...] in PyTorch and its files, lie as convolutions read
    /// them, [filters, taps..., channels]. Whoever asks for the parameter sees PyTorch's shape: a view.
    ChannelsLast,
}

/// Elements: 256 bytes, the widest alignment that WebGPU may ask of a binding's offset.
pub(crate) const ALIGNMENT: u64 = 64;

/// A parameter as it is registered.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub shape: Shape,
    /// What lies in the bucket: more of the first axis, other order, or the same.
    pub room: Shape,
    pub order: Order,
    pub init: Init,
    pub decay: Decay,
}

/// Where a parameter lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub bucket: usize,
    /// Its first element in the bucket.
    pub start: u64,
    pub shape: Shape,
    /// What lies in the bucket: the shape in its order, with the room behind it, which is 0 and stays 0.
    pub room: Shape,
    pub order: Order,
}

impl Place {
    /// The parameter itself in what lies in the bucket: a view.
    pub fn exact(&self, room: &Tensor) -> Result<Tensor> {
        match self.order {
            Order::ChannelsLast => {
                let channels = room.rank() - 1;
                room.permute(&[&[0, channels][..], &(1..channels).collect::<Vec<usize>>()].concat())
            }
            Order::AsShaped if self.room == self.shape => Ok(room.clone()),
            Order::AsShaped => room.slice(0, 0..self.shape.dims()[0]),
        }
    }
}

/// Where all parameters lie: what everything flat is laid out by.
#[derive(Debug)]
pub(crate) struct Places {
    /// In order of registration.
    pub names: Vec<String>,
    pub places: Vec<Place>,
    /// Elements of each bucket, and whether what is in it decays.
    pub buckets: Vec<(u64, Decay)>,
    numbers: HashMap<String, usize>,
}

impl Places {
    /// `most` is how many elements a bucket may have, as long as it holds more than one parameter.
    pub fn new(entries: &[Entry], most: u64) -> Result<Places> {
        let mut buckets: Vec<(u64, Decay)> = Vec::new();
        let mut has_matrices: Vec<bool> = Vec::new();
        let mut places = Vec::with_capacity(entries.len());
        for Entry { shape, room, order, decay, .. } in entries.iter().rev() {
            let too_large = || Error::SizeOverflow { shape: shape.dims().to_vec(), dtype: Some(DType::F32) };
            let elements = room.elements().checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
            let fits = |end: u64| end.checked_add(elements).is_some_and(|end| end <= most);
            let is_matrix = shape.rank() > 1;
            let alike = |bucket: &usize| buckets[*bucket].1 == *decay && has_matrices[*bucket] == is_matrix;
            let open = (0..buckets.len()).rev().find(alike).filter(|&open| fits(buckets[open].0));
            let bucket = open.unwrap_or_else(|| {
                buckets.push((0, *decay));
                has_matrices.push(is_matrix);
                buckets.len() - 1
            });
            places.push(Place { bucket, start: buckets[bucket].0, shape: *shape, room: *room, order: *order });
            buckets[bucket].0 += elements;
        }
        places.reverse();
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let numbers = names.iter().enumerate().map(|(number, name)| (name.clone(), number)).collect();
        Ok(Places { names, places, buckets, numbers })
    }

    /// The registration number of `name`.
    pub fn number(&self, name: &str) -> Result<usize> {
        match self.numbers.get(name) {
            Some(&number) => Ok(number),
            None => invalid("parameter", format!("there is none named `{name}`")),
        }
    }
}

/// One f32 tensor for each bucket of some [`Parameters`](crate::Parameters), and in it a place for each parameter.
#[derive(Clone, Debug)]
pub struct Flat {
    pub(crate) places: Arc<Places>,
    tensors: Vec<Tensor>,
    /// A view of each parameter's place, in order of registration.
    views: Vec<Tensor>,
    /// The same as they lie, with the room behind them.
    rooms: Vec<Tensor>,
}

impl Flat {
    /// All zero.
    pub(crate) fn zeros(device: &Device, places: &Arc<Places>) -> Result<Flat> {
        let tensors = places.buckets.iter().map(|&(elements, _)| Tensor::zeros(device, DType::F32, [elements]));
        Flat::of(places, tensors.collect::<Result<_>>()?)
    }

    /// A copy in memory of its own.
    pub(crate) fn copy(&self) -> Result<Flat> {
        Flat::of(&self.places, self.tensors.iter().map(Tensor::copy).collect::<Result<_>>()?)
    }

    /// The same in another dtype, in memory of its own: one launch for each bucket.
    pub(crate) fn cast(&self, dtype: DType) -> Result<Flat> {
        Flat::of(&self.places, self.tensors.iter().map(|tensor| tensor.cast(dtype)).collect::<Result<_>>()?)
    }

    fn of(places: &Arc<Places>, tensors: Vec<Tensor>) -> Result<Flat> {
        let room = |place: &Place| {
            let elements = place.start..place.start + place.room.elements();
            tensors[place.bucket].slice(0, elements)?.reshape(place.room)
        };
        let rooms = places.places.iter().map(room).collect::<Result<Vec<Tensor>>>()?;
        let views = places.places.iter().zip(&rooms).map(|(place, room)| place.exact(room)).collect::<Result<_>>()?;
        Ok(Flat { places: Arc::clone(places), tensors, views, rooms })
    }

    /// The tensors of the buckets, `[n]` each: padding between parameters included, which is 0.
    pub fn buckets(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The place of the parameter `name`, of its shape: a view, which sees every change.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        Ok(&self.views[self.places.number(name)?])
    }

    /// The places with their names, in order of registration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.places.names.iter().map(String::as_str).zip(&self.views)
    }

    pub(crate) fn views(&self) -> &[Tensor] {
        &self.views
    }

    /// The places as they lie, with the room behind them: dense.
    pub(crate) fn rooms(&self) -> &[Tensor] {
        &self.rooms
    }

    /// Whether both are laid out for the same parameters; `what` is refused if not.
    pub(crate) fn expect_places(&self, what: &'static str, places: &Arc<Places>) -> Result<()> {
        if Arc::ptr_eq(&self.places, places) {
            return Ok(());
        }
        invalid(what, "it was made for other parameters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last first; each from a multiple of 64; a bucket ends before it has more than the most, and one parameter fits any.
    #[test]
    fn places_of_full_buckets_go_into_new_ones() {
        let entry = |(name, elements, decay): (&str, u64, Decay)| {
            let shape = Shape::new(&[elements])?;
            Ok(Entry { name: name.to_owned(), shape, room: shape, order: Order::AsShaped, init: Init::Zeros, decay })
        };
        let entries = [("a", 1, Decay::Yes), ("b", 64, Decay::No), ("c", 65, Decay::Yes), ("d", 300, Decay::Yes)];
        let entries: Vec<Entry> = entries.into_iter().map(entry).collect::<Result<_>>().unwrap();
        let placed = |most: u64| {
            let places = Places::new(&entries, most).unwrap();
            let starts: Vec<(usize, u64)> = places.places.iter().map(|place| (place.bucket, place.start)).collect();
            (starts, places.buckets.iter().map(|(elements, _)| *elements).collect::<Vec<u64>>())
        };
        assert_eq!(placed(1 << 20), (vec![(0, 448), (1, 0), (0, 320), (0, 0)], vec![512, 64]));
        assert_eq!(placed(192), (vec![(1, 128), (2, 0), (1, 0), (0, 0)], vec![320, 192, 64]));
    }
}
