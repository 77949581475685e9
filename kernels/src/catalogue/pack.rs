//! Kernels of the family pack: operands copied into rows along K, some converted on the way. Source: `cuda/pack.cu`.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/pack.cu`.
pub(crate) const THREADS: u32 = 256;
/// `UNROLL` there: units that a thread moves, of 16 source bytes in [`Form::KWide`], of a destination word in [`Form::K`].
pub(crate) const UNROLL: u32 = 4;
/// `TILE_UNITS` there: units of the destination along K that a block of [`Form::Mn`] moves.
const TILE_UNITS: u64 = 32;

/// What happens to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Bits as they are, of an element of so many bytes: 1, 2, 4 or 8.
    Copy(u64),
    /// f32 rounded to tf32, kept in 32 bits.
    Tf32,
    /// f32 rounded to bf16.
    Bf16,
}

/// How the source lies; `Form` in `cuda/pack.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Form {
    /// Denser along K.
    K,
    /// Neighbours along K, everything on a 16-byte grid.
    KWide,
    /// Denser along rows.
    Mn,
}

/// Arguments of each of the two operands; behind them comes the number of blocks of the first.
pub(crate) const OPERAND_PARAMS: [Param; 12] = {
    use Param::{Address, I64, U32};
    [
        Address, Address, // source, destination
        U32, U32, I64, I64, // rows, k, strides of them
        I64, I64, // batch stride of the source, pitch of the destination
        U32, U32, U32, U32, // form, blocks along x and y, lanes_log2
    ]
};

impl Mode {
    const ALL: [Mode; 6] = [Mode::Copy(1), Mode::Copy(2), Mode::Copy(4), Mode::Copy(8), Mode::Tf32, Mode::Bf16];

    /// Bytes of a source and of a destination element.
    pub fn sizes(self) -> (u64, u64) {
        match self {
            Mode::Copy(bytes) => (bytes, bytes),
            Mode::Tf32 => (4, 4),
            Mode::Bf16 => (4, 2),
        }
    }

    /// Elements along K, and rows, that a block of [`Form::Mn`] moves.
    pub fn tile(self) -> [u64; 2] {
        let (src, dst) = self.sizes();
        let rows = match src {
            4 => 64,
            8 => 32,
            _ => 32 * 4 / src,
        };
        [TILE_UNITS * (4 / dst).max(1), rows]
    }

    /// In symbols and in C++.
    fn names(self) -> (String, String) {
        let of = |name: &str, cpp: &str| (name.to_owned(), cpp.to_owned());
        match self {
            Mode::Copy(bytes) => (format!("b{}", 8 * bytes), format!("Copy<{bytes}>")),
            Mode::Tf32 => of("f32_tf32", "F32ToTf32"),
            Mode::Bf16 => of("f32_bf16", "F32ToBf16"),
        }
    }
}

/// The kernel's name.
pub(crate) fn symbol(mode: Mode) -> String {
    format!("pack_{}", mode.names().0)
}

fn info(mode: Mode) -> KernelInfo {
    let params = [&OPERAND_PARAMS[..], &OPERAND_PARAMS, &[Param::U32]].concat();
    let symbol = symbol(mode);
    KernelInfo {
        instance: format!("PACK({symbol}, {})", mode.names().1),
        symbol,
        source: "pack.cu",
        targets: Target::EVERYWHERE,
        block: [THREADS, 1, 1],
        params,
        starts_early: true,
        ..KernelInfo::default()
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    Mode::ALL.map(info).into()
}
