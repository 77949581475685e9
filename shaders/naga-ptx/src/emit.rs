//! PTX IR -> text. The only file that knows how PTX is spelled; it decides nothing.
//!
//! Section numbers are those of "PTX ISA 9.0". Output is a function of the kernels alone, so that texts can be compared
//! and cached.

use std::fmt::{self, Write};

use crate::ir::*;
use crate::options::Target;
use crate::ptx::PtxVersion;

/// Name of the module's dynamically sized workgroup memory.
const DYNAMIC_SHARED: &str = "dynamic_shared";

/// The text of a module (4.2, 5, 11).
pub(crate) fn module(kernels: &[Kernel], version: PtxVersion, target: Target) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_module(&mut out, kernels, version, target);
    out
}

fn write_module(out: &mut String, kernels: &[Kernel], version: PtxVersion, target: Target) -> fmt::Result {
    writeln!(out, ".version {version}\n.target {target}\n.address_size 64")?;
    if kernels.iter().any(|k| k.shared_is_dynamic) {
        writeln!(out, "\n.extern .shared .align 16 .b8 {DYNAMIC_SHARED}[];")?;
    }
    kernels.iter().try_for_each(|kernel| Writer { kernel, out }.kernel())
}

struct Writer<'a> {
    kernel: &'a Kernel,
    out: &'a mut String,
}

