//! Copies of an op's operands, for runs that are timed one after the other.
//!
//! Weights of a model come from memory, whatever the last product left in the card's cache. Of products that fit it, a
//! candidate that is the fastest on operands from the cache need not be the fastest on others. Dropped copies stay in the pool's
//! cache, where the next key's find them: asking the driver for them again would take of that key's budget.

use super::is_gone;
use crate::info::DeviceKind;
use crate::operation::{Operand, Role};
use crate::{Backend, Buffer, Op, Result, TensorSpec};

/// Memory that all copies cover together: several times the largest cache (60 MB on an H200).
const COVERED_BYTES: u64 = 256 << 20;
/// Most copies: what is so small that these stay in a cache is found there in an application, too.
const MOST_COPIES: u64 = 16;

/// What makes copies of buffers on a device.
#[derive(Clone, Copy)]
pub(super) struct Copier<'a> {
    pub(super) backend: &'a dyn Backend,
    /// Makes the op that copies the given number of bytes.
    pub(super) copying: &'a dyn Fn(u64) -> Result<Op>,
}

/// Copies of an op's operands: of what they hold where they hold something.
#[derive(Debug, Default)]
pub(super) struct Copies {
    sets: Vec<(Vec<Buffer>, Vec<Buffer>)>,
}

impl Copies {
    /// Copies of `inputs` and `outputs` of `op`: as many as leave the caches, or as memory allows; none where there is no cache to
    /// leave, on processors and simulated GPUs, whose operands are the host's. Of an op that updates an operand at least one, since
    /// the user's is not to be touched.
    ///
    /// # Errors
    /// Of a lost device. Whatever else stands in the way of a copy is no candidate's fault: there are fewer then.
    pub(super) fn new(copier: Copier<'_>, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<Copies> {
        let least = u64::from(op.updates());
        if matches!(copier.backend.info().kind, DeviceKind::Cpu | DeviceKind::Software) {
            return Copies::make(copier, op, (inputs, outputs), least);
        }
        let most = (COVERED_BYTES / set_bytes(op).max(1)).clamp(1, MOST_COPIES);
        Copies::make(copier, op, (inputs, outputs), (most - 1).max(least))
    }

    /// At most `most` copies.
    pub(super) fn make(copier: Copier<'_>, op: &Op, operands: (&[&Buffer], &[&Buffer]), most: u64) -> Result<Copies> {
        let mut copies = Copies::default();
        for _ in 0..most {
            // A limit must leave room for what candidates take.
            let memory = copier.backend.memory();
            if memory.limit_bytes.is_some_and(|limit| limit.saturating_sub(memory.in_use_bytes) / 4 < set_bytes(op)) {
                break;
            }
            match copy(copier, op, operands) {
                Ok(set) => copies.sets.push(set),
                Err(error) if is_gone(&error) => return Err(error),
                Err(error) => {
                    log::debug!("runs are timed on {} sets of operands: {error}", copies.sets.len() + 1);
                    break;
                }
            }
        }
        Ok(copies)
    }

    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Inputs and outputs of copy `index`.
    pub(super) fn of(&self, index: usize) -> (Vec<&Buffer>, Vec<&Buffer>) {
        let (inputs, outputs) = &self.sets[index];
        (inputs.iter().collect(), outputs.iter().collect())
    }
}

/// Bytes of an op's operands.
pub(super) fn set_bytes(op: &Op) -> u64 {
    let mut bytes = 0u64;
    op.operands(&mut |operand| bytes = bytes.saturating_add(operand.spec.required_bytes()));
    bytes
}

fn copy(copier: Copier<'_>, op: &Op, operands: (&[&Buffer], &[&Buffer])) -> Result<(Vec<Buffer>, Vec<Buffer>)> {
    let Copier { backend, copying } = copier;
    let copied = |buffer: &Buffer, spec: &TensorSpec| {
        let bytes = spec.required_bytes();
        let copied = backend.alloc(bytes)?;
        // Bytes, whatever they stand for: what a view leaves out between its elements too.
        backend.execute(&copying(bytes)?, &[buffer], &[&copied])?;
        Ok(copied)
    };
    let (inputs, outputs) = operands;
    let inputs =
        inputs.iter().zip(op.inputs()).map(|(input, spec)| copied(input, &spec)).collect::<Result<Vec<_>>>()?;
    let outputs = outputs.iter().zip(op.outputs()).map(|(output, Operand { role, spec })| match role {
        Role::Update => copied(output, &spec),
        Role::Read | Role::Write => backend.alloc(spec.required_bytes()),
    });
    Ok((inputs, outputs.collect::<Result<Vec<Buffer>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Copy, Matmul};
    use crate::{DType, Device, Layout, Shape};

    #[test]
    fn copies_hold_what_the_operands_hold() {
        let device = Device::cpu();
        let backend = device.backend();
        let dense = || TensorSpec::new(DType::F16, Layout::contiguous(Shape::new(&[3, 3]).unwrap()));
        let op: Op = Matmul::product(dense(), dense(), dense()).check().unwrap().into();
        let buffer = |first: u8| {
            let buffer = backend.alloc(20).unwrap();
            let bytes: Vec<u8> = (first..first + 20).collect();
            backend.write(&buffer, 0, &bytes).unwrap();
            buffer
        };
        let (a, b) = (buffer(1), buffer(100));
        let d = buffer(200);
        let copying = |bytes| Ok(Copy::of_bytes(bytes)?.into());
        let copier = Copier { backend, copying: &copying };
        assert_eq!(Copies::new(copier, &op, &[&a, &b], &[&d]).unwrap().len(), 0, "a processor's operands");
        let (inputs, outputs) = copy(copier, &op, (&[&a, &b], &[&d])).unwrap();
        assert!(outputs.len() == 1 && outputs[0].size_bytes() >= 18);
        for (copied, first) in inputs.iter().zip([1, 100]) {
            let bytes = backend.read_blocking(copied, 0..18).unwrap();
            assert_eq!(bytes, (first..first + 18).collect::<Vec<u8>>());
        }
    }
}
