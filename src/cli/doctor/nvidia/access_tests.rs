//! One invented machine for each cause.

use super::super::files::{Container, Kernel, PciCard};
use super::super::library::Library;
use super::super::made_up::{Tree, both_routes, found, only, state, well, without_cuda};
use super::*;

/// A card on the bus and nothing else.
fn bare(driver: Option<&str>, kernel: Kernel) -> Nvidia {
    let card = PciCard { pci_bus: "0000:3b:00.0".to_owned(), driver: driver.map(str::to_owned) };
    Nvidia { looked: true, bus: vec![card], kernel, library: missing(), ..Nvidia::default() }
}

fn missing() -> Library {
    Library { fault: Some("no such file".to_owned()), ..Library::default() }
}

/// libcuda that starts with this status.
fn status(status: u32) -> Library {
    Library { status: Some(status), words: format!("status {status}"), ..well().library }
}

fn inside(machine: Nvidia, capabilities: Option<&str>) -> Nvidia {
    let capabilities = capabilities.map(str::to_owned);
    Nvidia { container: Container { inside: true, capabilities, devices: None }, ..machine }
}

#[test]
fn machine_without_a_card_is_a_fact() {
    let machine = Nvidia { library: missing(), ..Nvidia::read(&Tree::default(), &|_| None) };
    assert_eq!(only(&found(&machine), "no NVIDIA card on the PCI bus", "nothing"), Severity::Note);
    assert_eq!(found(&machine).len(), 1);
    let elsewhere = Nvidia { looked: false, ..machine };
    assert!(found(&elsewhere).is_empty(), "a system that was not looked at");
}

#[test]
fn library_that_does_not_start_is_named_where_no_card_is_seen() {
    let machine = |library: Library| Nvidia {
        looked: true,
        library: Library { path: Some("/usr/lib/libcuda.so.1".to_owned()), ..library },
        ..Nvidia::default()
    };
    let named = |library: Library, why: &str| {
        let found = found(&machine(library));
        assert_eq!(only(&found, why, "reinstall"), Severity::Note);
        assert_eq!(found.len(), 2, "{found:?}");
    };
    named(missing(), "no such file");
    named(Library { words: "CUDA_ERROR_UNKNOWN".to_owned(), ..started(999) }, "CUDA_ERROR_UNKNOWN");
    let refusal = Some("libcuda.so.1 has no function `cuGraphAddKernelNode_v2`: a newer driver is needed".to_owned());
    named(Library { refusal, ..started(0) }, "cuGraphAddKernelNode_v2");
    for library in [started(100), Library { refusal: Some("it finds no GPU".to_owned()), ..started(0) }] {
        assert_eq!(found(&machine(library)).len(), 1, "a driver on a machine without a card");
    }
}

/// libcuda of a driver that is new enough, started with this status.
fn started(status: u32) -> Library {
    Library { status: Some(status), cuda_version: Some(13_000), ..Library::default() }
}

#[test]
fn wsl_without_libcuda_names_windows_driver() {
    let read = Nvidia::read(&Tree::default().file("/dev/dxg", ""), &|_| None);
    let found = found(&Nvidia { library: missing(), ..read });
    assert_eq!(only(&found, "WSL", "wsl --update"), Severity::Note);
    assert!(found.iter().all(|finding| !finding.what.contains("PCI")));
}

#[test]
fn card_driven_by_nouveau_is_an_error_unless_vulkan_reaches_it() {
    let machine = bare(Some("nouveau"), Kernel::default());
    assert_eq!(only(&found(&machine), "0000:3b:00.0 is driven by nouveau", "nvidia-driver"), Severity::Error);
    let vulkan = &both_routes()[1..];
    let found = machine.findings(vulkan, VulkanFile::Absent);
    assert_eq!(only(&found, "driven by nouveau", "nvidia-driver"), Severity::Warning);
}

#[test]
fn card_set_aside_for_a_virtual_machine_is_a_note() {
    let machine = bare(Some("vfio-pci"), Kernel::default());
    assert_eq!(only(&found(&machine), "virtual machine", "unbind"), Severity::Note);
}

