//! Cooperative matrices: registers, layouts, refusals.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{CooperativeRole, CooperativeSize, Scalar};

use super::warp::Warp;
use super::*;
use crate::error::Error;
use crate::ir::*;
use crate::ptx::PtxVersion;

const ENV: Env = Env { target: Target::new(8, 0), workgroup_size: [32, 1, 1] };

fn matrix(role: CooperativeRole, scalar: Scalar) -> CoopType {
    CoopType { columns: CooperativeSize::Sixteen, rows: CooperativeSize::Sixteen, scalar, role }
}

fn place(major: Major, stride: Operand, components: u32) -> CoopPlace {
    let address = Address { base: Base::Shared, offset: 0 };
    CoopPlace { space: Space::Shared, address, stride, components, major, end: None }
}

fn builder() -> Builder {
    Builder::new(PtxVersion { major: 6, minor: 0 })
}

fn insts(b: Builder) -> Vec<Inst> {
    b.finish().0.into_iter().flat_map(|block| block.lines).map(|line| line.inst).collect()
}

fn is_unsupported<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Unsupported { .. }))
}

#[test]
fn product_names_the_layouts_its_factors_were_loaded_with() {
    let majors = [Major::Row, Major::Column];
    for (a_major, b_major) in majors.into_iter().flat_map(|a| majors.map(|b| (a, b))) {
        for scalar in [Scalar::F16, Scalar::F32] {
            let mut b = builder();
            let stride = Operand::u32(16);
            let left = matrix(CooperativeRole::A, Scalar::F16);
            let left = coop_load(&mut b, ENV, left, place(a_major, stride, 1)).unwrap();
            let right = matrix(CooperativeRole::B, Scalar::F16);
            let right = coop_load(&mut b, ENV, right, place(b_major, stride, 1)).unwrap();
            let c = matrix(CooperativeRole::C, scalar);
            let c = coop_load(&mut b, ENV, c, place(a_major, stride, 1)).unwrap();
            let left = coop_scale(&mut b, &left, Operand::Imm(0x4000)).unwrap();
            let d = coop_mma(&mut b, ENV, &left, &right, &c).unwrap();
            assert_eq!(
                (left.regs.len(), right.regs.len(), d.regs.len()),
                (8, 8, if scalar == Scalar::F16 { 4 } else { 8 })
            );
            assert!(is_unsupported(coop_store(&mut b, ENV, &left, place(a_major, stride, 1))));
            coop_store(&mut b, ENV, &d, place(b_major, stride, 1)).unwrap();
            assert_eq!(b.settle_layouts(), Ok(()));
            let insts = insts(b);
            let product = insts.iter().find_map(|inst| match inst {
                Inst::WmmaMma { ab_major, d_ty, c_ty, .. } => Some((*ab_major, *d_ty, *c_ty)),
                _ => None,
            });
            let ty = if scalar == Scalar::F16 { Ty::F16 } else { Ty::F32 };
            assert_eq!(product, Some(([a_major, b_major], ty, ty)));
            let stored = insts.iter().find_map(|inst| match inst {
                Inst::WmmaStore { major, ty, src, .. } => Some((*major, *ty, src.len())),
                _ => None,
            });
            assert_eq!(stored, Some((b_major, ty, d.regs.len())));
        }
    }
}

#[test]
fn stride_counts_scalars_whatever_the_pointer_points_to() {
    let mut b = builder();
    let c = matrix(CooperativeRole::C, Scalar::F32);
    coop_load(&mut b, ENV, c, place(Major::Row, Operand::u32(6), 4)).unwrap();
    let Some(Inst::WmmaLoad { stride, .. }) = insts(b).pop() else { panic!("no load") };
    assert_eq!(stride, Operand::u32(24));
}

