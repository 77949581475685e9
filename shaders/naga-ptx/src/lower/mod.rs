//! naga IR -> PTX IR: each entry point becomes one kernel, with the functions it calls compiled into it.
//!
//! - `interface`: kernel parameters, workgroup memory. `promote`, `unroll`: what lives in registers.
//! - `function`: frames, arguments, variables. `statement`: control flow. `expression`: values.
//! - `place`: pointers. `types`: values as scalars. `math`: builtin functions. `sync`: what invocations do together.
//!
//! The decision to know: variables are registers that are written again and again, not phi nodes. The assembler builds
//! its own SSA form, so neither memory nor an SSA construction of ours is in between.

mod expression;
mod function;
mod interface;
mod math;
mod place;
mod promote;
mod recognise;
mod statement;
mod symbol;
mod sync;
mod types;
mod uniformity;
mod unroll;
mod zero;

use std::collections::HashMap;

use naga::valid::{FunctionInfo, ModuleInfo};
use naga::{
    Barrier, Block, EntryPoint as Entry, GlobalVariable, Handle, Module, Scalar, ScalarKind, ShaderStage, Span,
    Statement, TypeInner,
};

use crate::emit;
use crate::error::{Error, Result};
use crate::ir::{Builder, Kernel, Reg};
use crate::options::{Options, Target};
use crate::ptx::{EntryPoint, Feature, Ptx, PtxVersion};
use interface::{Interface, MAX_STATIC_SHARED_BYTES};
use place::Place;
use promote::Promotion;
use types::Types;

pub(crate) fn lower(module: &Module, info: &ModuleInfo, options: &Options) -> Result<Ptx> {
    let target = options.target;
    if target < Target::OLDEST {
        return Err(Error::unsupported(format!("the target {target}"), format!("{} is the oldest", Target::OLDEST)));
    }
    let mut kernels = Vec::new();
    let mut entry_points = Vec::new();
    let mut symbols = symbol::Symbols::default();
    for (index, entry) in module.entry_points.iter().enumerate() {
        let wanted = options.entry_point.as_ref().is_none_or(|name| *name == entry.name);
        if !wanted || (options.entry_point.is_none() && entry.stage != ShaderStage::Compute) {
            continue;
        }
        if entry.stage != ShaderStage::Compute {
            return Err(not_compute(entry));
        }
        let symbol = symbols.unique(&entry.name);
        let (kernel, description) = kernel(module, info, info.get_entry_point(index), options, entry, symbol)?;
        kernels.push(kernel);
        entry_points.push(description);
    }
    if kernels.is_empty() {
        if let (None, Some(entry)) = (&options.entry_point, module.entry_points.first()) {
            return Err(not_compute(entry));
        }
        let names: Vec<&str> =
            module.entry_points.iter().filter(|e| e.stage == ShaderStage::Compute).map(|e| e.name.as_str()).collect();
        let name = options.entry_point.clone().unwrap_or_else(|| "(any)".to_owned());
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Error::NoEntryPoint { name, available });
    }
    let version = kernels.iter().map(|k| k.version).fold(least_version(target), PtxVersion::max);
    let text = emit::module(&kernels, version, target);
    Ok(Ptx { text, version, target, entry_points })
}

/// An entry point of another stage, with the place where its body starts: naga keeps none of its head.
fn not_compute(entry: &Entry) -> Error {
    let construct = format!("the {:?} stage of `{}`", entry.stage, entry.name);
    let error = Error::unsupported(construct, "only compute shaders become kernels");
    let function = &entry.function;
    let statements = function.body.span_iter().map(|(_, span)| *span);
    // A body without statements may return a value or have variables.
    let locals = function.local_variables.iter().map(|(handle, _)| function.local_variables.get_span(handle));
    let values = function.expressions.iter().map(|(handle, _)| function.expressions.get_span(handle));
    statements.chain(locals).chain(values).filter(|span| span.is_defined()).take(1).fold(error, Error::at)
}

/// The first PTX ISA that knows a target (PTX ISA 11.1.2, and the release notes table of chapter 13).
fn least_version(target: Target) -> PtxVersion {
    let (major, minor) = match target.sm() {
        0..=70 => (6, 0),
        71..=72 => (6, 1),
        73..=75 => (6, 3),
        76..=80 => (7, 0),
        81..=86 => (7, 1),
        87 => (7, 4),
        88 => (9, 0),
        89..=90 => (7, 8),
        91..=101 => (8, 6),
        102..=103 => (8, 8),
        104..=120 => (8, 7),
        _ => (8, 8),
    };
    PtxVersion { major, minor }
}

