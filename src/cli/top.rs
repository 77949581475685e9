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
    #[arg(long, value_name = "TIMES", value_parser = times)]
    times: Option<u64>,
}

/// From the first look at counters to the second, where the first is shown alone.
const FIRST: Duration = Duration::from_millis(200);

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.05..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.05 to 86400 seconds".to_owned()) }
}

fn times(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|times| *times > 0).ok_or_else(|| "a whole number from 1 on".to_owned())
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
            let lines = table(&look, width);
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

/// Columns of the table: the name, of which a narrow terminal leaves fewer, and what stands behind it.
const NAME: usize = 34;
const BEHIND: usize = 52;
/// With fewer columns left for the name than this a device has lines of its own.
const LEAST_NAME: usize = 16;

/// What is known of a device as text, a dash each for what is not.
struct Facts {
    name: String,
    busy: String,
    memory: String,
    heat: String,
    power: String,
}

impl Facts {
    fn of(device: &Seen) -> Facts {
        let memory = device.memory_bytes.map(|total| match device.memory_used_bytes {
            Some(used) => format!("{} of {}", size(used), size(total)),
            None => format!("of {}", size(total)),
        });
        let power = device.watts.map(|watts| match device.watts_limit {
            Some(limit) => format!("{watts:.0} of {limit:.0} W"),
            None => format!("{watts:.0} W"),
        });
        Facts {
            name: match &device.pci_bus {
                Some(bus) => format!("{} ({bus})", device.name),
                None => device.name.clone(),
            },
            busy: known(device.busy_percent.map(|percent| format!("{percent:.0} %"))),
            memory: known(memory),
            heat: known(device.celsius.map(|celsius| format!("{celsius:.0} °C"))),
            power: known(power),
        }
    }
}

fn known(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// The lines of a look, for a terminal `width` columns wide or for what takes whole lines.
fn table(look: &Look, width: Option<usize>) -> Vec<String> {
    let name = width.map_or(NAME, |width| NAME.min(width.saturating_sub(BEHIND)));
    let mut lines = match width {
        Some(width) if name < LEAST_NAME => look.devices.iter().flat_map(|device| narrow(device, width)).collect(),
        _ => wide(&look.devices, name),
    };
    for note in &look.notes {
        match width {
            Some(width) => lines.extend(wrapped(note.split_whitespace(), " ", "", width)),
            None => lines.push(note.clone()),
        }
    }
    lines.into_iter().map(|line| fitted(&line, width)).collect()
}

/// A line for each device and each process, in columns.
fn wide(devices: &[Seen], columns: usize) -> Vec<String> {
    let mut lines = vec![format!("{:<columns$} {:>6}  {:<22} {:>6}  {}", "device", "busy", "memory", "heat", "power")];
    for device in devices {
        let Facts { name, busy, memory, heat, power } = Facts::of(device);
        let name = console::truncate_str(&name, columns, "…");
        lines.push(format!("{name:<columns$} {busy:>6}  {memory:<22} {heat:>6}  {power}"));
        for process in device.processes.iter().flatten() {
            let line = format!("  {:>8} {}", process.pid, program(process));
            let line = console::truncate_str(&line, columns, "…");
            lines.push(format!("{line:<columns$} {:>6}  {}", "", known(process.bytes.map(size))));
        }
    }
    lines
}

/// A device's name, and below it what is known of it, each with its own name.
fn narrow(device: &Seen, width: usize) -> Vec<String> {
    let Facts { name, busy, memory, heat, power } = Facts::of(device);
    let facts = [("busy", busy), ("memory", memory), ("heat", heat), ("power", power)];
    let facts: Vec<String> = facts.iter().map(|(what, value)| format!("{what} {value}")).collect();
    let mut lines = vec![name];
    lines.extend(wrapped(facts.iter().map(String::as_str), "  ", "  ", width));
    for process in device.processes.iter().flatten() {
        let bytes = known(process.bytes.map(size));
        let line = format!("    {} {}", process.pid, program(process));
        let line = console::truncate_str(&line, width.saturating_sub(2 + bytes.chars().count()), "…");
        lines.push(format!("{line}  {bytes}"));
    }
    lines
}

/// A process's file without its folder.
fn program(process: &Process) -> &str {
    process.name.as_deref().map_or("-", |path| path.rsplit('/').next().unwrap_or(path))
}

/// `pieces` in lines of at most `width` columns where each fits into one, with `between` two of them and `margin` before the first.
fn wrapped<'a>(pieces: impl Iterator<Item = &'a str>, between: &str, margin: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if console::measure_text_width(&format!("{line}{between}{piece}")) <= width => {
                line.push_str(between);
                line.push_str(piece);
            }
            _ => lines.push(format!("{margin}{piece}")),
        }
    }
    lines
}

/// A line no wider than the terminal.
fn fitted(line: &str, width: Option<usize>) -> String {
    let line = line.trim_end();
    match width {
        Some(width) => console::truncate_str(line, width.max(1), "…").into_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A card of which all but the heat is known, one of which nothing is, and a note.
    fn seen() -> Look {
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
        let notes = vec!["a note that is longer than a narrow terminal is wide".to_owned()];
        Look { unix_seconds: 0.0, devices: vec![card, other], notes }
    }

    #[test]
    fn unknown_values_are_dashes() {
        let lines = table(&seen(), None);
        assert_eq!(lines[1], "A card with a name that is longer…   98 %  1.5 GiB of 80.0 GiB         -  612 of 700 W");
        assert_eq!(lines[2], "      4711 train                           1.0 GiB");
        assert_eq!(lines[3].split_whitespace().collect::<Vec<_>>(), ["unknown", "-", "-", "-", "-"]);
        assert_eq!(lines[4..], ["a note that is longer than a narrow terminal is wide"]);
    }

    #[test]
    fn narrow_terminals_lose_the_end_of_names_alone() {
        let at_80 = table(&seen(), Some(80));
        assert_eq!(at_80[1], "A card with a name that is …   98 %  1.5 GiB of 80.0 GiB         -  612 of 700 W");
        let at_40 = table(&seen(), Some(40));
        let lines = [
            "A card with a name that is longer than …",
            "  busy 98 %  memory 1.5 GiB of 80.0 GiB",
            "  heat -  power 612 of 700 W",
            "    4711 train  1.0 GiB",
            "unknown",
            "  busy -  memory -  heat -  power -",
            "a note that is longer than a narrow",
            "terminal is wide",
        ];
        assert_eq!(at_40, lines);
        for width in 1..120 {
            let lines = table(&seen(), Some(width));
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:#?}");
            let text = lines.join("\n");
            let is_whole =
                text.contains("98 %") && text.contains("1.5 GiB of 80.0 GiB") && text.contains("612 of 700 W");
            assert!(width < 28 || is_whole, "{width}: {lines:#?}");
        }
    }

    #[test]
    fn counts_of_looks_begin_with_one() {
        assert_eq!(times("3"), Ok(3));
        assert!(["0", "-1", "1.5", "often"].iter().all(|text| times(text).is_err()));
    }

    #[test]
    fn intervals_are_numbers_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["0", "-1", "soon", "nan", "1e9"].iter().all(|text| seconds(text).is_err()));
    }
}
