//! Writes blocks. Exactly one block is open at any time; ending it says how and opens the next, so that no block is
//! left without a terminator and nothing is written into an ended one.
//!
//! One method per instruction. Operands are folded where the result is known and exact; what folding would change
//! (rounding, NaN payloads) is left to the assembler.

use std::collections::HashMap;

use super::*;
use crate::error::{Error, Result};

/// Lines one kernel may have: beyond this a driver's compiler takes minutes.
const MAX_LINES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Builder {
    blocks: Vec<Block>,
    open: (BlockId, Vec<Line>),
    next_block: u32,
    registers: [u32; 4],
    version: PtxVersion,
    lines: u64,
    /// Integers that are another one plus a constant: so that constants end up in the address of an access.
    sums: HashMap<Reg, (Reg, u32)>,
    /// Integers known to be multiples of a power of two, by its logarithm.
    multiples: HashMap<Reg, u32>,
    /// Addresses computed in the open block, by base, index and stride.
    addresses: HashMap<(Base, Operand, u32), Reg>,
    /// Bytes that address registers are multiples of.
    alignments: HashMap<Reg, u32>,
}

impl Builder {
    pub(crate) fn new(version: PtxVersion) -> Builder {
        let open = (BlockId(0), Vec::new());
        Builder {
            blocks: Vec::new(),
            open,
            next_block: 1,
            registers: [0; 4],
            version,
            lines: 0,
            sums: HashMap::new(),
            multiples: HashMap::new(),
            addresses: HashMap::new(),
            alignments: HashMap::new(),
        }
    }

    /// Names in each product of cooperative matrices the layouts of its factors, when all is written. An error is the
    /// first register of a product whose factor was loaded by rows on one way and by columns on another.
    pub(crate) fn settle_layouts(&mut self) -> Result<(), Reg> {
        let ended = self.blocks.iter_mut().map(|block| &mut block.lines);
        layouts::settle(&mut ended.chain([&mut self.open.1]).collect::<Vec<_>>())
    }

    /// The blocks, registers and version of a finished kernel; the open block returns.
    pub(crate) fn finish(mut self) -> (Vec<Block>, [u32; 4], PtxVersion) {
        let (id, lines) = self.open;
        self.blocks.push(Block { id, lines, terminator: Terminator::Return });
        let mut blocks = join::join(self.blocks);
        for block in &mut blocks {
            vectorise::vectorise(&mut block.lines, &self.alignments);
        }
        (blocks, self.registers, self.version)
    }

    /// States that an instruction needs PTX ISA `major.minor`.
    pub(crate) fn require(&mut self, major: u32, minor: u32) {
        self.version = self.version.max(PtxVersion { major, minor });
    }

    /// [`Error::TooComplex`] when the kernel has grown beyond reason.
    pub(crate) fn check_size(&self) -> Result<()> {
        if self.lines > MAX_LINES {
            return Err(Error::TooComplex { what: "the number of instructions", limit: MAX_LINES });
        }
        Ok(())
    }

    pub(crate) fn reg(&mut self, ty: Ty) -> Reg {
        let class = ty.class();
        let count = &mut self.registers[class as usize];
        let id = *count;
        *count += 1;
        Reg { class, id }
    }

    pub(crate) fn block(&mut self) -> BlockId {
        let id = BlockId(self.next_block);
        self.next_block += 1;
        id
    }

    /// Ends the open block with `terminator` and opens `next`, which must be new.
    pub(crate) fn end(&mut self, terminator: Terminator, next: BlockId) {
        let (id, lines) = std::mem::replace(&mut self.open, (next, Vec::new()));
        self.addresses.clear();
        self.blocks.push(Block { id, lines, terminator });
    }

    /// Ends the open block with a branch on `condition`, folded when it is known; opens `next`.
    pub(crate) fn branch(&mut self, condition: Operand, accept: BlockId, reject: BlockId, next: BlockId) {
        let terminator = match condition {
            Operand::Imm(0) => Terminator::Jump(reject),
            Operand::Imm(_) => Terminator::Jump(accept),
            Operand::Reg(pred) => Terminator::Branch { pred, accept, reject },
        };
        self.end(terminator, next);
    }

