//! Faults of cards that the kernel driver wrote to the kernel's log ("Xid"), where this user may read it.
//!
//! They are from the past: a card may have been reset since. So they are hints, never errors.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::{Finding, Severity};
use super::Nvidia;

/// One kind of fault on one card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Xid {
    /// `0000:3b:00`, as the log writes it.
    pub pci: String,
    pub number: u32,
    /// How often it occurred since the machine started.
    pub times: usize,
}

/// The faults in a log.
pub fn parse(log: &str) -> Vec<Xid> {
    // `NVRM: Xid (PCI:0000:3b:00): 79, pid=...`
    let fault = |line: &str| {
        let (_, rest) = line.split_once("NVRM: Xid (PCI:")?;
        let (pci, rest) = rest.split_once("): ")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((pci.to_owned(), rest[..digits].parse().ok()?))
    };
    let mut counts: BTreeMap<(String, u32), usize> = BTreeMap::new();
    for key in log.lines().filter_map(fault) {
        *counts.entry(key).or_default() += 1;
    }
    counts.into_iter().map(|((pci, number), times)| Xid { pci, number, times }).collect()
}

/// The meaning of a number and the fix (NVIDIA, "XID Errors").
fn meaning(number: u32) -> (Severity, &'static str, &'static str) {
    const PROGRAM: &str = "look for the fault in the program that ran then (compute-sanitizer finds it)";
    const RESET: &str =
        "reset the card (nvidia-smi --gpu-reset -i N) or reboot; have it replaced when it happens again";
    const LINK: &str = "check power and seating of the card, and its PCIe slot; reboot";
    match number {
        13 | 31 | 43 | 45 => (Severity::Note, "a program's invalid access or its cleanup", PROGRAM),
        63 => (Severity::Note, "a faulty row or page of memory was marked", "reset the card when it is free"),
        94 => (Severity::Note, "a contained memory error, which ended one program", "reset the card when it is free"),
        48 => (Severity::Warning, "an uncorrectable memory error", RESET),
        64 => (Severity::Warning, "a faulty row or page of memory could not be marked", RESET),
        74 => (Severity::Warning, "an NVLink error", RESET),
        79 => (Severity::Warning, "the card fell off the bus", LINK),
        92 => (Severity::Warning, "many corrected memory errors", RESET),
        95 => (Severity::Warning, "an uncontained memory error", RESET),
        61 | 62 => (Severity::Warning, "the card's controller halted", RESET),
        119 | 120 => (Severity::Warning, "the card's system processor did not answer", RESET),
        _ => (
            Severity::Note,
            "see NVIDIA's list of Xid errors",
            "look the number up in NVIDIA's list of Xid errors; update the driver",
        ),
    }
}

impl Nvidia {
    pub(super) fn xid_findings(&self) -> Vec<Finding> {
        let finding = |xid: &Xid| {
            let (severity, meaning, fix) = meaning(xid.number);
            let times = if xid.times == 1 { "once".to_owned() } else { format!("{} times", xid.times) };
            let what = format!("the kernel's log has Xid {} of card {} {times}: {meaning}", xid.number, xid.pci);
            Finding::new(severity, what, fix)
        };
        self.xids.iter().map(finding).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{Tree, found, only, well};
    use super::*;

    const LOG: &str = "6,1,2,-;Linux version 6.1\n\
        4,900,5,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n\
        [12.5] NVRM: Xid (PCI:0000:af:00): 31, pid=12, name=a.out\n\
        [12.6] NVRM: Xid (PCI:0000:af:00): 31, pid=13\n\
        [12.7] NVRM: Xid (PCI:0000:af:00): 999\n\
        [12.8] NVRM: Xid (PCI:0000:af:00): nonsense\n\
        NVRM: Xid (PCI:";

    #[test]
    fn parse_counts_per_card_and_number() {
        let xid = |pci: &str, number, times| Xid { pci: pci.to_owned(), number, times };
        assert_eq!(parse(LOG), [xid("0000:3b:00", 79, 1), xid("0000:af:00", 31, 2), xid("0000:af:00", 999, 1)],);
    }

    #[test]
    fn faults_in_the_log_are_hints() {
        let read = Nvidia::read(&Tree::default().log(LOG), &|_| None);
        let found = found(&Nvidia { xids: read.xids, ..well() });
        assert_eq!(
            only(&found, "Xid 79 of card 0000:3b:00 once: the card fell off the bus", "power"),
            Severity::Warning
        );
        assert_eq!(only(&found, "Xid 31 of card 0000:af:00 2 times", "compute-sanitizer"), Severity::Note);
        assert_eq!(only(&found, "Xid 999", "NVIDIA's list"), Severity::Note);
    }

    #[test]
    fn unreadable_log_says_nothing() {
        assert!(Nvidia::read(&Tree::default(), &|_| None).xids.is_empty());
    }
}
