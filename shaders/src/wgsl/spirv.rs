//! SPIR-V that somebody else wrote, read by naga: the same module, checks and limits as of WGSL.
//!
//! So bounds stay checked, bindings are known, and every backend runs it. Handing the words on to the driver would save the
//! reader's gaps and lose all that, on Vulkan alone. Not the writer (`compiler`). The decision to know: naga recurses with the nesting
//! of branches, so those are counted first.

use naga::front::spv::{Options, parse_u8_slice};
use naga::valid::{Capabilities, GlobalUse, ModuleInfo};
use naga::{AddressSpace, Module, ShaderStage, StorageAccess, TypeInner};
use polywarp_core::{Error, Result};

use super::guard::{MAX_CHAIN, MAX_SOURCE_BYTES, MAX_WORDS, guarded, too_complex};
use super::reflect::required_features;
use super::{Text, shader_error, sizes, validate, with_causes};

/// First word of a module (SPIR-V, "Physical Layout of a SPIR-V Module and Instruction").
const MAGIC: u32 = 0x0723_0203;
/// Words before the first instruction.
const HEADER_WORDS: usize = 5;
const OP_FUNCTION: u16 = 54;
const OP_LOOP_MERGE: u16 = 246;
const OP_SELECTION_MERGE: u16 = 247;

/// The module in `bytes`, checked against what the `capabilities` of `device` (a name for errors) allow.
///
/// # Errors
/// [`Error::ShaderTooComplex`] beyond the limits here; [`Error::Unsupported`] naming features beyond `capabilities`;
/// [`Error::Shader`] without a place for everything else.
pub(super) fn parse(device: &str, bytes: &[u8], capabilities: Capabilities) -> Result<(Module, ModuleInfo, Text)> {
    let bytes = little_endian(bytes)?;
    check_instructions(&bytes)?;
    guarded(|| {
        let options =
            Options { adjust_coordinate_space: false, strict_capabilities: true, block_ctx_dump_prefix: None };
        let mut module = parse_u8_slice(&bytes, &options).map_err(|error| refused(&with_causes(&error)))?;
        for (_, global) in module.global_variables.iter_mut() {
            // GLSL's `writeonly`, which WGSL has not.
            if let AddressSpace::Storage { access } = &mut global.space
                && *access == StorageAccess::STORE
            {
                *access |= StorageAccess::LOAD;
            }
        }
        sizes::check_sizes(&module, "")?;
        let entries = &module.entry_points;
        if !entries.is_empty() && entries.iter().all(|entry| entry.stage != ShaderStage::Compute) {
            return Err(refused("it has no compute entry point (execution model GLCompute)"));
        }
        match validate(&module, capabilities) {
            Ok(info) if narrow(&mut module, &info) => {
                let info = validate(&module, capabilities).map_err(|error| refused(&with_causes(error.as_inner())))?;
                Ok((module, info, Text::Settled))
            }
            Ok(info) => Ok((module, info, Text::Settled)),
            Err(error) if validate(&module, Capabilities::all()).is_ok() => {
                let lacking: Vec<String> = required_features(&module)
                    .into_iter()
                    .filter(|(_, capability)| !capabilities.contains(*capability))
                    .map(|(name, _)| name)
                    .collect();
                if lacking.is_empty() {
                    return Err(refused(&with_causes(error.as_inner())));
                }
                let reason = "the kernel needs it; use a device that has it".to_owned();
                Err(Error::Unsupported { device: device.to_owned(), what: lacking.join(", "), reason })
            }
            Err(error) => Err(refused(&with_causes(error.as_inner()))),
        }
    })
}

