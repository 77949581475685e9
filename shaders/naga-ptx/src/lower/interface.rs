//! The launch ABI: which kernel parameters an entry point has, and where workgroup memory lies.
//!
//! Resources the entry point uses come in order of (group, binding): the address of each buffer, followed by its size
//! in bytes where a run-time array needs it; uniforms by value instead of an address when asked for and when they fit;
//! immediate data last. Workgroup variables share one block of memory in the order of declaration.

use std::collections::{HashMap, HashSet};

use naga::valid::{FunctionInfo, GlobalUse};
use naga::{AddressSpace, Expression, GlobalVariable, Handle, MemoryDecorations, Module, StorageAccess};

use super::place::{End, Memory, Place};
use super::types::{NO_GRAPHICS, Types};
use crate::error::{Error, Result};
use crate::ir::{Address, Base, Builder, Inst, Operand, Space, Ty};
use crate::options::{Bounds, Options, Uniforms};
use crate::ptx::{Access, Param, ParamKind};

/// Bytes of parameters every driver takes (PTX ISA 5.1.6.1: 4352 since 1.5; more needs sm_70 and PTX 8.1).
const MAX_PARAM_BYTES: u32 = 4096;

/// Workgroup memory that may be declared statically, bytes; beyond it must be asked for at launch (CUDA C++ guide,
/// 16.7.3).
pub(crate) const MAX_STATIC_SHARED_BYTES: u32 = 48 << 10;

/// Workgroup memory any supported card has, bytes: 227 KiB of sm_90 and later is the most.
const MAX_SHARED_BYTES: u64 = 227 << 10;

/// What an entry point's globals became.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    pub(crate) params: Vec<Param>,
    pub(crate) shared_bytes: u32,
    pub(crate) places: HashMap<Handle<GlobalVariable>, Place>,
    /// Workgroup variables, for zeroing.
    pub(crate) private: Vec<Handle<GlobalVariable>>,
}

impl Interface {
    /// Lays out the globals that `info` says are used, and loads the addresses of buffers.
    pub(crate) fn new(
        b: &mut Builder,
        module: &Module,
        info: &FunctionInfo,
        types: Types<'_>,
        options: &Options,
    ) -> Result<Interface> {
        let mut interface = Interface::default();
        let sized = sized_buffers(module, options);
        let mut used: Vec<(Handle<GlobalVariable>, &GlobalVariable)> =
            module.global_variables.iter().filter(|&(handle, _)| info[handle] != GlobalUse::empty()).collect();
        used.sort_by_key(|(handle, global)| (global.binding.map(|b| (b.group, b.binding)), *handle));
        for (handle, global) in used {
            let place = interface
                .variable(b, types, options, &sized, handle, global)
                .map_err(|error| error.at(module.global_variables.get_span(handle)))?;
            match place {
                Some(place) => drop(interface.places.insert(handle, place)),
                None => interface.private.push(handle),
            }
        }
        Ok(interface)
    }

