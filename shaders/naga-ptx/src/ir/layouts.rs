//! The layouts that the factors of a `wmma` product were loaded with, which its instruction must name.
//!
//! A matrix may reach its product through variables, calls and loops, and in a loop the load may be written after the
//! product. So this is found when all is written: layouts flow from loads through moves, selections and sums until
//! nothing changes. A matrix that was never loaded has equal elements and fits any layout.

use std::collections::HashMap;

use super::{Class, Fragment, Inst, Line, Major, Operand, Reg};

/// How what a register holds was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    One(Major),
    /// By rows on one way, by columns on another.
    Both,
}

/// Names the layouts in the products of `blocks`. An error is the first register of the result of a product that no
/// layout would be right for.
pub(super) fn settle(blocks: &mut [&mut Vec<Line>]) -> Result<(), Reg> {
    let lines = || blocks.iter().flat_map(|lines| lines.iter());
    if !lines().any(|line| matches!(line.inst, Inst::WmmaMma { .. })) {
        return Ok(());
    }
    let mut layouts = HashMap::new();
    for line in lines() {
        if let Inst::WmmaLoad { fragment: Fragment::A | Fragment::B, major, dst, .. } = &line.inst {
            for &reg in dst {
                meet(&mut layouts, reg, Layout::One(*major));
            }
        }
    }
    let moves: Vec<(Reg, [Operand; 2])> = lines().filter_map(|line| moved(&line.inst)).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for &(to, from) in &moves {
            for operand in from {
                let Operand::Reg(reg) = operand else { continue };
                if let Some(&layout) = layouts.get(&reg) {
                    changed |= meet(&mut layouts, to, layout);
                }
            }
        }
    }
    for line in blocks.iter_mut().flat_map(|lines| lines.iter_mut()) {
        let Inst::WmmaMma { ab_major, d, a, b, .. } = &mut line.inst else { continue };
        let Some(&product) = d.first() else { continue };
        for (named, factor) in ab_major.iter_mut().zip([&*a, &*b]) {
            match factor.first().and_then(|reg| layouts.get(reg)) {
                None => {}
                Some(Layout::One(major)) => *named = *major,
                Some(Layout::Both) => return Err(product),
            }
        }
    }
    Ok(())
}

/// Adds that `reg` may hold what was loaded as `layout`; whether that is new.
fn meet(layouts: &mut HashMap<Reg, Layout>, reg: Reg, layout: Layout) -> bool {
    let before = layouts.get(&reg).copied();
    let after = if before.is_some_and(|known| known != layout) { Layout::Both } else { layout };
    layouts.insert(reg, after);
    before != Some(after)
}

/// Where an instruction puts the elements of a matrix, and where it has them from.
fn moved(inst: &Inst) -> Option<(Reg, [Operand; 2])> {
    match *inst {
        Inst::Mov { dst, src, .. } if dst.class == Class::B32 => Some((dst, [src, src])),
        Inst::Selp { dst, a, b, .. } | Inst::Binary { dst, a, b, .. } if dst.class == Class::B32 => Some((dst, [a, b])),
        _ => None,
    }
}
