//! Runs straight and forward-branching PTX IR on the host, for many threads at once.
//!
//! What it is not: an interpreter of kernels; it has no memory, no loops and no other threads. The decision to know: an
//! `.approx` instruction is off by as much as is documented, in the direction the test asks for, and the functions
//! built on it have to stand all directions. The figures are those of the CUDA C++ Programming Guide for the functions
//! that are one instruction each: `exp2f` and `rsqrtf` 2 ULP, `rcp.approx` 1 ULP (PTX ISA), `__log2f` 2^-22 absolute
//! from 1/2 to 2 and 2 ULP outside.

use half::f16;

use crate::ir::*;

/// Which way approximations are off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Off {
    /// Correctly rounded.
    Not,
    Up,
    Down,
}

impl Off {
    pub(super) const ALL: [Off; 3] = [Off::Not, Off::Up, Off::Down];

    fn factor(self) -> f64 {
        match self {
            Off::Not => 0.0,
            Off::Up => 1.0,
            Off::Down => -1.0,
        }
    }
}

/// Registers of all threads.
pub(super) struct Machine {
    threads: usize,
    registers: [Vec<Vec<u64>>; 4],
    off: Off,
}

impl Machine {
    /// Runs the blocks of a finished builder with `inputs` in registers; returns `outputs`, one vector each.
    pub(super) fn run(
        (blocks, registers, _): (Vec<Block>, [u32; 4], crate::PtxVersion),
        threads: usize,
        inputs: &[(Reg, &[u64])],
        outputs: &[Operand],
        off: Off,
    ) -> Vec<Vec<u64>> {
        let registers = registers.map(|count| vec![Vec::new(); count as usize]);
        let mut machine = Machine { threads, registers, off };
        for (reg, values) in inputs {
            machine.registers[reg.class as usize][reg.id as usize] = values.to_vec();
        }
        let count = blocks.iter().map(|b| b.id.0 + 1).max().unwrap_or(0);
        let mut waiting: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
        waiting[0] = (0..threads as u32).collect();
        for block in &blocks {
            let active = std::mem::take(&mut waiting[block.id.0 as usize]);
            for line in &block.lines {
                assert!(line.guard.is_none(), "guards are not modelled");
                machine.inst(&line.inst, &active);
            }
            match block.terminator {
                Terminator::Jump(to) => waiting[to.0 as usize].extend(active),
                Terminator::Branch { pred, accept, reject } => {
                    for thread in active {
                        let taken = machine.read(pred.into(), thread) != 0;
                        waiting[if taken { accept } else { reject }.0 as usize].push(thread);
                    }
                }
                Terminator::Return => assert_eq!(active.len(), threads, "a thread returned early or not"),
            }
        }
        outputs.iter().map(|&o| (0..threads as u32).map(|t| machine.read(o, t)).collect()).collect()
    }

    fn read(&self, operand: Operand, thread: u32) -> u64 {
        match operand {
            Operand::Imm(bits) => bits,
            Operand::Reg(reg) => self.registers[reg.class as usize][reg.id as usize][thread as usize],
        }
    }

    fn set(&mut self, dst: Reg, active: &[u32], value: impl Fn(&Machine, u32) -> u64) {
        let slot = &mut self.registers[dst.class as usize][dst.id as usize];
        // A value that nobody wrote is recognisable.
        let mut values = std::mem::take(slot);
        if values.is_empty() {
            values = vec![0xdead_beef_dead_beef; self.threads];
        }
        let mask = match dst.class {
            Class::Pred => 1,
            Class::B16 => 0xffff,
            Class::B32 => 0xffff_ffff,
            Class::B64 => u64::MAX,
        };
        // The destination may be a source.
        let results: Vec<u64> = {
            self.registers[dst.class as usize][dst.id as usize] = values;
            active.iter().map(|&t| value(self, t) & mask).collect()
        };
        let values = &mut self.registers[dst.class as usize][dst.id as usize];
        for (&thread, result) in active.iter().zip(results) {
            values[thread as usize] = result;
        }
    }

