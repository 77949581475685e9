//! Parameters of a kernel: what it declares, and the block of bytes that a launch gives to the driver.
//!
//! Parameters are plain and separate, laid out as C lays out a struct of them: each at the next multiple of its alignment.
//! Tensor maps come first, so that their alignment (64 in PTX, 128 in CUDA 13's header) changes no offset. The driver is
//! given a pointer to each: where ptxas puts them is another matter (for sm_90 it moves a first tensor map by 48 bytes, so
//! that it is aligned in the constant bank, which starts at 528).

/// What a kernel declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// `const __grid_constant__ CUtensorMap`.
    TensorMap,
    /// A pointer to device memory; may be null where the kernel says so.
    Address,
    /// `uint32_t`.
    U32,
    /// `int64_t`.
    I64,
    /// `float`.
    F32,
    /// `double`.
    F64,
}

impl Param {
    /// Its size.
    pub const fn size_bytes(self) -> usize {
        match self {
            Param::TensorMap => 128,
            Param::Address | Param::I64 | Param::F64 => 8,
            Param::U32 | Param::F32 => 4,
        }
    }

    /// Where it may start: at multiples of this.
    pub const fn align_bytes(self) -> usize {
        match self {
            Param::TensorMap => 64,
            other => other.size_bytes(),
        }
    }
}

/// Where the next of a kernel's parameters starts.
pub(crate) fn offset(end: usize, param: Param) -> usize {
    end.next_multiple_of(param.align_bytes())
}

/// Room for five tensor maps and a long list of numbers; a launch may have 4 KiB (CUDA programming guide, "Function
/// Parameters").
const WORDS: usize = 128;

/// Parameters of one launch, on the stack.
#[derive(Clone, Debug)]
pub struct Block {
    bytes: [u8; 8 * WORDS],
    len: usize,
}

impl Default for Block {
    fn default() -> Block {
        Block { bytes: [0; 8 * WORDS], len: 0 }
    }
}

impl Block {
    /// Adds a value. The error: more than a launch may have.
    pub(crate) fn put(&mut self, param: Param, value: &[u8]) -> Result<(), &'static str> {
        let at = offset(self.len, param);
        let place = self.bytes.get_mut(at..at + param.size_bytes()).ok_or("more parameters than a launch may have")?;
        place.copy_from_slice(value);
        self.len = at + param.size_bytes();
        Ok(())
    }

    /// All of them; where each starts is [`crate::KernelInfo::param_offsets`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_c_puts_them() {
        let mut block = Block::default();
        block.put(Param::TensorMap, &[7; 128]).unwrap();
        block.put(Param::U32, &1u32.to_le_bytes()).unwrap();
        block.put(Param::Address, &2u64.to_le_bytes()).unwrap();
        block.put(Param::F32, &1f32.to_le_bytes()).unwrap();
        block.put(Param::U32, &3u32.to_le_bytes()).unwrap();
        let bytes = block.bytes();
        assert_eq!(bytes.len(), 152);
        assert_eq!((bytes[127], bytes[128], bytes[132], bytes[136], bytes[148]), (7, 1, 0, 2, 3));
        assert_eq!(bytes[144..148], 1f32.to_le_bytes());
    }

    #[test]
    fn too_many_are_refused() {
        let mut block = Block::default();
        assert!((0..WORDS / 16).all(|_| block.put(Param::TensorMap, &[0; 128]).is_ok()));
        assert!(block.put(Param::U32, &[0; 4]).is_err());
    }
}
