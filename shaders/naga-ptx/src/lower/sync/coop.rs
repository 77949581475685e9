//! Cooperative matrices as `wmma` fragments of m16n16k16 (9.7.14.4).
//!
//! | matrix        | registers of each lane | layouts                                                          |
//! |---------------|------------------------|------------------------------------------------------------------|
//! | A, B of f16   | 8 of two halves        | the one it was loaded with is part of the product's instruction  |
//! | C of f16      | 4 of two halves        | any: loads and stores name it, products do not                   |
//! | C of f32      | 8                      | the same                                                         |
//!
//! Which lane holds which element nobody says, so a fragment can only be loaded, multiplied, stored (C alone), and
//! combined element by element with one of the same kind. What the ISA does say: A and B must reach the product with
//! the layout they were loaded with. It is followed from the loads to each product (`ir/layouts.rs`); a factor that was
//! loaded by rows on one way and by columns on another is `Unsupported`. (From sm_75 on the assembler transposes while
//! loading, and the product's machine code is the same for all layouts: ptxas 13.0, sm_75 to sm_120. But that is not
//! promised.)
//!
//! The warp must be whole and come here together. naga's validator sees to the latter: it refuses loads, products and
//! stores of matrices under a condition that it does not know to be uniform, and it takes local variables for varying.
//! It does not look at sizes (rows against columns of the factors) nor at the scalars of the factors; what is not
//! 16x16 with f16 factors is `Unsupported` here.
//!
//! The ISA wants the first element at a multiple of 32 bytes and rows (columns) multiples of 32 bytes apart (16 for C
//! of f16). WGSL has no such rule; what ptxas makes of it needs 4 bytes (8 for C of f32) in storage, 16 in workgroup
//! memory, and faults on less.

use naga::{CooperativeRole, CooperativeSize, Scalar, ScalarKind};

use super::{Env, WARP};
use crate::error::{Error, Result};
use crate::ir::*;
use crate::lower::function::Value;

/// `TypeInner::CooperativeMatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoopType {
    pub(crate) columns: CooperativeSize,
    pub(crate) rows: CooperativeSize,
    pub(crate) scalar: Scalar,
    pub(crate) role: CooperativeRole,
}

/// A matrix spread over the lanes of a warp. How A or B was loaded, which the product must be told, is found when all is
/// written (`ir/layouts.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoopValue {
    pub(crate) ty: CoopType,
    pub(crate) regs: Vec<Reg>,
}

impl From<CoopValue> for Value {
    fn from(value: CoopValue) -> Value {
        Value::Leaves(value.regs.into_iter().map(Operand::from).collect())
    }
}

/// Where a matrix is loaded from or stored to: `naga::CooperativeData`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoopPlace {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// u32: from the start of one row (or column) to that of the next, in elements of the type that `pointer` points
    /// to.
    pub(crate) stride: Operand,
    /// Components of that type: 1 for a scalar.
    pub(crate) components: u32,
    pub(crate) major: Major,
    /// Address of the first byte that must not be touched; `None` when the shader is trusted.
    pub(crate) end: Option<Operand>,
}

impl CoopType {
    /// Number and type of the registers of each lane; `Unsupported` for what tensor cores do not have.
    pub(crate) fn registers(self) -> Result<(usize, Ty)> {
        let CoopType { columns, rows, scalar, role } = self;
        for size in [columns, rows] {
            match size {
                CooperativeSize::Sixteen => {}
                CooperativeSize::Eight => {
                    return Err(Error::unsupported(
                        "a cooperative matrix of 8 rows or columns",
                        "tensor cores have no such product of f16 or f32; use coop_mat16x16",
                    ));
                }
            }
        }
        match (role, scalar.kind, scalar.width) {
            (CooperativeRole::A | CooperativeRole::B, ScalarKind::Float, 2) => Ok((8, Ty::F16x2)),
            (CooperativeRole::C, ScalarKind::Float, 2) => Ok((4, Ty::F16x2)),
            (CooperativeRole::C, ScalarKind::Float, 4) => Ok((8, Ty::F32)),
            (CooperativeRole::A | CooperativeRole::B, ScalarKind::Float, 4) => Err(Error::unsupported(
                "a cooperative matrix of f32 with role A or B",
                "tensor cores would round it to fewer bits; use f16 for A and B, f32 for C",
            )),
            (
                CooperativeRole::A | CooperativeRole::B | CooperativeRole::C,
                ScalarKind::Float
                | ScalarKind::Sint
                | ScalarKind::Uint
                | ScalarKind::Bool
                | ScalarKind::AbstractInt
                | ScalarKind::AbstractFloat,
                _,
            ) => Err(Error::invalid("a cooperative matrix of neither f16 nor f32")),
        }
    }

