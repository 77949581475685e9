//! What a card is to planners and to users: its capabilities and limits, as the driver tells them.

use polywarp_core::oracle::Subnormals;
use polywarp_core::plan::{Caps, Cooperative};
use polywarp_core::{DType, DeviceInfo, DeviceKind, Limits};

use crate::driver::Api;
use crate::native::Card;

/// What planners may use.
pub(crate) fn caps(id: &str, card: &Card) -> Caps {
    Caps {
        device: id.to_owned(),
        f16: true,
        f64: true,
        i64: true,
        // `cvt.rn`.
        nearest_conversions: true,
        subgroups: Some((32, 32)),
        max_invocations: card.max_threads_per_block,
        max_workgroup_bytes: card.workgroup_bytes(),
        max_workgroups: card.max_grid,
        // Two parameters of 8 bytes each, in a block of 4 KiB.
        max_storage_buffers: 128,
        // From Volta on, which is the oldest card the compiler knows.
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        max_loop_rounds: None,
    }
}

/// What planners of the kernels in CUDA C++ may use. What a driver does not tell is taken to be little.
pub(crate) fn native_caps(id: &str, card: &Card, api: &Api) -> polywarp_kernels::Caps {
    let (major, minor) = card.compute_capability;
    polywarp_kernels::Caps {
        device: id.to_owned(),
        sm: 10 * major + minor,
        multiprocessors: card.multiprocessors.max(1),
        max_shared_bytes: card.workgroup_bytes(),
        shared_bytes_per_multiprocessor: card.multiprocessor_shared_bytes.max(card.max_shared_bytes),
        l2_bytes: u64::from(card.l2_bytes),
        clock_mhz: (card.clock_khz / 1000).max(1000),
        // Two transfers a clock. Drivers of cards with unified memory may tell of no bus.
        memory_bytes_per_s: (250.0 * f64::from(card.memory_clock_khz) * f64::from(card.memory_bus_bits)).max(1e11),
        tensor_maps: major >= 9 && api.cuTensorMapEncodeTiled.is_some() && api.cuTensorMapEncodeIm2col.is_some(),
    }
}

/// What users are told.
pub(crate) fn device_info(caps: &Caps, card: &Card, driver: String) -> DeviceInfo {
    let (major, minor) = card.compute_capability;
    let mut features = vec![format!("sm_{major}{minor}"), "f16".to_owned(), "f64".to_owned(), "i64".to_owned()];
    features.extend(["subgroups".to_owned(), format!("{} multiprocessors", card.multiprocessors)]);
    features.extend(card.ecc.then(|| "ecc".to_owned()));
    features.extend(card.is_mig().then(|| "mig".to_owned()));
    DeviceInfo {
        id: caps.device.clone(),
        name: card.name.clone(),
        api: "cuda".to_owned(),
        kind: if card.integrated { DeviceKind::Integrated } else { DeviceKind::Discrete },
        driver,
        pci_bus: Some(card.pci_bus()),
        memory_bytes: Some(card.memory_bytes),
        threads: None,
        limits: Limits {
            max_buffer_bytes: max_buffer_bytes(card),
            max_binding_bytes: max_buffer_bytes(card),
            max_workgroups: caps.max_workgroups,
            max_invocations_per_workgroup: caps.max_invocations,
            max_workgroup_bytes: caps.max_workgroup_bytes,
        },
        dtypes: DType::ALL.into_iter().filter(|&dtype| caps.require(dtype).is_ok()).collect(),
        features,
        // No instruction of ours flushes (naga-ptx writes `.ftz` only where the result is the same), and the harness holds
        // every op to it.
        subnormals: Subnormals::Kept,
    }
}

/// Whole four-element vectors, so that a buffer's last load stays inside of it.
pub(crate) fn max_buffer_bytes(card: &Card) -> u64 {
    card.memory_bytes / 16 * 16
}
