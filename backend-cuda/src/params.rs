//! What a launcher must know of a compiled kernel, and how a launch's values become its block of parameters.
//!
//! A kernel takes its parameters as one block of bytes: addresses and sizes of buffers, and the words of its `Params` by
//! value, each at an offset the compiler chose. [`Metadata`] is that layout as plain data; it travels with the machine
//! code through the cache on disk, and is checked before it is believed. Packing needs no GPU.

use naga_ptx::{EntryPoint, ParamKind};
use serde::{Deserialize, Serialize};

/// Largest block of parameters (CUDA programming guide, "Function Parameters": 4 KiB before sm_70 with CUDA 12.1).
pub(crate) const MAX_PARAM_BYTES: usize = 4096;

/// One compiled kernel, as its launcher sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    /// Its name in the machine code.
    pub(crate) symbol: String,
    /// Threads per block along x, y, z.
    pub(crate) block: [u32; 3],
    /// Workgroup memory that a launch must ask for.
    pub(crate) dynamic_shared_bytes: u32,
    /// Bytes of the block of parameters.
    pub(crate) params_bytes: u32,
    /// What stands where in it.
    pub(crate) fields: Vec<Field>,
}

/// One value in the block of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Field {
    pub(crate) offset: u32,
    pub(crate) value: Value,
}

/// What the value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Value {
    /// Address of the buffer at this group and binding.
    Address(u32, u32),
    /// Size in bytes of the buffer there.
    Bytes(u32, u32),
    /// The content of the uniform there, in so many bytes.
    Uniform(u32, u32, u32),
}

impl Value {
    fn size_bytes(self) -> u32 {
        match self {
            Value::Address(..) | Value::Bytes(..) => 8,
            Value::Uniform(_, _, bytes) => bytes,
        }
    }
}

/// A buffer of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// A block of parameters: on the stack, unless it is unusually long.
pub(crate) struct Block {
    /// 8-byte words, so that addresses are aligned for the driver's copy.
    short: [u64; 64],
    long: Vec<u64>,
    len: usize,
}

impl Metadata {
    /// The layout of a compiled entry point; `None` when it cannot be launched this way.
    pub(crate) fn of(entry: &EntryPoint) -> Option<Metadata> {
        let mut fields = Vec::with_capacity(entry.params.len());
        let mut end = 0;
        for param in &entry.params {
            let value = match param.kind {
                ParamKind::Buffer { group, binding, .. } => Value::Address(group, binding),
                ParamKind::BufferBytes { group, binding } => Value::Bytes(group, binding),
                ParamKind::Uniform { group, binding, size_bytes } => Value::Uniform(group, binding, size_bytes),
                ParamKind::Immediates { .. } => return None,
            };
            fields.push(Field { offset: param.offset_bytes, value });
            end = end.max(param.offset_bytes.checked_add(value.size_bytes())?);
        }
        let metadata = Metadata {
            symbol: entry.symbol.clone(),
            block: entry.workgroup_size,
            dynamic_shared_bytes: entry.dynamic_shared_bytes,
            params_bytes: end,
            fields,
        };
        metadata.is_sound().then_some(metadata)
    }

    /// Whether a launch with it can be tried: what was read from a file is believed only then.
    pub(crate) fn is_sound(&self) -> bool {
        let inside = |field: &Field| {
            let end = field.offset.checked_add(field.value.size_bytes());
            end.is_some_and(|end| end <= self.params_bytes)
        };
        let threads = self.block.iter().try_fold(1u32, |product, &n| product.checked_mul(n));
        !self.symbol.is_empty()
            && threads.is_some_and(|n| (1..=1024).contains(&n))
            && self.params_bytes as usize <= MAX_PARAM_BYTES
            && self.dynamic_shared_bytes <= 256 << 10
            && self.fields.iter().all(inside)
    }

    /// The block for `buffers` and, as the one uniform passed by value, `words`. The error is a bug: the launch does not
    /// fit the kernel.
    pub(crate) fn pack(&self, buffers: &[Bound], words: &[u32]) -> Result<Block, String> {
        let mut block = Block::zeroed(self.params_bytes as usize);
        let find = |group: u32, binding: u32| {
            let found = buffers.iter().find(|b| b.binding == binding && b.group == group);
            found.ok_or_else(|| format!("nothing is bound at {group}.{binding}"))
        };
        for field in &self.fields {
            let at = field.offset as usize;
            match field.value {
                Value::Address(group, binding) => block.put(at, &find(group, binding)?.address.to_le_bytes())?,
                Value::Bytes(group, binding) => block.put(at, &find(group, binding)?.bytes.to_le_bytes())?,
                Value::Uniform(_, _, bytes) => {
                    if 4 * words.len() > bytes as usize {
                        let given = words.len();
                        return Err(format!("the launch has {given} words of parameters, the kernel {}", bytes / 4));
                    }
                    for (index, word) in words.iter().enumerate() {
                        block.put(at + 4 * index, &word.to_le_bytes())?;
                    }
                }
            }
        }
        Ok(block)
    }
}

