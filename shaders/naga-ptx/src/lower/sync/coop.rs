//! Cooperative matrices as `wmma` fragments.

use naga::{CooperativeRole, CooperativeSize, Function, Handle, LocalVariable, Scalar};

use super::Env;
use crate::error::{Error, Result};
use crate::ir::{Address, Builder, Major, Operand, Reg, Space};

/// `TypeInner::CooperativeMatrix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoopType {
    pub(crate) columns: CooperativeSize,
    pub(crate) rows: CooperativeSize,
    pub(crate) scalar: Scalar,
    pub(crate) role: CooperativeRole,
}

/// A matrix spread over the lanes of a warp.
///
/// A variable of such a type is registers of its own plus a `major`: copy `regs` one by one with `mov_to` (type
/// `CoopType::register`), and pass the variable's and the value's `major` to [`settle_major`] at each store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoopValue {
    pub(crate) ty: CoopType,
    /// How A or B was loaded, which the product must be told; `None` for role C, and for matrices whose elements are all
    /// equal, which fit any layout.
    pub(crate) major: Option<Major>,
    pub(crate) regs: Vec<Reg>,
}

/// Where a matrix is loaded from or stored to: `naga::CooperativeData`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoopPlace {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// u32: from the start of one row (or column) to that of the next, in elements of the type that `pointer` points to.
    pub(crate) stride: Operand,
    /// Components of that type: 1 for a scalar.
    pub(crate) components: u32,
    pub(crate) row_major: bool,
}

fn unwritten<T>() -> Result<T> {
    Err(Error::unsupported("a cooperative matrix", "not written yet"))
}

impl CoopType {
    /// Number and type of the registers of each lane.
    pub(crate) fn registers(self) -> Result<(usize, crate::ir::Ty)> {
        unwritten()
    }
}

/// Every element is `value` (of the matrix's scalar type): `ZeroValue` with 0.
pub(crate) fn coop_splat(b: &mut Builder, ty: CoopType, value: Operand) -> Result<CoopValue> {
    let _ = (b, ty, value);
    unwritten()
}

/// `Expression::CooperativeLoad`.
pub(crate) fn coop_load(b: &mut Builder, env: Env, ty: CoopType, place: CoopPlace) -> Result<CoopValue> {
    let _ = (b, env, ty, place);
    unwritten()
}

/// `Statement::CooperativeStore`.
pub(crate) fn coop_store(b: &mut Builder, env: Env, value: &CoopValue, place: CoopPlace) -> Result<()> {
    let _ = (b, env, value, place);
    unwritten()
}

/// `Expression::CooperativeMultiplyAdd`: A * B + C.
pub(crate) fn coop_mma(
    b: &mut Builder,
    env: Env,
    a: &CoopValue,
    b_matrix: &CoopValue,
    c: &CoopValue,
) -> Result<CoopValue> {
    let _ = (b, env, a, b_matrix, c);
    unwritten()
}

pub(crate) fn coop_add(b: &mut Builder, l: &CoopValue, r: &CoopValue) -> Result<CoopValue> {
    let _ = (b, l, r);
    unwritten()
}

pub(crate) fn coop_sub(b: &mut Builder, l: &CoopValue, r: &CoopValue) -> Result<CoopValue> {
    let _ = (b, l, r);
    unwritten()
}

/// Scalar times matrix.
pub(crate) fn coop_scale(b: &mut Builder, matrix: &CoopValue, scalar: Operand) -> Result<CoopValue> {
    let _ = (b, matrix, scalar);
    unwritten()
}

pub(crate) fn coop_negate(b: &mut Builder, matrix: &CoopValue) -> Result<CoopValue> {
    let _ = (b, matrix);
    unwritten()
}

/// The layout of a variable after a value of layout `stored` was stored to it: `Unsupported` when it had the other one.
pub(crate) fn settle_major(variable: &mut Option<Major>, stored: Option<Major>) -> Result<()> {
    let _ = (variable, stored);
    unwritten()
}

/// The layout that stores in `function` will give the matrix (or array of matrices) `variable`, as far as they store
/// loaded matrices: what to start the variable's `major` with, so that reading it before the first store in program
/// order (in a loop) is right.
pub(crate) fn stored_major(function: &Function, variable: Handle<LocalVariable>) -> Option<Major> {
    let _ = (function, variable);
    None
}
