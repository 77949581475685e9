//! Types as the scalars they are made of: a value of any type is a list of leaves, each with its place in memory.
//!
//! Vectors give their components, matrices their columns, structs and arrays their members in order. Layout in memory
//! is WGSL's, as naga computed it (offsets and strides are in the types); a bool, which WGSL keeps out of shared
//! memory, takes one byte.

use naga::proc::TypeResolution;
use naga::{ArraySize, CooperativeRole, Expression, Handle, Literal, Module, Scalar, Type, TypeInner, VectorSize};

use super::math::{Shape, ty_of};
use crate::error::{Error, Result};
use crate::ir::Ty;

/// Leaves one value may have: larger arrays are legal in memory, not as values.
const MAX_LEAVES: u64 = 1 << 14;

/// One scalar of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) ty: Ty,
    /// Bytes from the start of the value in memory.
    pub(crate) offset: u32,
}

/// An element of an array, component of a vector or column of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    pub(crate) ty: TypeInner,
    /// Bytes from one to the next.
    pub(crate) stride: u32,
    /// How many there are; `None` where only the binding knows.
    pub(crate) count: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Types<'m> {
    module: &'m Module,
}

impl<'m> Types<'m> {
    pub(crate) fn new(module: &'m Module) -> Types<'m> {
        Types { module }
    }

    pub(crate) fn inner(&self, ty: Handle<Type>) -> &'m TypeInner {
        &self.module.types[ty].inner
    }