impl Block {
    pub(crate) fn zeroed(len: usize) -> Block {
        let short = [0; 64];
        let long = if len <= size_of_val(&short) { Vec::new() } else { vec![0; len.div_ceil(8)] };
        Block { short, long, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let words: &[u64] = if self.long.is_empty() { &self.short } else { &self.long };
        &bytemuck::cast_slice(words)[..self.len]
    }

    pub(crate) fn put(&mut self, at: usize, value: &[u8]) -> Result<(), String> {
        let words: &mut [u64] = if self.long.is_empty() { &mut self.short } else { &mut self.long };
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        match bytes.get_mut(at..at + value.len()) {
            Some(place) => {
                place.copy_from_slice(value);
                Ok(())
            }
            None => Err(format!("a parameter at byte {at} is outside of the block")),
        }
    }
}

#[cfg(test)]
mod tests {
    use naga_ptx::{Access, Param};

    use super::*;

    fn entry() -> EntryPoint {
        let params = [
            (0, ParamKind::Uniform { group: 0, binding: 0, size_bytes: 16 }),
            (16, ParamKind::Buffer { group: 0, binding: 1, access: Access::Read, min_bytes: 16 }),
            (24, ParamKind::Buffer { group: 0, binding: 2, access: Access::ReadWrite, min_bytes: 4 }),
            (32, ParamKind::BufferBytes { group: 0, binding: 2 }),
        ];
        EntryPoint {
            name: "main".to_owned(),
            symbol: "main".to_owned(),
            workgroup_size: [256, 1, 1],
            params: params.into_iter().map(|(offset_bytes, kind)| Param { offset_bytes, kind }).collect(),
            static_shared_bytes: 0,
            dynamic_shared_bytes: 0,
            features: Vec::new(),
        }
    }

    fn bound(binding: u32, address: u64, bytes: u64) -> Bound {
        Bound { group: 0, binding, address, bytes }
    }

    #[test]
    fn pack_puts_every_value_at_its_offset() {
        let metadata = Metadata::of(&entry()).unwrap();
        let buffers = [bound(1, 0x1000, 64), bound(2, 0x7fff_0000_1000, 1 << 33)];
        let block = metadata.pack(&buffers, &[1, 2, 0xffff_ffff]).unwrap();
        let mut expected = Vec::new();
        expected.extend([1u32, 2, 0xffff_ffff, 0].iter().flat_map(|w| w.to_le_bytes()));
        expected.extend([0x1000u64, 0x7fff_0000_1000, 1 << 33].iter().flat_map(|w| w.to_le_bytes()));
        assert_eq!(block.bytes(), expected);
    }

    #[test]
    fn pack_of_a_long_block_is_as_long() {
        let size_bytes = 600;
        let mut entry = entry();
        entry.params = vec![
            Param { offset_bytes: 0, kind: ParamKind::Uniform { group: 0, binding: 0, size_bytes } },
            Param { offset_bytes: 600, kind: ParamKind::BufferBytes { group: 0, binding: 2 } },
        ];
        let block = Metadata::of(&entry).unwrap().pack(&[bound(2, 0, 77)], &[9; 150]).unwrap();
        assert_eq!(block.bytes().len(), 608);
        assert_eq!(block.bytes()[596..601], [9, 0, 0, 0, 77]);
    }

    #[test]
    fn pack_refuses_a_launch_that_does_not_fit() {
        let metadata = Metadata::of(&entry()).unwrap();
        let all = [bound(1, 1, 1), bound(2, 2, 2)];
        assert!(metadata.pack(&all[..1], &[]).is_err_and(|why| why.contains("0.2")));
        assert!(metadata.pack(&all, &[0; 5]).is_err_and(|why| why.contains("5 words")));
        assert!(metadata.pack(&all, &[0; 4]).is_ok());
    }

    #[test]
    fn metadata_that_cannot_be_is_not_sound() {
        let good = Metadata::of(&entry()).unwrap();
        assert!(good.is_sound());
        let field = |offset| Field { offset, value: Value::Address(0, 1) };
        for bad in [
            Metadata { block: [1025, 1, 1], ..good.clone() },
            Metadata { block: [0, 1, 1], ..good.clone() },
            Metadata { block: [1 << 16, 1 << 16, 1], ..good.clone() },
            Metadata { params_bytes: 5000, ..good.clone() },
            Metadata { fields: vec![field(36)], ..good.clone() },
            Metadata { fields: vec![field(u32::MAX)], ..good.clone() },
            Metadata { symbol: String::new(), ..good.clone() },
            Metadata { dynamic_shared_bytes: 1 << 20, ..good.clone() },
        ] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
        let immediates = Param { offset_bytes: 48, kind: ParamKind::Immediates { size_bytes: 4 } };
        let mut entry = entry();
        entry.params.push(immediates);
        assert_eq!(Metadata::of(&entry), None);
    }
}