impl Writer<'_> {
    fn kernel(&mut self) -> fmt::Result {
        let kernel = self.kernel;
        write!(self.out, "\n.visible .entry {}(", kernel.symbol)?;
        for (index, &(size, align)) in kernel.params.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let name = self.param(index);
            match (size, align) {
                (8, 8) => write!(self.out, "{comma}\n    .param .u64 {name}")?,
                _ => write!(self.out, "{comma}\n    .param .align {align} .b8 {name}[{size}]")?,
            }
        }
        let [x, y, z] = kernel.workgroup_size;
        writeln!(self.out, ")\n.reqntid {x}, {y}, {z}\n{{")?;
        let classes = [Class::Pred, Class::B16, Class::B32, Class::B64];
        for (class, count) in classes.into_iter().zip(kernel.registers).filter(|&(_, count)| count > 0) {
            let ty = if class == Class::Pred { "pred" } else { class_name(class) };
            writeln!(self.out, "    .reg .{ty} %{}<{count}>;", prefix(class))?;
        }
        if kernel.shared_bytes > 0 && !kernel.shared_is_dynamic {
            writeln!(self.out, "    .shared .align 16 .b8 {}_shared[{}];", kernel.symbol, kernel.shared_bytes)?;
        }
        if kernel.local_bytes > 0 {
            writeln!(self.out, "    .local .align 16 .b8 {}_local[{}];", kernel.symbol, kernel.local_bytes)?;
        }
        let blocks = Self::reachable(kernel);
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                writeln!(self.out, "{}:", block.id)?;
            }
            for line in &block.lines {
                self.out.push_str("    ");
                if let Some(Guard { pred, negated }) = line.guard {
                    write!(self.out, "@{}{} ", if negated { "!" } else { "" }, name(pred))?;
                }
                self.inst(&line.inst)?;
                self.out.push_str(";\n");
            }
            self.terminator(block.terminator, blocks.get(index + 1).map(|b| b.id))?;
        }
        writeln!(self.out, "}}")
    }

    /// The blocks that control can reach, in order.
    fn reachable(kernel: &Kernel) -> Vec<&Block> {
        let blocks = &kernel.blocks;
        let count = blocks.iter().map(|b| b.id.0 as usize + 1).max().unwrap_or(0);
        let mut by_id: Vec<Option<&Block>> = vec![None; count];
        for block in blocks {
            by_id[block.id.0 as usize] = Some(block);
        }
        let mut seen = vec![false; count];
        let mut open = vec![0_usize];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            match by_id[id].map(|b| b.terminator) {
                Some(Terminator::Jump(to)) => open.push(to.0 as usize),
                Some(Terminator::Branch { accept, reject, .. }) => {
                    open.extend([accept.0 as usize, reject.0 as usize]);
                }
                Some(Terminator::Return) | None => {}
            }
        }
        blocks.iter().filter(|b| seen[b.id.0 as usize]).collect()
    }

    /// 9.7.12 control flow.
    fn terminator(&mut self, terminator: Terminator, next: Option<BlockId>) -> fmt::Result {
        match terminator {
            Terminator::Return => writeln!(self.out, "    ret;"),
            Terminator::Jump(to) if next == Some(to) => Ok(()),
            Terminator::Jump(to) => writeln!(self.out, "    bra {to};"),
            Terminator::Branch { pred, accept, reject } => {
                let pred = name(pred);
                if next == Some(accept) {
                    return writeln!(self.out, "    @!{pred} bra {reject};");
                }
                writeln!(self.out, "    @{pred} bra {accept};")?;
                if next == Some(reject) { Ok(()) } else { writeln!(self.out, "    bra {reject};") }
            }
        }
    }

    fn inst(&mut self, inst: &Inst) -> fmt::Result {
        match inst {
            // 9.7.9.3 mov, 9.7.9.4 mov (pack and unpack)
            Inst::Mov { ty, dst, src } => self.op(format_args!("mov.{}", ty_name(*ty)), &[(*dst).into(), *src], *ty),
            Inst::MovBase { ty, dst, base } => {
                let base = self.base(*base);
                write!(self.out, "mov.{} {}, {base}", ty_name(*ty), name(*dst))
            }
            Inst::Special { dst, special } => write!(self.out, "mov.u32 {}, {}", name(*dst), special_name(*special)),
            Inst::Pack { dst, low, high } => {
                write!(self.out, "mov.{} {}, {{{}, {}}}", class_name(dst.class), name(*dst), name(*low), name(*high))
            }
            Inst::Unpack { low, high, src } => {
                write!(self.out, "mov.{} {{{}, {}}}, {}", class_name(src.class), name(*low), name(*high), name(*src))
            }
            // 9.7.1 integers, 9.7.3 floats, 9.7.8 logic and shift
            Inst::Unary { op, ty, dst, src } => {
                let (op, ty_word) = unary_name(*op, *ty);
                self.op(format_args!("{op}.{ty_word}"), &[(*dst).into(), *src], *ty)
            }
            Inst::Binary { op, ty, dst, a, b } => {
                let (word, ty_word) = binary_name(*op, *ty);
                write!(self.out, "{word}.{ty_word} {}, {}, ", name(*dst), spell(*a, *ty))?;
                let b_ty = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { Ty::U32 } else { *ty };
                write!(self.out, "{}", spell(*b, b_ty))
            }
            Inst::Ternary { op, ty, dst, a, b, c } => self.ternary(*op, *ty, *dst, [*a, *b, *c]),
            Inst::Bfi { ty, dst, a, b, c, d } => {
                let (c, d) = (spell(*c, Ty::U32), spell(*d, Ty::U32));
                let ty_word = ty_name(ty.bits());
                write!(self.out, "bfi.{ty_word} {}, {}, {}, {c}, {d}", name(*dst), spell(*a, *ty), spell(*b, *ty))
            }
            // 9.7.6 comparison and selection
            Inst::Setp { cmp, ty, dst, a, b } => {
                self.op(format_args!("setp.{}.{}", compare_name(*cmp), ty_name(*ty)), &[(*dst).into(), *a, *b], *ty)
            }
            Inst::Selp { ty, dst, a, b, p } => {
                self.op(format_args!("selp.{}", ty_name(*ty)), &[(*dst).into(), *a, *b, (*p).into()], *ty)
            }
            // 9.7.9.21 cvt
            Inst::Cvt { to, from, round, saturate, dst, src } => {
                let round = round_name(*round);
                let saturate = if *saturate { ".sat" } else { "" };
                let words = format_args!("cvt{round}{saturate}.{}.{}", ty_name(*to), ty_name(*from));
                self.op(words, &[(*dst).into(), *src], *from)
            }
            // 9.7.9.8 ld, 9.7.9.9 ld.global.nc, 9.7.9.11 st
            Inst::Load { space, ty, dst, address, volatile } => {
                let space = match (space, volatile) {
                    (Space::Constant, _) => "global.nc",
                    (space, _) => space_name(*space),
                };
                let volatile = if *volatile && space != "global.nc" { ".volatile" } else { "" };
                let ty_word = memory_ty(*ty);
                let registers: Vec<String> = dst.iter().map(|&r| name(r).to_string()).collect();
                write!(self.out, "ld{volatile}.{space}{}.{ty_word} ", vector_name(dst.len()))?;
                write!(self.out, "{}, {}", braced(&registers), self.address(*address))
            }
            Inst::Store { space, ty, src, address, volatile } => {
                let volatile = if *volatile { ".volatile" } else { "" };
                let values: Vec<String> = src.iter().map(|&s| spell(s, *ty)).collect();
                let (space, vector) = (space_name(*space), vector_name(src.len()));
                write!(self.out, "st{volatile}.{space}{vector}.{} ", memory_ty(*ty))?;
                write!(self.out, "{}, {}", self.address(*address), braced(&values))
            }
            // 9.7.13.5 atom, 9.7.13.6 red; 9.7.9.8 ld.relaxed
            Inst::Atom { space, op, ty, dst, address, a, b } => {
                let ty_word = match op {
                    AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch | AtomOp::Cas => ty_name(ty.bits()),
                    AtomOp::Add | AtomOp::Min | AtomOp::Max => ty_name(*ty),
                };
                let (space, scope) = (space_name(*space), scope_of(*space));
                let address = self.address(*address);
                write!(self.out, "atom.relaxed.{scope}.{space}.{}.{ty_word} ", atom_name(*op))?;
                write!(self.out, "{}, {address}, {}", name(*dst), spell(*a, *ty))?;
                b.map_or(Ok(()), |b| write!(self.out, ", {}", spell(b, *ty)))
            }
            Inst::Red { space, op, ty, address, a } => {
                let ty_word = match op {
                    AtomOp::And | AtomOp::Or | AtomOp::Xor | AtomOp::Exch | AtomOp::Cas => ty_name(ty.bits()),
                    AtomOp::Add | AtomOp::Min | AtomOp::Max => ty_name(*ty),
                };
                let (space, scope) = (space_name(*space), scope_of(*space));
                let address = self.address(*address);
                write!(self.out, "red.relaxed.{scope}.{space}.{}.{ty_word} {address}, ", atom_name(*op))?;
                write!(self.out, "{}", spell(*a, *ty))
            }
            Inst::AtomicLoad { space, ty, dst, address } => {
                let (space, scope) = (space_name(*space), scope_of(*space));
                let address = self.address(*address);
                write!(self.out, "ld.relaxed.{scope}.{space}.{} {}, {address}", ty_name(ty.bits()), name(*dst))
            }
            Inst::AtomicStore { space, ty, src, address } => {
                let (space, scope) = (space_name(*space), scope_of(*space));
                let address = self.address(*address);
                write!(self.out, "st.relaxed.{scope}.{space}.{} {address}, {}", ty_name(ty.bits()), spell(*src, *ty))
            }
            // 9.7.13.1 bar, 9.7.13.2 bar.warp.sync, 9.7.13.4 fence
            Inst::Barrier => write!(self.out, "bar.sync 0"),
            Inst::WarpBarrier { mask } => write!(self.out, "bar.warp.sync {}", spell(*mask, Ty::B32)),
            Inst::Fence { scope } => write!(self.out, "fence.acq_rel.{}", scope_name(*scope)),
            // 9.7.13.9 activemask, 9.7.9.6 shfl.sync, 9.7.13.7 vote.sync, 9.7.13.10 redux.sync
            Inst::ActiveMask { dst } => write!(self.out, "activemask.b32 {}", name(*dst)),
            Inst::Shfl { mode, dst, in_range, src, lane, clamp, mask } => {
                write!(self.out, "shfl.sync.{}.b32 {}", shfl_name(*mode), name(*dst))?;
                if let Some(pred) = in_range {
                    write!(self.out, "|{}", name(*pred))?;
                }
                let [src, lane, clamp, mask] = [*src, *lane, *clamp, *mask].map(|o| spell(o, Ty::B32));
                write!(self.out, ", {src}, {lane}, {clamp}, {mask}")
            }
            Inst::Vote { mode, dst, src, mask } => {
                let mode = match mode {
                    VoteMode::All => "all",
                    VoteMode::Any => "any",
                };
                let (src, mask) = (spell(*src, Ty::Pred), spell(*mask, Ty::B32));
                write!(self.out, "vote.sync.{mode}.pred {}, {src}, {mask}", name(*dst))
            }
            Inst::Ballot { dst, src, mask } => {
                let (src, mask) = (spell(*src, Ty::Pred), spell(*mask, Ty::B32));
                write!(self.out, "vote.sync.ballot.b32 {}, {src}, {mask}", name(*dst))
            }
            Inst::Redux { op, ty, dst, src, mask } => {
                let (op, ty_word) = match op {
                    ReduxOp::Add => ("add", ty_name(*ty)),
                    ReduxOp::Min => ("min", ty_name(*ty)),
                    ReduxOp::Max => ("max", ty_name(*ty)),
                    ReduxOp::And => ("and", "b32"),
                    ReduxOp::Or => ("or", "b32"),
                    ReduxOp::Xor => ("xor", "b32"),
                };
                let (src, mask) = (spell(*src, *ty), spell(*mask, Ty::B32));
                write!(self.out, "redux.sync.{op}.{ty_word} {}, {src}, {mask}", name(*dst))
            }
            // 9.7.14.4 wmma
            Inst::WmmaLoad { fragment, major, space, ty, dst, address, stride } => {
                let fragment = match fragment {
                    Fragment::A => "a",
                    Fragment::B => "b",
                    Fragment::C => "c",
                };
                let registers: Vec<String> = dst.iter().map(|&r| name(r).to_string()).collect();
                let (space, ty) = (plain_space(*space), ty_name(*ty));
                let (address, stride) = (self.address(*address), spell(*stride, Ty::U32));
                let major = major_name(*major);
                write!(self.out, "wmma.load.{fragment}.sync.aligned.{major}.m16n16k16{space}.{ty} ")?;
                write!(self.out, "{}, {address}, {stride}", braced_all(&registers))
            }
            Inst::WmmaStore { major, space, ty, src, address, stride } => {
                let registers: Vec<String> = src.iter().map(|&r| name(r).to_string()).collect();
                let (space, ty) = (plain_space(*space), ty_name(*ty));
                let (address, stride) = (self.address(*address), spell(*stride, Ty::U32));
                let major = major_name(*major);
                write!(self.out, "wmma.store.d.sync.aligned.{major}.m16n16k16{space}.{ty} ")?;
                write!(self.out, "{address}, {}, {stride}", braced_all(&registers))
            }
            Inst::WmmaMma { ab_major, d_ty, c_ty, d, a, b, c } => {
                let [a_major, b_major] = ab_major.map(major_name);
                let (d_ty, c_ty) = (ty_name(*d_ty), ty_name(*c_ty));
                write!(self.out, "wmma.mma.sync.aligned.{a_major}.{b_major}.m16n16k16.{d_ty}.{c_ty} ")?;
                let [d, a, b, c] = [d, a, b, c].map(|regs| {
                    let names: Vec<String> = regs.iter().map(|&r| name(r).to_string()).collect();
                    braced_all(&names)
                });
                write!(self.out, "{d}, {a}, {b}, {c}")
            }
        }
    }

    fn ternary(&mut self, op: TernaryOp, ty: Ty, dst: Reg, [a, b, c]: [Operand; 3]) -> fmt::Result {
        let word = ty_name(ty);
        let (op, c_ty) = match op {
            TernaryOp::Fma => (format!("fma.rn.{word}"), ty),
            TernaryOp::MadLo => (format!("mad.lo.{word}"), ty),
            TernaryOp::MadWide => (format!("mad.wide.{word}"), if ty.is_signed() { Ty::S64 } else { Ty::U64 }),
            TernaryOp::Bfe => {
                let (b, c) = (spell(b, Ty::U32), spell(c, Ty::U32));
                return write!(self.out, "bfe.{word} {}, {}, {b}, {c}", name(dst), spell(a, ty));
            }
            TernaryOp::Prmt => ("prmt.b32".to_owned(), ty),
            TernaryOp::ShfL => ("shf.l.wrap.b32".to_owned(), ty),
            TernaryOp::Dp4a => (format!("dp4a.{word}.{word}"), ty),
        };
        write!(self.out, "{op} {}, {}, {}, {}", name(dst), spell(a, ty), spell(b, ty), spell(c, c_ty))
    }

    fn op(&mut self, words: fmt::Arguments<'_>, operands: &[Operand], ty: Ty) -> fmt::Result {
        write!(self.out, "{words}")?;
        for (index, &operand) in operands.iter().enumerate() {
            write!(self.out, "{} {}", if index > 0 { "," } else { "" }, spell(operand, ty))?;
        }
        Ok(())
    }

    fn param(&self, index: usize) -> String {
        format!("{}_param_{index}", self.kernel.symbol)
    }

    fn base(&self, base: Base) -> String {
        match base {
            Base::Reg(reg) => name(reg).to_string(),
            Base::Shared if self.kernel.shared_is_dynamic => DYNAMIC_SHARED.to_owned(),
            Base::Shared => format!("{}_shared", self.kernel.symbol),
            Base::Local => format!("{}_local", self.kernel.symbol),
            Base::Param(index) => self.param(index),
        }
    }

    fn address(&self, Address { base, offset }: Address) -> String {
        match (self.base(base), offset) {
            (base, 0) => format!("[{base}]"),
            (base, offset) => format!("[{base}+{offset}]"),
        }
    }
}

