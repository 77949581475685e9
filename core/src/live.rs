//! Which tensors are alive on a device, and what they are for: bytes by tag, and the largest ones when memory is short.
//!
//! A device keeps its book from the first [`Device::tagged`] or [`Device::list_tensors`] on; until then an allocation looks at one flag. A tensor's
//! memory is listed with the shape and dtype that it was made with, and leaves the list with the last tensor that views it. What is not a tensor is
//! not listed: the scratch of operations, and memory kept for reuse, which [`Device::memory`] counts. `ledger.rs` keeps the
//! list.

use crate::{Device, LiveTensors};

impl Device {
    /// Does `work`, whose tensors on this device are listed under `tag`; of nested scopes the innermost counts. It is this thread's work: threads that
    /// `work` starts have tags of their own.
    ///
    /// From here on the device lists its tensors ([`Device::live_tensors`]), and [`Error::OutOfMemory`](crate::Error::OutOfMemory) names the largest.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let weights = device.tagged("weights", || Tensor::zeros(&device, DType::F32, [1024]))?;
    /// let live = device.live_tensors();
    /// assert_eq!((live.tags[0].tag.as_str(), live.tags[0].in_use_bytes), ("weights", 4096));
    /// drop(weights);
    /// let live = device.live_tensors();
    /// assert_eq!((live.tags[0].in_use_bytes, live.tags[0].peak_bytes), (0, 4096));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn tagged<T>(&self, tag: &str, work: impl FnOnce() -> T) -> T {
        self.ledger().tagged(tag, work)
    }

    /// From here on the device lists its tensors, those outside of [`Device::tagged`] as `untagged`.
    pub fn list_tensors(&self) {
        self.ledger().keep();
    }

    /// The tensors that are alive, of those made since the device lists them ([`Device::tagged`], [`Device::list_tensors`]), with bytes and peak by
    /// tag. Inside of a recording tensors may lie in each other's memory, and each is counted.
    pub fn live_tensors(&self) -> LiveTensors {
        self.ledger().report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::UNTAGGED;
    use crate::{DType, Error, LiveTensor, Result, Tensor};

    fn floats(device: &Device, count: u64) -> Result<Tensor> {
        Tensor::zeros(device, DType::F32, [count])
    }

    fn of(device: &Device, tag: &str) -> (u64, u64, u64) {
        let live = device.live_tensors();
        let tag = live.tags.iter().find(|of| of.tag == tag).unwrap();
        (tag.in_use_bytes, tag.peak_bytes, tag.tensors)
    }

    #[test]
    fn device_that_nobody_asked_lists_nothing() {
        let device = Device::cpu();
        let _x = floats(&device, 16).unwrap();
        assert_eq!(device.live_tensors(), LiveTensors::default());
        assert!(device.memory().tags.is_empty());
    }

    #[test]
    fn memory_has_tags_beside_what_all_buffers_hold() {
        let device = Device::cpu();
        let plain = device.memory().to_string();
        assert_eq!(plain, "0 bytes in use, 0 at most so far, 0 kept for reuse, no limit");
        let _before = floats(&device, 16).unwrap();
        let _x = device.tagged("weights", || floats(&device, 32)).unwrap();
        let memory = device.memory();
        assert_eq!(memory.tags, device.live_tensors().tags);
        // What was made before is in no list.
        assert_eq!(memory.tags.iter().map(|tag| tag.in_use_bytes).sum::<u64>(), 128);
        assert!(memory.in_use_bytes >= 192, "{}", memory.in_use_bytes);
        assert!(memory.to_string().lines().nth(2).unwrap().starts_with("weights "), "{memory}");
    }

    #[test]
    fn innermost_scope_of_the_device_is_the_tag() {
        let (device, other) = (Device::cpu(), Device::cpu());
        let [a, b, c] = device.tagged("outer", || {
            let a = floats(&device, 16).unwrap();
            let b = device.tagged("inner", || other.tagged("elsewhere", || floats(&device, 32).unwrap()));
            [a, b, floats(&device, 16).unwrap()]
        });
        let d = floats(&device, 16).unwrap();
        assert_eq!([of(&device, "outer"), of(&device, "inner")], [(128, 128, 2), (128, 128, 1)]);
        assert_eq!(of(&device, UNTAGGED), (64, 64, 1));
        assert!(other.live_tensors().tensors.is_empty());
        // A view keeps it alive, and its last one ends it.
        let view = b.slice(0, ..4).unwrap();
        drop((a, b, c, d));
        assert_eq!([of(&device, "outer"), of(&device, "inner")], [(0, 128, 0), (128, 128, 1)]);
        drop(view);
        assert_eq!(of(&device, "inner"), (0, 128, 0));
    }

    #[test]
    fn panic_in_a_scope_leaves_it() {
        let device = Device::cpu();
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| device.tagged("gone", || panic!("on purpose"))));
        assert!(panicked.is_err());
        let _x = floats(&device, 16).unwrap();
        assert_eq!(of(&device, UNTAGGED), (64, 64, 1));
    }

    #[test]
    fn short_memory_names_the_largest_tensors() {
        let device = Device::cpu();
        device.set_memory_limit(Some(1 << 20));
        let small = device.tagged("inputs", || floats(&device, 1 << 10)).unwrap();
        let large = device.tagged("activations", || floats(&device, 1 << 17)).unwrap();
        let error = floats(&device, 1 << 18).unwrap_err();
        let Error::OutOfMemory { largest, .. } = &error else { panic!("{error}") };
        let tensor = |tag: &str, count: u64| LiveTensor {
            shape: vec![count],
            dtype: DType::F32,
            tag: tag.to_owned(),
            bytes: 4 * count,
        };
        assert_eq!(largest.0, [tensor("activations", 1 << 17), tensor("inputs", 1 << 10)]);
        let text = error.to_string();
        assert!(text.contains("largest: f32 [131072] of activations (524288 bytes), f32 [1024] of inputs"), "{text}");
        drop((small, large));
        assert!(floats(&device, 1 << 17).is_ok());
    }

    #[test]
    fn without_a_list_it_is_said_how_to_have_one() {
        let device = Device::cpu();
        device.set_memory_limit(Some(1 << 10));
        // Nothing to name yet.
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        assert!(text.ends_with("drop tensors or split the batch"), "{text}");
        let held = floats(&device, 16).unwrap();
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        let way = "; tensors made after a call of Device::list_tensors are named here, the largest first";
        assert!(text.ends_with(way), "{text}");
        let table = device.live_tensors().to_string();
        assert!(table.ends_with("made after a call of Device::list_tensors or Device::tagged"), "{table}");
        device.list_tensors();
        let listed = floats(&device, 16).unwrap();
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        assert!(text.ends_with("largest: f32 [16] of untagged (64 bytes)"), "{text}");
        drop((held, listed));
        let table = device.live_tensors().to_string();
        assert!(table.ends_with("no tensor is alive"), "{table}");
    }
}
