//! Our kernels, compiled to PTX, are right: the conformance harness over an interpreter, with no GPU.
//!
//! Every run looks for accesses out of bounds, misaligned or to what is read-only, for races, memory that is read
//! before it is written (scratch memory too: what compute-sanitizer's initcheck tells on a card), barriers and warp operations that
//! not all threads reach. A second one has kernels for the oldest
//! target, blocks and threads in a random order, and approximate instructions as wrong as they may be.
//! `POLYWARP_TEST_FAMILY=reduce` restricts a run to one family, `POLYWARP_TEST_FILTER` to cases by name;
//! `POLYWARP_TEST_LEVEL=full` takes all sizes.

use crate::interpreted::{self, Interpreted};
use naga_ptx::Target;
use polywarp_core::harness::{Case, Failure, Level, Outcome, Part, Selection, Values, run, run_case};
use polywarp_core::ops::{Family, Matmul, REGISTRY};
use polywarp_core::plan::Cooperative;
use polywarp_core::{DType, Device, Layout, Precision, Shape, TensorSpec};
use ptx_interpreter::RunOptions;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Today's part of so many: all that a filter names or where all sizes are asked for.
fn part(of: u64) -> Part {
    if variable("POLYWARP_TEST_FILTER").is_some() || level() == Level::Full { Part::ALL } else { Part::today(of) }
}

fn level() -> Level {
    if variable("POLYWARP_TEST_LEVEL").as_deref() == Some("full") { Level::Full } else { Level::Quick }
}

/// Runs one of `parts` parts of the cases of `families` on kernels for `target` ([`part`]), and all cases of the dtype `in_full`.
fn conforms(families: &[&str], target: Target, options: &RunOptions, parts: u64, in_full: Option<DType>) {
    let only = variable("POLYWARP_TEST_FAMILY");
    let filter = variable("POLYWARP_TEST_FILTER");
    for family in families.iter().filter(|name| only.as_deref().is_none_or(|only| only == **name)) {
        let start = std::time::Instant::now();
        // Kernels read whole quads. Behind the last element of a temporary nobody has written; in its own family each is checked.
        let is_composed = REGISTRY.iter().any(|known| known.name == *family && known.is_composed());
        let check_uninitialised = options.check_uninitialised && !is_composed;
        let device = Device::new(Interpreted::new(target, RunOptions { check_uninitialised, ..options.clone() }));
        let selection = Selection {
            family: Some((*family).to_owned()),
            filter: filter.clone(),
            part: part(parts),
            in_full,
            ..Selection::level(level())
        };
        let report = run(&device, &selection, &mut |_| {});
        let backend = device.backend_as::<Interpreted>().expect("the interpreter");
        let (seconds, work) = (start.elapsed().as_secs_f64(), backend.work().thread_instructions as f64);
        println!(
            "{family}: {} kernels, {:.1} million thread instructions in {seconds:.1} s\n{report}",
            backend.compiled(),
            work / 1e6
        );
        assert!(report.ok(), "{family}: {}", report.problem().unwrap_or_default());
        assert!(report.unsupported.is_empty(), "{family}: {:?}", report.unsupported);
    }
}

/// The families of shard number `shard`, which tests run side by side: products, which take longest, have one each.
fn shard(shard: usize) -> Vec<(&'static str, bool)> {
    let multiplies =
        |family: &Family| (family.cases)(Level::Quick).iter().any(|case| case.op.arithmetic().multiplies.is_some());
    let (products, others): (Vec<&Family>, Vec<&Family>) = REGISTRY.iter().partition(|family| multiplies(family));
    let of = |list: &[&Family], long| {
        list.iter().skip(shard).step_by(SHARDS).map(|family| (family.name, long)).collect::<Vec<_>>()
    };
    [of(&products, true), of(&others, false)].concat()
}

/// Some of f32 and of other dtypes of a family; of the rest one of 24 each day, of the families of products one of 32.
fn shard_conforms(number: usize) {
    for (family, long) in shard(number) {
        conforms(&[family], Target::new(9, 0), &RunOptions::strict(), if long { 32 } else { 24 }, Some(DType::F32));
    }
}

