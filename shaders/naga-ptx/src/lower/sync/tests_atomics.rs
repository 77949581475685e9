//! Atomics on a warp of the host: what is left in memory, and what each lane saw before.

use naga::Scalar;

use super::warp::{Number, Warp, encode, lanes_of};
use super::*;
use crate::ir::{Address, AtomOp, Base, Builder, Inst, Operand, Space, Ty};
use crate::ptx::PtxVersion;

const PLACE: Address = Address { base: Base::Shared, offset: 16 };

fn call(op: AtomicOp, scalar: Scalar, value: Operand, result: Use) -> AtomicCall {
    AtomicCall { op, scalar, space: Space::Shared, address: PLACE, value, result }
}

/// What `old` and the memory are after each lane in turn did `call` with its own value.
fn run(op: AtomicOp, scalar: Scalar, ty: Ty, start: u64, values: &[u64; 32], result: Use) -> ([u64; 32], u64) {
    let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
    let value = b.reg(ty);
    let old = atomic(&mut b, call(op, scalar, value.into(), result)).unwrap().old;
    let (blocks, registers, _) = b.finish();
    let mut warp = Warp::new(registers, [32, 1, 1], 0);
    warp.set(value, values);
    warp.memory.insert(16, start);
    warp.run(&blocks, u32::MAX);
    (std::array::from_fn(|lane| warp.get(old, lane as u32)), warp.memory[&16])
}

#[test]
fn atomic_integers_leave_what_a_loop_leaves() {
    type Step = fn(i128, i128) -> i128;
    let steps: [(AtomicOp, Step); 8] = [
        (AtomicOp::Add, |x, y| x + y),
        (AtomicOp::Subtract, |x, y| x - y),
        (AtomicOp::And, |x, y| x & y),
        (AtomicOp::InclusiveOr, |x, y| x | y),
        (AtomicOp::ExclusiveOr, |x, y| x ^ y),
        (AtomicOp::Min, |x, y| x.min(y)),
        (AtomicOp::Max, |x, y| x.max(y)),
        (AtomicOp::Exchange, |_, y| y),
    ];
    let types = [(Scalar::I32, Ty::S32), (Scalar::U32, Ty::U32), (Scalar::I64, Ty::S64), (Scalar::U64, Ty::U64)];
    for (scalar, ty) in types {
        let values: [u64; 32] = std::array::from_fn(|lane| {
            encode(ty, Number::Int((lane as i128 * 0x1234_5678_9abc_def1) ^ (lane as i128 % 3 - 1)))
        });
        for (op, step) in steps {
            let start = encode(ty, Number::Int(-77));
            let mut before = [0; 32];
            let mut memory = start;
            for lane in 0..32 {
                before[lane] = memory;
                let ints = [memory, values[lane]].map(|bits| match super::warp::decode(ty, bits) {
                    Number::Int(x) => x,
                    Number::Float(x) => panic!("{x}"),
                });
                memory = encode(ty, Number::Int(step(ints[0], ints[1])));
            }
            let (old, left) = run(op, scalar, ty, start, &values, Use::Read);
            assert_eq!((old, left), (before, memory), "{op:?} {scalar:?}");
            let (_, left) = run(op, scalar, ty, start, &values, Use::Ignored);
            assert_eq!(left, memory, "{op:?} {scalar:?}, result ignored");
        }
    }
}

#[test]
fn atomic_floats_leave_what_a_loop_leaves() {
    for (scalar, ty) in [(Scalar::F32, Ty::F32), (Scalar::F64, Ty::F64)] {
        let values: [u64; 32] = std::array::from_fn(|lane| encode(ty, Number::Float((lane * 37 % 32) as f64 - 11.5)));
        let number = |x: f64| encode(ty, Number::Float(x));
        // 0 + 1 + ... + 31 - 32 * 11.5
        let sum = 496.0 - 368.0;
        let expected = [
            (AtomicOp::Add, number(100.0 + sum)),
            (AtomicOp::Subtract, number(100.0 - sum)),
            (AtomicOp::Min, number(-11.5)),
            (AtomicOp::Max, number(100.0)),
            (AtomicOp::Exchange, values[31]),
        ];
        for (op, expected) in expected {
            for result in [Use::Read, Use::Ignored] {
                let (old, left) = run(op, scalar, ty, number(100.0), &values, result);
                assert_eq!(left, expected, "{op:?} {scalar:?}");
                // Whoever is first sees the start.
                let first = (0..32).filter(|&lane| old[lane] == number(100.0)).count();
                assert!(first >= 1 || result == Use::Ignored, "{op:?} {scalar:?}");
            }
        }
    }
}

#[test]
fn compare_exchange_tells_who_won() {
    let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
    let value = b.reg(Ty::U64);
    let op = AtomicOp::CompareExchange { compare: Operand::Imm(5) };
    let result = atomic(&mut b, call(op, Scalar::U64, value.into(), Use::Read)).unwrap();
    let (blocks, registers, _) = b.finish();
    let mut warp = Warp::new(registers, [32, 1, 1], 0);
    warp.set(value, &std::array::from_fn(|lane| 100 + lane as u64));
    warp.memory.insert(16, 5);
    warp.run(&blocks, 0xffff_fff0);
    assert_eq!(warp.memory[&16], 104);
    for lane in lanes_of(0xffff_fff0) {
        let won = lane == 4;
        assert_eq!(warp.get(result.exchanged.unwrap(), lane) != 0, won, "lane {lane}");
        assert_eq!(warp.get(result.old, lane), if won { 5 } else { 104 }, "lane {lane}");
    }
}

#[test]
fn ignored_result_takes_the_reduction_instruction() {
    let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
    atomic(&mut b, call(AtomicOp::Add, Scalar::I64, Operand::Imm(1), Use::Ignored)).unwrap();
    atomic(&mut b, call(AtomicOp::Exchange, Scalar::U32, Operand::Imm(1), Use::Ignored)).unwrap();
    let (blocks, ..) = b.finish();
    let insts: Vec<&Inst> = blocks.iter().flat_map(|block| &block.lines).map(|line| &line.inst).collect();
    assert!(matches!(insts[0], Inst::Red { op: AtomOp::Add, ty: Ty::U64, .. }), "{insts:?}");
    assert!(matches!(insts[1], Inst::AtomicStore { .. }), "{insts:?}");
}

#[test]
fn atomics_that_cannot_be_are_refused() {
    let half = Scalar { kind: naga::ScalarKind::Float, width: 2 };
    let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
    assert!(atomic(&mut b, call(AtomicOp::Add, half, Operand::Imm(0), Use::Read)).is_err());
    assert!(atomic(&mut b, call(AtomicOp::And, Scalar::F32, Operand::Imm(0), Use::Read)).is_err());
    assert!(atomic(&mut b, call(AtomicOp::Add, Scalar::BOOL, Operand::Imm(0), Use::Read)).is_err());
    assert!(atomic_load(&mut b, Scalar::U32, Space::Constant, PLACE).is_err());
    assert!(atomic_store(&mut b, Scalar::U32, Space::Local, PLACE, Operand::Imm(0)).is_err());
    assert!(b.finish().0.iter().all(|block| block.lines.is_empty()));
}
