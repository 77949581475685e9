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

use crate::{Init, invalid};

/// Whether weight decay applies to a parameter. By convention it does to matrices, not to biases and normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decay {
    /// The optimiser's weight decay applies.
    Yes,
    /// It does not.
    No,
}

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
    /// Lies right behind the entry of this number, as one tensor with it.
    pub behind: Option<usize>,
}

/// Where a parameter lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub bucket: usize,
    /// Its first element in the bucket.
    pub start: u64,
    pub shape: Shape,
    /// The number of the unit that it is part of, and its first row there.
    pub unit: usize,
    pub first: u64,
    pub order: Order,
}

impl Place {
    /// The parameter itself in its unit: a view.
    pub fn exact(&self, unit: &Tensor) -> Result<Tensor> {
        match self.order {
            Order::ChannelsLast => {
                let channels = unit.rank() - 1;
                unit.permute([&[0, channels][..], &(1..channels).collect::<Vec<usize>>()].concat())
            }
            Order::AsShaped if *unit.shape() == self.shape => Ok(unit.clone()),
            Order::AsShaped => {
                let rows = self.shape.dims().first().copied().unwrap_or(0);
                unit.slice(0, self.first..self.first + rows)
            }
        }
    }
}

/// What a tape watches: a parameter with the room behind it, which is 0 and stays 0, or several parameters one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub bucket: usize,
    pub start: u64,
    pub shape: Shape,
}

/// Where all parameters lie: what everything flat is laid out by.
#[derive(Debug)]
pub(crate) struct Places {
    /// In order of registration.
    pub names: Vec<String>,
    pub places: Vec<Place>,
    pub units: Vec<Unit>,
    /// Elements of each bucket, and whether what is in it decays.
    pub buckets: Vec<(u64, Decay)>,
    numbers: HashMap<String, usize>,
}

impl Places {
    /// `most` is how many elements a bucket may have, as long as it holds more than one parameter.
    pub fn new(entries: &[Entry], most: u64) -> Result<Places> {
        let mut buckets: Vec<(u64, Decay)> = Vec::new();
        let mut has_matrices: Vec<bool> = Vec::new();
        let (mut places, mut units) = (vec![None; entries.len()], Vec::new());
        for number in (0..entries.len()).rev().filter(|&number| entries[number].behind.is_none()) {
            let members = members(entries, number);
            let Entry { shape, decay, .. } = &entries[number];
            let unit = unit_shape(entries, &members)?;
            let too_large = || Error::SizeOverflow { shape: unit.dims().to_vec(), dtype: Some(DType::F32) };
            let elements = unit.elements().checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
            let fits = |end: u64| end.checked_add(elements).is_some_and(|end| end <= most);
            let is_matrix = shape.rank() > 1;
            let alike = |bucket: &usize| buckets[*bucket].1 == *decay && has_matrices[*bucket] == is_matrix;
            let open = (0..buckets.len()).rev().find(alike).filter(|&open| fits(buckets[open].0));
            let bucket = open.unwrap_or_else(|| {
                buckets.push((0, *decay));
                has_matrices.push(is_matrix);
                buckets.len() - 1
            });
            let start = buckets[bucket].0;
            let (mut at, mut first) = (start, 0);
            for member in members {
                let Entry { shape, room, order, .. } = &entries[member];
                let (shape, order) = (*shape, *order);
                places[member] = Some(Place { bucket, start: at, shape, unit: units.len(), first, order });
                at += room.elements();
                first += room.dims().first().copied().unwrap_or(0);
            }
            units.push(Unit { bucket, start, shape: unit });
            buckets[bucket].0 += elements;
        }
        let places: Vec<Place> = places.into_iter().flatten().collect();
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        let numbers = names.iter().enumerate().map(|(number, name)| (name.clone(), number)).collect();
        Ok(Places { names, places, units, buckets, numbers })
    }

    /// The registration number of `name`.
    pub fn number(&self, name: &str) -> Result<usize> {
        match self.numbers.get(name) {
            Some(&number) => Ok(number),
            None => invalid("parameter", format!("there is none named `{name}`")),
        }
    }
}

/// The entries of one unit, in order of memory: `number` and those behind it.
fn members(entries: &[Entry], number: usize) -> Vec<usize> {
    let mut members = vec![number];
    while let Some(next) = (0..entries.len()).find(|&next| entries[next].behind == members.last().copied()) {
        members.push(next);
    }
    members
}

/// Of entries that agree in all but the first extent.
fn unit_shape(entries: &[Entry], members: &[usize]) -> Result<Shape> {
    let room = &entries[members[0]].room;
    let mut dims = room.dims().to_vec();
    if let Some(first) = dims.first_mut() {
        *first = members.iter().map(|&member| entries[member].room.dims()[0]).sum();
    }
    Shape::new(&dims)
}

/// One f32 tensor for each bucket of some [`Parameters`](crate::Parameters), and in it a place for each parameter.
#[derive(Clone, Debug)]
pub struct Flat {
    pub(crate) places: Arc<Places>,
    tensors: Vec<Tensor>,
    /// A view of each parameter's place, in order of registration.
    views: Vec<Tensor>,
    /// A view of each unit.
    units: Vec<Tensor>,
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
        let view = |bucket: usize, start: u64, shape: Shape| {
            tensors[bucket].slice(0, start..start + shape.elements())?.reshape(shape)
        };
        let units = places.units.iter().map(|unit| view(unit.bucket, unit.start, unit.shape));
        let units = units.collect::<Result<Vec<Tensor>>>()?;
        let views = places.places.iter().map(|place| place.exact(&units[place.unit])).collect::<Result<_>>()?;
        Ok(Flat { places: Arc::clone(places), tensors, views, units })
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

    /// What a tape watches.
    pub(crate) fn units(&self) -> &[Tensor] {
        &self.units
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
            Ok(Entry {
                name: name.to_owned(),
                shape,
                room: shape,
                order: Order::AsShaped,
                init: Init::Zeros,
                decay,
                behind: None,
            })
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

    /// Those that are joined lie one behind the other, in the order in which they were joined, where the last of them would.
    #[test]
    fn joined_parameters_are_one_unit() {
        let shape = |rows: u64| Shape::new(&[rows, 32]).unwrap();
        let entry = |name: &str, rows: u64, behind: Option<usize>| {
            let (shape, name) = (shape(rows), name.to_owned());
            Entry { name, shape, room: shape, order: Order::AsShaped, init: Init::Zeros, decay: Decay::Yes, behind }
        };
        let entries = [entry("a", 2, None), entry("b", 4, None), entry("c", 6, Some(0)), entry("d", 2, Some(2))];
        let places = Places::new(&entries, 1 << 20).unwrap();
        let of = |number: usize| (places.places[number].start, places.places[number].unit, places.places[number].first);
        assert_eq!([of(0), of(1), of(2), of(3)], [(128, 1, 0), (0, 0, 0), (192, 1, 2), (384, 1, 8)]);
        assert_eq!(places.units[1].shape, shape(10));
    }
}
