//! Several sums down the columns, of which each workgroup left its part, added up by one launch: as many grids side by side as there are sums.
//!
//! The frame (loops, lanes) is that of a reduction of one of them.

use crate::ops::fold::frame::{FOLD, Frame, launch};
use crate::ops::fold::{Partials, View, Walk, passes};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};
use crate::{DType, Result, TensorSpec};

const TEXT: Pieces = pieces!("rows_sums.wgsl");

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    parts: Element,
    /// Of each sum, what it is written as, and whether four at a time.
    outputs: Vec<(Element, bool)>,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let (sums, quad) = (self.outputs.len(), self.frame.quad);
        let elements: Vec<Element> = std::iter::once(self.parts).chain(self.outputs.iter().map(|out| out.0)).collect();
        let bases: Vec<String> = (1..sums).map(|sum| format!("target_base_{sum}")).collect();
        let mut wgsl = element::prelude(&elements);
        wgsl += &self.frame.head(&bases);
        let form = |quad| if quad { Form::Quad } else { Form::Scalar };
        for sum in 0..sums {
            wgsl += &self.parts.storage(1 + sum as u32, &format!("x{sum}"), form(quad), Access::Read);
        }
        for (sum, (element, whole)) in self.outputs.iter().enumerate() {
            wgsl += &element.storage((1 + sums + sum) as u32, &format!("y{sum}"), form(*whole), Access::ReadWrite);
        }
        wgsl += &self.functions();
        wgsl += &self.frame.body_of_grids("read_of", "write_of");
        let mut bindings = vec![Access::Read; sums];
        bindings.extend(vec![Access::ReadWrite; sums]);
        let written: Vec<&str> = self.outputs.iter().map(|(element, _)| element.dtype().name()).collect();
        Source { name: format!("sums_{}_{}", self.frame.suffix(), written.join("_")), wgsl, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }
}

impl Kernel {
    /// What the loops call: which sum it is comes first.
    fn functions(&self) -> String {
        let (wide, load) = if self.frame.quad { ("vec4<f32>", "load4_") } else { ("f32", "load_") };
        let case = |sum: usize| if sum == 0 { "default:".to_owned() } else { format!("case {sum}u:") };
        let read = |sum: usize| TEXT.fill("read", holes!(case = case(sum), load, sum));
        let write = |(sum, (_, whole)): (usize, &(Element, bool))| {
            let base = if sum == 0 { "params.target_base".to_owned() } else { format!("params.target_base_{sum}") };
            let stores = match (self.frame.quad, whole) {
                (false, _) => format!("            store_y{sum}({base} + index, v);\n"),
                (true, true) => format!("            store4_y{sum}({base} + index, v);\n"),
                (true, false) => {
                    let store = |i: u32| format!("            store_y{sum}({base} + 4u * index + {i}u, v[{i}]);\n");
                    (0..4).map(store).collect()
                }
            };
            TEXT.fill("write", holes!(case = case(sum), stores))
        };
        let reads: String = (0..self.outputs.len()).rev().map(read).collect();
        let writes: String = self.outputs.iter().enumerate().rev().map(write).collect();
        let functions = TEXT.fill("functions", holes!(wide));
        functions + FOLD.get("absorb") + &TEXT.fill("read and write", holes!(reads, writes))
    }
}

/// The launch that adds up, for each of `outputs`, what lies in a scratch buffer of its number as `parts` says, [parts, columns] of f32;
/// `None` where that takes more than one, or more buffers than the device binds.
pub(super) fn plan(parts: &TensorSpec, outputs: &[(Slot, TensorSpec)], caps: &Caps) -> Result<Option<Launch>> {
    if 2 * outputs.len() > caps.max_storage_buffers as usize || outputs.len() > caps.max_workgroups[2] as usize {
        return Ok(None);
    }
    for (_, spec) in outputs {
        check_index("sum", spec)?;
    }
    let (list, _) = passes(View::of_input(&parts.layout, &[0]), Partials::elements(parts.dtype), caps);
    let [pass] = list.as_slice() else { return Ok(None) };
    if !matches!(pass.walk, Walk::Columns { .. }) {
        return Ok(None);
    }
    let whole = |spec: &TensorSpec| pass.quad && spec.layout.offset().is_multiple_of(4);
    let base = |spec: &TensorSpec| spec.layout.offset() / if whole(spec) { 4 } else { 1 };
    let element = |spec: &TensorSpec| Ok((Element::new(spec.dtype, caps)?, whole(spec)));
    let kernel = Kernel {
        frame: Frame::of(pass),
        parts: Element::new(DType::F32, caps)?,
        outputs: outputs.iter().map(|(_, spec)| element(spec)).collect::<Result<_>>()?,
    };
    let Some((first, others)) = outputs.split_first() else { return Ok(None) };
    let mut launch = launch(KernelKey::own(kernel), pass, 0, base(&first.1), caps)?;
    launch.grid[2] = outputs.len() as u32;
    launch.params.extend(others.iter().map(|(_, spec)| base(spec) as u32));
    launch.bindings = (0..outputs.len()).map(Slot::Scratch).chain(outputs.iter().map(|(slot, _)| *slot)).collect();
    Ok(Some(launch))
}
