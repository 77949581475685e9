//! Where GLSL puts the members of a buffer, and types that put them where WGSL does.
//!
//! GLSL ES 3.10 places members by two rules, std140 for uniforms and std430 for storage, and has no attribute to move
//! one. WGSL's layout is std430 but for `@size` and `@align`; and in uniforms, where it wants what std140 gives by itself,
//! but for matrices with columns of two, which are packed. So [`Buffers`] gives each global that differs a type of its own
//! (its shape): explicit padding, and for such a matrix a member for each column. The types that values have elsewhere
//! stay as they are; `memory.rs` moves values between both, member by member, so that what lies between stays as it was.

use std::collections::HashMap;
use std::rc::Rc;

use naga::{
    AddressSpace, ArraySize, GlobalVariable, Handle, Module, Scalar, Span, StructMember, Type, TypeInner, UniqueArena,
    VectorSize,
};

/// The rule by which GLSL places members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Packing {
    /// Uniform blocks: columns, elements and structs start at multiples of 16.
    Std140,
    /// Storage blocks.
    Std430,
}

/// How a type lies in a buffer whose members had to be placed.
#[derive(Debug)]
pub(super) enum Shape {
    /// As a struct that has the members of WGSL's, and padding.
    Struct { ty: Handle<Type>, members: Vec<Member> },
    /// As an array of such elements.
    Array { ty: Handle<Type>, element: Rc<Shape>, length: Option<u32> },
    /// A matrix as a struct of its columns.
    Columns { ty: Handle<Type>, columns: u32 },
}

/// Where a member of WGSL's struct is in the one that stands for it.
#[derive(Debug)]
pub(super) enum Member {
    /// The member of this index; of a type of its own, or as it was.
    At(u32, Option<Rc<Shape>>),
    /// A matrix: a member for each column, from this index on.
    Columns { first: u32, columns: u32 },
}

impl Shape {
    pub(super) fn ty(&self) -> Handle<Type> {
        match self {
            Shape::Struct { ty, .. } | Shape::Array { ty, .. } | Shape::Columns { ty, .. } => *ty,
        }
    }
}

/// Alignment and size in bytes; an array of unknown length counts one element.
#[derive(Clone, Copy)]
struct Natural {
    align: u32,
    size: u32,
}

/// The shapes of a module's buffers.
pub(super) struct Buffers {
    made: HashMap<(Handle<Type>, Packing), Option<Rc<Shape>>>,
}

