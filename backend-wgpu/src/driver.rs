//! One thread at a time makes or destroys what the driver has: a device, or the instance it came from.
//!
//! NVIDIA's Vulkan driver waits for ever when one thread is in `vkCreateDevice` while another is in `vkDestroyDevice` (seen on
//! an H200: the second joins a thread of the driver, which cleans up and needs what the first holds). wgpu destroys a device
//! with the last handle of anything on it, wherever that goes. So whatever keeps such handles also keeps a [`Kept`] device, as
//! its last field, and the last of those drops the device alone. The decisions to know:
//!
//! * The lock is one for the process and all APIs: making and destroying are rare, and which driver minds cannot be asked.
//! * A thread that has it may take it again: what goes with a device may own another one.
//! * It is never held across an `await`. In a browser there is no such driver and nothing may block: there is no lock.
//! * Handles that an application cloned, and devices that it makes itself, are not ours to lock
//!   ([`WgpuBackend::device`](crate::WgpuBackend::device) says so).

use std::ops::Deref;
use std::sync::Arc;

/// A handle of wgpu with its clones, the last of which goes while no other thread makes or destroys a device. Stands for the
/// handle.
#[derive(Clone, Debug)]
pub(crate) struct Kept<T> {
    handle: T,
    // Behind `handle`: the last clone of the handle is the one in here.
    _last: Arc<Last<T>>,
}

impl<T: Clone> Kept<T> {
    pub(crate) fn new(handle: T) -> Kept<T> {
        let last = Arc::new(Last(Some(handle.clone())));
        Kept { handle, _last: last }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.handle
    }
}

#[derive(Debug)]
struct Last<T>(Option<T>);

impl<T> Drop for Last<T> {
    fn drop(&mut self) {
        let handle = self.0.take();
        alone(|| drop(handle));
    }
}

/// Runs `work` while no other thread is in here; inside of another call at once.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn alone<T>(work: impl FnOnce() -> T) -> T {
    if native::inside() {
        return work();
    }
    let _inside = native::enter();
    work()
}

/// Runs `work`.
#[cfg(target_arch = "wasm32")]
fn alone<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::cell::Cell;
    use std::sync::{Mutex, MutexGuard};

    use crate::fault::lock;

    static DRIVER: Mutex<()> = Mutex::new(());

    thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether this thread has the lock.
    pub(super) fn inside() -> bool {
        INSIDE.get()
    }

    /// The lock, held by this thread; also after a panic elsewhere, since it guards no data.
    pub(super) struct Inside {
        _guard: MutexGuard<'static, ()>,
    }

    pub(super) fn enter() -> Inside {
        let guard = lock(&DRIVER);
        INSIDE.set(true);
        Inside { _guard: guard }
    }

    impl Drop for Inside {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests;
