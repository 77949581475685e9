//! One statement to one decoded instruction: by the file of its family, or here where it is alone.

use super::scope::{Operand, Scope, operand_error};
use super::statement::Statement;
use super::{
    Result, decode_async, decode_cluster, decode_float, decode_int, decode_matrix, decode_memory, decode_warp,
};
use crate::error::{ParseError, ParseErrorKind};
use crate::inst::*;

/// Decodes one statement into `scope`.
pub(super) fn decode<'a>(
    scope: &mut Scope<'a>,
    line: u32,
    guard: Option<(&'a str, bool)>,
    opcode: &'a str,
    operands: Vec<Operand<'a>>,
) -> Result<()> {
    let guard = match guard {
        Some((name, negated)) => Some(Guard { p: scope.register_of(Class::Pred, name, line)?, negated }),
        None => None,
    };
    let mut statement = Statement::new(scope, line, opcode, operands);
    let op = statement.op()?;
    statement.done()?;
    if let Op::Bra { .. } = op {
        let Some(Operand::Name(label)) = statement.operands.first().cloned() else {
            return Err(operand_error(line, "a branch needs a label"));
        };
        scope.branch(label);
    }
    scope.push(guard, op, line);
    Ok(())
}

impl Statement<'_, '_> {
    fn op(&mut self) -> Result<Op> {
        let name = self.parts[0];
        match name {
            "mov" => self.mov(),
            "selp" => self.selp(),
            "setp" => self.setp(),
            "cvt" => self.cvt(),
            "cvta" => self.cvta(),
            "and" | "or" | "xor" | "not" if self.parts.get(1) == Some(&"pred") => self.logic(),
            "ld" | "ldu" | "st" | "atom" | "red" => decode_memory::decode(self, name),
            "cp" | "mbarrier" => decode_async::decode(self, name),
            "ldmatrix" | "stmatrix" | "mma" | "wgmma" => decode_matrix::decode(self, name),
            "mapa" | "griddepcontrol" | "setmaxnreg" | "prefetch" | "createpolicy" | "nanosleep" => {
                decode_cluster::decode(self, name)
            }
            "barrier" if self.parts.get(1) == Some(&"cluster") => decode_cluster::decode(self, name),
            "bar" | "barrier" | "membar" | "fence" | "shfl" | "vote" | "redux" | "match" | "activemask" | "elect"
            | "wmma" => decode_warp::decode(self, name),
            "bra" => {
                self.eat("uni");
                if self.operands.len() != 1 {
                    return Err(operand_error(self.line, "a branch takes one label"));
                }
                Ok(Op::Bra { target: NONE, join: NONE })
            }
            "ret" | "exit" => {
                self.eat("uni");
                let [] = self.take()?;
                Ok(Op::Exit)
            }
            "trap" => {
                let [] = self.take()?;
                Ok(Op::Trap)
            }
            _ => {
                if let Some(op) = decode_float::decode(self, name)? {
                    return Ok(op);
                }
                if let Some(op) = decode_int::decode(self, name)? {
                    return Ok(op);
                }
                let kind = ParseErrorKind::Instruction(self.opcode.to_owned());
                Err(ParseError { line: self.line, kind })
            }
        }
    }
}