/// Why a type has no layout in GLSL.
pub(super) struct NoLayout(pub(super) &'static str);

type Result<T> = std::result::Result<T, NoLayout>;

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers { made: HashMap::new() }
    }

    /// The shape of `global`, if it is a buffer that GLSL would lay out otherwise than WGSL; new types go into `module`.
    pub(super) fn shape(&mut self, module: &mut Module, global: &GlobalVariable) -> Result<Option<Rc<Shape>>> {
        let packing = match global.space {
            AddressSpace::Uniform => Packing::Std140,
            AddressSpace::Storage { .. } => Packing::Std430,
            _ => return Ok(None),
        };
        self.of(&mut module.types, global.ty, packing)
    }

    fn of(&mut self, types: &mut UniqueArena<Type>, ty: Handle<Type>, packing: Packing) -> Result<Option<Rc<Shape>>> {
        if let Some(made) = self.made.get(&(ty, packing)) {
            return Ok(made.clone());
        }
        let shape = match types[ty].inner.clone() {
            TypeInner::Matrix { columns, rows: VectorSize::Bi, scalar } if splits(packing, scalar) => {
                let columns = columns as u32;
                let members =
                    (0..columns).map(|nth| column(types, scalar, 8 * nth, &format!("column_{nth}"))).collect();
                let ty = new_struct(types, ty, members, 8 * columns);
                Some(Shape::Columns { ty, columns })
            }
            TypeInner::Array { base, size, stride } => self.array(types, (base, size, stride), packing)?,
            TypeInner::Struct { members, span } => self.structure(types, ty, &members, span, packing)?,
            _ => None,
        };
        let shape = shape.map(Rc::new);
        self.made.insert((ty, packing), shape.clone());
        Ok(shape)
    }

    fn array(
        &mut self,
        types: &mut UniqueArena<Type>,
        (base, size, stride): (Handle<Type>, ArraySize, u32),
        packing: Packing,
    ) -> Result<Option<Shape>> {
        let element = self.of(types, base, packing)?;
        let natural = natural(types, element.as_ref().map_or(base, |shape| shape.ty()), packing);
        if natural.size.next_multiple_of(natural.align) != stride {
            return Err(NoLayout("the distance between the elements of an array in it is not GLSL's"));
        }
        let Some(element) = element else { return Ok(None) };
        let length = match size {
            ArraySize::Constant(length) => Some(length.get()),
            ArraySize::Pending(_) | ArraySize::Dynamic => None,
        };
        let inner = TypeInner::Array { base: element.ty(), size, stride };
        let ty = types.insert(Type { name: None, inner }, Span::UNDEFINED);
        Ok(Some(Shape::Array { ty, element, length }))
    }

    fn structure(
        &mut self,
        types: &mut UniqueArena<Type>,
        ty: Handle<Type>,
        members: &[StructMember],
        span: u32,
        packing: Packing,
    ) -> Result<Option<Shape>> {
        let (mut new, mut places) = (Vec::new(), Vec::new());
        let (mut end, mut align, mut changed) = (0_u32, if packing == Packing::Std140 { 16 } else { 1 }, false);
        let mut open = false;
        for member in members {
            let split = match types[member.ty].inner {
                TypeInner::Matrix { columns, rows: VectorSize::Bi, scalar } if splits(packing, scalar) => {
                    Some((columns as u32, scalar))
                }
                _ => None,
            };
            let shape = if split.is_some() { None } else { self.of(types, member.ty, packing)? };
            let member_ty = shape.as_ref().map_or(member.ty, |shape| shape.ty());
            let own = if split.is_some() { Natural { align: 8, size: 8 } } else { natural(types, member_ty, packing) };
            if end.next_multiple_of(own.align) > member.offset || member.offset % own.align != 0 {
                return Err(NoLayout("a member of it lies where GLSL cannot put it"));
            }
            if end.next_multiple_of(own.align) < member.offset {
                pad(types, &mut new, end, member.offset, packing);
                changed = true;
            }
            let index = new.len() as u32;
            if let Some((columns, scalar)) = split {
                let name = member.name.as_deref().unwrap_or("matrix");
                let names = (0..columns).map(|nth| (nth, format!("{name}_column_{nth}")));
                new.extend(names.map(|(nth, name)| column(types, scalar, member.offset + 8 * nth, &name)));
                places.push(Member::Columns { first: index, columns });
                end = member.offset + 8 * columns;
                changed = true;
            } else {
                changed |= shape.is_some();
                places.push(Member::At(index, shape));
                new.push(StructMember { ty: member_ty, ..member.clone() });
                end = member.offset + own.size;
            }
            align = align.max(own.align);
            open |= types[member_ty].inner.is_dynamically_sized(types);
        }
        if !open && end.next_multiple_of(align) < span {
            pad(types, &mut new, end, span, packing);
            changed = true;
        }
        if !changed {
            return Ok(None);
        }
        let ty = new_struct(types, ty, new, span);
        Ok(Some(Shape::Struct { ty, members: places }))
    }
}

/// Whether the columns of a matrix with two rows of `scalar` are further apart in GLSL than in WGSL.
fn splits(packing: Packing, scalar: Scalar) -> bool {
    packing == Packing::Std140 && scalar.width == 4
}