fn kernel(
    module: &Module,
    info: &ModuleInfo,
    entry_info: &FunctionInfo,
    options: &Options,
    entry: &Entry,
    symbol: String,
) -> Result<(Kernel, EntryPoint)> {
    if entry.workgroup_size_overrides.is_some_and(|sizes| sizes.iter().any(Option::is_some)) {
        return Err(Error::UnresolvedOverride { name: format!("the workgroup size of {}", entry.name) });
    }
    let invocations = entry.workgroup_size.iter().map(|&n| u64::from(n)).product::<u64>();
    if invocations > 1024 || entry.workgroup_size[2] > 64 {
        let reason = "a block has at most 1024 threads, 64 of them along z";
        return Err(Error::unsupported(format!("the workgroup size {:?}", entry.workgroup_size), reason));
    }
    let types = Types::new(module);
    let mut b = Builder::new(least_version(options.target));
    let mut interface = Interface::new(&mut b, module, entry_info, types, options)?;
    // Whole words, so that zeroing stays inside.
    interface.shared_bytes = interface.shared_bytes.next_multiple_of(16);
    let math = math::Env { target: options.target, contraction: options.contraction };
    let sync = sync::Env { target: options.target, workgroup_size: entry.workgroup_size };
    let promotion = Promotion::new(module, types, &entry.function)?;
    let mut lowerer = Lowerer {
        module,
        info,
        options,
        types,
        math,
        sync,
        promotion,
        globals: interface.places,
        products: HashMap::new(),
        b,
        local_bytes: 0,
        partial: false,
        depth: 0,
        calls: 0,
    };
    lowerer.entry(entry, entry_info, &interface.private, interface.shared_bytes)?;
    if let Err(product) = lowerer.b.settle_layouts() {
        let place = lowerer.products.get(&product).copied().unwrap_or_default();
        let error = Error::unsupported(
            "one cooperative matrix loaded by rows in one place and by columns in another",
            "its registers are laid out differently; use two variables",
        );
        return Err(error.at(place));
    }
    let local_bytes = lowerer.local_bytes;
    let (blocks, registers, version) = lowerer.b.finish();
    let shared_is_dynamic = interface.shared_bytes > MAX_STATIC_SHARED_BYTES;
    let params = interface.params.iter().map(|p| (p.kind.size_bytes(), p.kind.align_bytes())).collect();
    let description = EntryPoint {
        name: entry.name.clone(),
        symbol: symbol.clone(),
        workgroup_size: entry.workgroup_size,
        params: interface.params,
        static_shared_bytes: if shared_is_dynamic { 0 } else { interface.shared_bytes },
        dynamic_shared_bytes: if shared_is_dynamic { interface.shared_bytes } else { 0 },
        features: features(module, info, entry, entry_info),
    };
    let kernel = Kernel {
        symbol,
        workgroup_size: entry.workgroup_size,
        params,
        shared_bytes: interface.shared_bytes,
        shared_is_dynamic,
        local_bytes,
        blocks,
        registers,
        version,
    };
    Ok((kernel, description))
}

/// What is being lowered, and where it has got to.
struct Lowerer<'m> {
    module: &'m Module,
    info: &'m ModuleInfo,
    options: &'m Options,
    types: Types<'m>,
    math: math::Env,
    sync: sync::Env,
    promotion: Promotion,
    globals: HashMap<Handle<GlobalVariable>, Place>,
    /// Where products of cooperative matrices are in the source, by the first register of the result.
    products: HashMap<Reg, Span>,
    b: Builder,
    /// Local memory handed out so far.
    local_bytes: u32,
    /// Not all invocations of the workgroup may be here.
    partial: bool,
    /// Calls inside each other.
    depth: u32,
    /// Calls that were written out so far.
    calls: u32,
}

/// What the functions of an entry point use, by the types of their expressions.
fn features(module: &Module, info: &ModuleInfo, entry: &Entry, entry_info: &FunctionInfo) -> Vec<Feature> {
    let types = Types::new(module);
    let mut features = std::collections::BTreeSet::new();
    let mut note = |function: &naga::Function, info: &FunctionInfo| {
        for (handle, expression) in function.expressions.iter() {
            let inner = info[handle].ty.inner_with(&module.types);
            if let TypeInner::CooperativeMatrix { .. } = inner {
                features.insert(Feature::CooperativeMatrix);
            } else if let Some(TypeInner::Atomic(scalar)) = types.pointee(inner) {
                // Whatever is done with it, and whether anyone looks at the result.
                features.extend(match (scalar.kind, scalar.width) {
                    (ScalarKind::Float, _) => Some(Feature::FloatAtomics),
                    (_, 8) => Some(Feature::Int64Atomics),
                    _ => None,
                });
            } else if let Some(Scalar { kind: ScalarKind::Float, width }) = inner.scalar() {
                features.extend(match width {
                    2 => Some(Feature::Float16),
                    8 => Some(Feature::Float64),
                    _ => None,
                });
            }
            if let naga::Expression::SubgroupBallotResult | naga::Expression::SubgroupOperationResult { .. } =
                expression
            {
                features.insert(Feature::Subgroups);
            }
        }
        if has_subgroup_barrier(&function.body) {
            features.insert(Feature::Subgroups);
        }
    };
    note(&entry.function, entry_info);
    for callee in function::called(module, &entry.function) {
        note(&module.functions[callee], &info[callee]);
    }
    features.into_iter().collect()
}

fn has_subgroup_barrier(block: &Block) -> bool {
    block.iter().any(|statement| {
        let here = matches!(statement, Statement::ControlBarrier(flags) if flags.contains(Barrier::SUB_GROUP));
        let mut inside = false;
        unroll::children(statement, &mut |child| inside |= has_subgroup_barrier(child));
        here || inside
    })
}
