//! Pointers: where a value lies, how an index moves there, how it is loaded and stored.
//!
//! A place is memory (an address with what is known of its alignment) or the registers of a promoted variable. Constant
//! offsets stay constants, so that they become the immediate part of an address; a dynamic index is one multiply-add of
//! the index and the stride, in 64 bits only where addresses have them. Leaves that lie side by side at an address
//! aligned for it are moved by one vector instruction.

use std::rc::Rc;

use naga::TypeInner;

use super::types::{Leaf, Types};
use crate::error::{Error, Result};
use crate::ir::{Address, Base, BinaryOp, Builder, Compare, Guard, Inst, Operand, Reg, Round, Space, Ty};
use crate::options::Bounds;

/// Where a pointer points.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Memory(Memory),
    Registers(Registers),
}

/// A place in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) space: Space,
    pub(crate) address: Address,
    /// The address is a multiple of this many bytes, at most 16.
    pub(crate) align: u32,
    /// Accesses must happen as written: the variable is marked `volatile` or `coherent`.
    pub(crate) volatile: bool,
    /// Size in bytes of the binding, where a run-time array may follow (a 64-bit register).
    pub(crate) binding_bytes: Option<Reg>,
    /// Bytes from the start of the binding, while no dynamic index was applied.
    pub(crate) from_start: u32,
    /// Where the variable ends that this is a part of, if accesses may go beyond a single element.
    pub(crate) end: Option<End>,
}

/// Where a variable ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// So many bytes into the kernel's workgroup memory.
    Shared(u32),
    /// So many bytes (64 bits) after the address of a buffer.
    Buffer(Reg, Operand),
}

/// A variable in registers.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    /// All of the variable's leaves.
    pub(crate) all: Rc<[Reg]>,
    /// Where the value may begin in `all`, each with the condition under which it does. The first is taken when no
    /// other condition holds; one without dynamic indices has only the first.
    choices: Vec<(Option<Operand>, usize)>,
}

/// An index, constant or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    pub(crate) value: Operand,
    pub(crate) ty: Ty,
}

impl Place {
    pub(crate) fn registers(all: Rc<[Reg]>) -> Place {
        Place::Registers(Registers { all, choices: vec![(None, 0)] })
    }

    /// The place `leaves` leaves or `bytes` bytes further on.
    pub(crate) fn offset(&self, leaves: usize, bytes: u32) -> Place {
        match self {
            Place::Memory(memory) => Place::Memory(memory.offset(bytes)),
            Place::Registers(registers) => {
                let choices = registers.choices.iter().map(|&(when, start)| (when, start + leaves)).collect();
                Place::Registers(Registers { all: Rc::clone(&registers.all), choices })
            }
        }
    }

    /// Element `index` of the array, vector or matrix `inner` that lies here.
    pub(crate) fn index(
        &self,
        b: &mut Builder,
        types: Types<'_>,
        bounds: Bounds,
        inner: &TypeInner,
        index: Index,
    ) -> Result<Place> {
        let element = types.element(inner)?;
        let index = index.to_u32(b);
        let count = match (bounds, self, element.count) {
            (Bounds::Trust, _, _) | (_, Place::Registers(_), None) => None,
            (Bounds::Clamp, _, Some(count)) => Some(Operand::u32(count)),
            (Bounds::Clamp, Place::Memory(memory), None) => memory.runtime_count(b, element.stride),
        };
        let index = match count {
            None => index,
            Some(count) => {
                let last = b.sub(Ty::U32, count, Operand::u32(1));
                b.binary(BinaryOp::Min, Ty::U32, index, last)
            }
        };
        match self {
            Place::Memory(memory) => Ok(Place::Memory(memory.index(b, index, element.stride))),
            Place::Registers(registers) => {
                let leaves = types.leaf_count(&element.ty)?;
                let count = element.count.ok_or_else(|| Error::invalid("a run-time array in registers"))?;
                Ok(Place::Registers(registers.index(b, index, leaves, count as usize)))
            }
        }
    }

    /// The value here.
    pub(crate) fn load(&self, b: &mut Builder, leaves: &[Leaf]) -> Vec<Operand> {
        match self {
            Place::Memory(memory) => memory.load(b, leaves),
            Place::Registers(registers) => registers.load(b, leaves),
        }
    }

    /// Writes `values`, one per leaf.
    pub(crate) fn store(&self, b: &mut Builder, leaves: &[Leaf], values: &[Operand]) {
        match self {
            Place::Memory(memory) => memory.store(b, leaves, values),
            Place::Registers(registers) => registers.store(b, leaves, values),
        }
    }
}