    /// Runs `then` only where `condition` holds.
    pub(crate) fn when<T>(&mut self, condition: Operand, then: impl FnOnce(&mut Builder) -> T) -> T {
        let (accept, after) = (self.block(), self.block());
        self.branch(condition, accept, after, accept);
        let value = then(self);
        self.end(Terminator::Jump(after), after);
        value
    }

    pub(crate) fn push(&mut self, inst: Inst) {
        self.lines += 1;
        self.open.1.push(Line { guard: None, inst });
    }

    pub(crate) fn push_guarded(&mut self, guard: Guard, inst: Inst) {
        self.lines += 1;
        self.open.1.push(Line { guard: Some(guard), inst });
    }

    // ---- data movement (9.7.9) ----

    /// `mov`: writes `dst`, which may be a variable.
    pub(crate) fn mov_to(&mut self, ty: Ty, dst: Reg, src: impl Into<Operand>) {
        let src = src.into();
        if src != Operand::Reg(dst) {
            self.push(Inst::Mov { ty: ty.bits(), dst, src });
        }
    }

    /// `src` in a fresh register.
    pub(crate) fn copy(&mut self, ty: Ty, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(ty);
        self.push(Inst::Mov { ty: ty.bits(), dst, src: src.into() });
        dst
    }

    /// `src` in some register.
    pub(crate) fn in_reg(&mut self, ty: Ty, src: impl Into<Operand>) -> Reg {
        match src.into() {
            Operand::Reg(reg) => reg,
            imm => self.copy(ty, imm),
        }
    }

    pub(crate) fn special(&mut self, special: Special) -> Reg {
        let dst = self.reg(Ty::U32);
        self.push(Inst::Special { dst, special });
        dst
    }

    /// `selp`: `a` where `p`, else `b`.
    pub(crate) fn selp(&mut self, ty: Ty, p: Operand, a: Operand, b: Operand) -> Operand {
        let p = match p {
            Operand::Imm(0) => return b,
            Operand::Imm(_) => return a,
            Operand::Reg(p) => p,
        };
        if a == b {
            return a;
        }
        if ty == Ty::Pred {
            // There is no selp of predicates: (p and a) or (not p and b).
            let with = self.binary(BinaryOp::And, Ty::Pred, p.into(), a);
            let not = self.unary(UnaryOp::Not, Ty::Pred, p.into());
            let without = self.binary(BinaryOp::And, Ty::Pred, not, b);
            return self.binary(BinaryOp::Or, Ty::Pred, with, without);
        }
        if ty.class() == Class::B16 && a.imm().is_none() && b.imm().is_none() {
            return self.masked(ty, p, a, b);
        }
        let dst = self.reg(ty);
        self.push(Inst::Selp { ty: ty.bits(), dst, a, b, p });
        dst.into()
    }

    /// `selp` of two registers of 16 bits, by a mask.
    ///
    /// ptxas 13.0.88, as the driver's assembler (580.159), for every target from sm_75 to sm_120 turns `selp.b16` of
    /// two halves that were loaded into a load, under a predicate, over the register of the other half; where the sum
    /// or product of that other half with something is then packed with another one into one instruction for two, that
    /// comes after the load and takes the wrong half. `tests/in/half_select.wgsl` is such a case. A mask is one
    /// instruction more.
    fn masked(&mut self, ty: Ty, p: Reg, a: Operand, b: Operand) -> Operand {
        let mask = self.reg(Ty::B16);
        self.push(Inst::Selp { ty: Ty::B16, dst: mask, a: Operand::Imm(0xffff), b: Operand::Imm(0), p });
        let differing = self.xor(ty, a, b);
        let taken = self.and(ty, differing, mask.into());
        self.xor(ty, taken, b)
    }

