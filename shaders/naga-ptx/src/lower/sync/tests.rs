//! Sequences run on a warp of the host ([`super::warp`]) against plain loops over the lanes.
//!
//! Values are chosen so that no order of combining them rounds: results must then agree in every bit.

use naga::{CollectiveOperation as How, Direction, Scalar, ScalarKind, SubgroupOperation as Op};

use super::super::math::ty_of;
use super::warp::{Number, Warp, decode, encode, lanes_of};
use super::*;
use crate::ir::{Builder, Inst, Operand, Ty};
use crate::ptx::PtxVersion;

const ALL: u32 = u32::MAX;

fn scalar(kind: ScalarKind, width: u8) -> Scalar {
    Scalar { kind, width }
}

fn numbers() -> [Scalar; 9] {
    let (int, uint, float) = (ScalarKind::Sint, ScalarKind::Uint, ScalarKind::Float);
    [(int, 2), (int, 4), (int, 8), (uint, 2), (uint, 4), (uint, 8), (float, 2), (float, 4), (float, 8)]
        .map(|(kind, width)| scalar(kind, width))
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Sets of lanes: a single one, sparse, dense, all.
    fn lanes(&mut self, round: u32) -> u32 {
        let (x, y) = (self.next() as u32, (self.next() >> 32) as u32);
        match round % 5 {
            0 => 1 << (x % 32),
            1 => (x & y) | 1 << (y % 32),
            2 => x | 1 << (y % 32),
            3 => x | y,
            _ => ALL,
        }
    }

    /// A number of which 32 can be combined by `op` in any order without rounding.
    fn number(&mut self, op: Op, ty: Ty) -> u64 {
        let bits = self.next();
        if !ty.is_float() {
            return bits & (u64::MAX >> (64 - 8 * ty.bytes()));
        }
        let number = match op {
            Op::Mul => [1.0, -1.0, 1.0, 2.0, -0.5, 1.0, 0.5, -1.0][(bits >> 40) as usize % 8],
            _ => ((bits >> 32) % 65) as f64 - 32.0,
        };
        encode(ty, Number::Float(number))
    }
}

/// One situation: how many invocations there are, which warp it is, which lanes come there, and what the compiler
/// knows.
#[derive(Clone, Copy, Debug)]
struct Case {
    env: Env,
    first: u32,
    active: u32,
    convergence: Convergence,
}

fn cases(random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for target in [Target::new(7, 5), Target::new(9, 0)] {
        let mut push = |workgroup_size, first, active, convergence| {
            cases.push(Case { env: Env { target, workgroup_size }, first, active, convergence });
        };
        push([64, 1, 1], 32, ALL, Convergence::Uniform);
        push([8, 4, 2], 0, ALL, Convergence::Uniform);
        for size in [1, 7, 31, 37, 95] {
            let last = size / 32 * 32;
            push([size, 1, 1], last, ALL >> (32 - size % 32), Convergence::Uniform);
            if last > 0 {
                push([size, 1, 1], 0, ALL, Convergence::Uniform);
            }
        }
        push([5, 3, 3], 32, 0x1fff, Convergence::Uniform);
        for round in 0..25 {
            push([64, 1, 1], 0, random.lanes(round), Convergence::Partial);
        }
    }
    cases
}

/// Runs what `write` writes for an argument of type `ty` and gives each lane's result.
fn run(case: Case, ty: Ty, values: &[u64; 32], write: impl FnOnce(&mut Builder, Operand) -> Operand) -> [u64; 32] {
    let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
    let argument = b.reg(ty);
    let result = write(&mut b, argument.into());
    let (blocks, registers, _) = b.finish();
    let mut warp = Warp::new(registers, case.env.workgroup_size, case.first);
    warp.set(argument, values);
    warp.run(&blocks, case.active);
    std::array::from_fn(|lane| warp.get(result, lane as u32))
}