impl Index {
    /// As 32 unsigned bits; a negative index becomes a large one, and is out of bounds as such.
    fn to_u32(self, b: &mut Builder) -> Operand {
        match (self.ty.bytes(), self.value) {
            (4, value) => value,
            (8, Operand::Imm(bits)) => Operand::u32(u32::try_from(bits).unwrap_or(u32::MAX)),
            (8, value) => {
                let low = b.cvt(Ty::U32, Ty::U64, Round::None, value);
                let fits = b.setp(Compare::Le, Ty::U64, value, Operand::Imm(u64::from(u32::MAX)));
                b.selp(Ty::U32, fits, low, Operand::u32(u32::MAX))
            }
            (_, value) => b.cvt(Ty::U32, self.ty, Round::None, value),
        }
    }
}

impl Memory {
    pub(crate) fn new(space: Space, base: Base, offset: u32) -> Memory {
        let align = if offset == 0 { 16 } else { 1 << offset.trailing_zeros().min(4) };
        let address = Address { base, offset: i64::from(offset) };
        Memory { space, address, align, volatile: false, binding_bytes: None, from_start: 0, end: None }
    }

    /// The address of the first byte after the variable.
    pub(crate) fn end(&self, b: &mut Builder) -> Option<Operand> {
        Some(match self.end? {
            End::Shared(bytes) => {
                let start = b.address_reg(Space::Shared, Base::Shared).into();
                b.add(Ty::U32, start, Operand::u32(bytes))
            }
            End::Buffer(start, bytes) => b.add(Ty::U64, start.into(), bytes),
        })
    }

    pub(super) fn offset(&self, bytes: u32) -> Memory {
        let align = if bytes == 0 { self.align } else { self.align.min(1 << bytes.trailing_zeros().min(4)) };
        let address = Address { offset: self.address.offset + i64::from(bytes), ..self.address };
        Memory { address, align, from_start: self.from_start + bytes, ..*self }
    }

    /// Elements of `stride` bytes from here to the end of the binding.
    pub(crate) fn runtime_count(&self, b: &mut Builder, stride: u32) -> Option<Operand> {
        let bytes = Operand::from(self.binding_bytes?);
        let rest = b.sub(Ty::U64, bytes, Operand::Imm(u64::from(self.from_start)));
        if stride.is_power_of_two() {
            let count = b.binary(BinaryOp::Shr, Ty::U64, rest, Operand::u32(stride.trailing_zeros()));
            return Some(b.cvt(Ty::U32, Ty::U64, Round::None, count));
        }
        let count = b.binary(BinaryOp::Div, Ty::U64, rest, Operand::Imm(u64::from(stride)));
        Some(b.cvt(Ty::U32, Ty::U64, Round::None, count))
    }

    pub(super) fn index(&self, b: &mut Builder, index: Operand, stride: u32) -> Memory {
        if let Some(bytes) = index.imm().and_then(|constant| u32::try_from(constant * u64::from(stride)).ok()) {
            return self.offset(bytes);
        }
        // A constant part of the index moves into the offset where addresses have 32 bits: both wrap alike. In 64 bits
        // an index that wraps would go astray.
        let (index, constant) = match (index, self.space.address()) {
            (Operand::Reg(reg), Ty::U32) => {
                let (root, constant) = b.split_sum(reg);
                (Operand::from(root), constant)
            }
            (index, _) => (index, 0),
        };
        let step = 1 << (b.multiple(index) + stride.trailing_zeros()).min(4);
        let before = match self.address.base {
            Base::Reg(reg) => b.alignment(reg),
            Base::Shared | Base::Local | Base::Param(_) => 16,
        };
        let aligned = before.min(step);
        let reg = b.indexed(self.space, self.address.base, index, stride, aligned);
        let offset = self.address.offset + i64::from(constant.wrapping_mul(stride) as i32);
        let align = if offset == 0 { aligned } else { aligned.min(1 << offset.trailing_zeros().min(4)) };
        Memory { address: Address { base: Base::Reg(reg), offset }, align, ..*self }
    }

    fn load(&self, b: &mut Builder, leaves: &[Leaf]) -> Vec<Operand> {
        let mut values = Vec::with_capacity(leaves.len());
        for run in runs(leaves, self.align) {
            let address = self.at(run[0].offset);
            let memory_ty = memory_ty(run[0].ty);
            let dst: Vec<Reg> = run.iter().map(|_| b.reg(memory_ty)).collect();
            let (space, volatile) = (self.space, self.volatile);
            b.push(Inst::Load { space, ty: memory_ty, dst: dst.clone(), address, volatile });
            for (leaf, reg) in run.iter().zip(dst) {
                values.push(match leaf.ty {
                    Ty::Pred => b.setp(Compare::Ne, Ty::U16, reg.into(), Operand::Imm(0)),
                    _ => reg.into(),
                });
            }
        }
        values
    }

