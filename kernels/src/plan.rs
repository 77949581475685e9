//! Plans: how a card computes one op with these kernels, as data; and what makes a plan sound.
//!
//! A [`Plan`] is a short list of [`Launch`]es over the op's buffers and scratch space, as in `polywarp_shaders`, but its
//! arguments are typed values in the order of the kernel's parameters. Threads, cluster and shared memory belong to the
//! kernel ([`KernelInfo`]). [`Plan::check`] holds a plan to what the driver demands; that kernels stay inside their
//! operands is the planners' promise, which the harness proves.

use crate::param::{Block, Param};
use crate::{KernelInfo, Target};

/// One way to compute an op by these kernels; the same plan has the same name in every version.
pub type Candidate = polywarp_core::plan::Candidate<Plan>;

/// Launches in order, and the scratch buffers they share.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What runs, one after the other; each sees what the earlier ones wrote.
    pub launches: Vec<Launch>,
    /// Size in bytes of each scratch buffer; they start on 256-byte boundaries.
    pub scratch_bytes: Vec<u64>,
}

/// One kernel over one grid.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Which kernel.
    pub kernel: &'static KernelInfo,
    /// Blocks along x, y, z: multiples of the kernel's cluster.
    pub grid: [u32; 3],
    /// Its arguments, in the order of [`KernelInfo::params`].
    pub args: Vec<Arg>,
}

/// A buffer of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Input number `.0` of the op.
    Input(usize),
    /// Output number `.0` of the op.
    Output(usize),
    /// Scratch buffer number `.0` of the plan.
    Scratch(usize),
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A view of memory for the tensor memory accelerator.
    TensorMap(TensorMap),
    /// Where a buffer starts, and so many bytes.
    Address {
        /// The buffer.
        slot: Slot,
        /// Bytes from its start.
        offset_bytes: u64,
    },
    /// The pointer to nothing.
    Null,
    /// `uint32_t`.
    U32(u32),
    /// `int64_t`.
    I64(i64),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
}

/// Arguments of `cuTensorMapEncodeTiled`, or of `cuTensorMapEncodeIm2col` (CUDA driver API, "Tensor Map Object Management"). What lies
/// outside of the tensor reads as zero.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorMap {
    /// The buffer.
    pub slot: Slot,
    /// Bytes from its start to the tensor's first element; a multiple of 16.
    pub offset_bytes: u64,
    /// What it holds.
    pub element: Element,
    /// Elements per dimension, innermost (contiguous) first; one to five.
    pub dims: Vec<u64>,
    /// Bytes from one index to the next, from dimension 1 on; multiples of 16.
    pub strides_bytes: Vec<u64>,
    /// Elements per dimension of what one instruction copies; at most 256. Of pixels two numbers: channels, at most 256, and pixels, at
    /// most 1024.
    pub box_dims: Vec<u32>,
    /// How pixels are walked over, where the tensor is images [channels, width, height, images].
    pub pixels: Option<Pixels>,
    /// How rows of the box are permuted in shared memory.
    pub swizzle: Swizzle,
    /// How much of a line the second-level cache fetches.
    pub promotion: Promotion,
}

/// The pixels that a copy may start at and go on to (PTX ISA, "Im2col mode"): width first, then height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// The first one; negative in the padding. -128 to 127.
    pub lower: [i32; 2],
    /// The last one, counted from an image's last pixel. -128 to 127.
    pub upper: [i32; 2],
    /// From a pixel to the next one; 1 to 8.
    pub steps: [u32; 2],
}

/// `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Element {
    /// 8 bits of any meaning: i8, u8, fp8.
    U8 = 0,
    /// 16 bits.
    U16 = 1,
    /// 32 bits.
    U32 = 2,
    /// 32-bit integer.
    I32 = 3,
    /// 64 bits.
    U64 = 4,
    /// 64-bit integer.
    I64 = 5,
    /// binary16.
    F16 = 6,
    /// binary32.
    F32 = 7,
    /// binary64.
    F64 = 8,
    /// bfloat16.
    BF16 = 9,
    /// binary32, rounded to tf32 when loaded.
    Tf32 = 11,
}

