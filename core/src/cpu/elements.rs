//! Bytes of whole buffers as typed elements, for the routines by which operations run on the host.

use crate::TensorSpec;
use bytemuck::Pod;

/// A whole buffer as elements (buffers are aligned to 64 bytes and hold a multiple of 64).
pub(crate) fn typed<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(bytes)
}

/// The elements of a dense output within its buffer.
pub(crate) fn dense_mut<'a, T: Pod>(spec: &TensorSpec, bytes: &'a mut [u8]) -> &'a mut [T] {
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
pub(crate) use for_dtype;

/// Calls a function with the word that is as long as elements of `size` bytes.
macro_rules! for_size {
    ($size:expr, $ty:ident => $body:expr) => {
        match $size {
            1 => {
                type $ty = u8;
                $body
            }
            2 => {
                type $ty = u16;
                $body
            }
            4 => {
                type $ty = u32;
                $body
            }
            _ => {
                type $ty = u64;
                $body
            }
        }
    };
}
pub(crate) use for_size;
