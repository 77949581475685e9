//! Clusters of blocks (PTX ISA 9.7.13.4, `mapa`), grids that start early (`griddepcontrol`), and hints that change no
//! result.

use super::Result;
use super::decode_async::constant;
use super::scope::{Operand, operand_error};
use super::statement::Statement;
use crate::inst::*;

pub(super) fn decode(s: &mut Statement<'_, '_>, name: &str) -> Result<Op> {
    match name {
        "mapa" => {
            s.needs((7, 8), 90)?;
            s.need("shared::cluster")?;
            let ty = s.ty_of(&[Ty::U32, Ty::U64])?;
            let class = ty.class();
            let [d, a, rank] = s.take()?;
            let d = s.dst(class, &d)?;
            let a = s.value_or_address(ty, &a)?;
            Ok(Op::MapAddress { class, d, a, rank: s.src(Ty::U32, &rank)? })
        }
        "barrier" => {
            s.needs((7, 8), 90)?;
            s.need("cluster")?;
            let arrive = s.eat("arrive");
            if arrive {
                let _ = s.eat("release") || s.eat("relaxed");
            } else {
                s.need("wait")?;
                s.eat("acquire");
            }
            s.eat("aligned");
            let [] = s.take()?;
            s.scope.uses_async = true;
            Ok(if arrive { Op::ClusterArrive } else { Op::ClusterWait })
        }
        "griddepcontrol" => {
            s.needs((7, 8), 90)?;
            let [] = s.take()?;
            match s.next()? {
                "wait" => Ok(Op::WaitForGrid),
                "launch_dependents" => Ok(Op::Hint { whole_warp: false }),
                _ => s.bad(),
            }
        }
        "setmaxnreg" => {
            s.needs_specific((8, 0), 90)?;
            let _ = s.eat("inc") || s.eat("dec");
            for word in ["sync", "aligned", "u32"] {
                s.need(word)?;
            }
            let [count] = s.take()?;
            let count = constant(s, &count)?;
            if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
                return Err(operand_error(s.line, format!("{count} registers: 24 to 256 in steps of 8 are possible")));
            }
            Ok(Op::Hint { whole_warp: true })
        }
        "prefetch" => {
            s.needs((8, 0), 90)?;
            let _ = s.eat("param") || s.eat("const");
            s.need("tensormap")?;
            let [at] = s.take()?;
            s.scope.address(false, &at, s.line)?;
            Ok(Op::Hint { whole_warp: false })
        }
        "createpolicy" => {
            s.needs((7, 4), 80)?;
            s.need("fractional")?;
            let levels = ["L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"];
            if !levels.iter().any(|level| s.eat(level)) {
                return s.bad();
            }
            s.need("b64")?;
            let [d, share] = s.take()?;
            s.src(Ty::F32, &share)?;
            // Hints change no result: all policies are one.
            let a = s.src(Ty::B64, &Operand::Int { bits: 0, negative: false })?;
            Ok(Op::Mov { class: Class::Double, d: s.dst(Class::Double, &d)?, a })
        }
        "nanosleep" => {
            s.needs((6, 3), 70)?;
            s.need("u32")?;
            let [time] = s.take()?;
            s.src(Ty::U32, &time)?;
            Ok(Op::Hint { whole_warp: false })
        }
        _ => s.bad(),
    }
}
