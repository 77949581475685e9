//! Where the lanes of a warp meet again after a branch.
//!
//! The place is the branch's immediate post-dominator, as assemblers choose it, with one refinement they make as well:
//! a path that ends in `ret` does not count, because its lanes are gone (an early return inside an `if` does not keep
//! the others apart). Lanes that wait for each other in a block that only returns would gain nothing, so no one waits
//! there.

use crate::inst::{Inst, NONE, Op};

/// Inserts [`Op::Join`] in front of every block where branches meet, and tells each branch its own.
pub(crate) fn with_joins(mut code: Vec<Inst>) -> Vec<Inst> {
    let graph = Graph::new(&code);
    let meet = graph.meeting_blocks(&code);
    // Joins move what follows them.
    let mut is_join = vec![false; graph.starts.len()];
    meet.iter().flatten().for_each(|&block| is_join[block] = true);
    let mut moved = vec![0; code.len() + 1];
    let mut shift = 0;
    for (at, new) in moved.iter_mut().enumerate() {
        *new = at as u32 + shift;
        if at < code.len() && graph.starts[graph.block_of[at]] == at && is_join[graph.block_of[at]] {
            shift += 1;
        }
    }
    let mut out = Vec::with_capacity(code.len() + shift as usize);
    for (at, mut inst) in code.drain(..).enumerate() {
        let block = graph.block_of[at];
        if graph.starts[block] == at && is_join[block] {
            out.push(Inst { guard: None, op: Op::Join, line: inst.line });
        }
        if let Op::Bra { target, join } = &mut inst.op {
            *join = meet[block].map_or(NONE, |m| moved[graph.starts[m]]);
            *target = moved[*target as usize];
        }
        out.push(inst);
    }
    out
}

struct Graph {
    /// First instruction of each block.
    starts: Vec<usize>,
    block_of: Vec<usize>,
    /// Blocks that may follow; whether by an explicit branch.
    next: Vec<Vec<(usize, bool)>>,
}

impl Graph {
    fn new(code: &[Inst]) -> Graph {
        let mut leader = vec![false; code.len() + 1];
        leader[0] = true;
        for (at, inst) in code.iter().enumerate() {
            match inst.op {
                Op::Bra { target, .. } => {
                    leader[target as usize] = true;
                    leader[at + 1] = true;
                }
                Op::Exit | Op::Trap => leader[at + 1] = true,
                _ => {}
            }
        }
        let mut starts = Vec::new();
        let mut block_of = Vec::with_capacity(code.len());
        for (at, &leads) in leader.iter().take(code.len()).enumerate() {
            if leads {
                starts.push(at);
            }
            block_of.push(starts.len() - 1);
        }
        let mut next = vec![Vec::new(); starts.len()];
        for (block, next) in next.iter_mut().enumerate() {
            let end = starts.get(block + 1).copied().unwrap_or(code.len());
            let last = &code[end - 1];
            let falls = match last.op {
                Op::Bra { target, .. } => {
                    next.push((block_of[target as usize], true));
                    last.guard.is_some()
                }
                Op::Exit | Op::Trap => last.guard.is_some(),
                _ => true,
            };
            if falls && block + 1 < starts.len() {
                next.push((block + 1, false));
            }
        }
        Graph { starts, block_of, next }
    }

    fn only_returns(&self, code: &[Inst], block: usize) -> bool {
        let first = &code[self.starts[block]];
        first.guard.is_none() && matches!(first.op, Op::Exit | Op::Trap)
    }

    /// For each block that ends in a conditional branch, the block where its paths meet.
    fn meeting_blocks(&self, code: &[Inst]) -> Vec<Option<usize>> {
        let count = self.starts.len();
        let ends = |block: usize| self.next[block].is_empty();
        // First with one way out, the end of the text; then, for blocks that do not lead there, with all.
        let last = count - 1;
        let one = self
            .post_dominators(|block| block == last && ends(block), |to, jump| !(jump && self.only_returns(code, to)));
        let all = self.post_dominators(ends, |_, _| true);
        (0..count)
            .map(|block| {
                if self.next[block].len() < 2 {
                    return None;
                }
                one[block].or(all[block]).filter(|&meet| !self.only_returns(code, meet))
            })
            .collect()
    }

    /// Immediate post-dominators (Cooper, Harvey and Kennedy's iteration, on the reversed graph); `None` where that is
    /// the virtual exit, or where no exit can be reached.
    fn post_dominators(
        &self,
        is_exit: impl Fn(usize) -> bool,
        follows: impl Fn(usize, bool) -> bool,
    ) -> Vec<Option<usize>> {
        let count = self.starts.len();
        let exit = count;
        let mut before = vec![Vec::new(); count + 1];
        let mut after = vec![Vec::new(); count];
        for (block, after) in after.iter_mut().enumerate() {
            for &(to, jump) in &self.next[block] {
                if follows(to, jump) {
                    before[to].push(block);
                    after.push(to);
                }
            }
            if is_exit(block) {
                before[exit].push(block);
                after.push(exit);
            }
        }
        // Post-order of the reversed graph from the exit.
        let mut order = Vec::new();
        let mut seen = vec![false; count + 1];
        let mut stack = vec![(exit, 0)];
        seen[exit] = true;
        while let Some((node, at)) = stack.last_mut() {
            if let Some(&to) = before[*node].get(*at) {
                *at += 1;
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, 0));
                }
            } else {
                order.push(*node);
                stack.pop();
            }
        }
        let mut rank = vec![usize::MAX; count + 1];
        order.iter().enumerate().for_each(|(at, &node)| rank[node] = at);
        let mut parent: Vec<Option<usize>> = vec![None; count + 1];
        parent[exit] = Some(exit);
        loop {
            let mut changed = false;
            for &node in order.iter().rev().skip(1) {
                let mut best: Option<usize> = None;
                for &to in after[node].iter().filter(|&&to| parent[to].is_some()) {
                    best = Some(match best {
                        None => to,
                        Some(mut other) => {
                            let mut to = to;
                            while to != other {
                                let lower = if rank[to] < rank[other] { &mut to } else { &mut other };
                                let Some(up) = parent[*lower] else { break };
                                *lower = up;
                            }
                            to
                        }
                    });
                }
                if best.is_some() && parent[node] != best {
                    parent[node] = best;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        parent.truncate(count);
        parent.into_iter().map(|p| p.filter(|&p| p != exit)).collect()
    }
}