macro_rules! shards {
    ($($test:ident: $number:literal;)*) => {
        const SHARDS: usize = [$($number),*].len();

        $(
            #[test]
            fn $test() {
                shard_conforms($number);
            }
        )*
    };
}

shards! {
    families_of_shard_0_conform: 0;
    families_of_shard_1_conform: 1;
    families_of_shard_2_conform: 2;
    families_of_shard_3_conform: 3;
}

#[test]
fn every_family_is_in_one_shard() {
    let mut names: Vec<&str> = (0..SHARDS).flat_map(shard).map(|(family, _)| family).collect();
    names.sort_unstable();
    assert_eq!(names, REGISTRY.iter().map(|family| family.name).collect::<Vec<_>>());
}

/// Of the cases of a family and dtype, which have run already on kernels that are the planner's first, those for others: a part.
fn further(family: &str, dtype: DType) -> Selection {
    let known = REGISTRY.iter().filter(|known| known.name == family).flat_map(|known| (known.cases)(level()));
    let count = known.filter(|case| case.uses(dtype)).count() as u64;
    // Of few cases one part in many would be none on some days.
    let most = if family == "matmul" { 20 } else { 14 };
    Selection {
        dtype: Some(dtype),
        filter: variable("POLYWARP_TEST_FILTER"),
        part: part((count / 12).clamp(1, most)),
        ..Selection::family(family)
    }
}

/// Cases of products, each computed by the candidate that `prefer` names where there is one.
fn products_by(prefer: &str, dtype: DType, change: impl Fn(&mut Interpreted)) {
    let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
    backend.prefer = prefer.to_owned();
    change(&mut backend);
    let device = Device::new(backend);
    let start = std::time::Instant::now();
    let report = run(&device, &further("matmul", dtype), &mut |_| {});
    let names = device.backend_as::<Interpreted>().expect("the interpreter").names();
    let cooperative = names.iter().filter(|name| name.contains("coop")).count();
    println!("{prefer}: {cooperative} cooperative kernels, {:.1} s\n{report}", start.elapsed().as_secs_f64());
    assert_eq!(cooperative > 0, prefer.contains("coop"), "{names:?}");
    assert!(report.ok(), "{prefer}: {}", report.problem().unwrap_or_default());
}

// Apart, so that they run side by side.
#[test]
fn every_cooperative_kernel_conforms() {
    for kernel in ["coop16_w64x64_256x128", "coop16_w64x64_128x128x32", "coop16_w32x32_64x64x64", "coop16_w16x16"] {
        products_by(kernel, DType::F16, |_| {});
    }
}

#[test]
fn cooperative_kernels_behind_packing_conform() {
    for dtype in [DType::F16, DType::I8, DType::F32] {
        products_by("coop16_w16x16_32x32x32_packed", dtype, |_| {});
    }
}

/// Small integers, exact in f16; f32 of less than full precision.
#[test]
fn cooperative_kernels_of_converted_operands_conform() {
    for dtype in [DType::I8, DType::U8, DType::F32] {
        products_by("coop16", dtype, |_| {});
    }
}