    /// `cvt`; the caller knows which rounding the pair of types needs.
    pub(crate) fn cvt(&mut self, to: Ty, from: Ty, round: Round, src: Operand) -> Operand {
        let src = if from.is_float() { self.in_reg(from, src).into() } else { src };
        let dst = self.reg(to);
        self.push(Inst::Cvt { to, from, round, saturate: false, dst, src });
        dst.into()
    }

    /// Two halves as one register of twice the width.
    pub(crate) fn pack(&mut self, half: Ty, low: Operand, high: Operand) -> Operand {
        let (low, high) = (self.in_reg(half, low), self.in_reg(half, high));
        let dst = self.reg(if half.bytes() == 2 { Ty::B32 } else { Ty::B64 });
        self.push(Inst::Pack { dst, low, high });
        dst.into()
    }

    /// The two halves (low, high) of a register; `half` is their type.
    pub(crate) fn unpack(&mut self, half: Ty, src: Operand) -> (Operand, Operand) {
        let src = self.in_reg(if half.bytes() == 2 { Ty::B32 } else { Ty::B64 }, src);
        let (low, high) = (self.reg(half), self.reg(half));
        self.push(Inst::Unpack { low, high, src });
        (low.into(), high.into())
    }

    // ---- arithmetic (9.7.1 to 9.7.5), logic and shift (9.7.8), comparison (9.7.6) ----

    pub(crate) fn unary(&mut self, op: UnaryOp, ty: Ty, src: Operand) -> Operand {
        if let Some(bits) = src.imm().and_then(|bits| fold_unary(op, ty, bits)) {
            return Operand::Imm(bits);
        }
        let src = self.plain(ty, src);
        let dst = self.reg(match op {
            UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind => Ty::U32,
            _ => ty,
        });
        self.push(Inst::Unary { op, ty, dst, src });
        dst.into()
    }

    pub(crate) fn binary(&mut self, op: BinaryOp, ty: Ty, a: Operand, b: Operand) -> Operand {
        if let Some(known) = fold_binary(op, ty, a, b) {
            return known;
        }
        let (a, b) = match op {
            // The count of a shift is 32 bits wide whatever is shifted.
            BinaryOp::Shl | BinaryOp::Shr => (self.plain(ty, a), b),
            _ => (self.plain(ty, a), self.plain(ty, b)),
        };
        let dst = self.reg(match op {
            BinaryOp::MulWide if ty.bytes() == 2 => Ty::B32,
            BinaryOp::MulWide => Ty::B64,
            _ => ty,
        });
        self.push(Inst::Binary { op, ty, dst, a, b });
        if matches!(ty, Ty::U32 | Ty::S32 | Ty::B32) {
            self.note(op, dst, a, b);
        }
        dst.into()
    }

    /// Remembers what is known of a 32-bit integer.
    fn note(&mut self, op: BinaryOp, dst: Reg, a: Operand, b: Operand) {
        match (op, a, b) {
            (BinaryOp::Add, Operand::Reg(reg), Operand::Imm(add))
            | (BinaryOp::Add, Operand::Imm(add), Operand::Reg(reg)) => {
                let (root, before) = self.split_sum(reg);
                self.sums.insert(dst, (root, before.wrapping_add(add as u32)));
            }
            (BinaryOp::Sub, Operand::Reg(reg), Operand::Imm(sub)) => {
                let (root, before) = self.split_sum(reg);
                self.sums.insert(dst, (root, before.wrapping_sub(sub as u32)));
            }
            _ => {}
        }
        let (of_a, of_b) = (self.multiple(a), self.multiple(b));
        let multiple = match (op, b) {
            (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor, _) => of_a.min(of_b),
            (BinaryOp::Mul, _) => (of_a + of_b).min(31),
            (BinaryOp::And, _) => of_a.max(of_b),
            (BinaryOp::Shl, Operand::Imm(count)) => (of_a + count as u32).min(31),
            _ => 0,
        };
        if multiple > 0 {
            self.multiples.insert(dst, multiple);
        }
    }

