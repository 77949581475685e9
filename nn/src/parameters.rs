//! Named parameters in flat buckets, with their gradients.
//!
//! Not a module tree: a layer registers its parameters in a [`Builder`] under names and asks for them by these names. The decision to know: a
//! parameter is a view of its bucket, so whoever writes the bucket (an optimiser, a file) changes the parameter, under recordings as well.
//! Layout: `flat.rs`. Handles on a tape: `watched.rs`.

use std::collections::HashSet;
use std::sync::Arc;

use polywarp_core::{DType, Device, Error, Expr, Gradients, IntoShape, Result, Shape, Tape, Tensor};

use crate::buffers::{self, Buffers, fits};
use crate::flat::{ALIGNMENT, Entry, Order, Places};
use crate::{Decay, Flat, Init, Policy, Watched, constant, invalid};

/// Registers parameters, before there is a device.
#[derive(Clone, Debug)]
pub struct Builder {
    seed: u64,
    entries: Vec<Entry>,
    buffers: Vec<buffers::Entry>,
    names: HashSet<String>,
    all_decay: bool,
}

impl Builder {
    /// Without parameters. `seed` decides all random starting values.
    pub fn new(seed: u64) -> Builder {
        Builder { seed, entries: Vec::new(), buffers: Vec::new(), names: HashSet::new(), all_decay: false }
    }

    /// The same where all parameters decay, biases and normalisation too: what PyTorch's optimisers do unless parameters are put in
    /// groups.
    pub fn with_decay_of_all(self) -> Builder {
        Builder { all_decay: true, ..self }
    }

    /// One more parameter, f32. Its random numbers come from stream n of the seed if n parameters stand before it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty name, a name that there is already, and a shape without elements; as [`IntoShape`].
    pub fn add(&mut self, name: impl Into<String>, shape: impl IntoShape, init: Init, decay: Decay) -> Result<()> {
        self.add_with_room(name, shape, 1, init, decay)
    }

    /// One more parameter, with room behind it for a first extent that is a multiple of `multiple`: zeros, for products that are faster so.
    /// Whoever reads the room ([`Watched::unit`]) answers for a gradient of exactly zero there.
    pub(crate) fn add_with_room(
        &mut self,
        name: impl Into<String>,
        shape: impl IntoShape,
        multiple: u64,
        init: Init,
        decay: Decay,
    ) -> Result<()> {
        let (name, shape) = self.named(name.into(), shape)?;
        let decay = if self.all_decay { Decay::Yes } else { decay };
        let mut room = shape.dims().to_vec();
        if let Some(first) = room.first_mut() {
            *first = first.checked_next_multiple_of(multiple).unwrap_or(*first);
        }
        self.entries.push(Entry {
            name,
            shape,
            room: Shape::new(&room)?,
            order: Order::AsShaped,
            init,
            decay,
            behind: None,
        });
        Ok(())
    }

    /// One more parameter of filters, of PyTorch's shape [filters, channels, taps...], which lies as convolutions read it, [filters, taps...,
    /// channels]: a view everywhere but for [`Watched::unit`], so that neither steps nor files convert anything.
    pub(crate) fn add_filters(
        &mut self,
        name: impl Into<String>,
        shape: impl IntoShape,
        init: Init,
        decay: Decay,
    ) -> Result<()> {
        let (name, shape) = self.named(name.into(), shape)?;
        let [filters, channels, taps @ ..] = shape.dims() else {
            return invalid("parameter", format!("`{name}` of shape {shape} is no [filters, channels, taps...]"));
        };
        let room = Shape::new(&[&[*filters], taps, &[*channels]].concat())?;
        let decay = if self.all_decay { Decay::Yes } else { decay };
        self.entries.push(Entry { name, shape, room, order: Order::ChannelsLast, init, decay, behind: None });
        Ok(())
    }

