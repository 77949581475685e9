//! Loads and stores of neighbours become one access of 8 or 16 bytes.
//!
//! Within a block, scalar loads from one base register at offsets side by side are gathered at the first of them,
//! provided that nothing between may write that memory; scalar stores likewise at the last of them, provided that
//! nothing between may read or write it. No store moves past another one to the same bytes: of two, the later one stays. The address of the group must be a multiple of its size, which the builder
//! knows of bases (PTX ISA 5.4.2: vector accesses must be aligned to their whole size).

use std::collections::HashMap;

use super::{Address, Base, Inst, Line, Reg, Space};

/// Lines that are looked at from one access: shaders that are written out would take quadratic time otherwise.
const WINDOW: usize = 96;

pub(super) fn vectorise(lines: &mut Vec<Line>, alignments: &HashMap<Reg, u32>) {
    let mut gone = vec![false; lines.len()];
    for at in 0..lines.len() {
        if !gone[at] {
            gather_loads(lines, &mut gone, at, alignments);
        }
    }
    for at in (0..lines.len()).rev() {
        if !gone[at] {
            gather_stores(lines, &mut gone, at, alignments);
        }
    }
    let mut gone = gone.into_iter();
    lines.retain(|_| !gone.next().unwrap_or(false));
}

/// A scalar access: space, address and width.
fn scalar(line: &Line) -> Option<(Space, Address, u32)> {
    match &line.inst {
        _ if line.guard.is_some() => None,
        Inst::Load { space, ty, dst, address, volatile: false } if dst.len() == 1 => {
            Some((*space, *address, ty.bytes()))
        }
        Inst::Store { space, ty, src, address, volatile: false } if src.len() == 1 => {
            Some((*space, *address, ty.bytes()))
        }
        _ => None,
    }
}

fn base_alignment(base: Base, alignments: &HashMap<Reg, u32>) -> u32 {
    match base {
        Base::Reg(reg) => alignments.get(&reg).copied().unwrap_or(1),
        Base::Shared | Base::Local | Base::Param(_) => 16,
    }
}

/// The neighbours of the access at `first`, in order of address: the largest group of 4 or 2 that it is part of.
fn group(members: &HashMap<i64, usize>, offset: i64, bytes: u32, alignment: u32) -> Option<Vec<usize>> {
    [4_i64, 2].into_iter().find_map(|count| {
        let size = count * i64::from(bytes);
        if size > 16 || i64::from(alignment) < size || bytes == 1 {
            return None;
        }
        let start = offset.div_euclid(size) * size;
        (0..count).map(|i| members.get(&(start + i * i64::from(bytes))).copied()).collect()
    })
}

fn gather_loads(lines: &mut [Line], gone: &mut [bool], at: usize, alignments: &HashMap<Reg, u32>) {
    let Inst::Load { ty, .. } = lines[at].inst else { return };
    let Some((space, address, bytes)) = scalar(&lines[at]) else { return };
    let mut members = HashMap::from([(address.offset, at)]);
    for (next, line) in lines.iter().enumerate().skip(at + 1).take(WINDOW) {
        if gone[next] {
            continue;
        }
        if may_write(&line.inst, space) || writes_base(&line.inst, address.base) {
            break;
        }
        if let (Inst::Load { ty: other, .. }, Some((s, a, _))) = (&line.inst, scalar(line))
            && s == space
            && *other == ty
            && a.base == address.base
        {
            members.entry(a.offset).or_insert(next);
        }
    }
    let Some(group) = group(&members, address.offset, bytes, base_alignment(address.base, alignments)) else { return };
    let first_offset = scalar(&lines[group[0]]).map_or(address.offset, |(_, a, _)| a.offset);
    let mut all = Vec::with_capacity(group.len());
    for &member in &group {
        if let Inst::Load { dst, .. } = &lines[member].inst {
            all.extend_from_slice(dst);
        }
        gone[member] = member != at;
    }
    let address = Address { offset: first_offset, ..address };
    lines[at].inst = Inst::Load { space, ty, dst: all, address, volatile: false };
}

