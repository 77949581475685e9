//! f32 operands as low and high parts of f16, for products at `High`: two launches for both, then one product of three terms.
//!
//! Each matrix is scaled by a power of two into f16's range. The high part is the scaled element rounded to f16. The
//! low part is the rest, kept 2^11 times as large so that small elements have one too. (low * high + high * low) times
//! 2^-11, plus high * high, is then off by little more than f32's own products (core's `Matmul::product_roundoff`).
//! Parts lie as the operand does, with neighbours along K or along M (N), and are padded with zeros to whole steps of
//! every tile. A' holds A's low parts and, behind them along K, its high parts; B' holds them the other way round. So
//! the first two terms are one product over all of A' and B', and the third takes the halves that hold high parts. Two
//! factors for each product of the batch undo the scales. `range.rs` is cheaper and does less: one part, where all of a
//! matrix fits in f16.

use crate::ops::{Matmul, MatmulDims};
use crate::{DType, Layout, Result, TensorSpec};

use super::super::{Load, Places, Shape, key, operand};
use crate::plan::looped;
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::decode;
use crate::wgsl::params::axis_members;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("matmul_split.wgsl");

/// A product of parts, and the launches that make the parts.
pub(in super::super) struct Parted {
    /// The op on the parts, whose K is twice the padded one: they start at element 0 of scratch buffers 0 and 1.
    pub op: Matmul,
    pub launches: Vec<Launch>,
    /// Bytes of A's parts, of B's parts, of the maxima and of the factors.
    pub scratch_bytes: Vec<u64>,
}

/// The buffer with the two factors of each product.
pub(in super::super) const FACTORS: Slot = Slot::Scratch(3);
const MAXIMA: Slot = Slot::Scratch(2);

/// Specialisation of the kernels that make parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Split {
    phase: Phase,
    /// The elements of f32, and those of the parts.
    elements: [Element; 2],
    /// How A and B are read.
    forms: [Form; 2],
    /// Batch dimensions.
    axes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// `matmul_split_largest.wgsl`
    Largest,
    /// `matmul_split_parts.wgsl`
    Parts,
}

/// Low parts are kept this many times as large, and the inverse.
const LOW_SCALE: &str = "0x1p11f";
pub(super) const LOW_SCALE_INVERSE: &str = "0x1p-11f";
/// K, M and N of parts are padded to a multiple of this: the longest step of a tile, 128 bytes of f16.
const PITCH: u64 = 64;
/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Units of a thread in the search for maxima. The most workgroups that search, each of which writes one maximum for
/// the workgroups of the next launch to read, and the most that make parts. Both numbers are for the whole batch, but
/// every product has at least one workgroup.
const UNROLL: u64 = 4;
const MOST_MAXIMA: u64 = 512;
const MOST_GROUPS: u64 = 2048;
/// The most bytes that Vulkan binds through wgpu. It also keeps the number of parts below 2^32, which kernels count in u32.
const MOST_BYTES: u64 = (1 << 31) - 16;
/// Time of both launches beside their traffic, and the bytes that they read and write in a nanosecond: guesses.
const LAUNCHES_NS: f64 = 6000.0;
const BYTES_PER_NS: f64 = 2000.0;

/// Words of `Params` for an operand; the index among them of a matrix's units; the index of the number of workgroups
/// for a matrix, which stands before that of maxima.
const LINES_WORDS: usize = 12;
const UNITS: usize = 7;
const BLOCKS: usize = 2 * LINES_WORDS + 1;

/// The sizes of parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extents {
    pub padded_k: u64,
    /// M and N.
    padded: [u64; 2],
    /// Matrices of A and of B: a matrix that all products share is split once.
    matrices: [u64; 2],
}

impl Extents {
    /// `None` where parts are larger than a buffer may be.
    pub fn of(op: &Matmul) -> Option<Extents> {
        let MatmulDims { batch, m, n, k } = op.dims();
        let matrices = [&op.a, &op.b].map(|spec| if is_shared(&spec.layout) { 1 } else { batch });
        let padded = [m, n].map(|x| x.next_multiple_of(PITCH));
        let extents = Extents { padded_k: k.next_multiple_of(PITCH), padded, matrices };
        extents.bytes().iter().all(|&bytes| bytes <= MOST_BYTES).then_some(extents)
    }

