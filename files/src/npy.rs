//! .npy files: a header in Python's notation (`npy/header.rs`) and raw elements, never trusted. The format is NumPy's `numpy.lib.format`.
//!
//! A file's header says how large the data is; nothing is allocated before that was compared with the file's own length.
//! Arrays come out little-endian and row-major whatever the file says, and are written so. Element types without a shader
//! type of their own (complex, ...) pass as bytes; `bfloat16` is stored as numpy's `ml_dtypes` does, as `V2`. 8-bit floats
//! are stored as `u1`, their bits: numpy has no letter for them, and `V1`, which `ml_dtypes` writes, does not say which of
//! the two it is. There `array.view(ml_dtypes.float8_e4m3fn)`, or `float8_e5m2`, reads them.

use std::io::{self, Read, Write};
use std::path::Path;

use polywarp_core::DType;

mod header;

/// Headers are a hundred bytes; format version 1 cannot exceed this.
const MAX_HEADER_BYTES: u64 = 65_536;

/// Most dimensions numpy itself makes.
const MAX_DIMS: usize = 64;

/// What each element of an array is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// numpy's letter: `f`, `i`, `u`, `b`, `c`, `V`.
    letter: char,
    bytes: u64,
}

impl Kind {
    /// The kind that stores `dtype`.
    pub fn of(dtype: DType) -> Kind {
        let letter = match dtype {
            DType::BF16 => 'V',
            DType::F16 | DType::F32 | DType::F64 => 'f',
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
            DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::F8E4M3 | DType::F8E5M2 => 'u',
            DType::Bool => 'b',
            other => unreachable_kind(other),
        };
        Kind { letter, bytes: dtype.size_bytes() }
    }

    /// The dtype that has these elements, if there is one; of bytes it is u8.
    pub fn dtype(&self) -> Option<DType> {
        match (self.letter, self.bytes) {
            ('V', 2) => Some(DType::BF16),
            ('f', 2) => Some(DType::F16),
            ('f', 4) => Some(DType::F32),
            ('f', 8) => Some(DType::F64),
            ('i', 1) => Some(DType::I8),
            ('i', 2) => Some(DType::I16),
            ('i', 4) => Some(DType::I32),
            ('i', 8) => Some(DType::I64),
            ('u', 1) => Some(DType::U8),
            ('u', 2) => Some(DType::U16),
            ('u', 4) => Some(DType::U32),
            ('u', 8) => Some(DType::U64),
            ('b', 1) => Some(DType::Bool),
            _ => None,
        }
    }

    /// As numpy writes it: `<f4`.
    fn descr(&self) -> String {
        let order = if self.bytes == 1 { '|' } else { '<' };
        format!("{order}{}{}", self.letter, self.bytes)
    }
}

/// Dtypes added later are raw bytes until numpy has a letter for them.
fn unreachable_kind(_: DType) -> char {
    'V'
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match (self.letter, self.bytes) {
            ('V', 2) => return f.write_str("bf16"),
            ('b', _) => return f.write_str("bool"),
            (letter, _) => letter,
        };
        write!(f, "{letter}{}", self.bytes * 8)
    }
}

/// What a file holds besides its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Of each element.
    pub kind: Kind,
    /// The extents.
    pub shape: Vec<u64>,
}

impl Form {
    /// Bytes of the elements; `None` beyond what any device holds.
    pub fn size_bytes(&self) -> Option<u64> {
        let bytes = self.shape.iter().try_fold(self.kind.bytes, |product, &dim| product.checked_mul(dim))?;
        (bytes <= 1 << 60).then_some(bytes)
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dims: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{} {}", self.kind, if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") })
    }
}

/// Reads an array as little-endian bytes in row-major order.
///
/// # Errors
/// In words: a file that cannot be read, is not regular, or as [`read_from`].
pub fn read(path: &Path) -> Result<(Form, Vec<u8>), String> {
    let (mut file, length) = crate::open(path)?;
    read_from(&mut file, length)
}

/// The same from a file of `length` bytes.
///
/// # Errors
/// In words, one line: a file that is no .npy file, is damaged, cut off or too long, or has elements that are no numbers.
pub fn read_from(file: &mut impl Read, length: u64) -> Result<(Form, Vec<u8>), String> {
    let header = header_bytes(file, length)?;
    let data_bytes = length - header.len() as u64;
    let text_at = if header[6] == 1 { 10 } else { 12 };
    let parsed = header::parse(&header[text_at..]).map_err(|reason| format!("bad header: {reason}"))?;
    let (kind, swapped) = kind_of(&parsed.descr)?;
    let form = Form { kind, shape: parsed.shape };
    if form.shape.len() > MAX_DIMS {
        return Err(format!("{} dimensions, at most {MAX_DIMS} are supported", form.shape.len()));
    }
    let size = form.size_bytes().ok_or("a header that claims more elements than exist anywhere")?;
    if size > data_bytes {
        return Err(format!("truncated: {form} needs {size} bytes of data, the file has {data_bytes}"));
    }
    if size < data_bytes {
        return Err(format!("{} bytes too many after the data of {form}", data_bytes - size));
    }
    let mut bytes = allocate(size)?;
    file.read_exact(&mut bytes).map_err(|e| e.to_string())?;
    if swapped {
        // A complex number is two floats, each in its own byte order.
        let unit = if form.kind.letter == 'c' { form.kind.bytes / 2 } else { form.kind.bytes };
        bytes.chunks_exact_mut(unit as usize).for_each(<[u8]>::reverse);
    }
    if parsed.fortran_order && form.shape.iter().filter(|&&dim| dim != 1).count() > 1 {
        bytes = to_row_major(&bytes, &form)?;
    }
    Ok((form, bytes))
}

