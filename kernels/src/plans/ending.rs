//! What every family's products have in common besides their operands: which sizes and scales kernels take, where D lies,
//! the arguments of the epilogue, and how slabs of K end.
//!
//! A kernel of a product is launched with its operands, a D, and the epilogue's arguments (`epilogue.rs`). Slabs write bare sums to scratch space, and a second launch ends them (`splitk.rs`). So do kernels
//! that know no scales where operands have some, or where sums of integers leave as floats.

use polywarp_core::DType;
use polywarp_core::ops::{Matmul, MatmulDims};

use super::epilogue::{Epilogue, scalar};
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

/// What the launch of a product writes, and how it ends.
pub(super) struct Written {
    /// Where D, or the sums that stand for it, begins.
    pub slot: Slot,
    pub offset_bytes: u64,
    /// Whether it is f32, of operands of 8 or 16 bits that give D's dtype otherwise.
    pub is_f32: bool,
    pub epilogue: Epilogue,
}

impl Written {
    /// Where it begins, as an argument.
    pub fn d(&self) -> Arg {
        Arg::Address { slot: self.slot, offset_bytes: self.offset_bytes }
    }
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

    /// Adds to `plan` the launch of `product`, which knows `scales` or does not; where sums go through scratch space, also the launch that
    /// ends them: for several slabs of K, and for quantised operands of a product that knows no scales. Returns the bytes of
    /// those sums, 0 for none.
    pub fn add(
        &self,
        plan: &mut Plan,
        slabs: u64,
        scales: Scales,
        product: impl FnOnce(Written) -> Option<Launch>,
    ) -> Option<u64> {
        let output = &self.op.output;
        let (slot, offset_bytes) = (Slot::Output(0), output.layout.offset() * output.dtype.size_bytes());
        if slabs == 1 && (scales == Scales::Taken || !self.op.is_quantised()) {
            let is_f32 = output.dtype == DType::F32;
            plan.launches.push(product(Written { slot, offset_bytes, is_f32, epilogue: self.epilogue(scales) })?);
            return Some(0);
        }
        let MatmulDims { batch, m, n, .. } = self.op.dims();
        let bytes = [slabs, batch, m, n, sum_bytes(self.op.a.dtype)].into_iter().try_fold(1u64, u64::checked_mul)?;
        let sums = Slot::Scratch(plan.scratch_bytes.len());
        plan.scratch_bytes.push(bytes);
        let bare = Epilogue {
            scales: (scales == Scales::Taken).then_some([Scale::NONE, Scale::NONE]),
            ..Epilogue::nothing(self.op.a.dtype)
        };
        plan.launches.push(product(Written { slot: sums, offset_bytes: 0, is_f32: true, epilogue: bare })?);
        let ended_by = self.epilogue(if self.op.is_quantised() { Scales::Taken } else { Scales::Unknown });
        let (from, to) = (Arg::Address { slot: sums, offset_bytes: 0 }, Arg::Address { slot, offset_bytes });
        plan.launches.push(splitk::launch(self.op, from, to, u32::try_from(slabs).ok()?, ended_by)?);
        Some(bytes)
    }

    /// All that the op asks for, its scales for a kernel that takes them.
    fn epilogue(&self, scales: Scales) -> Epilogue {
        let [alpha, beta] = [self.op.alpha, self.op.beta].map(|x| scalar(self.op.a.dtype, x));
        let scales = (scales == Scales::Taken).then(|| self.scales.clone());
        Epilogue { alpha, beta, addends: self.addends.clone(), activation: self.activation, scales }
    }

    /// The arguments of a kernel that keeps no D, and what follows them: elements from column to column of C, from row to row and
    /// column to column of the bias. `turned`: its rows are the op's columns.
    pub fn reduced(&self, scales: Scales, turned: bool) -> Vec<Arg> {
        let mut epilogue = self.epilogue(scales);
        let ldc = self.addends.ldc;
        let (row, column, bias) = if turned { (1, ldc, [1, 0]) } else { (ldc, 1, [0, 1]) };
        epilogue.addends.ldc = row;
        if turned && let Some(scales) = &mut epilogue.scales {
            scales.reverse();
        }
        let mut args = epilogue.args();
        args.extend([column, bias[0], bias[1]].map(Arg::I64));
        args
    }
}
