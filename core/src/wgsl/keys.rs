//! Keys that order as elements do, for what chooses or sorts by comparing integers; and the way back.
//!
//! Nothing depends on what a shader compiler assumes of NaN and of the signs of zeros: NaN has the highest key, whichever way numbers are
//! ordered, and zeros of both signs have one.

use std::fmt::Write;

use crate::DType;

/// The smallest i64, and the bit in which keys of u64 differ from it.
pub(crate) const I64_MIN: &str = "(-9223372036854775807li - 1li)";

/// Writes `key_of`, from an element of `dtype` as it is read (`ty`, floats of a word or two as their bits) to alias `Keys`: u32, i64 for the
/// 64-bit types. `turned` orders the numbers the other way round.
pub(crate) fn write(out: &mut String, dtype: DType, ty: &str, turned: bool) -> std::fmt::Result {
    writeln!(out, "fn key_of(x: {ty}) -> Keys {{")?;
    match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => {
            let bits = if dtype == DType::F32 { "x" } else { "bitcast<Keys>(x)" };
            let (plus, minus) = if turned { ("-", "+") } else { ("+", "-") };
            writeln!(out, "    let bits = {bits};\n    let magnitude = bits & Keys(0x7fffffffu);")?;
            writeln!(out, "    let middle = Keys(0x80000000u);")?;
            writeln!(
                out,
                "    let key = select(middle {plus} magnitude, middle {minus} magnitude, bits != magnitude);"
            )?;
            writeln!(out, "    return select(key, Keys(0xffffffffu), magnitude > Keys(0x7f800000u));")?;
        }
        DType::F64 => {
            let order = if turned {
                "select(-magnitude, magnitude, x < Keys(0li))"
            } else {
                "select(magnitude, -magnitude, x < Keys(0li))"
            };
            writeln!(out, "    let magnitude = x & Keys(9223372036854775807li);\n    let key = {order};")?;
            writeln!(
                out,
                "    return select(key, Keys(9223372036854775807li), magnitude > Keys(0x7ff0000000000000li));"
            )?;
        }
        DType::U64 => {
            let key = format!("bitcast<Keys>(x) ^ Keys({I64_MIN})");
            writeln!(out, "    return {};", if turned { format!("~({key})") } else { key })?;
        }
        DType::I8 | DType::I16 | DType::I32 => {
            let key = "bitcast<Keys>(x) ^ Keys(0x80000000u)";
            writeln!(out, "    return {};", if turned { format!("~({key})") } else { key.to_owned() })?;
        }
        // Unsigned, and i64, whose keys are themselves.
        _ => writeln!(out, "    return {};", if turned { "~x" } else { "x" })?,
    }
    writeln!(out, "}}")
}

/// Writes the way back from a key: `element_of`, to an element of `dtype` as it is stored (`ty`), and `is_one_of_several`, whether elements of
/// several bits have that key: NaN, and zeros of both signs.
pub(crate) fn write_back(out: &mut String, dtype: DType, ty: &str, turned: bool) -> std::fmt::Result {
    let (several, element) = match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => {
            let negative = if turned { "key > middle" } else { "key < middle" };
            let bits = format!(
                "let middle = Keys(0x80000000u);
    let magnitude = select(key - middle, middle - key, key < middle);
    let bits = magnitude | select(Keys(0u), middle, {negative});
    return "
            );
            let element = if dtype == DType::F32 { "bits" } else { "bitcast<f32>(bits)" };
            ("key == Keys(0x80000000u) || key == Keys(0xffffffffu)", bits + element)
        }
        DType::F64 => {
            let negative = if turned { "key > Keys(0li)" } else { "key < Keys(0li)" };
            let bits = format!("let sign = Keys(select(0u, 1u, {negative})) << 63u;\n    return ");
            let element = bits + "select(key, -key, key < Keys(0li)) | sign";
            ("key == Keys(0li) || key == Keys(9223372036854775807li)", element)
        }
        DType::U64 => {
            let key = if turned { "~key" } else { "key" };
            ("false", format!("return bitcast<{ty}>(({key}) ^ Keys({I64_MIN}))"))
        }
        DType::I8 | DType::I16 | DType::I32 => {
            let key = if turned { "~key" } else { "key" };
            ("false", format!("return bitcast<{ty}>(({key}) ^ Keys(0x80000000u))"))
        }
        DType::Bool => ("false", format!("return key {} Keys(0u)", if turned { "==" } else { "!=" })),
        _ => ("false", format!("return {}", if turned { "~key" } else { "key" })),
    };
    writeln!(out, "fn is_one_of_several(key: Keys) -> bool {{ return {several}; }}")?;
    writeln!(out, "fn element_of(key: Keys) -> {ty} {{\n    {element};\n}}")
}
