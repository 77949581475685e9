//! 2:4 compression, decompression, and products with a compressed left operand.
//!
//! A product decompresses its left operand into scratch memory and then is the dense product that it stands for, by any of that
//! one's ways: there are no portable sparse matrix instructions, and what is written and read again is 1/n of the work.

use crate::ops::sparse24::magnitude_bits;
use crate::ops::{Compress24, Decompress24, Part24, SparseMatmul};
use crate::{DType, Operation, Result};

use crate::ops::matmul::plan as matmul;
use crate::plan::{Access, Candidate, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source, looped};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("sparse24.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Quads or words that an invocation makes.
const ITEMS: u32 = 2;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    step: Step,
    threads: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        // 1: a short last quad is stored whole.
        let more = if let Step::Decompress { .. } = self.step { "    whole_end: u32,\n" } else { "" };
        let mut text = format!("const THREADS = {}u;\nconst ITEMS = {ITEMS}u;\n\n", self.threads);
        text += &TEXT.fill("params", holes!(more));
        let (name, element, bindings) = match self.step {
            Step::Compress { part, dtype } => {
                let element = Element::raw(dtype.size_bytes());
                text += &element.storage(1, "x", Form::Scalar, Access::Read);
                text += &magnitudes(dtype);
                text += include_str!("../../../wgsl/sparse24_group.wgsl");
                let name = match part {
                    Part24::Values => {
                        text += &element.storage(2, "y", Form::Quad, Access::ReadWrite);
                        text += include_str!("../../../wgsl/sparse24_values.wgsl");
                        "values"
                    }
                    Part24::Metadata => {
                        text += "@group(0) @binding(2) var<storage, read_write> y: array<u32>;\n";
                        text += include_str!("../../../wgsl/sparse24_metadata.wgsl");
                        "metadata"
                    }
                };
                (format!("sparse24_{name}_{dtype}"), element, vec![Access::Read, Access::ReadWrite])
            }
            Step::Decompress { size_bytes, whole } => {
                let element = Element::raw(size_bytes);
                text += &format!("const WHOLE = {whole};\n");
                text += &element.storage(1, "x", Form::Scalar, Access::Read);
                text += "@group(0) @binding(2) var<storage, read> metadata: array<u32>;\n";
                text += &element.storage(3, "y", Form::Quad, Access::ReadWrite);
                text += include_str!("../../../wgsl/sparse24_decompress.wgsl");
                let name = format!("sparse24_decompress_{size_bytes}");
                (name, element, vec![Access::Read, Access::Read, Access::ReadWrite])
            }
        };
        Source { name, wgsl: element::prelude(&[element]) + &text, bindings }
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        // A word of metadata holds eight groups.
        let groups = if let Step::Compress { part: Part24::Metadata, .. } = self.step { looped(8, 0) } else { 0 };
        looped(ITEMS.into(), groups)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Compress {
        part: Part24,
        dtype: DType,
    },
    /// Bits move, whatever they mean.
    Decompress {
        size_bytes: u64,
        /// Rows are whole groups.
        whole: bool,
    },
}

/// One launch: an invocation makes `ITEMS` of `units`, each four elements or one word.
fn launch(step: Step, units: u64, bindings: Vec<Slot>, params: &[u64], caps: &Caps) -> Result<Launch> {
    let threads = THREADS.min(caps.max_invocations);
    let mut params: Vec<u32> = [units].iter().chain(params).map(|&word| word as u32).collect();
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(units.div_ceil(u64::from(threads * ITEMS)))?;
    Ok(Launch { kernel: KernelKey::own(Kernel { step, threads }), grid, bindings, params })
}

pub(crate) fn compress(op: &Compress24, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    let (elements, offset) = (op.output.layout.elements(), op.output.layout.offset());
    let groups = op.k().div_ceil(4);
    // Quads of values, words of metadata.
    let width = if op.part == Part24::Values { 4 } else { 1 };
    let params = [elements % width, op.k(), groups, groups.div_ceil(8), op.input.layout.offset(), offset / width];
    let step = Step::Compress { part: op.part, dtype: op.input.dtype };
    let launch = launch(step, elements.div_ceil(width), vec![Slot::Input(0), Slot::Output(0)], &params, caps)?;
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

pub(crate) fn decompress(op: &Decompress24, caps: &Caps) -> Result<Plan> {
    Ok(Plan { launches: vec![decompression(op, End::Exact, caps)?], scratch_bytes: Vec::new() })
}

/// What becomes of a short last quad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// What lies behind the last element stays.
    Exact,
    /// It is written whole: nothing lies there.
    Whole,
}

fn decompression(op: &Decompress24, end: End, caps: &Caps) -> Result<Launch> {
    for spec in [&op.values, &op.metadata, &op.output] {
        check_index(op.name(), spec)?;
    }
    let (elements, offset) = (op.output.layout.elements(), op.output.layout.offset());
    let groups = op.k().div_ceil(4);
    let params = [
        elements % 4,
        op.k(),
        groups,
        groups.div_ceil(8),
        op.values.layout.offset(),
        offset / 4,
        op.metadata.layout.offset(),
        u64::from(end == End::Whole),
    ];
    let step = Step::Decompress { size_bytes: op.output.dtype.size_bytes(), whole: op.k().is_multiple_of(4) };
    let bindings = vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)];
    launch(step, elements.div_ceil(4), bindings, &params, caps)
}

pub(crate) fn multiply(op: &SparseMatmul, caps: &Caps) -> Result<Plan> {
    decompressed(op, matmul::plan(&op.product, caps)?, caps)
}

pub(crate) fn candidates(op: &SparseMatmul, caps: &Caps) -> Result<Vec<Candidate>> {
    let dense = matmul::candidates(&op.product, caps)?;
    let sparse = |found: Candidate| {
        let name = format!("sparse24_{}", found.name);
        Ok(Candidate { name, plan: decompressed(op, found.plan, caps)?, ..found })
    };
    dense.into_iter().map(sparse).collect()
}

/// `product`, of the dense op, after what makes its left operand.
fn decompressed(op: &SparseMatmul, mut product: Plan, caps: &Caps) -> Result<Plan> {
    let dense = Slot::Scratch(product.scratch_bytes.len());
    let mut used = false;
    for slot in product.launches.iter_mut().flat_map(|launch| &mut launch.bindings) {
        *slot = match *slot {
            Slot::Input(0) => {
                used = true;
                dense
            }
            Slot::Input(other) => Slot::Input(other + 1),
            other => other,
        };
    }
    // A sum of nothing reads no operand.
    if used {
        let decompress = op.decompress()?;
        // Kernels read whole quads.
        let mut first = decompression(&decompress, End::Whole, caps)?;
        for slot in first.bindings.iter_mut().filter(|slot| **slot == Slot::Output(0)) {
            *slot = dense;
        }
        product.scratch_bytes.push(decompress.output.required_bytes().next_multiple_of(16));
        product.launches.insert(0, first);
    }
    Ok(product)
}

/// `magnitudes`: what is compared of the bits of four elements.
fn magnitudes(dtype: DType) -> String {
    let value = match magnitude_bits(dtype) {
        Some((mask, nan)) => format!("min(bits & vec4<u32>({mask:#x}u), vec4<u32>({nan:#x}u))"),
        // i8: -128 has a magnitude of its own.
        None => "min(bits, vec4<u32>(256u) - bits)".to_owned(),
    };
    TEXT.fill("magnitudes", holes!(value)) + "\n"
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