    /// Bytes of the parts of A and of B, with lines padded in either order.
    fn bytes(&self) -> [u64; 2] {
        [0, 1]
            .map(|i| [self.padded_k, self.padded[i], self.matrices[i], 2 * 2].into_iter().fold(1, u64::saturating_mul))
    }

    /// Time that making the parts takes: f32 is read twice, and as many bytes are written.
    pub fn estimate_ns(&self) -> f64 {
        let bytes: u64 = self.bytes().iter().sum();
        LAUNCHES_NS + 3.0 * bytes as f64 / BYTES_PER_NS
    }
}

fn is_shared(layout: &Layout) -> bool {
    let batch = layout.rank() - 2;
    layout.dims()[..batch].iter().zip(layout.strides()).all(|(&extent, &stride)| extent == 1 || stride == 0)
}

/// An operand as lines along which its elements are read, and its parts.
struct Lines {
    form: Form,
    /// The words of `Lines` in the kernels.
    words: [u32; LINES_WORDS],
    parts: TensorSpec,
    /// Units of a matrix.
    units: u64,
    bytes: u64,
}

fn lines(op: &Matmul, places: &Places, extents: &Extents, which: usize, caps: &Caps) -> Result<Lines> {
    let MatmulDims { m, n, k, .. } = op.dims();
    let (spec, x) = if which == 0 { (&op.a, m) } else { (&op.b, n) };
    let (read, [base, stride_x, stride_k, _]) = operand(op, places, which, caps)?;
    let (padded_x, padded_k) = (extents.padded[which], extents.padded_k);
    // A single row counts as lying along K, or the distance of lines would be taken for that of neighbours.
    let along_k = read.along_k || x == 1;
    let form = if read.load == Load::Quad && along_k == read.along_k { Form::Quad } else { Form::Scalar };
    // In elements: the distance of the lines of parts, the distance of the second part from the first, and the size of
    // a matrix's parts.
    let (lines, padded_lines, length, pitch, second) =
        if along_k { (x, x, k, 2 * padded_k, padded_k) } else { (k, padded_k, x, padded_x, padded_k * padded_x) };
    let (far, near) = if along_k { (stride_x, stride_k) } else { (stride_k, stride_x) };
    let line_units = if along_k { padded_k } else { padded_x } / 4;
    let matrix = if along_k { x * pitch } else { 2 * second };
    let (units, matrices) = (padded_lines * line_units, extents.matrices[which]);
    // A's low parts come first, B's high ones.
    let [high, low] = if which == 0 { [second, 0] } else { [0, second] };
    let [pitch_units, matrix_units, high, low] = [pitch, matrix, high, low].map(|elements| (elements / 4) as u32);
    let [matrices_word, lines, length, line_units, all] =
        [matrices, lines, length, line_units, units].map(|word| word as u32);
    let words = [matrices_word, base, lines, length, far, near, line_units, all, pitch_units, matrix_units, high, low];

    let rank = spec.layout.rank();
    let mut dims = spec.layout.dims().to_vec();
    let mut strides = vec![0; rank];
    let (axis_x, axis_k) = if which == 0 { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
    dims[axis_k] = 2 * padded_k;
    (strides[axis_x], strides[axis_k]) = if along_k { (pitch as i64, 1) } else { (1, pitch as i64) };
    if matrices > 1 {
        let mut stride = matrix;
        for axis in (0..rank - 2).rev() {
            strides[axis] = stride as i64;
            stride *= dims[axis];
        }
    }
    let layout = Layout::strided(crate::Shape::new(&dims)?, &strides, 0)?;
    let bytes = matrices * matrix * DType::F16.size_bytes();
    Ok(Lines { form, words, parts: TensorSpec::new(DType::F16, layout), units, bytes })
}

/// `op` on parts of its operands.
pub(in super::super) fn split(op: &Matmul, places: &Places, caps: &Caps) -> Result<Parted> {
    let extents =
        Extents::of(op).ok_or_else(|| caps.unsupported("matmul", "parts of f16 larger than a buffer may be"))?;
    let sides = [lines(op, places, &extents, 0, caps)?, lines(op, places, &extents, 1, caps)?];
    let batch = op.dims().batch.max(1);
    let units = sides[0].units.max(sides[1].units);
    let groups = |turns: u64, most: u64| units.div_ceil(u64::from(THREADS) * turns).clamp(1, (most / batch).max(1));
    let maxima = groups(UNROLL, MOST_MAXIMA);
    let elements = [Element::new(DType::F32, caps)?, Element::new(DType::F16, caps)?];
    let launch = |phase, groups: u64, bindings| {
        let forms = [sides[0].form, sides[1].form];
        let mut params = sides[0].words.to_vec();
        params.extend(sides[1].words);
        params.extend([batch as u32, groups as u32, maxima as u32]);
        // Innermost first; negative strides wrap as two's complement.
        params.extend(places.batch.iter().rev().map(|axis| axis.extent as u32));
        for side in 0..2 {
            params.extend(places.batch.iter().rev().map(|axis| axis.strides[side] as u32));
        }
        Ok::<_, crate::Error>(Launch {
            kernel: key(Shape::Split(Split { phase, elements, forms, axes: places.axes() })),
            grid: caps.fold_grid(2 * batch * groups)?,
            bindings,
            params,
        })
    };
    let [a, b] = [Slot::Input(0), Slot::Input(1)];
    let parts = vec![a, b, MAXIMA, Slot::Scratch(0), Slot::Scratch(1), FACTORS];
    let launches =
        vec![launch(Phase::Largest, maxima, vec![a, b, MAXIMA])?, launch(Phase::Parts, groups(1, MOST_GROUPS), parts)?];
    let scratch_bytes = vec![sides[0].bytes, sides[1].bytes, 2 * batch * maxima * 4, batch * 8];
    Ok(Parted { op: Matmul { a: sides[0].parts, b: sides[1].parts, ..op.clone() }, launches, scratch_bytes })
}

impl Split {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| params.get(at).copied().unwrap_or(u32::MAX);
        let units = word(UNITS).max(word(UNITS + LINES_WORDS));
        let turns = units.div_ceil(THREADS.saturating_mul(word(BLOCKS).max(1)));
        let maxima = word(BLOCKS + 1).div_ceil(THREADS);
        let folds = looped(THREADS.ilog2().into(), 0);
        looped(turns.into(), 0) + looped(maxima.into(), 0) + folds
    }

    pub fn source(&self) -> Source {
        let text = self.prelude();
        let read = [Access::Read; 3];
        let written = [Access::ReadWrite; 3];
        let (name, body, bindings) = match self.phase {
            Phase::Largest => {
                let bindings = [&read[..2], &written[..1]].concat();
                ("largest", include_str!("../../../../../wgsl/matmul_split_largest.wgsl"), bindings)
            }
            Phase::Parts => {
                ("parts", include_str!("../../../../../wgsl/matmul_split_parts.wgsl"), [read, written].concat())
            }
        };
        let common = include_str!("../../../../../wgsl/matmul_split.wgsl");
        Source { name: format!("matmul_split_{name}"), wgsl: format!("{text}\n{common}\n{body}"), bindings }
    }

    fn prelude(&self) -> String {
        let [single, _] = self.elements;
        let mut out = element::prelude(if self.phase == Phase::Parts { &self.elements } else { &self.elements[..1] });
        let axes = format!("   {}\n", axis_members("eab", self.axes.into()));
        out += &TEXT.fill("params", holes!(threads = THREADS, axes));
        for ((binding, name, stride), form) in [(1, "a", 'a'), (2, "b", 'b')].into_iter().zip(self.forms) {
            out += &single.storage(binding, name, form, Access::Read);
            out += &decode(&format!("batch_of_{name}"), &format!("params.{name}.base"), stride, self.axes.into());
            out += &TEXT.fill(if form == Form::Quad { "quad" } else { "quad of elements" }, holes!(name));
        }
        out + &match self.phase {
            Phase::Largest => TEXT.get("largest").to_owned(),
            Phase::Parts => TEXT.fill("parts", holes!(low_scale = LOW_SCALE)),
        }
    }
}