fn gather_stores(lines: &mut [Line], gone: &mut [bool], at: usize, alignments: &HashMap<Reg, u32>) {
    let Inst::Store { ty, .. } = lines[at].inst else { return };
    let Some((space, address, bytes)) = scalar(&lines[at]) else { return };
    let mut members = HashMap::from([(address.offset, at)]);
    let mut written = Vec::new();
    for next in (at.saturating_sub(WINDOW)..at).rev() {
        if gone[next] {
            continue;
        }
        let line = &lines[next];
        match (&line.inst, scalar(line)) {
            (Inst::Store { ty: other, src, .. }, Some((s, a, _))) if s == space && a.base == address.base => {
                // A store of another type, or to bytes that a later one writes, must keep its turn; so must one whose
                // value changes.
                let changed =
                    src.iter().any(|operand| matches!(operand, super::Operand::Reg(reg) if written.contains(reg)));
                let overwritten = members.keys().any(|&later| later.abs_diff(a.offset) < u64::from(bytes));
                if *other != ty || changed || overwritten {
                    break;
                }
                members.insert(a.offset, next);
            }
            (inst, _) => {
                if touches(inst, space) || writes_base(inst, address.base) {
                    break;
                }
                written.extend(destinations(inst));
            }
        }
    }
    let Some(group) = group(&members, address.offset, bytes, base_alignment(address.base, alignments)) else { return };
    let first_offset = scalar(&lines[group[0]]).map_or(address.offset, |(_, a, _)| a.offset);
    let mut all = Vec::with_capacity(group.len());
    for &member in &group {
        if let Inst::Store { src, .. } = &lines[member].inst {
            all.extend_from_slice(src);
        }
        gone[member] = member != at;
    }
    let address = Address { offset: first_offset, ..address };
    lines[at].inst = Inst::Store { space, ty, src: all, address, volatile: false };
}

/// Whether memory of `space` may be different after `inst`, or be ordered by it.
fn may_write(inst: &Inst, space: Space) -> bool {
    // Nobody writes memory that is only read, and parameters.
    !matches!(space, Space::Constant | Space::Param) && touches(inst, space) && !matches!(inst, Inst::Load { .. })
}

/// Whether `inst` accesses or orders memory of `space`.
fn touches(inst: &Inst, space: Space) -> bool {
    match inst {
        Inst::Load { space: other, volatile, .. } | Inst::Store { space: other, volatile, .. } => {
            *volatile || *other == space
        }
        Inst::Mov { .. }
        | Inst::MovBase { .. }
        | Inst::Special { .. }
        | Inst::Unary { .. }
        | Inst::Binary { .. }
        | Inst::Ternary { .. }
        | Inst::Bfi { .. }
        | Inst::Setp { .. }
        | Inst::Selp { .. }
        | Inst::Cvt { .. }
        | Inst::Pack { .. }
        | Inst::Unpack { .. } => false,
        // Atomics, barriers, what lanes do together: nothing is moved across them.
        Inst::Atom { .. }
        | Inst::Red { .. }
        | Inst::AtomicLoad { .. }
        | Inst::AtomicStore { .. }
        | Inst::Barrier
        | Inst::WarpBarrier { .. }
        | Inst::Fence { .. }
        | Inst::ActiveMask { .. }
        | Inst::Shfl { .. }
        | Inst::Vote { .. }
        | Inst::Ballot { .. }
        | Inst::Redux { .. }
        | Inst::WmmaLoad { .. }
        | Inst::WmmaStore { .. }
        | Inst::WmmaMma { .. } => true,
    }
}

fn writes_base(inst: &Inst, base: Base) -> bool {
    matches!(base, Base::Reg(reg) if destinations(inst).contains(&reg))
}

/// Registers that a plain instruction writes.
fn destinations(inst: &Inst) -> Vec<Reg> {
    match inst {
        Inst::Mov { dst, .. }
        | Inst::MovBase { dst, .. }
        | Inst::Special { dst, .. }
        | Inst::Unary { dst, .. }
        | Inst::Binary { dst, .. }
        | Inst::Ternary { dst, .. }
        | Inst::Bfi { dst, .. }
        | Inst::Setp { dst, .. }
        | Inst::Selp { dst, .. }
        | Inst::Cvt { dst, .. }
        | Inst::Pack { dst, .. } => vec![*dst],
        Inst::Unpack { low, high, .. } => vec![*low, *high],
        Inst::Load { dst, .. } => dst.clone(),
        // Those that `touches` keeps everything before or after.
        Inst::Store { .. }
        | Inst::Atom { .. }
        | Inst::Red { .. }
        | Inst::AtomicLoad { .. }
        | Inst::AtomicStore { .. }
        | Inst::Barrier
        | Inst::WarpBarrier { .. }
        | Inst::Fence { .. }
        | Inst::ActiveMask { .. }
        | Inst::Shfl { .. }
        | Inst::Vote { .. }
        | Inst::Ballot { .. }
        | Inst::Redux { .. }
        | Inst::WmmaLoad { .. }
        | Inst::WmmaStore { .. }
        | Inst::WmmaMma { .. } => Vec::new(),
    }
}
