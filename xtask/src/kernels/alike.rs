//! The order in which kernels stand in an archive: each beside those whose code is most like its own, so that they compress together.
//!
//! Kernels for f16 and bf16, or with one stage more, differ in few instructions. Sketches tell what two have in common (Broder, "On the
//! resemblance and containment of documents", 1997). A sketch is the smallest hashes of a kernel's pairs of instructions. The part of them that
//! two kernels share is about the part of all pairs that they share.

use std::collections::BTreeSet;

/// Hashes of a sketch. With 128 of them archives are as small to a per cent.
const SKETCH: usize = 512;

/// Bytes of an instruction, and of what is hashed.
const INSTRUCTION: usize = 16;
const WINDOW: usize = 2 * INSTRUCTION;

/// An order of `kernels`, each the codes of one for all its targets. From the first one on follows the one that is most like its two
/// predecessors, of several the first.
pub fn order(kernels: &[&[Vec<u8>]]) -> Vec<usize> {
    let sketches: Vec<Vec<u64>> = kernels.iter().map(|codes| sketch(codes)).collect();
    let mut left: Vec<usize> = (0..kernels.len()).collect();
    let mut order: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let like = |i: usize, weight: usize| {
            let before = order.len().checked_sub(i).map(|at| &sketches[order[at]]);
            move |of: &[u64]| before.map_or(0, |before| weight * common(before, of))
        };
        let (last, before) = (like(1, 2), like(2, 1));
        let likeness = |&i: &usize| last(&sketches[i]) + before(&sketches[i]);
        // `max_by_key` would take the last of several.
        let best = (0..left.len()).rev().max_by_key(|&at| likeness(&left[at])).unwrap_or_default();
        order.push(left.remove(best));
    }
    order
}

/// The smallest hashes, ascending.
fn sketch(codes: &[Vec<u8>]) -> Vec<u64> {
    let windows = codes.iter().flat_map(|code| code.windows(WINDOW).step_by(INSTRUCTION));
    // Of its own, so that the order is the same with every version of the compiler.
    let hash = |window: &[u8]| {
        let words = window.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        words.fold(0, |hash: u64, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    };
    windows.map(hash).collect::<BTreeSet<u64>>().into_iter().take(SKETCH).collect()
}

/// How many numbers two ascending lists have in common.
fn common(a: &[u64], b: &[u64]) -> usize {
    let (mut a, mut b, mut count) = (a, b, 0);
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        count += usize::from(x == y);
        if x <= y {
            a = rest_a;
        }
        if y <= x {
            b = rest_b;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_stand_beside_those_that_they_are_like() {
        // Three kinds, in turns; of each kind every kernel has instructions of its own.
        let instruction = |kind: u32, number: u32| [kind, number, number * kind, 7].map(u32::to_le_bytes).concat();
        let kernel = |kind: u32, own: u32| {
            let code: Vec<u8> =
                (0..400).flat_map(|i| instruction(kind, if i % 40 == own { 1000 + own } else { i })).collect();
            vec![code, Vec::new()]
        };
        let kernels: Vec<Vec<Vec<u8>>> = (0..12).map(|i| kernel(i % 3 + 1, i / 3)).collect();
        let kinds: Vec<usize> =
            order(&kernels.iter().map(Vec::as_slice).collect::<Vec<_>>()).into_iter().map(|i| i % 3).collect();
        assert_eq!(kinds.iter().zip(&kinds[1..]).filter(|(a, b)| a != b).count(), 2, "{kinds:?}");
        assert_eq!(kinds[0], 0);
    }

    #[test]
    fn every_kernel_stands_once_whatever_its_code() {
        let kernels: Vec<Vec<Vec<u8>>> = (0..5u8).map(|i| vec![vec![i; usize::from(i) * 20]]).collect();
        let mut order = order(&kernels.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(order[0], 0);
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3, 4]);
        assert!(super::order(&[]).is_empty());
    }

    #[test]
    fn common_numbers_are_counted() {
        assert_eq!(common(&[1, 3, 5], &[1, 2, 5, 9]), 2);
        assert_eq!(common(&[], &[1]), 0);
    }
}