/// The cases of f32 at one of `precisions`, all at `High`, with their layouts, batches, epilogues and extents, and batches of
/// matrices that need scales of their own, by `kernel`.
fn split_products_by(kernel: &str, precisions: &[Precision], options: RunOptions, change: impl Fn(&mut Interpreted)) {
    let mut backend = Interpreted::new(Target::new(9, 0), options);
    backend.prefer = kernel.to_owned();
    change(&mut backend);
    let device = Device::new(backend);
    let family = REGISTRY.iter().find(|family| family.name == "matmul").expect("products");
    let mut cases = Vec::new();
    let part = part(5);
    for (i, case) in (0..).zip((family.cases)(Level::Quick)) {
        if part.takes(i)
            && let Some(op) = case.op.get::<Matmul>()
            && op.a.dtype == DType::F32
            && precisions.contains(&op.precision)
        {
            let high = Case::new("matmul", Matmul { precision: Precision::High, ..op.clone() }, case.values);
            cases.push(Case { check: case.check, ..high });
        }
    }
    let spec = |dims: &[u64], to: &[u64]| {
        let shape = |dims| Shape::new(dims).unwrap();
        TensorSpec::new(DType::F32, Layout::contiguous(shape(dims)).broadcast_to(shape(to)).unwrap())
    };
    for (a, b) in [([5, 4, 3], [5, 3, 2]), ([1, 4, 3], [5, 3, 2]), ([5, 4, 3], [1, 3, 2])] {
        let product = Matmul::product(spec(&a, &[5, 4, 3]), spec(&b, &[5, 3, 2]), spec(&[5, 4, 2], &[5, 4, 2]));
        let product = Matmul { precision: Precision::High, ..product }.check().unwrap();
        cases.push(Case::new("matmul", product, vec![Values::Spread(60); 2]));
    }
    let (a, b) = (spec(&[2, 1, 4, 3], &[2, 3, 4, 3]), spec(&[3, 3, 2], &[2, 3, 3, 2]));
    let product = Matmul::product(a, b, spec(&[2, 3, 4, 2], &[2, 3, 4, 2]));
    let product = Matmul { precision: Precision::High, ..product }.check().unwrap();
    cases.push(Case::new("matmul", product, vec![Values::Spread(60); 2]));

    let start = std::time::Instant::now();
    let outcomes = cases.iter().map(|case| (&case.name, run_case(&device, case, 0)));
    let failed: Vec<_> = outcomes.filter(|(_, outcome)| !matches!(outcome, Outcome::Pass { .. })).collect();
    assert!(failed.is_empty(), "{kernel}: {} of {} failed: {failed:#?}", failed.len(), cases.len());
    let names = device.backend_as::<Interpreted>().expect("the interpreter").names();
    let products = names.iter().filter(|name| name.ends_with("_split")).count();
    println!("{kernel}: {} cases, {products} kernels, {:.1} s", cases.len(), start.elapsed().as_secs_f64());
    assert!(cases.len() >= 6 && products > 0, "{} cases, {names:?}", cases.len());
}

#[test]
fn f32_split_into_parts_of_f16_conforms() {
    let high = &[Precision::High];
    for kernel in ["coop16_w64x64_128x128x32_split", "coop16_w32x32_64x64x64_split"] {
        split_products_by(kernel, high, RunOptions::strict(), |_| {});
    }
    let kernel = "coop16_w16x16_32x32x32_split";
    split_products_by(kernel, &[Precision::Highest, Precision::High], RunOptions::strict(), |_| {});
    let shuffled = RunOptions { shuffle: Some(1), perturb: Some(2), ..RunOptions::default() };
    split_products_by(kernel, high, shuffled, |_| {});
    split_products_by(kernel, high, RunOptions::strict(), |backend| backend.caps.subgroups = Some((4, 16)));
}

/// Operands that are packed first: lines that start anywhere in a word, with neighbours side by side and apart, longer and
/// shorter than a vector's multiple, along either dimension.
#[test]
fn packed_operands_conform_wherever_their_lines_start() {
    for dtype in [DType::I8, DType::F16, DType::F32] {
        let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
        backend.prefer = "coop16_w16x16_32x32x32_packed".to_owned();
        let device = Device::new(backend);
        let lengths = [1, 2, 3].into_iter().flat_map(|near: u64| [65, 67, 131].map(|length: u64| (near, length)));
        for (case, (near, length)) in (0..).zip(lengths) {
            // An operand of `lines` lines; what lies beside the matrix is garbage.
            let operand = |lines: u64, along_last: bool, offset: u64| {
                let far = 64 * near * length.div_ceil(64) + 1 + 2 * (case % 2);
                let (shape, strides) =
                    if along_last { ([lines, length], [far, near]) } else { ([length, lines], [near, far]) };
                let strides = strides.map(u64::cast_signed);
                TensorSpec::new(dtype, Layout::strided(Shape::new(&shape).unwrap(), &strides, offset).unwrap())
            };
            let dense = |rows, cols| {
                let to = Matmul::output_dtype(dtype).unwrap();
                TensorSpec::new(to, Layout::contiguous(Shape::new(&[rows, cols]).unwrap()))
            };
            // Both along K, then A along M and B along N.
            for (a, b, output) in [
                (operand(5, true, case % 4), operand(7, false, 1 + case), dense(5, 7)),
                (operand(9, false, 3 + case), operand(9, true, case), dense(length, length)),
            ] {
                let product = Matmul { precision: Precision::Low, ..Matmul::product(a, b, output) };
                let values = vec![Values::Integers(-4, 4); 2];
                let case = Case::new("matmul", product.check().unwrap(), values).exact();
                let outcome = run_case(&device, &case, 0);
                assert!(matches!(outcome, Outcome::Pass { .. }), "{}: {outcome:?}", case.name);
            }
        }
        let names = device.backend_as::<Interpreted>().expect("the interpreter").names();
        for form in ["", "_strided"] {
            let packs = format!("matmul_pack_{}bit{form}", 8 * dtype.size_bytes());
            assert!(names.contains(&packs), "{names:?}");
        }
    }
}

