//! Elements: how each dtype is declared, read and written in WGSL. The heart of dtype support in these kernels.
//!
//! Storage needs no optional feature but for the 64-bit types: types of 8 and 16 bits are bits of u32 words, widened by the functions in `wgsl/element/`. Where shaders have f16 ([`Caps::f16`]) f16 is stored as itself.
//!
//! | dtype | computed as | quad (4 elements) in storage | scalar in storage |
//! |---|---|---|---|
//! | f32, i32, u32 | itself | `vec4<T>` | `T` |
//! | f64, i64, u64 | itself (needs [`Caps`]) | two `vec2<T>` | `T` |
//! | f16 | f32 | `vec4<f16>`, or `vec2<u32>` | `f16`, or half a `u32` |
//! | bf16 | f32 | `vec2<u32>` | half a `u32` |
//! | i16, u16 | i32, u32 | `vec2<u32>` | half a `u32` |
//! | f8e4m3, f8e5m2 | f32 | `u32` | a quarter of a `u32` |
//! | i8, u8 | i32, u32 | `u32` | a quarter of a `u32` |
//! | bool | bool | `u32` | a quarter of a `u32` |
//!
//! A kernel is assembled as [`prelude`] (once, first in the text: it holds the `enable`s) then [`Element::storage`] for
//! each buffer. `storage(binding, "x", form, access)` declares `var x` and these functions, `C` being [`Element::scalar`]:
//!
//! | form | access | functions |
//! |---|---|---|
//! | `Scalar` | `Read` | `load_x(i: u32) -> C` |
//! | `Scalar` | `ReadWrite` | also `store_x(i: u32, v: C)`; several invocations may write elements of one word (atomics) |
//! | `Pair` | `Read` | `load2_x(p: u32) -> vec2<C>` of elements 2p, 2p+1; not of 8-bit types |
//! | `Pair` | `ReadWrite` | also `store2_x(p: u32, v: vec2<C>)` |
//! | `Quad` | `Read` | `load_x(i: u32) -> C`, `load4_x(q: u32) -> vec4<C>` of elements 4q .. 4q+3 |
//! | `Oct` | `Read` | `load_x(i: u32) -> C`, `words_x(o: u32) -> vec4<u32>` of elements 8o .. 8o+7, `unpack4_x(w: vec2<u32>) -> vec4<C>` of half of these; of f16 and bf16 |
//! | `Oct` | `ReadWrite` | `store8_x(o: u32, a: vec4<C>, b: vec4<C>)` alone, and that where [`Element::stores_octs`] |
//! | `Quad` | `ReadWrite` | also `store4_x(q: u32, v: vec4<C>)` and `store_tail_x(q: u32, v: vec4<C>, count: u32)` |
//!
//! `store_tail_x` writes the first `count` (0 to 3) elements of the quad and leaves every other byte as it was; the
//! quad must have one owner, because a shared word is read, changed and written back. `load4_x` of a quad whose first
//! element exists reads inside the buffer (buffers are a multiple of 16 bytes long); the elements behind the last one
//! hold anything. Nothing else is checked: kernels run without bounds checks.
//!
//! Values a kernel has computed are rounded by the stores: [`Element::round`] is for those that stay in registers.

use crate::{DType, Result, Scalar};

use crate::plan::{Access, Caps};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("element.wgsl");

/// A dtype and how this device stores it. Part of kernel keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Element {
    dtype: DType,
    kind: Kind,
}

/// What tells two elements of one dtype apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// As the table says.
    Plain,
    /// f16 as itself.
    NativeF16,
    /// Two bytes as they are, in a u32.
    RawHalf,
    /// f8e5m2 of which infinities are stored as they are: numbers of it that were only moved or chosen.
    Kept,
}

/// How a buffer is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// One element at a time, at any index.
    Scalar,
    /// Two consecutive elements at a time, from a multiple of two: of types of 16 bits and more.
    Pair,
    /// Four consecutive elements at a time, from a multiple of four.
    Quad,
    /// Eight consecutive elements at a time, from a multiple of eight: of f16 and bf16. What is written so is not read.
    Oct,
}