    pub(crate) fn resolve<'a>(&self, resolution: &'a TypeResolution) -> &'a TypeInner
    where
        'm: 'a,
    {
        match *resolution {
            TypeResolution::Handle(handle) => &self.module.types[handle].inner,
            TypeResolution::Value(ref inner) => inner,
        }
    }

    /// What a pointer points to; `None` for other types.
    pub(crate) fn pointee(&self, pointer: &TypeInner) -> Option<TypeInner> {
        match *pointer {
            TypeInner::Pointer { base, .. } => Some(self.inner(base).clone()),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => Some(TypeInner::Vector { size, scalar }),
            TypeInner::ValuePointer { size: None, scalar, .. } => Some(TypeInner::Scalar(scalar)),
            TypeInner::Scalar(_)
            | TypeInner::Vector { .. }
            | TypeInner::Matrix { .. }
            | TypeInner::CooperativeMatrix { .. }
            | TypeInner::Atomic(_)
            | TypeInner::Array { .. }
            | TypeInner::Struct { .. }
            | TypeInner::Image { .. }
            | TypeInner::Sampler { .. }
            | TypeInner::AccelerationStructure { .. }
            | TypeInner::RayQuery { .. }
            | TypeInner::BindingArray { .. } => None,
        }
    }

    /// The scalars of a value, in order.
    pub(crate) fn leaves(&self, inner: &TypeInner) -> Result<Vec<Leaf>> {
        let mut leaves = Vec::new();
        self.collect(inner, 0, &mut leaves)?;
        Ok(leaves)
    }

    /// How many leaves a value has.
    pub(crate) fn leaf_count(&self, inner: &TypeInner) -> Result<usize> {
        let count = match inner {
            TypeInner::Array { base, size, .. } => {
                u64::from(self.fixed(*size)?) * self.leaf_count(self.inner(*base))? as u64
            }
            TypeInner::Struct { members, .. } => {
                let mut count = 0_u64;
                for member in members {
                    count += self.leaf_count(self.inner(member.ty))? as u64;
                }
                count
            }
            other => self.leaves(other)?.len() as u64,
        };
        if count > MAX_LEAVES {
            return Err(Error::TooComplex { what: "the number of scalars in one value", limit: MAX_LEAVES });
        }
        Ok(count as usize)
    }

    fn collect(&self, inner: &TypeInner, offset: u32, out: &mut Vec<Leaf>) -> Result<()> {
        if out.len() as u64 > MAX_LEAVES {
            return Err(Error::TooComplex { what: "the number of scalars in one value", limit: MAX_LEAVES });
        }
        match inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => {
                out.push(Leaf { ty: ty_of(*scalar)?, offset });
            }
            TypeInner::Vector { size, scalar } => {
                let ty = ty_of(*scalar)?;
                out.extend((0..*size as u32).map(|i| Leaf { ty, offset: offset + i * ty.bytes() }));
            }
            TypeInner::Matrix { columns, rows, scalar } => {
                let ty = ty_of(*scalar)?;
                let stride = column_stride(*rows, *scalar);
                for column in 0..*columns as u32 {
                    let start = offset + column * stride;
                    out.extend((0..*rows as u32).map(|i| Leaf { ty, offset: start + i * ty.bytes() }));
                }
            }
            TypeInner::Array { base, size, stride } => {
                let count = self.fixed(*size)?;
                let base = self.inner(*base);
                for i in 0..count {
                    self.collect(base, offset + i * stride, out)?;
                }
            }
            TypeInner::Struct { members, .. } => {
                for member in members {
                    self.collect(self.inner(member.ty), offset + member.offset, out)?;
                }
            }
            TypeInner::CooperativeMatrix { scalar, role, .. } => {
                let registers = fragment_registers(*role, *scalar);
                let ty = fragment_type(*scalar);
                out.extend((0..registers).map(|i| Leaf { ty, offset: offset + i * ty.bytes() }));
            }
            TypeInner::Pointer { .. }
            | TypeInner::ValuePointer { .. }
            | TypeInner::Image { .. }
            | TypeInner::Sampler { .. }
            | TypeInner::AccelerationStructure { .. }
            | TypeInner::RayQuery { .. }
            | TypeInner::BindingArray { .. } => return Err(Error::unsupported(construct(inner), NO_GRAPHICS)),
        }
        Ok(())
    }

    /// What indexing gives.
    pub(crate) fn element(&self, inner: &TypeInner) -> Result<Element> {
        match *inner {
            TypeInner::Vector { size, scalar } => {
                let stride = u32::from(scalar.width);
                Ok(Element { ty: TypeInner::Scalar(scalar), stride, count: Some(size as u32) })
            }
            TypeInner::Matrix { columns, rows, scalar } => {
                let ty = TypeInner::Vector { size: rows, scalar };
                Ok(Element { ty, stride: column_stride(rows, scalar), count: Some(columns as u32) })
            }
            TypeInner::Array { base, size, stride } => {
                let count = match size {
                    ArraySize::Dynamic => None,
                    size => Some(self.fixed(size)?),
                };
                Ok(Element { ty: self.inner(base).clone(), stride, count })
            }
            TypeInner::Scalar(_)
            | TypeInner::CooperativeMatrix { .. }
            | TypeInner::Atomic(_)
            | TypeInner::Pointer { .. }
            | TypeInner::ValuePointer { .. }
            | TypeInner::Struct { .. }
            | TypeInner::Image { .. }
            | TypeInner::Sampler { .. }
            | TypeInner::AccelerationStructure { .. }
            | TypeInner::RayQuery { .. }
            | TypeInner::BindingArray { .. } => Err(Error::invalid(format!("indexing of {}", construct(inner)))),
        }
    }

    fn fixed(&self, size: ArraySize) -> Result<u32> {
        match size {
            ArraySize::Constant(count) => Ok(count.get()),
            ArraySize::Pending(handle) => {
                // Setting overrides leaves array sizes pointing at them; their value is there by then.
                if let Some(init) = self.module.overrides[handle].init {
                    let literal = &self.module.global_expressions[init];
                    if let Expression::Literal(Literal::U32(count)) = *literal {
                        return Ok(count);
                    }
                    if let Expression::Literal(Literal::I32(count)) = *literal
                        && count > 0
                    {
                        return Ok(count as u32);
                    }
                }
                let name = self.module.overrides[handle].name.clone().unwrap_or_else(|| "an array's size".to_owned());
                Err(Error::UnresolvedOverride { name })
            }
            ArraySize::Dynamic => Err(Error::invalid("a run-time sized array as a value")),
        }
    }

    /// Bytes a variable of the type takes, at least 1; a run-time array counts one element.
    pub(crate) fn size_bytes(&self, inner: &TypeInner) -> Result<u64> {
        Ok(match inner {
            TypeInner::Array { base, size, stride } => match size {
                ArraySize::Dynamic => self.size_bytes(self.inner(*base))?,
                size => u64::from(self.fixed(*size)?) * u64::from(*stride),
            },
            TypeInner::Struct { members, span } => match members.last() {
                Some(last) if self.is_runtime_sized(self.inner(last.ty)) => {
                    u64::from(last.offset) + self.size_bytes(self.inner(last.ty))?
                }
                _ => u64::from(*span),
            },
            other => {
                let leaves = self.leaves(other)?;
                leaves.last().map_or(1, |leaf| u64::from(leaf.offset + leaf.ty.bytes()))
            }
        })
    }

    pub(crate) fn is_runtime_sized(&self, inner: &TypeInner) -> bool {
        match inner {
            TypeInner::Array { size: ArraySize::Dynamic, .. } => true,
            TypeInner::Struct { members, .. } => {
                members.last().is_some_and(|last| self.is_runtime_sized(self.inner(last.ty)))
            }
            TypeInner::Array { size: ArraySize::Constant(_) | ArraySize::Pending(_), .. }
            | TypeInner::Scalar(_)
            | TypeInner::Vector { .. }
            | TypeInner::Matrix { .. }
            | TypeInner::CooperativeMatrix { .. }
            | TypeInner::Atomic(_)
            | TypeInner::Pointer { .. }
            | TypeInner::ValuePointer { .. }
            | TypeInner::Image { .. }
            | TypeInner::Sampler { .. }
            | TypeInner::AccelerationStructure { .. }
            | TypeInner::RayQuery { .. }
            | TypeInner::BindingArray { .. } => false,
        }
    }

    /// Scalar and shape of an arithmetic type.
    pub(crate) fn shape(&self, inner: &TypeInner) -> Result<(Scalar, Shape)> {
        match *inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Ok((scalar, Shape::Scalar)),
            TypeInner::Vector { size, scalar } => Ok((scalar, Shape::Vector(size))),
            TypeInner::Matrix { columns, rows, scalar } => Ok((scalar, Shape::Matrix { columns, rows })),
            TypeInner::CooperativeMatrix { .. }
            | TypeInner::Pointer { .. }
            | TypeInner::ValuePointer { .. }
            | TypeInner::Array { .. }
            | TypeInner::Struct { .. }
            | TypeInner::Image { .. }
            | TypeInner::Sampler { .. }
            | TypeInner::AccelerationStructure { .. }
            | TypeInner::RayQuery { .. }
            | TypeInner::BindingArray { .. } => Err(Error::invalid(format!("arithmetic on {}", construct(inner)))),
        }
    }
}

