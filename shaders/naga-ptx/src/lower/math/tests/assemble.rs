//! Every function on every type it takes, assembled by `ptxas`: PTX has the instructions, and they take the operands.
//!
//! Needs `ptxas` as `tests/suite/ptxas.rs` does: `PTXAS` or the path; required when `POLYWARP_REQUIRE_PTXAS` is set.

use naga::{BinaryOperator as Bo, ScalarKind, UnaryOperator};

use super::*;
use crate::assembler::{assemble, nothing_spilled, ptxas};
use crate::ir::{Address, Base, Class, Inst, Kernel, Space};

const FLOATS: [Scalar; 3] = [F16, F32, F64];
const INTEGERS: [Scalar; 6] = [I16, U16, I32, U32, I64, U64];

/// `n` operands of a type, and a way to keep results: loads and stores, so that nothing is optimised away.
struct Code {
    b: Builder,
    base: Reg,
    offset: i64,
}

impl Code {
    fn new() -> Code {
        let mut b = builder();
        let base = b.reg(Ty::U64);
        let address = Address { base: Base::Param(0), offset: 0 };
        b.push(Inst::Load { space: Space::Param, ty: Ty::U64, dst: vec![base], address, volatile: false });
        Code { b, base, offset: 0 }
    }

    fn next(&mut self) -> Address {
        self.offset += 8;
        Address { base: Base::Reg(self.base), offset: self.offset }
    }

    fn operand(&mut self, scalar: Scalar) -> Operand {
        let ty = ty_of(scalar).unwrap();
        let stored = if ty == Ty::Pred { Ty::U32 } else { ty };
        let dst = self.b.reg(stored);
        let address = self.next();
        self.b.push(Inst::Load { space: Space::Global, ty: stored, dst: vec![dst], address, volatile: false });
        if ty == Ty::Pred {
            return self.b.setp(crate::ir::Compare::Ne, Ty::U32, dst.into(), Operand::u32(0));
        }
        dst.into()
    }

    fn operands(&mut self, scalar: Scalar, count: usize) -> Vec<Operand> {
        (0..count).map(|_| self.operand(scalar)).collect()
    }

    fn keep(&mut self, results: Vec<Operand>) {
        for result in results {
            let (ty, src) = match result {
                Operand::Reg(reg) => match reg.class {
                    Class::Pred => (Ty::B32, self.b.selp(Ty::B32, result, Operand::u32(1), Operand::u32(0))),
                    Class::B16 => (Ty::B16, result),
                    Class::B32 => (Ty::B32, result),
                    Class::B64 => (Ty::B64, result),
                },
                Operand::Imm(bits) => (Ty::B64, self.b.copy(Ty::B64, Operand::Imm(bits)).into()),
            };
            let address = self.next();
            self.b.push(Inst::Store { space: Space::Global, ty, src: vec![src], address, volatile: false });
        }
    }

    fn kernel(self, symbol: String) -> Kernel {
        let (blocks, registers, version) = self.b.finish();
        Kernel {
            symbol,
            workgroup_size: [32, 1, 1],
            params: vec![(8, 8)],
            shared_bytes: 0,
            shared_is_dynamic: false,
            local_bytes: 0,
            blocks,
            registers,
            version,
        }
    }
}

/// The shapes of a function's arguments, on a scalar of the given type.
fn shapes(fun: Mf, scalar: Scalar) -> Vec<(Scalar, Shape)> {
    let (one, three) = ((scalar, Shape::Scalar), (scalar, Shape::Vector(VectorSize::Tri)));
    let square = |size| vec![(scalar, Shape::Matrix { columns: size, rows: size })];
    match fun {
        Mf::Dot | Mf::Cross | Mf::Distance | Mf::Outer | Mf::Reflect => vec![three; 2],
        Mf::Length | Mf::Normalize => vec![three],
        Mf::FaceForward => vec![three; 3],
        Mf::Refract => vec![three, three, one],
        Mf::Inverse | Mf::Determinant | Mf::Transpose => square(VectorSize::Quad),
        Mf::Ldexp => vec![three, (I32, Shape::Vector(VectorSize::Tri))],
        Mf::ExtractBits => vec![one, (U32, Shape::Scalar), (U32, Shape::Scalar)],
        Mf::InsertBits => vec![one, one, (U32, Shape::Scalar), (U32, Shape::Scalar)],
        Mf::Pack2x16snorm | Mf::Pack2x16unorm | Mf::Pack2x16float => vec![(scalar, Shape::Vector(VectorSize::Bi))],
        Mf::Pack4x8snorm | Mf::Pack4x8unorm | Mf::Pack4xI8 | Mf::Pack4xU8 | Mf::Pack4xI8Clamp | Mf::Pack4xU8Clamp => {
            vec![(scalar, Shape::Vector(VectorSize::Quad))]
        }
        other => vec![one; other.argument_count()],
    }
}