fn combine(op: Op, ty: Ty, a: u64, b: u64) -> u64 {
    let number = match (op, decode(ty, a), decode(ty, b)) {
        (Op::Add, Number::Int(x), Number::Int(y)) => Number::Int(x + y),
        (Op::Mul, Number::Int(x), Number::Int(y)) => Number::Int(x.wrapping_mul(y)),
        (Op::Min, Number::Int(x), Number::Int(y)) => Number::Int(x.min(y)),
        (Op::Max, Number::Int(x), Number::Int(y)) => Number::Int(x.max(y)),
        (Op::And, Number::Int(x), Number::Int(y)) => Number::Int(x & y),
        (Op::Or, Number::Int(x), Number::Int(y)) => Number::Int(x | y),
        (Op::Xor, Number::Int(x), Number::Int(y)) => Number::Int(x ^ y),
        (Op::Add, Number::Float(x), Number::Float(y)) => Number::Float(x + y),
        (Op::Mul, Number::Float(x), Number::Float(y)) => Number::Float(x * y),
        (Op::Min, Number::Float(x), Number::Float(y)) => Number::Float(if x < y { x } else { y }),
        (Op::Max, Number::Float(x), Number::Float(y)) => Number::Float(if x > y { x } else { y }),
        (op, x, y) => panic!("{op:?} of {x:?} and {y:?}"),
    };
    encode(ty, number)
}

fn identity(op: Op, ty: Ty) -> u64 {
    let value = if op == Op::Mul { 1 } else { 0 };
    encode(ty, if ty.is_float() { Number::Float(f64::from(value)) } else { Number::Int(i128::from(value)) })
}

