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

/// How the source lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Denser along K.
    K,
    /// Neighbours along K, everything on a 16-byte grid.
    KWide,
    /// Denser along rows.
    Mn,
}

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
pub(crate) fn symbol(mode: Mode, form: Form) -> String {
    let form = match form {
        Form::K => "k",
        Form::KWide => "k_wide",
        Form::Mn => "mn",
    };
    format!("pack_{}_{form}", mode.names().0)
}

fn info(mode: Mode, form: Form) -> KernelInfo {
    use Param::{Address, I64, U32};
    let name = match form {
        Form::K => "PACK_K",
        Form::KWide => "PACK_K_WIDE",
        Form::Mn => "PACK_MN",
    };
    #[rustfmt::skip]
    let mut params = vec![
        Address, Address,    // source, destination
        U32, U32, I64, I64,  // rows, k, strides of them
        U32, U32, I64, I64,  // batch, its inner extent, strides of inner and outer
        I64, I64,            // destination: pitch, batch stride
    ];
    if form != Form::Mn {
        params.push(U32); // lanes_log2
    }
    let symbol = symbol(mode, form);
    let spills_on_sm_120 = symbol.as_str() == "pack_b32_k_wide";
    KernelInfo {
        instance: format!("{name}({symbol}, {})", mode.names().1),
        symbol,
        source: "pack.cu",
        targets: if spills_on_sm_120 { Target::BUT_SM_120 } else { Target::EVERYWHERE },
        block: [THREADS, 1, 1],
        params,
        starts_early: true,
        ..KernelInfo::default()
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    let forms = [Form::K, Form::KWide, Form::Mn];
    Mode::ALL.into_iter().flat_map(|mode| forms.map(|form| info(mode, form))).collect()
}
