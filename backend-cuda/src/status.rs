//! What each status of the driver means for everything after it (cuda.h, `CUresult`).
//!
//! One table of every status that cuda.h has up to CUDA 13.1, so that each has been read once. A status of a newer driver that
//! is not in it counts as the failure of one call: what came of the work before is told by the next wait.

use std::ffi::c_uint;

/// `CUresult`, as the number it is.
pub(crate) type Code = c_uint;

/// The statuses that calls tell apart (cuda.h, `CUresult`).
pub(crate) mod code {
    use super::Code;

    pub(crate) const SUCCESS: Code = 0;
    pub(crate) const INVALID_VALUE: Code = 1;
    pub(crate) const OUT_OF_MEMORY: Code = 2;
    pub(crate) const NOT_INITIALIZED: Code = 3;
    pub(crate) const STUB_LIBRARY: Code = 34;
    pub(crate) const NO_DEVICE: Code = 100;
    pub(crate) const INVALID_IMAGE: Code = 200;
    pub(crate) const INVALID_CONTEXT: Code = 201;
    pub(crate) const NO_BINARY_FOR_GPU: Code = 209;
    pub(crate) const INVALID_PTX: Code = 218;
    pub(crate) const JIT_COMPILER_NOT_FOUND: Code = 221;
    pub(crate) const UNSUPPORTED_PTX_VERSION: Code = 222;
    pub(crate) const NOT_FOUND: Code = 500;
    pub(crate) const NOT_READY: Code = 600;
    pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
    pub(crate) const CONTEXT_IS_DESTROYED: Code = 709;
    pub(crate) const NOT_SUPPORTED: Code = 801;
    pub(crate) const UNKNOWN: Code = 999;
}

/// What a status means for everything after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The one call failed.
    Call,
    /// The context has ended; only another process can go on.
    Poisoned,
    /// The device, its driver or the way to it is gone.
    Lost,
}

/// What the status `failed` means.
pub(crate) fn severity(failed: Code) -> Severity {
    known(failed).map_or(Severity::Call, |(_, _, severity)| severity)
}

/// The name that cuda.h gives a status, for drivers that do not tell it.
pub(crate) fn name(failed: Code) -> Option<&'static str> {
    known(failed).map(|(_, name, _)| name)
}

fn known(failed: Code) -> Option<(Code, &'static str, Severity)> {
    STATUSES.binary_search_by_key(&failed, |&(code, ..)| code).ok().map(|at| STATUSES[at])
}

use Severity::{Call, Lost, Poisoned};