/// Why textures and the like are refused.
pub(crate) const NO_GRAPHICS: &str = "only buffers and workgroup memory exist in a CUDA kernel; use a storage buffer";

/// Bytes between columns of a matrix: columns of three are aligned as if of four.
pub(crate) fn column_stride(rows: VectorSize, scalar: Scalar) -> u32 {
    let rows = if rows == VectorSize::Bi { 2 } else { 4 };
    rows * u32::from(scalar.width)
}

/// 32-bit registers each thread holds of a 16x16 fragment (PTX ISA 9.7.14.4.1): 16-bit operands come in pairs and
/// twice.
fn fragment_registers(role: CooperativeRole, scalar: Scalar) -> u32 {
    match role {
        CooperativeRole::C if scalar.width == 2 => 4,
        CooperativeRole::A | CooperativeRole::B | CooperativeRole::C => 8,
    }
}

fn fragment_type(scalar: Scalar) -> Ty {
    if scalar.width == 4 { Ty::F32 } else { Ty::F16x2 }
}

/// A type in WGSL's words.
pub(crate) fn construct(inner: &TypeInner) -> String {
    match inner {
        TypeInner::Scalar(_) => "a scalar",
        TypeInner::Vector { .. } => "a vector",
        TypeInner::Matrix { .. } => "a matrix",
        TypeInner::CooperativeMatrix { .. } => "a cooperative matrix",
        TypeInner::Atomic(_) => "an atomic",
        TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => "a pointer as a value",
        TypeInner::Array { .. } => "an array",
        TypeInner::Struct { .. } => "a struct",
        TypeInner::Image { .. } => "a texture",
        TypeInner::Sampler { .. } => "a sampler",
        TypeInner::AccelerationStructure { .. } | TypeInner::RayQuery { .. } => "ray tracing",
        TypeInner::BindingArray { .. } => "a binding array",
    }
    .to_owned()
}
