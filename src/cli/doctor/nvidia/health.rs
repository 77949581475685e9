//! Faults of cards that answer: memory, errors, heat, modes. All of it comes from NVML.
//!
//! Hardware faults are errors; temporary slowdowns and blocks are warnings; settings and limits are notes.

use super::super::{Finding, Severity, size};
use super::Nvidia;
use super::nvml::{HARDWARE, HEAT, POWER_BRAKE, POWER_CAP, Process, SET_CLOCKS, SYNC_BOOST, State, WARMTH};

impl Nvidia {
    pub(super) fn health_findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(fault) = self.management.fault.as_ref().filter(|_| !self.cards.is_empty()) {
            let fix = if self.container.lacks("utility") {
                "start the container with NVIDIA_DRIVER_CAPABILITIES=all (or one that contains utility)"
            } else {
                "nothing to do for computing; the driver's package brings libnvidia-ml"
            };
            found
                .push(Finding::note(format!("the state of the cards is unknown: NVML does not answer ({fault})"), fix));
        }
        for card in &self.management.cards {
            let label = card.label();
            if let Some(fault) = &card.fault {
                let fix = "reset it (sudo nvidia-smi --gpu-reset) or reboot; when it returns, check power and seating";
                found.push(Finding::error(format!("{label} has failed: {fault}"), fix));
                continue;
            }
            found.extend(card.mode_findings(&label));
            found.extend(card.memory_findings(&label));
            found.extend(card.error_findings(&label));
            found.extend(card.clock_findings(&label));
            if card.persistence == Some(false) {
                found.push(Finding::note(
                    format!(
                        "{label}: persistence mode is off, so the first program waits a second or more for the driver"
                    ),
                    "turn it on: sudo systemctl enable --now nvidia-persistenced, or sudo nvidia-smi -pm 1",
                ));
            }
        }
        found
    }

    /// Whether every card is set to be cut into slices but has none.
    pub(super) fn sliceless(&self) -> bool {
        let cards = &self.management.cards;
        !cards.is_empty() && cards.iter().all(|card| card.slices.as_ref().is_some_and(Vec::is_empty))
    }
}

impl State {
    fn label(&self) -> String {
        match self.pci_bus.as_ref().or(self.uuid.as_ref()) {
            Some(place) => format!("{} at {place}", self.name),
            None => self.name.clone(),
        }
    }

    fn mode_findings(&self, label: &str) -> Vec<Finding> {
        const DEFAULT: &str = "let several programs use it: sudo nvidia-smi -c 0";
        let mut found = Vec::new();
        match (self.compute_mode.as_deref(), self.processes.as_deref()) {
            (Some("prohibited"), _) => {
                found.push(Finding::error(
                    format!("{label}: its compute mode is prohibited, so nothing may compute"),
                    DEFAULT,
                ));
            }
            (Some("exclusive"), Some(holders @ [_, ..])) => found.push(Finding::error(
                format!("{label}: its compute mode is exclusive and it is taken by {}", listed(holders)),
                format!("wait for that program, or {DEFAULT}"),
            )),
            (Some("exclusive"), _) => found
                .push(Finding::note(format!("{label}: its compute mode is exclusive: one program at a time"), DEFAULT)),
            _ => {}
        }
        if self.slices.as_ref().is_some_and(Vec::is_empty) {
            found.push(Finding::error(
                format!("{label}: Multi-Instance GPU is on but there is no instance to compute on"),
                "make one (nvidia-smi mig -lgip lists kinds; sudo nvidia-smi mig -cgi KIND -C), or turn it off (sudo \
                 nvidia-smi -mig 0)",
            ));
        }
        if self.mig_pending {
            found.push(Finding::note(
                format!("{label}: Multi-Instance GPU changes at the next reset"),
                "reset it when it is free (sudo nvidia-smi --gpu-reset) or reboot",
            ));
        }
        found
    }

    fn memory_findings(&self, label: &str) -> Option<Finding> {
        /// Less memory than a context and a small computation take.
        const LITTLE_BYTES: u64 = 512 << 20;
        let (total, free) = self.memory?;
        // On a large card, a twentieth is still little beside the memory that programs take.
        if free >= LITTLE_BYTES.max(total / 20) || total == 0 {
            return None;
        }
        let holders = match self.processes.as_deref() {
            Some([]) => "by programs that are not seen from here".to_owned(),
            Some(holders) => format!("by {}", listed(holders)),
            None => "by programs that this user may not see".to_owned(),
        };
        Some(Finding::warning(
            format!("{label} has {} of {} free; the rest is held {holders}", size(free), size(total)),
            "close what is not needed (nvidia-smi lists programs), or use another card",
        ))
    }

