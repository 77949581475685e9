//! Memory that must start as zero: workgroup variables by all invocations together, large variables by a loop.

use naga::TypeInner;

use super::Lowerer;
use super::function::MAX_SINGLE_STORES;
use super::place::Memory;
use super::sync;
use crate::error::{Error, Result};
use crate::ir::{Address, Base, BinaryOp, Compare, Inst, Operand, Space, Terminator, Ty};

impl Lowerer<'_> {
    /// Zeroes the first `bytes` of workgroup memory, and waits until all is done.
    pub(crate) fn zero_shared(&mut self, bytes: u32) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let words = bytes.div_ceil(4);
        let invocations = self.sync.invocations();
        let index = sync::linear_index(&mut self.b, self.sync);
        let first = self.b.binary(BinaryOp::Shl, Ty::U32, index, Operand::u32(2));
        let base = self.b.address_reg(Space::Shared, Base::Shared);
        let start = self.b.add(Ty::U32, first, base.into());
        let address = self.b.in_reg(Ty::U32, start);
        if words <= 16 * invocations {
            for round in 0..words.div_ceil(invocations) {
                let offset = i64::from(round * invocations * 4);
                let store = Inst::Store {
                    space: Space::Shared,
                    ty: Ty::U32,
                    src: vec![Operand::Imm(0)],
                    address: Address { base: Base::Reg(address), offset },
                    volatile: false,
                };
                let left = words - round * invocations;
                if left >= invocations {
                    self.b.push(store);
                } else {
                    let inside = self.b.setp(Compare::Lt, Ty::U32, index, Operand::u32(left));
                    self.b.when(inside, |b| b.push(store));
                }
            }
        } else {
            self.zero_loop(Space::Shared, address, first, words * 4, invocations * 4);
        }
        self.b.push(Inst::Barrier);
        Ok(())
    }

    /// Zeroes `bytes` of local memory.
    pub(crate) fn zero_local(&mut self, memory: &Memory, bytes: u32) {
        let base = self.b.address_reg(memory.space, memory.address.base);
        let start = self.b.add(Ty::U32, base.into(), Operand::u32(memory.address.offset as u32));
        let address = self.b.in_reg(Ty::U32, start);
        self.zero_loop(memory.space, address, Operand::Imm(0), bytes.next_multiple_of(4), 4);
    }

    /// Stores zero in an `inner`: element by element in a loop where it is a long array, so that its padding is left alone.
    pub(super) fn store_zero(&mut self, memory: &Memory, inner: &TypeInner) -> Result<()> {
        if self.types.leaf_count(inner).is_ok_and(|count| count <= MAX_SINGLE_STORES) {
            let leaves = self.types.leaves(inner)?;
            memory.store(&mut self.b, &leaves, &vec![Operand::Imm(0); leaves.len()]);
            return Ok(());
        }
        match inner {
            TypeInner::Struct { members, .. } => {
                for member in members {
                    self.store_zero(&memory.offset(member.offset), self.types.inner(member.ty))?;
                }
                Ok(())
            }
            array => {
                let element = self.types.element(array)?;
                let count = element.count.ok_or_else(|| Error::invalid("a run-time array as a value"))?;
                let (head, body, done) = (self.b.block(), self.b.block(), self.b.block());
                let index = self.b.copy(Ty::U32, Operand::Imm(0));
                self.b.end(Terminator::Jump(head), head);
                let inside = self.b.setp(Compare::Lt, Ty::U32, index.into(), Operand::u32(count));
                self.b.branch(inside, body, done, body);
                let place = memory.index(&mut self.b, index.into(), element.stride);
                self.store_zero(&place, &element.ty)?;
                let next = self.b.add(Ty::U32, index.into(), Operand::u32(1));
                self.b.mov_to(Ty::U32, index, next);
                self.b.end(Terminator::Jump(head), done);
                Ok(())
            }
        }
    }

    /// Words at `address`, `address + step`, ... while the distance from the start, first `from`, is less than `bytes`.
    fn zero_loop(&mut self, space: Space, address: crate::ir::Reg, from: Operand, bytes: u32, step: u32) {
        let (head, body, done) = (self.b.block(), self.b.block(), self.b.block());
        let address = self.b.copy(Ty::U32, address);
        let distance = self.b.copy(Ty::U32, from);
        self.b.end(Terminator::Jump(head), head);
        let inside = self.b.setp(Compare::Lt, Ty::U32, distance.into(), Operand::u32(bytes));
        self.b.branch(inside, body, done, body);
        let place = Address { base: Base::Reg(address), offset: 0 };
        self.b.push(Inst::Store { space, ty: Ty::U32, src: vec![Operand::Imm(0)], address: place, volatile: false });
        for reg in [address, distance] {
            let next = self.b.add(Ty::U32, reg.into(), Operand::u32(step));
            self.b.mov_to(Ty::U32, reg, next);
        }
        self.b.end(Terminator::Jump(head), done);
    }
}
