//! Products with a 2:4 compressed A by the kernels of the dense product: A is decompressed into scratch space first.
//!
//! What is written and read again is little beside a large product, so this is what dense kernels reach, whose warpgroup
//! instructions on Hopper do more than sparse ones of single warps. Rows that are no multiple of 16 bytes are left to the
//! portable way.

use polywarp_core::Op;
use polywarp_core::ops::{MatmulDims, SparseMatmul};

use crate::catalogue::sparse24::{THREADS, symbol};
use crate::{Arg, Candidate, Caps, Launch, Plan, Slot, find};

/// Of the many dense kernels the best few: the first of them was measured on dense operands of these sizes.
pub(super) const WORTH_TIMING: f64 = 1.1;
/// What one thread of the kernel writes.
const UNIT_BYTES: u64 = 16;
/// What a launch costs beside its traffic.
const LAUNCH_NS: f64 = 2000.0;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Some(op) = op.get::<SparseMatmul>() else { return Vec::new() };
    let Some((launch, bytes)) = decompression(op) else { return Vec::new() };
    // Half is read, all is written, and read again as the dense product counts it.
    let estimate_ns = LAUNCH_NS + caps.stream_ns(2 * bytes);
    let dense = super::every(&op.product.clone().into(), caps);
    let with = |found: Candidate| Candidate {
        name: format!("sparse24_{}", found.name),
        plan: behind(&launch, bytes, found.plan),
        estimate_ns: estimate_ns + found.estimate_ns,
    };
    dense.into_iter().map(with).collect()
}

/// The launch that writes dense A to `Scratch(0)`, and A's bytes.
fn decompression(op: &SparseMatmul) -> Option<(Launch, u64)> {
    let MatmulDims { k, .. } = op.product.dims();
    let (values, metadata) = (&op.values, &op.metadata);
    let element_bytes = values.dtype.size_bytes();
    let row_bytes = k.checked_mul(element_bytes)?;
    let bytes = values.bytes().checked_mul(2)?;
    let offset_bytes = values.layout.offset() * element_bytes;
    if bytes == 0 || !row_bytes.is_multiple_of(UNIT_BYTES) || !offset_bytes.is_multiple_of(UNIT_BYTES / 2) {
        return None;
    }
    let word = |value: u64| u32::try_from(value).ok();
    let units = word(bytes / UNIT_BYTES)?;
    let args = vec![
        Arg::Address { slot: Slot::Input(0), offset_bytes },
        Arg::Address { slot: Slot::Input(1), offset_bytes: 4 * metadata.layout.offset() },
        Arg::Address { slot: Slot::Scratch(0), offset_bytes: 0 },
        Arg::U32(word(row_bytes / UNIT_BYTES)?),
        Arg::U32(word(k.div_ceil(32))?),
        Arg::U32(units),
    ];
    Some((Launch { kernel: find(&symbol(element_bytes))?, grid: [units.div_ceil(THREADS), 1, 1], args }, bytes))
}

/// `plan`, of the dense product, with A from the scratch space that `launch` fills.
fn behind(launch: &Launch, bytes: u64, plan: Plan) -> Plan {
    let moved = |slot: Slot| match slot {
        Slot::Input(0) => Slot::Scratch(0),
        Slot::Input(other) => Slot::Input(other + 1),
        Slot::Scratch(other) => Slot::Scratch(other + 1),
        Slot::Output(number) => Slot::Output(number),
    };
    let mut launches = vec![launch.clone()];
    for mut dense in plan.launches {
        for arg in &mut dense.args {
            match arg {
                Arg::TensorMap(map) => map.slot = moved(map.slot),
                Arg::Address { slot, .. } => *slot = moved(*slot),
                Arg::Null | Arg::U32(_) | Arg::I64(_) | Arg::F32(_) | Arg::F64(_) => {}
            }
        }
        launches.push(dense);
    }
    Plan { launches, scratch_bytes: [bytes].into_iter().chain(plan.scratch_bytes).collect() }
}

#[cfg(test)]
mod tests {
    use polywarp_core::harness::Level;
    use polywarp_core::ops::REGISTRY;

    use super::*;

    /// Every product of the harness: the first launch alone reads the compressed operand, and some later one what it wrote.
    #[test]
    fn dense_kernels_read_what_was_decompressed() {
        let family = REGISTRY.iter().find(|family| family.name == "sparse24").unwrap();
        let mut plans = 0;
        for case in (family.cases)(Level::Full) {
            for found in candidates(&case.op, &Caps::h200()) {
                plans += 1;
                let slots: Vec<Vec<Slot>> =
                    found.plan.launches.iter().map(|launch| launch.args.iter().filter_map(slot).collect()).collect();
                let (first, rest) = slots.split_first().unwrap();
                assert_eq!(first[..], [Slot::Input(0), Slot::Input(1), Slot::Scratch(0)], "{}", found.name);
                let read: Vec<Slot> = rest.concat();
                assert!(read.contains(&Slot::Scratch(0)), "{} for {}", found.name, case.name);
                assert!(
                    !read.iter().any(|slot| matches!(slot, Slot::Input(0 | 1))),
                    "{} for {}",
                    found.name,
                    case.name
                );
                assert_eq!(found.plan.check(case.op.inputs().len()), Ok(()), "{} for {}", found.name, case.name);
            }
        }
        assert!(plans > 100, "{plans}");
    }

    fn slot(arg: &Arg) -> Option<Slot> {
        match arg {
            Arg::TensorMap(map) => Some(map.slot),
            Arg::Address { slot, .. } => Some(*slot),
            _ => None,
        }
    }
}
