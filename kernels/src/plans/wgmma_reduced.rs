//! Reductions of products by wgmma (`cuda/gemm_wgmma_reduced.cuh`): numbers of D's rows, tile by tile, and where a row has several
//! tiles a second launch that makes one of theirs (`cuda/reduce_parts.cu`).
//!
//! Numbers of D's columns are those of the rows of D^T = B^T A^T: A and B change places, and so does all that goes with them.

use polywarp_core::DType;
use polywarp_core::ops::{MatmulDims, ReduceFn, ReducedMatmul};

use super::estimate::{SECOND_LAUNCH_NS, SUMS_BYTES_PER_NS};
use super::source::Way;
use super::{Operand, Problem, Target};
use crate::catalogue::reduce_parts::{COLUMNS, number, symbol};
use crate::catalogue::wgmma::{Instance, reduced_instances};
use crate::plans::ending::{Ending, Scales};
use crate::plans::pack::Prepared;
use crate::{Arg, Candidate, Caps, Launch, Slot, find};

pub(super) fn products(op: &ReducedMatmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let product = &op.product;
    let function = number(op.function)?;
    // Sums of integers are not divided.
    if product.scale_blocks.is_some() || (op.function == ReduceFn::Mean && !product.output.dtype.is_float()) {
        return None;
    }
    let serves =
        |instance: &&Instance| (instance.operands(), instance.output) == (product.a.dtype, product.output.dtype);
    if !reduced_instances().iter().any(|instance| serves(&instance)) {
        return None;
    }
    let way = Way::of(product)?;
    let ending = Ending::of(product, caps)?;
    let turned = !op.is_of_rows();
    let mut prepared = Prepared::default();
    let a = way.operand(&mut prepared, Operand::a(product)?, caps)?;
    let b = way.operand(&mut prepared, Operand::b(product)?, caps)?;
    let MatmulDims { m, n, .. } = product.dims();
    let (dims, a, b) = match turned {
        true => (MatmulDims { m: n, n: m, ..product.dims() }, b, a),
        false => (product.dims(), a, b),
    };
    let problem = Problem { dims, ..Problem::new(product, a, b, ending, caps) };
    let layouts = (problem.a.major, problem.b.major);
    let matching = reduced_instances().iter().filter(serves);
    let matching = matching.filter(|instance| (instance.major_a, instance.major_b) == layouts);
    let divisor = if op.function == ReduceFn::Mean { op.count() as f32 } else { 1.0 };
    let folding = Folding { op, function, divisor, turned };
    Some(matching.filter_map(|instance| folding.candidate(&problem, instance, &prepared)).collect())
}

/// What becomes of a row.
struct Folding<'a> {
    op: &'a ReducedMatmul,
    function: u32,
    divisor: f32,
    /// Rows of the kernel's D are columns of the op's.
    turned: bool,
}

impl Folding<'_> {
    fn candidate(&self, problem: &Problem, instance: &Instance, prepared: &Prepared) -> Option<Candidate> {
        let mut plan = prepared.plan.clone();
        let output = self.op.output;
        let to = (Slot::Output(0), output.layout.offset() * output.dtype.size_bytes());
        let (results, parts) = (output.layout.elements(), problem.dims.n.div_ceil(instance.shape.block_n.into()));
        let mut estimate_ns = prepared.estimate_ns + problem.estimate_ns(instance, 1, problem.k_tiles(instance), 0);
        if parts == 1 {
            plan.launches.push(self.product(problem, instance, to, self.divisor)?);
        } else {
            let bytes = parts.checked_mul(results)?.checked_mul(instance.output.size_bytes())?;
            let from = (Slot::Scratch(plan.scratch_bytes.len()), 0);
            plan.scratch_bytes.push(bytes);
            plan.launches.push(self.product(problem, instance, from, 1.0)?);
            plan.launches.push(self.second(instance.output, from, to, [parts, results])?);
            estimate_ns += SECOND_LAUNCH_NS + bytes as f64 / SUMS_BYTES_PER_NS;
        }
        Some(Candidate { name: instance.symbol.clone(), plan, estimate_ns })
    }

    /// Numbers of tiles, or of rows where one tile holds them.
    fn product(
        &self,
        problem: &Problem,
        instance: &Instance,
        (slot, offset_bytes): (Slot, u64),
        divisor: f32,
    ) -> Option<Launch> {
        let scales = if instance.is_scaled() { Scales::Taken } else { Scales::Unknown };
        let mut epilogue = problem.ending.reduced(scales, self.turned);
        epilogue.extend([Arg::U32(self.function), Arg::F32(divisor)]);
        let slab_tiles = problem.k_tiles(instance);
        let target = Target { slot, offset_bytes, dtype: instance.output, slabs: 1, slab_tiles };
        problem.launch(instance, &target, epilogue)
    }

    fn second(&self, dtype: DType, from: (Slot, u64), to: (Slot, u64), [parts, results]: [u64; 2]) -> Option<Launch> {
        let address = |(slot, offset_bytes)| Arg::Address { slot, offset_bytes };
        let words = [parts, results].map(|count| u32::try_from(count).ok().map(Arg::U32));
        let mut args = vec![address(from), address(to)];
        args.extend(words.into_iter().collect::<Option<Vec<Arg>>>()?);
        args.extend([Arg::U32(self.function), Arg::F32(self.divisor)]);
        let blocks = u32::try_from(results.div_ceil(COLUMNS)).ok().filter(|&blocks| blocks <= i32::MAX as u32)?;
        Some(Launch { kernel: find(&symbol(dtype))?, grid: [blocks, 1, 1], args })
    }
}

#[cfg(test)]
#[path = "wgmma_reduced_tests.rs"]
mod tests;
