//! Compiles WGSL compute shaders, as naga's IR, to NVIDIA PTX: pure Rust, deterministic, with no CUDA toolkit anywhere.
//!
//! ```
//! let source = "
//!     @group(0) @binding(0) var<storage, read_write> data: array<f32>;
//!     @compute @workgroup_size(256)
//!     fn double(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if (id.x < arrayLength(&data)) { data[id.x] *= 2.0; }
//!     }";
//! let module = naga::front::wgsl::parse_str(source)?;
//! let info = naga::valid::Validator::new(Default::default(), Default::default()).validate(&module)?;
//! let ptx = naga_ptx::compile(&module, &info, &naga_ptx::Options::default())?;
//! assert!(ptx.text.contains(".visible .entry double("));
//! assert_eq!(ptx.entry_points[0].workgroup_size, [256, 1, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The text is for `cuModuleLoadData`, `cuLinkAddData` or `ptxas`; the driver's assembler does the optimising that
//! needs to know the card. What is done here is what it cannot do afterwards: variables and small arrays live in
//! registers, functions are compiled into their callers, loops of few rounds are written out, neighbouring accesses
//! become one.
//!
//! # Launching
//!
//! Each compute entry point becomes one `.visible .entry`; [`EntryPoint`] says what to pass. A workgroup is a block, a
//! subgroup a warp: grid and block are those of the shader, axis by axis, and the block's size is fixed in the code
//! (`.reqntid`). Parameters come in order of `(group, binding)`:
//!
//! | in the shader                                | parameter                                                       |
//! |----------------------------------------------|-----------------------------------------------------------------|
//! | `var<storage>`                               | [`ParamKind::Buffer`]: device address, a multiple of 16 bytes   |
//! | ... that is or ends in a run-time array      | and [`ParamKind::BufferBytes`], where its length is needed      |
//! | `var<uniform>`                               | an address, or its content by value ([`Uniforms`])              |
//! | `var<immediate>`                             | [`ParamKind::Immediates`]: by value, last                       |
//! | `override`                                   | none: values are set before (`naga::back::pipeline_constants`)  |
//!
//! Layout in memory is WGSL's. A `bool` in private or workgroup memory takes one byte. A buffer that is only read must
//! not be written by anyone while the kernel runs (its loads take the read-only path).
//!
//! # What is promised
//!
//! - Everything of compute WGSL that naga validates either compiles or is [`Error::Unsupported`] with its place; what
//!   is refused is listed below, with the reason.
//! - [`Bounds::Clamp`], [`WorkgroupMemory::Zeroed`] and [`Options::loop_limit`] make any validated shader safe to run;
//!   integer division by zero, shifts and conversions give what WGSL says in every mode.
//! - Floats keep subnormals, infinities and NaNs. Errors of builtins are measured, and stay within WGSL's limits: the
//!   table is in the `math` folder's head. `+ - *` may be contracted unless [`Contraction::Forbidden`].
//! - Equal modules and options give equal texts. The PTX version is the least that the target and the instructions
//!   need, so that old drivers take it.
//!
//! # What is refused
//!
//! Read against naga 30: every `MathFunction`, `Statement` and `Expression`, and every builtin of compute shaders.
//!
//! | construct | why |
//! |---|---|
//! | textures, samplers, derivatives, `discard`, ray tracing, builtins of other stages | no part of compute shaders on buffers |
//! | an entry point of another stage, when asked for or when there is no compute stage | only compute shaders become kernels |
//! | `coop_mat8x8` | `wmma` has no 8x8 product of f16 (PTX ISA 9.7.14.4.1: m16n16k16, m32n8k16, m8n32k16) |
//! | cooperative matrices A and B of f32 | tensor cores would round them to 10 bits; C may be f32 |
//! | storing a matrix of role A or B, composing one of scalars, negating one | fragments have no known layout; naga's WGSL has none of them but the first |
//! | a factor loaded by rows on one way and by columns on another | the product's instruction names the layout |
//! | a matrix loaded from a private variable, or kept in memory | such variables are registers; fragments have no layout in memory |
//! | cooperative operations in workgroups that are no multiple of 32 | they take whole warps |
//! | a pointer chosen at run time | WGSL has none: pointers are passed to functions, which are compiled into their callers |
//! | more than 227 KiB of workgroup memory, 3 KiB of immediates | no card has them |
//!
//! Atomics are 32-bit and 64-bit integers and f32 (and f64): naga validates none of f16, though sm_70 and up could add
//! them. 16-bit integers, and subgroup operations of every scalar, compile: those of 16 bits in 32.
//!
//! # Words
//!
//! | WGSL          | PTX and CUDA               |   | WGSL              | PTX and CUDA                  |
//! |---------------|----------------------------|---|-------------------|-------------------------------|
//! | invocation    | thread                     |   | storage buffer    | `.global` memory              |
//! | workgroup     | block, CTA                 |   | workgroup memory  | `.shared` memory              |
//! | subgroup      | warp of 32                 |   | private, function | registers, `.local` memory    |
//! | dispatch      | launch of a grid           |   | uniform           | `.global` read-only, `.param` |
//! | entry point   | kernel                     |   | immediate         | `.param`                      |
//!
//! Inside: `ir` is a small typed PTX, `lower` writes it, `emit` spells it.

#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../tests/common/assembler.rs"]
mod assembler;
mod emit;
mod error;
mod ir;
mod lower;
mod options;
mod ptx;

pub use error::Error;
pub use options::{Bounds, Contraction, Options, Target, Uniforms, WorkgroupMemory};
pub use ptx::{Access, EntryPoint, Feature, Param, ParamKind, Ptx, PtxVersion};

use naga::Module;
use naga::valid::ModuleInfo;

/// Compiles the compute entry points of `module`, which `info` must have validated.
///
/// # Errors
/// [`Error`]: what PTX or the target lacks, with its place in the source; never a panic for a validated module.
pub fn compile(module: &Module, info: &ModuleInfo, options: &Options) -> Result<Ptx, Error> {
    lower::lower(module, info, options)
}
