//! What Linux says of cards and of the processor in files.
//!
//! Sources: Documentation/gpu/amdgpu/thermal.rst (`gpu_busy_percent`, `hwmon`), Documentation/gpu/amdgpu/driver-misc.rst (`mem_info_vram_*`),
//! Documentation/gpu/drm-usage-stats.rst (`fdinfo`), proc(5). On other systems there are no such files, and nothing is known.

use std::collections::BTreeMap;

use super::super::doctor::files::{self, Files};
use super::super::doctor::nvml::Process;
use super::Seen;

/// Whether there is a card of NVIDIA's on the bus, or a way into its driver.
pub(super) fn has_nvidia(files: &impl Files) -> bool {
    !files::bus(files).is_empty() || files::kernel(files).is_loaded()
}

/// The cards whose drivers are part of Linux. NVIDIA's are asked otherwise.
pub(super) fn cards(files: &impl Files) -> Vec<Seen> {
    const FOLDER: &str = "/sys/class/drm";
    // `card0-HDMI-A-1` is a socket of card0.
    let is_card = |name: &String| name.strip_prefix("card").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let names = files.list(FOLDER).into_iter().filter(is_card);
    let found: Vec<(String, Seen)> = names
        .filter_map(|name| {
            let folder = format!("{FOLDER}/{name}/device");
            let driver = last(&files.link(&format!("{folder}/driver"))?);
            let pci_bus = files.text(&format!("{folder}/uevent")).and_then(|text| value(&text, "PCI_SLOT_NAME="));
            (driver != "nvidia").then(|| (folder.clone(), card(files, &folder, &driver, pci_bus)))
        })
        .collect();
    if found.is_empty() {
        return Vec::new();
    }
    let mut processes = processes(files);
    let with_processes = |(_, seen): (String, Seen)| {
        let own = seen.pci_bus.as_ref().and_then(|bus| processes.remove(bus));
        Seen { processes: Some(own.unwrap_or_default()), ..seen }
    };
    found.into_iter().map(with_processes).collect()
}

fn card(files: &impl Files, folder: &str, driver: &str, pci_bus: Option<String>) -> Seen {
    let number = |name: &str| files.text(&format!("{folder}/{name}"))?.parse::<f64>().ok();
    let monitors = files.list(&format!("{folder}/hwmon"));
    let monitored = |names: &[&str]| {
        let places =
            monitors.iter().flat_map(|monitor| names.iter().map(move |name| format!("hwmon/{monitor}/{name}")));
        places.into_iter().find_map(|place| number(&place))
    };
    Seen {
        name: files
            .text(&format!("{folder}/product_name"))
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| driver.to_owned()),
        pci_bus,
        busy_percent: number("gpu_busy_percent"),
        memory_bytes: number("mem_info_vram_total").map(|bytes| bytes as u64),
        memory_used_bytes: number("mem_info_vram_used").map(|bytes| bytes as u64),
        // Thousandths of a degree, millionths of a watt.
        celsius: monitored(&["temp1_input"]).map(|value| value / 1e3),
        watts: monitored(&["power1_average", "power1_input"]).map(|value| value / 1e6),
        watts_limit: monitored(&["power1_cap"]).map(|value| value / 1e6),
        processes: None,
    }
}

/// Those with a card's device file open, by the card's bus address: each with the memory on the card of all its files.
fn processes(files: &impl Files) -> BTreeMap<String, Vec<Process>> {
    let mut found: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    for pid in files.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
        // A client that is open twice counts once.
        let mut clients: BTreeMap<(String, String), u64> = BTreeMap::new();
        for file in files.list(&format!("/proc/{pid}/fdinfo")) {
            let Some(text) = files.text(&format!("/proc/{pid}/fdinfo/{file}")) else { continue };
            let Some(bus) = value(&text, "drm-pdev:") else { continue };
            let client = value(&text, "drm-client-id:").unwrap_or(file);
            clients.insert((bus, client), held(&text));
        }
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for ((bus, _), held) in clients {
            *bytes.entry(bus).or_default() += held;
        }
        for (bus, bytes) in bytes {
            let name = files.text(&format!("/proc/{pid}/comm"));
            found.entry(bus).or_default().push(Process { pid, name, bytes: Some(bytes) });
        }
    }
    found.values_mut().for_each(|list| list.sort_by_key(|process| std::cmp::Reverse(process.bytes)));
    found
}

/// Bytes that a file holds of the card's own memory.
fn held(fdinfo: &str) -> u64 {
    // The older name, and one for each region of memory.
    let names = ["drm-memory-vram:", "drm-resident-vram:", "drm-resident-vram0:", "drm-resident-local0:"];
    let Some(text) = names.iter().find_map(|name| value(fdinfo, name)) else { return 0 };
    let mut words = text.split_whitespace();
    let number: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    match words.next() {
        Some("KiB") => number << 10,
        Some("MiB") => number << 20,
        _ => number,
    }
}

/// The processor: its share of busy time is that since the look before.
pub(super) struct Processor {
    name: String,
    times: Option<Times>,
}

/// Ticks since the start of the machine.
#[derive(Clone, Copy, PartialEq)]
struct Times {
    all: f64,
    idle: f64,
}

impl Processor {
    pub(super) fn new(files: &impl Files) -> Processor {
        let info = files.text("/proc/cpuinfo").unwrap_or_default();
        let name = value(&info, "model name").map(|name| name.trim_start_matches([':', ' ', '\t']).to_owned());
        Processor { name: name.unwrap_or_else(|| "processor".to_owned()), times: times(files) }
    }

