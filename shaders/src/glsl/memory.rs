//! Loads and stores of buffers that have a shape of their own (`layout.rs`).
//!
//! A path into such a buffer is followed by the shape: members have other indices, and a column of a matrix is a member. A
//! load of a whole composes WGSL's value from its parts, a store takes it apart. What has no shape is left as it is.

use std::collections::HashMap;
use std::rc::Rc;

use naga::{
    BinaryOperator, Block, Expression, GlobalVariable, Handle, Literal, Scalar, Span, Statement, Type, TypeInner,
};
use polywarp_core::Result;

use super::Refusal;
use super::layout::{Member, Shape};
use super::rebuild::{Rebuilt, Rewrite};

/// Most parts that a load or store of a whole is taken apart into.
const MOST_PARTS: u32 = 4096;

/// Where a path into a buffer has come to.
#[derive(Clone)]
enum Place {
    /// At something with a shape; the new pointer to it.
    Shaped(Handle<Expression>, Rc<Shape>),
    /// At a matrix whose columns are members of what the new pointer is to, from an index on.
    Columns { of: Handle<Expression>, first: u32, columns: u32 },
    /// At one of its columns, by a number known when it runs, and perhaps at a component of it.
    Column { of: Handle<Expression>, first: u32, columns: u32, column: Number, component: Option<Component> },
}

/// A new expression, and whether it is signed.
#[derive(Clone, Copy)]
struct Number(Handle<Expression>, bool);

#[derive(Clone, Copy)]
enum Component {
    Known(u32),
    Number(Handle<Expression>),
}

/// See the module's head.
pub(super) struct Memory<'a> {
    shapes: &'a HashMap<Handle<GlobalVariable>, Rc<Shape>>,
    refusal: &'a Refusal<'a>,
    /// Of old expressions.
    places: HashMap<Handle<Expression>, Place>,
    parts: u32,
}