struct Name(Reg);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}{}", prefix(self.0.class), self.0.id)
    }
}

fn name(reg: Reg) -> Name {
    Name(reg)
}

fn prefix(class: Class) -> &'static str {
    match class {
        Class::Pred => "p",
        Class::B16 => "h",
        Class::B32 => "r",
        Class::B64 => "d",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Pred => "pred",
        Class::B16 => "b16",
        Class::B32 => "b32",
        Class::B64 => "b64",
    }
}

/// 4.5 constants.
fn spell(operand: Operand, ty: Ty) -> String {
    let bits = match operand {
        Operand::Reg(reg) => return name(reg).to_string(),
        Operand::Imm(bits) => bits,
    };
    match ty {
        Ty::Pred => if bits == 0 { "0" } else { "-1" }.to_owned(),
        Ty::F32 => format!("0f{bits:08X}"),
        Ty::F64 => format!("0d{bits:016X}"),
        Ty::S16 => (bits as u16 as i16).to_string(),
        Ty::S32 => (bits as u32 as i32).to_string(),
        Ty::S64 => (bits as i64).to_string(),
        Ty::F16 | Ty::F16x2 => format!("0x{bits:X}"),
        Ty::U8 | Ty::B16 | Ty::U16 | Ty::B32 | Ty::U32 | Ty::B64 | Ty::U64 => bits.to_string(),
    }
}

