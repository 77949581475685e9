//! Precision, said once: in what layers compute, while parameters, moments and sums stay in f32.
//!
//! The decision to know: a policy is part of the parameters' handles ([`Watched`](crate::Watched)), so that no layer and no call names a
//! dtype. Layers compute in the dtype of the handles that they are given.

use polywarp_core::{DType, Precision};

/// In what a network computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The dtype of parameters, activations and gradients on the tape: f32, f16 or bf16.
    pub compute: DType,
    /// How exact products of f32 are.
    pub products: Precision,
}

impl Policy {
    /// f32, with products as exact as f32 allows.
    pub const F32: Policy = Policy { compute: DType::F32, products: Precision::Highest };
    /// f32, with products of operands that may be rounded to tf32.
    pub const TF32: Policy = Policy { compute: DType::F32, products: Precision::Medium };
    /// bf16: f32's range, so that losses need no scale.
    pub const BF16: Policy = Policy { compute: DType::BF16, products: Precision::Highest };
    /// f16: small gradients become zero unless the loss is scaled ([`LossScale`](crate::LossScale)).
    pub const F16: Policy = Policy { compute: DType::F16, products: Precision::Highest };
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::F32
    }
}
