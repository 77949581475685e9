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
    /// What a tape watches: as it lies, with the room behind each.
    rooms: Vec<Tensor>,
    buffers: Arc<Buffers>,
    policy: Policy,
}

impl Watched {
    pub(crate) fn new(
        places: Arc<Places>,
        rooms: Vec<Tensor>,
        buffers: &Arc<Buffers>,
        policy: Policy,
    ) -> Result<Watched> {
        let handles = rooms.iter().zip(&places.places).map(|(room, place)| place.exact(room)).collect::<Result<_>>()?;
        Ok(Watched { places, handles, rooms, buffers: Arc::clone(buffers), policy })
    }

    pub(crate) fn of(flat: &Flat, buffers: &Arc<Buffers>) -> Watched {
        let (handles, rooms, buffers) = (flat.views().to_vec(), flat.rooms().to_vec(), Arc::clone(buffers));
        Watched { places: Arc::clone(&flat.places), handles, rooms, buffers, policy: Policy::F32 }
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

    /// The parameter `name` as it lies, with the room behind it, zeros: for products whose extents are to be multiples, and filters.
    pub(crate) fn with_room(&self, name: &str) -> Result<&Tensor> {
        Ok(&self.rooms[self.places.number(name)?])
    }

    /// What a tape watches, in order of registration.
    pub(crate) fn rooms(&self) -> &[Tensor] {
        &self.rooms
    }
}
