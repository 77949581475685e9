//! Runs an entry point on the interpreter of PTX.

use naga_ptx::{Options, ParamKind, compile};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

use super::Shader;

/// What a launch gets: buffers by their binding in group 0, uniforms among them, and immediate data.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub buffers: Vec<Vec<u8>>,
    pub immediates: Vec<u8>,
    /// Bytes of this value around each buffer, in the same allocation, which must be found again.
    pub guard: Option<u8>,
}

/// Bytes before and after a guarded buffer.
const GUARD_BYTES: usize = 256;

/// One workgroup of the only entry point that `options` leave; the buffers afterwards. An error is a fault of the kernel.
pub fn launch(
    shader: &Shader,
    options: &Options,
    run_options: &RunOptions,
    given: &Given,
) -> Result<Vec<Vec<u8>>, String> {
    let ptx = compile(&shader.module, &shader.info, options).unwrap_or_else(|error| panic!("{}: {error}", shader.name));
    let module = Module::parse(&ptx.text).unwrap_or_else(|error| panic!("{}: {error}\n{}", shader.name, ptx.text));
    let [entry] = &ptx.entry_points[..] else { panic!("{} has several entry points", shader.name) };
    let kernel = module.kernel(&entry.symbol).unwrap();
    let mut memory = Memory::new();
    let around = if given.guard.is_some() { GUARD_BYTES } else { 0 };
    let mut addresses = Vec::new();
    for buffer in &given.buffers {
        let mut all = vec![given.guard.unwrap_or_default(); buffer.len() + 2 * around];
        all[around..around + buffer.len()].copy_from_slice(buffer);
        let start = memory.alloc(all.len(), 256);
        memory.write(start, &all).unwrap();
        addresses.push(start + around as u64);
    }
    let mut params = vec![0; kernel.param_bytes() as usize];
    for param in &entry.params {
        let buffer = |binding: u32| &given.buffers[binding as usize];
        let value = match param.kind {
            ParamKind::Buffer { binding, .. } => addresses[binding as usize].to_le_bytes().to_vec(),
            ParamKind::BufferBytes { binding, .. } => (buffer(binding).len() as u64).to_le_bytes().to_vec(),
            ParamKind::Uniform { binding, size_bytes, .. } => buffer(binding)[..size_bytes as usize].to_vec(),
            ParamKind::Immediates { size_bytes } => given.immediates[..size_bytes as usize].to_vec(),
        };
        params[param.offset_bytes as usize..][..value.len()].copy_from_slice(&value);
    }
    let dynamic_shared_bytes = entry.dynamic_shared_bytes;
    let launch = Launch { grid: [1; 3], block: entry.workgroup_size, params, dynamic_shared_bytes };
    run(kernel, &mut memory, &launch, run_options).map_err(|fault| fault.to_string())?;
    let mut after = Vec::new();
    for (buffer, address) in given.buffers.iter().zip(addresses) {
        let all = memory.read(address - around as u64, buffer.len() + 2 * around).unwrap();
        let (inside, outside) = (&all[around..around + buffer.len()], [&all[..around], &all[around + buffer.len()..]]);
        if outside.iter().any(|part| part.iter().any(|&byte| Some(byte) != given.guard)) {
            return Err(format!("what lies around the buffer of {} bytes was written", buffer.len()));
        }
        after.push(inside.to_vec());
    }
    Ok(after)
}

/// Words in memory.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// And back.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}
