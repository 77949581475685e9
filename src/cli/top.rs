//! `polywarp top`: how busy each device is, what memory it holds, how warm it is and whose work it does.
//!
//! | what | asked |
//! |---|---|
//! | NVIDIA's cards | their management library (NVML), opened when it is there: `doctor/nvidia/nvml.rs` |
//! | other cards, the processor | what Linux says in `/sys` and `/proc`: `top/linux.rs` |
//!
//! What nobody tells is a dash, never a made-up value.

#[path = "top/linux.rs"]
mod linux;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use console::Term;
use serde::Serialize;

use super::doctor::files::Disk;
use super::doctor::nvml::{self, Library, Process, State};
use super::{Fault, Verdict, say, size};

/// Shows how busy each device is, its memory, heat and power, and the processes that hold its memory
///
/// On a terminal the table is drawn anew until Ctrl-C; elsewhere it is written once. NVIDIA's cards are asked through their management library,
/// which counts all cards, whatever CUDA_VISIBLE_DEVICES says; other cards and the processor through what Linux says in /sys and /proc.
#[derive(clap::Args)]
pub struct Args {
    /// Prints a line of JSON each time: sizes in bytes, degrees Celsius, watts
    #[arg(long)]
    json: bool,
    /// Seconds from one look to the next, at least 0.05
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    every: f64,
    /// How many times to look; without it once, on a terminal until Ctrl-C
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
}

/// From the first look at counters to the second, where the first is shown alone.
const FIRST: Duration = Duration::from_millis(200);

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.05..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.05 to 86400 seconds".to_owned()) }
}

/// One look at everything.
#[derive(Serialize)]
struct Look {
    /// Since 1970.
    unix_seconds: f64,
    devices: Vec<Seen>,
    /// What could not be asked, and why.
    notes: Vec<String>,
}

/// What one device was seen to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Seen {
    name: String,
    /// `0000:3b:00.0`; none of the processor.
    pci_bus: Option<String>,
    /// Share of the time in which it computed.
    busy_percent: Option<f64>,
    memory_bytes: Option<u64>,
    memory_used_bytes: Option<u64>,
    celsius: Option<f64>,
    watts: Option<f64>,
    watts_limit: Option<f64>,
    /// Those that hold memory of it, the largest first, where this user may know.
    processes: Option<Vec<Process>>,
}

pub fn run(args: &Args) -> Result<Verdict, Fault> {
    let is_live = !args.json && io::stdout().is_terminal();
    let term = Term::stdout();
    let library = nvml::open();
    let mut processor = linux::Processor::new(&Disk);
    thread::sleep(FIRST);
    let (mut round, mut drawn) = (0, 0);
    loop {
        let look = look(&library, &mut processor);
        if args.json {
            let line = serde_json::to_string(&look).map_err(|e| Fault::Machine(format!("cannot write JSON: {e}")))?;
            say(line)?;
        } else {
            // A terminal that is not told how wide it is takes whole lines.
            let width = if is_live { term.size_checked().map(|(_, columns)| usize::from(columns)) } else { None };
            let lines: Vec<String> = table(&look).into_iter().map(|line| fitted(line, width)).collect();
            if is_live {
                // As many lines as a terminal shows can be taken back.
                let shown =
                    term.size_checked().map_or(drawn, |(rows, _)| drawn.min(usize::from(rows).saturating_sub(1)));
                term.clear_last_lines(shown).map_err(super::output_failed)?;
                drawn = lines.len();
            } else if round > 0 {
                say("")?;
            }
            lines.iter().try_for_each(say)?;
        }
        round += 1;
        let is_done = args.times.map_or(!is_live, |times| round >= times);
        if is_done {
            return Ok(Verdict::Well);
        }
        thread::sleep(Duration::from_secs_f64(args.every));
    }
}

fn look(library: &Result<Library, nvml::Unopened>, processor: &mut linux::Processor) -> Look {
    let mut notes = Vec::new();
    let mut devices: Vec<Seen> = match library {
        Ok(library) => match library.cards() {
            Ok(cards) => cards.into_iter().map(|card| of_nvidia(card, &mut notes)).collect(),
            Err(fault) => {
                notes.push(format!("NVIDIA's management library: {fault}"));
                Vec::new()
            }
        },
        Err(unopened) => {
            // Without a card of NVIDIA's nobody misses it.
            if linux::has_nvidia(&Disk) {
                notes.push(format!(
                    "NVIDIA's cards cannot be asked: {}; `polywarp doctor` says what to do",
                    unopened.fault
                ));
            }
            Vec::new()
        }
    };
    devices.extend(linux::cards(&Disk));
    if devices.is_empty() && notes.is_empty() {
        let asked = "NVIDIA's management library and Linux's /sys/class/drm know of none";
        notes.push(format!("no GPU that says how busy it is: {asked}; `polywarp devices` lists what computes"));
    }
    devices.push(processor.look(&Disk));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Look { unix_seconds: now.as_secs_f64(), devices, notes }
}

