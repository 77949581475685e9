//! Tests of `bind.rs`, on memory that is only a number.

use polywarp_core::pool::{Pool, PoolOptions, Reuse};

use super::*;

/// A source of nothing: its blocks are all an application's.
#[derive(Debug)]
struct Nothing;

/// Which memory it is; from 100 on it cannot be a uniform.
#[derive(Debug)]
struct Fake(u32);

impl Source for Nothing {
    type Block = Fake;

    fn allocate(&self, _: u64) -> Result<Option<Fake>> {
        Ok(None)
    }

    fn reclaim(&self) -> Result<()> {
        Ok(())
    }
}

impl Bindable for Fake {
    fn is_same(&self, other: &Fake) -> bool {
        self.0 == other.0
    }

    fn refuses(&self, usage: BufferUse) -> Option<String> {
        (self.0 >= 100 && usage == BufferUse::Uniform).then(|| "no uniform".to_owned())
    }
}

fn buffer(identity: u32, size_bytes: u64) -> Buffer {
    let options = PoolOptions { device: "fake:0".to_owned(), max_block_bytes: 0, limit_bytes: None, reuse: Reuse::Off };
    let lease = Arc::new(Pool::new(Nothing, options)).adopt(Fake(identity), size_bytes.next_multiple_of(16));
    Buffer::new(size_bytes, Arc::new(Arc::new(lease)))
}

fn limits() -> LaunchLimits {
    LaunchLimits {
        device: "fake:0".to_owned(),
        workgroup_size: [256, 256, 64],
        invocations: 256,
        workgroups: [1 << 20, 8, 4],
        workgroup_bytes: 1024,
        private_bytes: 64,
        buffers: 4,
        storage_buffers: 3,
        uniform_buffers: 2,
        groups: 4,
        bindings_per_group: 8,
        uniform: RangeLimits { align_bytes: 64, max_bytes: 64 },
        storage: RangeLimits { align_bytes: 16, max_bytes: 1024 },
    }
}

fn info(binding: u32, usage: BufferUse, min_bytes: u64) -> BufferInfo {
    BufferInfo { group: 0, binding, name: format!("b{binding}"), usage, min_bytes, element_bytes: None }
}

fn interface(buffers: Vec<BufferInfo>) -> Interface {
    Interface {
        entry: "main".to_owned(),
        declared: buffers.iter().map(|b| (b.group, b.binding)).chain([(0, 7)]).collect(),
        buffers,
        workgroup_size: [64, 1, 1],
        workgroup_bytes: 0,
        private_bytes: 0,
        constants: Vec::new(),
    }
}

fn at(binding: u32, buffer: &Buffer, range: std::ops::Range<u64>) -> Binding {
    Binding { group: 0, binding, buffer: buffer.clone(), range }
}

/// Offset and bytes of each checked binding.
fn check(interface: &Interface, bindings: &[Binding]) -> Result<Vec<(u64, u64)>> {
    let checked = interface.check_bindings(&limits(), bindings, |buffer| {
        buffer.downcast::<Arc<Lease<Nothing>>>().ok_or_else(|| polywarp_core::foreign_buffer("fake:0"))
    })?;
    Ok(checked.iter().map(|binding| (binding.offset_bytes, binding.bytes)).collect())
}

