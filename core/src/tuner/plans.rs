//! Plans of operations that were planned before: what makes an operation cost a look-up and no planning.
//!
//! An operation is found by its hash, then compared in full, so a collision costs a new plan and nothing else. The cache forgets
//! everything when it is full, and an entry when the tuner has learnt something since ([`super::Tuner::generation`]).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::Op;

/// Ops remembered; a training step has some hundred.
const MOST_PLANS: usize = 4096;

/// Chosen plans `T`, by op.
#[derive(Debug)]
pub(super) struct Plans<T> {
    known: RwLock<HashMap<u64, Known<T>, BuildHasherDefault<Plain>>>,
}

#[derive(Debug)]
struct Known<T> {
    op: Op,
    generation: u64,
    plan: Arc<T>,
}

impl<T> Default for Plans<T> {
    fn default() -> Plans<T> {
        Plans { known: RwLock::default() }
    }
}

impl<T> Plans<T> {
    /// What was chosen for `op`.
    pub(super) fn get(&self, op: &Op, generation: u64) -> Option<Arc<T>> {
        let hash = fingerprint(op);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&hash).filter(|known| known.generation == generation && known.op == *op)?;
        Some(Arc::clone(&found.plan))
    }

    /// Remembers what was chosen; of two ops with one hash the later stays.
    pub(super) fn put(&self, op: &Op, generation: u64, plan: &Arc<T>) {
        let hash = fingerprint(op);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_PLANS {
            known.clear();
        }
        known.insert(hash, Known { op: op.clone(), generation, plan: Arc::clone(plan) });
    }
}

/// The operation's own hash, by a function fast enough for the hundred or two words that one has.
fn fingerprint(op: &Op) -> u64 {
    let mut words = Words(0);
    op.hash(&mut words);
    words.finish()
}

/// Mixes words: enough to tell operations apart, each of which is compared in full.
#[derive(Clone, Copy, Debug)]
struct Words(u64);

impl Hasher for Words {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.write_u64(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            self.write_u64(rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        // An odd number near 2^64 / golden ratio spreads neighbouring words over all bits.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The hash is its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u64` is ever called; this keeps the trait's promise for other keys.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{GroupedMatmul, Matmul};
    use crate::{DType, Layout, Precision, Shape, TensorSpec, UnaryFn};

    fn product(m: u64, n: u64, k: u64) -> Matmul {
        let spec = |dims: &[u64]| TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()));
        Matmul::product(spec(&[m, k]), spec(&[k, n]), spec(&[m, n]))
    }

    #[test]
    fn get_finds_the_very_op_of_this_generation() {
        let plans = Plans::default();
        let op = Op::from(product(4, 5, 6));
        plans.put(&op, 7, &Arc::new("plan"));
        assert_eq!(plans.get(&op, 7).as_deref(), Some(&"plan"));
        assert_eq!(plans.get(&op, 8), None);
        for other in [
            product(4, 5, 7),
            product(5, 4, 6),
            Matmul { alpha: -1.0, ..product(4, 5, 6) },
            Matmul { precision: Precision::High, ..product(4, 5, 6) },
            Matmul { bias: Some(product(1, 5, 5).output), ..product(4, 5, 6) },
            Matmul { scale_a: Some(product(4, 1, 5).output), ..product(4, 5, 6) },
            Matmul { scale_b: Some(product(1, 5, 5).output), ..product(4, 5, 6) },
        ] {
            assert_eq!(plans.get(&other.into(), 7), None);
        }
    }

    #[test]
    fn grouped_products_are_known_by_all_operands() {
        let spec = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        let (a, b) = (spec(DType::F32, &[9, 6]), spec(DType::F32, &[3, 6, 5]));
        let op = GroupedMatmul::product(a, b, spec(DType::I32, &[3]), spec(DType::F32, &[9, 5]));
        let plans = Plans::default();
        plans.put(&op.clone().into(), 0, &Arc::new("plan"));
        assert_eq!(plans.get(&op.clone().into(), 0).as_deref(), Some(&"plan"));
        for other in [
            GroupedMatmul { ends: spec(DType::U32, &[3]), ..op.clone() },
            GroupedMatmul { bias: Some(spec(DType::F32, &[3, 5])), ..op.clone() },
            GroupedMatmul { activation: Some(UnaryFn::Relu), ..op.clone() },
            GroupedMatmul { precision: Precision::High, ..op },
        ] {
            assert_eq!(plans.get(&other.into(), 0), None);
        }
    }

    #[test]
    fn signs_of_zero_and_nan_are_told_apart() {
        let with = |alpha| Op::from(Matmul { alpha, ..product(4, 5, 6) });
        assert!(with(0.0) != with(-0.0) && with(f64::NAN) == with(f64::NAN) && with(1.0) == with(1.0));
    }

    /// A field that equality or hash forgets would give one operation another's plan.
    #[test]
    fn cases_that_differ_as_text_differ_in_equality_and_hash() {
        let cases = crate::ops::REGISTRY.iter().flat_map(|family| (family.cases)(crate::harness::Level::Full));
        let mut by_text: HashMap<String, Op> = HashMap::new();
        let mut by_hash: HashMap<u64, Op> = HashMap::new();
        let mut collisions = 0;
        for op in cases.map(|case| case.op) {
            let text = format!("{op:?}");
            let first = by_text.entry(text).or_insert_with(|| op.clone());
            assert!(*first == op && fingerprint(first) == fingerprint(&op), "{op:?}");
            let same_hash = by_hash.entry(fingerprint(&op)).or_insert_with(|| op.clone());
            if *same_hash != op {
                collisions += 1;
            } else {
                assert_eq!(format!("{same_hash:?}"), format!("{op:?}"));
            }
        }
        assert!(by_text.len() > 5000 && collisions == 0, "{} operations, {collisions} collisions", by_text.len());
    }

    #[test]
    fn fingerprints_of_many_products_differ() {
        let mut all = std::collections::HashSet::new();
        for m in 1..40 {
            for n in 1..40 {
                for k in 1..40 {
                    all.insert(fingerprint(&product(m, n, k).into()));
                }
            }
        }
        assert_eq!(all.len(), 39 * 39 * 39);
    }

    #[test]
    fn a_full_cache_starts_again() {
        let plans = Plans::default();
        for m in 0..=MOST_PLANS as u64 {
            plans.put(&product(m + 1, 2, 3).into(), 0, &Arc::new(m));
        }
        assert_eq!(plans.get(&product(MOST_PLANS as u64 + 1, 2, 3).into(), 0).as_deref(), Some(&(MOST_PLANS as u64)));
        assert_eq!(plans.get(&product(1, 2, 3).into(), 0), None);
    }
}