    /// One more buffer, f32: numbers that no gradient moves, but that layers read and write, such as running statistics. They live on
    /// the device, so recorded steps change them, and are loaded and saved by name.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn add_buffer(&mut self, name: impl Into<String>, shape: impl IntoShape, init: Init) -> Result<()> {
        let (name, shape) = self.named(name.into(), shape)?;
        self.buffers.push(buffers::Entry { name, shape, init: Some(init) });
        Ok(())
    }

    /// One more buffer, a count: i32, one element of rank 0, 0 at first.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub fn add_count(&mut self, name: impl Into<String>) -> Result<()> {
        let (name, shape) = self.named(name.into(), Shape::new(&[])?)?;
        self.buffers.push(buffers::Entry { name, shape, init: None });
        Ok(())
    }

    /// A name that nothing has yet, and a shape with elements.
    fn named(&mut self, name: String, shape: impl IntoShape) -> Result<(String, Shape)> {
        let shape = shape.into_shape()?;
        if name.is_empty() {
            return invalid("parameter", "its name is empty");
        }
        if shape.elements() == 0 {
            return invalid("parameter", format!("`{name}` of shape {shape} has no elements"));
        }
        if !self.names.insert(name.clone()) {
            return invalid("parameter", format!("there are two named `{name}`"));
        }
        Ok((name, shape))
    }

    /// How many numbers are to be trained.
    pub fn elements(&self) -> u64 {
        self.entries.iter().map(|entry| entry.shape.elements()).sum()
    }

    /// Has parameters that differ in their first extent alone lie one behind the other, so that they can be read as one
    /// ([`Watched::unit`]); nothing else changes. False, and nothing is done, where their sizes leave gaps.
    pub(crate) fn join(&mut self, names: &[&str]) -> Result<bool> {
        let number = |name: &&str| match self.entries.iter().position(|entry| entry.name == *name) {
            Some(number) => Ok(number),
            None => invalid("parameter", format!("there is none named `{name}`")),
        };
        let numbers = names.iter().map(number).collect::<Result<Vec<usize>>>()?;
        let Some((&first, others)) = numbers.split_first() else { return Ok(false) };
        let of = |number: usize| &self.entries[number];
        let rest = |number: usize| of(number).shape.dims().get(1..);
        let is_alike = |number: usize| {
            let entry = of(number);
            let is_whole = entry.room == entry.shape
                && entry.order == Order::AsShaped
                && entry.shape.elements().is_multiple_of(ALIGNMENT);
            is_whole && entry.behind.is_none() && entry.decay == of(first).decay && rest(number) == rest(first)
        };
        if others.is_empty() || !numbers.iter().all(|&number| is_alike(number)) {
            return Ok(false);
        }
        for pair in numbers.windows(2) {
            self.entries[pair[1]].behind = Some(pair[0]);
        }
        Ok(true)
    }

    /// The parameters on `device`, at their starting values, with gradients of 0.
    ///
    /// Of matrices with the same options there is one bucket, of vectors another; another begins where a device's largest buffer or binding would be exceeded.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no parameters, and as [`Init::tensor`]; memory errors of the device.
    pub fn build(&self, device: &Device) -> Result<Parameters> {
        if self.entries.is_empty() {
            return invalid("parameters", "there are none");
        }
        let limits = &device.info().limits;
        let most = limits.max_buffer_bytes.min(limits.max_binding_bytes) / DType::F32.size_bytes();
        let places = Arc::new(Places::new(&self.entries, most / ALIGNMENT * ALIGNMENT)?);
        let values = Flat::zeros(device, &places)?;
        for (stream, (entry, view)) in self.entries.iter().zip(values.views()).enumerate() {
            view.assign(&entry.init.tensor(device, entry.shape, self.seed, stream as u64)?)?;
        }
        // Their random numbers, if any, come from the streams behind the parameters'.
        let buffers = Arc::new(Buffers::new(device, &self.buffers, self.seed, self.entries.len() as u64)?);
        Ok(Parameters { device: device.clone(), gradients: Flat::zeros(device, &places)?, values, buffers })
    }
}

/// Named parameters and their gradients on a device, in few flat tensors ([`Flat`]).
///
/// A parameter is a view of its bucket: whoever writes the bucket, such as an optimiser or a file, changes the parameter, under recordings
/// as well.
#[derive(Debug)]
pub struct Parameters {
    device: Device,
    values: Flat,
    gradients: Flat,
    buffers: Arc<Buffers>,
}

