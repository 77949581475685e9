//! Straight lines of blocks become one: what is written where a call ends or a loop was written out is one block again.

use super::{Block, Terminator};

/// Appends each block to the one that jumps to it, where nobody else does.
pub(super) fn join(blocks: Vec<Block>) -> Vec<Block> {
    let count = blocks.iter().map(|block| block.id.0 as usize + 1).max().unwrap_or(0);
    let mut arrivals = vec![0_u32; count];
    let mut by_id: Vec<Option<usize>> = vec![None; count];
    for (index, block) in blocks.iter().enumerate() {
        by_id[block.id.0 as usize] = Some(index);
    }
    // Only what can be reached arrives anywhere.
    let mut seen = vec![false; blocks.len()];
    let mut open = vec![0_usize];
    while let Some(index) = open.pop() {
        if index >= blocks.len() || std::mem::replace(&mut seen[index], true) {
            continue;
        }
        let targets = match blocks[index].terminator {
            Terminator::Jump(to) => vec![to],
            Terminator::Branch { accept, reject, .. } => vec![accept, reject],
            Terminator::Return => vec![],
        };
        for to in targets {
            arrivals[to.0 as usize] += 1;
            open.extend(by_id[to.0 as usize]);
        }
    }
    let mut rest: Vec<Option<Block>> =
        blocks.into_iter().zip(seen).map(|(block, seen)| seen.then_some(block)).collect();
    let mut joined = Vec::new();
    for index in 0..rest.len() {
        let Some(mut block) = rest[index].take() else { continue };
        while let Terminator::Jump(to) = block.terminator {
            let follower = by_id[to.0 as usize].filter(|_| arrivals[to.0 as usize] == 1 && to.0 != 0);
            let Some(next) = follower.and_then(|index| rest[index].take()) else { break };
            block.lines.extend(next.lines);
            block.terminator = next.terminator;
        }
        joined.push(block);
    }
    joined
}
