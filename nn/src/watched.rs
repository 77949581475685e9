//! Parameters as layers take them: by name, on a tape or on none.
//!
//! A [`Watched`] holds handles, not copies. [`Parameters::watch`](crate::Parameters::watch) makes one for training,
//! [`Parameters::unwatched`](crate::Parameters::unwatched) and [`Average::unwatched`](crate::Average::unwatched) make one for use. The decision
//! to know: a layer does not see which of them it is given.

use std::sync::Arc;

use polywarp_core::{Result, Tensor};

use crate::flat::{Place, Places};
use crate::{Flat, Policy};

/// Handles of all parameters.
#[derive(Clone, Debug)]
pub struct Watched {
    pub(crate) places: Arc<Places>,
    handles: Vec<Tensor>,
    /// What a tape watches: with the room behind each.
    rooms: Vec<Tensor>,
    policy: Policy,
}

impl Watched {
    pub(crate) fn new(places: Arc<Places>, rooms: Vec<Tensor>, policy: Policy) -> Result<Watched> {
        let exact = |(room, place): (&Tensor, &Place)| {
            if place.room == place.shape { Ok(room.clone()) } else { room.slice(0, 0..place.shape.dims()[0]) }
        };
        let handles = rooms.iter().zip(&places.places).map(exact).collect::<Result<_>>()?;
        Ok(Watched { places, handles, rooms, policy })
    }

    pub(crate) fn of(flat: &Flat) -> Watched {
        let (handles, rooms) = (flat.views().to_vec(), flat.rooms().to_vec());
        Watched { places: Arc::clone(&flat.places), handles, rooms, policy: Policy::F32 }
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

    /// The parameter `name` with the room behind it, zeros: for products whose extents are to be multiples.
    pub(crate) fn with_room(&self, name: &str) -> Result<&Tensor> {
        Ok(&self.rooms[self.places.number(name)?])
    }

    /// What a tape watches, in order of registration.
    pub(crate) fn rooms(&self) -> &[Tensor] {
        &self.rooms
    }
}