impl<'a> Memory<'a> {
    /// For one function.
    pub(super) fn new(shapes: &'a HashMap<Handle<GlobalVariable>, Rc<Shape>>, refusal: &'a Refusal<'a>) -> Memory<'a> {
        Memory { shapes, refusal, places: HashMap::new(), parts: 0 }
    }

    /// One step of a path from `place`: the new pointer, and where it has come to if that is not as it was.
    fn step(&self, into: &mut Rebuilt<'_>, place: Place, by: Step) -> (Handle<Expression>, Option<Place>) {
        match place {
            Place::Shaped(of, shape) => match (&*shape, by) {
                (Shape::Struct { members, .. }, Step::Known(index)) => match &members[index as usize] {
                    Member::At(index, shape) => {
                        let new = into.add(Expression::AccessIndex { base: of, index: *index });
                        (new, shape.clone().map(|shape| Place::Shaped(new, shape)))
                    }
                    Member::Columns { first, columns } => {
                        (of, Some(Place::Columns { of, first: *first, columns: *columns }))
                    }
                },
                (Shape::Columns { columns, .. }, by) => {
                    self.step(into, Place::Columns { of, first: 0, columns: *columns }, by)
                }
                (Shape::Array { element, .. }, by) => {
                    let new = by.from(into, of);
                    (new, Some(Place::Shaped(new, element.clone())))
                }
                // A struct has no members by numbers known when it runs.
                (Shape::Struct { .. }, Step::Number(_)) => (of, None),
            },
            Place::Columns { of, first, columns } => match by {
                Step::Known(index) => (into.add(Expression::AccessIndex { base: of, index: first + index }), None),
                Step::Number(column) => (of, Some(Place::Column { of, first, columns, column, component: None })),
            },
            Place::Column { of, first, columns, column, .. } => {
                let component = Some(match by {
                    Step::Known(index) => Component::Known(index),
                    Step::Number(Number(index, _)) => Component::Number(index),
                });
                (of, Some(Place::Column { of, first, columns, column, component }))
            }
        }
    }

    /// The value at `place`, of WGSL's type `ty` where it is a whole.
    fn load(&mut self, into: &mut Rebuilt<'_>, place: Place, ty: Option<Handle<Type>>) -> Result<Handle<Expression>> {
        let whole = ty.ok_or_else(|| self.refusal.unknown("a pointer without a type"));
        match place {
            Place::Shaped(of, shape) => match &*shape {
                Shape::Columns { columns, .. } => Ok(self.load_columns(into, of, 0, *columns, whole?)),
                Shape::Struct { members, .. } => {
                    let ty = whole?;
                    let TypeInner::Struct { members: old, .. } = &into.module.types[ty].inner else {
                        return Err(self.refusal.unknown("a struct that is none"));
                    };
                    let types: Vec<Handle<Type>> = old.iter().map(|member| member.ty).collect();
                    let mut components = Vec::with_capacity(members.len());
                    for (member, ty) in members.iter().zip(types) {
                        components.push(match member {
                            Member::At(index, shape) => {
                                let pointer = into.add(Expression::AccessIndex { base: of, index: *index });
                                self.load_part(into, pointer, shape.as_ref(), ty)?
                            }
                            Member::Columns { first, columns } => self.load_columns(into, of, *first, *columns, ty),
                        });
                    }
                    Ok(into.add(Expression::Compose { ty, components }))
                }
                Shape::Array { element, length, .. } => {
                    let ty = whole?;
                    let (Some(length), &TypeInner::Array { base, .. }) = (length, &into.module.types[ty].inner) else {
                        return Err(self.refusal.unknown("an array without a length"));
                    };
                    let mut components = Vec::new();
                    for index in 0..*length {
                        let pointer = into.add(Expression::AccessIndex { base: of, index });
                        components.push(self.load_part(into, pointer, Some(element), base)?);
                    }
                    Ok(into.add(Expression::Compose { ty, components }))
                }
            },
            Place::Columns { of, first, columns } => Ok(self.load_columns(into, of, first, columns, whole?)),
            Place::Column { of, first, columns, column: Number(number, signed), component } => {
                let mut value = load_column(into, of, first);
                for nth in 1..columns {
                    let accept = load_column(into, of, first + nth);
                    let right = into.literal(if signed { Literal::I32(nth as i32) } else { Literal::U32(nth) });
                    let condition = into.add(Expression::Binary { op: BinaryOperator::Equal, left: number, right });
                    value = into.add(Expression::Select { condition, accept, reject: value });
                }
                Ok(match component {
                    None => value,
                    Some(Component::Known(index)) => into.add(Expression::AccessIndex { base: value, index }),
                    Some(Component::Number(index)) => into.add(Expression::Access { base: value, index }),
                })
            }
        }
    }

    fn load_part(
        &mut self,
        into: &mut Rebuilt<'_>,
        pointer: Handle<Expression>,
        shape: Option<&Rc<Shape>>,
        ty: Handle<Type>,
    ) -> Result<Handle<Expression>> {
        self.count(into)?;
        match shape {
            Some(shape) => self.load(into, Place::Shaped(pointer, shape.clone()), Some(ty)),
            None => Ok(into.add(Expression::Load { pointer })),
        }
    }

    fn load_columns(
        &mut self,
        into: &mut Rebuilt<'_>,
        of: Handle<Expression>,
        first: u32,
        columns: u32,
        ty: Handle<Type>,
    ) -> Handle<Expression> {
        let components = (first..first + columns).map(|index| load_column(into, of, index)).collect();
        into.add(Expression::Compose { ty, components })
    }

    /// Stores `value` at `pointer`, part by part.
    fn store(
        &mut self,
        into: &mut Rebuilt<'_>,
        (pointer, value): (Handle<Expression>, Handle<Expression>),
        shape: Option<&Rc<Shape>>,
        block: &mut Block,
        span: Span,
    ) -> Result<()> {
        self.count(into)?;
        let parts: Vec<(u32, u32, Option<Rc<Shape>>)> = match shape.map(|shape| &**shape) {
            None => {
                block.push(Statement::Store { pointer, value }, span);
                return Ok(());
            }
            Some(Shape::Struct { members, .. }) => {
                let part = |(nth, member): (usize, &Member)| match member {
                    Member::At(index, shape) => Some((nth as u32, *index, shape.clone())),
                    // Uniforms alone have such matrices, and nobody stores there.
                    Member::Columns { .. } => None,
                };
                members.iter().enumerate().filter_map(part).collect()
            }
            Some(Shape::Array { element, length, .. }) => {
                let length = length.filter(|&length| length <= MOST_PARTS);
                let Some(length) = length else { return Err(self.refusal.too_many_parts(into.span(), MOST_PARTS)) };
                (0..length).map(|nth| (nth, nth, Some(element.clone()))).collect()
            }
            Some(Shape::Columns { .. }) => return Err(self.refusal.unknown("a store to a uniform")),
        };
        for (from, to, shape) in parts {
            let start = into.mark();
            let value = into.add(Expression::AccessIndex { base: value, index: from });
            let pointer = into.add(Expression::AccessIndex { base: pointer, index: to });
            into.emit(start, block, span);
            self.store(into, (pointer, value), shape.as_ref(), block, span)?;
        }
        Ok(())
    }

    fn count(&mut self, into: &Rebuilt<'_>) -> Result<()> {
        self.parts += 1;
        if self.parts > MOST_PARTS { Err(self.refusal.too_many_parts(into.span(), MOST_PARTS)) } else { Ok(()) }
    }
}

/// One step of a path.
#[derive(Clone, Copy)]
enum Step {
    Known(u32),
    Number(Number),
}

impl Step {
    fn from(self, into: &mut Rebuilt<'_>, base: Handle<Expression>) -> Handle<Expression> {
        into.add(match self {
            Step::Known(index) => Expression::AccessIndex { base, index },
            Step::Number(Number(index, _)) => Expression::Access { base, index },
        })
    }
}

fn load_column(into: &mut Rebuilt<'_>, of: Handle<Expression>, index: u32) -> Handle<Expression> {
    let pointer = into.add(Expression::AccessIndex { base: of, index });
    into.add(Expression::Load { pointer })
}

impl Rewrite for Memory<'_> {
    fn expression(&mut self, into: &mut Rebuilt<'_>, old: Handle<Expression>) -> Result<Option<Handle<Expression>>> {
        let (base, step) = match into.old.expressions[old] {
            Expression::GlobalVariable(global) => {
                let Some(shape) = self.shapes.get(&global) else { return Ok(None) };
                let new = into.add(Expression::GlobalVariable(global));
                self.places.insert(old, Place::Shaped(new, shape.clone()));
                return Ok(Some(new));
            }
            Expression::Access { base, index } => {
                let signed = matches!(into.type_of(index), TypeInner::Scalar(Scalar::I32));
                (base, Step::Number(Number(into.new_of(index), signed)))
            }
            Expression::AccessIndex { base, index } => (base, Step::Known(index)),
            Expression::Load { pointer } => {
                let Some(place) = self.places.get(&pointer).cloned() else { return Ok(None) };
                self.parts = 0;
                // A column or component has none: the place says all of it.
                let ty = match *into.type_of(pointer) {
                    TypeInner::Pointer { base, .. } => Some(base),
                    _ => None,
                };
                return self.load(into, place, ty).map(Some);
            }
            _ => return Ok(None),
        };
        let Some(place) = self.places.get(&base).cloned() else { return Ok(None) };
        let (new, place) = self.step(into, place, step);
        if let Some(place) = place {
            self.places.insert(old, place);
        }
        Ok(Some(new))
    }

    fn statement(&mut self, into: &mut Rebuilt<'_>, old: &Statement, span: Span) -> Result<Option<Block>> {
        let Statement::Store { pointer, value } = *old else { return Ok(None) };
        let Some(Place::Shaped(to, shape)) = self.places.get(&pointer).cloned() else { return Ok(None) };
        self.parts = 0;
        let mut block = Block::new();
        self.store(into, (to, into.new_of(value)), Some(&shape), &mut block, span)?;
        Ok(Some(block))
    }
}
