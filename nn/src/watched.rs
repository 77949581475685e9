//! Parameters as layers take them: by name, on a tape or on none.
//!
//! A [`Watched`] holds handles, not copies. [`Parameters::watch`](crate::Parameters::watch) makes one for training,
//! [`Parameters::unwatched`](crate::Parameters::unwatched) and [`Average::unwatched`](crate::Average::unwatched) make one for use. The decision
//! to know: a layer does not see which of them it is given.

use std::sync::Arc;

use polywarp_core::{Generator, Result, Tape, Tensor};

use crate::buffers::Buffers;
use crate::flat::Places;
use crate::{Dropout, Flat, Policy};

/// Handles of all parameters.
#[derive(Clone, Debug)]
pub struct Watched {
    pub(crate) places: Arc<Places>,
    handles: Vec<Tensor>,
    /// What a tape watches.
    units: Vec<Tensor>,
    buffers: Arc<Buffers>,
    policy: Policy,
}

impl Watched {
    pub(crate) fn new(
        places: Arc<Places>,
        units: Vec<Tensor>,
        buffers: &Arc<Buffers>,
        policy: Policy,
    ) -> Result<Watched> {
        let handles = places.places.iter().map(|place| place.exact(&units[place.unit])).collect::<Result<_>>()?;
        Ok(Watched { places, handles, units, buffers: Arc::clone(buffers), policy })
    }

    pub(crate) fn of(flat: &Flat, buffers: &Arc<Buffers>, policy: Policy) -> Watched {
        let (handles, units, buffers) = (flat.views().to_vec(), flat.units().to_vec(), Arc::clone(buffers));
        Watched { places: Arc::clone(&flat.places), handles, units, buffers, policy }
    }

    /// In what the parameters are given, and how exact products are.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The parameter `name`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for an unknown name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        Ok(&self.handles[self.places.number(name)?])
    }

    /// The buffer `name`: no tape watches it, and who writes it changes it for all.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for an unknown name.
    pub fn buffer(&self, name: &str) -> Result<&Tensor> {
        self.buffers.get(name)
    }

    /// What `run` makes of `inputs` and these parameters, without keeping what its operations read: on the way back it runs a second time, and
    /// draws the same random numbers. A stretch of a deep network, such as one of its layers: memory for time ([`Tape::checkpoint`]). Where
    /// `dropout` draws, the stretch draws from a generator that is forked from it.
    ///
    /// ```
    /// use polywarp_core::{Device, Generator, Tape, Tensor};
    /// use polywarp_nn::{Bias, Builder, Dropout, Linear};
    ///
    /// let device = Device::cpu();
    /// let mut builder = Builder::new(0);
    /// let layer = Linear::new(&mut builder, "fc", 4, 4, Bias::Yes)?;
    /// let parameters = builder.build(&device)?;
    /// let generator = Generator::new(&device, 1)?;
    ///
    /// let tape = Tape::new();
    /// let watched = parameters.watch(&tape)?;
    /// let x = Tensor::from_slice(&device, &[1.0f32, -1.0, 2.0, 0.5], [1, 4])?;
    /// let run = move |parameters: &_, inputs: &[Tensor], dropout: Dropout<'_>| {
    ///     Ok(vec![dropout.forward(&layer.forward(parameters, &inputs[0])?.gelu()?, 0.1)?])
    /// };
    /// let y = watched.checkpoint(&tape, &[&x], Dropout::by(&generator), run)?.swap_remove(0);
    /// parameters.backward(tape, &watched, &y.sum(..)?)?;
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tape::checkpoint`]: those of `run`, and results that depend on other watched tensors than these.
    pub fn checkpoint(
        &self,
        tape: &Tape,
        inputs: &[&Tensor],
        dropout: Dropout<'_>,
        run: impl Fn(&Watched, &[Tensor], Dropout<'_>) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    ) -> Result<Vec<Tensor>> {
        let forked = dropout.fork()?;
        let (places, buffers, policy, count) =
            (Arc::clone(&self.places), Arc::clone(&self.buffers), self.policy, inputs.len());
        let again = move |given: &[Tensor]| {
            let (inputs, units) = given.split_at(count);
            let watched = Watched::new(Arc::clone(&places), units.to_vec(), &buffers, policy)?;
            let drawn = forked.as_ref().map(Generator::copy).transpose()?;
            run(&watched, inputs, drawn.as_ref().map_or_else(Dropout::none, Dropout::by))
        };
        let given: Vec<&Tensor> = inputs.iter().copied().chain(&self.units).collect();
        tape.checkpoint(&given, again)
    }

    /// The parameter `name` as it lies, with the room behind it, zeros, or with those that it is joined with: for products that are faster so, and
    /// for filters, which lie as convolutions read them.
    pub(crate) fn unit(&self, name: &str) -> Result<&Tensor> {
        Ok(&self.units[self.places.places[self.places.number(name)?].unit])
    }

    /// What a tape watches.
    pub(crate) fn units(&self) -> &[Tensor] {
        &self.units
    }
}