#[test]
fn card_without_kernel_driver_says_why() {
    let kernel = |installed, secure_boot| Kernel { module_installed: installed, secure_boot, ..Kernel::default() };
    for (kernel, what, fix) in [
        (kernel(Some(true), true), "Secure Boot is on", "mokutil"),
        (kernel(Some(true), false), "installed but not loaded", "modprobe nvidia"),
        (kernel(Some(false), true), "no module nvidia for the running kernel", "dkms"),
        (kernel(None, false), "has no kernel driver", "nvidia-driver"),
        (
            Kernel { version: Some("470.1".to_owned()), ..well().kernel },
            "not driven by the NVIDIA kernel driver 470.1",
            "NVRM",
        ),
    ] {
        assert_eq!(only(&found(&bare(None, kernel)), what, fix), Severity::Error, "{what}");
    }
}

#[test]
fn one_card_of_two_without_driver_is_named() {
    let mut machine = well();
    machine.bus.push(PciCard { pci_bus: "0000:af:00.0".to_owned(), driver: None });
    assert_eq!(only(&found(&machine), "0000:af:00.0 is not driven", "NVRM"), Severity::Error);
}

#[test]
fn container_without_the_card_says_how_to_give_it() {
    let read = Nvidia::read(
        &Tree::default().pci("0000:3b:00.0", "0x10de", "0x030200", Some("nvidia")).file("/.dockerenv", ""),
        &|name| (name == "NVIDIA_VISIBLE_DEVICES").then(|| "void".to_owned()),
    );
    let machine = Nvidia { library: missing(), ..read };
    assert_eq!(only(&found(&machine), "NVIDIA_VISIBLE_DEVICES is `void`", "--gpus all"), Severity::Error);
    let machine = inside(bare(Some("nvidia"), Kernel::default()), None);
    assert_eq!(only(&found(&machine), "no /dev/nvidia*", "--gpus all"), Severity::Error);
}

#[test]
fn missing_libcuda_is_a_package_outside_and_a_capability_inside_of_containers() {
    let machine = without_cuda(missing());
    assert_eq!(only(&found(&machine), "libcuda.so.1 cannot be opened (no such file)", "libcuda1"), Severity::Error);
    let lacking = inside(machine.clone(), Some("graphics,utility"));
    assert_eq!(only(&found(&lacking), "`graphics,utility`, which lacks compute", "CAPABILITIES=all"), Severity::Error);
    let bare = inside(machine.clone(), None);
    assert_eq!(only(&found(&bare), "sees the card but libcuda.so.1", "--gpus all"), Severity::Error);
    let found = machine.findings(&both_routes()[1..], VulkanFile::Present);
    assert_eq!(only(&found, "libcuda.so.1", "libcuda1"), Severity::Warning, "Vulkan serves the card");
}

#[test]
fn stub_is_named_with_its_path() {
    let path = Some("/usr/local/cuda/lib64/stubs/libcuda.so".to_owned());
    let stub = Library { path, ..status(34) };
    let found_with_card = found(&without_cuda(stub.clone()));
    assert_eq!(
        only(&found_with_card, "/stubs/libcuda.so is the CUDA toolkit's stub", "LD_LIBRARY_PATH"),
        Severity::Error
    );
    let without = Nvidia { looked: true, library: stub, ..Nvidia::default() };
    assert_eq!(only(&found(&without), "stub", "LD_LIBRARY_PATH"), Severity::Warning);
}

#[test]
fn library_that_is_no_driver_is_named() {
    let library = Library { fault: Some("it lacks cuInit".to_owned()), status: None, ..well().library };
    assert_eq!(only(&found(&without_cuda(library)), "it lacks cuInit", "ldconfig"), Severity::Error);
}

#[test]
fn library_and_kernel_of_two_versions_says_both() {
    let mut machine = without_cuda(status(803));
    machine.kernel.version = Some("565.57.01".to_owned());
    let what = "libcuda is of driver 570.86.15 but the kernel module is 565.57.01";
    assert_eq!(only(&found(&machine), what, "reboot"), Severity::Error);
    machine.library = status(999);
    assert_eq!(only(&found(&machine), what, "reboot"), Severity::Error, "as older drivers say it");
    let mut machine = without_cuda(status(999));
    machine.management.mismatch = true;
    assert_eq!(only(&found(&machine), "but the kernel module is", "reboot"), Severity::Error, "as NVML says it");
}

