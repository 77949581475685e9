//! Reductions of products: a product (`matmul.rs`) and its reduction (`reduce.rs`), a part of D after the other.

use crate::cpu::scratch::{self, Done};
use crate::ops::ReducedMatmul;
use crate::ops::matmul::host as matmul;
use crate::ops::reduce::host as reduce;

/// Bytes of D that there are at a time: few parts, because each of them packs, and widens, its operands anew; but the first touch of
/// fresh memory costs more than a product of short k (256 MiB: 50 ms on 16 threads, where 8192 x 8192 x 64 takes 9).
const PART_BYTES: u64 = 64 << 20;

pub(crate) fn execute(op: &ReducedMatmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    let parts = op.parts(PART_BYTES);
    let most = parts.iter().map(|part| part.product.output.required_bytes()).max().unwrap_or(0);
    // As aligned as the widest element of D.
    let mut d = scratch::zeroed::<u64>(most.div_ceil(8) as usize)?;
    for part in parts {
        // No element of D, or none to be added up, may be there.
        if part.product.output.layout.elements() > 0 {
            matmul::execute(&part.product, inputs, bytemuck::cast_slice_mut(&mut d))?;
        }
        if part.output.layout.elements() > 0 {
            reduce::execute(&part.reduce(), bytemuck::cast_slice(&d), output)?;
        }
    }
    Ok(())
}