impl Element {
    /// Bytes per element.
    pub const fn size_bytes(self) -> u64 {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::F16 | Element::BF16 => 2,
            Element::U32 | Element::I32 | Element::F32 | Element::Tf32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }
}

/// `CUtensorMapSwizzle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Swizzle {
    /// Rows as they are.
    #[default]
    None = 0,
    /// 16-byte pieces permuted within 32 bytes.
    B32 = 1,
    /// Within 64 bytes.
    B64 = 2,
    /// Within 128 bytes.
    B128 = 3,
}

/// `CUtensorMapL2promotion`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Promotion {
    /// As asked for.
    None = 0,
    /// 64 bytes.
    B64 = 1,
    /// 128 bytes.
    B128 = 2,
    /// 256 bytes.
    #[default]
    B256 = 3,
}

/// Blocks along x, y and z that a grid may have (CUDA programming guide, "Technical Specifications").
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

impl TensorMap {
    /// A matrix of `rows` rows of `columns` neighbouring elements, `pitch_bytes` from row to row, copied in boxes of
    /// `box_rows` x `box_columns`.
    pub fn matrix(
        (slot, offset_bytes): (Slot, u64),
        element: Element,
        [rows, columns]: [u64; 2],
        pitch_bytes: u64,
        [box_rows, box_columns]: [u32; 2],
        swizzle: Swizzle,
    ) -> TensorMap {
        TensorMap {
            slot,
            offset_bytes,
            element,
            dims: vec![columns, rows],
            strides_bytes: vec![pitch_bytes],
            box_dims: vec![box_columns, box_rows],
            pixels: None,
            swizzle,
            promotion: Promotion::default(),
        }
    }

    /// Whether the driver takes it. Base addresses are multiples of 16, as the plans see to.
    fn check(&self) -> Result<(), String> {
        let rank = self.dims.len();
        let (boxes, most, walks) = match &self.pixels {
            None => (rank, 256, true),
            Some(pixels) => (2, 1024, rank == 4 && pixels.is_sound(&self.dims)),
        };
        let ranks = (1..=5).contains(&rank) && self.strides_bytes.len() + 1 == rank && self.box_dims.len() == boxes;
        let inner_bytes = self.box_dims.first().map_or(0, |&n| u64::from(n) * self.element.size_bytes());
        let span = match self.swizzle {
            Swizzle::None => u64::MAX,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        };
        let sound = ranks
            && self.dims.iter().all(|n| (1..=1 << 32).contains(n))
            && self.strides_bytes.iter().all(|n| n.is_multiple_of(16) && (1..1 << 40).contains(n))
            && walks
            && self.box_dims.iter().all(|n| (1..=most).contains(n))
            && self.box_dims.first().is_some_and(|&n| n <= 256)
            && inner_bytes.is_multiple_of(16)
            && inner_bytes <= span
            && self.offset_bytes.is_multiple_of(16);
        if sound { Ok(()) } else { Err(format!("the driver would refuse {self:?}")) }
    }
}

impl Pixels {
    /// Whether the driver takes it for images [channels, width, height, images].
    fn is_sound(&self, dims: &[u64]) -> bool {
        let corners = self.lower.iter().chain(&self.upper).all(|corner| (-128..=127).contains(corner));
        let steps = self.steps.iter().all(|step| (1..=8).contains(step));
        let some = (0..2).all(|axis| i64::from(self.lower[axis]) < dims[axis + 1] as i64 + i64::from(self.upper[axis]));
        corners && steps && some
    }
}

impl Arg {
    fn fits(&self, param: Param) -> bool {
        matches!(
            (self, param),
            (Arg::TensorMap(_), Param::TensorMap)
                | (Arg::Address { .. } | Arg::Null, Param::Address)
                | (Arg::U32(_), Param::U32)
                | (Arg::I64(_), Param::I64)
                | (Arg::F32(_), Param::F32)
                | (Arg::F64(_), Param::F64)
        )
    }

