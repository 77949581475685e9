//! Parameters as layers take them: by name, on a tape or on none.
//!
//! A [`Watched`] holds handles, not copies. [`Parameters::watch`](crate::Parameters::watch) makes one for training,
//! [`Parameters::unwatched`](crate::Parameters::unwatched) and [`Average::unwatched`](crate::Average::unwatched) make one for use. The decision
//! to know: a layer does not see which of them it is given.

use std::sync::Arc;

use polywarp_core::{Result, Tensor};

use crate::buffers::Buffers;
use crate::flat::Places;
use crate::{Flat, Policy};

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