    pub(super) fn store(&self, b: &mut Builder, leaves: &[Leaf], values: &[Operand]) {
        let mut rest = values;
        for run in runs(leaves, self.align) {
            let (these, others) = rest.split_at(run.len().min(rest.len()));
            rest = others;
            let memory_ty = memory_ty(run[0].ty);
            let src: Vec<Operand> = these
                .iter()
                .map(|&value| match run[0].ty {
                    Ty::Pred => b.selp(Ty::U16, value, Operand::Imm(1), Operand::Imm(0)),
                    _ => value,
                })
                // Vectors and 16-bit floats take registers only.
                .collect::<Vec<_>>()
                .into_iter()
                .map(|value| b.in_reg(memory_ty, value).into())
                .collect();
            let (space, volatile) = (self.space, self.volatile);
            b.push(Inst::Store { space, ty: memory_ty, src, address: self.at(run[0].offset), volatile });
        }
    }

    fn at(&self, offset: u32) -> Address {
        Address { offset: self.address.offset + i64::from(offset), ..self.address }
    }
}

/// The type a leaf is moved as.
fn memory_ty(ty: Ty) -> Ty {
    if ty == Ty::Pred { Ty::U8 } else { ty }
}

/// Splits leaves into runs that one instruction moves: one, two or four of one width, side by side, at an address that
/// is a multiple of the run's size (PTX ISA 5.4.2: vectors take at most 16 bytes).
fn runs(leaves: &[Leaf], align: u32) -> impl Iterator<Item = &[Leaf]> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = leaves.get(start)?;
        let bytes = memory_ty(first.ty).bytes();
        let alignment = if first.offset == 0 { align } else { align.min(1 << first.offset.trailing_zeros().min(4)) };
        let fits = |count: usize| {
            let total = bytes * count as u32;
            let side_by_side = leaves.get(start..start + count).is_some_and(|run| {
                (0_u32..).zip(run).all(|(i, leaf)| leaf.offset == first.offset + i * bytes && leaf.ty == first.ty)
            });
            total <= 16 && alignment >= total && side_by_side
        };
        let count = [4, 2].into_iter().find(|&count| fits(count)).unwrap_or(1);
        start += count;
        Some(&leaves[start - count..start])
    })
}

impl Registers {
    fn index(&self, b: &mut Builder, index: Operand, leaves: usize, count: usize) -> Registers {
        let all = Rc::clone(&self.all);
        if let Some(constant) = index.imm() {
            let element = (constant as usize).min(count.saturating_sub(1));
            let choices = self.choices.iter().map(|&(when, start)| (when, start + element * leaves)).collect();
            return Registers { all, choices };
        }
        let mut choices = Vec::with_capacity(self.choices.len() * count);
        for &(when, start) in &self.choices {
            for element in 0..count {
                let here = b.setp(Compare::Eq, Ty::U32, index, Operand::u32(element as u32));
                let both = when.map_or(here, |when| b.and(Ty::Pred, when, here));
                choices.push((Some(both), start + element * leaves));
            }
        }
        Registers { all, choices }
    }

    fn leaf(&self, start: usize, index: usize) -> Option<Reg> {
        self.all.get(start + index).copied()
    }

    fn load(&self, b: &mut Builder, leaves: &[Leaf]) -> Vec<Operand> {
        let mut values = Vec::with_capacity(leaves.len());
        for (index, leaf) in leaves.iter().enumerate() {
            let mut value = Operand::Imm(0);
            for (position, &(when, start)) in self.choices.iter().enumerate() {
                let Some(reg) = self.leaf(start, index) else { continue };
                value = match when {
                    // Variables change: the value is what they hold now.
                    None => b.copy(leaf.ty, reg).into(),
                    Some(_) if position == 0 => b.copy(leaf.ty, reg).into(),
                    Some(when) => b.selp(leaf.ty, when, reg.into(), value),
                };
            }
            values.push(value);
        }
        values
    }

    fn store(&self, b: &mut Builder, leaves: &[Leaf], values: &[Operand]) {
        for (index, (leaf, &value)) in leaves.iter().zip(values).enumerate() {
            for &(when, start) in &self.choices {
                let Some(dst) = self.leaf(start, index) else { continue };
                match when {
                    None | Some(Operand::Imm(1)) => b.mov_to(leaf.ty, dst, value),
                    Some(Operand::Imm(_)) => {}
                    Some(Operand::Reg(pred)) => {
                        let guard = Guard { pred, negated: false };
                        b.push_guarded(guard, Inst::Mov { ty: leaf.ty.bits(), dst, src: value });
                    }
                }
            }
        }
    }
}
