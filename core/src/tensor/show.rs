//! A tensor as text for people: its numbers in NumPy's brackets, then dtype, shape and device.
//!
//! It reads the tensor, and so waits for the device. A text cannot fail, so an error stands in it. Of a long tensor only the
//! ends of its long axes are read.

use std::fmt;

use crate::{DType, Result, Scalar, Tensor};

/// A tensor of more elements shows [`EDGE`] indices of each end of an axis that is longer than both ends: NumPy's numbers.
const MOST: u64 = 1000;
const EDGE: u64 = 3;
/// A row of numbers goes on in the next line behind this column.
const COLUMNS: usize = 80;

/// The numbers as NumPy shows them, then dtype, shape and device; waits for the device. Whole numbers are exact, others have
/// the fewest digits that tell them apart from their neighbours in the dtype. Beyond 1000 elements only the three indices at each end of a long axis are read and shown. An error of the read
/// stands in the text; [`Error::PositionOutside`](crate::Error::PositionOutside) is then told, as by any read.
///
/// ```
/// use polywarp_core::{DType, Device, Tensor};
///
/// let x = Tensor::arange(&Device::cpu(), DType::F32, 0, 0.5, 6)?.reshape([2, 3])?;
/// assert_eq!(x.to_string(), "[[0.0, 0.5, 1.0],\n [1.5, 2.0, 2.5]] (f32 [2, 3] on cpu)");
/// # Ok::<(), polywarp_core::Error>(())
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape, device) = (self.dtype(), self.shape(), self.device().id());
        match numbers(self) {
            Ok(numbers) => write!(f, "{numbers} ({dtype} {shape} on {device})"),
            Err(error) => write!(f, "({dtype} {shape} on {device}, and cannot be read: {error})"),
        }
    }
}

fn numbers(tensor: &Tensor) -> Result<String> {
    let is_cut = |extent: u64| tensor.elements() > MOST && extent > 2 * EDGE;
    let cut: Vec<bool> = tensor.dims().iter().map(|&extent| is_cut(extent)).collect();
    // Reading is no part of a computation that a tape follows.
    let ends = ends(&tensor.detach(), &cut, 0)?;
    let bytes = ends.to_bytes()?;
    let elements = bytes.chunks_exact(tensor.dtype().size_bytes() as usize);
    let texts: Vec<String> = elements.map(|element| text(element, tensor.dtype())).collect();
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    let rows = Rows { texts: &texts, width, dims: ends.dims(), cut: &cut };
    rows.write(&mut out, 0, 0);
    Ok(out)
}

/// The tensor with the ends alone of the axes that are cut, from `axis` on.
fn ends(tensor: &Tensor, cut: &[bool], axis: usize) -> Result<Tensor> {
    let Some(axis) = (axis..cut.len()).find(|&axis| cut[axis]) else { return Ok(tensor.clone()) };
    let extent = tensor.dims()[axis];
    let [front, back] = [0..EDGE, extent - EDGE..extent];
    let end = |range| ends(&tensor.slice(axis, range)?, cut, axis + 1);
    Tensor::cat(&[&end(front)?, &end(back)?], axis)
}

/// One element with the fewest digits that give it again.
fn text(element: &[u8], dtype: DType) -> String {
    match Scalar::from_le_bytes(element, dtype) {
        number if dtype == DType::Bool => (number != Scalar::I(0)).to_string(),
        Scalar::F(x) if x == x.trunc() && x.abs() < 1e16 => format!("{x:?}"),
        Scalar::F(x) if x.is_finite() => {
            // 17 digits tell any two f64 apart.
            let rounded = (0..17).filter_map(|digits| format!("{x:.digits$e}").parse::<f64>().ok());
            let mut same = rounded.filter(|&y| Scalar::F(y).kept_in(dtype) == Scalar::F(x));
            format!("{:?}", same.next().unwrap_or(x))
        }
        Scalar::F(x) => x.to_string(),
        integer => integer.to_string(),
    }
}

/// The texts of what is shown, row-major.
struct Rows<'a> {
    texts: &'a [String],
    width: usize,
    /// Extents of what is shown.
    dims: &'a [u64],
    /// Axes that are shown by their ends alone.
    cut: &'a [bool],
}