    fn inst(&mut self, inst: &Inst, active: &[u32]) {
        let off = self.off;
        match *inst {
            Inst::Mov { dst, src, .. } => self.set(dst, active, |m, t| m.read(src, t)),
            Inst::Unary { op, ty, dst, src } => self.set(dst, active, |m, t| unary(op, ty, m.read(src, t), off)),
            Inst::Binary { op, ty, dst, a, b } => {
                self.set(dst, active, |m, t| binary(op, ty, m.read(a, t), m.read(b, t)));
            }
            Inst::Ternary { op, ty, dst, a, b, c } => {
                self.set(dst, active, |m, t| ternary(op, ty, m.read(a, t), m.read(b, t), m.read(c, t)));
            }
            Inst::Bfi { ty, dst, a, b, c, d } => self.set(dst, active, |m, t| {
                let (position, count) = (m.read(c, t) & 0xff, m.read(d, t) & 0xff);
                let width = 8 * u64::from(ty.bytes());
                let mut result = m.read(b, t);
                for i in (0..count).filter(|i| position + i < width) {
                    let bit = m.read(a, t) >> i & 1;
                    result = result & !(1 << (position + i)) | bit << (position + i);
                }
                result
            }),
            Inst::Setp { cmp, ty, dst, a, b } => {
                self.set(dst, active, |m, t| u64::from(compare(cmp, ty, m.read(a, t), m.read(b, t))));
            }
            Inst::Selp { dst, a, b, p, .. } => {
                self.set(dst, active, |m, t| m.read(if m.read(p.into(), t) != 0 { a } else { b }, t));
            }
            Inst::Cvt { to, from, round, saturate, dst, src } => {
                assert!(!saturate, "cvt.sat is not modelled");
                self.set(dst, active, |m, t| cvt(to, from, round, m.read(src, t)));
            }
            Inst::Pack { dst, low, high } => {
                let shift = if low.class == Class::B16 { 16 } else { 32 };
                self.set(dst, active, |m, t| m.read(low.into(), t) | m.read(high.into(), t) << shift);
            }
            Inst::Unpack { low, high, src } => {
                let shift = if low.class == Class::B16 { 16 } else { 32 };
                self.set(low, active, |m, t| m.read(src.into(), t));
                self.set(high, active, |m, t| m.read(src.into(), t) >> shift);
            }
            ref other => panic!("not modelled: {other:?}"),
        }
    }
}

/// The value of float bits.
pub(super) fn to_f64(ty: Ty, bits: u64) -> f64 {
    match ty {
        Ty::F16 => f16::from_bits(bits as u16).to_f64(),
        Ty::F32 => f64::from(f32::from_bits(bits as u32)),
        Ty::F64 => f64::from_bits(bits),
        other => panic!("{other:?} is no float"),
    }
}

/// Bits of the nearest float.
pub(super) fn from_f64(ty: Ty, value: f64) -> u64 {
    match ty {
        Ty::F16 => u64::from(f16::from_f64(value).to_bits()),
        Ty::F32 => u64::from((value as f32).to_bits()),
        Ty::F64 => value.to_bits(),
        other => panic!("{other:?} is no float"),
    }
}

fn sext(ty: Ty, bits: u64) -> i64 {
    let unused = 64 - 8 * ty.bytes();
    (bits << unused) as i64 >> unused
}

fn unary(op: UnaryOp, ty: Ty, x: u64, off: Off) -> u64 {
    let width = 8 * ty.bytes();
    // Off by `ulps` at most, once rounded.
    let approx = |value: f64, ulps: f64| {
        assert_eq!(ty, Ty::F32, "{op:?} is for f32");
        let unit = 2f64.powi((value.abs().log2().floor() as i32).clamp(-126, 127) - 23);
        from_f64(ty, if value.is_finite() { value + off.factor() * (ulps - 0.5) * unit } else { value })
    };
    let v = if ty.is_float() { to_f64(ty, x) } else { 0.0 };
    match op {
        UnaryOp::Neg if ty.is_float() => x ^ 1 << (width - 1),
        UnaryOp::Neg => x.wrapping_neg(),
        UnaryOp::Abs if ty.is_float() => x & !(1 << (width - 1)),
        UnaryOp::Abs => sext(ty, x).unsigned_abs(),
        UnaryOp::Not => !x,
        UnaryOp::Popc => u64::from(x.count_ones()),
        UnaryOp::Clz => u64::from((x << (64 - width)).leading_zeros().min(width)),
        UnaryOp::Brev => x.reverse_bits() >> (64 - width),
        UnaryOp::Bfind => {
            let y = if ty.is_signed() && sext(ty, x) < 0 { !sext(ty, x) as u64 } else { x };
            if y == 0 { 0xffff_ffff } else { u64::from(63 - y.leading_zeros()) }
        }
        // f64 holds twice the bits of f32 and more: one more rounding does not show.
        UnaryOp::Sqrt => from_f64(ty, v.sqrt()),
        UnaryOp::Rcp => from_f64(ty, 1.0 / v),
        UnaryOp::RcpApprox => approx(1.0 / v, 1.0),
        UnaryOp::RsqrtApprox | UnaryOp::RsqrtApproxFtz => approx(1.0 / v.sqrt(), 2.0),
        UnaryOp::Ex2Approx => approx(v.exp2(), 2.0),
        UnaryOp::Ex2ApproxFtz => {
            let flushed = if v.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { v };
            let power = flushed.exp2();
            if power < f64::from(f32::MIN_POSITIVE) { approx(0.0, 0.0) } else { approx(power, 2.0) }
        }
        UnaryOp::Lg2Approx => {
            let log = v.log2();
            if v > 0.5 && v < 2.0 { from_f64(ty, log + off.factor() * 2f64.powi(-22)) } else { approx(log, 2.0) }
        }
    }
}

