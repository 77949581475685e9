//! Floating point (PTX ISA 9.7.3 and 9.7.4). Every instruction names its rounding where the ISA wants it named.

use super::Result;
use super::statement::Statement;
use crate::inst::*;

/// `None` when the opcode does not end in a floating-point type, or is no arithmetic.
pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Option<Op>> {
    use FloatOp::*;
    let ty = match Ty::parse(s.last()) {
        Some(ty @ (Ty::F16 | Ty::F16x2 | Ty::F32 | Ty::F64)) => ty,
        _ => return Ok(None),
    };
    let half = matches!(ty, Ty::F16 | Ty::F16x2);
    let mut mods = FloatMods::default();
    let op = match name {
        "add" | "sub" | "mul" | "fma" | "mad" => {
            let directed = match (name, ty, s.peek()) {
                ("fma", Ty::F32, Some("rz")) => Some(FmaRz),
                ("fma", Ty::F32, Some("rm")) => Some(FmaRm),
                ("fma", Ty::F32, Some("rp")) => Some(FmaRp),
                _ => None,
            };
            s.skip(usize::from(directed.is_some()));
            let rounded = directed.is_some() || s.eat("rn");
            if !rounded && (name == "fma" || name == "mad") {
                return Err(s.bad_modifier(s.last()));
            }
            mods.ftz = s.eat("ftz");
            mods.sat = s.eat("sat");
            if half {
                s.needs((4, 2), 53)?;
            }
            match name {
                "add" => Add,
                "sub" => Sub,
                "mul" => Mul,
                _ if name == "mad" && half => return s.bad(),
                _ => directed.unwrap_or(Fma),
            }
        }
        "neg" | "abs" => {
            mods.ftz = s.eat("ftz");
            if half {
                s.needs(if name == "abs" { (6, 5) } else { (6, 0) }, 53)?;
            }
            if name == "neg" { Neg } else { Abs }
        }
        "min" | "max" => {
            mods.ftz = s.eat("ftz");
            let nan = s.eat("NaN");
            if half || nan {
                s.needs((7, 0), 80)?;
            }
            match (name, nan) {
                ("min", false) => Min,
                ("max", false) => Max,
                ("min", true) => MinNan,
                _ => MaxNan,
            }
        }
        "copysign" if !half => CopySign,
        "div" if !half => {
            let op = match s.next()? {
                "rn" => Div,
                "full" if ty == Ty::F32 => DivFull,
                "approx" if ty == Ty::F32 => DivApprox,
                _ => return s.bad(),
            };
            mods.ftz = s.eat("ftz");
            op
        }
        "rcp" | "sqrt" if !half => {
            let approx = match s.next()? {
                "rn" => false,
                "approx" if ty == Ty::F32 => true,
                // Always flushed: there is no other.
                "approx" if name == "rcp" && s.eat("ftz") => {
                    s.ty()?;
                    let [d, a] = s.take()?;
                    let (d, a) = (s.dst(Class::Double, &d)?, s.src(ty, &a)?);
                    return Ok(Some(Op::Float { op: RcpApprox, ty, mods, d, a, b: NONE, c: NONE }));
                }
                _ => return s.bad(),
            };
            mods.ftz = s.eat("ftz");
            match (name, approx) {
                ("rcp", false) => Rcp,
                ("rcp", true) => RcpApprox,
                (_, false) => Sqrt,
                (_, true) => SqrtApprox,
            }
        }
        "rsqrt" | "sin" | "cos" | "lg2" if ty == Ty::F32 => {
            s.need("approx")?;
            mods.ftz = s.eat("ftz");
            match name {
                "rsqrt" => RsqrtApprox,
                "sin" => SinApprox,
                "cos" => CosApprox,
                _ => Lg2Approx,
            }
        }
        "ex2" if ty != Ty::F64 => {
            s.need("approx")?;
            mods.ftz = s.eat("ftz");
            if half {
                s.needs((7, 0), 75)?;
            }
            Ex2Approx
        }
        "tanh" if ty != Ty::F64 => {
            s.need("approx")?;
            s.needs((7, 0), 75)?;
            TanhApprox
        }
        _ => return Ok(None),
    };
    if ty == Ty::F64 && (mods.ftz || mods.sat) {
        return s.bad();
    }
    s.ty()?;
    let class = ty.class();
    let [mut b, mut c] = [NONE; 2];
    let (d, a);
    match op {
        Fma | FmaRz | FmaRm | FmaRp => {
            let [to, x, y, z] = s.take()?;
            d = s.dst(class, &to)?;
            (a, b, c) = (s.src(ty, &x)?, s.src(ty, &y)?, s.src(ty, &z)?);
        }
        Add | Sub | Mul | Div | DivFull | DivApprox | Min | Max | MinNan | MaxNan | CopySign => {
            let [to, x, y] = s.take()?;
            d = s.dst(class, &to)?;
            (a, b) = (s.src(ty, &x)?, s.src(ty, &y)?);
        }
        _ => {
            let [to, x] = s.take()?;
            d = s.dst(class, &to)?;
            a = s.src(ty, &x)?;
        }
    }
    // `div.rn.ftz` and its like work on f32 only.
    if mods.ftz && ty != Ty::F32 && !half {
        return s.bad();
    }
    Ok(Some(Op::Float { op, ty, mods, d, a, b, c }))
}
