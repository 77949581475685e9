//! Plans that were chosen before, by the very op: what makes a decided op cost a look-up and no planning.
//!
//! An op is found by a hash of what differs between ops in practice, then compared whole. The cache forgets everything when
//! it is full, and an entry when the tuner has learnt something since ([`super::Tuner::generation`]).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::ops::Matmul;
use crate::{Op, Precision, TensorSpec, UnaryFn};

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
        let hash = fingerprint(op)?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&hash).filter(|known| known.generation == generation && same(&known.op, op))?;
        Some(Arc::clone(&found.plan))
    }

    /// Remembers what was chosen; of two ops with one hash the later stays.
    pub(super) fn put(&self, op: &Op, generation: u64, plan: &Arc<T>) {
        let Some(hash) = fingerprint(op) else { return };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_PLANS {
            known.clear();
        }
        known.insert(hash, Known { op: op.clone(), generation, plan: Arc::clone(plan) });
    }
}

fn same(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Matmul(a), Op::Matmul(b)) => same_product(a, b),
        (Op::SparseMatmul(a), Op::SparseMatmul(b)) => {
            a.values == b.values && a.metadata == b.metadata && same_product(&a.product, &b.product)
        }
        (Op::GroupedMatmul(a), Op::GroupedMatmul(b)) => a == b,
        (Op::ReducedMatmul(a), Op::ReducedMatmul(b)) => {
            a.function == b.function && a.axis == b.axis && a.output == b.output && same_product(&a.product, &b.product)
        }
        _ => false,
    }
}

/// Equal, and with the same bits in their factors: 0 and -0 are different plans, NaN is itself.
fn same_product(a: &Matmul, b: &Matmul) -> bool {
    let bits = |op: &Matmul| (op.alpha.to_bits(), op.beta.to_bits());
    a.output == b.output
        && a.a == b.a
        && a.b == b.b
        && bits(a) == bits(b)
        && a.precision == b.precision
        && a.activation == b.activation
        && a.c == b.c
        && a.bias == b.bias
        && a.scale_a == b.scale_a
        && a.scale_b == b.scale_b
        && a.scale_blocks == b.scale_blocks
}

/// That of the product, turned where A is compressed: only one of both is likely for the same extents, and each is compared.
/// `None` for ops that are not tuned.
fn fingerprint(op: &Op) -> Option<u64> {
    match op {
        Op::Matmul(op) => Some(fingerprint_of(op)),
        Op::SparseMatmul(op) => Some(fingerprint_of(&op.product).rotate_left(1)),
        Op::ReducedMatmul(op) => {
            let turn = 2 + op.function as u32 + 8 * u32::from(op.is_of_rows());
            Some(fingerprint_of(&op.product).rotate_left(turn) ^ op.output.layout.offset())
        }
        Op::GroupedMatmul(op) => {
            let types = types([&op.a, &op.b, &op.output], op.precision, op.activation);
            let ends = u64::from(op.ends.dtype.is_signed());
            Some(hash(types, ends, [&op.a, &op.b, &op.output, &op.ends].into_iter().chain(&op.bias)))
        }
        _ => None,
    }
}

fn fingerprint_of(op: &Matmul) -> u64 {
    let types = types([&op.a, &op.b, &op.output], op.precision, op.activation);
    let factors = op.alpha.to_bits() ^ op.beta.to_bits().rotate_left(32);
    // A and B say all extents of the others; these differ in being there, and where.
    let others = op.c.iter().chain(&op.bias).chain(&op.scale_a).chain(&op.scale_b);
    hash(types, factors, [&op.a, &op.b, &op.output].into_iter().chain(others))
}

fn types([a, b, output]: [&TensorSpec; 3], precision: Precision, activation: Option<UnaryFn>) -> u64 {
    let types = a.dtype as u64 | (output.dtype as u64) << 8 | (precision as u64) << 16 | (b.dtype as u64) << 32;
    types | activation.map_or(0, |f| f as u64 + 1) << 24
}

fn hash<'a>(types: u64, factors: u64, operands: impl Iterator<Item = &'a TensorSpec>) -> u64 {
    let mut hash = types;
    let mut mix = |word: u64| {
        // An odd number near 2^64 / golden ratio spreads neighbouring words over all bits.
        hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    };
    mix(factors);
    for spec in operands {
        mix(spec.layout.offset());
        for (&dim, &stride) in spec.layout.dims().iter().zip(spec.layout.strides()) {
            mix(dim ^ stride.rotate_left(32) as u64);
        }
    }
    hash ^ (hash >> 32)
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
    use crate::ops::GroupedMatmul;
    use crate::{DType, Layout, Shape};

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
        let with = |alpha| Matmul { alpha, ..product(4, 5, 6) };
        assert!(!same_product(&with(0.0), &with(-0.0)) && same_product(&with(f64::NAN), &with(f64::NAN)));
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
