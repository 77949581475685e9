//! The second launch of products whose K is cut into slabs: adds the slabs' sums in order and ends the product. Also that of
//! quantised products by kernels that know no scales: one slab, whose sums it scales.

use polywarp_core::DType;
use polywarp_core::ops::{Matmul, MatmulDims};

use super::epilogue::Epilogue;
use crate::catalogue::splitk::{INSTANCES, Instance, THREADS};
use crate::{Arg, Launch, find};

/// Ends `op` from `slabs` dense [batch, m, n] arrays of sums at `sums` (f32 for floats of 8 and 16 bits, i32 for 8-bit integers, else
/// the operands' type). `epilogue` has scales where the op is quantised. `None` for types and sizes that it does not serve.
pub(super) fn launch(op: &Matmul, sums: Arg, output: Arg, slabs: u32, epilogue: Epilogue) -> Option<Launch> {
    let MatmulDims { batch, m, n, .. } = op.dims();
    let sum = match op.a.dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I8 | DType::U8 => "i32",
        _ => return None,
    };
    let out = op.output.dtype.name();
    let serves = |instance: &&Instance| (instance.sum, instance.out, instance.scaled) == (sum, out, op.is_quantised());
    let instance = INSTANCES.iter().find(serves)?;
    let outputs = batch.checked_mul(m)?.checked_mul(n)?;
    let vector = if outputs.is_multiple_of(instance.vector()) { instance.vector() } else { 1 };
    let blocks = outputs.div_ceil(vector * u64::from(THREADS));
    let grid = u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)?;
    let word = |value: u64| u32::try_from(value).ok().map(Arg::U32);
    let sizes = [Arg::U32(slabs), word(batch)?, word(m)?, word(n)?];
    let args = [sums, output].into_iter().chain(sizes).chain(epilogue.args()).collect();
    Some(Launch { kernel: find(&instance.symbol())?, grid: [grid, 1, 1], args })
}
