//! A warp on the host, for tests: 32 lanes that run the PTX IR in lockstep, any set of them active.
//!
//! It is strict where hardware is silent: an instruction across lanes panics unless its mask is exactly the active
//! lanes, and reading a lane that does not take part gives rubbish that differs from lane to lane. After a branch on
//! which lanes differ the two sides run to the end one after the other, so nothing is proven by luck of reconvergence.
//! Memory is a map of whole values, and lanes reach it in the order of their numbers.

use std::collections::BTreeMap;

use half::f16;

use crate::ir::*;

/// Instructions after which a test counts as hanging.
const PATIENCE: u32 = 100_000;

pub(super) struct Warp {
    registers: [Vec<[u64; 32]>; 4],
    pub(super) memory: BTreeMap<u64, u64>,
    workgroup_size: [u32; 3],
    /// Linear index of lane 0.
    first: u32,
    steps: u32,
}

impl Warp {
    pub(super) fn new(registers: [u32; 4], workgroup_size: [u32; 3], first: u32) -> Warp {
        let registers = registers.map(|count| vec![[0xbad_bad_bad_bad; 32]; count as usize]);
        Warp { registers, memory: BTreeMap::new(), workgroup_size, first, steps: 0 }
    }

    pub(super) fn set(&mut self, reg: Reg, values: &[u64; 32]) {
        self.registers[reg.class as usize][reg.id as usize] = *values;
    }

    pub(super) fn get(&self, operand: Operand, lane: u32) -> u64 {
        match operand {
            Operand::Imm(bits) => bits,
            Operand::Reg(reg) => self.registers[reg.class as usize][reg.id as usize][lane as usize],
        }
    }

    fn put(&mut self, reg: Reg, lane: u32, bits: u64) {
        let bits = match reg.class {
            Class::Pred => bits & 1,
            Class::B16 => bits & 0xffff,
            Class::B32 => bits & 0xffff_ffff,
            Class::B64 => bits,
        };
        self.registers[reg.class as usize][reg.id as usize][lane as usize] = bits;
    }

    /// Runs the first block and all that follow it.
    pub(super) fn run(&mut self, blocks: &[Block], active: u32) {
        if let Some(first) = blocks.first() {
            self.from(blocks, first.id, active);
        }
    }