    fn element(self) -> Ty {
        if self.scalar.width == 2 { Ty::F16 } else { Ty::F32 }
    }

    fn fragment(self) -> Fragment {
        match self.role {
            CooperativeRole::A => Fragment::A,
            CooperativeRole::B => Fragment::B,
            CooperativeRole::C => Fragment::C,
        }
    }

    /// Fresh registers for a matrix.
    fn fresh(self, b: &mut Builder) -> Result<Vec<Reg>> {
        let (count, ty) = self.registers()?;
        Ok((0..count).map(|_| b.reg(ty)).collect())
    }
}

/// Every element is `value` (of the matrix's scalar type): `ZeroValue` with 0.
pub(crate) fn coop_splat(b: &mut Builder, ty: CoopType, value: Operand) -> Result<CoopValue> {
    let (count, register) = ty.registers()?;
    let value = spread(b, register, value);
    Ok(CoopValue { ty, regs: (0..count).map(|_| b.copy(register, value)).collect() })
}

/// `value` in every half of a register.
fn spread(b: &mut Builder, register: Ty, value: Operand) -> Operand {
    match (register, value) {
        (Ty::F16x2, Operand::Imm(bits)) => Operand::Imm(bits << 16 | bits),
        (Ty::F16x2, value) => b.pack(Ty::F16, value, value),
        (_, value) => value,
    }
}

/// `Expression::CooperativeLoad`. A matrix that would end after `place.end` is all zeros.
pub(crate) fn coop_load(b: &mut Builder, env: Env, ty: CoopType, place: CoopPlace) -> Result<CoopValue> {
    check_place(b, env, place)?;
    let (_, register) = ty.registers()?;
    let dst = ty.fresh(b)?;
    let stride = place.stride(b);
    let CoopPlace { space, address, major, .. } = place;
    let (fragment, element) = (ty.fragment(), ty.element());
    let inst = Inst::WmmaLoad { fragment, major, space, ty: element, dst: dst.clone(), address, stride };
    match place.fits(b, element, stride) {
        Some(fits) => {
            dst.iter().for_each(|&reg| b.mov_to(register, reg, Operand::Imm(0)));
            b.when(fits, |b| b.push(inst));
        }
        None => b.push(inst),
    }
    Ok(CoopValue { ty, regs: dst })
}

/// `Statement::CooperativeStore`. A matrix that would end after `place.end` is not stored.
pub(crate) fn coop_store(b: &mut Builder, env: Env, value: &CoopValue, place: CoopPlace) -> Result<()> {
    check_place(b, env, place)?;
    match value.ty.role {
        CooperativeRole::C => {}
        CooperativeRole::A | CooperativeRole::B => {
            return Err(Error::unsupported(
                "storing a cooperative matrix of role A or B",
                "only results of products (role C) can be stored",
            ));
        }
    }
    let stride = place.stride(b);
    let CoopPlace { space, address, major, .. } = place;
    let ty = value.ty.element();
    let inst = Inst::WmmaStore { major, space, ty, src: value.regs.clone(), address, stride };
    match place.fits(b, ty, stride) {
        Some(fits) => b.when(fits, |b| b.push(inst)),
        None => b.push(inst),
    }
    Ok(())
}

impl CoopPlace {
    /// In scalars.
    fn stride(&self, b: &mut Builder) -> Operand {
        b.mul(Ty::U32, self.stride, Operand::u32(self.components))
    }

