//! What the host does for one operation before a driver is called: checking, compiling the expression, planning. Counted in
//! heap allocations, which no busy machine changes; the time is printed beside them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

use polywarp_core::harness::{ReferenceBackend, Wrap, Wrapped};
use polywarp_core::plan::Caps;
use polywarp_core::{Backend, Buffer, DType, Device, Expr, Missing, Op, Result, Tensor};

/// The system's allocator, counting what the calling thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Not there while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A device that plans and computes nothing.
#[derive(Debug)]
struct Planning {
    host: ReferenceBackend,
    caps: Caps,
}

impl Wrap for Planning {
    fn inner(&self) -> &dyn Backend {
        &self.host
    }

    fn execute(&self, op: &Op, _: &[&Buffer], _: &[&Buffer]) -> Result<()> {
        let plan = polywarp_core::ops::plan(op, &self.caps)?;
        assert_eq!(std::hint::black_box(plan).launches.len(), 1);
        Ok(())
    }
}

/// Allocations of one call, printed with its time.
fn allocations(what: &str, mut call: impl FnMut() -> Result<Tensor>) -> u64 {
    call().unwrap();
    let before = ALLOCATIONS.get();
    call().unwrap();
    let made = ALLOCATIONS.get() - before;
    const CALLS: u32 = 2000;
    let times = (0..5).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| drop(call().unwrap()));
        start.elapsed() / CALLS
    });
    println!("{what}: {made} allocations, {:?}", times.min().unwrap_or_default());
    made
}

#[test]
fn operations_take_few_allocations_of_the_host() {
    let caps = Caps { max_workgroups: [i32::MAX as u32, 65_535, 65_535], ..Caps::webgpu_defaults("plans") };
    let device = Device::new(Wrapped(Planning { host: ReferenceBackend::new("plans"), caps }));
    let vector = |value: f32| Tensor::full(&device, DType::F32, [256], value).unwrap();
    let (x, y) = (vector(1.0), vector(2.0));
    let column = Tensor::full(&device, DType::F32, [16, 1], 1.0).unwrap();
    let matrix = Tensor::full(&device, DType::F32, [16, 16], 1.0).unwrap();
    let add = allocations("add", || x.add(&y));
    let exp = allocations("exp", || x.exp());
    let scaled = allocations("2 x + 1", || Tensor::map(&(Expr::input(0) * 2.0 + 1.0), &[&x]));
    let spread = allocations("add of a column", || matrix.add(&column));
    let sum = allocations("sum of rows", || matrix.sum(1));
    // The operation, and a look at its positions.
    let at = Tensor::zeros(&device, DType::U32, [4]).unwrap();
    let unseen = allocations("take, with any positions", || matrix.take_or(&at, Missing::Zero));
    let take = allocations("take", || matrix.take(&at));
    // As it is today, and one more. What rises here rises for every call of every program.
    assert!(add <= 20 && exp <= 19 && scaled <= 29 && spread <= 28 && sum <= 15, "{add} {exp} {scaled} {spread} {sum}");
    assert!(take <= unseen + 20 && unseen <= 20, "{take} {unseen}");
}