fn binary(op: BinaryOp, ty: Ty, a: u64, b: u64) -> u64 {
    if ty.is_float() && !matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
        return float_binary(op, ty, a, b);
    }
    let width = 8 * ty.bytes();
    let (sa, sb) = (sext(ty, a), sext(ty, b));
    let signed = ty.is_signed();
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::MulHi if signed => ((i128::from(sa) * i128::from(sb)) >> width) as u64,
        BinaryOp::MulHi => ((u128::from(a) * u128::from(b)) >> width) as u64,
        BinaryOp::MulWide if signed => (sa * sb) as u64,
        BinaryOp::MulWide => a * b,
        BinaryOp::Div | BinaryOp::Rem if signed => {
            assert!(sb != 0 && !(sb == -1 && sa == i64::MIN >> (64 - width)), "{sa} / {sb} is undefined");
            assert!(op == BinaryOp::Div, "signed rem is left to the machine");
            (sa / sb) as u64
        }
        BinaryOp::Div => a.checked_div(b).expect("x / 0 is undefined"),
        BinaryOp::Rem => a.checked_rem(b).expect("x % 0 is undefined"),
        BinaryOp::Min if signed => sa.min(sb) as u64,
        BinaryOp::Max if signed => sa.max(sb) as u64,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => {
            if b >= u64::from(width) {
                0
            } else {
                a << b
            }
        }
        BinaryOp::Shr if signed => (sa >> b.min(63)) as u64,
        BinaryOp::Shr => {
            if b >= u64::from(width) {
                0
            } else {
                a >> b
            }
        }
        other => panic!("{other:?} of {ty:?}"),
    }
}

fn float_binary(op: BinaryOp, ty: Ty, a: u64, b: u64) -> u64 {
    let (x, y) = (to_f64(ty, a), to_f64(ty, b));
    let sign = 1 << (8 * ty.bytes() - 1);
    from_f64(
        ty,
        match op {
            // Sums, products and quotients of narrower floats in f64 round twice without harm.
            BinaryOp::Add | BinaryOp::AddRn => x + y,
            BinaryOp::Sub | BinaryOp::SubRn => x - y,
            BinaryOp::Mul | BinaryOp::MulRn => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Min | BinaryOp::Max if x.is_nan() || y.is_nan() => {
                if x.is_nan() {
                    y
                } else {
                    x
                }
            }
            // -0 is below +0 (PTX ISA, 9.7.3 `min`).
            BinaryOp::Min | BinaryOp::Max if x == y => {
                return if (a & sign != 0) == (op == BinaryOp::Min) { a } else { b };
            }
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            BinaryOp::CopySign => return a & sign | b & !sign,
            other => panic!("{other:?} of {ty:?}"),
        },
    )
}