    /// The logarithm of a power of two that divides a 32-bit integer.
    pub(crate) fn multiple(&self, operand: Operand) -> u32 {
        match operand {
            Operand::Imm(bits) => (bits as u32).trailing_zeros().min(31),
            Operand::Reg(reg) => self.multiples.get(&reg).copied().unwrap_or(0),
        }
    }

    /// A 32-bit integer as another one plus a constant.
    pub(crate) fn split_sum(&self, reg: Reg) -> (Reg, u32) {
        self.sums.get(&reg).copied().unwrap_or((reg, 0))
    }

    pub(crate) fn ternary(&mut self, op: TernaryOp, ty: Ty, a: Operand, b: Operand, c: Operand) -> Operand {
        let (a, b, c) = match op {
            TernaryOp::Fma => (self.plain(ty, a), self.plain(ty, b), self.plain(ty, c)),
            _ => (a, b, c),
        };
        let dst = self.reg(if op == TernaryOp::MadWide { Ty::B64 } else { ty });
        self.push(Inst::Ternary { op, ty, dst, a, b, c });
        dst.into()
    }

    pub(crate) fn add(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::Add, ty, a, b)
    }

    pub(crate) fn sub(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::Sub, ty, a, b)
    }

    pub(crate) fn mul(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::Mul, ty, a, b)
    }

    pub(crate) fn fma(&mut self, ty: Ty, a: Operand, b: Operand, c: Operand) -> Operand {
        self.ternary(TernaryOp::Fma, ty, a, b, c)
    }

    pub(crate) fn and(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::And, ty.bits(), a, b)
    }

    pub(crate) fn or(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::Or, ty.bits(), a, b)
    }

    pub(crate) fn xor(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        self.binary(BinaryOp::Xor, ty.bits(), a, b)
    }

    pub(crate) fn not(&mut self, ty: Ty, a: Operand) -> Operand {
        self.unary(UnaryOp::Not, ty.bits(), a)
    }

    /// `setp`: a predicate.
    pub(crate) fn setp(&mut self, cmp: Compare, ty: Ty, a: Operand, b: Operand) -> Operand {
        if let Some(known) = fold_compare(cmp, ty, a, b) {
            return Operand::bool(known);
        }
        let (a, b) = (self.plain(ty, a), self.plain(ty, b));
        // The first operand of a comparison may not be a constant of some types; a register always may.
        let a = self.in_reg(ty, a).into();
        let dst = self.reg(Ty::Pred);
        self.push(Inst::Setp { cmp, ty, dst, a, b });
        dst.into()
    }

    /// An operand the instruction takes: constants of f16 type and of predicates have no spelling.
    fn plain(&mut self, ty: Ty, operand: Operand) -> Operand {
        match ty {
            Ty::F16 | Ty::Pred | Ty::F16x2 => self.in_reg(ty, operand).into(),
            _ => operand,
        }
    }

    // ---- addresses ----

    /// `base + index * stride`, computed once per block; `alignment` is what is known of it, in bytes.
    pub(crate) fn indexed(&mut self, space: Space, base: Base, index: Operand, stride: u32, alignment: u32) -> Reg {
        if let Some(&known) = self.addresses.get(&(base, index, stride)) {
            return known;
        }
        let start = Operand::from(self.address_reg(space, base));
        let moved = match space.address() {
            Ty::U64 => self.ternary(TernaryOp::MadWide, Ty::U32, index, Operand::u32(stride), start),
            ty => {
                let bytes = self.mul(ty, index, Operand::u32(stride));
                self.add(ty, bytes, start)
            }
        };
        let reg = self.in_reg(space.address(), moved);
        self.addresses.insert((base, index, stride), reg);
        self.alignments.insert(reg, alignment);
        reg
    }

    /// Bytes that the address in `reg` is a multiple of, as far as is known.
    pub(crate) fn alignment(&self, reg: Reg) -> u32 {
        self.alignments.get(&reg).copied().unwrap_or(1)
    }

    /// States that the address in `reg` is a multiple of `bytes`.
    pub(crate) fn aligned(&mut self, reg: Reg, bytes: u32) {
        self.alignments.insert(reg, bytes);
    }

    /// A register that holds `address`, without its constant offset.
    pub(crate) fn address_reg(&mut self, space: Space, base: Base) -> Reg {
        match base {
            Base::Reg(reg) => reg,
            base => {
                let ty = space.address();
                let dst = self.reg(ty);
                self.push(Inst::MovBase { ty, dst, base });
                dst
            }
        }
    }
}

