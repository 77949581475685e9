//! Working memory of ops: had or refused, never an abort of the process.
//!
//! What grows with the operands is taken here. Blocks of a fixed size (lanes, a product's packed panels) stay ordinary
//! vectors, and so do partial results that are a thousandth of their operand.

use bytemuck::{Pod, Zeroable};

pub(crate) use crate::operation::HostError as Short;

/// What an op ends with.
pub(crate) type Done = Result<(), Short>;

fn short<T>(len: usize) -> Short {
    Short::OutOfMemory { bytes: (len as u64).saturating_mul(size_of::<T>() as u64) }
}

/// `len` zeros, in pages that cost nothing before they are written.
pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>, Short> {
    bytemuck::try_zeroed_vec(len).map_err(|()| short::<T>(len))
}

/// `len` times `value`.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, Short> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| short::<T>(len))?;
    values.resize(len, value);
    Ok(values)
}

/// The same elements in memory of their own.
pub(crate) fn copied<T: Pod>(x: &[T]) -> Result<Vec<T>, Short> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(x.len()).map_err(|_| short::<T>(x.len()))?;
    copy.extend_from_slice(x);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_with_its_size() {
        let len = isize::MAX as usize / 8;
        assert_eq!(zeroed::<f32>(len).unwrap_err(), Short::OutOfMemory { bytes: len as u64 * 4 });
        assert_eq!(filled(1.0f32, len).unwrap_err(), Short::OutOfMemory { bytes: len as u64 * 4 });
        assert_eq!((zeroed::<i64>(3).unwrap(), filled(7, 2).unwrap()), (vec![0; 3], vec![7; 2]));
        assert_eq!(copied(&[1.0f32, 2.0]).unwrap(), [1.0, 2.0]);
    }
}
