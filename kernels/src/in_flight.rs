//! Registers that wgmma reads in the background, checked in machine code: whether anything writes them before the group that
//! reads them has ended.
//!
//! PTX promises that to nobody: a program names virtual registers, and an assembler that gives a dead one's place to another while
//! wgmma still reads it makes wrong products (seen where a branch lay between groups; docs/gemm.md). So each kernel is looked
//! at when it is made.

use std::collections::{HashMap, HashSet};

/// Registers of A that one instruction of wgmma takes.
const A_REGISTERS: u32 = 4;

/// One line of a disassembly that matters.
enum Step {
    /// wgmma, with A in registers from this one on or in shared memory; whether it ends a group. Groups without registers count too: waits
    /// do not tell them from others.
    Multiply { first: Option<u32>, ends: bool },
    /// Until at most so many groups are under way.
    Wait { pending: usize },
    /// Registers that are written, and the line.
    Write { first: u32, count: u32, line: String },
    /// Back or forth to a label.
    Branch(String),
}

/// What is under way: registers of the group that is not ended yet, and of those that are.
#[derive(Clone, Default)]
struct Flight {
    open: Vec<u32>,
    groups: Vec<Vec<u32>>,
}

impl Flight {
    /// # Errors
    /// The line, which writes a register that is being read.
    fn pass(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Multiply { first, ends } => {
                self.open.extend(*first);
                if *ends {
                    self.groups.push(std::mem::take(&mut self.open));
                }
            }
            Step::Wait { pending } => {
                self.groups.drain(..self.groups.len().saturating_sub(*pending));
            }
            Step::Write { first, count, line } => {
                let read = |a: &u32| *a < first + count && *first < a + A_REGISTERS;
                if self.open.iter().chain(self.groups.iter().flatten()).any(read) {
                    return Err(line.clone());
                }
            }
            Step::Branch(_) => {}
        }
        Ok(())
    }
}

/// Looks at each instruction in the order of the text, and once more at what a loop repeats.
///
/// # Errors
/// The instruction that writes a register which wgmma still reads.
pub(crate) fn check(disassembly: &str) -> Result<(), String> {
    let mut steps = Vec::new();
    let mut labels = HashMap::new();
    for line in disassembly.lines() {
        if let Some(label) = line.trim().strip_suffix(':').filter(|label| label.starts_with(".L")) {
            labels.insert(label.to_owned(), steps.len());
        }
        steps.extend(step(line));
    }
    let mut flight = Flight::default();
    let mut repeated = HashSet::new();
    let mut at = 0;
    // Where a repeated loop ends, and what was under way when it was come to first.
    let mut resume: Option<(usize, Flight)> = None;
    while at < steps.len() {
        flight.pass(&steps[at])?;
        if let Step::Branch(label) = &steps[at] {
            match &resume {
                Some((end, before)) if *end == at => {
                    flight = before.clone();
                    resume = None;
                }
                None if labels.get(label).is_some_and(|&to| to <= at) && repeated.insert(at) => {
                    resume = Some((at, flight.clone()));
                    at = labels[label];
                    continue;
                }
                _ => {}
            }
        }
        at += 1;
    }
    Ok(())
}

