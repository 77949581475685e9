//! Expressions: each gives the scalars of its value, or a place.

use std::rc::Rc;

use naga::{
    BinaryOperator, CooperativeData, Expression, Handle, Literal, MathFunction, Scalar, ScalarKind, SwizzleComponent,
    TypeInner,
};

use super::Lowerer;
use super::function::{Frame, Value};
use super::math::{self, Arg, Shape};
use super::place::{Index, Place};
use super::sync::{self, CoopPlace, CoopType, CoopValue};
use super::types::NO_GRAPHICS;
use crate::error::{Error, Result};
use crate::ir::{Major, Operand, Ty};
use crate::options::Bounds;

impl<'m> Lowerer<'m> {
    /// The value of an expression: what it was when it was emitted, or what it always is.
    pub(super) fn value(&mut self, frame: &mut Frame<'m>, expression: Handle<Expression>) -> Result<Value> {
        if let Some(value) = &frame.values[expression.index()] {
            return Ok(value.clone());
        }
        self.evaluate(frame, expression)
    }

    /// The scalars of a value.
    pub(super) fn leaves(&mut self, frame: &mut Frame<'m>, expression: Handle<Expression>) -> Result<Rc<[Operand]>> {
        match self.value(frame, expression)? {
            Value::Leaves(leaves) => Ok(leaves),
            Value::Place(_) => Err(Error::unsupported("a pointer as a value", "pointers can be passed to functions")),
        }
    }

    /// The only scalar of a value.
    pub(super) fn scalar(&mut self, frame: &mut Frame<'m>, expression: Handle<Expression>) -> Result<Operand> {
        let leaves = self.leaves(frame, expression)?;
        leaves.first().copied().ok_or_else(|| Error::invalid("an empty value"))
    }

    /// Where a pointer points.
    pub(super) fn place(&mut self, frame: &mut Frame<'m>, expression: Handle<Expression>) -> Result<Place> {
        match self.value(frame, expression)? {
            Value::Place(place) => Ok(place),
            Value::Leaves(_) => Err(Error::invalid("a value where a pointer belongs")),
        }
    }

    /// A cooperative matrix.
    pub(super) fn coop(&mut self, frame: &mut Frame<'m>, expression: Handle<Expression>) -> Result<CoopValue> {
        let TypeInner::CooperativeMatrix { columns, rows, scalar, role } = *self.ty(frame, expression) else {
            return Err(Error::invalid("something else than a cooperative matrix"));
        };
        let ty = CoopType { columns, rows, scalar, role };
        let (_, register) = ty.registers()?;
        let leaves = self.leaves(frame, expression)?;
        let regs = leaves.iter().map(|&leaf| self.b.in_reg(register, leaf)).collect();
        Ok(CoopValue { ty, regs })
    }

    fn is_coop(&self, frame: &Frame<'m>, expression: Handle<Expression>) -> bool {
        matches!(self.ty(frame, expression), TypeInner::CooperativeMatrix { .. })
    }

    fn ty<'f>(&self, frame: &'f Frame<'m>, expression: Handle<Expression>) -> &'f TypeInner
    where
        'm: 'f,
    {
        self.types.resolve(&frame.info[expression].ty)
    }