fn ty_name(ty: Ty) -> &'static str {
    match ty {
        Ty::Pred => "pred",
        Ty::U8 => "u8",
        Ty::B16 => "b16",
        Ty::U16 => "u16",
        Ty::S16 => "s16",
        Ty::F16 => "f16",
        Ty::F16x2 => "f16x2",
        Ty::B32 => "b32",
        Ty::U32 => "u32",
        Ty::S32 => "s32",
        Ty::F32 => "f32",
        Ty::B64 => "b64",
        Ty::U64 => "u64",
        Ty::S64 => "s64",
        Ty::F64 => "f64",
    }
}

/// Loads and stores move bits; bytes are zero-extended.
fn memory_ty(ty: Ty) -> &'static str {
    if ty == Ty::U8 { "u8" } else { ty_name(ty.bits()) }
}

fn vector_name(count: usize) -> &'static str {
    match count {
        4 => ".v4",
        2 => ".v2",
        _ => "",
    }
}

fn braced(items: &[String]) -> String {
    if let [single] = items { single.clone() } else { braced_all(items) }
}

fn braced_all(items: &[String]) -> String {
    format!("{{{}}}", items.join(", "))
}

fn special_name(special: Special) -> String {
    let axis = |i: usize| ["x", "y", "z"].get(i).copied().unwrap_or("x");
    match special {
        Special::Tid(i) => format!("%tid.{}", axis(i)),
        Special::Ctaid(i) => format!("%ctaid.{}", axis(i)),
        Special::Nctaid(i) => format!("%nctaid.{}", axis(i)),
        Special::LaneId => "%laneid".to_owned(),
        Special::LaneMaskLt => "%lanemask_lt".to_owned(),
        Special::LaneMaskLe => "%lanemask_le".to_owned(),
    }
}