#[test]
fn matrix_that_would_end_behind_the_variable_is_zero_and_not_stored() {
    let (start, bytes) = (4096_u64, 2048_u64);
    for space in [Space::Global, Space::Shared] {
        for (scalar, element) in [(Scalar::F16, 2), (Scalar::F32, 4)] {
            for offset in [-16, 0, 16, 1600, 1_i64 << 20] {
                for stride in [0, 1, 16, 24, 60, 64, 70, 1 << 16, u32::MAX] {
                    let mut b = builder();
                    let base = b.reg(space.address());
                    let distance = b.reg(Ty::U32);
                    let address = Address { base: Base::Reg(base), offset };
                    let end = Some(Operand::Imm(start + bytes));
                    let (stride_operand, components, major) = (distance.into(), 1, Major::Row);
                    let place = CoopPlace { space, address, stride: stride_operand, components, major, end };
                    let value = coop_load(&mut b, ENV, matrix(CooperativeRole::C, scalar), place).unwrap();
                    let (blocks, registers, _) = b.finish();
                    let mut warp = Warp::new(registers, [32, 1, 1], 0);
                    warp.set(base, &[start; 32]);
                    warp.set(distance, &[u64::from(stride); 32]);
                    warp.run(&blocks, u32::MAX);
                    let last = i128::from(offset) + element * (15 * i128::from(stride) + 16);
                    let expected = u64::from(last <= i128::from(bytes));
                    let loaded = value.regs.iter().all(|&reg| warp.get(reg.into(), 31) == expected);
                    assert!(loaded, "{space:?} {scalar:?} at {offset}, {stride} apart");
                }
            }
        }
    }
    let mut b = builder();
    let value = coop_splat(&mut b, matrix(CooperativeRole::C, Scalar::F32), Operand::Imm(0)).unwrap();
    let end = Some(Operand::Imm(0));
    coop_store(&mut b, ENV, &value, CoopPlace { end, ..place(Major::Row, Operand::u32(16), 1) }).unwrap();
    let (blocks, ..) = b.finish();
    assert!(matches!(blocks[0].terminator, Terminator::Branch { .. }));
}

#[test]
fn splat_fills_both_halves() {
    let mut b = builder();
    let one = coop_splat(&mut b, matrix(CooperativeRole::A, Scalar::F16), Operand::Imm(0x3c00)).unwrap();
    assert_eq!(one.regs.len(), 8);
    let insts = insts(b);
    assert_eq!(insts.len(), 8);
    assert!(insts.iter().all(|inst| matches!(inst, Inst::Mov { src: Operand::Imm(0x3c00_3c00), .. })), "{insts:?}");
}

#[test]
fn sum_of_factors_of_both_layouts_is_refused_and_zero_fits_either() {
    let product = |pick: fn([CoopValue; 3], &mut Builder) -> CoopValue| {
        let mut b = builder();
        let ty = matrix(CooperativeRole::B, Scalar::F16);
        let [rows, columns] = [Major::Row, Major::Column]
            .map(|major| coop_load(&mut b, ENV, ty, place(major, Operand::u32(16), 1)).unwrap());
        let zero = coop_splat(&mut b, ty, Operand::Imm(0)).unwrap();
        // One that other sums take part in as well.
        coop_add(&mut b, &rows, &zero).unwrap();
        coop_add(&mut b, &columns, &zero).unwrap();
        let left = coop_splat(&mut b, matrix(CooperativeRole::A, Scalar::F16), Operand::Imm(0)).unwrap();
        let c = coop_splat(&mut b, matrix(CooperativeRole::C, Scalar::F32), Operand::Imm(0)).unwrap();
        let right = pick([rows, columns, zero], &mut b);
        let d = coop_mma(&mut b, ENV, &left, &right, &c).unwrap();
        b.settle_layouts().map_err(|reg| assert_eq!(reg, d.regs[0]))?;
        Ok(insts(b).into_iter().find_map(|inst| match inst {
            Inst::WmmaMma { ab_major, .. } => Some(ab_major),
            _ => None,
        }))
    };
    let named = |right| Ok::<_, ()>(Some([Major::Row, right]));
    assert_eq!(product(|[rows, columns, _], b| coop_add(b, &rows, &columns).unwrap()), Err(()));
    assert_eq!(product(|[_, columns, zero], b| coop_sub(b, &zero, &columns).unwrap()), named(Major::Column));
    assert_eq!(product(|[rows, _, zero], b| coop_add(b, &rows, &zero).unwrap()), named(Major::Row));
    assert_eq!(product(|[_, _, zero], _| zero), named(Major::Row));
}

#[test]
fn matrices_that_tensor_cores_lack_are_unsupported() {
    let mut b = builder();
    let sixteen = matrix(CooperativeRole::A, Scalar::F16);
    let eight = CoopType { columns: CooperativeSize::Eight, rows: CooperativeSize::Eight, ..sixteen };
    assert!(is_unsupported(eight.registers()));
    for role in [CooperativeRole::A, CooperativeRole::B] {
        assert!(is_unsupported(coop_splat(&mut b, matrix(role, Scalar::F32), Operand::Imm(0))));
    }
    let partial = Env { workgroup_size: [48, 1, 1], ..ENV };
    assert!(is_unsupported(coop_load(&mut b, partial, sixteen, place(Major::Row, Operand::u32(16), 1))));
    let memory = CoopPlace { space: Space::Param, ..place(Major::Row, Operand::u32(16), 1) };
    assert!(is_unsupported(coop_load(&mut b, ENV, sixteen, memory)));
    assert_eq!(insts(b), []);
}

