//! Trying again when a device has no memory: other programs, and other threads of this one, give some back.
//!
//! What is too large for the device however long one waits is for [`crate::in_batches`].

use std::time::{Duration, Instant};

use crate::{Device, Error, Result};

/// The first wait, and the longest: each is twice the one before.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

impl Device {
    /// Calls `work` until it does not end for lack of memory, for at most about `patience`: after each [`Error::OutOfMemory`] what this device's pool
    /// keeps for later goes back to the driver, and the calling thread waits, 5 ms at first, then twice as long each time, up to a second. In
    /// a browser, where nobody may wait, there is one more attempt.
    ///
    /// `work` may be called several times, so it should only return what it computes; tensors that an attempt made are dropped with it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let sum = device.retry(Duration::from_secs(10), || {
    ///     let x = Tensor::from_slice(&device, &[1.0_f32, 2.0], [2])?;
    ///     x.sum(..)
    /// })?;
    /// assert_eq!(sum.item::<f32>()?, 3.0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last [`Error::OutOfMemory`] when `patience` is over; every other error of `work`, at once.
    pub fn retry<T>(&self, patience: Duration, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let start = if cfg!(target_arch = "wasm32") { None } else { Some(Instant::now()) };
        let mut wait = FIRST;
        let mut is_last = false;
        loop {
            match work() {
                Err(Error::OutOfMemory { .. }) if !is_last => {}
                ended => return ended,
            }
            self.empty_cache();
            match start {
                Some(start) => {
                    let left = patience.saturating_sub(start.elapsed());
                    is_last = left <= wait;
                    std::thread::sleep(wait.min(left));
                    wait = (2 * wait).min(LONGEST);
                }
                None => is_last = true,
            }
        }
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::cpu::CpuBackend;
    use crate::{DType, Tensor};

    #[test]
    fn retry_goes_on_until_there_is_memory() {
        let device = Device::cpu();
        device.backend_as::<CpuBackend>().unwrap().inject_out_of_memory(6);
        let mut attempts = 0;
        let made = device.retry(Duration::from_secs(60), || {
            attempts += 1;
            Tensor::zeros(&device, DType::F32, [64])
        });
        assert_eq!(made.unwrap().to_vec::<f32>().unwrap(), [0.0; 64]);
        assert!(attempts > 1, "{attempts} attempts");
    }

    #[test]
    fn retry_without_patience_tries_once_more_and_gives_the_error() {
        let device = Device::cpu();
        let mut attempts = 0;
        let failed = device.retry::<()>(Duration::ZERO, || {
            attempts += 1;
            Err(Error::OutOfMemory {
                device: "cpu".to_owned(),
                requested: 8,
                in_use: 1,
                cached: 2,
                limit: None,
                largest: Default::default(),
            })
        });
        assert!(
            matches!(failed, Err(Error::OutOfMemory { requested: 8, .. })) && attempts == 2,
            "{attempts}: {failed:?}"
        );
    }

    #[test]
    fn retry_passes_other_errors_on_at_once() {
        let device = Device::cpu();
        let mut attempts = 0;
        let failed = device.retry::<()>(Duration::from_secs(60), || {
            attempts += 1;
            Err(Error::DeviceLost { device: "cpu".to_owned(), reason: "gone".to_owned() })
        });
        assert!(matches!(failed, Err(Error::DeviceLost { .. })) && attempts == 1);
    }
}