#[test]
fn statuses_of_cuda_have_their_own_fix() {
    for (number, what, fix) in [
        (802, "Fabric Manager must run", "nvidia-fabricmanager"),
        (804, "compatibility package", "cuda-compat"),
        (801, "does not start (status 801)", "nvidia-smi"),
        (304, "the system refused", "cgroups"),
        (999, "does not start (status 999)", "nvidia_uvm"),
        (100, "finds no card (status 100)", "NVRM"),
        (0, "starts but shows no card", "nvidia-smi"),
    ] {
        assert_eq!(only(&found(&without_cuda(status(number))), what, fix), Severity::Error, "{number}");
    }
}

#[test]
fn refusal_of_the_backend_is_passed_on() {
    let refusal = Some("libcuda.so has no function `cuX`: driver 470 is needed".to_owned());
    let machine = without_cuda(Library { refusal, ..status(0) });
    assert_eq!(only(&found(&machine), "no function `cuX`", "update"), Severity::Error);
}

#[test]
fn nodes_that_are_closed_or_missing_are_named() {
    let mut machine = without_cuda(status(100));
    machine.kernel.closed_nodes = vec!["/dev/nvidiactl".to_owned()];
    assert_eq!(only(&found(&machine), "may not open /dev/nvidiactl", "usermod"), Severity::Error);
    let mut machine = without_cuda(status(100));
    machine.kernel.nodes.clear();
    assert_eq!(only(&found(&machine), "/dev/nvidiactl or /dev/nvidia0 is missing", "nvidia-modprobe"), Severity::Error);
    let mut machine = without_cuda(status(999));
    machine.kernel.nodes.retain(|node| node != "/dev/nvidia-uvm");
    assert_eq!(only(&found(&machine), "/dev/nvidia-uvm is missing", "nvidia-modprobe"), Severity::Error);
}

#[test]
fn card_older_than_the_compiler_is_sent_to_vulkan() {
    let mut machine = well();
    machine.cards[0].compute_capability = (6, 1);
    assert_eq!(only(&found(&machine), "compute capability 6.1", "Vulkan"), Severity::Warning);
    let found = machine.findings(&both_routes(), VulkanFile::Present);
    assert_eq!(only(&found, "compute capability 6.1", "Vulkan"), Severity::Note);
}

#[test]
fn unusable_card_gives_the_reason_once() {
    let mut machine = well();
    machine.cards[0].unusable = Some("its compute mode is `prohibited`".to_owned());
    assert_eq!(only(&found(&machine), "cuda:0 (NVIDIA Test) cannot be used", "change"), Severity::Error);
    machine.management.cards = vec![super::super::nvml::State { compute_mode: Some("prohibited".into()), ..state() }];
    assert_eq!(only(&found(&machine), "prohibited", "nvidia-smi"), Severity::Error, "NVML knows how");
}

#[test]
fn missing_graphics_is_a_note_where_cuda_works() {
    let machine = inside(well(), Some("compute,utility"));
    let absent = machine.findings(&both_routes()[..1], VulkanFile::Absent);
    assert_eq!(only(&absent, "NVIDIA_DRIVER_CAPABILITIES is `compute,utility`", "graphics"), Severity::Note);
    let absent = well().findings(&both_routes()[..1], VulkanFile::Absent);
    assert_eq!(only(&absent, "nvidia_icd.json is missing", "nvidia-vulkan-icd"), Severity::Note);
    let defaults = inside(well(), None).findings(&[], VulkanFile::Absent);
    assert_eq!(only(&defaults, "is not set, so compute,utility", "graphics"), Severity::Note);
    assert!(machine.findings(&both_routes(), VulkanFile::Present).is_empty());
    let mut slices = machine;
    slices.cards[0].uuid = "MIG-cccc".to_owned();
    assert!(slices.findings(&[], VulkanFile::Absent).is_empty(), "no graphics API sees slices");
}