/// Ordered by number. Poisoned are those of which cuda.h says that the process is left "in an inconsistent state" and "must be
/// terminated", or that the context "cannot be used anymore"; errors of memory and links that hardware could not correct,
/// after which nothing computed can be trusted; and `UNKNOWN`, of which nothing better is known. Lost are those after which no call can
/// reach the device by this context.
const STATUSES: &[(Code, &str, Severity)] = &[
    (1, "CUDA_ERROR_INVALID_VALUE", Call),
    (2, "CUDA_ERROR_OUT_OF_MEMORY", Call),
    // The process was forked from one that used CUDA.
    (3, "CUDA_ERROR_NOT_INITIALIZED", Lost),
    (4, "CUDA_ERROR_DEINITIALIZED", Lost),
    (5, "CUDA_ERROR_PROFILER_DISABLED", Call),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", Call),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", Call),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", Call),
    (34, "CUDA_ERROR_STUB_LIBRARY", Call),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", Call),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE", Lost),
    (47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL", Call),
    (100, "CUDA_ERROR_NO_DEVICE", Call),
    (101, "CUDA_ERROR_INVALID_DEVICE", Call),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED", Call),
    (200, "CUDA_ERROR_INVALID_IMAGE", Call),
    // Our context was current and alive: another library has reset the device.
    (201, "CUDA_ERROR_INVALID_CONTEXT", Lost),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", Call),
    (205, "CUDA_ERROR_MAP_FAILED", Call),
    (206, "CUDA_ERROR_UNMAP_FAILED", Call),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED", Call),
    (208, "CUDA_ERROR_ALREADY_MAPPED", Call),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU", Call),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED", Call),
    (211, "CUDA_ERROR_NOT_MAPPED", Call),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", Call),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", Call),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE", Poisoned),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT", Call),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", Call),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", Call),
    (218, "CUDA_ERROR_INVALID_PTX", Call),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", Call),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", Poisoned),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", Call),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", Call),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", Call),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", Call),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", Call),
    // A bad access over NVLink or a hardware error, which the card has contained.
    (226, "CUDA_ERROR_CONTAINED", Poisoned),
    (227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION", Call),
    (300, "CUDA_ERROR_INVALID_SOURCE", Call),
    (301, "CUDA_ERROR_FILE_NOT_FOUND", Call),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", Call),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", Call),
    (304, "CUDA_ERROR_OPERATING_SYSTEM", Call),
    (400, "CUDA_ERROR_INVALID_HANDLE", Call),
    (401, "CUDA_ERROR_ILLEGAL_STATE", Call),
    (402, "CUDA_ERROR_LOSSY_QUERY", Call),
    (500, "CUDA_ERROR_NOT_FOUND", Call),
    (600, "CUDA_ERROR_NOT_READY", Call),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS", Poisoned),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", Call),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT", Poisoned),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", Call),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", Call),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", Call),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", Call),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", Lost),
    (710, "CUDA_ERROR_ASSERT", Poisoned),
    (711, "CUDA_ERROR_TOO_MANY_PEERS", Call),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", Call),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", Call),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR", Poisoned),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", Poisoned),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS", Poisoned),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", Poisoned),
    (718, "CUDA_ERROR_INVALID_PC", Poisoned),
    (719, "CUDA_ERROR_LAUNCH_FAILED", Poisoned),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", Call),
    // A kernel ended without giving its tensor memory back.
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", Poisoned),
    (800, "CUDA_ERROR_NOT_PERMITTED", Call),
    (801, "CUDA_ERROR_NOT_SUPPORTED", Call),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY", Call),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", Call),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", Call),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED", Call),
    // Work goes to the MPS server and no longer arrives there.
    (806, "CUDA_ERROR_MPS_RPC_FAILURE", Lost),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY", Call),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", Call),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", Call),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", Poisoned),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED", Call),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH", Call),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", Call),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", Call),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", Call),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", Call),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", Call),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", Call),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", Call),
    (907, "CUDA_ERROR_CAPTURED_EVENT", Call),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", Call),
    (909, "CUDA_ERROR_TIMEOUT", Call),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", Call),
    // Data that another device was to deliver is not valid.
    (911, "CUDA_ERROR_EXTERNAL_DEVICE", Poisoned),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", Call),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED", Call),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", Call),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", Call),
    // Confidential computing: the keys by which all data goes to and from the card.
    (916, "CUDA_ERROR_KEY_ROTATION", Lost),
    // The application has destroyed the green context that our stream is of: no call on it succeeds any more.
    (917, "CUDA_ERROR_STREAM_DETACHED", Lost),
    (918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", Call),
    (919, "CUDA_ERROR_FABRIC_NOT_READY", Call),
    (999, "CUDA_ERROR_UNKNOWN", Poisoned),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn with(severity: Severity) -> Vec<Code> {
        STATUSES.iter().filter(|(_, _, of)| *of == severity).map(|&(code, ..)| code).collect()
    }

    /// The lists are those of cuda.h's own words, read status by status.
    #[test]
    fn every_status_has_the_severity_that_cuda_h_gives_it() {
        assert!(STATUSES.is_sorted_by(|a, b| a.0 < b.0), "the search needs them in order");
        let poisoned = [214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999];
        assert_eq!(with(Severity::Poisoned), poisoned);
        assert_eq!(with(Severity::Lost), [3, 4, 46, 201, 709, 806, 916, 917]);
        for failed in 0..2000 {
            let expected = match failed {
                _ if poisoned.contains(&failed) => Severity::Poisoned,
                3 | 4 | 46 | 201 | 709 | 806 | 916 | 917 => Severity::Lost,
                _ => Severity::Call,
            };
            assert_eq!(severity(failed), expected, "{failed}");
        }
        assert_eq!((name(721), name(0), name(2000)), (Some("CUDA_ERROR_TENSOR_MEMORY_LEAK"), None, None));
    }

    /// The numbers are those that NVIDIA's own header gives the names, where cudarc's copy of it has them.
    #[test]
    fn statuses_are_those_of_the_header() {
        use cudarc::driver::sys::CUresult as Header;
        let named = |code: u32, name: &str| {
            // Only statuses that every supported header has may be made into the enum.
            let header = match code {
                1 => Header::CUDA_ERROR_INVALID_VALUE,
                214 => Header::CUDA_ERROR_ECC_UNCORRECTABLE,
                220 => Header::CUDA_ERROR_NVLINK_UNCORRECTABLE,
                700 => Header::CUDA_ERROR_ILLEGAL_ADDRESS,
                702 => Header::CUDA_ERROR_LAUNCH_TIMEOUT,
                709 => Header::CUDA_ERROR_CONTEXT_IS_DESTROYED,
                710 => Header::CUDA_ERROR_ASSERT,
                714 => Header::CUDA_ERROR_HARDWARE_STACK_ERROR,
                719 => Header::CUDA_ERROR_LAUNCH_FAILED,
                911 => Header::CUDA_ERROR_EXTERNAL_DEVICE,
                999 => Header::CUDA_ERROR_UNKNOWN,
                _ => return false,
            };
            assert_eq!((header as u32, format!("{header:?}")), (code, name.to_owned()));
            true
        };
        assert_eq!(STATUSES.iter().filter(|(code, name, _)| named(*code, name)).count(), 11);
    }
}
