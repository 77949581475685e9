//! Functions: their arguments, variables and results. A call is the callee's body, written where it is called.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use naga::valid::FunctionInfo;
use naga::{
    Binding, Block, BuiltIn, EntryPoint, Expression, Function, GlobalVariable, Handle, LocalVariable, Module,
    Statement, TypeInner,
};

use super::place::{Memory, Place};
use super::sync;
use super::types::{Leaf, NO_GRAPHICS};
use super::uniformity::{Uniformity, uniform_binding};
use super::unroll::{Unrolling, children};
use super::{Lowerer, types};
use crate::error::{Error, Result};
use crate::ir::{Base, BlockId, Operand, Reg, Space, Special, Terminator, Ty};
use crate::options::WorkgroupMemory;

/// Calls inside each other; WGSL has no recursion, so this is only met by what was written to meet it.
const MAX_DEPTH: u32 = 64;
/// Calls that are written out: functions that call each other twice double them from one to the next.
const MAX_CALLS: u32 = 1 << 16;
/// Local memory of one invocation, bytes (CUDA C++ guide, table of compute capabilities: 512 KiB).
const MAX_LOCAL_BYTES: u64 = 512 << 10;
/// Scalars of a variable in memory that are set one by one; above, a loop does it.
pub(super) const MAX_SINGLE_STORES: usize = 32;

/// The value of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// The scalars of a value; of a cooperative matrix each lane's registers.
    Leaves(Rc<[Operand]>),
    /// A pointer.
    Place(Place),
}

/// A function being written.
pub(crate) struct Frame<'m> {
    pub(crate) function: &'m Function,
    pub(crate) info: &'m FunctionInfo,
    pub(crate) uniformity: Uniformity<'m>,
    pub(crate) arguments: Vec<Value>,
    pub(crate) values: Vec<Option<Value>>,
    pub(crate) locals: HashMap<Handle<LocalVariable>, Place>,
    pub(crate) unrolling: Rc<Unrolling>,
    /// Counters of loops that are being written out.
    pub(crate) known: HashMap<Handle<LocalVariable>, u32>,
    /// Where `break` and `continue` go.
    pub(crate) loops: Vec<Jumps>,
    pub(crate) exit: BlockId,
    pub(crate) result: Option<Rc<[Reg]>>,
    /// The result's scalars.
    pub(crate) result_leaves: Vec<Leaf>,
}

/// Targets of a loop or switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jumps {
    pub(crate) to_break: BlockId,
    /// A switch has none of its own.
    pub(crate) to_continue: Option<BlockId>,
}

impl<'m> Lowerer<'m> {
    /// Writes an entry point.
    pub(super) fn entry(
        &mut self,
        entry: &'m EntryPoint,
        info: &'m FunctionInfo,
        private: &[Handle<GlobalVariable>],
        shared_bytes: u32,
    ) -> Result<()> {
        if self.options.workgroup_memory == WorkgroupMemory::Zeroed {
            self.zero_shared(shared_bytes)?;
        }
        for &handle in private {
            let global = &self.module.global_variables[handle];
            let inner = self.types.inner(global.ty);
            let init = match global.init {
                Some(init) => Some(self.constant(init)?),
                None => None,
            };
            let in_memory = self.promotion.private_in_memory(handle);
            let place = self.variable(inner, in_memory, init)?;
            self.globals.insert(handle, place);
        }
        let mut arguments = Vec::new();
        let mut uniform = Vec::new();
        for argument in &entry.function.arguments {
            uniform.push(argument.binding.as_ref().is_some_and(uniform_binding));
            arguments.push(self.builtin_argument(argument)?);
        }
        self.body(None, &entry.function, info, arguments, uniform)?;
        Ok(())
    }

    fn builtin_argument(&mut self, argument: &naga::FunctionArgument) -> Result<Value> {
        if let Some(binding) = &argument.binding {
            return Ok(Value::Leaves(self.builtin(binding)?.into()));
        }
        let TypeInner::Struct { members, .. } = self.types.inner(argument.ty) else {
            return Err(Error::invalid("an argument of an entry point without a binding"));
        };
        let mut leaves = Vec::new();
        for member in members {
            let binding = member.binding.as_ref().ok_or_else(|| Error::invalid("a member without a binding"))?;
            leaves.extend(self.builtin(binding)?);
        }
        Ok(Value::Leaves(leaves.into()))
    }