/// A text in one line, without what would not be seen.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Magic, version, length and header, read from a file of `length` bytes.
fn header_bytes(file: &mut impl Read, length: u64) -> Result<Vec<u8>, String> {
    let mut header = Vec::new();
    let mut take = |count: u64, header: &mut Vec<u8>| -> Result<(), String> {
        let got = file.by_ref().take(count).read_to_end(header).map_err(|e| e.to_string())?;
        if got as u64 == count { Ok(()) } else { Err("truncated in its header".to_owned()) }
    };
    take(8, &mut header).map_err(|_| "not a .npy file (too short)".to_owned())?;
    if &header[..6] != b"\x93NUMPY" {
        return Err("not a .npy file (it does not start with \\x93NUMPY)".to_owned());
    }
    let length_bytes = match header[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(format!("unknown .npy version {version}")),
    };
    take(length_bytes, &mut header)?;
    let text_bytes = header[8..].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    if text_bytes > MAX_HEADER_BYTES {
        return Err(format!("a header of {text_bytes} bytes, more than {MAX_HEADER_BYTES}"));
    }
    if header.len() as u64 + text_bytes > length {
        return Err("truncated in its header".to_owned());
    }
    take(text_bytes, &mut header)?;
    Ok(header)
}

/// The kind of elements, and whether their bytes are in big-endian order.
fn kind_of(descr: &str) -> Result<(Kind, bool), String> {
    let refused = || format!("elements of type {}; numbers are expected", descr.chars().take(32).collect::<String>());
    let (order, letter, size) = match descr.as_bytes() {
        [order @ (b'<' | b'>' | b'=' | b'|'), letter, size @ ..] => (*order, *letter, size),
        [b'?'] => (b'|', b'b', &b"1"[..]),
        _ => return Err(refused()),
    };
    let bytes: u64 = std::str::from_utf8(size).ok().and_then(|digits| digits.parse().ok()).ok_or_else(refused)?;
    let letter = match (letter, bytes) {
        (b'b' | b'?', 1) => 'b',
        (b'i', 1 | 2 | 4 | 8) => 'i',
        (b'u', 1 | 2 | 4 | 8) => 'u',
        (b'f', 2 | 4 | 8) => 'f',
        (b'c', 8 | 16) => 'c',
        (b'V', 2) => 'V',
        _ => return Err(refused()),
    };
    if order == b'|' && bytes > 1 && letter != 'V' {
        return Err(format!("elements of type {descr}, which does not say their byte order"));
    }
    // NumPy writes `<` or `>`; `=` would be the order of the machine, which wrote it.
    let is_big = order == b'>' || (order == b'=' && cfg!(target_endian = "big"));
    Ok((Kind { letter, bytes }, is_big && letter != 'V'))
}

/// Zeroed memory, or an error instead of an abort.
fn allocate(size: u64) -> Result<Vec<u8>, String> {
    let too_much = |_| format!("no memory for {size} bytes");
    let count = usize::try_from(size).map_err(|_| format!("no memory for {size} bytes"))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(too_much)?;
    bytes.resize(count, 0);
    Ok(bytes)
}

/// Column-major elements (numpy's Fortran order) in row-major order.
fn to_row_major(bytes: &[u8], form: &Form) -> Result<Vec<u8>, String> {
    let element = form.kind.bytes as usize;
    let mut out = allocate(bytes.len() as u64)?;
    let mut index = vec![0_u64; form.shape.len()];
    // Strides of the source, in elements: the first dimension is the fastest.
    let strides: Vec<u64> =
        form.shape.iter().scan(1, |next, &dim| Some(std::mem::replace(next, *next * dim))).collect();
    let mut from = 0;
    for target in out.chunks_exact_mut(element) {
        let at = from as usize * element;
        target.copy_from_slice(&bytes[at..at + element]);
        for axis in (0..index.len()).rev() {
            (index[axis], from) = (index[axis] + 1, from + strides[axis]);
            if index[axis] < form.shape[axis] {
                break;
            }
            (from, index[axis]) = (from - strides[axis] * form.shape[axis], 0);
        }
    }
    Ok(out)
}

/// Writes an array of little-endian bytes in row-major order.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, form: &Form, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&header(form)).and_then(|()| out.write_all(bytes))
}

/// A version 1.0 header, padded so that the data starts at a multiple of 64 bytes.
fn header(form: &Form) -> Vec<u8> {
    let dims: String = form.shape.iter().map(|dim| format!("{dim}, ")).collect();
    let shape = if form.shape.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let descr = form.kind.descr();
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.bytes());
    header
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