#[test]
fn collective_of_numbers_over_any_lanes_equals_a_loop_over_them() {
    let mut random = Random(0x5eed_0001);
    let mut checked = 0;
    for scalar in numbers() {
        let ty = ty_of(scalar).unwrap();
        let mut ops = vec![Op::Add, Op::Mul, Op::Min, Op::Max];
        if !ty.is_float() {
            ops.extend([Op::And, Op::Or, Op::Xor]);
        }
        for case in cases(&mut random) {
            for &op in &ops {
                let hows = [How::Reduce, How::InclusiveScan, How::ExclusiveScan];
                for how in hows.into_iter().take(if matches!(op, Op::Add | Op::Mul) { 3 } else { 1 }) {
                    let values = std::array::from_fn(|_| random.number(op, ty));
                    let results = run(case, ty, &values, |b, value| {
                        collective(b, case.env, case.convergence, op, how, scalar, &[value]).unwrap()[0]
                    });
                    for lane in lanes_of(case.active) {
                        let over = match how {
                            How::Reduce => case.active,
                            How::InclusiveScan => case.active & (ALL >> (31 - lane)),
                            How::ExclusiveScan => case.active & ((1 << lane) - 1),
                        };
                        let expected = lanes_of(over).map(|lane| values[lane as usize]);
                        let expected = expected.reduce(|x, y| combine(op, ty, x, y)).unwrap_or(identity(op, ty));
                        let got = results[lane as usize];
                        assert_eq!(decode_text(ty, got), decode_text(ty, expected), "{case:?} {op:?} {how:?} {lane}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 100_000, "{checked}");
}

fn decode_text(ty: Ty, bits: u64) -> String {
    format!("{:?}", decode(ty, bits))
}

/// With numbers that do round, all lanes must still get the same bits: later control flow may rely on it.
#[test]
fn reduction_of_floats_that_round_is_the_same_in_all_lanes() {
    let mut random = Random(0x5eed_0002);
    for case in cases(&mut random) {
        for op in [Op::Add, Op::Mul] {
            let values =
                std::array::from_fn(|_| u64::from((1.0 + (random.next() >> 40) as f32 / (1 << 24) as f32).to_bits()));
            let results = run(case, Ty::F32, &values, |b, value| {
                collective(b, case.env, case.convergence, op, How::Reduce, Scalar::F32, &[value]).unwrap()[0]
            });
            let first = results[case.active.trailing_zeros() as usize];
            assert!(lanes_of(case.active).all(|lane| results[lane as usize] == first), "{case:?} {op:?}");
            let exact = lanes_of(case.active).map(|lane| f64::from(f32::from_bits(values[lane as usize] as u32)));
            let exact: f64 = if op == Op::Add { exact.sum() } else { exact.product() };
            // 31 roundings of 2^-24 each.
            let error = (f64::from(f32::from_bits(first as u32)) - exact).abs();
            assert!(error <= 31.0 * exact / (1 << 24) as f64, "{case:?} {op:?}: {error}");
        }
    }
}

#[test]
fn sum_of_a_constant_counts_lanes() {
    let mut random = Random(0x5eed_0003);
    for case in cases(&mut random) {
        for scalar in numbers().into_iter().filter(|scalar| scalar.kind != ScalarKind::Float) {
            let ty = ty_of(scalar).unwrap();
            let three = Operand::Imm(encode(ty, Number::Int(-3)));
            for (how, below) in [(How::Reduce, 32), (How::InclusiveScan, 1), (How::ExclusiveScan, 0)] {
                let results = run(case, ty, &[0; 32], |b, _| {
                    collective(b, case.env, case.convergence, Op::Add, how, scalar, &[three]).unwrap()[0]
                });
                for lane in lanes_of(case.active) {
                    let over = if below == 32 { 32 } else { lane + below };
                    let count = lanes_of(case.active).filter(|&other| other < over).count();
                    let expected = encode(ty, Number::Int(-3 * count as i128));
                    assert_eq!(results[lane as usize], expected, "{case:?} {scalar:?} {how:?} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn votes_over_any_lanes_equal_a_loop_over_them() {
    let mut random = Random(0x5eed_0004);
    for case in cases(&mut random) {
        for round in 0..8 {
            let chosen = [0, ALL, random.next() as u32, !case.active, !(1 << case.active.trailing_zeros())][round % 5];
            let values = std::array::from_fn(|lane| u64::from(chosen >> lane & 1));
            let (votes, active) = (chosen & case.active, case.active);
            let expected = [
                (Op::All, votes == active),
                (Op::And, votes == active),
                (Op::Any, votes != 0),
                (Op::Or, votes != 0),
                (Op::Xor, votes.count_ones() % 2 == 1),
            ];
            for (op, expected) in expected {
                let results = run(case, Ty::Pred, &values, |b, value| {
                    collective(b, case.env, case.convergence, op, How::Reduce, Scalar::BOOL, &[value]).unwrap()[0]
                });
                for lane in lanes_of(active) {
                    assert_eq!(results[lane as usize] != 0, expected, "{case:?} {op:?} {chosen:#x}");
                }
            }
            let ballots = run(case, Ty::Pred, &values, |b, value| {
                let words = ballot(b, case.env, case.convergence, Some(value));
                assert_eq!(words[1..], [Operand::Imm(0); 3]);
                words[0]
            });
            let everyone = run(case, Ty::Pred, &values, |b, _| ballot(b, case.env, case.convergence, None)[0]);
            for lane in lanes_of(active) {
                assert_eq!(ballots[lane as usize], u64::from(votes), "{case:?}");
                assert_eq!(everyone[lane as usize], u64::from(active), "{case:?}");
            }
        }
    }
}

#[test]
fn gather_reads_the_lane_it_names() {
    let mut random = Random(0x5eed_0005);
    let mut checked = 0;
    for case in cases(&mut random) {
        for scalar in numbers().into_iter().chain([Scalar::BOOL]) {
            let ty = ty_of(scalar).unwrap();
            let values: [u64; 32] =
                std::array::from_fn(|_| random.number(Op::Xor, ty) & if ty == Ty::Pred { 1 } else { u64::MAX });
            let n = random.next() as u32 % 32;
            let constant = Operand::u32(n);
            let modes: [(Gather, &dyn Fn(u32) -> u32); 10] = [
                (Gather::BroadcastFirst, &|_| case.active.trailing_zeros()),
                (Gather::Broadcast(constant), &|_| n),
                (Gather::Shuffle(constant), &|_| n),
                (Gather::ShuffleUp(constant), &|lane| lane.wrapping_sub(n)),
                (Gather::ShuffleDown(constant), &|lane| lane + n),
                (Gather::ShuffleXor(constant), &|lane| lane ^ n),
                (Gather::QuadBroadcast(Operand::u32(n % 4)), &|lane| (lane & !3) | (n % 4)),
                (Gather::QuadSwap(Direction::X), &|lane| lane ^ 1),
                (Gather::QuadSwap(Direction::Y), &|lane| lane ^ 2),
                (Gather::QuadSwap(Direction::Diagonal), &|lane| lane ^ 3),
            ];
            for (mode, source) in modes {
                let results = run(case, ty, &values, |b, value| {
                    gather(b, case.env, case.convergence, mode, scalar, &[value]).unwrap()[0]
                });
                for lane in lanes_of(case.active) {
                    let source = source(lane);
                    // What other lanes give WGSL leaves open.
                    if source < 32 && case.active >> source & 1 == 1 {
                        assert_eq!(results[lane as usize], values[source as usize], "{case:?} {mode:?} lane {lane}");
                        checked += 1;
                    }
                }
            }
        }
    }
    assert!(checked > 50_000, "{checked}");
}

#[test]
fn builtins_number_the_invocations_of_a_workgroup() {
    for workgroup_size in [[1, 1, 1], [64, 1, 1], [5, 3, 3], [1, 40, 1], [1, 1, 64], [8, 8, 4], [1, 7, 9]] {
        let env = Env { target: Target::OLDEST, workgroup_size };
        let total = env.invocations();
        assert_eq!(num_subgroups(env), Operand::u32(total.div_ceil(32)));
        assert_eq!(subgroup_size(), Operand::u32(32));
        for first in (0..total).step_by(32) {
            let active = if total - first >= 32 { ALL } else { (1 << (total - first)) - 1 };
            let case = Case { env, first, active, convergence: Convergence::Uniform };
            let index = run(case, Ty::U32, &[0; 32], |b, _| linear_index(b, env));
            let id = run(case, Ty::U32, &[0; 32], |b, _| subgroup_id(b, env));
            let within = run(case, Ty::U32, &[0; 32], |b, _| subgroup_invocation_id(b));
            for lane in lanes_of(active) {
                let at = lane as usize;
                let expected = (u64::from(first + lane), u64::from(first / 32), u64::from(lane));
                assert_eq!((index[at], id[at], within[at]), expected, "{workgroup_size:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "active are")]
fn warp_notices_a_mask_that_names_an_absent_lane() {
    let env = Env { target: Target::new(8, 0), workgroup_size: [32, 1, 1] };
    let case = Case { env, first: 0, active: 0xff, convergence: Convergence::Uniform };
    run(case, Ty::U32, &[1; 32], |b, value| {
        collective(b, env, case.convergence, Op::Add, How::Reduce, Scalar::U32, &[value]).unwrap()[0]
    });
}

#[test]
fn reduction_of_words_is_one_instruction_from_sm_80_on() {
    for (target, native) in [(Target::new(7, 5), false), (Target::new(8, 0), true), (Target::new(12, 0), true)] {
        for convergence in [Convergence::Uniform, Convergence::Partial] {
            let env = Env { target, workgroup_size: [32, 1, 1] };
            let mut b = Builder::new(PtxVersion { major: 6, minor: 3 });
            let value = b.reg(Ty::U32).into();
            collective(&mut b, env, convergence, Op::Max, How::Reduce, Scalar::U32, &[value]).unwrap();
            let (blocks, _, version) = b.finish();
            let lines = blocks.iter().flat_map(|block| &block.lines);
            let shuffles = lines.clone().filter(|line| matches!(line.inst, Inst::Shfl { .. })).count();
            let redux = lines.filter(|line| matches!(line.inst, Inst::Redux { .. })).count();
            assert_eq!((redux, shuffles == 0), (usize::from(native), native));
            assert_eq!(version.major, if native { 7 } else { 6 });
        }
    }
}
