//! Every kernel that planners make for the harness, compiled by a device; nothing runs.
//!
//! A browser's WGSL compiler is not naga: Chromium's is Tint. What one accepts the other may refuse, so each text is compiled
//! inside an error scope, which is the only way to get a refusal there. `compile_kernels`, an example of polywarp-wgpu,
//! includes this file to ask native drivers the same.

use std::collections::HashSet;

use polywarp_core::harness::{Case, Level};
use polywarp_core::ops::REGISTRY;
use polywarp_core::ops::candidates;
use polywarp_core::plan::{Caps, KernelKey, Source};
use polywarp_wgpu::WgpuBackend;
use polywarp_wgpu::wgpu::{self, ErrorFilter};
use serde::Serialize;

/// How far each kernel is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Until its text is accepted.
    Module,
    /// Until the driver has made code of it: tens of times as long, on a software GPU.
    Pipeline,
}

/// What came of compiling.
#[derive(Serialize)]
pub struct Compiled {
    /// Kernels tried.
    pub tried: usize,
    /// The refused ones.
    pub refused: Vec<Refused>,
    /// Warnings, each said once.
    pub warnings: Vec<String>,
}

/// A kernel that the browser does not take.
#[derive(Serialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// The browser's words.
    pub message: String,
    /// Its text.
    pub wgsl: String,
}

/// Compiles each kernel of each candidate for each case of `level`, for this device and for the poorest one.
pub async fn compile(backend: &WgpuBackend, level: Level, depth: Depth, tell: &dyn Fn(usize, usize, &str)) -> Compiled {
    let sources = sources(backend.caps(), level);
    let mut compiled = Compiled { tried: sources.len(), refused: Vec::new(), warnings: Vec::new() };
    // Acceptance means something only where a broken text is refused.
    let broken = "@compute @workgroup_size(1) fn main() { let x = nothing; }".to_owned();
    let broken = Source { name: "broken on purpose".to_owned(), wgsl: broken, bindings: Vec::new() };
    if compile_one(backend.device(), &broken, depth, &mut compiled.warnings).await.is_ok() {
        let message = "it was accepted: refusals go unnoticed".to_owned();
        compiled.refused.push(Refused { name: broken.name, message, wgsl: broken.wgsl });
    }
    for (done, source) in sources.iter().enumerate() {
        if let Err(message) = compile_one(backend.device(), source, depth, &mut compiled.warnings).await {
            compiled.refused.push(Refused { name: source.name.clone(), message, wgsl: source.wgsl.clone() });
        }
        tell(done + 1, sources.len(), &source.name);
    }
    compiled
}

fn sources(caps: &Caps, level: Level) -> Vec<Source> {
    let poorest = Caps::webgpu_defaults(caps.device.clone());
    // Nobody plans ops that compute nothing.
    let computes = |case: &Case| case.op.output().layout.elements() > 0;
    let cases = REGISTRY.iter().flat_map(|family| (family.cases)(level)).filter(computes);
    let mut keys: HashSet<KernelKey> = HashSet::new();
    for case in cases {
        // An op that a device cannot compute has no kernels there.
        let offered = [caps, &poorest].into_iter().filter_map(|caps| candidates(&case.op, caps).ok());
        let launches = offered.flatten().flat_map(|candidate| candidate.plan.launches);
        keys.extend(launches.map(|launch| launch.kernel));
    }
    let mut sources: Vec<Source> = keys.iter().map(KernelKey::source).collect();
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources
}

async fn compile_one(
    device: &wgpu::Device,
    source: &Source,
    depth: Depth,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let internal = device.push_error_scope(ErrorFilter::Internal);
    let validation = device.push_error_scope(ErrorFilter::Validation);
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(&source.name),
        source: wgpu::ShaderSource::Wgsl(source.wgsl.as_str().into()),
    });
    if depth == Depth::Pipeline {
        let _ = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&source.name),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
    }
    // Scopes end in reverse order.
    let validation = validation.pop().await;
    let internal = internal.pop().await;
    for message in module.get_compilation_info().await.messages {
        let text = format!("{:?}: {}", message.message_type, message.message);
        if message.message_type != wgpu::CompilationMessageType::Error && !warnings.contains(&text) {
            warnings.push(text);
        }
    }
    validation.or(internal).map_or(Ok(()), |error| Err(error.to_string()))
}