fn unary_name(op: UnaryOp, ty: Ty) -> (&'static str, &'static str) {
    let typed = ty_name(ty);
    let bits = ty_name(ty.bits());
    match op {
        UnaryOp::Neg => ("neg", typed),
        UnaryOp::Abs => ("abs", typed),
        UnaryOp::Not => ("not", bits),
        UnaryOp::Popc => ("popc", bits),
        UnaryOp::Clz => ("clz", bits),
        UnaryOp::Brev => ("brev", bits),
        UnaryOp::Bfind => ("bfind", typed),
        UnaryOp::Sqrt => ("sqrt.rn", typed),
        UnaryOp::Rcp => ("rcp.rn", typed),
        UnaryOp::RcpApprox => ("rcp.approx", typed),
        UnaryOp::RsqrtApprox => ("rsqrt.approx", typed),
        UnaryOp::RsqrtApproxFtz => ("rsqrt.approx.ftz", typed),
        UnaryOp::Ex2Approx => ("ex2.approx", typed),
        UnaryOp::Ex2ApproxFtz => ("ex2.approx.ftz", typed),
        UnaryOp::Lg2Approx => ("lg2.approx", typed),
    }
}

fn binary_name(op: BinaryOp, ty: Ty) -> (&'static str, &'static str) {
    let typed = ty_name(ty);
    let bits = ty_name(ty.bits());
    let float = ty.is_float();
    match op {
        BinaryOp::Add => ("add", typed),
        BinaryOp::Sub => ("sub", typed),
        BinaryOp::Mul if float => ("mul", typed),
        BinaryOp::Mul => ("mul.lo", typed),
        BinaryOp::AddRn => ("add.rn", typed),
        BinaryOp::SubRn => ("sub.rn", typed),
        BinaryOp::MulRn => ("mul.rn", typed),
        BinaryOp::MulHi => ("mul.hi", typed),
        BinaryOp::MulWide => ("mul.wide", typed),
        BinaryOp::Div if float => ("div.rn", typed),
        BinaryOp::Div => ("div", typed),
        BinaryOp::Rem => ("rem", typed),
        BinaryOp::Min => ("min", typed),
        BinaryOp::Max => ("max", typed),
        BinaryOp::And => ("and", bits),
        BinaryOp::Or => ("or", bits),
        BinaryOp::Xor => ("xor", bits),
        BinaryOp::Shl => ("shl", bits),
        BinaryOp::Shr => ("shr", typed),
        BinaryOp::CopySign => ("copysign", typed),
    }
}

