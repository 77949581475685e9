//! Executes NVIDIA PTX on the host, for tests of compilers and of kernels in CUDA C++ on machines without an NVIDIA GPU.
//!
//! It reads PTX text, decodes it, and runs kernels exactly (integer and IEEE arithmetic as the PTX ISA defines them)
//! with checks that no GPU makes: every access against the allocations, alignment, memory that is read through the
//! read-only path and written in the same launch, memory read before it is written, data races, barriers that
//! not all threads reach, warp-wide instructions whose threads do not come. It is no model of time, and not all of PTX:
//! what it does not know it refuses with the line ([`ParseError`]), and never ignores.
//!
//! ```
//! use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};
//!
//! let module = Module::parse(
//!     ".version 7.0 .target sm_70 .address_size 64
//!      .visible .entry double(.param .u64 data) {
//!          .reg .b32 %r<3>; .reg .b64 %d<2>;
//!          ld.param.u64 %d0, [data];
//!          mov.u32 %r0, %tid.x;
//!          mad.wide.u32 %d1, %r0, 4, %d0;
//!          ld.global.u32 %r1, [%d1];
//!          add.u32 %r2, %r1, %r1;
//!          st.global.u32 [%d1], %r2;
//!          ret;
//!      }",
//! )?;
//! let mut memory = Memory::new();
//! let data = memory.alloc_from(&[1, 0, 0, 0, 21, 0, 0, 0]);
//! let launch = Launch { grid: [1; 3], block: [2, 1, 1], params: data.to_le_bytes().to_vec(), ..Launch::default() };
//! let kernel = module.kernel("double").ok_or("no such kernel")?;
//! run(kernel, &mut memory, &launch, &RunOptions::strict())?;
//! assert_eq!(memory.read(data, 8)?, [2, 0, 0, 0, 42, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How threads run
//!
//! Blocks run one after the other, those of a cluster together. The lanes of a warp run together while they are at one place with one history; after
//! a branch they meet again at its immediate post-dominator (see `flow`), and `activemask` gives the lanes that run
//! together. PTX promises no such thing, but hardware does it. [`RunOptions::shuffle`] runs blocks, warps and stores in
//! a random order, repeatably, so that races show in the results.
//!
//! # What runs in the background
//!
//! `cp.async`, bulk copies and wgmma end as late as a program can notice: when somebody waits for them (a `wait_group`, the
//! phase of an `mbarrier`). Until then whoever reads what they fill, or writes what they fill or read, is at fault at once,
//! whatever hardware happens to do; a sum of wgmma is no number until its group was waited for. wgmma and bulk stores must
//! not read what an ordinary store wrote without `fence.proxy.async`, bytes that never come are a deadlock that names them,
//! and nothing may be under way when a block ends. What waits for a phase that is not the one it needs may find the copy landed
//! because somebody else asked for it; [`RunOptions::late_copies`] lets copies land some questions later, repeatably, so that
//! it does not. Data races are not looked for in kernels with barriers in shared memory,
//! bulk copies, wgmma or clusters: their order is that of phases, which `race` does not count; shared memory of theirs is
//! held by the rules above alone. wgmma adds in f64 what belongs to one instruction and rounds once, hardware keeps less.
//!
//! Registers and shared memory start with bits nobody should rely on. Approximate instructions give the true value
//! rounded, or ([`RunOptions::perturb`]) one that is off by as much as the ISA allows.
//!
//! Read next: `parse/decode.rs` (what is understood), `inst.rs` (what it becomes), `exec/step.rs` (the loop),
//! `exec/schedule.rs` (whose turn it is), `race.rs` (what counts as ordered), `exec/claims.rs` (what runs in the background).
#![forbid(unsafe_code)]

mod background;
mod error;
mod exec;
mod flow;
mod inst;
mod kernel;
mod matrix;
mod memory;
mod ops;
mod parse;
mod race;
mod tensor_map;
mod types;

pub use error::{Fault, FaultKind, ParseError, ParseErrorKind};
pub use exec::{Launch, RunOptions, Stats, run};
pub use kernel::{Kernel, Module, Param};
pub use memory::Memory;
pub use tensor_map::{MapError, Pixels, TensorMap};