/// A struct that stands for the type `of`.
fn new_struct(types: &mut UniqueArena<Type>, of: Handle<Type>, members: Vec<StructMember>, span: u32) -> Handle<Type> {
    let name = format!("{}_in_buffer", types[of].name.as_deref().unwrap_or("matrix"));
    types.insert(Type { name: Some(name), inner: TypeInner::Struct { members, span } }, types.get_span(of))
}

fn column(types: &mut UniqueArena<Type>, scalar: Scalar, offset: u32, name: &str) -> StructMember {
    let inner = TypeInner::Vector { size: VectorSize::Bi, scalar };
    let ty = types.insert(Type { name: None, inner }, Span::UNDEFINED);
    StructMember { name: Some(name.to_owned()), ty, binding: None, offset }
}

/// Members of words that fill the bytes from `end` to `until`, and let neither the rest move nor the struct be aligned to more.
fn pad(types: &mut UniqueArena<Type>, members: &mut Vec<StructMember>, mut end: u32, until: u32, packing: Packing) {
    let word = types.insert(Type { name: None, inner: TypeInner::Scalar(Scalar::U32) }, Span::UNDEFINED);
    while end < until {
        let left = until - end;
        let (base, stride, count) = match packing {
            Packing::Std430 => (word, 4, left / 4),
            // Arrays of std140 have elements of 16 bytes.
            Packing::Std140 if end.is_multiple_of(16) && left >= 32 => {
                let inner = TypeInner::Vector { size: VectorSize::Quad, scalar: Scalar::U32 };
                (types.insert(Type { name: None, inner }, Span::UNDEFINED), 16, left / 16)
            }
            Packing::Std140 => (word, 4, 1),
        };
        let ty = match std::num::NonZeroU32::new(count) {
            Some(count) if count.get() > 1 => {
                let inner = TypeInner::Array { base, size: ArraySize::Constant(count), stride };
                types.insert(Type { name: None, inner }, Span::UNDEFINED)
            }
            _ => base,
        };
        members.push(StructMember { name: Some(format!("padding_{end}")), ty, binding: None, offset: end });
        // Every offset is a multiple of 4, whatever a buffer holds.
        end += stride * count.max(1);
    }
}

/// What GLSL makes of a type (OpenGL ES 3.1, 7.6.2.2 "Standard Uniform Block Layout").
fn natural(types: &UniqueArena<Type>, ty: Handle<Type>, packing: Packing) -> Natural {
    let vector = |size: VectorSize, scalar: Scalar| {
        let width = u32::from(scalar.width);
        Natural { align: width * if size == VectorSize::Bi { 2 } else { 4 }, size: width * size as u32 }
    };
    let repeated = |element: Natural, count: u32| {
        let align = if packing == Packing::Std140 { element.align.next_multiple_of(16) } else { element.align };
        Natural { align, size: element.size.next_multiple_of(align).saturating_mul(count) }
    };
    match &types[ty].inner {
        TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => {
            let width = u32::from(scalar.width);
            Natural { align: width, size: width }
        }
        TypeInner::Vector { size, scalar } => vector(*size, *scalar),
        TypeInner::Matrix { columns, rows, scalar } => repeated(vector(*rows, *scalar), *columns as u32),
        TypeInner::Array { base, size, .. } => {
            let count = match size {
                ArraySize::Constant(count) => count.get(),
                ArraySize::Pending(_) | ArraySize::Dynamic => 1,
            };
            repeated(natural(types, *base, packing), count)
        }
        TypeInner::Struct { members, .. } => {
            let mut all = Natural { align: if packing == Packing::Std140 { 16 } else { 1 }, size: 0 };
            for member in members {
                let own = natural(types, member.ty, packing);
                all.size = all.size.next_multiple_of(own.align).saturating_add(own.size);
                all.align = all.align.max(own.align);
            }
            Natural { size: all.size.next_multiple_of(all.align), ..all }
        }
        // Not in a buffer: naga's validator says so.
        _ => Natural { align: 1, size: 0 },
    }
}
