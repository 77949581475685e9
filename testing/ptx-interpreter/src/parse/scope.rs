//! The body of one kernel while it is read: names, rows of the register file, labels.

use std::collections::HashMap;

use super::{Level, Result};
use crate::error::{ParseError, ParseErrorKind};
use crate::flow;
use crate::inst::{Address, Class, Guard, Inst, NONE, Op, Slot, Ty};
use crate::kernel::{PARAM_BASE, Special};

/// An operand as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand<'a> {
    Name(&'a str),
    Int {
        bits: u64,
        negative: bool,
    },
    F32(u32),
    F64(u64),
    List(Vec<Operand<'a>>),
    Address(Box<Operand<'a>>, i64),
    /// `[map, {x, y}]`
    Tensor(Box<Operand<'a>>, Vec<Operand<'a>>),
    /// `a|b`
    Pair(&'a str, &'a str),
    /// `!p`
    Not(&'a str),
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol {
    Register(Class, Slot),
    /// A variable in shared, local or constant memory.
    Address(u64),
    Param(u32),
    /// The dynamically sized shared array.
    Dynamic,
}

/// What a kernel's body becomes.
pub(super) struct Body {
    pub(super) rows: [u32; 4],
    pub(super) immediates: Vec<(Class, Slot, u64)>,
    pub(super) specials: Vec<(Special, Slot)>,
    pub(super) code: Vec<Inst>,
    pub(super) uses_nc: bool,
    pub(super) uses_async: bool,
}

pub(super) struct Scope<'a> {
    pub(super) level: Level,
    /// The innermost of the open braces, and all that there ever were; the body itself is the first.
    open: usize,
    braces: Vec<Braces<'a>>,
    /// Branches whose label may come later: instruction, label, the braces they are in.
    branches: Vec<(usize, &'a str, usize)>,
    rows: [u32; 4],
    immediates: HashMap<(Class, u64), Slot>,
    specials: HashMap<Special, Slot>,
    dynamic: Option<Slot>,
    code: Vec<Inst>,
    pub(super) uses_nc: bool,
    pub(super) uses_async: bool,
}

/// What is declared between two braces: it is known there and further in.
#[derive(Default)]
struct Braces<'a> {
    outer: Option<usize>,
    names: HashMap<&'a str, Symbol>,
    ranges: HashMap<&'a str, (Class, Slot, u32)>,
    labels: HashMap<&'a str, u32>,
}

fn name_error(line: u32, name: &str) -> ParseError {
    ParseError { line, kind: ParseErrorKind::Name(name.to_owned()) }
}

pub(super) fn operand_error(line: u32, message: impl Into<String>) -> ParseError {
    ParseError { line, kind: ParseErrorKind::Operand(message.into()) }
}

impl<'a> Scope<'a> {
    pub(super) fn new(level: Level) -> Scope<'a> {
        Scope {
            level,
            open: 0,
            braces: vec![Braces::default()],
            branches: Vec::new(),
            rows: [0; 4],
            immediates: HashMap::new(),
            specials: HashMap::new(),
            dynamic: None,
            code: Vec::new(),
            uses_nc: false,
            uses_async: false,
        }
    }

    pub(super) fn open_braces(&mut self) {
        self.braces.push(Braces { outer: Some(self.open), ..Braces::default() });
        self.open = self.braces.len() - 1;
    }

    /// False when they were the body's own.
    pub(super) fn close_braces(&mut self) -> bool {
        let outer = self.braces[self.open].outer;
        self.open = outer.unwrap_or(0);
        outer.is_some()
    }

    /// The braces `from` and those around them, the innermost first.
    fn around(&self, from: usize) -> impl Iterator<Item = &Braces<'a>> {
        std::iter::successors(Some(&self.braces[from]), |braces| braces.outer.map(|outer| &self.braces[outer]))
    }

    pub(super) fn uses_dynamic(&self) -> bool {
        self.dynamic.is_some()
    }

    pub(super) fn declare(&mut self, name: &'a str, symbol: Symbol, line: u32) -> Result<()> {
        match self.braces[self.open].names.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(name_error(line, name)),
        }
    }

    fn new_row(&mut self, class: Class) -> Slot {
        let count = &mut self.rows[class as usize];
        *count += 1;
        *count - 1
    }

    pub(super) fn declare_register(&mut self, name: &'a str, class: Class, line: u32) -> Result<()> {
        let slot = self.new_row(class);
        self.declare(name, Symbol::Register(class, slot), line)
    }

    pub(super) fn declare_range(&mut self, prefix: &'a str, class: Class, count: u32, line: u32) -> Result<()> {
        let first = self.rows[class as usize];
        let end = first.checked_add(count).filter(|&end| end < 1 << 22);
        self.rows[class as usize] = end.ok_or_else(|| operand_error(line, "too many registers"))?;
        match self.braces[self.open].ranges.insert(prefix, (class, first, count)) {
            None => Ok(()),
            Some(_) => Err(name_error(line, prefix)),
        }
    }

    pub(super) fn label(&mut self, name: &'a str, line: u32) -> Result<()> {
        let here = self.code.len() as u32;
        match self.braces[self.open].labels.insert(name, here) {
            None => Ok(()),
            Some(_) => Err(name_error(line, name)),
        }
    }

    fn symbol(&self, name: &str, line: u32) -> Result<Symbol> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let number: Option<u32> = number.parse().ok();
        let known = |braces: &Braces<'a>| {
            braces.names.get(name).copied().or_else(|| {
                let &(class, first, count) = braces.ranges.get(prefix)?;
                let n = number.filter(|&n| n < count)?;
                Some(Symbol::Register(class, first + n))
            })
        };
        self.around(self.open).find_map(known).ok_or_else(|| name_error(line, name))
    }

    pub(super) fn immediate(&mut self, class: Class, bits: u64) -> Slot {
        if let Some(&slot) = self.immediates.get(&(class, bits)) {
            return slot;
        }
        let slot = self.new_row(class);
        self.immediates.insert((class, bits), slot);
        slot
    }

    fn dynamic_base(&mut self) -> Slot {
        match self.dynamic {
            Some(slot) => slot,
            None => {
                let slot = self.new_row(Class::Word);
                self.dynamic = Some(slot);
                slot
            }
        }
    }

    /// A register of any class.
    pub(super) fn register(&self, name: &str, line: u32) -> Result<(Class, Slot)> {
        match self.symbol(name, line)? {
            Symbol::Register(class, slot) => Ok((class, slot)),
            _ => Err(operand_error(line, format!("`{name}` is not a register"))),
        }
    }

    /// A register of `class`.
    pub(super) fn register_of(&self, class: Class, name: &str, line: u32) -> Result<Slot> {
        match self.register(name, line)? {
            (found, slot) if found == class => Ok(slot),
            (found, _) => {
                let (found, wanted) = (found.bits(), class.bits());
                Err(operand_error(line, format!("`{name}` has {found} bits, the instruction works on {wanted}")))
            }
        }
    }

    /// A source of type `ty`: a register of its width or a constant.
    pub(super) fn source(&mut self, ty: Ty, operand: &Operand<'a>, line: u32) -> Result<Slot> {
        let class = ty.class();
        match *operand {
            Operand::Name("WARP_SZ") if class == Class::Word => Ok(self.immediate(class, 32)),
            Operand::Name(name) => self.register_of(class, name, line),
            Operand::Int { bits, negative } => {
                if ty.is_float() {
                    return Err(operand_error(line, "an integer constant where a float is needed"));
                }
                let width = class.bits();
                let mask = u64::MAX >> (64 - width);
                let fits = bits & !mask == 0 || (negative && bits | (mask >> 1) == u64::MAX);
                let bits = if class == Class::Pred { u64::from(bits != 0) } else { bits };
                if class != Class::Pred && !fits {
                    return Err(operand_error(line, format!("{} does not fit into {width} bits", bits as i64)));
                }
                Ok(self.immediate(class, bits & mask))
            }
            Operand::F32(bits) if matches!(ty, Ty::F32 | Ty::B32) => Ok(self.immediate(class, u64::from(bits))),
            Operand::F64(bits) if matches!(ty, Ty::F64 | Ty::B64) => Ok(self.immediate(class, bits)),
            Operand::F64(bits) if ty == Ty::F32 => {
                Ok(self.immediate(class, u64::from((f64::from_bits(bits) as f32).to_bits())))
            }
            _ => Err(operand_error(line, format!("{operand:?} is not a value of {} bits", class.bits()))),
        }
    }

    /// The row of a special register.
    pub(super) fn special(&mut self, name: &str) -> Option<Slot> {
        let axis = |text: &str| match text {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let special = match name.split_once('.') {
            Some(("%tid", a)) => Special::Tid(axis(a)?),
            Some(("%ntid", a)) => Special::Ntid(axis(a)?),
            Some(("%ctaid", a)) => Special::Ctaid(axis(a)?),
            Some(("%nctaid", a)) => Special::Nctaid(axis(a)?),
            Some(("%clusterid", a)) => Special::ClusterId(axis(a)?),
            Some(("%nclusterid", a)) => Special::NClusterId(axis(a)?),
            Some(("%cluster_ctaid", a)) => Special::ClusterCtaid(axis(a)?),
            Some(("%cluster_nctaid", a)) => Special::ClusterNctaid(axis(a)?),
            Some(_) => return None,
            None => match name {
                "%laneid" => Special::LaneId,
                "%warpid" => Special::WarpId,
                "%nwarpid" => Special::NWarpId,
                "%lanemask_eq" => Special::LaneMaskEq,
                "%lanemask_le" => Special::LaneMaskLe,
                "%lanemask_lt" => Special::LaneMaskLt,
                "%lanemask_ge" => Special::LaneMaskGe,
                "%lanemask_gt" => Special::LaneMaskGt,
                "%cluster_ctarank" => Special::ClusterRank,
                "%cluster_nctarank" => Special::ClusterSize,
                "%dynamic_smem_size" => Special::DynamicSharedBytes,
                _ => return None,
            },
        };
        if let Some(&slot) = self.specials.get(&special) {
            return Some(slot);
        }
        let slot = self.new_row(Class::Word);
        self.specials.insert(special, slot);
        Some(slot)
    }

    /// The address of a variable as a value; `None` when the name is no variable.
    pub(super) fn variable_address(&mut self, class: Class, name: &str, line: u32) -> Result<Option<Slot>> {
        match self.symbol(name, line)? {
            Symbol::Address(address) => Ok(Some(self.immediate(class, address))),
            Symbol::Dynamic if class == Class::Word => Ok(Some(self.dynamic_base())),
            Symbol::Dynamic => Err(operand_error(line, "the dynamic array's address is taken in 32 bits")),
            Symbol::Param(at) if class == Class::Double => Ok(Some(self.immediate(class, PARAM_BASE + u64::from(at)))),
            Symbol::Param(_) => Err(operand_error(line, "the address of a parameter is taken in 64 bits")),
            Symbol::Register(..) => Ok(None),
        }
    }

    /// `[base+offset]`; in parameter space the base is a parameter, or a register with the address of one.
    pub(super) fn address(&mut self, param: bool, operand: &Operand<'a>, line: u32) -> Result<Address> {
        let Operand::Address(base, offset) = operand else {
            return Err(operand_error(line, format!("expected an address, found {operand:?}")));
        };
        let offset = *offset as u64;
        let Operand::Name(name) = **base else {
            return Err(operand_error(line, "absolute addresses are not supported"));
        };
        let symbol = self.symbol(name, line)?;
        match symbol {
            Symbol::Param(start) if param => {
                Ok(Address { base: NONE, wide: true, offset: (PARAM_BASE + u64::from(start)).wrapping_add(offset) })
            }
            Symbol::Register(Class::Double, base) if param => Ok(Address { base, wide: true, offset }),
            _ if param => Err(operand_error(line, format!("`{name}` is not a parameter"))),
            Symbol::Register(Class::Double, base) => Ok(Address { base, wide: true, offset }),
            Symbol::Register(Class::Word, base) => Ok(Address { base, wide: false, offset }),
            Symbol::Address(at) => Ok(Address { base: NONE, wide: true, offset: at.wrapping_add(offset) }),
            Symbol::Dynamic => Ok(Address { base: self.dynamic_base(), wide: false, offset }),
            _ => Err(operand_error(line, format!("`{name}` cannot be the base of an address"))),
        }
    }

    pub(super) fn branch(&mut self, label: &'a str) {
        self.branches.push((self.code.len(), label, self.open));
    }

    pub(super) fn push(&mut self, guard: Option<Guard>, op: Op, line: u32) {
        self.code.push(Inst { guard, op, line });
    }

    pub(super) fn finish(mut self, line: u32) -> Result<Body> {
        if !matches!(self.code.last(), Some(Inst { guard: None, op: Op::Exit | Op::Trap | Op::Bra { .. }, .. })) {
            // PTX lets a body end without `ret`.
            self.push(None, Op::Exit, line);
        }
        for (at, label, braces) in std::mem::take(&mut self.branches) {
            let target = self.around(braces).find_map(|braces| braces.labels.get(label).copied());
            let target = target.ok_or_else(|| name_error(self.code[at].line, label))?;
            self.code[at].op = Op::Bra { target, join: NONE };
        }
        let mut labels = self.braces.iter().flat_map(|braces| braces.labels.values());
        if labels.any(|&at| at as usize >= self.code.len()) {
            self.push(None, Op::Exit, line);
        }
        let dynamic = self.dynamic.map(|slot| (Special::DynamicShared, slot));
        Ok(Body {
            rows: self.rows,
            immediates: self.immediates.iter().map(|(&(class, bits), &slot)| (class, slot, bits)).collect(),
            specials: self.specials.into_iter().chain(dynamic).collect(),
            code: flow::with_joins(self.code),
            uses_nc: self.uses_nc,
            uses_async: self.uses_async,
        })
    }
}