fn ternary(op: TernaryOp, ty: Ty, a: u64, b: u64, c: u64) -> u64 {
    match op {
        TernaryOp::Fma => match ty {
            Ty::F64 => f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits(),
            Ty::F32 => {
                let [a, b, c] = [a, b, c].map(|x| f32::from_bits(x as u32));
                u64::from(a.mul_add(b, c).to_bits())
            }
            // The product of two halves is exact in f64, the sum very nearly.
            _ => from_f64(ty, to_f64(ty, a).mul_add(to_f64(ty, b), to_f64(ty, c))),
        },
        TernaryOp::MadLo => a.wrapping_mul(b).wrapping_add(c),
        TernaryOp::MadWide => binary(BinaryOp::MulWide, ty, a, b).wrapping_add(c),
        TernaryOp::Bfe => {
            let width = 8 * ty.bytes();
            let (position, count) = (b as u32 & 0xff, c as u32 & 0xff);
            if count == 0 {
                return 0;
            }
            // Beyond the width: zeros, or copies of the field's highest bit within it (PTX ISA, 9.7.1 `bfe`).
            let top = (position + count - 1).min(width - 1);
            let fill = ty.is_signed() && a >> top & 1 == 1;
            (0..width).fold(0, |r, i| {
                let inside = i < count && position + i < width;
                let bit = if inside { a >> (position + i) & 1 == 1 } else { fill };
                r | u64::from(bit) << i
            })
        }
        TernaryOp::Prmt => (0..4).fold(0, |r, i| {
            let pick = c >> (4 * i) & 0xf;
            assert!(pick < 8, "sign replication is not modelled");
            r | ((a | b << 32) >> (8 * pick) & 0xff) << (8 * i)
        }),
        TernaryOp::ShfL => ((b << 32 | a) << (c & 31)) >> 32,
        TernaryOp::Dp4a => (0..4).fold(c, |sum, i| {
            let (x, y) = ((a >> (8 * i)) as u8, (b >> (8 * i)) as u8);
            let product =
                if ty.is_signed() { i64::from(x as i8) * i64::from(y as i8) } else { i64::from(x) * i64::from(y) };
            sum.wrapping_add(product as u64)
        }),
    }
}

fn compare(cmp: Compare, ty: Ty, a: u64, b: u64) -> bool {
    let order = if ty.is_float() {
        to_f64(ty, a).partial_cmp(&to_f64(ty, b))
    } else if ty.is_signed() {
        Some(sext(ty, a).cmp(&sext(ty, b)))
    } else {
        Some(a.cmp(&b))
    };
    match (cmp, order) {
        (Compare::Neu | Compare::Nan, None) => true,
        (Compare::Nan, Some(_)) | (_, None) => false,
        (Compare::Eq, Some(o)) => o.is_eq(),
        (Compare::Ne | Compare::Neu, Some(o)) => o.is_ne(),
        (Compare::Lt, Some(o)) => o.is_lt(),
        (Compare::Le, Some(o)) => o.is_le(),
        (Compare::Gt, Some(o)) => o.is_gt(),
        (Compare::Ge, Some(o)) => o.is_ge(),
    }
}

fn cvt(to: Ty, from: Ty, round: Round, x: u64) -> u64 {
    let integral = |v: f64| match round {
        Round::Rni => v.round_ties_even(),
        Round::Rzi => v.trunc(),
        Round::Rmi => v.floor(),
        Round::Rpi => v.ceil(),
        other => panic!("cvt.{to:?}.{from:?} with {other:?}"),
    };
    match (from.is_float(), to.is_float()) {
        (true, true) if from == to => from_f64(to, integral(to_f64(from, x))),
        (true, true) => {
            assert_eq!(round == Round::None, from.bytes() < to.bytes(), "cvt.{to:?}.{from:?} with {round:?}");
            from_f64(to, to_f64(from, x))
        }
        (true, false) => {
            let v = integral(to_f64(from, x));
            // PTX ISA, 9.7.9 `cvt`: NaN gives 0 unless f64 or 64 bits take part.
            if v.is_nan() {
                return if from == Ty::F64 || to.bytes() == 8 { 1 << (8 * to.bytes() - 1) } else { 0 };
            }
            match to {
                Ty::S16 => v as i16 as u64,
                Ty::U16 => u64::from(v as u16),
                Ty::S32 => v as i32 as u64,
                Ty::U32 => u64::from(v as u32),
                Ty::S64 => v as i64 as u64,
                Ty::U64 => v as u64,
                other => panic!("cvt to {other:?}"),
            }
        }
        (false, true) => {
            assert_eq!(round, Round::Rn);
            match (to, from.is_signed()) {
                (Ty::F64, true) => (sext(from, x) as f64).to_bits(),
                (Ty::F64, false) => (x as f64).to_bits(),
                (Ty::F32, true) => u64::from((sext(from, x) as f32).to_bits()),
                (Ty::F32, false) => u64::from((x as f32).to_bits()),
                // Beyond 2^24 every integer is infinite as a half; below, f64 is exact.
                (_, true) => from_f64(to, sext(from, x) as f64),
                (_, false) => from_f64(to, x as f64),
            }
        }
        (false, false) => {
            assert_eq!(round, Round::None);
            if from.is_signed() { sext(from, x) as u64 } else { x }
        }
    }
}