    /// Whether the last element lies before the end, in all lanes: 15 rows and 16 elements after the first one.
    fn fits(&self, b: &mut Builder, element: Ty, stride: Operand) -> Option<Operand> {
        let end = self.end?;
        let (row, last) = (Operand::u32(15 * element.bytes()), 16 * element.bytes());
        let base = b.address_reg(self.space, self.address.base).into();
        let (needed, signed) = match self.space.address() {
            Ty::U64 => (b.ternary(TernaryOp::MadWide, Ty::U32, stride, row, Operand::u32(last)), Ty::S64),
            ty => {
                // Fifteen rows of 2^16 elements are more than there is, and do not overflow.
                let stride = b.binary(BinaryOp::Min, ty, stride, Operand::u32(1 << 16));
                (b.ternary(TernaryOp::MadLo, ty, stride, row, Operand::u32(last)), Ty::S32)
            }
        };
        let ty = self.space.address();
        let rest = b.sub(ty, end, base);
        let rest = b.sub(ty, rest, Operand::Imm(self.address.offset as u64 & (u64::MAX >> (64 - 8 * ty.bytes()))));
        // Signed: an address after the end leaves less than nothing.
        let fits = b.setp(Compare::Le, signed, needed, rest);
        let dst = b.reg(Ty::Pred);
        b.push(Inst::Vote { mode: VoteMode::All, dst, src: fits, mask: Operand::u32(u32::MAX) });
        Some(dst.into())
    }
}

/// `wmma` is defined for whole warps, and for memory that others see.
fn check_place(b: &mut Builder, env: Env, place: CoopPlace) -> Result<()> {
    check_warps(b, env)?;
    match place.space {
        Space::Global | Space::Constant | Space::Shared => Ok(()),
        Space::Local | Space::Param => Err(Error::unsupported(
            "a cooperative matrix in a uniform or private variable",
            "load it from storage or workgroup memory",
        )),
    }
}

fn check_warps(b: &mut Builder, env: Env) -> Result<()> {
    // The spelling `.sync.aligned`.
    b.require(6, 3);
    if env.invocations().is_multiple_of(WARP) {
        return Ok(());
    }
    let what = format!("a cooperative matrix in a workgroup of {} invocations", env.invocations());
    Err(Error::unsupported(what, "it takes whole subgroups: use a multiple of 32"))
}

/// `Expression::CooperativeMultiplyAdd`: `left` * `right` + `c`.
pub(crate) fn coop_mma(
    b: &mut Builder,
    env: Env,
    left: &CoopValue,
    right: &CoopValue,
    c: &CoopValue,
) -> Result<CoopValue> {
    check_warps(b, env)?;
    for (value, role) in [(left, CooperativeRole::A), (right, CooperativeRole::B), (c, CooperativeRole::C)] {
        if value.ty.role != role {
            return Err(Error::invalid(format!("a matrix of role {:?} as {role:?} of a product", value.ty.role)));
        }
    }
    let d = c.ty.fresh(b)?;
    let ty = c.ty.element();
    b.push(Inst::WmmaMma {
        // As it is for factors of equal elements; `settle_layouts` names what others were loaded with.
        ab_major: [Major::Row; 2],
        d_ty: ty,
        c_ty: ty,
        d: d.clone(),
        a: left.regs.clone(),
        b: right.regs.clone(),
        c: c.regs.clone(),
    });
    Ok(CoopValue { ty: c.ty, regs: d })
}

/// `l + r`, element by element.
pub(crate) fn coop_add(b: &mut Builder, l: &CoopValue, r: &CoopValue) -> Result<CoopValue> {
    elementwise(b, BinaryOp::Add, l, r)
}

/// `l - r`, element by element.
pub(crate) fn coop_sub(b: &mut Builder, l: &CoopValue, r: &CoopValue) -> Result<CoopValue> {
    elementwise(b, BinaryOp::Sub, l, r)
}

fn elementwise(b: &mut Builder, op: BinaryOp, l: &CoopValue, r: &CoopValue) -> Result<CoopValue> {
    if l.ty != r.ty {
        return Err(Error::invalid("a sum of cooperative matrices of two types"));
    }
    let (_, ty) = l.ty.registers()?;
    let sums = l.regs.iter().zip(&r.regs).map(|(&x, &y)| b.binary(op, ty, x.into(), y.into()));
    let sums: Vec<Operand> = sums.collect();
    Ok(CoopValue { ty: l.ty, regs: sums.into_iter().map(|sum| b.in_reg(ty, sum)).collect() })
}

/// Scalar times matrix.
pub(crate) fn coop_scale(b: &mut Builder, matrix: &CoopValue, scalar: Operand) -> Result<CoopValue> {
    let (_, ty) = matrix.ty.registers()?;
    let scalar = spread(b, ty, scalar);
    let scalar = b.in_reg(ty, scalar).into();
    let products = matrix.regs.iter().map(|&x| b.mul(ty, x.into(), scalar)).collect::<Vec<Operand>>();
    let regs = products.into_iter().map(|product| b.in_reg(ty, product)).collect();
    Ok(CoopValue { ty: matrix.ty, regs })
}