fn mask(ty: Ty) -> u64 {
    match ty.class() {
        Class::Pred => 1,
        Class::B16 => 0xffff,
        Class::B32 => 0xffff_ffff,
        Class::B64 => u64::MAX,
    }
}

/// `bits` as a signed number of the type's width.
fn signed(ty: Ty, bits: u64) -> i64 {
    match ty.class() {
        Class::Pred => bits as i64,
        Class::B16 => i64::from(bits as u16 as i16),
        Class::B32 => i64::from(bits as u32 as i32),
        Class::B64 => bits as i64,
    }
}

fn fold_unary(op: UnaryOp, ty: Ty, bits: u64) -> Option<u64> {
    match op {
        UnaryOp::Not => Some(!bits & mask(ty)),
        UnaryOp::Neg if !ty.is_float() => Some(bits.wrapping_neg() & mask(ty)),
        UnaryOp::Neg if ty != Ty::F16x2 => Some(bits ^ (mask(ty) ^ (mask(ty) >> 1))),
        _ => None,
    }
}

fn fold_binary(op: BinaryOp, ty: Ty, a: Operand, b: Operand) -> Option<Operand> {
    if ty.is_float() {
        return None;
    }
    if let (Operand::Imm(x), Operand::Imm(y)) = (a, b) {
        let bits = match op {
            BinaryOp::Add => x.wrapping_add(y),
            BinaryOp::Sub => x.wrapping_sub(y),
            BinaryOp::Mul => x.wrapping_mul(y),
            BinaryOp::And => x & y,
            BinaryOp::Or => x | y,
            BinaryOp::Xor => x ^ y,
            BinaryOp::Shl if y < u64::from(8 * ty.bytes()) => x << y,
            BinaryOp::Shr if y < u64::from(8 * ty.bytes()) && ty.is_signed() => (signed(ty, x) >> y) as u64,
            BinaryOp::Shr if y < u64::from(8 * ty.bytes()) => x >> y,
            BinaryOp::Min if ty.is_signed() => signed(ty, x).min(signed(ty, y)) as u64,
            BinaryOp::Max if ty.is_signed() => signed(ty, x).max(signed(ty, y)) as u64,
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            _ => return None,
        };
        return Some(Operand::Imm(bits & mask(ty)));
    }
    let (all, none) = (Operand::Imm(mask(ty)), Operand::Imm(0));
    match op {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor if a == none => Some(b),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr if b == none => {
            Some(a)
        }
        BinaryOp::Mul | BinaryOp::And if a == none || b == none => Some(none),
        BinaryOp::Mul if a == Operand::Imm(1) => Some(b),
        BinaryOp::Mul if b == Operand::Imm(1) => Some(a),
        BinaryOp::And if a == all => Some(b),
        BinaryOp::And if b == all => Some(a),
        BinaryOp::Or if a == all || b == all => Some(all),
        _ => None,
    }
}

fn fold_compare(cmp: Compare, ty: Ty, a: Operand, b: Operand) -> Option<bool> {
    if ty.is_float() {
        return None;
    }
    let (x, y) = (a.imm()?, b.imm()?);
    let order = if ty.is_signed() { signed(ty, x).cmp(&signed(ty, y)) } else { x.cmp(&y) };
    match cmp {
        Compare::Eq => Some(order.is_eq()),
        Compare::Ne => Some(order.is_ne()),
        Compare::Lt => Some(order.is_lt()),
        Compare::Le => Some(order.is_le()),
        Compare::Gt => Some(order.is_gt()),
        Compare::Ge => Some(order.is_ge()),
        Compare::Neu | Compare::Nan => None,
    }
}
