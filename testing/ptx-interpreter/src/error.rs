//! What can go wrong: text that is not PTX this crate knows, and programs that do what they must not.

use thiserror::Error;

/// Text that cannot be executed: wrong, or beyond this crate. Nothing unknown is ever ignored.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {kind}")]
#[non_exhaustive]
pub struct ParseError {
    /// Line of the text, from 1.
    pub line: u32,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is not PTX.
    #[error("syntax: {0}")]
    Syntax(String),
    /// An instruction this crate does not execute.
    #[error("unknown instruction `{0}`")]
    Instruction(String),
    /// A modifier or type that the instruction does not take, or not there.
    #[error("unknown modifier `.{modifier}` in `{opcode}`")]
    Modifier {
        /// The part that was not understood.
        modifier: String,
        /// The whole opcode.
        opcode: String,
    },
    /// A directive this crate does not know.
    #[error("unknown directive `{0}`")]
    Directive(String),
    /// A register, variable, parameter or label that is not declared, or twice.
    #[error("`{0}` is not declared, or declared twice")]
    Name(String),
    /// An operand of the wrong kind or width.
    #[error("operand: {0}")]
    Operand(String),
    /// An instruction newer than the `.version` or `.target` that the text declares.
    #[error("`{opcode}` needs {needs}")]
    TooOld {
        /// The opcode.
        opcode: String,
        /// What it needs.
        needs: String,
    },
}

/// A program that did something undefined or forbidden, and where.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{kernel}: block {block:?}, thread {thread:?}, line {line} `{text}`: {kind}")]
#[non_exhaustive]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// `%ctaid`
    pub block: [u32; 3],
    /// `%tid`
    pub thread: [u32; 3],
    /// Line of the module's text, from 1.
    pub line: u32,
    /// That line.
    pub text: String,
    /// What happened.
    pub kind: FaultKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch does not fit the kernel; no thread has run.
    #[error("launch: {0}")]
    Launch(String),
    /// An access that is not wholly inside a live allocation or variable.
    #[error("{bytes} bytes at {space} address {address:#x} are out of bounds: {nearest}")]
    OutOfBounds {
        /// State space.
        space: &'static str,
        /// Address of the access.
        address: u64,
        /// Its size.
        bytes: u32,
        /// What lies near it.
        nearest: String,
    },
    /// An address that is not a multiple of the access's size.
    #[error("{bytes} bytes at {space} address {address:#x} are misaligned")]
    Misaligned {
        /// State space.
        space: &'static str,
        /// Address of the access.
        address: u64,
        /// Its size.
        bytes: u32,
    },
    /// A write to memory that the host has marked read-only.
    #[error("write to read-only memory at {address:#x}")]
    ReadOnly {
        /// Address of the access.
        address: u64,
    },
    /// Memory is read through `ld.global.nc` and written in the same launch.
    #[error("ld.global.nc of memory at {address:#x} that the launch writes")]
    NonCoherent {
        /// Address of the access.
        address: u64,
    },
    /// A byte that nobody has written was read.
    #[error("{space} address {address:#x} is read before it is written")]
    Uninitialised {
        /// State space.
        space: &'static str,
        /// Address of the access.
        address: u64,
    },
    /// Shared memory is used that an asynchronous operation under way fills or reads.
    #[error("shared address {address:#x} is {what}")]
    InFlight {
        /// The byte.
        address: u64,
        /// How it is used, and against what.
        what: &'static str,
    },
    /// A barrier in shared memory, a bulk copy or wgmma is used against its rules.
    #[error("asynchronous: {0}")]
    Asynchronous(String),
    /// Metadata of a sparse product break their rule.
    #[error("sparse: {0}")]
    Metadata(String),
    /// Two threads access the same byte, one of them writes, and nothing orders them.
    #[error("race at {space} address {address:#x}: {what}, with thread {other:?} of block {other_block:?}")]
    Race {
        /// State space.
        space: &'static str,
        /// The byte.
        address: u64,
        /// Read after write, write after read, write after write.
        what: &'static str,
        /// The other thread.
        other: [u32; 3],
        /// The other thread's block.
        other_block: [u32; 3],
    },
    /// Threads wait for threads that will not come.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// A warp-wide instruction whose member mask leaves out a thread that executes it, or an instruction that the whole
    /// warp must execute together and does not.
    #[error("warp: {0}")]
    Convergence(String),
    /// `trap`.
    #[error("trap")]
    Trap,
    /// More steps than [`crate::RunOptions::max_steps`].
    #[error("more than {0} steps: an endless loop?")]
    Steps(u64),
}