const LOOP: &str = "
enable f16;
enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(32)
fn main() {
    var a: coop_mat16x16<f16, A>;
    var b: array<coop_mat16x16<f16, B>, 2>;
    var never: coop_mat16x16<f16, B>;
    var sum: array<coop_mat16x16<f32, C>, 2>;
    for (var k = 0u; k < 6400u; k += 16u) {
        sum[0] = coopMultiplyAdd(a, b[1], sum[0]);
        sum[1] = coopMultiplyAdd(a, never, sum[1]);
        a = f16(2.0) * coopLoadT<coop_mat16x16<f16, A>>(&x[k], 16u);
        b[1] = coopLoad<coop_mat16x16<f16, B>>(&x[k], 16u) + b[0];
    }
    coopStoreT(sum[0] - sum[1], &y[0], 16u);
    coopStore(sum[1] * 0.5, &y[256], 16u);
}
";

/// The products in the PTX of a shader, or why there is none.
fn products(source: &str) -> Result<Vec<String>, Error> {
    let module = naga::front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{}", e.emit_to_string(source)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).unwrap();
    let ptx = crate::compile(&module, &info, &crate::Options::default())?;
    let names = ptx.text.lines().filter_map(|line| line.trim().strip_prefix("wmma.mma.sync.aligned."));
    Ok(names.map(|rest| rest.split(".m16").next().unwrap_or_default().to_owned()).collect())
}

#[test]
fn variables_take_the_layout_of_what_is_stored_to_them_later() {
    assert_eq!(products(LOOP).unwrap(), ["row.col", "row.row"]);
}

const HEAD: &str = "
enable f16;
enable wgpu_cooperative_matrix;
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sum = coop_mat16x16<f32, C>;
@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
";

#[test]
fn layouts_reach_products_through_functions_structs_and_private_variables() {
    for (what, body) in [
        (
            "results",
            "fn left() -> Left { return coopLoad<Left>(&x[0], 16u); }
             fn both(a: Left, b: Right) -> Sum { return coopMultiplyAdd(a, b, Sum()); }
             @compute @workgroup_size(32) fn main() {
                 coopStore(Sum() + both(left(), coopLoadT<Right>(&x[0], 16u)), &y[0], 16u);
             }",
        ),
        (
            "pointers",
            "fn fill(a: ptr<function, Left>) { *a = coopLoad<Left>(&x[0], 16u); }
             fn add(c: ptr<function, Sum>, a: Left) { *c = coopMultiplyAdd(a, coopLoadT<Right>(&x[0], 16u), *c); }
             @compute @workgroup_size(32) fn main() {
                 var a: Left; var c: Sum;
                 fill(&a); add(&c, a);
                 coopStore(c, &y[0], 16u);
             }",
        ),
        (
            "members",
            "struct Pair { a: Left, b: Right }
             fn pair() -> Pair { var p: Pair; p.a = coopLoad<Left>(&x[0], 16u); p.b = coopLoadT<Right>(&x[0], 16u); return p; }
             @compute @workgroup_size(32) fn main() {
                 coopStore(coopMultiplyAdd(pair().a, pair().b, Sum()), &y[0], 16u);
             }",
        ),
        (
            "private",
            "var<private> a: Left; var<private> c: Sum;
             fn fill() { a = coopLoad<Left>(&x[0], 16u); }
             @compute @workgroup_size(32) fn main() {
                 fill();
                 c = coopMultiplyAdd(a, coopLoadT<Right>(&x[0], 16u), c);
                 coopStore(c, &y[0], 16u);
             }",
        ),
    ] {
        let products = products(&format!("{HEAD}{body}")).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(products, ["col.row"], "{what}");
    }
}

#[test]
fn factor_of_two_layouts_is_refused_where_the_product_is() {
    let body = "@group(0) @binding(2) var<uniform> n: u32;
        @compute @workgroup_size(32) fn main() {
            var a: Left;
            if (n == 0u) { a = coopLoad<Left>(&x[0], 16u); } else { a = coopLoadT<Left>(&x[0], 16u); }
            coopStore(coopMultiplyAdd(a, Right(), Sum()), &y[0], 16u);
        }";
    let source = format!("{HEAD}{body}");
    let Err(Error::Unsupported { construct, span: Some(span), .. }) = products(&source) else { panic!("compiled") };
    assert!(construct.contains("by rows in one place"), "{construct}");
    assert!(source[span.to_range().unwrap()].starts_with("coopMultiplyAdd"), "{:?}", &source[span.to_range().unwrap()]);
}

#[test]
fn matrix_that_tensor_cores_lack_is_refused_where_its_variable_is() {
    let body = "@compute @workgroup_size(32) fn main() { var c = coop_mat8x8<f32, C>(); coopStore(c, &y[0], 8u); }";
    let source = format!("{HEAD}{body}");
    let error = products(&source).unwrap_err();
    assert!(source[error.span().unwrap().to_range().unwrap()].contains('c'), "{error:?}");
}