/// What one array item of a declaration is.
#[derive(Clone, Copy)]
enum Repr {
    /// A WGSL type of the element's own: 2, 4 or 8 bytes.
    Typed(&'static str),
    /// `bits` bits of a u32 word.
    Packed { bits: u32 },
}

impl Element {
    /// How a device stores and computes `dtype`.
    ///
    /// # Errors
    /// [`crate::Error::UnsupportedDType`] when its shaders lack the type.
    pub(crate) fn new(dtype: DType, caps: &Caps) -> Result<Element> {
        caps.require(dtype)?;
        let native = dtype == DType::F16 && caps.f16;
        Ok(Element { dtype, kind: if native { Kind::NativeF16 } else { Kind::Plain } })
    }

    /// f32, or f64 on a device that was asked for it.
    pub(crate) fn plain(dtype: DType) -> Element {
        Element { dtype, kind: Kind::Plain }
    }

    /// `size_bytes` (1, 2, else 4) bytes that are moved and never computed with, as u32. Needs no feature.
    pub(crate) fn raw(size_bytes: u64) -> Element {
        match size_bytes {
            1 => Element { dtype: DType::U8, kind: Kind::Plain },
            2 => Element { dtype: DType::F16, kind: Kind::RawHalf },
            _ => Element { dtype: DType::U32, kind: Kind::Plain },
        }
    }

    /// The same element where what is stored are numbers of its dtype already: an infinite f8e5m2 is not clipped.
    pub(crate) fn kept(self) -> Element {
        if self.dtype == DType::F8E5M2 { Element { kind: Kind::Kept, ..self } } else { self }
    }

    /// What the conversion functions of packed elements are named by.
    fn suffix(self) -> &'static str {
        match self.kind {
            Kind::RawHalf => "u16",
            Kind::Kept => "f8e5m2_kept",
            Kind::Plain | Kind::NativeF16 => self.dtype.name(),
        }
    }

    /// The dtype.
    pub(crate) fn dtype(self) -> DType {
        self.dtype
    }