    fn slot(&self) -> Option<Slot> {
        match self {
            Arg::TensorMap(map) => Some(map.slot),
            Arg::Address { slot, .. } => Some(*slot),
            _ => None,
        }
    }
}

impl Launch {
    /// The buffers it uses.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.args.iter().filter_map(Arg::slot)
    }

    /// Its block of parameters: `address` says where a buffer starts, `encode` makes the driver's form of a tensor map
    /// that starts at an address.
    ///
    /// # Errors
    /// What is wrong with it, or what `encode` says.
    pub fn pack(
        &self,
        address: impl Fn(Slot) -> Option<u64>,
        encode: impl Fn(&TensorMap, u64) -> Result<[u8; 128], String>,
    ) -> Result<Block, String> {
        let symbol = &self.kernel.symbol;
        let (given, declared) = (self.args.len(), self.kernel.params.len());
        if given != declared {
            return Err(format!("{symbol} takes {declared} arguments, not {given}"));
        }
        let at = |slot: Slot, offset: u64| {
            let start = address(slot).ok_or_else(|| format!("{symbol} uses {slot:?}, which there is not"))?;
            start.checked_add(offset).ok_or_else(|| format!("{symbol}: {slot:?} does not reach so far"))
        };
        let mut block = Block::default();
        for (index, (arg, &param)) in self.args.iter().zip(&self.kernel.params).enumerate() {
            if !arg.fits(param) {
                return Err(format!("argument {index} of {symbol} is {arg:?}, not {param:?}"));
            }
            let put = match arg {
                Arg::TensorMap(map) => block.put(param, &encode(map, at(map.slot, map.offset_bytes)?)?),
                Arg::Address { slot, offset_bytes } => block.put(param, &at(*slot, *offset_bytes)?.to_le_bytes()),
                Arg::Null => block.put(param, &[0; 8]),
                Arg::U32(x) => block.put(param, &x.to_le_bytes()),
                Arg::I64(x) => block.put(param, &x.to_le_bytes()),
                Arg::F32(x) => block.put(param, &x.to_le_bytes()),
                Arg::F64(x) => block.put(param, &x.to_le_bytes()),
            };
            put.map_err(|why| format!("{symbol}: {why}"))?;
        }
        Ok(block)
    }

    fn check(&self) -> Result<(), String> {
        let symbol = &self.kernel.symbol;
        let axes = self.grid.iter().zip(&self.kernel.cluster).zip(MOST_BLOCKS);
        for ((&blocks, &cluster), most) in axes {
            if blocks == 0 || blocks > most || !blocks.is_multiple_of(cluster) {
                return Err(format!("{symbol} cannot have the grid {:?}", self.grid));
            }
        }
        for arg in &self.args {
            if let Arg::TensorMap(map) = arg {
                map.check().map_err(|why| format!("{symbol}: {why}"))?;
            }
        }
        self.pack(|_| Some(0), |_, _| Ok([0; 128])).map(|_| ())
    }
}

impl Plan {
    /// What is wrong with it, as a plan of an op with so many inputs.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self, inputs: usize) -> Result<(), String> {
        for launch in &self.launches {
            launch.check()?;
            let missing = launch.slots().find(|slot| match *slot {
                Slot::Input(n) => n >= inputs,
                Slot::Scratch(n) => n >= self.scratch_bytes.len(),
                // A backend, which has them, finds those that there are not.
                Slot::Output(_) => false,
            });
            if let Some(slot) = missing {
                return Err(format!("{} uses {slot:?}, which there is not", launch.kernel.symbol));
            }
        }
        let writes = self.launches.last().is_some_and(|last| last.slots().any(|slot| matches!(slot, Slot::Output(_))));
        if writes { Ok(()) } else { Err("its last launch has no output".to_owned()) }
    }

    /// Whether a card of compute capability `sm` has code for every launch among `targets` of each kernel.
    pub fn runs_on(&self, sm: u32) -> bool {
        self.launches.iter().all(|launch| Target::best(launch.kernel.targets.iter().copied(), sm).is_some())
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
