//! Architectures that machine code is made for.
//!
//! Machine code runs on its own architecture and on later ones of the same generation (CUDA programming guide, "Binary
//! Compatibility"); code that uses an architecture's own instructions (the `a` of sm_90a, such as wgmma) runs on it alone.
//! PTX runs on every later card, when its driver has assembled it.

use std::fmt;

/// An architecture, and what is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// 90 is compute capability 9.0.
    pub sm: u32,
    /// Code for this architecture alone: the `a` of `sm_90a`.
    pub specific: bool,
    /// What is kept.
    pub form: Form,
}

/// What is kept for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Machine code.
    Machine,
    /// PTX, which the driver assembles.
    Ptx,
}

/// The first architecture on which a kernel can start while the one before it runs.
pub(crate) const EARLY_SM: u32 = 90;

/// Added to an architecture's number where PTX is kept.
const PTX_NUMBER: u32 = 100_000;

impl Target {
    /// Ampere: A100.
    pub const SM_80: Target = Target::machine(80);
    /// Ampere: RTX 30.
    pub const SM_86: Target = Target::machine(86);
    /// Ada: RTX 40, L4, L40.
    pub const SM_89: Target = Target::machine(89);
    /// Hopper without its own instructions: H100, H200.
    pub const SM_90: Target = Target::machine(90);
    /// Hopper with its own instructions (wgmma, setmaxnreg).
    pub const SM_90A: Target = Target { specific: true, ..Target::machine(90) };
    /// Blackwell: B200.
    pub const SM_100: Target = Target::machine(100);
    /// Blackwell: RTX 50.
    pub const SM_120: Target = Target::machine(120);
    /// PTX for Ampere and everything later.
    pub const PTX_80: Target = Target::ptx(80);
    /// PTX for Ada and everything later.
    pub const PTX_89: Target = Target::ptx(89);
    /// PTX for Hopper and everything later.
    pub const PTX_90: Target = Target::ptx(90);

    /// What kernels are made for that use nothing which only some cards have. Machine code of sm_80 runs on sm_86 and sm_89 as
    /// it is: the instructions are the same, and what differs (shared memory, multiprocessors) is the planners' business, so
    /// these have no code of their own.
    pub const EVERYWHERE: &[Target] = &[Target::SM_80, Target::SM_90, Target::SM_100, Target::SM_120, Target::PTX_80];
    /// Those that convert and multiply 8-bit floats.
    pub const WITH_FLOAT8: &[Target] = &[Target::SM_89, Target::SM_90, Target::SM_100, Target::SM_120];
    /// As everywhere, for kernels whose code for sm_120 spills: there the driver compiles the PTX, for the card it has.
    pub const BUT_SM_120: &[Target] = &[Target::SM_80, Target::SM_90, Target::SM_100, Target::PTX_80];

    const fn machine(sm: u32) -> Target {
        Target { sm, specific: false, form: Form::Machine }
    }

    const fn ptx(sm: u32) -> Target {
        Target { sm, specific: false, form: Form::Ptx }
    }

    /// Whether code for it waits by itself for the kernel before it, where its kernel says `starts_early`.
    pub fn may_start_early(self) -> bool {
        self.sm >= EARLY_SM
    }

    /// Whether a card of compute capability `sm` (90 is 9.0) runs it.
    pub fn runs_on(self, sm: u32) -> bool {
        match (self.form, self.specific) {
            (Form::Machine, true) => self.sm == sm,
            (Form::Machine, false) => self.sm / 10 == sm / 10 && self.sm <= sm,
            (Form::Ptx, true) => false,
            (Form::Ptx, false) => self.sm <= sm,
        }
    }

    /// Of `targets` the one that a card of compute capability `sm` runs best: machine code before PTX, the newer the better.
    pub fn best(targets: impl IntoIterator<Item = Target>, sm: u32) -> Option<Target> {
        let rank = |target: &Target| (target.form == Form::Machine, target.sm, target.specific);
        targets.into_iter().filter(|target| target.runs_on(sm)).max_by_key(rank)
    }

    /// Its number in the archive.
    pub fn number(self) -> u32 {
        let number = 10 * self.sm + u32::from(self.specific);
        number + if self.form == Form::Ptx { PTX_NUMBER } else { 0 }
    }

    /// The target of this number.
    pub fn from_number(number: u32) -> Target {
        let form = if number >= PTX_NUMBER { Form::Ptx } else { Form::Machine };
        let number = number % PTX_NUMBER;
        Target { sm: number / 10, specific: number % 10 == 1, form }
    }

    /// The virtual architecture it is compiled for: `compute_90a`.
    pub fn compute(self) -> String {
        format!("compute_{}{}", self.sm, if self.specific { "a" } else { "" })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            Form::Machine => write!(f, "sm_{}{}", self.sm, if self.specific { "a" } else { "" }),
            Form::Ptx => f.write_str(&self.compute()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Target; 10] = [
        Target::SM_80,
        Target::SM_86,
        Target::SM_89,
        Target::SM_90,
        Target::SM_90A,
        Target::SM_100,
        Target::SM_120,
        Target::PTX_80,
        Target::PTX_89,
        Target::PTX_90,
    ];

    #[test]
    fn best_is_the_newest_code_that_the_card_runs() {
        let best = |sm| Target::best(ALL, sm).map(|target| target.to_string());
        let expected = [None, Some("sm_80"), Some("sm_86"), Some("sm_86"), Some("sm_89"), Some("sm_90a")];
        assert_eq!([75, 80, 86, 87, 89, 90].map(best), expected.map(|name| name.map(str::to_owned)));
        let expected = ["sm_100", "sm_100", "compute_90", "sm_120", "sm_120"];
        assert_eq!([100, 103, 110, 120, 121].map(best), expected.map(|name| Some(name.to_owned())));
        assert_eq!(Target::best([Target::SM_90A], 100), None);
    }

    #[test]
    fn numbers_are_each_targets_own() {
        assert!(ALL.iter().all(|&target| Target::from_number(target.number()) == target));
        assert_eq!((Target::SM_90A.number(), Target::PTX_80.number()), (901, 100_800));
    }
}