    pub(super) fn look(&mut self, files: &impl Files) -> Seen {
        let before = std::mem::replace(&mut self.times, times(files));
        let busy = before.zip(self.times).filter(|(before, now)| now.all > before.all).map(|(before, now)| {
            let idle = (now.idle - before.idle) / (now.all - before.all);
            (100.0 * (1.0 - idle)).clamp(0.0, 100.0)
        });
        let memory = files.text("/proc/meminfo").unwrap_or_default();
        let kibibytes = |name: &str| {
            let text = value(&memory, name)?;
            text.split_whitespace().next()?.parse::<u64>().ok().map(|number| number << 10)
        };
        let (total, available) = (kibibytes("MemTotal:"), kibibytes("MemAvailable:"));
        Seen {
            name: self.name.clone(),
            busy_percent: busy,
            memory_bytes: total,
            memory_used_bytes: total.zip(available).map(|(total, available)| total.saturating_sub(available)),
            celsius: heat(files),
            ..Seen::default()
        }
    }
}

fn times(files: &impl Files) -> Option<Times> {
    let text = files.text("/proc/stat")?;
    // user nice system idle iowait irq softirq steal; guests are in user already.
    let ticks: Vec<f64> =
        value(&text, "cpu ")?.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    Some(Times { all: ticks.iter().sum(), idle: ticks.get(3)? + ticks.get(4).copied().unwrap_or(0.0) })
}

/// Of the processor's own sensor.
fn heat(files: &impl Files) -> Option<f64> {
    const FOLDER: &str = "/sys/class/hwmon";
    let of_processor = |name: &str| matches!(name, "k10temp" | "coretemp" | "zenpower" | "cpu_thermal");
    files.list(FOLDER).into_iter().find_map(|monitor| {
        let name = files.text(&format!("{FOLDER}/{monitor}/name"))?;
        let value = of_processor(&name).then(|| files.text(&format!("{FOLDER}/{monitor}/temp1_input")))??;
        value.parse::<f64>().ok().map(|thousandths| thousandths / 1e3)
    })
}

/// What follows `name` on the line that begins with it.
fn value(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_owned())
}

fn last(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::super::doctor::made_up::Tree;
    use super::*;

    #[test]
    fn an_amd_card_and_its_processes_are_read() {
        let device = "/sys/class/drm/card1/device";
        let fdinfo = |client: u32, kibibytes: u32| {
            format!(
                "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t{kibibytes} KiB\n"
            )
        };
        let tree = Tree::default()
            .link_to(&format!("{device}/driver"), "../../../../bus/pci/drivers/amdgpu")
            .file(&format!("{device}/uevent"), "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n")
            .file(&format!("{device}/gpu_busy_percent"), "37\n")
            .file(&format!("{device}/mem_info_vram_total"), "17163091968\n")
            .file(&format!("{device}/mem_info_vram_used"), "1048576\n")
            .file(&format!("{device}/hwmon/hwmon4/temp1_input"), "54000\n")
            .file(&format!("{device}/hwmon/hwmon4/power1_average"), "42000000\n")
            .file("/sys/class/drm/card1-DP-1/status", "connected\n")
            .file("/proc/77/comm", "render\n")
            .file("/proc/77/fdinfo/5", &fdinfo(9, 1024))
            .file("/proc/77/fdinfo/6", &fdinfo(9, 1024))
            .file("/proc/77/fdinfo/7", &fdinfo(10, 512))
            .file("/proc/78/fdinfo/0", "pos:\t0\n");
        let seen = cards(&tree);
        let process = Process { pid: 77, name: Some("render".to_owned()), bytes: Some(1536 << 10) };
        let card = Seen {
            name: "amdgpu".to_owned(),
            pci_bus: Some("0000:03:00.0".to_owned()),
            busy_percent: Some(37.0),
            memory_bytes: Some(17_163_091_968),
            memory_used_bytes: Some(1 << 20),
            celsius: Some(54.0),
            watts: Some(42.0),
            watts_limit: None,
            processes: Some(vec![process]),
        };
        assert_eq!(seen, [card]);
    }

    #[test]
    fn the_processor_is_busy_for_what_was_not_idle_between_two_looks() {
        let at = |user: u32, idle: u32| {
            Tree::default()
                .file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: A Processor\n")
                .file("/proc/stat", &format!("cpu  {user} 0 10 {idle} 5 0 0 0 0 0\ncpu0 1 2 3 4\n"))
                .file("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n")
        };
        let mut processor = Processor::new(&at(100, 1000));
        let seen = processor.look(&at(130, 1010));
        assert_eq!((seen.name.as_str(), seen.busy_percent), ("A Processor", Some(75.0)));
        assert_eq!((seen.memory_bytes, seen.memory_used_bytes), (Some(1000 << 10), Some(600 << 10)));
        assert_eq!(processor.look(&at(130, 1010)).busy_percent, None, "no time has gone by");
        assert_eq!(Processor::new(&Tree::default()).look(&Tree::default()).busy_percent, None);
    }

    #[test]
    fn a_card_of_nvidia_is_left_to_its_library() {
        let tree = Tree::default().link_to("/sys/class/drm/card0/device/driver", "../nvidia");
        assert!(cards(&tree).is_empty() && !has_nvidia(&tree));
        assert!(has_nvidia(&Tree::default().pci("0000:3b:00.0", "0x10de", "0x030200", None)));
    }
}
