//! Access of one card to another's memory: what makes a copy between them direct.
//!
//! The driver copies between any two cards, but by way of the host's memory until one of the two contexts was given access
//! to the other's. It is asked for at the first copy, not when devices are opened: it maps all of the other card's memory,
//! for which most programs have no use.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use polywarp_core::Result;

use super::Context;
use crate::fault::lock;
use crate::status::{Severity, code, severity};

/// The contexts that one was to be given access to.
pub(super) struct Peers {
    /// Which context this is: a handle may come again once its context is gone.
    number: u64,
    asked: Mutex<HashSet<u64>>,
}

impl Peers {
    pub(super) fn new() -> Peers {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Peers { number: NEXT.fetch_add(1, Ordering::Relaxed), asked: Mutex::default() }
    }
}

impl Context {
    /// Gives this context access to the memory of `other`, once. A pair of cards that has none is no error: copies between
    /// them then go by way of the host's memory.
    ///
    /// # Errors
    /// The fault that this device has.
    pub(super) fn reach(&self, other: &Context) -> Result<()> {
        if self.device == other.device {
            return Ok(()); // one memory
        }
        // Held until it is done: a second copy is not to start before.
        let mut asked = lock(&self.peers.asked);
        if asked.contains(&other.peers.number) {
            return Ok(());
        }
        let refused = match (self.api.cuDeviceCanAccessPeer, self.api.cuCtxEnablePeerAccess) {
            (Some(can), Some(enable)) => {
                let mut able = 0;
                let done = self.attempt(|_| {
                    // SAFETY: the driver named both devices, and the pointer is to a live local.
                    match unsafe { can(&mut able, self.device, other.device) } {
                        // SAFETY: this context is current, and the other alive; there are no flags.
                        code::SUCCESS if able != 0 => unsafe { enable(other.raw, 0) },
                        answer => answer,
                    }
                })?;
                match done {
                    code::SUCCESS if able == 0 => Some("the cards cannot".to_owned()),
                    // By the application, or an earlier device on these cards.
                    code::SUCCESS | code::PEER_ACCESS_ALREADY_ENABLED => None,
                    failed if severity(failed) == Severity::Call => Some(self.api.words(failed)),
                    fault => return Err(self.error("copy_to_peer", fault)),
                }
            }
            _ => Some("the driver has no function for it".to_owned()),
        };
        asked.insert(other.peers.number);
        let (from, to) = (self.fault.device(), other.fault.device());
        match refused {
            None => log::debug!("{from} reaches the memory of {to}"),
            Some(why) => log::info!("copies from {from} to {to} go by way of the host's memory: {why}"),
        }
        Ok(())
    }
}