fn reason(result: Result<Vec<(u64, u64)>>) -> (u32, String) {
    match result {
        Err(Error::Binding { group: 0, binding, reason }) => (binding, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn kernel_sees_whole_words_of_storage_and_whole_vectors_of_a_uniform() {
    let interface =
        interface(vec![info(0, BufferUse::Uniform, 4), info(1, BufferUse::Read, 4), info(2, BufferUse::ReadWrite, 4)]);
    let (a, b, c) = (buffer(1, 128), buffer(2, 102), buffer(3, 6));
    let seen = check(&interface, &[at(2, &c, 0..6), at(0, &a, 64..72), at(1, &b, 16..33)]).unwrap();
    assert_eq!(seen, [(64, 16), (16, 20), (0, 8)]);
    // What a uniform's type does not reach need not fit.
    assert_eq!(check(&interface, &[at(0, &a, 0..128), at(1, &b, 0..4), at(2, &c, 0..4)]).unwrap()[0], (0, 64));
}

#[test]
fn binding_that_does_not_fit_names_its_place_and_why() {
    let interface = interface(vec![info(0, BufferUse::Read, 16), info(1, BufferUse::ReadWrite, 400)]);
    let (x, y, huge) = (buffer(1, 16), buffer(2, 400), buffer(3, 4096));
    let refused = |bindings: &[Binding]| reason(check(&interface, bindings));
    let contains = |bindings: &[Binding], binding: u32, words: &str| {
        let (place, reason) = refused(bindings);
        assert!(place == binding && reason.contains(words), "{place}: {reason}");
    };
    contains(&[at(0, &x, 0..16)], 1, "`b1` here but nothing is bound");
    contains(&[at(5, &x, 0..16)], 5, "declares nothing");
    contains(&[at(0, &x, 0..16), at(0, &x, 0..16)], 0, "twice");
    contains(&[at(0, &x, 0..16), at(1, &x, 0..16)], 1, "needs 400 bytes, 16 are bound");
    contains(&[at(0, &y, 0..400), at(1, &y, 0..400)], 1, "same buffer is bound at 0.0");
    contains(&[at(0, &y, 4..400), at(1, &y, 0..400)], 0, "multiples of 16");
    contains(&[at(0, &x, 0..32), at(1, &y, 0..400)], 0, "0..32 are not in a buffer of 16");
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = at(0, &x, 16..0);
    contains(&[backwards, at(1, &y, 0..400)], 0, "16..0");
    match check(&interface, &[at(0, &huge, 0..4096), at(1, &y, 0..400)]) {
        Err(Error::BindingTooLarge { device, size: 4096, limit: 1024 }) => assert_eq!(device, "fake:0"),
        other => panic!("{other:?}"),
    }
    let foreign = Buffer::new(400, Arc::new(7u32));
    let error = check(&interface, &[at(0, &x, 0..16), at(1, &foreign, 0..400)]);
    assert!(matches!(error, Err(Error::DeviceMismatch { .. })), "{error:?}");
    // A declaration that the entry point does not use may be bound, and need not be.
    check(&interface, &[at(0, &x, 0..16), at(1, &y, 0..400), at(7, &x, 0..16)]).unwrap();
}

#[test]
fn array_of_more_elements_than_wgsl_counts_is_refused() {
    let of = |element_bytes| interface(vec![BufferInfo { element_bytes, ..info(0, BufferUse::Read, 16) }]);
    let limits = LaunchLimits { storage: RangeLimits { align_bytes: 16, max_bytes: u64::MAX }, ..limits() };
    let bytes = (1_u64 << 34) - 4;
    let refused = |interface: &Interface, bytes: u64| {
        let bindings = [at(0, &buffer(1, bytes), 0..bytes)];
        let checked = interface.check_bindings(&limits, &bindings, |buffer| {
            buffer.downcast::<Arc<Lease<Nothing>>>().ok_or_else(|| polywarp_core::foreign_buffer("fake:0"))
        });
        checked.map(|checked| checked[0].bytes).map_err(|error| error.to_string())
    };
    assert_eq!(refused(&of(Some(4)), bytes), Ok(bytes));
    let why = refused(&of(Some(4)), bytes + 4).unwrap_err();
    assert!(why.contains("`b0` would have 4294967296 elements") && why.contains("bind a part"), "{why}");
    assert_eq!(refused(&of(Some(8)), bytes + 4), Ok(bytes + 4));
    // An array of a fixed size has no length to be wrong about.
    assert_eq!(refused(&of(None), bytes + 4), Ok(bytes + 4));
}

#[test]
fn one_buffer_may_be_read_twice_but_a_uniform_not_be_written() {
    let reads = interface(vec![info(0, BufferUse::Read, 4), info(1, BufferUse::Uniform, 4)]);
    let x = buffer(1, 64);
    check(&reads, &[at(0, &x, 0..64), at(1, &x, 0..64)]).unwrap();
    let writes = interface(vec![info(0, BufferUse::ReadWrite, 4), info(1, BufferUse::Uniform, 4)]);
    assert_eq!(reason(check(&writes, &[at(0, &x, 0..64), at(1, &x, 0..64)])).0, 1);
    // Not even where their bytes lie apart.
    let apart = interface(vec![info(0, BufferUse::ReadWrite, 4), info(1, BufferUse::Read, 4)]);
    assert_eq!(reason(check(&apart, &[at(0, &x, 0..16), at(1, &x, 16..64)])).0, 1);
}

#[test]
fn one_buffer_may_be_written_at_two_places_that_lie_apart() {
    let both = interface(vec![info(0, BufferUse::ReadWrite, 4), info(1, BufferUse::ReadWrite, 4)]);
    let (x, y) = (buffer(1, 64), buffer(2, 64));
    check(&both, &[at(0, &x, 0..64), at(1, &y, 0..64)]).unwrap();
    for (first, second) in [(0..32, 32..64), (48..64, 0..48), (0..16, 48..64)] {
        check(&both, &[at(0, &x, first), at(1, &x, second)]).unwrap();
    }
    for (first, second) in [(0..64, 0..64), (0..48, 32..64), (32..64, 0..48), (16..32, 0..64), (0..13, 0..4)] {
        let (place, why) = reason(check(&both, &[at(0, &x, first), at(1, &x, second)]));
        assert!(place == 1 && why.contains("same buffer is bound at 0.0") && why.contains("share bytes"), "{why}");
    }
}

#[test]
fn uniform_is_refused_where_the_memory_or_the_device_does_not_take_it() {
    let small = interface(vec![info(0, BufferUse::Uniform, 16)]);
    assert_eq!(reason(check(&small, &[at(0, &buffer(100, 64), 0..64)])), (0, "no uniform".to_owned()));
    let large = interface(vec![info(0, BufferUse::Uniform, 80)]);
    let (_, why) = reason(check(&large, &[at(0, &buffer(1, 80), 0..80)]));
    assert!(why.contains("at most 64 bytes") && why.contains("storage"), "{why}");
}

#[test]
fn resources_and_grid_are_refused_dimension_by_dimension() {
    let limits = limits();
    let fits = interface(vec![info(0, BufferUse::Read, 4)]);
    limits.check_resources(&fits).unwrap();
    let kind = |change: &dyn Fn(&mut Interface)| {
        let mut changed = fits.clone();
        change(&mut changed);
        match limits.check_resources(&changed) {
            Err(Error::ResourceLimit { device, kind, requested, max }) => {
                assert!(device == "fake:0" && requested > max);
                kind
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(kind(&|i| i.workgroup_size = [257, 1, 1]), "invocations per workgroup along x");
    assert_eq!(kind(&|i| i.workgroup_size = [1, 1, 65]), "invocations per workgroup along z");
    assert_eq!(kind(&|i| i.workgroup_size = [16, 16, 2]), "invocations per workgroup");
    assert_eq!(kind(&|i| i.workgroup_size = [u32::MAX; 3]), "invocations per workgroup along x");
    assert_eq!(kind(&|i| i.private_bytes = u64::MAX), "bytes of private variables");
    assert_eq!(kind(&|i| i.workgroup_bytes = 1025), "bytes of workgroup memory");
    assert_eq!(kind(&|i| i.buffers = (0..4).map(|b| info(b, BufferUse::Read, 4)).collect()), "storage buffers");
    assert_eq!(kind(&|i| i.buffers = (0..3).map(|b| info(b, BufferUse::Uniform, 4)).collect()), "uniform buffers");
    let mixed = |b| info(b, if b < 2 { BufferUse::Uniform } else { BufferUse::Read }, 4);
    assert_eq!(kind(&|i| i.buffers = (0..5).map(mixed).collect()), "buffers");
    assert_eq!(kind(&|i| i.buffers[0].group = 4), "bind groups");
    assert_eq!(kind(&|i| i.buffers[0].binding = u32::MAX), "bindings in a group");

    limits.check_grid([1 << 20, 8, 4]).unwrap();
    limits.check_grid([0, 0, 0]).unwrap();
    for grid in [[(1 << 20) + 1, 1, 1], [1, 9, 1], [0, 1, 5]] {
        match limits.check_grid(grid) {
            Err(Error::DispatchTooLarge { grid: told, max, .. }) => assert_eq!((told, max), (grid, [1 << 20, 8, 4])),
            other => panic!("{other:?}"),
        }
    }
}