    /// The WGSL type values are computed in.
    pub(crate) fn scalar(self) -> &'static str {
        if self.kind == Kind::RawHalf { "u32" } else { compute_type(self.dtype) }
    }

    /// Four of them.
    pub(crate) fn vector(self) -> String {
        format!("vec4<{}>", self.scalar())
    }

    /// `value` (an expression of type [`Element::scalar`]) as it will read after a store: rounded or wrapped to the dtype.
    pub(crate) fn round(self, value: &str) -> String {
        match self.dtype {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => {
                format!("round_{}({value})", self.dtype)
            }
            DType::I8 | DType::U8 | DType::I16 | DType::U16 => format!("round_{}({value})", self.dtype),
            _ => value.to_owned(),
        }
    }

    /// The type that carries a value of this dtype in `Params`: the computed one, bool as u32.
    pub(crate) fn param_type(self) -> &'static str {
        if self.dtype == DType::Bool { "u32" } else { self.scalar() }
    }

    /// The words of `value` as a member of [`Element::param_type`], low word first: of floats in the type that computes, not
    /// rounded to the dtype. Align two words to an even offset.
    pub(crate) fn param_words(self, value: Scalar) -> Vec<u32> {
        let value = if self.dtype.is_float() { value } else { value.cast(self.dtype) };
        let carried = if self.dtype == DType::Bool { DType::U32 } else { self.dtype.compute() };
        let bytes = value.to_le_bytes(carried);
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    /// A member of [`Element::param_type`] as a value of type [`Element::scalar`].
    pub(crate) fn param_value(self, member: &str) -> String {
        if self.dtype == DType::Bool { format!("({member} != 0u)") } else { member.to_owned() }
    }

    /// The declaration of `var name` at `@group(0) @binding(binding)` and its functions: see the module's head.
    pub(crate) fn storage(self, binding: u32, name: &str, form: Form, access: Access) -> String {
        let (item, functions) = match form {
            Form::Scalar => self.scalars(name, access),
            Form::Pair => self.pairs(name, access),
            Form::Quad => self.quads(name, access),
            Form::Oct => ("vec4<u32>".to_owned(), self.octs(name, access)),
        };
        let mode = match access {
            Access::Read => "read",
            Access::ReadWrite => "read_write",
        };
        TEXT.fill("declaration", holes!(binding, mode, name, item)) + &functions
    }

    fn repr(self) -> Repr {
        match self.dtype {
            DType::F16 if self.kind == Kind::NativeF16 => Repr::Typed("f16"),
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => Repr::Packed { bits: 16 },
            DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => Repr::Packed { bits: 8 },
            DType::F32 => Repr::Typed("f32"),
            DType::F64 => Repr::Typed("f64"),
            DType::I32 => Repr::Typed("i32"),
            DType::U32 => Repr::Typed("u32"),
            DType::I64 => Repr::Typed("i64"),
            DType::U64 => Repr::Typed("u64"),
        }
    }

    /// What an item of the array is, and the functions.
    fn scalars(self, name: &str, access: Access) -> (String, String) {
        let (c, suffix) = (self.scalar(), self.suffix());
        match self.repr() {
            Repr::Typed(t) => {
                let load = TEXT.fill("load", holes!(name, c, value = convert(c, t, &format!("{name}[i]"))));
                let store = || TEXT.fill("store", holes!(name, c, value = convert(t, c, "v")));
                (t.to_owned(), with_store(access, load, store))
            }
            Repr::Packed { bits } => {
                let per_word = 32 / bits;
                let mask = format!("{:#x}", (1u64 << bits) - 1);
                let (item, word) = match access {
                    Access::Read => ("u32", format!("{name}[i / {per_word}u]")),
                    Access::ReadWrite => ("atomic<u32>", format!("atomicLoad(&{name}[i / {per_word}u])")),
                };
                let load = TEXT.fill("load packed", holes!(name, c, suffix, word, bits, per_word, mask));
                let store = || TEXT.fill("store packed", holes!(name, c, suffix, bits, per_word, mask));
                (item.to_owned(), with_store(access, load, store))
            }
        }
    }

    /// A pair is one vector, or one word of two halves.
    fn pairs(self, name: &str, access: Access) -> (String, String) {
        let (v2, suffix) = (format!("vec2<{}>", self.scalar()), self.suffix());
        let (item, load, store) = match self.repr() {
            Repr::Typed(t) => {
                let t2 = format!("vec2<{t}>");
                (t2.clone(), convert(&v2, &t2, &format!("{name}[p]")), convert(&t2, &v2, "v"))
            }
            Repr::Packed { .. } => {
                let half = |shift: &str| format!("value_{suffix}(({name}[p]{shift}) & 0xffffu)");
                let store = format!("bits_{suffix}(v.x) | (bits_{suffix}(v.y) << 16u)");
                ("u32".to_owned(), format!("{v2}({}, {})", half(""), half(" >> 16u")), store)
            }
        };
        let load = TEXT.fill("load pair", holes!(name, v2, value = load));
        (item, with_store(access, load, || TEXT.fill("store pair", holes!(name, v2, value = store))))
    }

    fn quads(self, name: &str, access: Access) -> (String, String) {
        let (c, v4, suffix) = (self.scalar(), self.vector(), self.suffix());
        match self.repr() {
            // Two vectors of 16 bytes, because a buffer may end between them.
            Repr::Typed(t) if self.dtype.size_bytes() == 8 => {
                let load = TEXT.fill("load wide quad", holes!(name, t, v4));
                let store = || TEXT.fill("store wide quad", holes!(name, v4));
                (format!("vec2<{t}>"), with_store(access, load, store))
            }
            Repr::Typed(t) => {
                let t4 = format!("vec4<{t}>");
                let one = convert(c, t, &format!("{name}[i / 4u][i % 4u]"));
                let four = convert(&v4, &t4, &format!("{name}[q]"));
                let load = TEXT.fill("load", holes!(name, c, value = one))
                    + &TEXT.fill("load quad", holes!(name, v4, value = four));
                let [x, y, z] = ["v.x", "v.y", "v.z"].map(|lane| convert(t, c, lane));
                let store = || TEXT.fill("store quad", holes!(name, v4, value = convert(&t4, &v4, "v"), x, y, z));
                (t4.clone(), with_store(access, load, store))
            }
            Repr::Packed { bits: 16 } => {
                let load = TEXT.fill("load half quad", holes!(name, c, v4, suffix));
                let store = || TEXT.fill("store half quad", holes!(name, v4, suffix));
                ("vec2<u32>".to_owned(), with_store(access, load, store))
            }
            Repr::Packed { .. } => {
                let load = TEXT.fill("load byte quad", holes!(name, c, v4, suffix));
                let store = || TEXT.fill("store byte quad", holes!(name, v4, suffix));
                ("u32".to_owned(), with_store(access, load, store))
            }
        }
    }

    /// f16 and bf16: eight of them are four words, f16 too where shaders have it.
    fn octs(self, name: &str, access: Access) -> String {
        let (c, v4, suffix) = (self.scalar(), self.vector(), self.suffix());
        match (access, self.kind == Kind::NativeF16) {
            (Access::Read, false) => TEXT.fill("load oct", holes!(name, c, v4, suffix)),
            (Access::Read, true) => TEXT.fill("load native oct", holes!(name, c, v4)),
            (Access::ReadWrite, false) => TEXT.fill("store oct", holes!(name, v4, suffix)),
            (Access::ReadWrite, true) => TEXT.fill("store native oct", holes!(name, v4)),
        }
    }

    /// Whether eight elements may be written at once: the device's own f16 alone by conversions that are known to round to nearest, as shaders
    /// that pack two f16 need not.
    pub(crate) fn stores_octs(self, caps: &Caps) -> bool {
        self.kind != Kind::NativeF16 || caps.nearest_conversions
    }
}

