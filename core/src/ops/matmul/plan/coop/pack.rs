//! Copies operands that cannot be read four elements at once to rows of whole quads in scratch memory.
//!
//! The kernel then runs at the speed of aligned operands, twice that of elements one by one; the copies cost the
//! reading and writing of the operands (f16, 4097x4095x4093: 222 TFLOP/s instead of 139). A line is padded with zeros,
//! written together with its last elements: one launch writes every byte of a copy once. Only single matrices are
//! packed (a batch may repeat them).

use crate::ops::Matmul;
use crate::{Layout, Result, TensorSpec};

use super::super::{Shape, key};
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("matmul_pack.wgsl");

/// A product of packed operands, and the launches that pack them.
pub(in super::super) struct Packed {
    /// The op on the copies: they start at element 0 of scratch buffers.
    pub op: Matmul,
    /// The copies; the operand is `Input(0)` or `(1)`, its copy `Scratch(0)` or `(1)`.
    pub launches: Vec<Launch>,
    /// Bytes of the copies of A and B; none where the operand is used as it is.
    pub bytes: [Option<u64>; 2],
}

/// Specialisation of the kernel that copies. It moves bits, whatever their dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct Pack {
    /// 1, 2 or 4.
    size_bytes: u32,
    near: Near,
    threads: u32,
}

/// How the elements of a line lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Near {
    /// Side by side: read by words, and shifted.
    Unit,
    /// Apart: read one by one.
    Strided,
}

/// One matrix in memory: `far` lines, each of `near` elements.
struct Lines {
    far: (u64, i64),
    near: (u64, i64),
    /// Neighbours lie along the last dimension.
    last: bool,
}

/// Elements between the starts of a copy's lines are a multiple of this: 128 bytes of f16.
const PITCH: u64 = 64;
/// Invocations of a workgroup.
const THREADS: u32 = 256;

/// Whether `spec` can be packed.
pub(in super::super) fn can_pack(spec: &TensorSpec) -> bool {
    lines(&spec.layout).is_some()
}

fn lines(layout: &Layout) -> Option<Lines> {
    let rank = layout.rank();
    let dims: Vec<(u64, i64)> = layout.dims().iter().copied().zip(layout.strides().iter().copied()).collect();
    if dims[..rank - 2].iter().any(|&(extent, stride)| extent > 1 && stride != 0) {
        return None;
    }
    let last = dims[rank - 1].1 <= dims[rank - 2].1;
    let (near, far) = if last { (dims[rank - 1], dims[rank - 2]) } else { (dims[rank - 2], dims[rank - 1]) };
    // Lines so short that padding would be most of their copies are not worth packing.
    let worth = near.1 >= 1 && far.0 >= 2 && near.1.checked_mul(PITCH as i64).is_some_and(|pad| pad <= far.1);
    worth.then_some(Lines { far, near, last })
}

/// `op` with the operands packed that are `true` in `wanted`.
pub(in super::super) fn pack(op: &Matmul, wanted: [bool; 2], caps: &Caps) -> Result<Packed> {
    let mut packed = Packed { op: op.clone(), launches: Vec::new(), bytes: [None; 2] };
    for (which, wanted) in wanted.into_iter().enumerate() {
        let spec = if which == 0 { op.a } else { op.b };
        let Some(lines) = lines(&spec.layout).filter(|_| wanted) else { continue };
        let pitch = lines.near.0.next_multiple_of(PITCH);
        packed.launches.push(launch(which, &spec, &lines, pitch, caps)?);
        let rank = spec.layout.rank();
        let mut strides = vec![0; rank];
        (strides[rank - 2], strides[rank - 1]) = if lines.last { (pitch as i64, 1) } else { (1, pitch as i64) };
        let layout = Layout::strided(*spec.layout.shape(), &strides, 0)?;
        let spec = TensorSpec::new(spec.dtype, layout);
        check_index("matmul", &spec)?;
        packed.bytes[which] = Some(lines.far.0 * pitch * spec.dtype.size_bytes());
        if which == 0 { packed.op.a = spec } else { packed.op.b = spec }
    }
    Ok(packed)
}

/// The launch that copies operand `which` to lines of `pitch` elements.
fn launch(which: usize, spec: &TensorSpec, lines: &Lines, pitch: u64, caps: &Caps) -> Result<Launch> {
    let Lines { far, near, .. } = *lines;
    let threads = THREADS.min(caps.max_invocations);
    let vectors = pitch * spec.dtype.size_bytes() / 16;
    let units = far.0 * vectors;
    let strides = [far.1, near.1].map(i64::cast_unsigned);
    let params = [units, vectors, near.0, spec.layout.offset(), strides[0], strides[1], 0, 0];
    let kernel = Pack {
        size_bytes: spec.dtype.size_bytes() as u32,
        near: if near.1 == 1 { Near::Unit } else { Near::Strided },
        threads,
    };
    Ok(Launch {
        kernel: key(Shape::Pack(kernel)),
        grid: caps.fold_grid(units.div_ceil(threads.into()))?,
        bindings: vec![Slot::Input(which), Slot::Scratch(which)],
        params: params.map(|word| word as u32).to_vec(),
    })
}

impl Pack {
    pub fn source(&self) -> Source {
        let element = Element::raw(self.size_bytes.into());
        let text = self.prelude(element);
        let (prelude, apart) = match self.near {
            Near::Unit => (String::new(), ""),
            Near::Strided => (element::prelude(&[element]), "_strided"),
        };
        Source {
            name: format!("matmul_pack_{}bit{apart}", 8 * self.size_bytes),
            wgsl: prelude + &text + include_str!("../../../../../wgsl/matmul_pack.wgsl"),
            bindings: vec![Access::Read, Access::ReadWrite],
        }
    }

    fn prelude(&self, element: Element) -> String {
        let (per_word, bits) = (4 / self.size_bytes, 8 * self.size_bytes);
        let mut out = TEXT.fill("params", holes!(threads = self.threads, per_word, bits));
        match self.near {
            Near::Unit => {
                let value = TEXT.get(if per_word == 1 { "words" } else { "parts of words" });
                out += &TEXT.fill("neighbours", holes!(value));
            }
            Near::Strided => {
                let word = |word: u32| {
                    let load = |i: u32| {
                        let at = format!("min({}u, count - 1u)", word * per_word + i);
                        format!("(load_x(first + {at} * params.x_near) << {}u)", i * bits)
                    };
                    let all: Vec<String> = (0..per_word).map(load).collect();
                    format!("        {},\n", all.join(" | "))
                };
                out += &element.storage(1, "x", Form::Scalar, Access::Read);
                out += "\n";
                out += &TEXT.fill("apart", holes!(words = (0..4).map(word).collect::<String>()));
            }
        }
        out + TEXT.get("target") + "\n"
    }
}
