//! Ops on host memory: one file per op, each a function of the op's description and byte slices.
//!
//! Bytes become typed slices here ([`typed`]), strided operands become dense ones (`gather.rs`) or are read run by run.
//! Nothing in this folder can fail but for want of working memory ([`Short`](super::scratch::Short)): the op's constructor and
//! [`crate::Device::execute`] have checked every request.

pub(crate) mod along;
pub(crate) mod argreduce;
pub(crate) mod attention;
pub(crate) mod bincount;
pub(crate) mod convolution;
pub(crate) mod copy;
mod gather;
pub(crate) mod grouped_matmul;
pub(crate) mod join;
mod lanes;
pub(crate) mod map;
pub(crate) mod masked;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reduced_matmul;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod sparse24;

use crate::TensorSpec;
use bytemuck::Pod;

/// A whole buffer as elements (buffers are aligned to 64 bytes and hold a multiple of 64).
fn typed<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

/// The elements of a dense output within its buffer.
fn dense_mut<'a, T: Pod>(spec: &TensorSpec, bytes: &'a mut [u8]) -> &'a mut [T] {
    let start = spec.layout.offset() as usize;
    &mut bytemuck::cast_slice_mut(bytes)[start..start + spec.layout.elements() as usize]
}

/// Calls a generic function with the Rust type that stores a dtype; bool is stored as u8.
macro_rules! for_dtype {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match $dtype {
            crate::DType::F8E4M3 => {
                type $ty = crate::F8E4M3;
                $body
            }
            crate::DType::F8E5M2 => {
                type $ty = crate::F8E5M2;
                $body
            }
            crate::DType::F16 => {
                type $ty = half::f16;
                $body
            }
            crate::DType::BF16 => {
                type $ty = half::bf16;
                $body
            }
            crate::DType::F32 => {
                type $ty = f32;
                $body
            }
            crate::DType::F64 => {
                type $ty = f64;
                $body
            }
            crate::DType::I8 => {
                type $ty = i8;
                $body
            }
            crate::DType::U8 | crate::DType::Bool => {
                type $ty = u8;
                $body
            }
            crate::DType::I16 => {
                type $ty = i16;
                $body
            }
            crate::DType::U16 => {
                type $ty = u16;
                $body
            }
            crate::DType::I32 => {
                type $ty = i32;
                $body
            }
            crate::DType::U32 => {
                type $ty = u32;
                $body
            }
            crate::DType::I64 => {
                type $ty = i64;
                $body
            }
            crate::DType::U64 => {
                type $ty = u64;
                $body
            }
        }
    };
}
use for_dtype;
