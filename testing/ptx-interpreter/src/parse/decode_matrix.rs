//! Instructions on matrices: `ldmatrix`, `stmatrix`, `mma` (PTX ISA 9.7.14), `wgmma` (9.7.15). `wmma`: `decode_warp.rs`.

use super::Result;
use super::decode_async::constant;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::inst::*;
use crate::matrix::{Metadata, WgmmaA};

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    match name {
        "ldmatrix" => matrix(s, true),
        "stmatrix" => matrix(s, false),
        "mma" => mma(s),
        _ => wgmma(s),
    }
}

/// `count` registers of `class`, or any number for `None`; constants as well where they are read.
fn registers<'a>(
    s: &mut Statement<'_, 'a>,
    operand: &Operand<'a>,
    class: Class,
    count: Option<usize>,
    written: bool,
) -> Result<Vec<Slot>> {
    let items = match operand {
        Operand::List(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    if count.is_some_and(|count| items.len() != count) {
        let count = count.unwrap_or(0);
        return Err(operand_error(s.line, format!("{count} registers are needed, {} given", items.len())));
    }
    let ty = if class == Class::Double { Ty::F64 } else { Ty::B32 };
    items.iter().map(|item| if written { s.dst(class, item) } else { s.src(ty, item) }).collect()
}

fn matrix(s: &mut Statement<'_, '_>, load: bool) -> Result<Op> {
    s.needs(if load { (6, 5) } else { (7, 8) }, if load { 75 } else { 90 })?;
    s.need("sync")?;
    s.need("aligned")?;
    s.need("m8n8")?;
    let count = match s.next()? {
        "x1" => 1,
        "x2" => 2,
        "x4" => 4,
        _ => return s.bad(),
    };
    let transposed = s.eat("trans");
    if !s.eat("shared") {
        s.need("shared::cta")?;
    }
    s.need("b16")?;
    let [first, second] = s.take()?;
    let (regs, address) = if load { (first, second) } else { (second, first) };
    let regs = registers(s, &regs, Class::Word, Some(count), load)?;
    let address = s.scope.address(false, &address, s.line)?;
    Ok(Op::Matrix(Box::new(MatrixMove { load, transposed, regs, address, space: Space::Shared })))
}

fn element(s: &mut Statement<'_, '_>) -> Result<Element> {
    let part = s.next()?;
    Element::parse(part).ok_or_else(|| s.bad_modifier(part))
}

fn accumulator(s: &mut Statement<'_, '_>, saturates: bool) -> Result<Accumulator> {
    Ok(match s.next()? {
        "f16" => Accumulator::F16,
        "f32" => Accumulator::F32,
        "f64" => Accumulator::F64,
        "s32" => Accumulator::S32 { saturates },
        _ => return s.bad(),
    })
}

/// Whether sums of that type are made of products of those.
fn sums_fit(accumulator: Accumulator, types: [Element; 2]) -> bool {
    let [a, b] = types;
    let float8 = |x| matches!(x, Element::E4m3 | Element::E5m2);
    match accumulator {
        Accumulator::F16 => a == b && a == Element::F16 || float8(a) && float8(b),
        Accumulator::F32 => float8(a) && float8(b) || a == b && !a.is_integer() && a != Element::F64,
        Accumulator::F64 => a == Element::F64 && b == Element::F64,
        Accumulator::S32 { .. } => a.is_integer() && b.is_integer(),
    }
}

/// `m16n8k16` in numbers; two of them where `m` is not written.
fn extents(word: &str) -> Option<[usize; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

fn mma(s: &mut Statement<'_, '_>) -> Result<Op> {
    // Metadata in any order is another instruction, which nobody here writes.
    let sparse = s.eat("sp::ordered_metadata");
    s.needs(if sparse { (8, 5) } else { (7, 0) }, 80)?;
    for word in ["sync", "aligned"] {
        s.need(word)?;
    }
    let shape = s.next()?;
    let Some([m, n, k]) = extents(shape) else { return s.bad() };
    s.need("row")?;
    s.need("col")?;
    let saturates = s.eat("satfinite");
    let result = accumulator(s, saturates)?;
    let types = [element(s)?, element(s)?];
    if accumulator(s, saturates)? != result || !sums_fit(result, types) {
        return s.bad();
    }
    let bytes = types[0].bytes();
    // 16 or 32 bytes of k; of f64 up to 128, and 8 rows only at the first (PTX ISA, table of `mma` shapes).
    let known = match types[0] {
        Element::F64 if !sparse => matches!([m, n, k], [8, 8, 4] | [16, 8, 4 | 8 | 16]),
        // 64 bytes, of which A holds half; nothing of 32 is written yet.
        _ if sparse => m == 16 && k * bytes == 64 && !matches!(types[0], Element::Tf32 | Element::F64),
        Element::S8 | Element::U8 => m == 8 && k == 16 || m == 16 && matches!(k, 16 | 32),
        _ => m == 16 && matches!(k * bytes, 16 | 32),
    };
    if n != 8 || !known {
        return Err(s.bad_modifier(shape));
    }
    if matches!(types[0], Element::E4m3 | Element::E5m2) {
        s.needs((8, 4), 89)?;
    }
    let class = if types[0] == Element::F64 { Class::Double } else { Class::Word };
    let per = class.bits() as usize / 8 / bytes;
    let sums = m * n / 32 / if result == Accumulator::F16 { 2 } else { 1 };
    let metadata = if sparse { Some(metadata(s, bytes)?) } else { None };
    let kept = if sparse { k / 2 } else { k };
    let [d, a, b, c] = s.take()?;
    Ok(Op::Mma(Box::new(Mma {
        m,
        n,
        k,
        types,
        accumulator: result,
        d: registers(s, &d, class, Some(sums), true)?,
        a: registers(s, &a, class, Some(m * kept / 32 / per), false)?,
        b: registers(s, &b, class, Some(n * k / 32 / per), false)?,
        c: registers(s, &c, class, Some(sums), false)?,
        sparse: metadata,
    })))
}

/// The last two operands of a sparse product.
fn metadata(s: &mut Statement<'_, '_>, element_bytes: usize) -> Result<Metadata> {
    let (Some(selector), Some(words)) = (s.operands.pop(), s.operands.pop()) else {
        return Err(operand_error(s.line, "metadata and a selector are needed"));
    };
    metadata_of(s, [words, selector], element_bytes)
}

fn metadata_of<'a>(
    s: &mut Statement<'_, 'a>,
    [words, selector]: [Operand<'a>; 2],
    element_bytes: usize,
) -> Result<Metadata> {
    let selector = constant(s, &selector)?;
    // Two lanes of four give the metadata of 16-bit elements, all four those of 8-bit ones.
    if selector >= if element_bytes == 2 { 2 } else { 1 } {
        return Err(operand_error(s.line, format!("{selector} is no selector of this instruction")));
    }
    Ok(Metadata { words: s.src(Ty::B32, &words)?, selector })
}

fn wgmma(s: &mut Statement<'_, '_>) -> Result<Op> {
    s.needs_specific((8, 0), 90)?;
    s.scope.uses_async = true;
    let action = s.next()?;
    let sparse = action == "mma_async" && s.eat("sp");
    s.need("sync")?;
    s.need("aligned")?;
    match action {
        "fence" => {
            let [] = s.take()?;
            Ok(Op::WgmmaFence)
        }
        "commit_group" => {
            let [] = s.take()?;
            Ok(Op::WgmmaCommit)
        }
        "wait_group" => {
            let [pending] = s.take()?;
            Ok(Op::WgmmaWait { pending: constant(s, &pending)? })
        }
        "mma_async" => multiply(s, sparse),
        _ => s.bad(),
    }
}

fn multiply(s: &mut Statement<'_, '_>, sparse: bool) -> Result<Op> {
    if sparse {
        s.needs_specific((8, 2), 90)?;
    }
    let shape = s.next()?;
    let Some([64, n, k]) = extents(shape) else { return s.bad() };
    // The type of the sums comes first, whether they saturate last.
    let saturates = s.last() == "satfinite";
    let result = accumulator(s, saturates)?;
    let types = [element(s)?, element(s)?];
    if saturates {
        s.need("satfinite")?;
    }
    let step = if types[0].is_integer() && n > 32 { 16 } else { 8 };
    // 32 bytes of k; 64 of which A holds half, where nothing of 32-bit elements is written yet.
    let bytes = if sparse { 64 } else { 32 };
    let shaped = n.is_multiple_of(step) && (8..=256).contains(&n) && k * types[0].bytes() == bytes;
    if !shaped || sparse && types[0] == Element::Tf32 || types[0] == Element::F64 || !sums_fit(result, types) {
        return Err(s.bad_modifier(shape));
    }
    let mut operands = std::mem::take(&mut s.operands).into_iter();
    let mut next = || operands.next();
    let (Some(d), Some(a), Some(b)) = (next(), next(), next()) else {
        return Err(operand_error(s.line, "D, A and B are needed"));
    };
    let metadata = if sparse { next().zip(next()) } else { None };
    let (Some(add), true) = (next(), metadata.is_some() == sparse) else {
        return Err(operand_error(s.line, "a predicate is needed, and before it what a sparse A takes"));
    };
    let rest = operands.map(|operand| match operand {
        Operand::Int { bits, negative } => Ok(if negative { (bits as i64) as i32 } else { bits as i32 }),
        other => Err(operand_error(s.line, format!("{other:?} is not a constant"))),
    });
    let rest = rest.collect::<Result<Vec<i32>>>()?;
    let sums = n / 2 / if result == Accumulator::F16 { 2 } else { 1 };
    let d = registers(s, &d, Class::Word, Some(sums), true)?;
    let in_registers = matches!(a, Operand::List(_));
    let a = match &a {
        Operand::List(_) => WgmmaA::Registers(registers(s, &a, Class::Word, Some(4), false)?),
        descriptor => WgmmaA::Shared(s.src(Ty::B64, descriptor)?),
    };
    let b = s.src(Ty::B64, &b)?;
    let sparse = metadata.map(|(words, selector)| metadata_of(s, [words, selector], types[0].bytes())).transpose()?;
    let (add, negated) = s.pred(&add)?;
    if negated {
        return Err(operand_error(s.line, "the predicate cannot be negated"));
    }
    // Floats: whether A and B are negated. 16-bit ones: whether they are transposed, A only where it has a descriptor.
    let signs = if types[0].is_integer() { 0 } else { 2 };
    let transposes = match (types[0].bytes(), in_registers) {
        (2, false) => 2,
        (2, true) => 1,
        _ => 0,
    };
    let legal = |(at, &x): (usize, &i32)| if at < signs { x == 1 || x == -1 } else { x == 0 || x == 1 };
    if rest.len() != signs + transposes || !rest.iter().enumerate().all(legal) {
        return Err(operand_error(s.line, format!("{rest:?} are not this instruction's constants")));
    }
    let (signs, transposes) = rest.split_at(signs);
    let negate = [0, 1].map(|i| signs.get(i) == Some(&-1));
    let mn_major = match *transposes {
        [a, b] => [a == 1, b == 1],
        [b] => [false, b == 1],
        _ => [false; 2],
    };
    Ok(Op::Wgmma(Box::new(Wgmma { n, k, types, accumulator: result, d, a, b, add, negate, mn_major, sparse })))
}