    fn error_findings(&self, label: &str) -> Vec<Finding> {
        const RESET: &str = "reset it when it is free (sudo nvidia-smi --gpu-reset) or reboot";
        let mut found = Vec::new();
        if let Some(errors) = self.uncorrected.filter(|&errors| errors > 0) {
            found.push(Finding::error(
                format!("{label} had {errors} memory errors that could not be corrected since its driver was loaded"),
                format!("{RESET}; have it replaced when they return (nvidia-smi -q -d ECC)"),
            ));
        }
        if self.repair_failed {
            found.push(Finding::error(
                format!("{label}: a faulty row of its memory could not be replaced"),
                "have the card replaced (nvidia-smi -q -d ROW_REMAPPER shows it)",
            ));
        }
        if self.repair_pending {
            found.push(Finding::warning(
                format!("{label}: a faulty row or page of its memory is replaced at the next reset only"),
                RESET,
            ));
        }
        match self.ecc {
            Some((now, later)) if now != later => {
                let later = if later { "on" } else { "off" };
                found.push(Finding::note(format!("{label}: error correction turns {later} at the next reset"), RESET));
            }
            Some((false, false)) => found.push(Finding::note(
                format!("{label}: error correction (ECC) is off, so memory errors are not noticed"),
                "nothing to do if that is intended; else sudo nvidia-smi -e 1, then reset the card",
            )),
            _ => {}
        }
        found
    }

    fn clock_findings(&self, label: &str) -> Vec<Finding> {
        let hotness = self.celsius.map(|celsius| format!(" at {celsius} degrees Celsius")).unwrap_or_default();
        let power = self.watts.map(|(now, limit)| format!(" ({now} W of {limit} W)")).unwrap_or_default();
        // "Hardware slowdown" is the sum of two reasons that say more.
        let explained = |reason: &str| {
            reason == HARDWARE && self.throttled_by.iter().any(|other| other == HEAT || other == POWER_BRAKE)
        };
        let finding = |reason: &String| {
            let (severity, why, fix) = match reason.as_str() {
                HEAT | WARMTH => (
                    Severity::Warning,
                    format!("its heat{hotness}"),
                    "cool it: fans, dust, airflow, the room; a lower power limit (nvidia-smi -pl W) helps as well",
                ),
                POWER_BRAKE => (
                    Severity::Warning,
                    format!("the power supply's brake{power}"),
                    "check the power supply and its cables; the machine may draw more than its supply gives",
                ),
                HARDWARE => (
                    Severity::Warning,
                    format!("its own protection{power}{hotness}"),
                    "check its cooling and power supply (nvidia-smi -q -d PERFORMANCE says more)",
                ),
                POWER_CAP => (
                    Severity::Note,
                    format!("its power limit{power}"),
                    "nothing: a card under full load does that; sudo nvidia-smi -pl W changes the limit",
                ),
                SET_CLOCKS => (
                    Severity::Note,
                    "application clocks, which somebody set".to_owned(),
                    "lift them: sudo nvidia-smi -rac",
                ),
                SYNC_BOOST => (
                    Severity::Note,
                    "another card of its sync boost group".to_owned(),
                    "look at the other cards of the group",
                ),
                _ => return None,
            };
            Some(Finding::new(severity, format!("{label}: clocks are held down now by {why}"), fix))
        };
        self.throttled_by.iter().filter(|reason| !explained(reason)).filter_map(finding).collect()
    }
}