/// What a line does, as `/*0a30*/  @P0 HGMMA.64x256x8.F32.TF32 R24, R152, gdesc[UR8], R24, gsb0 ;` multiplies.
fn step(line: &str) -> Option<Step> {
    let (_, code) = line.split_once("*/")?;
    let code = code.split(';').next()?.trim();
    let mut words = code.split_whitespace().skip_while(|word| word.starts_with('@'));
    let name = words.next()?;
    let operands: Vec<&str> = words.map(|word| word.trim_end_matches(',')).collect();
    let register = |operand: Option<&&str>| operand?.strip_prefix('R')?.parse::<u32>().ok();
    let opcode = name.split('.').next().unwrap_or(name);
    match opcode {
        "HGMMA" | "QGMMA" | "IGMMA" => {
            Some(Step::Multiply { first: register(operands.get(1)), ends: operands.contains(&"gsb0") })
        }
        "WARPGROUP" if name.starts_with("WARPGROUP.DEPBAR") => {
            let pending =
                operands.last()?.strip_prefix("0x").and_then(|digits| usize::from_str_radix(digits, 16).ok())?;
            Some(Step::Wait { pending })
        }
        "BRA" => {
            let label = operands.iter().find_map(|word| word.strip_prefix("`(")?.strip_suffix(')'))?;
            Some(Step::Branch(label.to_owned()))
        }
        // Stores name an address or a value first.
        _ if opcode.starts_with("ST") || opcode.starts_with("RED") || opcode == "SYNCS" => None,
        _ => {
            let first = register(operands.first())?;
            let count = match opcode {
                "LDSM" => 4,
                _ if name.contains(".128") => 4,
                _ if name.contains(".64") || name.contains(".WIDE") => 2,
                _ => 1,
            };
            Some(Step::Write { first, count, line: code.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of two groups, of which the second's fragments come into `second`.
    fn kernel(wait: &str, second: &str) -> String {
        format!(
            ".L_x_1:\n\
             /*0010*/ WARPGROUP.DEPBAR.LE gsb0, {wait} ;\n\
             /*0020*/ LDS.64 R152, [R5] ;\n\
             /*0030*/ LDS.64 R154, [R5+0x400] ;\n\
             /*0040*/ WARPGROUP.ARRIVE ;\n\
             /*0050*/ HGMMA.64x256x8.F32.TF32 R24, R152, gdesc[UR8], R24, UP0, gsb0 ;\n\
             /*0060*/ WARPGROUP.DEPBAR.LE gsb0, {wait} ;\n\
             /*0070*/ @!P0 LDS.64 {second}, [R5+0x800] ;\n\
             /*0080*/ HGMMA.64x256x8.F32.TF32 R24, R156, gdesc[UR8], R24, gsb0 ;\n\
             /*0090*/ @P1 BRA `(.L_x_1) ;\n\
             /*00a0*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n\
             /*00b0*/ IMAD.MOV.U32 R152, RZ, RZ, R24 ;\n"
        )
    }

    #[test]
    fn what_is_read_may_be_written_when_its_group_has_ended() {
        assert_eq!(check(&kernel("0x1", "R156")), Ok(()));
        assert_eq!(check(&kernel("0x0", "R152")), Ok(()));
    }

    #[test]
    fn what_is_still_read_may_not() {
        assert_eq!(check(&kernel("0x1", "R154")), Err("@!P0 LDS.64 R154, [R5+0x800]".to_owned()));
        assert_eq!(check(&kernel("0x1", "R151")), Err("@!P0 LDS.64 R151, [R5+0x800]".to_owned()));
        // Of two groups the later one, whose operands are in shared memory, is still under way: the first has been read.
        let of_two = |pending: &str| {
            format!(
                "/*0010*/ HGMMA.64x64x16.F32 R24, R152, gdesc[UR8].tnspB, R24, gsb0 ;\n\
                 /*0020*/ HGMMA.64x64x16.F32 R88, gdesc[UR8], RZ, !UPT, gsb0 ;\n\
                 /*0030*/ WARPGROUP.DEPBAR.LE gsb0, {pending} ;\n\
                 /*0040*/ MUFU.EX2 R152, R88 ;\n"
            )
        };
        assert_eq!(check(&of_two("0x1")), Ok(()));
        assert_eq!(check(&of_two("0x2")), Err("MUFU.EX2 R152, R88".to_owned()));
        // Only the next round of the loop writes what the first one's group still reads.
        assert_eq!(check(&kernel("0x2", "R156")), Err("LDS.64 R152, [R5]".to_owned()));
    }
}
