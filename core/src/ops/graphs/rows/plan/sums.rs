//! Several sums down the columns, of which each workgroup left its part, added up by one launch: as many grids side by side as there are sums.
//!
//! The frame (loops, lanes) is that of a reduction of one of them.

use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::{Fold, Partials, Text, View, passes};
use crate::plan::{Access, Caps, Launch, Slot};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};
use crate::{DType, Result, TensorSpec};

const TEXT: Pieces = pieces!("rows_sums.wgsl");

/// Sums side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sums {
    parts: Element,
    /// Of each sum, what it is written as, and whether four at a time.
    outputs: Vec<(Element, bool)>,
}

/// Reading and writing are told first which sum it is.
impl Fold for Sums {
    fn text(&self, frame: &Frame) -> Text {
        let (sums, load) = (self.outputs.len(), if frame.quad { "load4_" } else { "load_" });
        let elements: Vec<Element> = std::iter::once(self.parts).chain(self.outputs.iter().map(|out| out.0)).collect();
        let mut buffers = String::new();
        for sum in 0..sums {
            buffers += &self.parts.storage(1 + sum as u32, &format!("x{sum}"), frame.form(), Access::Read);
        }
        for (sum, (element, whole)) in self.outputs.iter().enumerate() {
            let form = if *whole { Form::Quad } else { Form::Scalar };
            buffers += &element.storage((1 + sums + sum) as u32, &format!("y{sum}"), form, Access::ReadWrite);
        }
        let read = |sum: usize| TEXT.fill("read", holes!(case = case(sum), load, sum));
        let write = |(sum, (_, whole)): (usize, &(Element, bool))| {
            let base = if sum == 0 { "params.target_base".to_owned() } else { format!("params.target_base_{sum}") };
            let stores = match (frame.quad, whole) {
                (false, _) => format!("            store_y{sum}({base} + index, v);\n"),
                (true, true) => format!("            store4_y{sum}({base} + index, v);\n"),
                (true, false) => {
                    let store = |i: u32| format!("            store_y{sum}({base} + 4u * index + {i}u, v[{i}]);\n");
                    (0..4).map(store).collect()
                }
            };
            TEXT.fill("write", holes!(case = case(sum), stores))
        };
        let reads: String = (0..sums).rev().map(read).collect();
        let writes: String = self.outputs.iter().enumerate().rev().map(write).collect();
        let written: Vec<&str> = self.outputs.iter().map(|(element, _)| element.dtype().name()).collect();
        Text {
            name: format!("sums_{}_{}", frame.suffix(), written.join("_")),
            elements,
            members: (1..sums).map(|sum| format!("target_base_{sum}")).collect(),
            bindings: [vec![Access::Read; sums], vec![Access::ReadWrite; sums]].concat(),
            buffers,
            state: TEXT.fill("state", holes!(wide = frame.wide(self.parts))) + FOLD.get("absorb"),
            read: TEXT.fill("reads", holes!(reads)),
            finish: TEXT.fill("writes", holes!(writes)),
            body: frame.body_of_grids("read_of", "write_of"),
        }
    }
}

fn case(sum: usize) -> String {
    if sum == 0 { "default:".to_owned() } else { format!("case {sum}u:") }
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
    if pass.walk.is_rows() {
        return Ok(None);
    }
    let whole = |spec: &TensorSpec| pass.quad && spec.layout.offset().is_multiple_of(4);
    let base = |spec: &TensorSpec| spec.layout.offset() / if whole(spec) { 4 } else { 1 };
    let element = |spec: &TensorSpec| Ok((Element::new(spec.dtype, caps)?, whole(spec)));
    let fold = Sums {
        parts: Element::new(DType::F32, caps)?,
        outputs: outputs.iter().map(|(_, spec)| element(spec)).collect::<Result<_>>()?,
    };
    let Some((first, others)) = outputs.split_first() else { return Ok(None) };
    let mut launch = pass.launch(fold, 0, base(&first.1), caps)?;
    launch.grid[2] = outputs.len() as u32;
    launch.params.extend(others.iter().map(|(_, spec)| base(spec) as u32));
    launch.bindings = (0..outputs.len()).map(Slot::Scratch).chain(outputs.iter().map(|(slot, _)| *slot)).collect();
    Ok(Some(launch))
}
