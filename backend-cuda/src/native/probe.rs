//! What the driver says of its cards, before one is opened.

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{CUdevice, CUuuid};
use polywarp_core::Result;

use crate::driver::{Api, unavailable};
use crate::status::code;

/// One card, or one slice of a card, as the driver lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) device: CUdevice,
    pub(crate) name: String,
    /// `GPU-...`, or `MIG-...` for a slice, as nvidia-smi and CUDA_VISIBLE_DEVICES write it.
    pub(crate) uuid: String,
    /// Domain, bus, device.
    pub(crate) pci: (u32, u32, u32),
    pub(crate) compute_capability: (u32, u32),
    pub(crate) memory_bytes: u64,
    pub(crate) multiprocessors: u32,
    pub(crate) max_threads_per_block: u32,
    /// Along x, y, z.
    pub(crate) max_block: [u32; 3],
    pub(crate) max_grid: [u32; 3],
    /// Shared memory of a block of a kernel that did not ask for more.
    pub(crate) max_shared_bytes: u32,
    /// Shared memory that a block may ask for, and what a multiprocessor has.
    pub(crate) opt_in_shared_bytes: u32,
    pub(crate) multiprocessor_shared_bytes: u32,
    pub(crate) l2_bytes: u32,
    pub(crate) clock_khz: u32,
    pub(crate) memory_clock_khz: u32,
    pub(crate) memory_bus_bits: u32,
    pub(crate) integrated: bool,
    pub(crate) ecc: bool,
    /// Compute mode "prohibited": no context can be made.
    pub(crate) prohibited: bool,
}

impl Card {
    /// Whether it is a slice of a card (Multi-Instance GPU).
    pub(crate) fn is_mig(&self) -> bool {
        self.uuid.starts_with("MIG-")
    }

    /// Its PCI address, in wgpu's spelling. CUDA lists a card's first function only.
    pub(crate) fn pci_bus(&self) -> String {
        let (domain, bus, device) = self.pci;
        format!("{domain:04x}:{bus:02x}:{device:02x}.0")
    }

    /// Shared memory that a block can have: beyond 48 KiB its kernel asks for it when it is loaded (`module.rs`).
    pub(crate) fn workgroup_bytes(&self) -> u32 {
        self.max_shared_bytes.max(self.opt_in_shared_bytes)
    }
}

/// Every card the driver lets this process see, in the driver's order.
pub(crate) fn cards(api: &Api) -> Result<Vec<Card>> {
    let mut count = 0;
    // SAFETY: the driver is initialised, and the pointer is to a live local.
    match unsafe { (api.cuDeviceGetCount)(&mut count) } {
        code::SUCCESS => {}
        failed => return Err(unavailable(format!("the cards cannot be counted: {}", api.words(failed)))),
    }
    (0..count)
        .map(|ordinal| {
            let mut device = 0;
            // SAFETY: the ordinal is below the count, and the pointer is to a live local.
            match unsafe { (api.cuDeviceGet)(&mut device, ordinal) } {
                code::SUCCESS => describe(api, device),
                failed => Err(unavailable(format!("card {ordinal} cannot be reached: {}", api.words(failed)))),
            }
        })
        .collect()
}

/// The card behind `device`.
pub(crate) fn describe(api: &Api, device: CUdevice) -> Result<Card> {
    let attribute = |number: c_int| {
        let mut value = 0;
        // SAFETY: the device is one that the driver named, and the pointer is to a live local; a number that this
        // driver does not know gives a status.
        let known = unsafe { (api.cuDeviceGetAttribute)(&mut value, number, device) } == code::SUCCESS;
        u32::try_from(value).ok().filter(|_| known).unwrap_or(0)
    };
    let mut name = [0 as c_char; 256];
    let mut uuid = CUuuid { bytes: [0; 16] };
    let mut memory = 0usize;
    // SAFETY: the pointers are to live locals of the lengths that are passed.
    let codes = unsafe {
        [
            (api.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int - 1, device),
            (api.cuDeviceGetUuid_v2)(&mut uuid, device),
            (api.cuDeviceTotalMem_v2)(&mut memory, device),
        ]
    };
    if let Some(&failed) = codes.iter().find(|&&code| code != code::SUCCESS) {
        return Err(unavailable(format!("card {device} cannot be described: {}", api.words(failed))));
    }
    // SAFETY: the driver ended the name, and the last byte of the array was not given to it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    // Numbers of `CUdevice_attribute` in cuda.h.
    Ok(Card {
        device,
        uuid: uuid_text(&uuid, name.contains(" MIG ")),
        pci: (attribute(50), attribute(33), attribute(34)),
        compute_capability: (attribute(75), attribute(76)),
        memory_bytes: memory as u64,
        multiprocessors: attribute(16),
        max_threads_per_block: attribute(1),
        max_shared_bytes: attribute(8),
        opt_in_shared_bytes: attribute(97),
        multiprocessor_shared_bytes: attribute(81),
        l2_bytes: attribute(38),
        clock_khz: attribute(13),
        memory_clock_khz: attribute(36),
        memory_bus_bits: attribute(37),
        max_block: [attribute(2), attribute(3), attribute(4)],
        max_grid: [attribute(5), attribute(6), attribute(7)],
        integrated: attribute(18) != 0,
        ecc: attribute(32) != 0,
        prohibited: attribute(20) == 2,
        name,
    })
}

fn uuid_text(uuid: &CUuuid, mig: bool) -> String {
    let hex: String = uuid.bytes.iter().map(|&byte| format!("{:02x}", byte as u8)).collect();
    let prefix = if mig { "MIG" } else { "GPU" };
    format!("{prefix}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_text_is_as_nvidia_smi_writes_it() {
        let bytes = std::array::from_fn(|i| (i as u8 * 17) as c_char);
        let uuid = CUuuid { bytes };
        assert_eq!(uuid_text(&uuid, false), "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert!(uuid_text(&uuid, true).starts_with("MIG-0011"));
    }

    #[test]
    fn pci_bus_is_wgpus() {
        let card = Card { pci: (0, 0x3b, 0), ..Card::default() };
        assert_eq!(card.pci_bus(), "0000:3b:00.0");
    }
}