#[test]
fn every_tile_of_grouped_products_conforms() {
    for (tile, dtype) in [("64x64x16", DType::F16), ("32x64x16", DType::I8), ("64x128x16", DType::F32)] {
        let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
        backend.prefer = tile.to_owned();
        let device = Device::new(backend);
        let report = run(&device, &further("grouped_matmul", dtype), &mut |_| {});
        let names = device.backend_as::<Interpreted>().expect("the interpreter").names();
        assert!(names.iter().any(|name| name.ends_with(tile)), "{names:?}");
        assert!(report.ok(), "{tile}: {}", report.problem().unwrap_or_default());
    }
}

/// Attention of f16 on cooperative matrices, in order and in any, and by the plain kernel, which is not the planner's first: a part of the cases
/// each day.
#[test]
fn both_kernels_of_attention_of_f16_conform() {
    let shuffled = RunOptions { shuffle: Some(1), perturb: Some(2), ..RunOptions::default() };
    for (cooperative, options, parts) in
        [(true, RunOptions::strict(), 2), (true, shuffled, 4), (false, RunOptions::strict(), 4)]
    {
        let mut backend = Interpreted::new(Target::new(9, 0), options);
        if !cooperative {
            backend.caps.cooperative.clear();
        }
        let device = Device::new(backend);
        let start = std::time::Instant::now();
        let selection = Selection { part: part(parts), filter: variable("POLYWARP_TEST_FILTER"), ..attention_of_f16() };
        let report = run(&device, &selection, &mut |_| {});
        let names = device.backend_as::<Interpreted>().expect("the interpreter").names();
        println!("cooperative: {cooperative}, {:.1} s\n{report}", start.elapsed().as_secs_f64());
        for kernel in ["attention_cooperative", "attention_queries_cooperative", "attention_keys_cooperative"] {
            assert_eq!(names.iter().any(|name| name.starts_with(kernel)), cooperative, "{kernel} of {names:?}");
        }
        assert!(report.ok(), "{}", report.problem().unwrap_or_default());
    }
}

fn attention_of_f16() -> Selection {
    Selection { dtype: Some(DType::F16), ..Selection::family("attention") }
}