/// Makes buffers that nothing writes read-only, so that one may be bound twice: what compilers write at members of a buffer
/// (GLSL's `readonly`) naga forgets. Whether there were any.
fn narrow(module: &mut Module, info: &ModuleInfo) -> bool {
    let is_storage = |ty: naga::Handle<naga::Type>| {
        matches!(module.types[ty].inner, TypeInner::Pointer { space: AddressSpace::Storage { .. }, .. })
    };
    // What a function does by a pointer that it is given is not put down to the buffer.
    if module.functions.iter().any(|(_, function)| function.arguments.iter().any(|argument| is_storage(argument.ty))) {
        return false;
    }
    let entries = 0..module.entry_points.len();
    let is_written = |global: naga::Handle<naga::GlobalVariable>| {
        entries.clone().any(|entry| info.get_entry_point(entry)[global].contains(GlobalUse::WRITE))
    };
    let globals = module.global_variables.iter().map(|(handle, _)| handle);
    let unwritten: Vec<_> = globals.filter(|&global| !is_written(global)).collect();
    let mut is_changed = false;
    for handle in unwritten {
        if let AddressSpace::Storage { access } = &mut module.global_variables[handle].space
            && *access == StorageAccess::LOAD | StorageAccess::STORE
        {
            (*access, is_changed) = (StorageAccess::LOAD, true);
        }
    }
    is_changed
}

fn refused(message: &str) -> Error {
    shader_error("", None, &format!("SPIR-V: {message}"))
}