fn of_nvidia(card: State, notes: &mut Vec<String>) -> Seen {
    if let Some(fault) = &card.fault {
        notes.push(format!("{}: {fault}", card.name));
    }
    Seen {
        name: card.name,
        pci_bus: card.pci_bus,
        busy_percent: card.busy_percent.map(f64::from),
        memory_bytes: card.memory.map(|(total, _)| total),
        memory_used_bytes: card.memory.map(|(total, free)| total.saturating_sub(free)),
        celsius: card.celsius.map(f64::from),
        watts: card.watts.map(|(now, _)| f64::from(now)),
        watts_limit: card.watts.map(|(_, limit)| f64::from(limit)),
        processes: card.processes,
    }
}

/// Columns of the table: the name, and what stands behind it.
const NAME: usize = 34;

fn table(look: &Look) -> Vec<String> {
    let mut lines = vec![format!("{:<NAME$} {:>6}  {:<22} {:>6}  {}", "device", "busy", "memory", "heat", "power")];
    for device in &look.devices {
        let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let memory = device.memory_bytes.map(|total| match device.memory_used_bytes {
            Some(used) => format!("{} of {}", size(used), size(total)),
            None => format!("of {}", size(total)),
        });
        let power = device.watts.map(|watts| match device.watts_limit {
            Some(limit) => format!("{watts:.0} of {limit:.0} W"),
            None => format!("{watts:.0} W"),
        });
        let busy = known(device.busy_percent.map(|percent| format!("{percent:.0} %")));
        let heat = known(device.celsius.map(|celsius| format!("{celsius:.0} °C")));
        let name = match &device.pci_bus {
            Some(bus) => format!("{} ({bus})", device.name),
            None => device.name.clone(),
        };
        let name = console::truncate_str(&name, NAME, "…");
        lines.push(format!("{name:<NAME$} {busy:>6}  {:<22} {heat:>6}  {}", known(memory), known(power)));
        for process in device.processes.iter().flatten() {
            let program = process.name.as_deref().map_or("-", |path| path.rsplit('/').next().unwrap_or(path));
            let line = format!("  {:>8} {program}", process.pid);
            let line = console::truncate_str(&line, NAME, "…");
            lines.push(format!("{line:<NAME$} {:>6}  {}", "", known(process.bytes.map(size))));
        }
    }
    lines.extend(look.notes.iter().cloned());
    lines
}

/// A line no wider than the terminal.
fn fitted(line: String, width: Option<usize>) -> String {
    let line = line.trim_end().to_owned();
    match width {
        Some(width) => console::truncate_str(&line, width.max(1), "…").into_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_dashes_and_lines_fit_a_narrow_terminal() {
        let card = Seen {
            name: "A card with a name that is longer than its column".to_owned(),
            pci_bus: Some("0000:3b:00.0".to_owned()),
            busy_percent: Some(97.6),
            memory_bytes: Some(80 << 30),
            memory_used_bytes: Some(3 << 29),
            watts: Some(611.7),
            watts_limit: Some(700.0),
            processes: Some(vec![Process { pid: 4711, name: Some("/usr/bin/train".to_owned()), bytes: Some(1 << 30) }]),
            ..Seen::default()
        };
        let other = Seen { name: "unknown".to_owned(), ..Seen::default() };
        let lines = table(&Look { unix_seconds: 0.0, devices: vec![card, other], notes: vec!["a note".to_owned()] });
        assert_eq!(lines[1], "A card with a name that is longer…   98 %  1.5 GiB of 80.0 GiB         -  612 of 700 W");
        assert_eq!(lines[2].trim_end(), "      4711 train                           1.0 GiB");
        assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["unknown", "-", "-", "-", "-"]);
        assert_eq!(lines[4], "a note");
        let narrow: Vec<String> = lines.into_iter().map(|line| fitted(line, Some(20))).collect();
        assert!(narrow.iter().all(|line| line.chars().count() <= 20), "{narrow:?}");
    }

    #[test]
    fn intervals_are_numbers_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["0", "-1", "soon", "nan", "1e9"].iter().all(|text| seconds(text).is_err()));
    }
}