/// Processes as text for people: the largest first, and only a few.
fn listed(processes: &[Process]) -> String {
    const MOST: usize = 5;
    let one = |process: &Process| {
        let name = process.name.as_deref().and_then(|name| name.rsplit(['/', '\\']).next());
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        let held = process.bytes.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
        format!("{}{name}{held}", process.pid)
    };
    let mut names: Vec<String> = processes.iter().take(MOST).map(one).collect();
    if processes.len() > MOST {
        names.push(format!("{} more", processes.len() - MOST));
    }
    format!("process {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::library::Library;
    use super::super::made_up::{found, only, state, well, with_state};
    use super::*;

    fn process(pid: u32, bytes: Option<u64>) -> Process {
        Process { pid, name: Some("/usr/bin/trainer".to_owned()), bytes }
    }

    /// The severity of the single finding about a card after `change`.
    fn about(what: &str, fix: &str, change: impl FnOnce(&mut State)) -> Severity {
        let found = found(&with_state(change));
        assert_eq!(found.len(), 1, "{found:#?}");
        only(&found, what, fix)
    }

    #[test]
    fn prohibited_card_is_an_error() {
        let change = |card: &mut State| card.compute_mode = Some("prohibited".to_owned());
        assert_eq!(about("0000:3b:00.0: its compute mode is prohibited", "nvidia-smi -c 0", change), Severity::Error);
    }

    #[test]
    fn exclusive_card_is_an_error_when_it_is_taken() {
        let exclusive = |processes: Vec<Process>| {
            move |card: &mut State| {
                card.compute_mode = Some("exclusive".to_owned());
                card.processes = Some(processes);
            }
        };
        let taken = exclusive(vec![process(12, None)]);
        assert_eq!(about("is taken by process 12 trainer", "nvidia-smi -c 0", taken), Severity::Error);
        assert_eq!(about("one program at a time", "nvidia-smi -c 0", exclusive(Vec::new())), Severity::Note);
    }

    #[test]
    fn multi_instance_without_instances_is_an_error() {
        let none = |card: &mut State| card.slices = Some(Vec::new());
        assert_eq!(about("Multi-Instance GPU is on but there is no instance", "mig -cgi", none), Severity::Error);
        let mut machine = with_state(none);
        machine.cards.clear();
        machine.library = Library { status: Some(100), ..machine.library };
        assert_eq!(only(&found(&machine), "there is no instance", "mig -cgi"), Severity::Error);
        assert_eq!(about("changes at the next reset", "reset", |card| card.mig_pending = true), Severity::Note);
        let some = with_state(|card| card.slices = Some(vec!["MIG-1".to_owned()]));
        assert!(found(&some).is_empty());
    }

    #[test]
    fn exhausted_memory_names_the_processes() {
        let full = |processes: Option<Vec<Process>>| {
            move |card: &mut State| (card.memory, card.processes) = (Some((80 << 30, 1 << 30)), processes)
        };
        let two = Some(vec![process(12, Some(70 << 30)), process(7, None)]);
        let what = "1.0 GiB of 80.0 GiB free; the rest is held by process 12 trainer (70.0 GiB), 7 trainer";
        assert_eq!(about(what, "nvidia-smi", full(two)), Severity::Warning);
        assert_eq!(about("not see", "close", full(None)), Severity::Warning);
        assert_eq!(about("not seen from here", "close", full(Some(Vec::new()))), Severity::Warning);
        let many = Some((0..9).map(|pid| process(pid, None)).collect());
        assert_eq!(about("4 trainer, 4 more", "close", full(many)), Severity::Warning);
        let enough = with_state(|card| card.memory = Some((8 << 30, 1 << 30)));
        assert!(found(&enough).is_empty());
    }

    #[test]
    fn memory_errors_are_errors_and_pending_repairs_warnings() {
        assert_eq!(about("3 memory errors", "replaced", |card| card.uncorrected = Some(3)), Severity::Error);
        assert_eq!(about("could not be replaced", "replaced", |card| card.repair_failed = true), Severity::Error);
        assert_eq!(about("at the next reset only", "reset", |card| card.repair_pending = true), Severity::Warning);
    }

    #[test]
    fn error_correction_off_is_a_note() {
        assert_eq!(about("(ECC) is off", "nvidia-smi -e 1", |card| card.ecc = Some((false, false))), Severity::Note);
        assert_eq!(
            about("turns off at the next reset", "reset", |card| card.ecc = Some((true, false))),
            Severity::Note
        );
        assert!(found(&with_state(|card| card.ecc = None)).is_empty(), "a card without it");
    }

    #[test]
    fn heat_and_power_brake_are_warnings_and_limits_notes() {
        let by = |reasons: &'static [&'static str]| {
            move |card: &mut State| {
                card.throttled_by = reasons.iter().map(|&reason| reason.to_owned()).collect();
                card.celsius = Some(91);
                card.watts = Some((690, 700));
            }
        };
        assert_eq!(about("heat at 91 degrees", "cool it", by(&[HEAT, HARDWARE])), Severity::Warning);
        assert_eq!(about("heat at 91 degrees", "cool it", by(&[WARMTH])), Severity::Warning);
        assert_eq!(about("brake (690 W of 700 W)", "power supply", by(&[POWER_BRAKE, HARDWARE])), Severity::Warning);
        assert_eq!(about("its own protection", "PERFORMANCE", by(&[HARDWARE])), Severity::Warning);
        assert_eq!(about("power limit (690 W of 700 W)", "nothing", by(&[POWER_CAP])), Severity::Note);
        assert_eq!(about("application clocks", "-rac", by(&[SET_CLOCKS])), Severity::Note);
        assert_eq!(about("sync boost", "other cards", by(&[SYNC_BOOST])), Severity::Note);
    }

    #[test]
    fn persistence_off_is_a_note() {
        assert_eq!(about("persistence mode is off", "-pm 1", |card| card.persistence = Some(false)), Severity::Note);
        assert!(found(&with_state(|card| card.persistence = None)).is_empty(), "a system without it");
    }

    #[test]
    fn lost_card_is_an_error_and_nothing_else_is_said_of_it() {
        let lost = |card: &mut State| {
            let failed = Some("fell off the bus".to_owned());
            *card = State { fault: failed, persistence: Some(false), repair_pending: true, ..state() };
        };
        assert_eq!(about("has failed: fell off the bus", "reset", lost), Severity::Error);
    }

    #[test]
    fn unanswering_management_library_is_a_note() {
        let mut machine = well();
        machine.management.cards.clear();
        machine.management.fault = Some("no such file".to_owned());
        assert_eq!(only(&found(&machine), "NVML does not answer (no such file)", "libnvidia-ml"), Severity::Note);
        machine.container.capabilities = Some("compute".to_owned());
        assert_eq!(only(&found(&machine), "NVML does not answer", "utility"), Severity::Note);
    }
}
