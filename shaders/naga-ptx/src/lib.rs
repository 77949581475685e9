//! Compiles WGSL compute shaders, as naga IR, to NVIDIA PTX.
#![forbid(unsafe_code)]

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
