//! What every family's products have in common besides their operands: which sizes and scales kernels take, where D lies,
//! the arguments of the epilogue, and how slabs of K end.
//!
//! A kernel of a product is launched with its operands, a D, and the epilogue's arguments in one order
//! (`cuda/epilogue.cuh`). Slabs write bare sums to scratch space, and a second launch ends them (`splitk.rs`). So do kernels
//! that know no scales where operands have some, or where sums of integers leave as floats.

use polywarp_core::DType;
use polywarp_core::ops::{Matmul, MatmulDims};

use super::operand::{Addends, Scale, activation};
use super::splitk;
use crate::catalogue::sum_bytes;
use crate::{Arg, Caps, Launch, Plan, Slot};

/// Extents up to here do not overflow the kernels' arithmetic.
const MOST_EXTENT: u64 = 1 << 30;
/// Scales of integer products travel as f32: integers up to here are exact.
const MOST_SCALE: f64 = (1 << 24) as f64;

/// How a product ends.
pub(super) struct Ending<'a> {
    op: &'a Matmul,
    addends: Addends,
    activation: u32,
    scales: [Scale; 2],
}

/// Whether a kernel takes scales, whose arguments then follow the activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scales {
    Taken,
    Unknown,
}

impl<'a> Ending<'a> {
    /// `None` for what no kernel of ours takes: sizes, scales, addends or activations.
    pub fn of(op: &'a Matmul, caps: &Caps) -> Option<Ending<'a>> {
        let MatmulDims { batch, m, n, k } = op.dims();
        let fits = [m, n, k, batch].iter().all(|extent| (1..=MOST_EXTENT).contains(extent));
        let exact = op.output.dtype.is_float() || op.alpha.abs().max(op.beta.abs()) <= MOST_SCALE;
        if !fits || !exact || caps.sm < 80 {
            return None;
        }
        Some(Ending { op, addends: Addends::of(op)?, activation: activation(op)?, scales: Scale::both(op)? })
    }

    /// Adds to `plan` the launch that `product` makes from a D, whether that D is f32 where operands have 16 bits, and the
    /// epilogue's arguments; where sums go through scratch space, also the launch that ends them: for several slabs of K, and
    /// for quantised operands, as `product` knows no scales. Returns the bytes of those sums, 0 for none.
    pub fn add(
        &self,
        plan: &mut Plan,
        slabs: u64,
        product: impl FnOnce(Arg, bool, Vec<Arg>) -> Option<Launch>,
    ) -> Option<u64> {
        self.add_by(plan, slabs, Scales::Unknown, product)
    }

    /// The same by a kernel that may take scales.
    pub fn add_by(
        &self,
        plan: &mut Plan,
        slabs: u64,
        scales: Scales,
        product: impl FnOnce(Arg, bool, Vec<Arg>) -> Option<Launch>,
    ) -> Option<u64> {
        let output = &self.op.output;
        let offset_bytes = output.layout.offset() * output.dtype.size_bytes();
        let d = Arg::Address { slot: Slot::Output(0), offset_bytes };
        if slabs == 1 && (scales == Scales::Taken || !self.op.is_quantised()) {
            plan.launches.push(product(d, output.dtype == DType::F32, self.applied(scales))?);
            return Some(0);
        }
        let MatmulDims { batch, m, n, .. } = self.op.dims();
        let bytes = [slabs, batch, m, n, sum_bytes(self.op.a.dtype)].into_iter().try_fold(1u64, u64::checked_mul)?;
        let sums = Arg::Address { slot: Slot::Scratch(plan.scratch_bytes.len()), offset_bytes: 0 };
        plan.scratch_bytes.push(bytes);
        plan.launches.push(product(sums.clone(), true, self.left_out(scales))?);
        let ended_by = if self.op.is_quantised() { Scales::Taken } else { Scales::Unknown };
        plan.launches.push(splitk::launch(self.op, sums, d, u32::try_from(slabs).ok()?, self.applied(ended_by))?);
        Some(bytes)
    }

    fn scalar(&self, x: f64) -> Arg {
        if self.op.a.dtype == DType::F64 { Arg::F64(x) } else { Arg::F32(x as f32) }
    }

    /// Where C's pitch stands among the arguments.
    const LDC: usize = 3;

    /// Alpha, beta, C, its pitch and batch stride, bias, activation; and scales for a kernel that takes them.
    fn applied(&self, scales: Scales) -> Vec<Arg> {
        let Addends { c, ldc, batch_stride_c, bias } = self.addends.clone();
        let (alpha, beta) = (self.scalar(self.op.alpha), self.scalar(self.op.beta));
        let mut args = vec![alpha, beta, c, Arg::I64(ldc), Arg::I64(batch_stride_c), bias, Arg::U32(self.activation)];
        if scales == Scales::Taken {
            args.extend(self.scales.iter().flat_map(Scale::args));
        }
        args
    }

    /// The same for a kernel that keeps no D, with scales where it takes them, and what follows them: elements from column to
    /// column of C, from row to row and column to column of the bias. `turned`: its rows are the op's columns.
    pub fn reduced(&self, scales: Scales, turned: bool) -> Vec<Arg> {
        let mut args = self.applied(Scales::Unknown);
        let Addends { ldc, .. } = self.addends;
        let (row, column, bias) = if turned { (1, ldc, [1, 0]) } else { (ldc, 1, [0, 1]) };
        args[Ending::LDC] = Arg::I64(row);
        if scales == Scales::Taken {
            let [a, b] = &self.scales;
            let [rows, columns] = if turned { [b, a] } else { [a, b] };
            args.extend(rows.args().into_iter().chain(columns.args()));
        }
        args.extend([column, bias[0], bias[1]].map(Arg::I64));
        args
    }

    /// The same for sums alone.
    fn left_out(&self, scales: Scales) -> Vec<Arg> {
        let (one, none) = (self.scalar(1.0), self.scalar(0.0));
        let mut args = vec![one, none, Arg::Null, Arg::I64(0), Arg::I64(0), Arg::Null, Arg::U32(0)];
        if scales == Scales::Taken {
            args.extend([Scale::NONE, Scale::NONE].iter().flat_map(Scale::args));
        }
        args
    }
}