/// The WGSL type values of `dtype` are computed in.
pub(crate) fn compute_type(dtype: DType) -> &'static str {
    match dtype.compute() {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U64 => "u64",
        DType::Bool => "bool",
        _ => "u32",
    }
}

/// What a kernel over these elements starts with: `enable` directives, then the conversions of each dtype once.
pub(crate) fn prelude(elements: &[Element]) -> String {
    let mut distinct = elements.to_vec();
    // Its functions call the plain ones.
    distinct.extend(elements.iter().filter(|e| e.kind == Kind::Kept).map(|e| Element { kind: Kind::Plain, ..*e }));
    // Stored as what is moved.
    let halves = elements.iter().filter(|e| e.dtype == DType::U16);
    distinct.extend(halves.map(|_| Element::raw(2)));
    distinct.sort_unstable();
    distinct.dedup();
    let enable = if distinct.iter().any(|e| e.kind == Kind::NativeF16) { "enable f16;\n" } else { "" };
    let conversions = distinct.iter().map(|e| match e.dtype {
        DType::F16 if e.kind == Kind::RawHalf => include_str!("../../wgsl/element/u16.wgsl"),
        DType::F16 if e.kind == Kind::NativeF16 => include_str!("../../wgsl/element/f16_native.wgsl"),
        DType::F16 => include_str!("../../wgsl/element/f16.wgsl"),
        DType::BF16 => include_str!("../../wgsl/element/bf16.wgsl"),
        DType::F8E4M3 => include_str!("../../wgsl/element/f8e4m3.wgsl"),
        DType::F8E5M2 if e.kind == Kind::Kept => include_str!("../../wgsl/element/f8e5m2_kept.wgsl"),
        DType::F8E5M2 => include_str!("../../wgsl/element/f8e5m2.wgsl"),
        DType::I8 => include_str!("../../wgsl/element/i8.wgsl"),
        DType::U8 => include_str!("../../wgsl/element/u8.wgsl"),
        DType::I16 => include_str!("../../wgsl/element/i16.wgsl"),
        DType::U16 => include_str!("../../wgsl/element/u16_computed.wgsl"),
        DType::Bool => include_str!("../../wgsl/element/bool.wgsl"),
        _ => "",
    });
    std::iter::once(enable).chain(conversions).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// What reads, and where it is written what writes.
fn with_store(access: Access, load: String, store: impl FnOnce() -> String) -> String {
    if access == Access::ReadWrite { load + &store() } else { load }
}

/// `value` of type `from` as type `to`.
fn convert(to: &str, from: &str, value: &str) -> String {
    if to == from { value.to_owned() } else { format!("{to}({value})") }
}

#[cfg(test)]
#[path = "element_tests.rs"]
mod tests;