    fn from(&mut self, blocks: &[Block], mut id: BlockId, active: u32) {
        loop {
            let block = blocks.iter().find(|block| block.id == id).expect("a block of this kernel");
            for line in &block.lines {
                self.steps += 1;
                assert!(self.steps < PATIENCE, "the program hangs");
                let takes_part = |lane: &u32| {
                    line.guard.is_none_or(|guard| (self.get(guard.pred.into(), *lane) != 0) != guard.negated)
                };
                let guarded = bits_of(lanes_of(active).filter(takes_part));
                self.execute(&line.inst, guarded);
            }
            match block.terminator {
                Terminator::Return => return,
                Terminator::Jump(to) => id = to,
                Terminator::Branch { pred, accept, reject } => {
                    let yes = bits_of(lanes_of(active).filter(|&lane| self.get(pred.into(), lane) != 0));
                    match (yes, active & !yes) {
                        (_, 0) => id = accept,
                        (0, _) => id = reject,
                        (yes, no) => {
                            self.from(blocks, accept, yes);
                            self.from(blocks, reject, no);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// What every lane reads before any writes.
    fn all(&self, operand: Operand) -> [u64; 32] {
        std::array::from_fn(|lane| self.get(operand, lane as u32))
    }

    fn check_mask(&self, mask: Operand, active: u32) {
        for lane in lanes_of(active) {
            let mask = self.get(mask, lane) as u32;
            assert_eq!(mask, active, "lane {lane} names lanes {mask:#010x}, active are {active:#010x}");
        }
    }

    fn execute(&mut self, inst: &Inst, active: u32) {
        match *inst {
            Inst::Mov { dst, src, .. } => self.each(dst, active, |w, lane| w.get(src, lane)),
            Inst::Special { dst, special } => self.each(dst, active, |w, lane| w.special(special, lane)),
            Inst::Unary { op, ty, dst, src } => self.each(dst, active, |w, lane| unary(op, ty, w.get(src, lane))),
            Inst::Binary { op, ty, dst, a, b } => {
                self.each(dst, active, |w, lane| binary(op, ty, w.get(a, lane), w.get(b, lane)));
            }
            Inst::Ternary { op: TernaryOp::MadLo | TernaryOp::MadWide, dst, a, b, c, .. } => {
                self.each(dst, active, |w, lane| {
                    w.get(a, lane).wrapping_mul(w.get(b, lane)).wrapping_add(w.get(c, lane))
                })
            }
            Inst::Setp { cmp, ty, dst, a, b } => {
                self.each(dst, active, |w, lane| u64::from(compare(cmp, ty, w.get(a, lane), w.get(b, lane))));
            }
            Inst::Selp { dst, a, b, p, .. } => self
                .each(dst, active, |w, lane| if w.get(p.into(), lane) != 0 { w.get(a, lane) } else { w.get(b, lane) }),
            Inst::Cvt { to, from, dst, src, .. } => {
                self.each(dst, active, |w, lane| encode(to, decode(from, w.get(src, lane))));
            }
            Inst::Pack { dst, low, high } => {
                let shift = if dst.class == Class::B64 { 32 } else { 16 };
                self.each(dst, active, |w, lane| w.get(low.into(), lane) | w.get(high.into(), lane) << shift);
            }
            Inst::Unpack { low, high, src } => {
                let shift = if src.class == Class::B64 { 32 } else { 16 };
                let all = self.all(src.into());
                self.each(low, active, |_, lane| all[lane as usize]);
                self.each(high, active, |_, lane| all[lane as usize] >> shift);
            }
            Inst::ActiveMask { dst } => self.each(dst, active, |_, _| u64::from(active)),
            Inst::Shfl { mode, dst, in_range, src, lane: which, clamp, mask } => {
                self.check_mask(mask, active);
                let (values, which, clamp) = (self.all(src), self.all(which), self.all(clamp));
                for lane in lanes_of(active) {
                    let at = lane as usize;
                    let (source, found) = shfl_source(mode, lane, which[at] as u32, clamp[at] as u32);
                    let rubbish = 0xdead_0000 | u64::from(lane * 1021);
                    let value = if active >> source & 1 == 1 { values[source as usize] } else { rubbish };
                    self.put(dst, lane, value);
                    if let Some(pred) = in_range {
                        self.put(pred, lane, u64::from(found));
                    }
                }
            }
            Inst::Ballot { dst, src, mask } => {
                self.check_mask(mask, active);
                let votes = bits_of(lanes_of(active).filter(|&lane| self.get(src, lane) != 0));
                self.each(dst, active, |_, _| u64::from(votes));
            }
            Inst::Vote { mode, dst, src, mask } => {
                self.check_mask(mask, active);
                let votes = bits_of(lanes_of(active).filter(|&lane| self.get(src, lane) != 0));
                let result = match mode {
                    VoteMode::All => votes == active,
                    VoteMode::Any => votes != 0,
                };
                self.each(dst, active, |_, _| u64::from(result));
            }
            Inst::Redux { op, ty, dst, src, mask } => {
                self.check_mask(mask, active);
                let op = match op {
                    ReduxOp::Add => BinaryOp::Add,
                    ReduxOp::Min => BinaryOp::Min,
                    ReduxOp::Max => BinaryOp::Max,
                    ReduxOp::And => BinaryOp::And,
                    ReduxOp::Or => BinaryOp::Or,
                    ReduxOp::Xor => BinaryOp::Xor,
                };
                assert!(ty.bytes() == 4 && !ty.is_float(), "redux.sync of {ty:?}");
                let total = lanes_of(active).map(|lane| self.get(src, lane)).reduce(|a, b| binary(op, ty, a, b));
                self.each(dst, active, |_, _| total.unwrap_or(0));
            }
            Inst::WarpBarrier { mask } => self.check_mask(mask, active),
            Inst::Barrier | Inst::Fence { .. } => {}
            // What is loaded nobody looks at, only whether.
            Inst::WmmaLoad { ref dst, .. } => {
                assert_eq!(active, u32::MAX, "wmma in a part of the warp");
                dst.iter().for_each(|&reg| self.each(reg, active, |_, _| 1));
            }
            Inst::Atom { op, ty, dst, address, a, b, .. } => {
                for lane in lanes_of(active) {
                    let old = self.atomic(op, ty, address, lane, a, b);
                    self.put(dst, lane, old);
                }
            }
            Inst::Red { op, ty, address, a, .. } => {
                assert!(!matches!(op, AtomOp::Exch | AtomOp::Cas), "red has no {op:?}");
                for lane in lanes_of(active) {
                    self.atomic(op, ty, address, lane, a, None);
                }
            }
            Inst::AtomicLoad { dst, address, .. } => {
                self.each(dst, active, |w, lane| w.memory[&w.place(address, lane)]);
            }
            Inst::AtomicStore { src, address, .. } => {
                for lane in lanes_of(active) {
                    self.memory.insert(self.place(address, lane), self.get(src, lane));
                }
            }
            ref other => panic!("not evaluated: {other:?}"),
        }
    }

    fn each(&mut self, dst: Reg, active: u32, value: impl Fn(&Warp, u32) -> u64) {
        for lane in lanes_of(active) {
            let bits = value(self, lane);
            self.put(dst, lane, bits);
        }
    }

    fn special(&self, special: Special, lane: u32) -> u64 {
        let [x, y, _] = self.workgroup_size;
        let index = self.first + lane;
        u64::from(match special {
            Special::Tid(0) => index % x,
            Special::Tid(1) => index / x % y,
            Special::Tid(_) => index / x / y,
            Special::LaneId => lane,
            Special::LaneMaskLt => (1 << lane) - 1,
            Special::LaneMaskLe => u32::MAX >> (31 - lane),
            Special::Ctaid(_) | Special::Nctaid(_) => 0,
        })
    }

    fn place(&self, address: Address, lane: u32) -> u64 {
        let base = match address.base {
            Base::Reg(reg) => self.get(reg.into(), lane),
            Base::Shared | Base::Local | Base::Param(_) => 0,
        };
        base.wrapping_add_signed(address.offset)
    }

    fn atomic(&mut self, op: AtomOp, ty: Ty, address: Address, lane: u32, a: Operand, b: Option<Operand>) -> u64 {
        let (a, b) = (self.get(a, lane), b.map(|b| self.get(b, lane)));
        let place = self.place(address, lane);
        let old = self.memory[&place];
        let step = match op {
            AtomOp::Add => {
                assert!(ty != Ty::S64, "there is no atom.add.s64");
                BinaryOp::Add
            }
            AtomOp::And => BinaryOp::And,
            AtomOp::Or => BinaryOp::Or,
            AtomOp::Xor => BinaryOp::Xor,
            AtomOp::Min => BinaryOp::Min,
            AtomOp::Max => BinaryOp::Max,
            AtomOp::Exch => {
                self.memory.insert(place, a);
                return old;
            }
            AtomOp::Cas => {
                if old == a {
                    self.memory.insert(place, b.expect("cas takes two values"));
                }
                return old;
            }
        };
        assert!(!(ty.is_float() && step != BinaryOp::Add), "there is no atom.{op:?} of {ty:?}");
        self.memory.insert(place, binary(step, ty, old, a));
        old
    }
}

pub(super) fn lanes_of(mask: u32) -> impl Iterator<Item = u32> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

fn bits_of(lanes: impl Iterator<Item = u32>) -> u32 {
    lanes.fold(0, |mask, lane| mask | 1 << lane)
}

/// 9.7.9.6, the pseudocode's meaning: the source lane and whether it is in range.
fn shfl_source(mode: ShflMode, lane: u32, which: u32, clamp: u32) -> (u32, bool) {
    let (which, bound, segment) = (which & 31, clamp & 31, clamp >> 8 & 31);
    let (lowest, highest) = (lane & segment, (lane & segment) | (bound & !segment));
    let (source, found) = match mode {
        ShflMode::Up => (lane.wrapping_sub(which), lane as i32 - which as i32 >= highest as i32),
        ShflMode::Down => (lane + which, lane + which <= highest),
        ShflMode::Bfly => (lane ^ which, lane ^ which <= highest),
        ShflMode::Idx => (lowest | (which & !segment & 31), lowest | (which & !segment & 31) <= highest),
    };
    (if found { source } else { lane }, found)
}

/// A number in any type: integers as themselves, floats as f64 (all f16 and f32 are).
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

pub(super) fn decode(ty: Ty, bits: u64) -> Number {
    match ty {
        Ty::S16 => Number::Int(i128::from(bits as i16)),
        Ty::S32 => Number::Int(i128::from(bits as i32)),
        Ty::S64 => Number::Int(i128::from(bits as i64)),
        Ty::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        Ty::F32 => Number::Float(f64::from(f32::from_bits(bits as u32))),
        Ty::F64 => Number::Float(f64::from_bits(bits)),
        _ => Number::Int(i128::from(bits) & (i128::from(u64::MAX) >> (64 - 8 * ty.bytes()))),
    }
}

pub(super) fn encode(ty: Ty, number: Number) -> u64 {
    match (ty, number) {
        (Ty::F16, Number::Float(x)) => u64::from(f16::from_f64(x).to_bits()),
        (Ty::F32, Number::Float(x)) => u64::from((x as f32).to_bits()),
        (Ty::F64, Number::Float(x)) => x.to_bits(),
        (ty, Number::Int(x)) if !ty.is_float() => x as u64 & (u64::MAX >> (64 - 8 * ty.bytes())),
        (ty, number) => panic!("{number:?} as {ty:?}"),
    }
}

fn unary(op: UnaryOp, ty: Ty, bits: u64) -> u64 {
    match (op, decode(ty, bits)) {
        (UnaryOp::Neg, Number::Float(x)) => encode(ty, Number::Float(-x)),
        (UnaryOp::Neg, Number::Int(x)) if ty.is_signed() => encode(ty, Number::Int(-x)),
        (UnaryOp::Not, _) => !bits,
        (UnaryOp::Popc, _) => u64::from(bits.count_ones()),
        (UnaryOp::Clz, _) => u64::from((bits as u32).leading_zeros()),
        (UnaryOp::Brev, _) => u64::from((bits as u32).reverse_bits()),
        (UnaryOp::Bfind, _) => u64::from((bits as u32).checked_ilog2().unwrap_or(u32::MAX)),
        (op, _) => panic!("not evaluated: {op:?}"),
    }
}

fn binary(op: BinaryOp, ty: Ty, a: u64, b: u64) -> u64 {
    let number = match (op, decode(ty, a), decode(ty, b)) {
        (BinaryOp::And, ..) => return a & b,
        (BinaryOp::Or, ..) => return a | b,
        (BinaryOp::Xor, ..) => return a ^ b,
        (BinaryOp::Add | BinaryOp::AddRn, Number::Float(x), Number::Float(y)) => Number::Float(x + y),
        (BinaryOp::Mul | BinaryOp::MulRn, Number::Float(x), Number::Float(y)) => Number::Float(x * y),
        (BinaryOp::Min, Number::Float(x), Number::Float(y)) => Number::Float(x.min(y)),
        (BinaryOp::Max, Number::Float(x), Number::Float(y)) => Number::Float(x.max(y)),
        (BinaryOp::Add, Number::Int(x), Number::Int(y)) => Number::Int(x + y),
        (BinaryOp::Sub, Number::Int(x), Number::Int(y)) => Number::Int(x - y),
        (BinaryOp::Mul, Number::Int(x), Number::Int(y)) => Number::Int(x.wrapping_mul(y)),
        (BinaryOp::Min, Number::Int(x), Number::Int(y)) => Number::Int(x.min(y)),
        (BinaryOp::Max, Number::Int(x), Number::Int(y)) => Number::Int(x.max(y)),
        (BinaryOp::Shr, Number::Int(x), _) => Number::Int(x >> b.min(63)),
        (op, ..) => panic!("not evaluated: {op:?} of {ty:?}"),
    };
    encode(ty, number)
}

fn compare(cmp: Compare, ty: Ty, a: u64, b: u64) -> bool {
    let (Number::Int(x), Number::Int(y)) = (decode(ty, a), decode(ty, b)) else { panic!("not evaluated: {ty:?}") };
    match cmp {
        Compare::Eq => x == y,
        Compare::Ne | Compare::Neu => x != y,
        Compare::Lt => x < y,
        Compare::Le => x <= y,
        Compare::Gt => x > y,
        Compare::Ge => x >= y,
        Compare::Nan => false,
    }
}