impl Parameters {
    /// The device that holds them.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The values.
    pub fn values(&self) -> &Flat {
        &self.values
    }

    /// The gradients, as [`Parameters::collect`] and [`Parameters::accumulate`] left them.
    pub fn gradients(&self) -> &Flat {
        &self.gradients
    }

    /// The buffers with their names, in order of registration: what layers keep beside parameters ([`Builder::add_buffer`]).
    pub fn buffers(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.buffers.iter()
    }

    pub(crate) fn shared_buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// The names of parameters, in order of registration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places().names.iter().map(String::as_str)
    }

    /// How many numbers are trained, padding not among them.
    pub fn elements(&self) -> u64 {
        self.places().places.iter().map(|place| place.shape.elements()).sum()
    }

    /// The parameter or buffer `name`: a view, which sees every step, and on no tape.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        if self.buffers.has(name) { self.buffers.get(name).cloned() } else { self.values.get(name).cloned() }
    }

    /// Puts `value` in the place of the parameter or buffer `name`. A count takes whole numbers of 32 and 64 bits, from any device.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name, and while a live tape watches the parameter; [`Error::ShapeMismatch`] for another shape,
    /// even one that would broadcast; [`Error::DTypeMismatch`] for another dtype than f32; [`Error::DeviceMismatch`].
    pub fn set(&self, name: &str, value: &Tensor) -> Result<()> {
        if self.buffers.has(name) {
            return self.buffers.get(name)?.assign(&self.buffers.fitting(name, value)?);
        }
        put(self.values.get(name)?, value)
    }

    /// Puts `values` in the places of all parameters and buffers, as a `state_dict` of PyTorch has them. Nothing is written where a name is missing, unknown or twice there, or a shape or
    /// dtype differs.
    ///
    /// # Errors
    /// As [`Parameters::set`], which also sets some alone.
    pub fn load<'a>(&self, values: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result<()> {
        let mut found: Vec<Option<&Tensor>> = vec![None; self.values.views().len()];
        let mut kept: Vec<(&str, Tensor)> = Vec::new();
        for (name, value) in values {
            if self.buffers.has(name) {
                if kept.iter().any(|(other, _)| *other == name) {
                    return invalid("parameters", format!("`{name}` is given twice"));
                }
                kept.push((name, self.buffers.fitting(name, value)?));
                continue;
            }
            let number = self.places().number(name)?;
            fits(&self.values.views()[number], value)?;
            if found[number].replace(value).is_some() {
                return invalid("parameters", format!("`{name}` is given twice"));
            }
        }
        if let Some(number) = found.iter().position(Option::is_none) {
            return invalid("parameters", format!("`{}` is missing", self.places().names[number]));
        }
        if let Some((name, _)) = self.buffers.iter().find(|(name, _)| !kept.iter().any(|(other, _)| other == name)) {
            return invalid("parameters", format!("the buffer `{name}` is missing"));
        }
        for (view, value) in self.values.views().iter().zip(found) {
            value.map_or(Ok(()), |value| view.assign(value))?;
        }
        kept.iter().try_for_each(|(name, value)| self.buffers.get(name)?.assign(value))
    }

    /// The parameters, watched by `tape`.
    ///
    /// # Errors
    /// As [`Tape::watch`].
    pub fn watch(&self, tape: &Tape) -> Result<Watched> {
        self.watch_as(tape, Policy::F32)
    }

    /// The parameters in the dtype that `policy` computes in, watched by `tape`. Where that is not f32 each bucket is converted first,
    /// in one launch; gradients then come in that dtype, and [`Parameters::collect`] converts them.
    ///
    /// # Errors
    /// As [`Tape::watch`]; [`Error::UndefinedForDType`] for a policy that computes in anything but f32, f16 or bf16.
    pub fn watch_as(&self, tape: &Tape, policy: Policy) -> Result<Watched> {
        let lowered = self.lowered(policy)?;
        let units = lowered.as_ref().unwrap_or(&self.values).units();
        let units = units.iter().map(|view| tape.watch(view)).collect::<Result<_>>()?;
        Watched::new(Arc::clone(self.places()), units, &self.buffers, policy)
    }

    /// The parameters as layers take them, on no tape: for use after training.
    pub fn unwatched(&self) -> Watched {
        Watched::of(&self.values, &self.buffers, Policy::F32)
    }

    /// [`Parameters::unwatched`] in the dtype that `policy` computes in. In 16 bits these are a copy, made once: half of the memory to read, and
    /// blind to later changes of the parameters.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for a policy that computes in anything but f32, f16 or bf16; memory errors of the device.
    pub fn unwatched_as(&self, policy: Policy) -> Result<Watched> {
        let lowered = self.lowered(policy)?;
        Ok(Watched::of(lowered.as_ref().unwrap_or(&self.values), &self.buffers, policy))
    }

    /// A copy in the dtype that `policy` computes in, where that is not f32.
    fn lowered(&self, policy: Policy) -> Result<Option<Flat>> {
        match policy.compute {
            DType::F32 => Ok(None),
            DType::F16 | DType::BF16 => self.values.cast(policy.compute).map(Some),
            dtype => Err(Error::UndefinedForDType { op: "policy", dtype }),
        }
    }

    /// The gradients of `loss`, one element, by the parameters that `tape` watches as `watched`: written into their places of the flat gradients,
    /// 0 where the loss does not depend on a parameter. The usual way from a loss to a step; most gradients are written there by the operation
    /// that computes them ([`Tape::backward_into`]). The gradients of other tensors that the tape watches are given back.
    ///
    /// # Errors
    /// As [`Tape::backward`]; [`Error::InvalidArgument`] for handles of other parameters.
    pub fn backward(&self, tape: Tape, watched: &Watched, loss: &Tensor) -> Result<Gradients> {
        self.gradients.expect_places("watched parameters", &watched.places)?;
        let places: Vec<(&Tensor, &Tensor)> = watched.units().iter().zip(self.gradients.units()).collect();
        tape.backward_into(loss, &places)
    }

    /// What [`Parameters::backward`] does, from gradients that are there already: writes each parameter's gradient into its place of the flat gradients, 0 where the loss does not depend on it. The launches are one
    /// copy for each parameter.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for handles of other parameters; what the device reports.
    pub fn collect(&self, watched: &Watched, gradients: &Gradients) -> Result<()> {
        self.gradients.expect_places("watched parameters", &watched.places)?;
        for (view, handle) in self.gradients.units().iter().zip(watched.units()) {
            match gradients.of(handle) {
                Some(gradient) if gradient.dtype() == view.dtype() => view.assign(gradient)?,
                Some(gradient) => {
                    Tensor::update(&[Expr::input(0).cast(view.dtype())], &[gradient], &[view]).map(drop)?
                }
                None => zero(view)?,
            }
        }
        Ok(())
    }

    /// [`Parameters::collect`], but adds: the sum over micro-batches, which begins with [`Parameters::zero_gradients`]. Let each loss be a
    /// sum, and divide once by the count of all of them ([`StepOptions::count`](crate::StepOptions::count)): a mean of means weighs
    /// micro-batches of few terms too much.
    ///
    /// # Errors
    /// As [`Parameters::collect`].
    pub fn accumulate(&self, watched: &Watched, gradients: &Gradients) -> Result<()> {
        self.gradients.expect_places("watched parameters", &watched.places)?;
        for (view, handle) in self.gradients.units().iter().zip(watched.units()) {
            if let Some(gradient) = gradients.of(handle) {
                let sum = Expr::input(1) + Expr::input(0).cast(view.dtype());
                Tensor::update(&[sum], &[gradient], &[view])?;
            }
        }
        Ok(())
    }

    /// All gradients become 0, whatever they hold.
    ///
    /// # Errors
    /// What the device reports.
    pub fn zero_gradients(&self) -> Result<()> {
        self.gradients.buckets().iter().try_for_each(zero)
    }

    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.values.places
    }
}

fn zero(tensor: &Tensor) -> Result<()> {
    Tensor::update(&[constant(0.0)], &[], &[tensor]).map(drop)
}

fn put(place: &Tensor, value: &Tensor) -> Result<()> {
    fits(place, value)?;
    place.assign(value)
}
