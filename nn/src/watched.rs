//! Parameters as layers take them: by name, on a tape or on none.
//!
//! A [`Watched`] holds handles, not copies. [`Parameters::watch`](crate::Parameters::watch) makes one for training,
//! [`Parameters::unwatched`](crate::Parameters::unwatched) and [`Average::unwatched`](crate::Average::unwatched) make one for use. The decision
//! to know: a layer does not see which of them it is given.

use std::sync::Arc;

use polywarp_core::{Result, Tensor};

use crate::flat::Places;
use crate::{Flat, Policy};

/// Handles of all parameters.
#[derive(Clone, Debug)]
pub struct Watched {
    pub(crate) places: Arc<Places>,
    handles: Vec<Tensor>,
    policy: Policy,
}

impl Watched {
    pub(crate) fn new(places: Arc<Places>, handles: Vec<Tensor>, policy: Policy) -> Watched {
        Watched { places, handles, policy }
    }

    pub(crate) fn of(flat: &Flat) -> Watched {
        Watched::new(Arc::clone(&flat.places), flat.views().to_vec(), Policy::F32)
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

    /// In order of registration.
    pub(crate) fn handles(&self) -> &[Tensor] {
        &self.handles
    }
}
