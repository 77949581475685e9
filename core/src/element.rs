//! How a dtype is named from outside: by the Rust type of its elements ([`Element`]), and by its name as text.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

use crate::{DType, Error, F8E4M3, F8E5M2, Scalar};

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| Error::InvalidArgument {
            what: "dtype",
            reason: format!("`{text}` is not one of {}", DType::ALL.map(DType::name).join(" ")),
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be an element of a tensor.
///
/// Sealed: the set of dtypes is fixed by the library.
pub trait Element: sealed::Sealed + Copy + Send + Sync + fmt::Debug + PartialEq + 'static {
    /// The dtype that stores `Self`.
    const DTYPE: DType;

    /// The elements as little-endian bytes, without a copy.
    fn as_bytes(elements: &[Self]) -> &[u8];

    /// Elements from bytes whose length is a multiple of the element size (a trailing partial element is dropped).
    fn from_bytes(bytes: &[u8]) -> Cow<'_, [Self]>;

    /// The value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
}

macro_rules! pod_element {
    ($($ty:ty => $dtype:ident, $to_scalar:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;

            fn as_bytes(elements: &[Self]) -> &[u8] {
                bytemuck::cast_slice(elements)
            }

            fn from_bytes(bytes: &[u8]) -> Cow<'_, [Self]> {
                let whole = &bytes[..bytes.len() - bytes.len() % size_of::<Self>()];
                match bytemuck::try_cast_slice(whole) {
                    Ok(aligned) => Cow::Borrowed(aligned),
                    Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(whole)),
                }
            }

            fn to_scalar(self) -> Scalar {
                let to_scalar: fn($ty) -> Scalar = $to_scalar;
                to_scalar(self)
            }
        }
    )*};
}

pod_element! {
    F8E4M3 => F8E4M3, |x| Scalar::F(f64::from(x));
    F8E5M2 => F8E5M2, |x| Scalar::F(f64::from(x));
    f16 => F16, |x| Scalar::F(f64::from(x));
    bf16 => BF16, |x| Scalar::F(f64::from(x));
    f32 => F32, |x| Scalar::F(f64::from(x));
    f64 => F64, Scalar::F;
    i8 => I8, |x| Scalar::I(i64::from(x));
    u8 => U8, |x| Scalar::I(i64::from(x));
    i16 => I16, |x| Scalar::I(i64::from(x));
    u16 => U16, |x| Scalar::I(i64::from(x));
    i32 => I32, |x| Scalar::I(i64::from(x));
    u32 => U32, |x| Scalar::I(i64::from(x));
    i64 => I64, Scalar::I;
    u64 => U64, Scalar::from;
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn as_bytes(elements: &[Self]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }

    fn from_bytes(bytes: &[u8]) -> Cow<'_, [Self]> {
        Cow::Owned(bytes.iter().map(|&b| b != 0).collect())
    }

    fn to_scalar(self) -> Scalar {
        Scalar::I(i64::from(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_name_parses_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        assert!(matches!("f8".parse::<DType>(), Err(Error::InvalidArgument { what: "dtype", .. })));
    }

    #[test]
    fn element_misaligned_bytes_are_copied() {
        let bytes: Vec<u8> = (0..9).collect();
        let values = f32::from_bytes(&bytes[1..]);
        assert_eq!(values.len(), 2);
        assert_eq!(values[0].to_bits(), u32::from_le_bytes([1, 2, 3, 4]));
    }
}