fn count(shape: Shape) -> usize {
    match shape {
        Shape::Scalar => 1,
        Shape::Vector(size) => size as usize,
        Shape::Matrix { columns, rows } => columns as usize * rows as usize,
    }
}

const FUNCTIONS: [Mf; 79] = [
    Mf::Abs,
    Mf::Min,
    Mf::Max,
    Mf::Clamp,
    Mf::Saturate,
    Mf::Cos,
    Mf::Cosh,
    Mf::Sin,
    Mf::Sinh,
    Mf::Tan,
    Mf::Tanh,
    Mf::Acos,
    Mf::Asin,
    Mf::Atan,
    Mf::Atan2,
    Mf::Asinh,
    Mf::Acosh,
    Mf::Atanh,
    Mf::Radians,
    Mf::Degrees,
    Mf::Ceil,
    Mf::Floor,
    Mf::Round,
    Mf::Fract,
    Mf::Trunc,
    Mf::Modf,
    Mf::Frexp,
    Mf::Ldexp,
    Mf::Exp,
    Mf::Exp2,
    Mf::Log,
    Mf::Log2,
    Mf::Pow,
    Mf::Dot,
    Mf::Dot4I8Packed,
    Mf::Dot4U8Packed,
    Mf::Outer,
    Mf::Cross,
    Mf::Distance,
    Mf::Length,
    Mf::Normalize,
    Mf::FaceForward,
    Mf::Reflect,
    Mf::Refract,
    Mf::Sign,
    Mf::Fma,
    Mf::Mix,
    Mf::Step,
    Mf::SmoothStep,
    Mf::Sqrt,
    Mf::InverseSqrt,
    Mf::Inverse,
    Mf::Transpose,
    Mf::Determinant,
    Mf::QuantizeToF16,
    Mf::CountTrailingZeros,
    Mf::CountLeadingZeros,
    Mf::CountOneBits,
    Mf::ReverseBits,
    Mf::ExtractBits,
    Mf::InsertBits,
    Mf::FirstTrailingBit,
    Mf::FirstLeadingBit,
    Mf::Pack4x8snorm,
    Mf::Pack4x8unorm,
    Mf::Pack2x16snorm,
    Mf::Pack2x16unorm,
    Mf::Pack2x16float,
    Mf::Pack4xI8,
    Mf::Pack4xU8,
    Mf::Pack4xI8Clamp,
    Mf::Pack4xU8Clamp,
    Mf::Unpack4x8snorm,
    Mf::Unpack4x8unorm,
    Mf::Unpack2x16snorm,
    Mf::Unpack2x16unorm,
    Mf::Unpack2x16float,
    Mf::Unpack4xI8,
    Mf::Unpack4xU8,
];