    /// Computes an expression now.
    pub(super) fn evaluate(&mut self, frame: &mut Frame<'m>, handle: Handle<Expression>) -> Result<Value> {
        let function = frame.function;
        let leaves: Vec<Operand> = match function.expressions[handle] {
            Expression::Literal(literal) => vec![literal_bits(literal)?],
            Expression::Constant(constant) => self.constant(self.module.constants[constant].init)?,
            Expression::Override(handle) => return Err(self.unresolved(handle)),
            Expression::ZeroValue(ty) => return self.zero(ty),
            Expression::Compose { ref components, ty } => {
                if let TypeInner::CooperativeMatrix { .. } = self.types.inner(ty) {
                    return Err(Error::unsupported("composing a cooperative matrix", "load it or start from zero"));
                }
                let mut leaves = Vec::new();
                for &component in components {
                    leaves.extend_from_slice(&self.leaves(frame, component)?);
                }
                leaves
            }
            Expression::Access { base, index } => return self.access(frame, base, index),
            Expression::AccessIndex { base, index } => return self.access_index(frame, base, index),
            Expression::Splat { size, value } => vec![self.scalar(frame, value)?; size as usize],
            Expression::Swizzle { size, vector, pattern } => {
                let leaves = self.leaves(frame, vector)?;
                let pick = |component: &SwizzleComponent| leaves.get(*component as usize).copied();
                let picked: Option<Vec<Operand>> = pattern[..size as usize].iter().map(pick).collect();
                picked.ok_or_else(|| Error::invalid("a swizzle beyond its vector"))?
            }
            Expression::FunctionArgument(index) => {
                let argument = frame.arguments.get(index as usize).cloned();
                return argument.ok_or_else(|| Error::invalid("an argument that is not there"));
            }
            Expression::GlobalVariable(global) => {
                let place = self.globals.get(&global).cloned();
                return Ok(Value::Place(
                    place.ok_or_else(|| Error::invalid("a variable its entry point does not use"))?,
                ));
            }
            Expression::LocalVariable(local) => {
                let place = frame.locals.get(&local).cloned();
                return Ok(Value::Place(place.ok_or_else(|| Error::invalid("a variable before its function began"))?));
            }
            Expression::Load { pointer } => return self.load(frame, pointer),
            Expression::Unary { op, expr } => return self.unary(frame, op, expr),
            Expression::Binary { op, left, right } => return self.binary(frame, op, left, right),
            Expression::Select { condition, accept, reject } => self.select(frame, condition, accept, reject)?,
            Expression::Relational { fun, argument } => {
                let (scalar, shape) = self.types.shape(self.ty(frame, argument))?;
                let leaves = self.leaves(frame, argument)?;
                math::relational(&mut self.b, fun, Arg { scalar, shape, leaves: &leaves })?
            }
            Expression::Math { fun: MathFunction::InverseSqrt, arg, .. } if self.is_normal(frame, arg) => {
                let leaves = self.leaves(frame, arg)?;
                leaves.iter().map(|&x| math::inverse_sqrt_of_normal(&mut self.b, x)).collect()
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let mut arguments = Vec::new();
                for handle in [Some(arg), arg1, arg2, arg3].into_iter().flatten() {
                    let (scalar, shape) = self.types.shape(self.ty(frame, handle))?;
                    arguments.push((scalar, shape, self.leaves(frame, handle)?));
                }
                let arguments: Vec<Arg<'_>> = arguments
                    .iter()
                    .map(|(scalar, shape, l)| Arg { scalar: *scalar, shape: *shape, leaves: l })
                    .collect();
                math::math(&mut self.b, self.math, fun, &arguments)?
            }
            Expression::As { expr, kind, convert } => {
                let (from, shape) = self.types.shape(self.ty(frame, expr))?;
                let leaves = self.leaves(frame, expr)?;
                match convert {
                    Some(width) => {
                        let to =
                            Scalar { kind, width: if kind == ScalarKind::Bool { naga::BOOL_WIDTH } else { width } };
                        let mut out = Vec::with_capacity(leaves.len());
                        for &leaf in leaves.iter() {
                            out.push(math::convert(&mut self.b, self.math, from, to, leaf)?);
                        }
                        out
                    }
                    None => {
                        let to = Scalar { kind, width: from.width };
                        math::bitcast(&mut self.b, Arg { scalar: from, shape, leaves: &leaves }, to)?
                    }
                }
            }
            Expression::ArrayLength(pointer) => {
                let inner = self.types.pointee(self.ty(frame, pointer));
                let inner = inner.ok_or_else(|| Error::invalid("arrayLength of no pointer"))?;
                let stride = self.types.element(&inner)?.stride;
                let Place::Memory(memory) = self.place(frame, pointer)? else {
                    return Err(Error::invalid("arrayLength of a variable in registers"));
                };
                let count = memory.runtime_count(&mut self.b, stride);
                vec![count.ok_or_else(|| Error::invalid("arrayLength of an array whose size is fixed"))?]
            }
            Expression::CooperativeLoad { columns, rows, role, ref data } => {
                let inner = self.types.pointee(self.ty(frame, data.pointer));
                let scalar = inner.as_ref().and_then(TypeInner::scalar);
                let scalar = scalar.ok_or_else(|| Error::invalid("a cooperative load of no numbers"))?;
                let place = self.coop_place(frame, data)?;
                let ty = CoopType { columns, rows, scalar, role };
                return Ok(sync::coop_load(&mut self.b, self.sync, ty, place)?.into());
            }
            Expression::CooperativeMultiplyAdd { a, b, c } => {
                let (a, b, c) = (self.coop(frame, a)?, self.coop(frame, b)?, self.coop(frame, c)?);
                let product = sync::coop_mma(&mut self.b, self.sync, &a, &b, &c)?;
                self.products.extend(product.regs.first().map(|&reg| (reg, function.expressions.get_span(handle))));
                return Ok(product.into());
            }
            Expression::ImageSample { .. } | Expression::ImageLoad { .. } | Expression::ImageQuery { .. } => {
                return Err(Error::unsupported("a texture", NO_GRAPHICS));
            }
            Expression::Derivative { .. } => {
                return Err(Error::unsupported("a derivative", "there are no fragments in a compute shader"));
            }
            Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. } => {
                return Err(Error::unsupported("ray tracing", "there is none in a CUDA kernel"));
            }
            Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => {
                return Err(Error::invalid("a statement's result is used before the statement"));
            }
        };
        Ok(Value::Leaves(leaves.into()))
    }

    fn unresolved(&self, handle: Handle<naga::Override>) -> Error {
        let declared = &self.module.overrides[handle];
        let name = declared.name.clone().or(declared.id.map(|id| id.to_string()));
        Error::UnresolvedOverride { name: name.unwrap_or_else(|| "(without a name)".to_owned()) }
    }

    /// The scalars of a constant of the module.
    pub(super) fn constant(&mut self, handle: Handle<Expression>) -> Result<Vec<Operand>> {
        Ok(match self.module.global_expressions[handle] {
            Expression::Literal(literal) => vec![literal_bits(literal)?],
            Expression::Constant(constant) => self.constant(self.module.constants[constant].init)?,
            Expression::Override(handle) => return Err(self.unresolved(handle)),
            Expression::ZeroValue(ty) => {
                let count = self.types.leaf_count(self.types.inner(ty))?;
                vec![Operand::Imm(0); count]
            }
            Expression::Compose { ref components, .. } => {
                let mut leaves = Vec::new();
                for &component in components {
                    leaves.extend(self.constant(component)?);
                }
                leaves
            }
            Expression::Splat { size, value } => {
                let value = self.constant(value)?;
                value.iter().copied().cycle().take(value.len() * size as usize).collect()
            }
            // naga evaluates what else a constant expression may be.
            Expression::Access { .. }
            | Expression::AccessIndex { .. }
            | Expression::Swizzle { .. }
            | Expression::FunctionArgument(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_)
            | Expression::Load { .. }
            | Expression::ImageSample { .. }
            | Expression::ImageLoad { .. }
            | Expression::ImageQuery { .. }
            | Expression::Unary { .. }
            | Expression::Binary { .. }
            | Expression::Select { .. }
            | Expression::Derivative { .. }
            | Expression::Relational { .. }
            | Expression::Math { .. }
            | Expression::As { .. }
            | Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::ArrayLength(_)
            | Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. }
            | Expression::CooperativeLoad { .. }
            | Expression::CooperativeMultiplyAdd { .. } => {
                return Err(Error::invalid("a constant that is not evaluated"));
            }
        })
    }

    fn zero(&mut self, ty: Handle<naga::Type>) -> Result<Value> {
        let inner = self.types.inner(ty);
        if let TypeInner::CooperativeMatrix { columns, rows, scalar, role } = *inner {
            let ty = CoopType { columns, rows, scalar, role };
            return Ok(sync::coop_splat(&mut self.b, ty, Operand::Imm(0))?.into());
        }
        Ok(Value::Leaves(vec![Operand::Imm(0); self.types.leaf_count(inner)?].into()))
    }

    fn access(&mut self, frame: &mut Frame<'m>, base: Handle<Expression>, index: Handle<Expression>) -> Result<Value> {
        let base_ty = self.ty(frame, base).clone();
        let (scalar, _) = self.types.shape(self.ty(frame, index))?;
        let index = Index { value: self.scalar(frame, index)?, ty: math::ty_of(scalar)? };
        let value = self.value(frame, base)?;
        let bounds = self.options.bounds;
        match (self.types.pointee(&base_ty), value) {
            (Some(inner), Value::Place(place)) => {
                Ok(Value::Place(place.index(&mut self.b, self.types, bounds, &inner, index)?))
            }
            (None, Value::Leaves(leaves)) => {
                // A value that is indexed by an unknown number: as a variable of its own.
                let element = self.types.element(&base_ty)?;
                let described = self.types.leaves(&base_ty)?;
                let place = if index.value.imm().is_some() || leaves.len() <= 16 {
                    let regs =
                        described.iter().zip(leaves.iter()).map(|(leaf, &x)| self.b.in_reg(leaf.ty, x)).collect();
                    Place::registers(regs)
                } else {
                    let bytes = self.types.size_bytes(&base_ty)?;
                    let place = Place::Memory(self.local_memory(bytes)?);
                    place.store(&mut self.b, &described, &leaves);
                    place
                };
                let place = place.index(&mut self.b, self.types, bounds, &base_ty, index)?;
                let leaves = self.types.leaves(&element.ty)?;
                Ok(Value::Leaves(place.load(&mut self.b, &leaves).into()))
            }
            (_, _) => Err(Error::invalid("an index into something without elements")),
        }
    }

    fn access_index(&mut self, frame: &mut Frame<'m>, base: Handle<Expression>, index: u32) -> Result<Value> {
        let base_ty = self.ty(frame, base).clone();
        let pointee = self.types.pointee(&base_ty);
        let inner = pointee.as_ref().unwrap_or(&base_ty);
        if let TypeInner::Struct { members, .. } = inner {
            let member = members.get(index as usize).ok_or_else(|| Error::invalid("a member that is not there"))?;
            let mut skipped = 0;
            for before in &members[..index as usize] {
                skipped += self.types.leaf_count(self.types.inner(before.ty))?;
            }
            return match self.value(frame, base)? {
                Value::Place(place) => Ok(Value::Place(place.offset(skipped, member.offset))),
                Value::Leaves(leaves) => {
                    let count = self.types.leaf_count(self.types.inner(member.ty))?;
                    slice(&leaves, skipped, count)
                }
            };
        }
        match self.value(frame, base)? {
            Value::Place(place) => {
                let index = Index { value: Operand::u32(index), ty: Ty::U32 };
                Ok(Value::Place(place.index(&mut self.b, self.types, self.options.bounds, inner, index)?))
            }
            Value::Leaves(leaves) => {
                let count = self.types.leaf_count(&self.types.element(inner)?.ty)?;
                slice(&leaves, index as usize * count, count)
            }
        }
    }

    fn load(&mut self, frame: &mut Frame<'m>, pointer: Handle<Expression>) -> Result<Value> {
        if let Expression::LocalVariable(local) = frame.function.expressions[pointer]
            && let Some(&known) = frame.known.get(&local)
        {
            return Ok(Value::Leaves(vec![Operand::u32(known)].into()));
        }
        let inner = self.types.pointee(self.ty(frame, pointer));
        let inner = inner.ok_or_else(|| Error::invalid("a load through something else than a pointer"))?;
        let place = self.place(frame, pointer)?;
        if let (TypeInner::Atomic(scalar), Place::Memory(memory)) = (&inner, &place) {
            let value = sync::atomic_load(&mut self.b, *scalar, memory.space, memory.address)?;
            return Ok(Value::Leaves(vec![value].into()));
        }
        let leaves = self.types.leaves(&inner)?;
        let values = place.load(&mut self.b, &leaves);
        Ok(Value::Leaves(values.into()))
    }

    pub(super) fn store(
        &mut self,
        frame: &mut Frame<'m>,
        pointer: Handle<Expression>,
        value: Handle<Expression>,
    ) -> Result<()> {
        let inner = self.types.pointee(self.ty(frame, pointer));
        let inner = inner.ok_or_else(|| Error::invalid("a store through something else than a pointer"))?;
        let place = self.place(frame, pointer)?;
        if let (TypeInner::Atomic(scalar), Place::Memory(memory)) = (&inner, &place) {
            let value = self.scalar(frame, value)?;
            return sync::atomic_store(&mut self.b, *scalar, memory.space, memory.address, value);
        }
        if let (Expression::ZeroValue(_), Place::Memory(memory)) = (&frame.function.expressions[value], &place) {
            return self.store_zero(memory, &inner);
        }
        let leaves = self.types.leaves(&inner)?;
        let values = self.leaves(frame, value)?;
        place.store(&mut self.b, &leaves, &values);
        Ok(())
    }

    fn unary(&mut self, frame: &mut Frame<'m>, op: naga::UnaryOperator, expr: Handle<Expression>) -> Result<Value> {
        if self.is_coop(frame, expr) {
            return Err(Error::unsupported("the negation of a cooperative matrix", "multiply it by -1"));
        }
        let (scalar, _) = self.types.shape(self.ty(frame, expr))?;
        let leaves = self.leaves(frame, expr)?;
        let mut out = Vec::with_capacity(leaves.len());
        for &leaf in leaves.iter() {
            out.push(math::unary(&mut self.b, self.math, op, scalar, leaf)?);
        }
        Ok(Value::Leaves(out.into()))
    }

    fn binary(
        &mut self,
        frame: &mut Frame<'m>,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Value> {
        match (op, self.is_coop(frame, left), self.is_coop(frame, right)) {
            (BinaryOperator::Add, true, true) => {
                let (l, r) = (self.coop(frame, left)?, self.coop(frame, right)?);
                return Ok(sync::coop_add(&mut self.b, &l, &r)?.into());
            }
            (BinaryOperator::Subtract, true, true) => {
                let (l, r) = (self.coop(frame, left)?, self.coop(frame, right)?);
                return Ok(sync::coop_sub(&mut self.b, &l, &r)?.into());
            }
            (BinaryOperator::Multiply, true, false) => return self.coop_scaled(frame, left, right),
            (BinaryOperator::Multiply, false, true) => return self.coop_scaled(frame, right, left),
            _ => {}
        }
        let (l_scalar, l_shape) = self.types.shape(self.ty(frame, left))?;
        let (_, r_shape) = self.types.shape(self.ty(frame, right))?;
        let (l, r) = (self.leaves(frame, left)?, self.leaves(frame, right)?);
        if op == BinaryOperator::Multiply
            && let Some(product) = self.matrix_product(l_scalar, (l_shape, &l), (r_shape, &r))?
        {
            return Ok(Value::Leaves(product.into()));
        }
        let wide = match op {
            BinaryOperator::Multiply => self.widened(frame, left).zip(self.widened(frame, right)),
            _ => None,
        };
        let wide = wide.filter(|((l, _), (r, _))| l == r);
        let (l, r) = match wide {
            Some(((_, l), (_, r))) => (self.leaves(frame, l)?, self.leaves(frame, r)?),
            None => (l, r),
        };
        let count = l.len().max(r.len());
        let mut out = Vec::with_capacity(count);
        for i in 0..count {
            let pick = |leaves: &[Operand]| leaves.get(if leaves.len() == 1 { 0 } else { i }).copied();
            let (Some(l), Some(r)) = (pick(&l), pick(&r)) else {
                return Err(Error::invalid("operands of different sizes"));
            };
            out.push(match wide {
                Some(((ty, _), _)) => math::wide_product(&mut self.b, ty, l, r),
                None => math::binary(&mut self.b, self.math, op, l_scalar, l, r)?,
            });
        }
        Ok(Value::Leaves(out.into()))
    }

    /// Whether an f32 is the larger of something and a constant that is no subnormal number.
    fn is_normal(&self, frame: &Frame<'m>, expr: Handle<Expression>) -> bool {
        let expressions = &frame.function.expressions;
        let Expression::Math { fun: MathFunction::Max, arg, arg1: Some(arg1), .. } = expressions[expr] else {
            return false;
        };
        [arg, arg1].iter().any(
            |&of| matches!(expressions[of], Expression::Literal(Literal::F32(least)) if least >= f32::MIN_POSITIVE),
        )
    }

    /// The 32-bit integer that `expr` is a 64-bit conversion of, and its type: of two such the product is one instruction, where
    /// that of 64-bit integers is several.
    fn widened(&self, frame: &Frame<'m>, expr: Handle<Expression>) -> Option<(Ty, Handle<Expression>)> {
        let Expression::As { expr, kind: ScalarKind::Uint | ScalarKind::Sint, convert: Some(8) } =
            frame.function.expressions[expr]
        else {
            return None;
        };
        let (from, _) = self.types.shape(self.ty(frame, expr)).ok()?;
        let ty = match (from.kind, from.width) {
            (ScalarKind::Uint, 4) => Ty::U32,
            (ScalarKind::Sint, 4) => Ty::S32,
            _ => return None,
        };
        Some((ty, expr))
    }

    fn coop_scaled(
        &mut self,
        frame: &mut Frame<'m>,
        matrix: Handle<Expression>,
        factor: Handle<Expression>,
    ) -> Result<Value> {
        let (matrix, factor) = (self.coop(frame, matrix)?, self.scalar(frame, factor)?);
        Ok(sync::coop_scale(&mut self.b, &matrix, factor)?.into())
    }

    /// Products in which a matrix meets a vector or a matrix; `None` for componentwise ones.
    fn matrix_product(
        &mut self,
        scalar: Scalar,
        (l_shape, l): (Shape, &[Operand]),
        (r_shape, r): (Shape, &[Operand]),
    ) -> Result<Option<Vec<Operand>>> {
        // Column by column: (rows of the left, columns of the right, length of the sums).
        let (rows, columns, inner) = match (l_shape, r_shape) {
            (Shape::Matrix { columns, rows }, Shape::Vector(_)) => (rows as usize, 1, columns as usize),
            (Shape::Vector(size), Shape::Matrix { columns, .. }) => (1, columns as usize, size as usize),
            (Shape::Matrix { columns, rows }, Shape::Matrix { columns: n, .. }) => {
                (rows as usize, n as usize, columns as usize)
            }
            (Shape::Scalar | Shape::Vector(_) | Shape::Matrix { .. }, Shape::Scalar)
            | (Shape::Scalar, Shape::Vector(_) | Shape::Matrix { .. })
            | (Shape::Vector(_), Shape::Vector(_)) => return Ok(None),
        };
        let mut out = Vec::with_capacity(rows * columns);
        for column in 0..columns {
            for row in 0..rows {
                let mut sum: Option<Operand> = None;
                for k in 0..inner {
                    let (Some(&x), Some(&y)) = (l.get(k * rows + row), r.get(column * inner + k)) else {
                        return Err(Error::invalid("matrices that do not fit"));
                    };
                    let product = math::binary(&mut self.b, self.math, BinaryOperator::Multiply, scalar, x, y)?;
                    sum = Some(match sum {
                        None => product,
                        Some(sum) => math::binary(&mut self.b, self.math, BinaryOperator::Add, scalar, sum, product)?,
                    });
                }
                out.push(sum.ok_or_else(|| Error::invalid("an empty matrix"))?);
            }
        }
        Ok(Some(out))
    }

    fn select(
        &mut self,
        frame: &mut Frame<'m>,
        condition: Handle<Expression>,
        accept: Handle<Expression>,
        reject: Handle<Expression>,
    ) -> Result<Vec<Operand>> {
        let described = self.types.leaves(self.ty(frame, accept))?;
        let conditions = self.leaves(frame, condition)?;
        let (accept, reject) = (self.leaves(frame, accept)?, self.leaves(frame, reject)?);
        let mut out = Vec::with_capacity(described.len());
        for (i, leaf) in described.iter().enumerate() {
            let condition = conditions.get(if conditions.len() == 1 { 0 } else { i }).copied();
            let (Some(p), Some(&a), Some(&b)) = (condition, accept.get(i), reject.get(i)) else {
                return Err(Error::invalid("operands of different sizes"));
            };
            out.push(self.b.selp(leaf.ty, p, a, b));
        }
        Ok(out)
    }

    pub(super) fn coop_place(&mut self, frame: &mut Frame<'m>, data: &CooperativeData) -> Result<CoopPlace> {
        let inner = self.types.pointee(self.ty(frame, data.pointer));
        let components = match inner {
            Some(TypeInner::Vector { size, .. }) => size as u32,
            _ => 1,
        };
        let stride = self.scalar(frame, data.stride)?;
        let Place::Memory(memory) = self.place(frame, data.pointer)? else {
            return Err(Error::unsupported(
                "a cooperative matrix in a private variable",
                "load it from storage or workgroup memory",
            ));
        };
        let (space, address) = (memory.space, memory.address);
        let major = if data.row_major { Major::Row } else { Major::Column };
        let end = match self.options.bounds {
            Bounds::Clamp => memory.end(&mut self.b),
            Bounds::Trust => None,
        };
        Ok(CoopPlace { space, address, stride, components, major, end })
    }
}

fn slice(leaves: &[Operand], start: usize, count: usize) -> Result<Value> {
    let slice = leaves.get(start..start + count).ok_or_else(|| Error::invalid("an element that is not there"))?;
    Ok(Value::Leaves(slice.into()))
}

/// The bits of a literal.
fn literal_bits(literal: Literal) -> Result<Operand> {
    Ok(match literal {
        Literal::F64(value) => Operand::f64(value),
        Literal::F32(value) => Operand::f32(value),
        Literal::F16(value) => Operand::Imm(u64::from(value.to_bits())),
        Literal::U16(value) => Operand::Imm(u64::from(value)),
        Literal::I16(value) => Operand::Imm(u64::from(value as u16)),
        Literal::U32(value) => Operand::u32(value),
        Literal::I32(value) => Operand::i32(value),
        Literal::U64(value) => Operand::Imm(value),
        Literal::I64(value) => Operand::Imm(value as u64),
        Literal::Bool(value) => Operand::bool(value),
        Literal::AbstractInt(_) | Literal::AbstractFloat(_) => {
            return Err(Error::invalid("an abstract number reached code generation"));
        }
    })
}
