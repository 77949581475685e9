//! Running a batch that may not fit: in ever smaller slices, until it does.
//!
//! Only [`Error::OutOfMemory`] is retried; it is the one error that smaller slices can cure. [`Device::fits`] tells
//! beforehand for a single op; this is for whole computations, whose intermediates nobody knows in advance.
//!
//! [`Device::fits`]: crate::Device::fits

use std::ops::Range;

use crate::{Error, Result, Tensor};

/// Calls `work` for consecutive ranges that cover `0..total`, and collects its results in order. The first range is all of
/// it; whenever `work` fails for lack of memory the range is halved and tried again, and stays that small.
///
/// `work` may be called several times for one index, so it should only return what it computes. Results that stay on the
/// device take memory too: read them back in `work`, or use [`Tensor::in_batches`].
///
/// ```
/// use polywarp_core::{Device, Tensor, in_batches};
///
/// let device = Device::cpu();
/// let images = vec![0.5_f32; 1000 * 64];
/// let sums: Vec<Vec<f32>> = in_batches(1000, |rows| {
///     let data = &images[64 * rows.start as usize..64 * rows.end as usize];
///     let batch = Tensor::from_slice(&device, data, [rows.end - rows.start, 64])?;
///     batch.sum(1)?.to_vec()
/// })?;
/// assert_eq!(sums.concat(), vec![32.0; 1000]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfMemory`] when a single index does not fit; every other error of `work`.
pub fn in_batches<T>(total: u64, mut work: impl FnMut(Range<u64>) -> Result<T>) -> Result<Vec<T>> {
    let (mut results, mut start, mut size) = (Vec::new(), 0, total);
    while start < total {
        let end = total.min(start + size);
        match work(start..end) {
            Ok(result) => {
                results.push(result);
                start = end;
            }
            Err(Error::OutOfMemory { .. }) if end - start > 1 => size = (end - start).div_ceil(2),
            Err(error) => return Err(error),
        }
    }
    Ok(results)
}

impl Tensor {
    /// Calls `work` on slices of `inputs` along their first axis, as many at a time as there is memory for (see
    /// [`in_batches`]), and puts its results together along theirs. `work` treats each index of the axis by itself: a slice
    /// of n indices gives a result whose first extent is n.
    ///
    /// The whole result lies on the inputs' device; `work`'s intermediates are what is kept small.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] when the inputs' first extents differ, or results do not fit together;
    /// [`Error::InvalidArgument`] without inputs or for an input of rank 0; [`Error::DTypeMismatch`],
    /// [`Error::DeviceMismatch`] for results that differ; [`Error::OutOfMemory`] when a single index, or the whole result,
    /// does not fit; every other error of `work`.
    pub fn in_batches(inputs: &[&Tensor], mut work: impl FnMut(&[Tensor]) -> Result<Tensor>) -> Result<Tensor> {
        const OP: &str = "in_batches";
        let invalid = |reason: &str| Error::InvalidArgument { what: "inputs", reason: reason.to_owned() };
        let &first = inputs.first().ok_or_else(|| invalid("in_batches needs at least one tensor"))?;
        for input in inputs {
            if input.rank() == 0 {
                return Err(invalid("in_batches slices the first axis, and a tensor of rank 0 has none"));
            }
            if input.dims()[0] != first.dims()[0] {
                return Err(Error::shape_mismatch(OP, first.shape(), input.shape(), Some(0)));
            }
        }
        let total = first.dims()[0];
        let mut run = |range: Range<u64>| -> Result<Tensor> {
            let count = range.end - range.start;
            let slices = inputs.iter().map(|input| input.slice(0, range.clone())).collect::<Result<Vec<_>>>()?;
            let part = work(&slices)?;
            if part.dims().first() != Some(&count) {
                let (lhs, rhs) = (part.dims().to_vec(), vec![count]);
                return Err(Error::ShapeMismatch { op: OP, lhs, rhs, axis: Some(0) });
            }
            Ok(part)
        };
        if total == 0 {
            return run(0..0);
        }
        let mut whole: Option<Tensor> = None;
        in_batches(total, |range| {
            let part = run(range.clone())?;
            if range == (0..total) {
                whole = Some(part);
                return Ok(());
            }
            let whole = match &whole {
                Some(whole) => whole,
                None => {
                    let mut dims = part.dims().to_vec();
                    dims[0] = total;
                    let empty = Tensor::empty(part.device(), part.dtype(), crate::Shape::new(&dims)?)?;
                    whole.insert(empty)
                }
            };
            if whole.dims()[1..] != part.dims()[1..] {
                return Err(Error::shape_mismatch(OP, whole.shape(), part.shape(), None));
            }
            whole.slice(0, range)?.assign(&part)
        })?;
        whole.ok_or_else(|| invalid("in_batches did nothing"))
    }
}
