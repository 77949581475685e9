//! Buffers: of other devices, too large, too many, aliased, and views that leave them.

use super::{Answer, must, ones, refused};
use crate::harness::ReferenceBackend;
use crate::ops::Copy;
use crate::{DType, Device, Error, Expr, Layout, Op, Shape, Tensor, TensorSpec};

pub(super) fn two_devices(device: &Device) -> Answer {
    let other = Device::new(ReferenceBackend::new("elsewhere"));
    let (a, b) = (ones(device, &[2, 2])?, ones(&other, &[2, 2])?);
    let is = |op| {
        let here = device.id().to_owned();
        move |e: &Error| matches!(e, Error::DeviceMismatch { op: o, lhs, rhs } if *o == op && *lhs == here && rhs == "elsewhere")
    };
    refused("add across devices", a.add(&b), is("add"))?;
    refused("matmul across devices", a.matmul(&b), is("matmul"))?;
    refused("assign across devices", a.assign(&b), is("assign"))
}

pub(super) fn foreign(device: &Device) -> Answer {
    let other = Device::new(ReferenceBackend::new("elsewhere"));
    let (theirs, mine) = (ones(&other, &[4])?, ones(device, &[4])?);
    let op = Op::from(must(Copy::new(theirs.spec(), mine.spec()))?);
    let is = |e: &Error| matches!(e, Error::DeviceMismatch { .. });
    refused("copy from a foreign buffer", device.execute(&op, &[theirs.buffer()], &[mine.buffer()]), is)?;
    refused("read of a foreign buffer", device.backend().read_blocking(theirs.buffer(), 0..4), is)?;
    refused("write to a foreign buffer", device.backend().write(theirs.buffer(), 0, &[0; 4]), is)
}

pub(super) fn overlapping_output(device: &Device) -> Answer {
    let (source, one) = (ones(device, &[4])?, ones(device, &[1])?);
    let view = must(one.broadcast_to([4]))?;
    refused(
        "assign to a broadcast view",
        view.assign(&source),
        |e| matches!(e, Error::OverlappingOutput { op: "copy", shape, strides } if shape == &[4] && strides == &[0]),
    )?;
    refused("numbers written to a broadcast view", view.write(&[1f32; 4]), |e| {
        matches!(e, Error::OverlappingOutput { .. })
    })
}

pub(super) fn view_bounds(device: &Device) -> Answer {
    let x = ones(device, &[4])?;
    let layout = must(Layout::strided(must(Shape::new(&[4]))?, &[1_000_000], 0))?;
    let have = x.buffer().size_bytes() / 4;
    let view = Tensor::from_buffer(device, x.buffer().clone(), DType::F32, layout);
    refused(
        "a view past its storage",
        view,
        |e| matches!(e, Error::ViewOutOfBounds { needed: 3_000_001, have: h } if *h == have),
    )?;
    let op = Op::from(must(Copy::new(TensorSpec::new(DType::F32, layout), x.spec()))?);
    let out = ones(device, &[4])?;
    refused("an op past its input", device.execute(&op, &[x.buffer()], &[out.buffer()]), |e| {
        matches!(e, Error::ViewOutOfBounds { needed: 3_000_001, .. })
    })
}

pub(super) fn negative_reach(_: &Device) -> Answer {
    let shape = must(Shape::new(&[3]))?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "strides", .. });
    refused("a view before its storage", Layout::strided(shape, &[-1], 1), is)?;
    refused("two strides for rank 1", Layout::strided(shape, &[1, 1], 0), is)?;
    refused("strides beyond 64 bits", Layout::strided(shape, &[i64::MAX], 0), is)
}

pub(super) fn buffer_too_big(device: &Device) -> Answer {
    let limits = device.info().limits;
    let Some(size) = limits.max_buffer_bytes.checked_add(1).filter(|&size| size < 1 << 60) else {
        return Ok(()); // the device sets no limit that a request could pass
    };
    refused("a buffer over the limit", device.backend().alloc(size), |e| match e {
        Error::BufferTooBig { device: named, requested, max } => {
            named == device.id() && *requested == size && *max == limits.max_buffer_bytes
        }
        Error::BindingTooLarge { device: named, size: asked, limit } => {
            named == device.id() && *asked == size && *limit == limits.max_binding_bytes
        }
        _ => false,
    })
}