    /// `None`: a private variable, which is no part of the interface.
    fn variable(
        &mut self,
        b: &mut Builder,
        types: Types<'_>,
        options: &Options,
        sized: &HashSet<Handle<GlobalVariable>>,
        handle: Handle<GlobalVariable>,
        global: &GlobalVariable,
    ) -> Result<Option<Place>> {
        let inner = types.inner(global.ty);
        let memory = match global.space {
            AddressSpace::Private => return Ok(None),
            AddressSpace::WorkGroup => {
                let size = types.size_bytes(inner)?;
                let start = u64::from(self.shared_bytes.next_multiple_of(16));
                if start + size > MAX_SHARED_BYTES {
                    let reason = format!("{} bytes are asked for, {MAX_SHARED_BYTES} is the most", start + size);
                    return Err(Error::unsupported("this much workgroup memory", reason));
                }
                self.shared_bytes = (start + size) as u32;
                let memory = Memory::new(Space::Shared, Base::Shared, start as u32);
                Memory { end: Some(End::Shared(self.shared_bytes)), ..memory }
            }
            AddressSpace::Uniform => {
                let (group, binding) = binding_of(global)?;
                let size = types.size_bytes(inner)?.next_multiple_of(16);
                let room = MAX_PARAM_BYTES.saturating_sub(self.param_bytes());
                match (options.uniforms, u32::try_from(size)) {
                    (Uniforms::Parameters, Ok(size_bytes)) if size_bytes <= room.saturating_sub(1024) => {
                        let index = self.push(ParamKind::Uniform { group, binding, size_bytes });
                        Memory::new(Space::Param, Base::Param(index), 0)
                    }
                    _ => self.buffer(b, Space::Constant, group, binding, Access::Read, size),
                }
            }
            AddressSpace::Storage { access } => {
                let (group, binding) = binding_of(global)?;
                let writes = access.intersects(StorageAccess::STORE | StorageAccess::ATOMIC);
                let volatile = !global.memory_decorations.is_empty();
                // Others may write a coherent or volatile buffer meanwhile, so the read-only path is not for it.
                let (space, access) = match writes {
                    true => (Space::Global, Access::ReadWrite),
                    false if volatile => (Space::Global, Access::Read),
                    false => (Space::Constant, Access::Read),
                };
                let mut memory = self.buffer(b, space, group, binding, access, types.size_bytes(inner)?);
                if types.is_runtime_sized(inner) && sized.contains(&handle) {
                    let index = self.push(ParamKind::BufferBytes { group, binding });
                    let bytes = load_param(b, index);
                    memory.binding_bytes = Some(bytes);
                    if let Base::Reg(start) = memory.address.base {
                        memory.end = Some(End::Buffer(start, bytes.into()));
                    }
                }
                memory.volatile = global.memory_decorations.intersects(MemoryDecorations::all());
                memory
            }
            AddressSpace::Immediate => {
                let size = types.size_bytes(inner)?;
                let size_bytes =
                    u32::try_from(size).ok().filter(|&s| s <= MAX_PARAM_BYTES - 1024).ok_or_else(|| {
                        Error::unsupported("this much immediate data", format!("{size} bytes do not fit a launch"))
                    })?;
                let index = self.push(ParamKind::Immediates { size_bytes });
                Memory::new(Space::Param, Base::Param(index), 0)
            }
            AddressSpace::Handle => {
                return Err(Error::unsupported("a texture, sampler or acceleration structure", NO_GRAPHICS));
            }
            AddressSpace::TaskPayload | AddressSpace::RayPayload | AddressSpace::IncomingRayPayload => {
                return Err(Error::unsupported("a payload variable", "there are only compute stages"));
            }
            AddressSpace::Function => return Err(Error::invalid("a global variable in function space")),
        };
        Ok(Some(Place::Memory(memory)))
    }

    fn buffer(
        &mut self,
        b: &mut Builder,
        space: Space,
        group: u32,
        binding: u32,
        access: Access,
        min_bytes: u64,
    ) -> Memory {
        let index = self.push(ParamKind::Buffer { group, binding, access, min_bytes });
        let start = load_param(b, index);
        // The ABI: buffers start at multiples of 16 bytes.
        b.aligned(start, 16);
        let end = Some(End::Buffer(start, Operand::Imm(min_bytes)));
        Memory { end, ..Memory::new(space, Base::Reg(start), 0) }
    }

    /// Adds a parameter and gives its number.
    fn push(&mut self, kind: ParamKind) -> usize {
        let offset_bytes = self.param_bytes().next_multiple_of(kind.align_bytes());
        self.params.push(Param { offset_bytes, kind });
        self.params.len() - 1
    }

    fn param_bytes(&self) -> u32 {
        self.params.last().map_or(0, |p| p.offset_bytes + p.kind.size_bytes())
    }
}

/// The buffers whose size the kernel must know: all, where accesses are checked, else those whose length is asked for.
fn sized_buffers(module: &Module, options: &Options) -> HashSet<Handle<GlobalVariable>> {
    let all = || module.global_variables.iter().map(|(handle, _)| handle).collect();
    if options.bounds == Bounds::Clamp {
        return all();
    }
    let mut sized = HashSet::new();
    let functions = module.functions.iter().map(|(_, function)| function);
    for function in functions.chain(module.entry_points.iter().map(|entry| &entry.function)) {
        for (_, expression) in function.expressions.iter() {
            let Expression::ArrayLength(mut pointer) = *expression else { continue };
            while let Expression::AccessIndex { base, .. } | Expression::Access { base, .. } =
                function.expressions[pointer]
            {
                pointer = base;
            }
            match function.expressions[pointer] {
                Expression::GlobalVariable(handle) => drop(sized.insert(handle)),
                // A pointer that was handed in: to which buffer, only its callers know.
                _ => return all(),
            }
        }
    }
    sized
}

fn load_param(b: &mut Builder, index: usize) -> crate::ir::Reg {
    let dst = b.reg(Ty::U64);
    let address = Address { base: Base::Param(index), offset: 0 };
    b.push(Inst::Load { space: Space::Param, ty: Ty::U64, dst: vec![dst], address, volatile: false });
    dst
}

fn binding_of(global: &GlobalVariable) -> Result<(u32, u32)> {
    let binding = global.binding.ok_or_else(|| Error::invalid("a buffer without @group and @binding"))?;
    Ok((binding.group, binding.binding))
}