impl Rows<'_> {
    /// Writes the part below `axis` that begins with text number `first`.
    fn write(&self, out: &mut String, axis: usize, first: usize) {
        let Some(&extent) = self.dims.get(axis) else {
            let text = self.texts.get(first).map_or("", String::as_str);
            out.push_str(&format!("{text:>width$}", width = self.width));
            return;
        };
        let below = &self.dims[axis + 1..];
        let step = below.iter().product::<u64>() as usize;
        let is_row = below.is_empty();
        let margin = " ".repeat(axis + 1);
        let fits = (COLUMNS.saturating_sub(axis + 1) / (self.width + 2)).max(1);
        // Between rows stands a new line, between matrices an empty one more, and so on.
        let gap = if is_row { " ".to_owned() } else { "\n".repeat(below.len()) + &margin };
        out.push('[');
        let mut in_line = 0;
        for index in 0..extent as usize {
            if index > 0 {
                out.push(',');
                let is_full = is_row && in_line == fits;
                out.push_str(&if is_full { format!("\n{margin}") } else { gap.clone() });
                in_line = if is_full { 0 } else { in_line };
            }
            if self.cut[axis] && index as u64 == EDGE {
                out.push_str("...,");
                out.push_str(&gap);
            }
            self.write(out, axis + 1, first + index * step);
            in_line += 1;
        }
        out.push(']');
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use half::f16;

    use super::*;
    use crate::{Device, F8E4M3, Tape};

    fn shown(tensor: &Tensor) -> String {
        let text = tensor.to_string();
        let (numbers, facts) = text.rsplit_once(" (").expect("dtype, shape and device stand behind the numbers");
        assert!(facts.starts_with(tensor.dtype().name()) && facts.ends_with("on cpu)"), "{text}");
        numbers.to_owned()
    }

    #[test]
    fn numbers_have_the_fewest_digits_of_their_dtype() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[0.1f32, -0.0, 1e20, f32::INFINITY, f32::NAN, 1.0 / 3.0], [6]).unwrap();
        assert_eq!(shown(&x), "[       0.1,       -0.0,       1e20,        inf,        NaN, 0.33333334]");
        let halves = Tensor::from_slice(&device, &[f16::from_f32(0.1), f16::MAX], [2]).unwrap();
        assert_eq!(shown(&halves), "[    0.1, 65504.0]");
        let bytes = Tensor::from_slice(&device, &[F8E4M3::from_f32(0.1), F8E4M3::from_f32(448.0)], [2]).unwrap();
        assert_eq!(shown(&bytes), "[  0.1, 448.0]");
        let wide = Tensor::from_slice(&device, &[u64::MAX, (1 << 53) + 1], [2]).unwrap();
        assert_eq!(shown(&wide), "[18446744073709551615,     9007199254740993]");
        assert_eq!(shown(&Tensor::from_slice(&device, &[true, false], [2]).unwrap()), "[ true, false]");
        let double = Tensor::from_slice(&device, &[0.1f64 + 0.2], [1]).unwrap();
        assert_eq!(shown(&double), "[0.30000000000000004]");
    }

    #[test]
    fn every_rank_has_its_brackets() {
        let device = Device::cpu();
        let x = Tensor::arange(&device, DType::I32, 0, 1, 8).unwrap();
        assert_eq!(shown(&x.select(0, 7).unwrap()), "7");
        assert_eq!(shown(&x.reshape([2, 2, 2]).unwrap()), "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
        assert_eq!(shown(&x.reshape([2, 4]).unwrap().t().unwrap()), "[[0, 4],\n [1, 5],\n [2, 6],\n [3, 7]]", "a view");
        let none = Tensor::zeros(&device, DType::F32, [0, 3]).unwrap();
        assert_eq!(none.to_string(), "[] (f32 [0, 3] on cpu)");
        assert_eq!(Tensor::zeros(&device, DType::F32, [2, 0]).unwrap().to_string(), "[[],\n []] (f32 [2, 0] on cpu)");
    }

    #[test]
    fn long_tensors_show_the_ends_of_their_long_axes() {
        let x = Tensor::arange(&Device::cpu(), DType::I32, 0, 1, 2000).unwrap();
        assert_eq!(shown(&x), "[   0,    1,    2, ..., 1997, 1998, 1999]");
        let (two, columns) = (x.reshape([2, 1000]).unwrap(), x.reshape([1000, 2]).unwrap());
        assert_eq!(
            shown(&two),
            "[[   0,    1,    2, ...,  997,  998,  999],\n [1000, 1001, 1002, ..., 1997, 1998, 1999]]"
        );
        let [front, back] =
            ["[[   0,    1],\n [   2,    3],\n [   4,    5],\n", " [1994, 1995],\n [1996, 1997],\n [1998, 1999]]"];
        assert_eq!(shown(&columns), format!("{front} ...,\n{back}"));
        let square = shown(&x.reshape([40, 50]).unwrap());
        assert_eq!((square.lines().count(), square.matches("...,").count()), (7, 7));
        assert!(square.contains("1997") && !square.contains("1000"), "{square}");
    }

    #[test]
    fn long_rows_go_on_in_the_next_line() {
        let x = Tensor::arange(&Device::cpu(), DType::I32, 100, 1, 60).unwrap();
        let text = shown(&x.unsqueeze(0).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() <= COLUMNS + 2), "{text}");
        assert!(lines[0].starts_with("[[100, 101") && lines[1].starts_with("  115, 116"), "{text}");
        assert!(lines[3].ends_with("158, 159]]"), "{text}");
    }

    #[test]
    fn watched_tensors_are_shown_and_a_recording_says_why_not() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[1i32, 2], [2]).unwrap().cast(DType::F32).unwrap();
        let tape = Tape::new();
        let watched = tape.watch(&x).unwrap();
        assert_eq!(shown(&watched.reshape([2, 1]).unwrap().t().unwrap()), "[[1.0, 2.0]]");
        let mut text = String::new();
        let _ = device.record(|| {
            text = x.to_string();
            x.exp()
        });
        assert!(text.starts_with("(f32 [2] on cpu, and cannot be read: ") && text.contains("record"), "{text}");
    }
}
