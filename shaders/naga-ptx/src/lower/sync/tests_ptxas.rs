//! Every sequence of this folder through the real assembler.

use naga::{CollectiveOperation as How, CooperativeRole, CooperativeSize, Direction, Scalar, ScalarKind};
use naga::{SubgroupOperation as Op, VectorSize};

use super::super::math::ty_of;
use super::atomics::AtomicResult;
use super::*;
use crate::assembler::{assemble, knows, nothing_spilled, on_all_processors, ptxas};
use crate::ir::*;
use crate::ptx::PtxVersion;

/// Targets, with the PTX ISA version that introduced each. ptxas 13 no longer knows the first, ptxas 12.9 knows all.
const TARGETS: [(Target, u32, u32); 7] = [
    (Target::new(7, 0), 6, 0),
    (Target::new(7, 5), 6, 3),
    (Target::new(8, 0), 7, 0),
    (Target::new(8, 9), 7, 8),
    (Target::new(9, 0), 7, 8),
    (Target::new(10, 0), 8, 6),
    (Target::new(12, 0), 8, 7),
];

type Write = fn(&mut Module);

/// What writes kernels of which kind.
const PARTS: [(&str, Write); 3] =
    [("subgroups", subgroup_kernels), ("atomics", atomic_kernels), ("cooperative", coop_kernels)];

struct Module {
    target: Target,
    least: PtxVersion,
    kernels: Vec<Kernel>,
}

impl Module {
    /// A kernel that `write` writes; its first parameter is a buffer, whose address is in the register.
    fn kernel(&mut self, workgroup_size: [u32; 3], write: impl FnOnce(&mut Builder, Env, Reg)) {
        let mut b = Builder::new(self.least);
        let buffer = b.reg(Ty::U64);
        let address = Address { base: Base::Param(0), offset: 0 };
        b.push(Inst::Load { space: Space::Param, ty: Ty::U64, dst: vec![buffer], address, volatile: false });
        write(&mut b, Env { target: self.target, workgroup_size }, buffer);
        let (blocks, registers, version) = b.finish();
        self.kernels.push(Kernel {
            symbol: format!("kernel_{}", self.kernels.len()),
            workgroup_size,
            params: vec![(8, 8)],
            shared_bytes: 4096,
            shared_is_dynamic: false,
            local_bytes: 0,
            blocks,
            registers,
            version,
        });
    }
}

fn at(buffer: Reg, offset: i64) -> Address {
    Address { base: Base::Reg(buffer), offset }
}

fn load(b: &mut Builder, ty: Ty, buffer: Reg) -> Operand {
    let memory = if ty == Ty::Pred { Ty::U32 } else { ty };
    let dst = b.reg(memory);
    b.push(Inst::Load { space: Space::Global, ty: memory, dst: vec![dst], address: at(buffer, 8), volatile: true });
    if ty == Ty::Pred { b.setp(Compare::Ne, Ty::U32, dst.into(), Operand::Imm(0)) } else { dst.into() }
}

fn store(b: &mut Builder, ty: Ty, buffer: Reg, value: Operand) {
    let (ty, value) = match ty {
        Ty::Pred => (Ty::U32, b.selp(Ty::U32, value, Operand::Imm(1), Operand::Imm(0))),
        ty => (ty, value),
    };
    let src = vec![value];
    b.push(Inst::Store { space: Space::Global, ty, src, address: at(buffer, 16), volatile: true });
}

fn numbers() -> Vec<Scalar> {
    let kinds = [ScalarKind::Sint, ScalarKind::Uint, ScalarKind::Float];
    kinds.into_iter().flat_map(|kind| [2, 4, 8].map(|width| Scalar { kind, width })).collect()
}

/// Whole warps, a head of one, any set of lanes.
const PLACES: [([u32; 3], Convergence); 4] = [
    ([64, 1, 1], Convergence::Uniform),
    ([20, 1, 1], Convergence::Uniform),
    ([9, 9, 1], Convergence::Uniform),
    ([64, 1, 1], Convergence::Partial),
];