    /// The scalars of a builtin value.
    fn builtin(&mut self, binding: &Binding) -> Result<Vec<Operand>> {
        let Binding::BuiltIn(builtin) = *binding else {
            return Err(Error::unsupported("a user-defined stage input", "compute shaders have none"));
        };
        let size = self.sync.workgroup_size;
        let leaves = match builtin {
            BuiltIn::GlobalInvocationId => {
                let mut leaves = Vec::with_capacity(3);
                for (axis, &size) in size.iter().enumerate() {
                    let group = self.b.special(Special::Ctaid(axis)).into();
                    let local = self.local_id(axis);
                    leaves.push(match size {
                        1 => group,
                        size => self.b.ternary(crate::ir::TernaryOp::MadLo, Ty::U32, group, Operand::u32(size), local),
                    });
                }
                leaves
            }
            BuiltIn::LocalInvocationId => (0..3).map(|axis| self.local_id(axis)).collect(),
            BuiltIn::LocalInvocationIndex => vec![sync::linear_index(&mut self.b, self.sync)],
            BuiltIn::WorkGroupId => (0..3).map(|axis| self.b.special(Special::Ctaid(axis)).into()).collect(),
            BuiltIn::WorkGroupSize => size.iter().map(|&n| Operand::u32(n)).collect(),
            BuiltIn::NumWorkGroups => (0..3).map(|axis| self.b.special(Special::Nctaid(axis)).into()).collect(),
            BuiltIn::NumSubgroups => vec![sync::num_subgroups(self.sync)],
            BuiltIn::SubgroupId => vec![sync::subgroup_id(&mut self.b, self.sync)],
            BuiltIn::SubgroupSize => vec![sync::subgroup_size()],
            BuiltIn::SubgroupInvocationId => vec![sync::subgroup_invocation_id(&mut self.b)],
            BuiltIn::PrimitiveIndex
            | BuiltIn::Position { .. }
            | BuiltIn::ViewIndex
            | BuiltIn::BaseInstance
            | BuiltIn::BaseVertex
            | BuiltIn::ClipDistances
            | BuiltIn::CullDistance
            | BuiltIn::InstanceIndex
            | BuiltIn::PointSize
            | BuiltIn::VertexIndex
            | BuiltIn::DrawIndex
            | BuiltIn::FragDepth
            | BuiltIn::PointCoord
            | BuiltIn::FrontFacing
            | BuiltIn::Barycentric { .. }
            | BuiltIn::SampleIndex
            | BuiltIn::SampleMask
            | BuiltIn::MeshTaskSize
            | BuiltIn::CullPrimitive
            | BuiltIn::PointIndex
            | BuiltIn::LineIndices
            | BuiltIn::TriangleIndices
            | BuiltIn::VertexCount
            | BuiltIn::Vertices
            | BuiltIn::PrimitiveCount
            | BuiltIn::Primitives
            | BuiltIn::RayInvocationId
            | BuiltIn::NumRayInvocations
            | BuiltIn::InstanceCustomData
            | BuiltIn::GeometryIndex
            | BuiltIn::WorldRayOrigin
            | BuiltIn::WorldRayDirection
            | BuiltIn::ObjectRayOrigin
            | BuiltIn::ObjectRayDirection
            | BuiltIn::RayTmin
            | BuiltIn::RayTCurrentMax
            | BuiltIn::ObjectToWorld
            | BuiltIn::WorldToObject
            | BuiltIn::HitKind => {
                return Err(Error::unsupported(format!("the builtin {builtin:?}"), NO_GRAPHICS));
            }
        };
        Ok(leaves)
    }

    fn local_id(&mut self, axis: usize) -> Operand {
        if self.sync.workgroup_size[axis] == 1 { Operand::Imm(0) } else { self.b.special(Special::Tid(axis)).into() }
    }

