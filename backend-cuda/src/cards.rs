//! Which NVIDIA cards this process sees, under stable names.
//!
//! Order and selection are the driver's: CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER decide what `cuda:0` is. A card is also
//! found by its UUID (`GPU-...`, `MIG-...`, or the beginning of one) and by its PCI address. With Multi-Instance GPU on,
//! the driver lists the slice that CUDA_VISIBLE_DEVICES names, or the first; all there are is `slices.rs`'s to say. Nothing is
//! opened before
//! [`CardEntry::open`]; listing takes what starting the driver takes.

use polywarp_core::{DeviceKind, Error, Result};

use crate::driver::{api, visible_devices};
use crate::native::{Card, cards as probe_cards};
use crate::slices::slices;

/// One card, or one slice of a card.
#[derive(Clone, Debug)]
pub struct CardEntry {
    /// The name it is chosen by: `cuda:0`.
    pub id: String,
    /// The marketing name.
    pub name: String,
    /// `GPU-...`, or `MIG-...` for a slice, as nvidia-smi writes it.
    pub uuid: String,
    /// PCI address, as wgpu gives it: `0000:3b:00.0`.
    pub pci_bus: String,
    /// Compute capability.
    pub compute_capability: (u32, u32),
    /// Total memory, bytes.
    pub memory_bytes: u64,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// Driver and CUDA version.
    pub driver: String,
    /// Whether it is a slice of a card (Multi-Instance GPU), which graphics APIs do not see.
    pub mig: bool,
    /// Why it cannot be used, when it cannot.
    pub unusable: Option<String>,
    pub(crate) card: Card,
}

/// Every card the driver lets this process see, in the driver's order.
///
/// # Errors
/// [`Error::BackendUnavailable`] when there is no driver, no card, or a driver too old, saying what to install.
pub fn cards() -> Result<Vec<CardEntry>> {
    let api = api()?;
    let driver = api.display();
    Ok(probe_cards(api)?.into_iter().enumerate().map(|(ordinal, card)| entry(ordinal, card, &driver)).collect())
}

fn entry(ordinal: usize, card: Card, driver: &str) -> CardEntry {
    CardEntry {
        id: format!("cuda:{ordinal}"),
        name: card.name.clone(),
        uuid: card.uuid.clone(),
        pci_bus: card.pci_bus(),
        compute_capability: card.compute_capability,
        memory_bytes: card.memory_bytes,
        kind: if card.integrated { DeviceKind::Integrated } else { DeviceKind::Discrete },
        driver: driver.to_owned(),
        mig: card.is_mig(),
        unusable: unusable(&card),
        card,
    }
}

/// The card called `name`: `cuda:1`, a UUID or the beginning of one, or a PCI address.
///
/// # Errors
/// [`Error::NoSuchDevice`] listing the names there are; as [`cards`].
pub fn card(name: &str) -> Result<CardEntry> {
    find(cards()?, name)
}

fn find(entries: Vec<CardEntry>, name: &str) -> Result<CardEntry> {
    let named = |entry: &&CardEntry| entry.id == name || same_pci(&entry.pci_bus, name) || entry.uuid == name;
    if let Some(entry) = entries.iter().find(named) {
        return Ok(entry.clone());
    }
    // The driver, too, takes the beginning of a UUID that only one has.
    let mut begun = entries.iter().filter(|entry| name.len() > 4 && entry.uuid.starts_with(name));
    if let (Some(entry), None) = (begun.next(), begun.next()) {
        return Ok(entry.clone());
    }
    let mut available: Vec<String> =
        entries.into_iter().map(|entry| format!("{} ({})", entry.id, entry.uuid)).collect();
    let slices = slices().into_iter().map(|slice| format!("CUDA_VISIBLE_DEVICES={} chooses a slice", slice.name));
    available.extend(slices);
    available.extend(visible_devices().map(|value| format!("CUDA_VISIBLE_DEVICES={value} may hide others")));
    Err(Error::NoSuchDevice { name: name.to_owned(), variable: None, available })
}

/// Whether `text` is the address `pci`: nvidia-smi writes capitals and eight digits of the domain.
fn same_pci(pci: &str, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let trimmed = if text.len() == 16 { text.strip_prefix("0000").unwrap_or(&text) } else { &text };
    pci == trimmed
}

fn unusable(card: &Card) -> Option<String> {
    if card.prohibited {
        return Some("its compute mode is `prohibited` (nvidia-smi -c 0 changes that)".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_entry(ordinal: usize, uuid: &str, bus: u32) -> CardEntry {
        let card = Card {
            device: ordinal as i32,
            name: "NVIDIA Test".to_owned(),
            uuid: uuid.to_owned(),
            pci: (0, bus, 0),
            compute_capability: (9, 0),
            memory_bytes: 1 << 34,
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [i32::MAX as u32, 65_535, 65_535],
            max_shared_bytes: 48 << 10,
            integrated: false,
            ecc: true,
            prohibited: ordinal == 2,
            ..Card::default()
        };
        entry(ordinal, card, "")
    }

    #[test]
    fn find_knows_cards_by_ordinal_uuid_and_pci_address() {
        let entries = vec![
            test_entry(0, "GPU-aaaa1111-x", 0x3b),
            test_entry(1, "GPU-aaaa2222-x", 0xaf),
            test_entry(2, "MIG-c", 0xb0),
        ];
        for (name, id) in [
            ("cuda:1", "cuda:1"),
            ("GPU-aaaa1111-x", "cuda:0"),
            ("GPU-aaaa2", "cuda:1"),
            ("0000:af:00.0", "cuda:1"),
            ("00000000:AF:00.0", "cuda:1"),
            ("MIG-c", "cuda:2"),
        ] {
            assert_eq!(find(entries.clone(), name).map(|entry| entry.id).unwrap(), id, "{name}");
        }
        for name in ["cuda:3", "GPU-aaaa", "GPU-", "", "0000:af:00.1"] {
            let Err(Error::NoSuchDevice { available, .. }) = find(entries.clone(), name) else { panic!("{name}") };
            assert!(available[0].contains("cuda:0") && available[0].contains("GPU-aaaa1111"), "{available:?}");
        }
        assert!(entries[2].mig && entries[2].unusable.as_ref().is_some_and(|why| why.contains("prohibited")));
    }
}