fn subgroup_kernels(module: &mut Module) {
    for (size, convergence) in PLACES {
        for scalar in numbers().into_iter().chain([Scalar::BOOL]) {
            let ty = ty_of(scalar).unwrap();
            let ops: &[Op] = match scalar.kind {
                ScalarKind::Bool => &[Op::All, Op::Any, Op::Xor],
                ScalarKind::Float => &[Op::Add, Op::Mul, Op::Min, Op::Max],
                _ => &[Op::Add, Op::Mul, Op::Min, Op::Max, Op::And, Op::Or, Op::Xor],
            };
            for &op in ops {
                let scans = if matches!(op, Op::Add | Op::Mul) { 3 } else { 1 };
                for how in [How::Reduce, How::InclusiveScan, How::ExclusiveScan].into_iter().take(scans) {
                    module.kernel(size, |b, env, buffer| {
                        let value = load(b, ty, buffer);
                        let leaves = [value, Operand::Imm(1)];
                        let leaves = if ty == Ty::Pred { &leaves[..1] } else { &leaves[..] };
                        for result in collective(b, env, convergence, op, how, scalar, leaves).unwrap() {
                            store(b, ty, buffer, result);
                        }
                    });
                }
            }
            module.kernel(size, |b, env, buffer| {
                let lane = load(b, Ty::U32, buffer);
                for mode in [
                    Gather::BroadcastFirst,
                    Gather::Broadcast(Operand::u32(33)),
                    Gather::Shuffle(lane),
                    Gather::ShuffleDown(lane),
                    Gather::ShuffleUp(lane),
                    Gather::ShuffleXor(lane),
                    Gather::QuadBroadcast(Operand::u32(2)),
                    Gather::QuadSwap(Direction::Diagonal),
                ] {
                    let value = load(b, ty, buffer);
                    let result = gather(b, env, convergence, mode, scalar, &[value]).unwrap()[0];
                    store(b, ty, buffer, result);
                }
            });
        }
        module.kernel(size, |b, env, buffer| {
            let predicate = load(b, Ty::Pred, buffer);
            for predicate in [Some(predicate), None] {
                let word = ballot(b, env, convergence, predicate)[0];
                store(b, Ty::U32, buffer, word);
            }
            for value in [linear_index(b, env), subgroup_id(b, env), subgroup_invocation_id(b), num_subgroups(env)] {
                store(b, Ty::U32, buffer, value);
            }
            for flags in [naga::Barrier::WORK_GROUP, naga::Barrier::STORAGE, naga::Barrier::SUB_GROUP] {
                control_barrier(b, env, convergence, flags);
                memory_barrier(b, flags);
            }
            let value = uniform_load(b, |b| Ok(load(b, Ty::U32, buffer))).unwrap();
            store(b, Ty::U32, buffer, value);
        });
    }
}

fn atomic_kernels(module: &mut Module) {
    for scalar in numbers().into_iter().filter(|scalar| scalar.width > 2) {
        let ty = ty_of(scalar).unwrap();
        for space in [Space::Global, Space::Shared] {
            module.kernel([64, 1, 1], |b, _, buffer| {
                let address = match space {
                    Space::Shared => Address { base: Base::Shared, offset: 64 },
                    _ => at(buffer, 64),
                };
                let value = load(b, ty, buffer);
                let float = ty.is_float();
                let bitwise = [AtomicOp::And, AtomicOp::ExclusiveOr, AtomicOp::InclusiveOr];
                let compare = AtomicOp::CompareExchange { compare: value };
                let ops =
                    [AtomicOp::Add, AtomicOp::Subtract, AtomicOp::Min, AtomicOp::Max, AtomicOp::Exchange, compare];
                for op in ops.into_iter().chain(bitwise.into_iter().filter(|_| !float)) {
                    for (value, result) in [(value, Use::Read), (value, Use::Ignored), (Operand::Imm(1), Use::Read)] {
                        let call = AtomicCall { op, scalar, space, address, value, result };
                        let AtomicResult { old, exchanged } = atomic(b, call).unwrap();
                        store(b, ty, buffer, old);
                        if let Some(exchanged) = exchanged {
                            store(b, Ty::Pred, buffer, exchanged);
                        }
                    }
                }
                let loaded = atomic_load(b, scalar, space, address).unwrap();
                atomic_store(b, scalar, space, address, loaded).unwrap();
                atomic_store(b, scalar, space, address, Operand::Imm(0)).unwrap();
            });
        }
    }
}