    /// Writes the body of `function` for these arguments; its result, if it has one.
    pub(super) fn body(
        &mut self,
        key: Option<Handle<Function>>,
        function: &'m Function,
        info: &'m FunctionInfo,
        arguments: Vec<Value>,
        uniform: Vec<bool>,
    ) -> Result<Option<Value>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::TooComplex { what: "the depth of calls", limit: u64::from(MAX_DEPTH) });
        }
        self.calls += 1;
        if self.calls > MAX_CALLS {
            return Err(Error::TooComplex { what: "calls, all of which are written out", limit: u64::from(MAX_CALLS) });
        }
        let uniformity = Uniformity::new(self.module, function, info, uniform, !self.partial);
        let result_leaves = match &function.result {
            Some(result) => self.types.leaves(self.types.inner(result.ty))?,
            None => Vec::new(),
        };
        let result = function.result.as_ref().map(|_| result_leaves.iter().map(|leaf| self.b.reg(leaf.ty)).collect());
        let exit = self.b.block();
        let mut frame = Frame {
            function,
            info,
            uniformity,
            arguments,
            values: vec![None; function.expressions.len()],
            locals: HashMap::new(),
            unrolling: self.promotion.unrolling(key),
            known: HashMap::new(),
            loops: Vec::new(),
            exit,
            result,
            result_leaves,
        };
        for (handle, local) in function.local_variables.iter() {
            let (inner, span) = (self.types.inner(local.ty), function.local_variables.get_span(handle));
            let init = match local.init {
                Some(init) => Some(self.leaves(&mut frame, init).map_err(|error| error.at(span))?.to_vec()),
                None => None,
            };
            let place = self
                .variable(inner, self.promotion.local_in_memory(key, handle), init)
                .map_err(|error| error.at(span))?;
            frame.locals.insert(handle, place);
        }
        let partial = self.partial;
        self.block(&mut frame, &function.body)?;
        self.b.end(Terminator::Jump(exit), exit);
        self.partial = partial;
        self.depth -= 1;
        Ok(frame.result.as_ref().map(|regs| Value::Leaves(regs.iter().map(|&r| r.into()).collect())))
    }

    /// A variable of type `inner` that starts as `init`, or zero.
    fn variable(&mut self, inner: &TypeInner, in_memory: bool, init: Option<Vec<Operand>>) -> Result<Place> {
        if matches!(inner, TypeInner::RayQuery { .. }) {
            return Err(Error::unsupported("a ray query", "there is no ray tracing in a CUDA kernel"));
        }
        if !in_memory {
            let leaves = self.types.leaves(inner)?;
            let regs: Vec<Reg> = leaves
                .iter()
                .enumerate()
                .map(|(i, leaf)| {
                    let start = init.as_ref().and_then(|init| init.get(i).copied()).unwrap_or(Operand::Imm(0));
                    self.b.copy(leaf.ty, start)
                })
                .collect();
            return Ok(Place::registers(regs.into()));
        }
        let memory = self.local_memory(self.types.size_bytes(inner)?)?;
        let bytes = self.types.size_bytes(inner)? as u32;
        let few = match self.types.leaf_count(inner) {
            Ok(count) => count <= MAX_SINGLE_STORES,
            Err(_) => false,
        };
        let place = Place::Memory(memory);
        match init {
            Some(init) => {
                let leaves = self.types.leaves(inner)?;
                place.store(&mut self.b, &leaves, &init);
            }
            None if few => {
                let leaves = self.types.leaves(inner)?;
                place.store(&mut self.b, &leaves, &vec![Operand::Imm(0); leaves.len()]);
            }
            None => self.zero_local(&memory, bytes),
        }
        Ok(place)
    }

    /// New local memory.
    pub(super) fn local_memory(&mut self, bytes: u64) -> Result<Memory> {
        let start = u64::from(self.local_bytes.next_multiple_of(16));
        let end = start + bytes.next_multiple_of(4);
        if end > MAX_LOCAL_BYTES {
            return Err(Error::TooComplex { what: "the bytes of local variables", limit: MAX_LOCAL_BYTES });
        }
        self.local_bytes = end as u32;
        Ok(Memory::new(Space::Local, Base::Local, start as u32))
    }

    /// Writes a call.
    pub(super) fn call(
        &mut self,
        frame: &mut Frame<'m>,
        callee: Handle<Function>,
        arguments: &[Handle<Expression>],
    ) -> Result<Option<Value>> {
        let mut values = Vec::with_capacity(arguments.len());
        let mut uniform = Vec::with_capacity(arguments.len());
        for &argument in arguments {
            // What is behind a pointer may change inside the callee, in ways the caller's analysis does not follow.
            let pointer = self.types.pointee(types::Types::resolve(&self.types, &frame.info[argument].ty)).is_some();
            uniform.push(!pointer && frame.uniformity.is_uniform(argument));
            values.push(self.value(frame, argument)?);
        }
        let function = &self.module.functions[callee];
        self.body(Some(callee), function, &self.info[callee], values, uniform)
    }
}

/// Functions that `function` calls, directly or through others.
pub(crate) fn called(module: &Module, function: &Function) -> Vec<Handle<Function>> {
    fn collect(block: &Block, found: &mut Vec<Handle<Function>>) {
        for statement in block {
            if let Statement::Call { function, .. } = statement {
                found.push(*function);
            }
            children(statement, &mut |child| collect(child, found));
        }
    }
    let mut open = Vec::new();
    collect(&function.body, &mut open);
    let mut seen = HashSet::new();
    let mut order = Vec::new();
    while let Some(handle) = open.pop() {
        if seen.insert(handle) {
            order.push(handle);
            collect(&module.functions[handle].body, &mut open);
        }
    }
    order
}
