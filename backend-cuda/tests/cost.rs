//! What the host pays per call, and what the first call pays. Figures are printed; limits are loose, for shared machines.

mod common;

use std::time::Instant;

use common::first;
use polywarp_core::ops::{Matmul, Reduce};
use polywarp_core::{Backend, DType, Device, Layout, Op, ReduceFn, Shape, Tensor, TensorSpec};

fn spec(dims: &[u64]) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// Host time in microseconds of the driver's own launch of a kernel that does nothing: below it nobody comes. `None` on the
/// interpreted driver.
fn driver_alone() -> Option<f64> {
    use polywarp_cuda::cudarc::driver::{CudaContext, result};
    if common::interpreted() {
        return None;
    }
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let text = c".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing(.param .u64 x) { ret; }\n";
    let mut argument = 0u64;
    // SAFETY: the text ends in zero; the module stays loaded to the end of the process; the kernel has one parameter, which
    // it does not read.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast()).unwrap();
        let function = result::module::get_function(module, c"nothing".to_owned()).unwrap();
        let mut best = f64::MAX;
        for _ in 0..6 {
            let start = Instant::now();
            for _ in 0..500 {
                let mut params = [(&raw mut argument).cast()];
                result::launch_kernel(function, (1, 1, 1), (256, 1, 1), 0, stream.cu_stream(), &mut params).unwrap();
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e6 / 500.0);
            stream.synchronize().unwrap();
        }
        Some(best)
    }
}

#[test]
fn host_cost_of_operations_launches_and_replays() {
    let Some(backend) = first() else { return };
    let device = Device::new(backend);
    let x = Tensor::full(&device, DType::F32, [256], 1.0).unwrap();
    let y = Tensor::full(&device, DType::F32, [256], 2.0).unwrap();
    let per_call = |what: &str, count: u32, call: &mut dyn FnMut()| {
        (0..100).for_each(|_| call());
        device.synchronize().unwrap();
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            (0..count).for_each(|_| call());
            let us = start.elapsed().as_secs_f64() * 1e6 / f64::from(count);
            device.synchronize().unwrap();
            best = best.min(us);
        }
        println!("{what}: {best:.2} us of host time");
        best
    };
    if let Some(alone) = driver_alone() {
        println!("the driver's own launch of an empty kernel: {alone:.2} us of host time");
    }
    // Few enough calls that the driver's queue (1024 launches) does not fill up.
    let add = per_call("add of 256 elements", 500, &mut || drop(x.add(&y).unwrap()));
    per_call("sum of 256 elements", 300, &mut || drop(x.sum(..).unwrap()));
    let sum = Reduce::new(ReduceFn::Sum, spec(&[256, 256]), &[1], spec(&[256])).unwrap().into();
    let rows = Tensor::full(&device, DType::F32, [256, 256], 1.0).unwrap();
    let sums = Tensor::full(&device, DType::F32, [256], 0.0).unwrap();
    let backend = device.backend_as::<polywarp_cuda::CudaBackend>().unwrap();
    let plan = polywarp_core::ops::plan(&sum, backend.caps()).unwrap();
    assert_eq!(plan.launches.len(), 1);
    per_call("launch of a planned kernel", 500, &mut || {
        backend.run_plan(&plan, &[rows.buffer()], &[sums.buffer()]).unwrap();
    });
    // What choosing a kernel costs once the key is decided: the operation, beside the launch of its plan.
    let n = common::scaled(64, 8) as u64;
    let product: Op = Matmul::product(spec(&[n, n]), spec(&[n, n]), spec(&[n, n])).check().unwrap().into();
    let operands: Vec<Tensor> = (0..3).map(|_| Tensor::full(&device, DType::F32, [n, n], 1.0).unwrap()).collect();
    let inputs = [operands[0].buffer(), operands[1].buffer()];
    let chosen = per_call("product, decided", 300, &mut || {
        backend.execute(&product, &inputs, &[operands[2].buffer()]).unwrap();
    });
    let planned = per_call("product, planned each time", 300, &mut || {
        let plan = polywarp_core::ops::plan(&product, backend.caps()).unwrap();
        backend.run_plan(&plan, &inputs, &[operands[2].buffer()]).unwrap();
    });
    println!("choosing costs {:.2} us more than planning", chosen - planned);
    let step = device.record(|| (0..50).try_fold(x.clone(), |z, _| z.add(&y))).unwrap();
    let replay = per_call("replay of 50 launches", 20, &mut || {
        step.replay().unwrap();
    }) / 50.0;
    println!("replay, per launch: {replay:.2} us of host time");
    assert!(add < 50.0 && replay < 20.0, "{add} {replay}");
}

#[test]
fn first_result_is_not_long_in_coming() {
    let start = Instant::now();
    let Some(backend) = first() else { return };
    let opened = start.elapsed();
    let device = Device::new(backend);
    let n = common::scaled(1024, 64) as u64;
    let a = Tensor::full(&device, DType::F32, [n, n], 0.5).unwrap();
    let product = a.matmul(&a).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(product[0], n as f32 / 4.0);
    println!("device open after {opened:?}, first {n}^3 product read after {:?}", start.elapsed());
}