fn compare_name(cmp: Compare) -> &'static str {
    match cmp {
        Compare::Eq => "eq",
        Compare::Ne => "ne",
        Compare::Lt => "lt",
        Compare::Le => "le",
        Compare::Gt => "gt",
        Compare::Ge => "ge",
        Compare::Neu => "neu",
        Compare::Nan => "nan",
    }
}

fn round_name(round: Round) -> &'static str {
    match round {
        Round::None => "",
        Round::Rn => ".rn",
        Round::Rni => ".rni",
        Round::Rzi => ".rzi",
        Round::Rmi => ".rmi",
        Round::Rpi => ".rpi",
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global | Space::Constant => "global",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Param => "param",
    }
}

/// wmma knows no read-only path.
fn plain_space(space: Space) -> &'static str {
    match space {
        Space::Shared => ".shared",
        Space::Global | Space::Constant => ".global",
        Space::Local | Space::Param => "",
    }
}

fn scope_of(space: Space) -> &'static str {
    scope_name(if space == Space::Shared { Scope::Cta } else { Scope::Gpu })
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Cta => "cta",
        Scope::Gpu => "gpu",
    }
}

fn atom_name(op: AtomOp) -> &'static str {
    match op {
        AtomOp::Add => "add",
        AtomOp::And => "and",
        AtomOp::Or => "or",
        AtomOp::Xor => "xor",
        AtomOp::Min => "min",
        AtomOp::Max => "max",
        AtomOp::Exch => "exch",
        AtomOp::Cas => "cas",
    }
}

fn shfl_name(mode: ShflMode) -> &'static str {
    match mode {
        ShflMode::Up => "up",
        ShflMode::Down => "down",
        ShflMode::Bfly => "bfly",
        ShflMode::Idx => "idx",
    }
}

fn major_name(major: Major) -> &'static str {
    match major {
        Major::Row => "row",
        Major::Column => "col",
    }
}