/// The words of a module, least byte first.
fn little_endian(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.len() > MAX_SOURCE_BYTES {
        return Err(too_complex("size in bytes", bytes.len(), MAX_SOURCE_BYTES));
    }
    let first = bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
    let is_swapped = match first {
        Some(MAGIC) => false,
        Some(word) if word.swap_bytes() == MAGIC => true,
        _ => return Err(refused("it does not begin with SPIR-V's number, 0x07230203")),
    };
    if !bytes.len().is_multiple_of(4) {
        return Err(refused(&format!("its {} bytes are no whole number of words; it is cut short", bytes.len())));
    }
    let mut bytes = bytes.to_vec();
    if is_swapped {
        bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    Ok(bytes)
}

/// Refuses modules that could exhaust the reader's stack or patience.
fn check_instructions(bytes: &[u8]) -> Result<()> {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let (mut at, mut merges, mut instructions) = (HEADER_WORDS, 0, 0);
    while let Some(&word) = words.get(at) {
        let (op, length) = (word as u16, (word >> 16) as usize);
        if length == 0 || at + length > words.len() {
            return Err(refused(&format!("the instruction at word {at} has {length} words, which cannot be")));
        }
        match op {
            OP_FUNCTION => (merges, instructions) = (0, 0),
            OP_LOOP_MERGE | OP_SELECTION_MERGE => merges += 1,
            _ => {}
        }
        (at, instructions) = (at + length, instructions + 1);
        if merges > MAX_CHAIN {
            return Err(too_complex("branches and loops in one function", merges, MAX_CHAIN));
        }
        if instructions > MAX_WORDS {
            return Err(too_complex("instructions in one function", instructions, MAX_WORDS));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use naga::back::spv;
    use polywarp_core::Kernel;

    use super::*;
    use crate::wgsl::{BufferUse, parse_and_validate, read_kernel};

    const TEXT: &str = "
        override WIDTH: u32 = 4;
        @group(0) @binding(2) var<storage, read> x: array<f32>;
        @group(1) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(8, 2) fn go(@builtin(global_invocation_id) id: vec3<u32>) {
            for (var i = 0u; i < 4u; i++) { if id.x > i { y[id.x] += x[id.x + i]; } }
        }";

    /// The words of `wgsl`, which naga writes.
    fn module(wgsl: &str) -> Vec<u8> {
        let (module, info) = parse_and_validate(wgsl, Capabilities::all()).unwrap();
        let options = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
        let words = spv::write_vec(&module, &info, &options, None).unwrap();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn message(bytes: Vec<u8>) -> String {
        match read_kernel("test", &Kernel::spirv(bytes), Capabilities::empty()) {
            Err(Error::Shader { line: 0, message, .. }) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn module_is_read_with_its_bindings_in_both_orders_of_bytes() {
        let little = module(&TEXT.replace("override WIDTH: u32 = 4;", ""));
        let mut big = little.clone();
        big.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        for bytes in [little, big] {
            let interface = read_kernel("test", &Kernel::spirv(bytes), Capabilities::empty()).unwrap().interface;
            let buffers: Vec<_> =
                interface.buffers.iter().map(|b| (b.group, b.binding, b.usage, b.min_bytes)).collect();
            assert_eq!(buffers, [(0, 2, BufferUse::Read, 4), (1, 0, BufferUse::ReadWrite, 4)]);
            assert_eq!((interface.entry.as_str(), interface.workgroup_size), ("go", [8, 2, 1]));
            let elements: Vec<_> = interface.buffers.iter().map(|b| b.element_bytes).collect();
            assert_eq!(elements, [Some(4), Some(4)]);
        }
    }

    #[test]
    fn module_of_another_compiler_is_read() {
        // glslang's, with a buffer that is only written.
        let bytes = include_bytes!("../../../examples/shaders/multiply_them.spv");
        let interface = read_kernel("test", &Kernel::spirv(&bytes[..]), Capabilities::empty()).unwrap().interface;
        let buffers: Vec<_> = interface.buffers.iter().map(|b| (b.group, b.binding, b.usage)).collect();
        assert_eq!(buffers, [(0, 0, BufferUse::ReadWrite), (0, 1, BufferUse::Read), (0, 2, BufferUse::Read)]);
        assert_eq!((interface.entry.as_str(), interface.workgroup_size), ("main", [256, 1, 1]));
    }

    #[test]
    fn features_that_the_device_lacks_are_named() {
        let text = "@group(0) @binding(0) var<storage, read_write> x: array<f64>;
            @compute @workgroup_size(1) fn main() { x[0] = x[1] * x[0]; }";
        match read_kernel("test", &Kernel::spirv(module(text)), Capabilities::empty()) {
            Err(Error::Unsupported { device, what, .. }) => {
                assert_eq!((device.as_str(), what.as_str()), ("test", "f64"))
            }
            other => panic!("{other:?}"),
        }
        read_kernel("test", &Kernel::spirv(module(text)), Capabilities::FLOAT64).unwrap();
    }

    #[test]
    fn what_is_no_module_is_refused_with_its_reason() {
        let good = module(&TEXT.replace("override WIDTH: u32 = 4;", ""));
        assert!(message(Vec::new()).contains("0x07230203"));
        assert!(message(b"@compute @workgroup_size(1) fn main() {}".to_vec()).contains("0x07230203"));
        assert!(message(good[..good.len() - 2].to_vec()).contains("cut short"));
        assert!(message(good[..good.len() - 4].to_vec()).contains("incomplete"));
        let mut endless = good.clone();
        endless[20..24].fill(0);
        assert!(message(endless).contains("which cannot be"));
        // Whatever a bit makes of it, it is read or refused, and nothing panics through.
        for at in (20..good.len()).step_by(7) {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            let _ = read_kernel("test", &Kernel::spirv(bytes), Capabilities::empty());
        }
        let too_big = Kernel::spirv(vec![0; MAX_SOURCE_BYTES + 4]);
        let refused = read_kernel("test", &too_big, Capabilities::empty());
        assert!(matches!(refused, Err(Error::ShaderTooComplex { what: "size in bytes", .. })), "{refused:?}");
    }

    #[test]
    fn branches_are_counted_by_function() {
        let merges = |count: usize, functions: usize| {
            let mut words = vec![MAGIC, 0x0001_0300, 0, 10, 0];
            for _ in 0..functions {
                words.extend([5 << 16 | u32::from(OP_FUNCTION), 1, 2, 0, 3]);
                words.extend([3 << 16 | u32::from(OP_SELECTION_MERGE), 4, 0].repeat(count));
            }
            check_instructions(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
        };
        merges(MAX_CHAIN, 2).unwrap();
        let refused = merges(MAX_CHAIN + 1, 1);
        assert!(matches!(refused, Err(Error::ShaderTooComplex { found, .. }) if found == MAX_CHAIN as u64 + 1));
    }

    #[test]
    fn long_chains_of_values_do_not_exhaust_the_stack() {
        // Each step of the chain is a value of its own, so that the text nests nowhere and the expression does.
        let steps = "a = a * 1.5 + x[0];\n".repeat(6000);
        let text = format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<f32>;
            @compute @workgroup_size(1) fn main() {{ var a = x[1]; {steps} x[0] = a; }}"
        );
        let read = read_kernel("test", &Kernel::spirv(module(&text)), Capabilities::empty()).unwrap();
        assert_eq!(read.interface.buffers.len(), 1);
    }
}