/// A name of an operation, and which of its cases of f16 is wanted.
type Wanted = (&'static str, fn(&Case) -> bool);

/// Each part of those kernels is needed: without it a race is found, or a wrong result.
#[test]
fn attention_without_one_of_its_parts_is_caught() {
    let family = REGISTRY.iter().find(|family| family.name == "attention").expect("attention");
    let cases = (family.cases)(Level::Quick);
    // Scores that grow; several blocks; a value that only the last query sees and is NaN, and such a key; keys behind the last.
    let growing: Wanted = ("attention", |case| case.name.contains("[1,20,2,64]") && case.name.contains(" scale"));
    let blocks: Wanted = ("attention_gradient", |case| case.name.contains("[1,70,2,128]"));
    let value: Wanted = ("attention", |case| case.name.contains(" causal") && case.values[2].name() == "nan@last");
    let key: Wanted =
        ("attention_gradient", |case| case.name.contains(" causal") && case.values[1].name() == "nan@last");
    let ends: Wanted = ("attention", |case| case.name.contains("[1,70,2,128]"));
    // Of barriers, what their comments begin with: the line is left out.
    for (wanted, part, instead) in [
        (growing, "workgroupBarrier(); // own rows are there", "//"),
        (growing, "workgroupBarrier(); // the first keys", "//"),
        (growing, "workgroupBarrier(); // scores are written", "//"),
        (growing, "workgroupBarrier(); // shares, values", "//"),
        (growing, "workgroupBarrier(); // values have been read", "//"),
        (growing, "workgroupBarrier(); // the next keys", "//"),
        (growing, "atomicStore(&flags[RAISED], 1u)", "atomicStore(&flags[RAISED], 0u)"),
        (value, "turns = 2u", "turns = 1u"),
        (ends, "key0 + KEYS <= params.keys", "true"),
        (blocks, "workgroupBarrier(); // own rows are there", "//"),
        (blocks, "workgroupBarrier(); // the first rows", "//"),
        (blocks, "workgroupBarrier(); // scores are written", "//"),
        (blocks, "workgroupBarrier(); // shares are there", "//"),
        (blocks, "workgroupBarrier(); // rows and shares have been read", "//"),
        (blocks, "workgroupBarrier(); // the next rows", "//"),
        (key, "turns = 2u", "turns = 1u"),
    ] {
        let (name, is_wanted) = wanted;
        let of_f16 = |case: &&Case| case.name.starts_with(&format!("attention/{name} f16")) && is_wanted(case);
        let case = cases.iter().find(of_f16).unwrap_or_else(|| panic!("no case of {name} for {part}"));
        let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
        backend.change_part = Some((part, instead));
        let device = Device::new(backend);
        let outcome = run_case(&device, case, 0);
        let changed = device.backend_as::<Interpreted>().expect("the interpreter").changed();
        assert!(changed > 0 && matches!(outcome, Outcome::Fail(_)), "without {part}, {changed} times: {outcome:?}");
    }
}

/// Matrices of 8, as Metal and some Vulkan drivers have them, spelt out by the test.
#[test]
fn products_of_matrices_of_8_conform() {
    let eight = |factors| Cooperative { size: 8, factors, sum: DType::F32 };
    for (kernel, dtype) in [("coop8", DType::F32), ("coop8_w32x32", DType::F16), ("coop8_w16x16", DType::F16)] {
        products_by(kernel, dtype, |backend| {
            backend.caps.cooperative = vec![eight(DType::F32), eight(DType::F16)];
            backend.change_wgsl = interpreted::cooperative::spell_out;
        });
    }
}

/// Devices that have several sizes of subgroups do not say which one they take.
#[test]
fn products_do_not_depend_on_the_size_of_subgroups() {
    for range in [(4, 64), (4, 16)] {
        for kernel in ["coop16_w64x64_128x128x32", "coop16_w16x16"] {
            products_by(kernel, DType::F16, |backend| backend.caps.subgroups = Some(range));
        }
    }
}

/// Of cases that run in order as well, on one day or another, a part.
#[test]
fn any_order_and_the_worst_approximations_conform() {
    let options = RunOptions { shuffle: Some(1), perturb: Some(2), ..RunOptions::default() };
    let families: Vec<&str> = REGISTRY.iter().map(|family| family.name).collect();
    conforms(&families, Target::OLDEST, &options, 48, None);
}

/// The checks see something: kernels without their barriers do not pass.
#[test]
fn kernels_without_barriers_are_caught() {
    // One quarter of the cases, and as many races, unless all are asked for.
    let (part, quarters) = if part(4) == Part::ALL { (Part::ALL, 4) } else { (Part::first(4), 1) };
    for (family, of_all) in [("reduce", 50), ("softmax", 10), ("matmul", 50)] {
        let mut backend = Interpreted::new(Target::new(9, 0), RunOptions::strict());
        backend.change_text = |text| text.replace("bar.sync 0;", "fence.acq_rel.cta;");
        let report = run(&Device::new(backend), &Selection { part, ..Selection::family(family) }, &mut |_| {});
        let found =
            |failure: &&Failure| failure.message.contains("race") || failure.message.contains("before it is written");
        let races = report.failures.iter().filter(found).count();
        assert!(races >= of_all * quarters / 4, "{family}: {races} races found; {report}");
    }
}
