//! The arguments that kernels of products take behind their own, by name; [`Epilogue::args`] alone knows their order, which is that of
//! `cuda/epilogue.cuh`.
//!
//! Not here: which launch of a plan ends a product (`ending.rs`).

use polywarp_core::DType;

use super::operand::{Addends, Scale};
use crate::Arg;

/// How a launch ends what it has summed.
#[derive(Clone, Debug)]
pub(super) struct Epilogue {
    pub alpha: Arg,
    pub beta: Arg,
    pub addends: Addends,
    /// By its number.
    pub activation: u32,
    /// Of rows and of columns, for a kernel that takes them.
    pub scales: Option<[Scale; 2]>,
}

impl Epilogue {
    /// Of sums that are the result, where operands are of `dtype`.
    pub fn nothing(dtype: DType) -> Epilogue {
        let (alpha, beta) = (scalar(dtype, 1.0), scalar(dtype, 0.0));
        Epilogue { alpha, beta, addends: Addends::NONE, activation: 0, scales: None }
    }

    /// Alpha, beta, C, its pitch and batch stride, bias, activation, and scales.
    pub fn args(self) -> Vec<Arg> {
        let Epilogue { alpha, beta, addends, activation, scales } = self;
        let Addends { c, ldc, batch_stride_c, bias } = addends;
        let mut args = vec![alpha, beta, c, Arg::I64(ldc), Arg::I64(batch_stride_c), bias, Arg::U32(activation)];
        args.extend(scales.iter().flatten().flat_map(Scale::args));
        args
    }
}

/// Alpha or beta, in the type in which kernels of operands of `dtype` apply them.
pub(super) fn scalar(dtype: DType, x: f64) -> Arg {
    if dtype == DType::F64 { Arg::F64(x) } else { Arg::F32(x as f32) }
}