fn coop_kernels(module: &mut Module) {
    let ty = |role, scalar| {
        let (columns, rows) = (CooperativeSize::Sixteen, CooperativeSize::Sixteen);
        CoopType { columns, rows, scalar, role }
    };
    for space in [Space::Global, Space::Shared, Space::Constant] {
        for scalar in [Scalar::F16, Scalar::F32] {
            for (major, other) in [(Major::Row, Major::Column), (Major::Column, Major::Row), (Major::Row, Major::Row)] {
                module.kernel([64, 1, 1], |b, env, buffer| {
                    let address =
                        if space == Space::Shared { Address { base: Base::Shared, offset: 0 } } else { at(buffer, 0) };
                    let stride = load(b, Ty::U32, buffer);
                    let end = (scalar == Scalar::F32).then(|| load(b, space.address(), buffer));
                    let place = |major| {
                        let components = VectorSize::Quad as u32;
                        CoopPlace { space, address, stride, components, major, end }
                    };
                    let left = coop_load(b, env, ty(CooperativeRole::A, Scalar::F16), place(major)).unwrap();
                    let right = coop_load(b, env, ty(CooperativeRole::B, Scalar::F16), place(other)).unwrap();
                    let c = coop_load(b, env, ty(CooperativeRole::C, scalar), place(major)).unwrap();
                    let zero = coop_splat(b, c.ty, Operand::Imm(0)).unwrap();
                    let d = coop_mma(b, env, &left, &right, &zero).unwrap();
                    let left = coop_add(b, &left, &left).unwrap();
                    let d = coop_mma(b, env, &left, &right, &d).unwrap();
                    let factor = load(b, ty_of(scalar).unwrap(), buffer);
                    let d = coop_scale(b, &d, factor).unwrap();
                    let d = coop_sub(b, &d, &c).unwrap();
                    let d = coop_add(b, &d, &zero).unwrap();
                    let out = if space == Space::Constant { Space::Global } else { space };
                    coop_store(b, env, &d, CoopPlace { space: out, stride: Operand::u32(16), ..place(other) }).unwrap();
                    b.settle_layouts().unwrap();
                });
            }
        }
    }
}

/// Needs `ptxas` as `tests/suite/ptxas.rs` does.
#[test]
fn sequences_assemble() {
    let Some(ptxas) = ptxas() else { return };
    let folder = std::env::temp_dir().join(format!("naga-ptx-sync-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut jobs = Vec::new();
    for (target, major, minor) in TARGETS {
        if !knows(&ptxas, &folder.join("known"), &target.to_string()) {
            assert_eq!(target, Target::OLDEST, "this ptxas does not know {target}");
            eprintln!("NOT RUN: this ptxas does not know {target}");
            continue;
        }
        for (name, write) in PARTS {
            let mut module = Module { target, least: PtxVersion { major, minor }, kernels: Vec::new() };
            write(&mut module);
            let version = module.kernels.iter().map(|kernel| kernel.version).fold(module.least, PtxVersion::max);
            jobs.push((format!("{name} for {target}"), crate::emit::module(&module.kernels, version, target), target));
        }
    }
    let faults = on_all_processors(&jobs, |i, (name, text, target)| {
        let log = assemble(&ptxas, &folder.join(i.to_string()), text, &target.to_string());
        log.and_then(|log| nothing_spilled(text, &log)).err().map(|fault| format!("{name}: {fault}"))
    });
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(jobs.len() >= (TARGETS.len() - 1) * PARTS.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Without the assembler, and for a target that it may not know.
#[test]
fn sequences_need_no_newer_ptx_than_their_target() {
    for (target, major, minor) in TARGETS {
        let mut module = Module { target, least: PtxVersion { major, minor }, kernels: Vec::new() };
        PARTS.iter().for_each(|(_, write)| write(&mut module));
        let version = module.kernels.iter().map(|kernel| kernel.version).max().unwrap();
        // Volta came before the spelling of activemask and of aligned wmma.
        assert_eq!(version, module.least.max(PtxVersion { major: 6, minor: 3 }), "{target}");
    }
}