pub(super) fn memory_limit(device: &Device) -> Answer {
    let kept = ones(device, &[1000])?;
    device.empty_cache();
    let before = device.memory();
    let limit = before.in_use_bytes + before.cached_bytes + (1 << 20);
    device.set_memory_limit(Some(limit));
    let result = refused("8 MiB under a limit of 1 MiB more", device.backend().alloc(8 << 20), |e| {
        matches!(e, Error::OutOfMemory { device: named, requested, in_use, limit: Some(l), .. }
            if named == device.id() && *requested >= 8 << 20 && *in_use >= 4000 && *l == limit)
    });
    device.set_memory_limit(before.limit_bytes);
    result?;
    // Nothing stored is lost, and with the limit lifted the same request is met.
    drop(must(device.backend().alloc(8 << 20))?);
    let values: Vec<f32> = must(kept.to_vec())?;
    if values.iter().all(|&x| x == 1.0) { Ok(()) } else { Err("a stored tensor changed".to_owned()) }
}

pub(super) fn aliased_output(device: &Device) -> Answer {
    let x = ones(device, &[8])?;
    let op = Op::from(must(Copy::new(x.spec(), x.spec()))?);
    refused("a copy onto itself", device.execute(&op, &[x.buffer()], &[x.buffer()]), |e| {
        matches!(e, Error::InvalidArgument { what: "output", .. })
    })
}

pub(super) fn buffer_count(device: &Device) -> Answer {
    let (x, y) = (ones(device, &[8])?, ones(device, &[8])?);
    let op = Op::from(must(Copy::new(x.spec(), y.spec()))?);
    refused("a copy of nothing", device.execute(&op, &[], &[y.buffer()]), |e| {
        matches!(e, Error::InvalidArgument { what: "inputs", .. })
    })
}

pub(super) fn updates(device: &Device) -> Answer {
    let (x, y) = (ones(device, &[8])?, ones(device, &[8])?);
    let is = |what: &'static str| move |e: &Error| matches!(e, Error::InvalidArgument { what: w, .. } if *w == what);
    let sum = || Expr::input(0) + Expr::input(1);
    let part = |tensor: &Tensor| must(tensor.slice(0, 0..4));
    refused("one buffer updated twice", Tensor::update(&[sum(), sum()], &[], &[&x, &x]), is("output"))?;
    refused("what is updated read as well", part(&x)?.add_(&must(x.slice(0, 4..8))?), is("output"))?;
    refused("every second element updated", must(x.slice_step(0, 0..8, 2))?.add_scalar_(1), is("output"))?;
    refused("more to update than expressions", Tensor::update(&[sum()], &[], &[&x, &y]), is("outputs"))?;
    refused("nothing to update", Tensor::update(&[sum()], &[&x, &y], &[]), is("updated"))?;
    refused("updates of two shapes", Tensor::update(&[sum(), sum()], &[], &[&x, &part(&y)?]), |e| {
        matches!(e, Error::ShapeMismatch { op: "update", .. })
    })?;
    refused("an input that does not fit", x.add_(&ones(device, &[3])?), |e| matches!(e, Error::ShapeMismatch { .. }))?;
    refused(
        "a bool for a float",
        Tensor::update(&[Expr::input(0).compare(crate::CompareFn::Gt, 0)], &[], &[&x]),
        |e| matches!(e, Error::DTypeMismatch { op: "update", .. }),
    )?;
    // Nothing of all this reached them.
    let values: Vec<f32> = [must(x.to_vec())?, must(y.to_vec())?].concat();
    if values == [1.0; 16] { Ok(()) } else { Err(format!("tensors were changed: {values:?}")) }
}