/// One kernel per function and type, one for the operators and conversions of each type.
fn kernels(target: Target) -> Vec<Kernel> {
    let env = Env { target, contraction: Contraction::Forbidden };
    let mut kernels = Vec::new();
    for fun in FUNCTIONS {
        for scalar in FLOATS.into_iter().chain(INTEGERS) {
            if check(
                fun,
                ty_of(scalar).unwrap(),
                &vec![Arg { scalar, shape: Shape::Scalar, leaves: &[] }; fun.argument_count()],
            )
            .is_err()
            {
                continue;
            }
            let mut code = Code::new();
            let shapes = shapes(fun, scalar);
            let leaves: Vec<Vec<Operand>> = shapes.iter().map(|&(s, shape)| code.operands(s, count(shape))).collect();
            let args: Vec<Arg> =
                shapes.iter().zip(&leaves).map(|(&(scalar, shape), leaves)| Arg { scalar, shape, leaves }).collect();
            let results = math(&mut code.b, env, fun, &args).unwrap();
            code.keep(results);
            // The same on constants: what is not folded has to be spelled.
            let constants: Vec<Vec<Operand>> = leaves.iter().map(|l| vec![Operand::Imm(3); l.len()]).collect();
            let args: Vec<Arg> =
                shapes.iter().zip(&constants).map(|(&(scalar, shape), leaves)| Arg { scalar, shape, leaves }).collect();
            let results = math(&mut code.b, env, fun, &args).unwrap();
            code.keep(results);
            kernels.push(code.kernel(format!("{fun:?}_{:?}{}", scalar.kind, scalar.width)));
        }
    }
    for scalar in FLOATS.into_iter().chain(INTEGERS) {
        let float = scalar.kind == ScalarKind::Float;
        let mut code = Code::new();
        let (x, y, amount) = (code.operand(scalar), code.operand(scalar), code.operand(U32));
        let mut results = Vec::new();
        for op in [
            Bo::Add,
            Bo::Subtract,
            Bo::Multiply,
            Bo::Divide,
            Bo::Modulo,
            Bo::Equal,
            Bo::NotEqual,
            Bo::Less,
            Bo::GreaterEqual,
        ] {
            for contraction in [Contraction::Allowed, Contraction::Forbidden] {
                let env = Env { target, contraction };
                results.push(binary(&mut code.b, env, op, scalar, x, y).unwrap());
                results.push(binary(&mut code.b, env, op, scalar, x, Operand::Imm(7)).unwrap());
                results.push(binary(&mut code.b, env, op, scalar, Operand::Imm(7), y).unwrap());
            }
        }
        if !float {
            for op in [Bo::And, Bo::ExclusiveOr, Bo::InclusiveOr, Bo::ShiftLeft, Bo::ShiftRight] {
                let r = if matches!(op, Bo::ShiftLeft | Bo::ShiftRight) { amount } else { y };
                results.push(binary(&mut code.b, env, op, scalar, x, r).unwrap());
                results.push(binary(&mut code.b, env, op, scalar, x, Operand::Imm(5)).unwrap());
            }
            results.push(unary(&mut code.b, env, UnaryOperator::BitwiseNot, scalar, x).unwrap());
        }
        if scalar.kind != ScalarKind::Uint {
            results.push(unary(&mut code.b, env, UnaryOperator::Negate, scalar, x).unwrap());
        }
        for to in FLOATS.into_iter().chain(INTEGERS).chain([Scalar::BOOL]) {
            results.push(convert(&mut code.b, env, scalar, to, x).unwrap());
            results.push(convert(&mut code.b, env, scalar, to, Operand::Imm(9)).unwrap());
        }
        let p = code.operand(Scalar::BOOL);
        results.push(convert(&mut code.b, env, Scalar::BOOL, scalar, p).unwrap());
        if float {
            let arg = Arg { scalar, shape: Shape::Scalar, leaves: &[x] };
            results.extend(relational(&mut code.b, naga::RelationalFunction::IsNan, arg).unwrap());
            results.extend(relational(&mut code.b, naga::RelationalFunction::IsInf, arg).unwrap());
        }
        let four = code.operands(scalar, 4);
        for to in FLOATS.into_iter().chain(INTEGERS) {
            let arg = Arg { scalar, shape: Shape::Vector(VectorSize::Quad), leaves: &four };
            results.extend(bitcast(&mut code.b, arg, to).unwrap());
        }
        code.keep(results);
        kernels.push(code.kernel(format!("operators_{:?}{}", scalar.kind, scalar.width)));
    }
    kernels
}

#[test]
fn every_function_assembles() {
    let Some(ptxas) = ptxas() else { return };
    let folder = std::env::temp_dir().join(format!("naga-ptx-math-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // The oldest that current assemblers know, and one with minima of halves, each with the first PTX ISA that has it:
    // what an instruction needs beyond that it has to state.
    for (target, least) in [(Target::new(7, 5), (6, 3)), (Target::new(9, 0), (7, 8))] {
        let kernels = kernels(target);
        assert!(kernels.len() > 200, "only {} kernels", kernels.len());
        let version =
            kernels.iter().map(|k| k.version).max().unwrap().max(PtxVersion { major: least.0, minor: least.1 });
        let text = crate::emit::module(&kernels, version, target);
        let log = assemble(&ptxas, &folder.join("math"), &text, &target.to_string());
        let said = log.and_then(|log| nothing_spilled(&text, &log));
        said.unwrap_or_else(|fault| panic!("{target}: {fault}"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
